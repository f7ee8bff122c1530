"""Faults that other backends had, each a kind and not one input. The right result is CPU PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import DEV, INTS, both, data, move, raises_alike, run_python, same

# --- dtypes, promotion, integers ---


def test_row_21_indexing_keeps_the_dtype():
    x = data(5, 4, dtype=torch.uint8)
    both(lambda x: (x[2], x[1, 3], x[x > 10], x[torch.tensor([0, 2])], x[:, None]), x, exact=True)


@pytest.mark.parametrize("dtype", [*INTS, torch.bool], ids=str)
def test_row_22_integer_reductions(dtype):
    x = data(3, 4, dtype=dtype)
    both(lambda x: (x.sum(), x.sum(1), x.prod(), x.prod(0), x.cumsum(0), x.cumprod(1)), x, exact=True)


def test_row_23_cat_promotes():
    a, b, c = torch.arange(3), data(2), data(2, dtype=torch.bool)
    both(
        lambda a, b, c: (torch.cat([a, b]), torch.cat([c, a]), torch.stack([b, b.double()])),
        a,
        b,
        c,
        exact=True,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int32], ids=str)
def test_row_24_scalars_do_not_promote_within_a_kind(dtype):
    x = data(6, dtype=dtype).abs() + 1
    both(lambda x: (x**3.0, x * 2, x + 0.5, 2.0 - x, x / 3, x**2, torch.pow(2, x), x > 1.5), x)


def test_row_26_module_to_bfloat16():
    m = torch.nn.Embedding(6, 4).to(DEV).to(torch.bfloat16)
    assert m(torch.tensor([1, 5], device=DEV)).dtype == torch.bfloat16


def test_row_27_addcmul_promotes():
    a, b = data(4), data(4, seed=1)
    for other in (torch.float64, torch.complex128):
        both(
            lambda a, b, c: (torch.addcmul(a, b, c, value=2), torch.addcdiv(a, c, b)), a, b, data(4).to(other)
        )


def test_row_28_29_cumsum():
    both(lambda x: x.cumsum(0), data(50, dtype=torch.bool), exact=True)
    both(lambda x: x.cumsum(-1), torch.full((3, 100), 2**40), exact=True)
    both(lambda x: (x.cumsum(0), x.cumsum(2)), data(3, 2, 4, 2, 3))


def test_row_31_32_34_rounding():
    def f(x, y):
        return [torch.div(x, y, rounding_mode=m) for m in ("trunc", "floor")] + [
            x // y,
            x % y,
            torch.fmod(x, y),
        ]

    a, b = torch.meshgrid(
        torch.tensor([-47, -7, -1, 0, 1, 7, 47]), torch.tensor([-47, -2, 2, 47]), indexing="ij"
    )
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64):
        both(f, a.to(dtype), b.to(dtype), exact=True)
    both(
        lambda x: (torch.frac(x), torch.trunc(x), torch.round(x), x.floor()),
        torch.tensor([-3.2, -0.5, 2.5, 3.5]),
    )


def test_row_33_integer_division_by_zero_does_not_kill():
    """The rule: where CPU raises ZeroDivisionError the device gives some value; nothing crashes."""
    x, zero = torch.tensor([5, -5, 0], device=DEV), torch.zeros(3, dtype=torch.int64, device=DEV)
    for f in (torch.remainder, torch.fmod, lambda a, b: a // b):
        try:
            f(x, zero).cpu()
        except RuntimeError as error:
            assert "ero" in str(error)
    least = torch.tensor([-(2**63)], device=DEV)
    for f in (torch.remainder, torch.fmod, lambda a, b: a // b):
        f(least, torch.tensor([-1], device=DEV)).cpu()
    same(torch.ones(2, device=DEV) + 1, torch.full((2,), 2.0))


def test_row_35_no_32_bit_demotion():
    big = torch.tensor([2**31 + 3, -(2**40) + 1, 2**62])
    both(lambda x: (x + 1, x * 3, x.cumsum(0), x - (x >> 1), x.max(), x // 7, x.sum()), big, exact=True)
    for dev in (DEV,):
        same(torch.arange(2**33, 2**33 + 5, device=dev), torch.arange(2**33, 2**33 + 5))
        same(torch.full((2,), 2**53 + 1, device=dev), torch.full((2,), 2**53 + 1))
        x = torch.zeros(70_000, device=dev, dtype=torch.int8)
        x[66_000] = 1
        assert x.argmax().item() == 66_000 and x.argmax().dtype == torch.int64
    same(
        torch.linspace(0, 1, 7, dtype=torch.float64, device=DEV), torch.linspace(0, 1, 7, dtype=torch.float64)
    )
    both(lambda x: x.to(torch.float32), torch.tensor([2**24 + 1, 2**24 + 3]), exact=True)
    both(lambda x: (x + 1e-12, x * math.pi, x.exp()), torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert (torch.tensor([1.0], dtype=torch.float64, device=DEV) + 1e-15).item() == 1.0 + 1e-15


# --- reductions, sort, ties, NaN ---


def test_row_37_argmax_and_nan():
    x = torch.zeros(1, 3, 3)
    x[0, 0, 1] = 5
    nan = torch.tensor([1.0, math.nan, 7.0, math.nan, -math.inf])
    both(lambda x: (x.argmax(), x.argmin(), x.max(), x.min(), x.amax(-1), x.amin(-1)), x, exact=True)
    both(
        lambda x: (x.argmax(), x.argmin(), *x.max(0), *x.min(0), x.amax(), x.sum(), x.nansum()),
        nan,
        exact=True,
    )
    both(
        lambda x: (torch.maximum(x, x.flip(0)), torch.fmin(x, x.flip(0)), x.clamp(0, 2), x.isnan()),
        nan,
        exact=True,
    )


def test_row_38_41_argmax_stays_in_range():
    x = data(4, 33_000)
    for seed in range(3):
        y = torch.softmax(data(4, 1000, seed=seed).to(DEV), -1).argmax(-1)
        assert ((y >= 0) & (y < 1000)).all()
    both(lambda x: (x.argmax(1), x[:, None].argmax(1)), x, exact=True)


def test_row_40_topk_sort_and_nan():
    x = torch.tensor([1.0, math.nan, 3.0, -math.inf, math.inf, 0.0])
    both(
        lambda x: (*x.topk(3), *x.topk(2, largest=False), *x.sort(), *x.sort(descending=True)), x, exact=True
    )
    both(
        lambda x: (x.sort(stable=True)[1], x.argsort(descending=True, stable=True)),
        torch.tensor([2, 1, 2, 1, 2]),
    )
    both(lambda x: (*x.median(0), *x.mode(0), *x.kthvalue(2, 0)), data(5, 4, dtype=torch.int32))
    both(lambda x: (x.median(), x.nanmedian()), x, exact=True)


# --- index, gather, scatter ---


def test_row_44_45_index_put_duplicates():
    def f(x, i, v):
        return x.index_put((i,), v, accumulate=True), x.index_put_((i[:3],), v[:3])

    i = torch.tensor([2, 0, 1, 2, 2, 0])
    both(f, torch.zeros(4), i, data(6))
    x = torch.zeros(4, dtype=torch.float16, device=DEV)
    many = torch.full((3000,), 0.01, dtype=torch.float16, device=DEV)
    got = x.index_put((torch.zeros(3000, dtype=torch.int64, device=DEV),), many, accumulate=True)
    assert abs(got[0].item() - 3000 * many[0].item()) < 1.5


def test_row_46_47_48_index_add_scatter():
    i = torch.tensor([2, 0, 2, 1])

    def f(x, i, v):
        return (
            x.index_add(0, i, v),
            x.index_add(0, i, v, alpha=2),
            x.scatter_add(0, i[:, None].expand(4, 3), v),
            x.scatter(1, i[:3, None] % 2, 9.0),
            x.scatter(0, i[:0, None], v[:0]),
            x.scatter_reduce(0, i[:, None].expand(4, 3), v, "amax"),
            x.index_copy(0, i[:2], v[:2]),
            x.index_fill(1, i[:2], 3.0),
            x.t().index_copy(1, i[:2], v[:2].t()),
        )

    both(f, data(3, 3), i, data(4, 3), strides=False)


def test_row_50_scatter_add_of_random_rows():
    g = torch.Generator().manual_seed(0)
    i = torch.randint(0, 512, (700,), generator=g)
    both(lambda x, i, v: x.index_add(0, i, v), torch.zeros(512, 281), i, data(700, 281))
    both(
        lambda x, i, v: x.scatter_add(0, i[:, None].expand(700, 281), v),
        torch.zeros(512, 281),
        i,
        data(700, 281),
    )


def test_row_52_indexing_forms():
    x, m = data(4, 5, 6), data(4, 5) > 0
    i, j = torch.tensor([0, 2, -1]), torch.tensor([1, 1, 3])
    forms = [
        lambda x, m, i, j: x[m],
        lambda x, m, i, j: x[i, :, j],
        lambda x, m, i, j: x[None, i],
        lambda x, m, i, j: x[..., -1],
        lambda x, m, i, j: x[i[:, None], j],
        lambda x, m, i, j: x[:, i, 1:3],
        lambda x, m, i, j: x[i, j, j],
        lambda x, m, i, j: x[:, m[0]],
        lambda x, m, i, j: x[i.to(torch.uint8) > 0] if False else x[i.int()],
        lambda x, m, i, j: x[[0, 3], [1, 2]],
        lambda x, m, i, j: x[..., None, i % 6].sum(-1),
        lambda x, m, i, j: x[x > 100],
        lambda x, m, i, j: torch.take(x, i.abs()),
        lambda x, m, i, j: x.take_along_dim(i.abs()[:, None, None] % 4, 0),
        lambda x, m, i, j: x.masked_fill(m[..., None], 2.0),
        lambda x, m, i, j: x.nonzero(),
        lambda x, m, i, j: m.nonzero(as_tuple=True),
        lambda x, m, i, j: torch.where(m),
    ]
    for f in forms:
        both(f, x, m, i, j, exact=True, strides=False)

    def writes(x, m, i, j):
        x[m] = 1.0
        x[i, :, j] = 2.0
        x[:, i] += 3
        x[..., -1] = x[..., 0]
        x[m[:, 0]] *= 2
        return x

    both(writes, x, m, i, j)
    raises_alike(lambda x, m: x[m[:2]], x, m, words="shape of the mask")
    raises_alike(lambda x: x[0, 0, 0, 0], x, words="too many indices")


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: F.embedding(i, x),
        lambda x, i: x.gather(0, i[:, None]),
        lambda x, i: x.scatter(0, i[:, None], 1.0),
        lambda x, i: x.index_add(0, i, x[: len(i)]),
        lambda x, i: x.index_put((i,), x[0]),
    ],
    ids=["index", "index_select", "embedding", "gather", "scatter", "index_add", "index_put"],
)
@pytest.mark.parametrize("bad", [7, -8])
def test_row_53_index_out_of_range_is_an_error(f, bad, mode):
    x, i = data(4, 3).to(DEV), torch.tensor([0, bad, 1], device=DEV)
    with pytest.raises((IndexError, RuntimeError), match="(?i)out of|range|bounds"):
        f(x, i).cpu()
        torch.tpu.synchronize()
    same(x + 1, x.cpu() + 1)  # and the device goes on


# --- attention, convolution, linear, empty ---


def test_row_54_56_attention_masks():
    q, k, v = data(2, 2, 5, 8), data(2, 2, 6, 8, seed=1), data(2, 2, 6, 8, seed=2)
    mask = data(2, 1, 5, 6, seed=3) > -0.5
    mask[0, 0, 2] = False  # a row with nothing to attend to
    both(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, mask, strides=False
    )
    both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v, strides=False)
    square = data(2, 2, 5, 8, seed=4)
    both(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), q, square, strides=False)
    additive = torch.zeros(5, 6).masked_fill(~mask[0, 0], torch.finfo(torch.float32).min)
    both(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        q,
        k,
        v,
        additive,
        strides=False,
    )
    both(
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        q,
        k,
        v,
        strides=False,
    )

    def backward(q, k, v, m):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        F.scaled_dot_product_attention(q, k, v, attn_mask=m).square().sum().backward()
        return q.grad, k.grad, v.grad

    mask[0, 0, 2] = True
    both(backward, q, k, v, mask, strides=False)


def test_row_57_multi_head_attention_trains_without_nan():
    m = torch.nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True).to(DEV).train()
    x = data(3, 5, 8).to(DEV)
    padding = torch.zeros(3, 5, dtype=torch.bool, device=DEV)
    padding[:, 3:] = True
    y, w = m(x, x, x, key_padding_mask=padding)
    y.sum().backward()
    assert y.isfinite().all() and all(p.grad.isfinite().all() for p in m.parameters())
    m.eval()
    same(
        m(x, x, x, key_padding_mask=padding)[0],
        m.cpu()(x.cpu(), x.cpu(), x.cpu(), key_padding_mask=padding.cpu())[0],
    )


CONVOLUTIONS = {
    "1d": (torch.nn.Conv1d, (4, 6, 3), dict(stride=2), (2, 4, 11)),
    "2d": (torch.nn.Conv2d, (4, 6, 3), dict(stride=(1, 2)), (2, 4, 8, 9)),
    "grouped": (torch.nn.Conv2d, (4, 8, 3), dict(groups=2), (3, 4, 6, 6)),
    "depthwise": (torch.nn.Conv2d, (4, 8, 3), dict(groups=4, padding=1), (3, 4, 6, 6)),
    "3d": (torch.nn.Conv3d, (2, 3, 2), dict(padding=1), (2, 2, 4, 5, 4)),
    "dilated": (torch.nn.Conv2d, (2, 3, 3), dict(dilation=(2, 1), padding=2), (2, 2, 9, 8)),
    "same_even": (torch.nn.Conv2d, (2, 3, 4), dict(padding="same"), (2, 2, 7, 7)),
    "reflect": (torch.nn.Conv2d, (2, 3, 3), dict(padding=1, padding_mode="reflect"), (2, 2, 6, 6)),
    "replicate": (torch.nn.Conv2d, (2, 3, 3), dict(padding=2, padding_mode="replicate"), (2, 2, 6, 6)),
    "circular": (torch.nn.Conv1d, (2, 3, 3), dict(padding=1, padding_mode="circular"), (2, 2, 6)),
    "transposed": (
        torch.nn.ConvTranspose2d,
        (3, 4, 3),
        dict(stride=2, output_padding=1, padding=1),
        (2, 3, 5, 4),
    ),
    "transposed_grouped": (
        torch.nn.ConvTranspose1d,
        (4, 6, 3),
        dict(groups=2, dilation=2, stride=3),
        (2, 4, 5),
    ),
    "unbatched": (torch.nn.Conv2d, (2, 3, 3), {}, (2, 6, 6)),
    "many_channels": (torch.nn.Conv1d, (1, 65_600, 1), {}, (1, 1, 3)),
}


@pytest.mark.parametrize("name", list(CONVOLUTIONS))
def test_rows_58_60_64_convolutions(name):
    make, args, options, shape = CONVOLUTIONS[name]
    torch.manual_seed(0)
    m = make(*args, **options)

    def f(x, *parameters):
        n = make(*args, **options).to(x.device)
        with torch.no_grad():
            for p, q in zip(n.parameters(), parameters, strict=True):
                p.copy_(q)
        x = x.detach().requires_grad_()
        y = n(x)
        (y * y).sum().backward()
        return y.detach(), x.grad, [p.grad for p in n.parameters()]

    both(f, data(*shape), *[p.detach() for p in m.parameters()], strides=False)


def test_row_61_63_empty():
    both(lambda x, w, b: F.linear(x, w, b), torch.zeros(2, 0), torch.zeros(3, 0), data(3))
    both(lambda a, b: torch.cat([a, b]), torch.empty(0), data(1), exact=True)
    both(lambda a, b: torch.cat([a, b], 1), torch.empty(2, 0), data(2, 3), exact=True)
    for f in (
        lambda x: (x.sum(), x.mean(0), x.prod()),
        lambda x: x @ x.t(),
        lambda x: x.t() @ x,
        lambda x: torch.softmax(x, 1),
        lambda x: (x.any(), x.all(), x.nonzero()),
        lambda x: x.sort(),
        lambda x: F.layer_norm(x, (3,)),
        lambda x: x.expand(2, 0, 3).reshape(0, 6),
    ):
        both(f, torch.empty(0, 3), strides=False)
    raises_alike(lambda x: x.max(), torch.empty(0), words="reduc")
    torch.tpu.set_fallback_policy("silent")
    both(
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        torch.empty(0, 2, 3, 3),
        torch.empty(0, 4, 4, 2),
    )


# --- random numbers ---


def test_row_65_67_69_seeds():
    def draws():
        return (
            torch.rand(5, device=DEV),
            torch.randn(3, 2, device=DEV),
            torch.randint(0, 100, (6,), device=DEV),
            torch.randperm(9, device=DEV),
            torch.empty(4, device=DEV).exponential_(),
            torch.bernoulli(torch.full((8,), 0.5, device=DEV)),
            torch.multinomial(torch.ones(6, device=DEV), 3),
            F.dropout(torch.ones(16, device=DEV)),
        )

    torch.manual_seed(0)
    a = draws()
    torch.manual_seed(0)
    same(draws(), a)
    assert a[0].cpu().abs().sum() > 0 and len(set(a[0].tolist())) == 5  # seed 0 is a seed
    state = torch.tpu.get_rng_state()
    b = draws()
    torch.tpu.set_rng_state(state)
    same(draws(), b)
    assert not torch.equal(a[0].cpu(), b[0].cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_row_70_uniform_below_one_and_finite_normals(dtype):
    torch.manual_seed(1)
    u = torch.rand(10**6, dtype=dtype, device=DEV)
    assert u.min().item() >= 0 and u.max().item() < 1
    assert abs(u.float().mean().item() - 0.5) < 3e-3
    z = torch.randn(10**6, dtype=dtype, device=DEV)
    assert z.isfinite().all() and abs(z.float().mean().item()) < 5e-3
    assert abs(z.float().std().item() - 1) < 5e-3
    w = torch.empty(10**5, dtype=dtype, device=DEV).uniform_(-3, 5)
    assert w.min().item() >= -3 and w.max().item() <= 5


def test_distributions():
    torch.manual_seed(2)
    n = 200_000
    i = torch.randint(-5, 5, (n,), device=DEV)
    assert i.min().item() == -5 and i.max().item() == 4 and abs(i.float().mean().item() + 0.5) < 0.03
    e = torch.empty(n, device=DEV).exponential_(2.0)
    assert e.min().item() > 0 and abs(e.mean().item() - 0.5) < 0.01
    b = torch.empty(n, device=DEV).bernoulli_(0.3)
    assert abs(b.mean().item() - 0.3) < 0.01
    m = torch.multinomial(torch.tensor([1.0, 0.0, 3.0], device=DEV), n, replacement=True)
    counts = torch.bincount(m.cpu(), minlength=3) / n
    assert counts[1] == 0 and abs(counts[2].item() - 0.75) < 0.01
    p = torch.randperm(1000, device=DEV)
    same(p.sort()[0], torch.arange(1000))
    d = F.dropout(torch.ones(n, device=DEV), 0.25)
    assert abs((d == 0).float().mean().item() - 0.25) < 0.01 and abs(d.mean().item() - 1) < 0.01
    assert abs(torch.normal(2.0, 3.0, (n,), device=DEV).std().item() - 3) < 0.03
    assert torch.empty(n, device=DEV).cauchy_().isfinite().all()
    assert abs(torch.empty(n, device=DEV).geometric_(0.5).mean().item() - 2) < 0.03
    assert abs(torch.empty(n, device=DEV).log_normal_().log().mean().item() - 1) < 0.02


def test_dropout_masks_agree_forward_and_backward():
    torch.manual_seed(3)
    x = torch.ones(1000, device=DEV, requires_grad=True)
    y = F.dropout(x, 0.4)
    y.sum().backward()
    same(x.grad, y.detach())
    assert not torch.equal(F.dropout(x.detach(), 0.4).cpu(), y.detach().cpu())


# --- state, processes, the rest ---


def test_row_72_state_dict_ends(tmp_path):
    m = torch.nn.TransformerEncoderLayer(16, 2, 32).to(DEV)
    torch.save(m.state_dict(), tmp_path / "s")
    done = run_python(
        f"import torch; print(len(torch.load({str(tmp_path / 's')!r}, map_location='cpu')))",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert int(done.stdout) == len(m.state_dict())


def test_row_74_safetensors(tmp_path):
    from safetensors.torch import load_file, save_file

    x = {"a": data(3, 4).to(DEV), "b": data(2, dtype=torch.int64).to(DEV)}
    save_file(x, tmp_path / "x.safetensors")
    for name, t in load_file(tmp_path / "x.safetensors").items():
        same(t.to(DEV), x[name])


def test_row_79_too_large_is_out_of_memory():
    code = """
import torch
x = torch.ones(1000, device='tpu')
try:
    y = torch.zeros(64 << 20, device='tpu') + 1
    y.sum().item()
except torch.OutOfMemoryError as error:
    assert ' out of memory.' in str(error), error
else:
    raise SystemExit('no error')
assert (x + 1).sum().item() == 2000
stats = torch.tpu.memory_stats()
assert stats['num_ooms'] >= 1 and stats['allocated_bytes.all.current'] < 16 << 20
"""
    run_python(code, TORCH_TPU_MEMORY_LIMIT=str(100 << 20), TORCH_TPU_NUM_DEVICES="1")


def test_row_81_scalars_of_the_cpu_mix():
    both_ = data(3).to(DEV)
    scalar = torch.tensor(2.0)
    same(both_ * scalar + scalar.double(), both_.cpu() * 2 + 2)
    same(torch.where(both_ > 0, both_, scalar), torch.where(both_.cpu() > 0, both_.cpu(), 2.0))
    same(both_.add_(scalar), both_.cpu())
    with pytest.raises(RuntimeError, match="(?i)same device|device"):
        both_ + torch.ones(3)
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        assert (both_ * scalar).device == torch.device("tpu:0")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_row_83_complex(dtype):
    def f(x, y):
        parts = (torch.view_as_real(x), x.real, x.imag, x.angle(), x.abs(), x.conj() * y, x / y)
        return (
            *parts,
            x @ y.mT,
            x.exp(),
            x.sum(),
            x * 2j,
            x**2,
            torch.polar(x.abs(), x.angle()),
            x == y,
            x.sqrt(),
        )

    both(f, data(3, 4, dtype=dtype), data(3, 4, dtype=dtype, seed=1))
    both(
        lambda x: (torch.fft.ifft(torch.fft.fft(x)), torch.fft.fft2(x)),
        data(4, 6, dtype=dtype),
        strides=False,
    )
    both(lambda x: torch.fft.irfft(torch.fft.rfft(x)), data(4, 6).to(dtype.to_real()), strides=False)


def test_row_84_nothing_is_compiled_ahead():
    done = run_python(
        "import torch; x = torch.ones(2, device='tpu'); (x + 1).cpu();"
        "s = torch.tpu.compile_stats(); print(s['programs_compiled'] + s['programs_loaded'])"
    )
    assert int(done.stdout) <= 3


def test_out_arguments():
    x = data(3, 4)

    def f(x):
        a = torch.empty(0, device=x.device)
        torch.add(x, x, out=a)
        b = torch.empty(3, 4, device=x.device, dtype=torch.float64)
        torch.mul(x, 2, out=b)
        c = x.new_empty(4, 3).t()
        torch.exp(x, out=c)
        d, e = x.new_empty(0), torch.empty(0, dtype=torch.int64, device=x.device)
        torch.max(x, 1, out=(d, e))
        return a, b, c, d, e

    both(f, x)
    raises_alike(lambda x: torch.exp(x, out=x.new_empty(3, 4, dtype=torch.int32)), x, words="cast")
    raises_alike(lambda x: torch.add(x, x, out=x[:1].expand(3, 4)), x, words="single memory location")


def test_double_backward():
    def f(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = (torch.tanh(x @ w) * torch.softmax(x, 1).sum()).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        return x.grad, w.grad

    # sums of products of gradients up to 1e3: the last bits of two differentiations add up (2e-6 relative seen)
    both(f, data(4, 3), data(3, 5), strides=False, rtol=1e-4, atol=1e-4)
    x = data(3, dtype=torch.float64).to(DEV).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: (x.sin() * x.exp()).sum(), (x,))


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"]
)
@pytest.mark.parametrize("foreach", [False, True])
def test_optimizers(name, foreach):
    def f(w, v):
        parameters = [torch.nn.Parameter(w), torch.nn.Parameter(v)]
        options = dict(momentum=0.9, nesterov=True) if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(
            parameters, lr=0.05, weight_decay=0.01, foreach=foreach, **options
        )
        for _ in range(4):
            optimizer.zero_grad()
            sum((p * p * (i + 1)).sum() for i, p in enumerate(parameters)).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        return [p.detach() for p in parameters]

    both(f, data(3, 4), data(5))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_optimizers_work_or_say_so(name):
    def f(w, fused):
        p = torch.nn.Parameter(w.clone())
        optimizer = getattr(torch.optim, name)([p], lr=0.05, fused=fused)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        return p.detach()

    try:
        got = f(data(3, 4).to(DEV), True)
    except RuntimeError as error:
        assert "fused" in str(error)
    else:
        same(got, f(data(3, 4), False))


@pytest.mark.parametrize("make", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(make, bidirectional):
    torch.manual_seed(0)
    m = make(4, 5, num_layers=2, bidirectional=bidirectional, batch_first=True)

    def f(x, *parameters):
        n = make(4, 5, num_layers=2, bidirectional=bidirectional, batch_first=True).to(x.device)
        with torch.no_grad():
            for p, q in zip(n.parameters(), parameters, strict=True):
                p.copy_(q)
        x = x.detach().requires_grad_()
        y, h = n(x)
        y.square().sum().backward()
        return y.detach(), x.grad, [p.grad for p in n.parameters()]

    parameters = [p.detach() for p in m.parameters()]
    both(f, data(3, 6, 4), *parameters, strides=False)
    cells = {torch.nn.LSTM: torch.nn.LSTMCell, torch.nn.GRU: torch.nn.GRUCell, torch.nn.RNN: torch.nn.RNNCell}
    cell = cells[make](4, 5)
    on_tpu = cells[make](4, 5).to(DEV)
    on_tpu.load_state_dict(cell.state_dict())
    x = data(3, 4)
    same(on_tpu(x.to(DEV)), cell(x))


def test_reduced_sizes_of_everything_in_every_mode(mode):
    def f(x, w, i):
        h = F.gelu(F.layer_norm(x @ w, (8,)))
        p = torch.softmax(h, -1)
        loss = F.cross_entropy(h, i) + p.var() + h.std() + torch.logsumexp(h, 1).mean()
        return h, p, loss, h.argmax(1), h.topk(2)[0], (h > 0).sum(), h.norm(), torch.cumsum(h, 1)

    both(f, data(6, 5), data(5, 8), torch.tensor([0, 7, 3, 3, 1, 2]), strides=False)
    assert move(torch.ones(1)).is_tpu
