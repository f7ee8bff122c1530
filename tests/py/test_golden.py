"""The real plugin accepts every golden text of tests/c/golden."""

import ctypes as C
import glob
import os

import ir_harness
import pytest

FILES = sorted(glob.glob(os.path.join(ir_harness.ROOT, "tests", "c", "golden", "*.mlir")))


@pytest.mark.parametrize("path", FILES, ids=[os.path.basename(f) for f in FILES])
def test_accepted(path):
    lib = ir_harness.load()
    ir_harness.open_plugin()
    text = open(path, "rb").read()
    e = C.c_void_p()
    ir_harness.check(lib.rt_compile(text, C.c_size_t(len(text)), b"a test", None, None, C.byref(e)))
    lib.rt_exec_free(e)
