"""Control flow, random words, fft and linear algebra of the builder against torch's CPU values, on the real CPU plugin."""

import ctypes as C

import pytest
import torch
from ir_harness import *

load()
torch.manual_seed(0)


COND = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_void_p, C.POINTER(C.c_int32))
BODY = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.POINTER(C.c_int32), C.POINTER(C.c_int32))


def test_while_if():
    x = torch.tensor([1.0, 2.0])
    n = torch.tensor(5, dtype=torch.int32)

    def f(b, p, x, n):
        out = vals([0, 0])

        def body(h, c, args, res):
            res[0] = b.b_add(args[0], b.b_const(torch.int32, 1.0))
            res[1] = b.b_add(b.b_mul(args[1], x), b.b_sum(args[1], 1, 0))

        keep = COND(lambda h, c, args: b.b_lt(args[0], n)), BODY(body)
        b.b_while(2, vals([b.b_const(torch.int32, 0.0), x]), *keep, None, out)
        o2 = vals([0])

        def then(h, c, args, res):
            res[0] = b.b_sort(b.b_mul(x, x), 0, 1, None)

        def other(h, c, args, res):
            res[0] = b.b_neg(x)

        keep2 = BODY(then), BODY(other)
        r = []
        for k in (0.0, 9.0):
            b.b_if(b.b_gt(n, b.b_const(torch.int32, k)), 1, *keep2, None, o2)
            r.append(o2[0])
        return [out[0], out[1]] + r

    y = x.clone()
    for _ in range(5):
        y = y * x + y.sum()
    same(run(f, x, n), [n, y, (x * x).flip(0), -x])


def test_checks():
    code, msg = C.c_int(), C.c_char_p()
    for values, want in [([1.0, 2.0], 0), ([1.0, -2.0], 1), ([1.0, 20.0], 2)]:
        p = Program()
        x = p.param(torch.tensor(values))
        p.b.b_check(p.b.b_gt(x, p.b.b_like(x, 0.0)), 3, b"negative")
        p.b.b_check(p.b.b_lt(x, p.b.b_like(x, 10.0)), 1, b"too big")
        assert p.b.b_num_checks() == 2
        p.b.b_check_info(1, C.byref(code), C.byref(msg))
        assert code.value == 1 and msg.value == b"too big"
        p.ret(p.b.b_check_result())
        assert p.run().item() == want
    assert Program().b.b_check_result() == BAD


def philox(key, counter):
    c, k = [counter & 0xFFFFFFFF, counter >> 32 & 0xFFFFFFFF, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_philox():
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for key, counter, n in [
        (0, 0, 4),
        (0x299F31D0A4093822, 0x85A308D3243F6A88, 11),
        (123, 2**32 - 2, 16),
        (7, 5, 0),
    ]:
        got = run(
            lambda b, p, k, c: b.b_philox(k, c, wide(n)),
            torch.tensor(key, dtype=torch.uint64),
            torch.tensor(counter, dtype=torch.uint64),
        )
        want = sum([philox(key, counter + i) for i in range((n + 3) // 4)], [])[:n]
        assert got.tolist() == want and got.dtype == torch.uint32


def test_fft():
    x = torch.complex(torch.randn(3, 4, 6), torch.randn(3, 4, 6))
    r = torch.randn(3, 4, 6)
    h = torch.fft.rfft(r)
    same(run(lambda b, p, x, r, h: [b.b_fft(0, x, 1, i64([6])), b.b_fft(1, x, 2, i64([4, 6])), b.b_fft(2, r, 1, i64([6])), b.b_fft(3, h, 1, i64([6])), b.b_fft(0, x, 3, i64([3, 4, 6])), b.b_fft(2, r, 2, i64([4, 6]))], x, r, h),
         [torch.fft.fft(x), torch.fft.ifft2(x), h, r, torch.fft.fftn(x), torch.fft.rfft2(r)], 1e-4)  # fmt: skip
    y = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    hy = torch.fft.rfftn(y)
    same(
        run(
            lambda b, p, y, h: [
                b.b_fft(2, y, 4, i64([2, 3, 4, 5])),
                b.b_fft(3, h, 4, i64([2, 3, 4, 5])),
                b.b_fft(0, h, 4, i64([2, 3, 4, 3])),
            ],
            y,
            hy,
        ),
        [hy, y, torch.fft.fftn(hy)],
        1e-9,
    )


@pytest.mark.parametrize("dt", [torch.float32, torch.float64, torch.complex64])
def test_linalg(dt):
    a = torch.randn(2, 4, 4, dtype=dt)
    spd = a @ a.mH + 4 * torch.eye(4, dtype=dt)
    rhs = torch.randn(2, 4, 3, dtype=dt)
    lo = a.tril() + 4 * torch.eye(4, dtype=dt)
    up = lo.mT.contiguous()
    m = torch.randn(2, 5, 3, dtype=dt)
    tau, vec = C.c_int32(), C.c_int32()

    def f(b, p, spd, lo, up, rhs, m):
        h = b.b_qr(m, C.byref(tau))
        q = b.b_householder_product(h, tau.value)
        w = b.b_eigh(spd, 1, C.byref(vec))
        return [b.b_cholesky(spd, 1), b.b_cholesky(spd, 0), b.b_triangular_solve(lo, rhs, 1, 1, 0, 0), b.b_triangular_solve(lo, rhs, 1, 1, 0, 1), b.b_triangular_solve(lo, rhs, 1, 1, 0, 2),
                b.b_triangular_solve(up, b.b_swap(rhs, 1, 2), 0, 0, 1, 0), h, tau.value, q, w, vec.value, b.b_optimization_barrier(spd)]  # fmt: skip

    g = run(f, spd, lo, up, rhs, m)
    tri = torch.linalg.solve_triangular
    tol = 1e-7 if dt == torch.float64 else 2e-3
    same(g[:6], [torch.linalg.cholesky(spd), torch.linalg.cholesky(spd, upper=True), tri(lo, rhs, upper=False), tri(lo.mT, rhs, upper=True), tri(lo.mH, rhs, upper=True),
                 tri(up, rhs.mT, upper=True, left=False, unitriangular=True)], tol)  # fmt: skip
    h, t = torch.geqrf(m)
    same(g[6:9], [h, t, torch.linalg.householder_product(h, t)], tol)
    w, v = g[9], g[10]
    same(w, torch.linalg.eigvalsh(spd), 1e-2 if tol > 1e-4 else tol)
    same(v @ torch.diag_embed(w).to(dt) @ v.mH, spd, 1e-2 if tol > 1e-4 else tol)
    same(g[11], spd, 0)


def test_generic_while():
    """A loop that carries a generic value: the mask inside uses the size from outside."""
    x = torch.arange(5.0)
    p = Program(sizes={"n": 5}, rung={"n": 8})
    v, n = p.param(x, {0: "n"}), p.param(torch.tensor(3, dtype=torch.int32))
    out = vals([0, 0])

    def body(h, c, args, res):
        res[0] = p.b.b_add(args[0], p.b.b_const(torch.int32, 1.0))
        res[1] = p.b.b_add(args[1], p.b.b_sum(args[1], 1, 0))

    keep = COND(lambda h, c, args: p.b.b_lt(args[0], n)), BODY(body)
    p.b.b_while(2, vals([p.b.b_const(torch.int32, 0.0), v]), *keep, None, out)
    p.ret(out[1])
    for _ in range(3):
        x = x + x.sum()
    same(p.run(), x, 0)
