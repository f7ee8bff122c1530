"""Runs builder programs from Python: core/base, core/ir and core/rt as one shared library, through ctypes.

p = Program(); x = p.param(tensor); p.ret(p.b.b_add(x, x)); out = p.run()
A generic dim is given as p.param(t, generic={axis: logical size}) or sizes shared by name: generic={axis: "n"} with
Program(sizes={"n": 5}, rung={"n": 8}, fill=float("nan")): the tensor is padded with `fill` to the rung."""

import ctypes as C
import glob
import hashlib
import math
import os
import subprocess

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAD = -1
MAX_RANK = 32
nan, inf = math.nan, math.inf
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
EDGE = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, nan, inf, -inf, 1e-3, 100.0])


class Dim(C.Structure):
    _fields_ = [("n", C.c_int64), ("sym", C.c_int32)]


class Shape(C.Structure):
    _fields_ = [("rank", C.c_int), ("d", Dim * MAX_RANK)]


class Text(C.Structure):
    _fields_ = [("p", C.c_void_p), ("n", C.c_size_t), ("cap", C.c_size_t)]


I64s = C.c_int64 * MAX_RANK


class Window(C.Structure):
    _fields_ = [(k, I64s) for k in ("size", "stride", "lo", "hi", "base_dilation", "window_dilation")]


class Conv(C.Structure):
    _fields_ = (
        [("spatial", C.c_int)]
        + [(k, C.c_int64 * 3) for k in ("stride", "lo", "hi", "lhs_dilation", "rhs_dilation")]
        + [("feature_groups", C.c_int64), ("batch_groups", C.c_int64), ("flip", C.c_bool)]
        + [("to", C.POINTER(Dim))]
    )


def build():
    src = sorted(
        glob.glob(ROOT + "/core/base/*.c")
        + glob.glob(ROOT + "/core/ir/*.c")
        + glob.glob(ROOT + "/core/rt/*.c")
    )
    src = [s for s in src if not s.endswith("_test.c")]
    head = sorted(glob.glob(ROOT + "/core/*/*.h") + glob.glob(ROOT + "/core/*/*.def"))
    h = hashlib.sha256()
    for s in src + head:
        h.update(open(s, "rb").read())
    out = os.path.join(ROOT, "build", "test_ir", h.hexdigest()[:16] + ".so")
    if not os.path.exists(out):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        tmp = f"{out}.{os.getpid()}"
        cmd = ["gcc", "-std=c11", "-g", "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-I" + ROOT + "/core"]
        subprocess.run(cmd + src + ["-o", tmp, "-ldl", "-lpthread", "-lm"], check=True)
        os.rename(tmp, out)
    return out


def plugin_path():
    p = os.environ.get("TORCH_TPU_PJRT_PLUGIN")
    if not p:
        import lammps_jax_pjrt_cpu

        p = lammps_jax_pjrt_cpu.PLUGIN_PATH
    return str(p)


lib = None


def load():
    global lib
    if lib is None:
        os.environ["TORCH_TPU_PJRT_PLUGIN"] = plugin_path()
        lib = C.CDLL(build())
        for name in (
            "b_create",
            "b_take_error",
            "rt_open",
            "rt_compile",
            "rt_execute",
            "rt_upload",
            "rt_download",
            "b_print",
            "b_verify",
        ):
            getattr(lib, name).restype = C.c_void_p
        lib.tpu_error_message.restype = C.c_char_p
        lib.tpu_error_message.argtypes = [C.c_void_p]
        lib.tpu_error_free.argtypes = [C.c_void_p]
        lib.b_shape.restype = C.POINTER(Shape)
        lib.b_dim_static.restype = C.c_int64
        lib.b_numel_static.restype = C.c_int64
        lib.b_ok.restype = C.c_bool
        lib.b_fail.argtypes = None
    return lib


DT = {}
for i, line in enumerate(l for l in open(ROOT + "/core/base/dtype.def") if l.startswith("DTYPE(")):
    DT[line[6:].split(",")[0]] = i
TORCH = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.complex64: "C64",
    torch.complex128: "C128", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.float8_e5m2: "F8E5M2",
    torch.float8_e4m3fn: "F8E4M3FN", torch.float8_e5m2fnuz: "F8E5M2FNUZ", torch.float8_e4m3fnuz: "F8E4M3FNUZ",
}  # fmt: skip
FROM = {DT[v]: k for k, v in TORCH.items()}


class Error(Exception):
    pass


def check(e):
    if e:
        m = lib.tpu_error_message(e).decode()
        lib.tpu_error_free(e)
        raise Error(m)


opened = False


def open_plugin():
    global opened
    if not opened:
        check(lib.rt_open())
        opened = True


class Verbs:
    """lib.b_*(B, ...) with Python numbers and lists converted."""

    def __init__(self, p):
        self.p = p

    def __getattr__(self, name):
        f = getattr(lib, name)

        def call(*args):
            return f(self.p, *[convert(a) for a in args])

        return call


def convert(a):
    if isinstance(a, float):
        return C.c_double(a)
    if isinstance(a, torch.dtype):
        return C.c_int(DT[TORCH[a]])
    if isinstance(a, Shape):
        return C.byref(a)
    if isinstance(a, (Window, Conv)):
        return C.byref(a)
    return a


def i64(v):
    return (C.c_int64 * max(1, len(v)))(*v)


def vals(v):
    return (C.c_int32 * max(1, len(v)))(*v)


ints = vals


def wide(v):
    return C.c_int64(v)


def shape(*dims):
    s = Shape(rank=len(dims))
    for i, d in enumerate(dims):
        s.d[i] = Dim(*d) if isinstance(d, tuple) else Dim(d, 0)
    return s


class Program:
    def __init__(self, sizes=None, rung=None, fill=float("nan"), masks=True, cpu=True):
        load()
        self.h = C.c_void_p(lib.b_create())
        self.b = Verbs(self.h)
        self.args, self.returned, self.n_out = [], [], 0
        self.syms, self.sizes, self.rung, self.fill = {}, sizes or {}, rung or {}, fill
        lib.b_disable_masks(self.h, not masks)
        lib.b_set_cpu_lowering(self.h, cpu)
        for k, n in self.sizes.items():
            s = self.param(torch.tensor(n, dtype=torch.int32))
            self.syms[k] = lib.b_symbol(self.h, s)

    def __del__(self):
        lib.b_destroy(self.h)

    def param(self, t, generic=None):
        t = t.detach().contiguous()
        s = shape(*t.shape)
        for axis, key in (generic or {}).items():
            n = self.rung[key]
            assert t.shape[axis] == self.sizes[key]
            pad = list(t.shape)
            pad[axis] = n - t.shape[axis]
            fill = (
                self.fill if t.is_floating_point() or t.is_complex() else (1 if t.dtype == torch.bool else 77)
            )
            t = torch.cat([t, torch.full(pad, fill, dtype=t.dtype)], axis)
            s.d[axis] = Dim(n, self.syms[key])
        self.args.append(t)
        return self.b.b_param(t.dtype, s)

    def ret(self, *vs):
        self.returned += vs
        for v in vs:
            lib.b_return(self.h, v)
            self.n_out += 1
        return self

    def dims(self, v):
        s = lib.b_shape(self.h, v).contents
        return [(s.d[i].n, s.d[i].sym) for i in range(s.rank)]

    def error(self):
        try:
            check(lib.b_take_error(self.h))
        except Error as e:
            return str(e)
        return None

    def text(self):
        t = Text()
        check(lib.b_verify(self.h))
        check(lib.b_print(self.h, C.byref(t)))
        s = C.string_at(t.p, t.n).decode()
        lib.text_free(C.byref(t))
        return s

    def run(self, out_vals=None, cut=True):
        """Results as tensors; generic dims are cut to their logical size."""
        mlir = self.text().encode()
        open_plugin()
        e = C.c_void_p()
        try:
            check(lib.rt_compile(mlir, C.c_size_t(len(mlir)), b"a test", None, None, C.byref(e)))
        except Error as x:
            raise Error(f"{x}\n{mlir.decode()}") from x
        return self.execute(e, cut)

    def compile(self):
        mlir = self.text().encode()
        open_plugin()
        e = C.c_void_p()
        check(lib.rt_compile(mlir, C.c_size_t(len(mlir)), b"a test", None, None, C.byref(e)))
        return e

    def upload(self):
        bufs = (C.c_void_p * max(1, len(self.args)))()
        for i, t in enumerate(self.args):
            b = C.c_void_p()
            check(
                lib.rt_upload(
                    C.c_void_p(t.data_ptr() or 64),
                    DT[TORCH[t.dtype]],
                    i64(list(t.shape)),
                    C.c_size_t(t.dim()),
                    None,
                    0,
                    C.byref(b),
                )
            )
            bufs[i] = b.value
        return bufs

    def execute(self, e, cut=True):
        bufs = self.upload()
        outs = (C.c_void_p * max(1, self.n_out))()
        check(
            lib.rt_execute(
                e, 0, bufs, C.c_size_t(len(self.args)), None, C.c_size_t(0), outs, C.c_size_t(self.n_out)
            )
        )
        res = [self.download(outs[k], k, cut) for k in range(self.n_out)]
        for i in range(len(self.args)):
            lib.rt_buffer_free(C.c_void_p(bufs[i]))
        for k in range(self.n_out):
            lib.rt_buffer_free(C.c_void_p(outs[k]))
        return res if self.n_out != 1 else res[0]

    def download(self, buf, k, cut):
        v = self.returned[k]
        dims = self.dims(v)
        t = torch.empty([n for n, _ in dims], dtype=FROM[lib.b_dtype(self.h, v)])
        check(
            lib.rt_download(
                C.c_void_p(buf), C.c_void_p(t.data_ptr() or 64), C.c_size_t(t.numel() * t.element_size())
            )
        )
        names = {s: key for key, s in self.syms.items()}
        for axis, (_, sym) in enumerate(dims):
            if sym and cut and sym in names:
                t = t.narrow(axis, 0, self.sizes[names[sym]])
        return t.clone()


def run(fn, *tensors, **kw):
    """fn(b, program, *vals) -> val or list of vals; the results of running it on the tensors."""
    p = Program(**kw)
    r = fn(p.b, p, *[p.param(t) for t in tensors])
    p.ret(*(r if isinstance(r, (list, tuple)) else [r]))
    return p.run()


def same(got, want, tol=None):
    if not isinstance(want, (list, tuple)):
        got, want = [got], [want]
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, g.shape, w.dtype, w.shape)
        if tol is None:
            torch.testing.assert_close(g, w, equal_nan=True)
        elif tol == 0:
            torch.testing.assert_close(g, w, equal_nan=True, rtol=0, atol=0)
        else:
            torch.testing.assert_close(g, w, equal_nan=True, rtol=tol, atol=tol)
