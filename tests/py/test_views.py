"""Views of every kind, read and written, of every dtype: values, geometry, aliasing, addresses."""

from __future__ import annotations

import pytest
import torch
from helpers import ALL, DEV, both, data, move, same

# name: (shape of the base, the view). What a view is of is always the whole base.
VIEWS = {
    "whole": ((4, 6), lambda x: x.view_as(x)),
    "flat": ((4, 6), lambda x: x.view(-1)),
    "reshape": ((4, 6), lambda x: x.view(2, 2, 3, 2)),
    "transpose": ((4, 6), lambda x: x.t()),
    "permute": ((2, 3, 4), lambda x: x.permute(2, 0, 1)),
    "permute4": ((2, 3, 4, 5), lambda x: x.permute(3, 1, 0, 2)),
    "transpose_reshape": ((4, 6), lambda x: x.t().unflatten(0, (2, 3))),
    "movedim": ((2, 3, 4), lambda x: x.movedim(0, -1)),
    "row": ((4, 6), lambda x: x[2]),
    "last_column": ((4, 6), lambda x: x[:, -1]),
    "slice": ((5, 6), lambda x: x[1:4]),
    "slice2": ((5, 6), lambda x: x[1:4, 2:]),
    "step": ((5, 7), lambda x: x[::2]),
    "step2": ((5, 8), lambda x: x[:, 1::3]),
    "step_both": ((6, 8), lambda x: x[1::2, ::3]),
    "step_transposed": ((6, 8), lambda x: x.t()[1::3, ::2]),
    "empty_slice": ((5, 6), lambda x: x[3:3]),
    "element": ((5, 6), lambda x: x[2, 3]),
    "select_middle": ((3, 4, 5), lambda x: x.select(1, 2)),
    "narrow": ((3, 4, 5), lambda x: x.narrow(2, 1, 3)),
    "unsqueeze": ((3, 4), lambda x: x.unsqueeze(1).unsqueeze(-1)),
    "squeeze": ((3, 1, 4, 1), lambda x: x.squeeze()),
    "newaxis": ((3, 4), lambda x: x[None, :, None]),
    "diagonal": ((4, 5), lambda x: x.diagonal()),
    "diagonal_off": ((4, 5), lambda x: x.diagonal(1)),
    "diagonal_batched": ((3, 4, 4), lambda x: x.diagonal(-1, 1, 2)),
    "split": ((6, 4), lambda x: x.split([2, 3, 1])[1]),
    "chunk": ((7, 4), lambda x: x.chunk(3)[2]),
    "tensor_split": ((4, 7), lambda x: x.tensor_split(3, dim=1)[1]),
    "unbind": ((3, 4), lambda x: x.unbind(1)[2]),
    "hsplit": ((4, 6), lambda x: x.hsplit(3)[1]),
    "swapaxes": ((2, 3, 4), lambda x: x.swapaxes(0, 2)[1:, :, 0]),
    "as_strided": ((6, 6), lambda x: x.as_strided((3, 4), (7, 1), 2)),
    "as_strided_column": ((6, 6), lambda x: x.as_strided((5,), (7,), 1)),
    "mT": ((2, 3, 4), lambda x: x.mT),
    "of_a_view": ((4, 6), lambda x: x[1:].t()[2:5].unsqueeze(0)),
    "chain": ((4, 6, 2), lambda x: x.transpose(0, 2)[:, ::2].flatten(1, 1)[1]),
    "scalar_base": ((), lambda x: x.view(1, 1)),
    "flatten": ((2, 3, 4), lambda x: x.flatten(1)),
    "channels_last": ((2, 3, 4, 4), lambda x: x.permute(0, 2, 3, 1)),
}
# Views in which one element of the base is seen more than once: read only.
OVERLAPPING = {
    "expand": ((4, 1), lambda x: x.expand(4, 5)),
    "expand_new": ((3,), lambda x: x.expand(2, 4, 3)),
    "expand_scalar": ((), lambda x: x.expand(2, 3)),
    "broadcast_slice": ((4, 1), lambda x: x.expand(4, 5)[1:, ::2]),
    "unfold": ((10,), lambda x: x.unfold(0, 4, 2)),
    "unfold_2d": ((5, 9), lambda x: x.unfold(1, 3, 1).transpose(0, 1)),
    "as_strided_overlap": ((12,), lambda x: x.as_strided((4, 3), (2, 1), 1)),
    "as_strided_repeat": ((6,), lambda x: x.as_strided((3, 2), (0, 2), 1)),
}
SOME = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64)


def pair(shape, dtype=torch.float32):
    cpu = data(*shape, dtype=dtype)
    return cpu, cpu.to(DEV)


def aligned(cpu, tpu, cpu_base, tpu_base) -> None:
    assert tpu.shape == cpu.shape and tpu.stride() == cpu.stride()
    assert tpu.storage_offset() == cpu.storage_offset()
    assert tpu.is_contiguous() == cpu.is_contiguous()
    assert tpu.data_ptr() - tpu_base.data_ptr() == cpu.data_ptr() - cpu_base.data_ptr() or not cpu.numel()
    assert tpu._is_view() == cpu._is_view()


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("name", [*VIEWS, *OVERLAPPING])
def test_read(name, dtype):
    shape, view = {**VIEWS, **OVERLAPPING}[name]
    cpu, tpu = pair(shape, dtype)
    v, w = view(cpu), view(tpu)
    aligned(v, w, cpu, tpu)
    same(w, v, rtol=0, atol=0)  # read by a transfer
    same(w.clone(), v.clone(), rtol=0, atol=0)  # and by an op
    assert w.clone().stride() == v.clone().stride()
    same(w.contiguous(), v.contiguous(), rtol=0, atol=0)
    same(w == w, torch.ones(v.shape, dtype=torch.bool))


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("name", list(VIEWS))
def test_write(name, dtype):
    shape, view = VIEWS[name]
    cpu, tpu = pair(shape, dtype)
    address = tpu.data_ptr()
    source = data(*view(cpu).shape, dtype=dtype, seed=1)
    view(cpu).copy_(source)
    view(tpu).copy_(source)  # an upload into a view
    same(tpu, cpu, rtol=0, atol=0)
    view(cpu).fill_(1)
    view(tpu).fill_(1)
    same(tpu, cpu, rtol=0, atol=0)
    view(cpu).copy_(source.flip(0) if source.dim() else source)
    view(tpu).copy_((source.flip(0) if source.dim() else source).to(DEV))  # and from a tensor there
    same(tpu, cpu, rtol=0, atol=0)
    if dtype != torch.bool:
        view(cpu).add_(source)
        view(tpu).add_(source.to(DEV))
        same(tpu, cpu)
        view(cpu).mul_(2)
        view(tpu).mul_(2)
        same(tpu, cpu)
    assert tpu.data_ptr() == address


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype(dtype):
    for name in ("slice2", "step_both", "transpose", "diagonal", "as_strided"):
        shape, view = VIEWS[name]
        cpu, tpu = pair(shape, dtype)
        same(view(tpu), view(cpu), rtol=0, atol=0)
        source = data(*view(cpu).shape, dtype=dtype, seed=1)
        view(cpu).copy_(source)
        view(tpu).copy_(source.to(DEV))
        same(tpu, cpu, rtol=0, atol=0)
        view(cpu).zero_()
        view(tpu).zero_()
        same(tpu, cpu, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8_moves(dtype):
    x = data(4, 6).to(dtype)
    y = x.to(DEV)
    assert torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))
    assert torch.equal(
        y.t()[1:, ::2].cpu().contiguous().view(torch.uint8), x.t()[1:, ::2].contiguous().view(torch.uint8)
    )
    same(y.float(), x.float(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int16, torch.uint8, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("to", [torch.int32, torch.float64, torch.uint8, torch.int16, torch.bool], ids=str)
def test_view_dtype(dtype, to):
    if to == torch.bool and dtype != torch.uint8:
        return
    cpu = data(4, 8).abs().to(dtype) if to != torch.bool else data(4, 8, dtype=torch.bool).to(dtype)
    tpu = cpu.to(DEV)
    v, w = cpu.view(to), tpu.view(to)
    aligned(v, w, cpu, tpu)
    assert torch.equal(w.cpu().view(torch.uint8), v.view(torch.uint8))
    assert torch.equal(
        w.clone().cpu().view(torch.uint8), v.view(torch.uint8)
    )  # XLA's arithmetic drops denormals
    v[1:3].zero_()
    w[1:3].zero_()
    assert torch.equal(tpu.cpu().view(torch.uint8), cpu.view(torch.uint8))


def test_complex_parts():
    cpu, tpu = pair((3, 4), torch.complex64)
    for view in (torch.real, torch.imag, torch.view_as_real, lambda x: torch.view_as_real(x)[1:, :, 1]):
        aligned(view(cpu), view(tpu), cpu, tpu)
        same(view(tpu), view(cpu), rtol=0, atol=0)
        same(view(tpu) * 2, view(cpu) * 2)
        view(cpu).add_(1.5)
        view(tpu).add_(1.5)
        same(tpu, cpu)
    r, s = pair((3, 4, 2))
    same(torch.view_as_complex(s), torch.view_as_complex(r), rtol=0, atol=0)
    torch.view_as_complex(r)[1].mul_(1j)
    torch.view_as_complex(s)[1].mul_(1j)
    same(s, r)


def test_conj_and_neg_bits():
    cpu, tpu = pair((3, 4), torch.complex64)
    assert tpu.conj().is_conj() and tpu.conj().imag.is_neg()
    for f in (
        lambda x: x.conj(),
        lambda x: x.conj() * (1 + 2j),
        lambda x: x.mH @ x,
        lambda x: x.conj().imag,
        lambda x: x.conj().imag + 1,
        lambda x: x.conj().resolve_conj(),
        lambda x: x.conj().imag.resolve_neg(),
        lambda x: torch.stack([x.conj(), x]),
    ):
        same(f(tpu), f(cpu))
    cpu.conj().mul_(1j)
    tpu.conj().mul_(1j)
    same(tpu, cpu)
    cpu.conj().copy_(cpu.clone())
    tpu.conj().copy_(tpu.clone())
    same(tpu, cpu)


def test_data_set_resize():
    cpu, tpu = pair((4, 3))
    for x in (cpu, tpu):
        d = x.data
        d.add_(1)
        y = x.new_empty(0)
        y.set_(x)
        y[0] = 7
        z = x.new_empty(0).set_(x.untyped_storage(), 3, (2, 3), (3, 1))
        z.mul_(2)
        assert z.data_ptr() == x.data_ptr() + 12
    same(tpu, cpu)
    for x in (cpu, tpu):
        x.resize_(2, 3)
    same(tpu, cpu)
    assert tpu.untyped_storage().nbytes() == cpu.untyped_storage().nbytes() == 48
    for x in (cpu, tpu):
        x.resize_(5, 3)
        x[4] = 1
        assert x.untyped_storage().nbytes() == 60
    same(tpu[:4], cpu[:4])
    for x in (cpu, tpu):
        x.untyped_storage().resize_(0)
        assert x.untyped_storage().nbytes() == 0
        x.untyped_storage().resize_(60)
        x.fill_(3)
    same(tpu, cpu)


def test_addresses():
    xs = [torch.empty(n, device=DEV) for n in (0, 1, 3, 100, 10_000, 1 << 20)]
    pointers = [x.data_ptr() for x in xs[1:]]
    assert 0 not in pointers and len(set(pointers)) == len(pointers)
    assert xs[0].untyped_storage().data_ptr() != 0 or xs[0].data_ptr() == 0
    spans = sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in xs[1:])
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    x = xs[3]
    before = x.data_ptr()
    x.zero_().add_(1).mul_(2)
    x[3:].copy_(torch.ones(97))
    assert x.data_ptr() == before and x[10:].data_ptr() == before + 40
    assert x.view(10, 10).t()[2, 1].data_ptr() == before + 4 * (10 + 2)


# --- the rows "Views, aliasing, in-place, .data" of the cases ---


def test_row_1_data_and_views():
    for dev in ("cpu", DEV):
        x = torch.zeros(4, device=dev)
        v = x.view(-1)
        x.data = x.data + 1
        assert v.tolist() == [0] * 4 and x.tolist() == [1] * 4
        x = torch.zeros(4, device=dev)
        v = x.view(-1)
        x.data.add_(1)
        assert v.tolist() == [1] * 4
        with torch.no_grad():
            x += 1
        assert v.tolist() == [2] * 4


def test_row_3_write_to_every_other_column():
    def f(d):
        d[:, 0::2] = 2
        return d

    both(f, data(3, 5), exact=True)


def test_row_4_split_then_in_place():
    def f(x):
        a, b = x.split((2, 3))
        a.mul_(0)
        b[1:].add_(1)
        return x

    both(f, data(5, 2), exact=True)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.bool, torch.float16], ids=str)
def test_row_5_strided_copy_across_dtypes(dtype):
    def f(x, y):
        y[::2].copy_(x[::2])
        return y

    both(f, data(9).abs() * 3, torch.zeros(9, dtype=dtype), exact=True)


def test_row_7_stack_of_offset_slices():
    both(lambda x: torch.stack([x[0, 1:3], x[1, 2:4], x[2, 0:2]]), data(3, 5), exact=True)


def test_row_8_op_on_an_offset():
    both(lambda x: torch.erfinv(x[2:] * 0.2), data(9))
    both(lambda x: torch.sqrt(x[1:, 2:].abs()), data(4, 5))


def test_row_9_from_numpy():
    import numpy

    a = numpy.arange(24.0).reshape(4, 6)
    for b in (a.T, a[:, ::2], a[1::2, 1:], a.T[::3], a[2]):
        x = torch.from_numpy(b)
        y = x.to(DEV)
        assert y.stride() == x.to("cpu", copy=True).stride()
        assert (y.cpu().numpy() == b).all()
    z = torch.from_numpy(a[:, 0:4].copy())[:, 1:3].expand(4, 2)
    same(z.to(DEV), z)


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:]], ids=["t", "step", "slice"]
)
def test_row_11_in_place_on_a_view(view):
    def clamp(x):
        view(x).clamp_(-0.5, 0.5)
        return x

    def masked_fill(x):
        view(x).masked_fill_(view(x) > 0, 9.0)
        return x

    def relu(x):
        return torch.relu_(view(x))

    for f in (clamp, masked_fill, relu):
        both(f, data(4, 6), exact=True)


@pytest.mark.parametrize("make", [torch.optim.Rprop, torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW])
def test_row_13_optimizers_on_strided_parameters(make):
    def f(w):
        p = torch.nn.Parameter(w.t())
        assert not p.is_contiguous()
        optimizer = make([p], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p * 3).sum().backward()
            optimizer.step()
        return p.detach(), w

    both(f, data(4, 5))


def test_row_14_where_with_a_transposed_condition():
    both(lambda c, a, b: torch.where(c.t(), a, b), data(5, 4) > 0, data(4, 5), data(4, 5, seed=1), exact=True)


def test_row_15_scatter_with_strided_index_and_source():
    index = torch.randint(0, 4, (6, 5), generator=torch.Generator().manual_seed(0))

    def f(x, i, s):
        return x.scatter_add(0, i.t(), s.t()), x.scatter(0, i.t()[:, :1], s.t()[:, :1])

    both(f, torch.zeros(5, 6), index, data(6, 5))


def test_row_17_save_of_a_view(tmp_path):
    cpu, tpu = pair((6, 6))
    torch.save(tpu[1:4, ::2].t(), tmp_path / "v")
    assert torch.equal(torch.load(tmp_path / "v", map_location="cpu"), cpu[1:4, ::2].t())
    same(torch.load(tmp_path / "v"), cpu[1:4, ::2].t())


def test_rows_18_19_ties_survive():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.emb.weight

    m = Tied()
    n = sum(p.numel() for p in m.parameters())
    m.to(DEV)
    assert m.head.weight is m.emb.weight and m.emb.weight.is_tpu
    assert sum(p.numel() for p in m.parameters()) == n
    m.head(m.emb(torch.tensor([1, 2], device=DEV))).sum().backward()
    assert m.head.weight.grad is m.emb.weight.grad
    m.to("cpu")
    assert m.head.weight is m.emb.weight and m.emb.weight.device.type == "cpu"
    m.to(DEV).to(torch.bfloat16)
    assert m.head.weight is m.emb.weight and m.emb(torch.tensor([1], device=DEV)).dtype == torch.bfloat16


# --- autograd through views; aliasing of writes ---


def test_backward_through_views():
    def f(x):
        y = x * 2
        y[1:, ::2].mul_(3)
        y.t()[0].add_(x[0, 0])
        z = y.diagonal().sum() + y.unfold(1, 2, 1).square().sum() + y.as_strided((2, 2), (6, 1), 1).prod()
        z.backward()
        return x.grad

    both(lambda x: f(x.detach().requires_grad_()), data(5, 6), strides=False)


def test_writes_through_many_aliases():
    def f(x):
        a, b, c = x.view(-1), x.t(), x[1:3]
        a[::3] = 5
        b[2] += a[:4].clone()
        c.mul_(b.t()[1:3].flip(1))
        a[:6].copy_(a[6:12].clone())
        return x, a, b, c

    both(f, data(4, 6))


def test_copy_between_overlapping_views_raises_or_agrees():
    cpu, tpu = pair((8,))
    for x in (cpu, tpu):
        x[:4].copy_(x[4:])
    same(tpu, cpu)
    for x in move((cpu, cpu), "cpu")[:1]:
        with pytest.raises(RuntimeError, match="single memory location"):
            x[:1].expand(4).add_(1)
    with pytest.raises(RuntimeError, match="single memory location"):
        tpu[:1].expand(4).add_(1)


def test_versions_guard_autograd():
    for dev in ("cpu", DEV):
        x = torch.ones(3, device=dev, requires_grad=True)
        y = x.exp()
        z = y.square().sum()
        y.detach().view(-1)[0] = 5  # detach shares the version
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


@pytest.mark.parametrize(
    "fmt", [torch.channels_last, torch.preserve_format, torch.contiguous_format], ids=str
)
def test_memory_formats(fmt):
    cpu, tpu = pair((2, 3, 4, 5))
    for f in (
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.to(memory_format=torch.channels_last).clone(memory_format=fmt),
        lambda x: torch.empty_like(x.to(memory_format=torch.channels_last), memory_format=fmt).fill_(1),
        lambda x: x.to(memory_format=torch.channels_last) + 1,
        lambda x: x.to(memory_format=torch.channels_last) * x,
        lambda x: x.permute(3, 2, 1, 0) * 2,
        lambda x: x.to(memory_format=torch.channels_last).exp().sum(1),
    ):
        a, b = f(cpu), f(tpu)
        same(b, a)
        assert a.stride() == b.stride()


def test_views_in_every_mode(mode):
    def f(x):
        y = x.clone()
        y[::2] = x[1::2] + 1
        y.t()[3].copy_(y[:, 0])
        w = y.view(-1).unfold(0, 5, 5)
        w[1].zero_()
        return y, w, y[-1:].expand(3, 6).sum(0)

    both(f, data(4, 6))


def test_concatenation_keeps_channels_last():
    a, b = torch.rand(2, 3, 4, 5), torch.rand(2, 2, 4, 5)
    last = dict(memory_format=torch.channels_last)
    for x, y in ((a.to(**last), b.to(**last)), (a.to(**last), b), (a, b.to(**last)), (a, b)):
        both(lambda x, y: torch.cat([x, y], 1), x, y)
        both(lambda x, y: torch.cat([x, y, x, x], 1), x, y)
    both(lambda x: torch.cat([x], 1), a.to(**last))


def test_matrices_of_linear_algebra_lie_column_by_column():
    a, b = torch.rand(2, 4, 4) + 4 * torch.eye(4), torch.rand(2, 4, 3)
    la = torch.linalg
    for fn in (
        la.inv,
        la.qr,
        la.lu_factor,
        la.lu,
        lambda x: la.qr(x[..., :2], mode="complete"),
        lambda x: la.cholesky(x @ x.mT, upper=True),
        lambda x: torch.cholesky_inverse(la.cholesky(x @ x.mT)),
        lambda x: la.householder_product(*torch.geqrf(x)),
        torch.geqrf,
        la.matrix_exp,
    ):
        both(fn, a, atol=1e-4, rtol=1e-4)  # matrix_exp is of the size of 1e3
    for left in (True, False):
        for fn in (
            lambda x, y, left=left: la.solve(x, y if left else y.mT, left=left),
            lambda x, y, left=left: la.solve_triangular(x, y if left else y.mT, left=left, upper=True),
            lambda x, y, left=left: la.lu_solve(*la.lu_factor(x), y if left else y.mT, left=left),
        ):
            both(fn, a, b)
    both(la.solve, a, b[..., 0])
    for x in (a, a[..., :2]):  # vectors are the CPU's up to their signs
        for fn in (la.svd, lambda x: la.svd(x, full_matrices=False), lambda x: la.eigh(x @ x.mT)):
            strides = [[t.stride() for t in fn(x.to(d))] for d in ("cpu", "tpu")]
            assert strides[0] == strides[1]
