"""Our declaration of the PJRT interface against every plugin that is installed: none may want a larger structure than we send."""

from __future__ import annotations

import importlib.metadata
import subprocess

import pytest
from conftest import ROOT
from torch_tpu import _plugins

NAMES = {file for _, file, _, _ in _plugins.CANDIDATES}


def installed() -> list[str]:
    """Files of all distributions that are called as the known plugins are, or as plugins use to be."""
    return sorted(
        {
            str(file.locate())
            for distribution in importlib.metadata.distributions()
            for file in distribution.files or []
            if file.name in NAMES or (file.suffix == ".so" and "pjrt" in file.name and "plugin" in file.name)
        }
    )


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("probe") / "probe")
    include = [f"-I{ROOT}/core", f"-I{ROOT}/tests/c"]
    source = f"{ROOT}/tests/c/probe.c"
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", *include, source, "-o", path, "-ldl"], check=True)
    return path


def test_one_is_installed():
    assert installed()


@pytest.mark.parametrize("plugin", installed(), ids=lambda path: path.rsplit("/", 1)[1])
def test_sizes(probe, plugin):
    done = subprocess.run([probe, plugin], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("api 0."), done.stdout


def test_the_probe_can_fail(probe, tmp_path):
    source = tmp_path / "none.c"
    source.write_text("int nothing;")
    subprocess.run(["gcc", "-shared", "-o", f"{tmp_path}/none.so", str(source)], check=True)
    for path in (f"{tmp_path}/none.so", f"{tmp_path}/missing.so"):
        assert subprocess.run([probe, path], capture_output=True, check=False).returncode == 1
