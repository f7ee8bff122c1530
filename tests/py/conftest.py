"""Every test runs with two devices, the CPU fallback as an error, and a program cache of its own."""

from __future__ import annotations

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    TQDM_DISABLE="1",
    TORCH_TPU_NUM_DEVICES="2",
    TORCH_TPU_CACHE_DIR=os.environ.get("TORCH_TPU_CACHE_DIR", str(ROOT / "build" / "test-cache")),
    TORCH_TPU_FALLBACK="error",
    OMP_NUM_THREADS="1",
)
for name in ("TORCH_TPU_EAGER_MODE", "TPU_LAUNCH_BLOCKING", "TORCH_TPU_DEFER_AND_FUSE", "TORCH_TPU_CACHE"):
    os.environ.pop(name, None)

import pytest  # noqa: E402
import torch  # noqa: E402

MODES = ("strict", "debug", "fused")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of the large model share a worker, which loads it once."""
    for item in items:
        if "smol" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("smol"))


@pytest.fixture(autouse=True)
def _clean():
    """What a test switched is switched back; nothing of it is pending when the next one starts."""
    yield
    if torch.tpu.is_initialized():
        torch.tpu.set_fallback_policy("error")
        torch.tpu.set_eager_mode("strict")
        torch.tpu.set_device(0)


@pytest.fixture(params=MODES)
def mode(request):
    """Runs a test once in each eager mode."""
    with torch.tpu.eager_mode(request.param):
        yield request.param


@pytest.fixture
def fresh():
    """No program in memory, and nothing known of sizes: for tests that count programs."""
    from torch_tpu import _C

    _C.clear_programs()
