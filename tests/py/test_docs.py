"""Pages that say what the code says: generated ones are fresh, lists are whole."""

import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT


def test_the_list_of_operators_is_fresh():
    page = (ROOT / "docs" / "operators.md").read_text()
    if f"torch {torch.__version__.split('+')[0]} " not in page:
        pytest.skip("written with another torch")
    now = subprocess.run(
        [sys.executable, ROOT / "tools" / "operators.py"], capture_output=True, text=True, check=True
    )
    assert page == now.stdout, "make docs"


READ = (  # a call that takes a variable's name; our own names wherever they stand
    r'\b\w*env\w*(?:\.get)?[([]"([A-Z][A-Z0-9_]+)"',
    r'"((?:TORCH_TPU|TPU|XLA|LIBTPU)_[A-Z0-9_]+)"',
)
OF_THE_SYSTEM = {"HOME"}
OF_TORCH = {"TORCH_DEVICE_BACKEND_AUTOLOAD"}


def test_every_switch_is_on_the_page():
    read = set()
    for path in (p for folder in ("core", "glue", "python") for p in (ROOT / folder).rglob("*.*")):
        if path.suffix in (".c", ".h", ".cpp", ".py", ".def"):
            text = path.read_text()
            read |= {name for pattern in READ for name in re.findall(pattern, text)}
    page = (ROOT / "docs" / "debugging.md").read_text()
    table = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    told = set(re.findall(r"`\$?([A-Z][A-Z0-9]*_[A-Z0-9_]+)", table))
    assert "TORCH_TPU_EAGER_MODE" in read and "XLA_FLAGS" in read
    assert read - OF_THE_SYSTEM == told - OF_TORCH
