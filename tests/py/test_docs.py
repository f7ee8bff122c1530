"""Pages that say what the code says: generated ones are fresh, lists are whole."""

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
