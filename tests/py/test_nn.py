"""Products, norms, convolutions, pools, losses, attention, cells, linear algebra, transforms, resampling: forward and gradients as on the
CPU, any padding of generic dims, torch's errors."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from helpers import DEV, both, data, move, raises_alike, same
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_tpu import _C

D = torch.float64


def with_grads(fn, *args, **tolerance) -> None:
    """Values, and gradients of every argument that is a float, as on the CPU."""
    results = []
    for device in ("cpu", DEV):
        leaves = [
            a.requires_grad_(a.is_floating_point()) if isinstance(a, torch.Tensor) else a
            for a in move(args, device)
        ]
        outs = fn(*leaves)
        outs = [o for o in (outs if isinstance(outs, tuple) else (outs,)) if isinstance(o, torch.Tensor)]
        seeds = [data(*o.shape, dtype=o.dtype, seed=k + 1).to(device) for k, o in enumerate(outs)]
        wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
        pairs = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.requires_grad]
        grads = torch.autograd.grad([o for o, _ in pairs], wanted, [s for _, s in pairs], allow_unused=True)
        results.append((outs, grads))
    same(results[1], results[0], **tolerance)


# --- products ---


@pytest.mark.parametrize("dtype", [torch.float32, D, torch.bfloat16, torch.int64, torch.complex64])
def test_products(dtype: torch.dtype) -> None:
    x, y, z, v = (
        data(3, 4, dtype=dtype),
        data(4, 5, dtype=dtype, seed=1),
        data(3, 5, dtype=dtype, seed=2),
        data(4, dtype=dtype),
    )
    both(torch.mm, x, y)
    both(torch.mv, x, v)
    both(torch.dot, v, v)
    both(lambda *a: torch.addmm(*a, beta=2, alpha=3), z, x, y)
    both(lambda *a: torch.addmm(*a, beta=0), z * math.nan if dtype.is_floating_point else z, x, y)
    both(lambda a, b: torch.bmm(a.expand(2, 3, 4), b.expand(2, 4, 5)), x, y)
    both(lambda a, b, c: torch.baddbmm(c, a.expand(2, 3, 4), b.expand(2, 4, 5)), x, y, z)
    both(lambda a, b: torch.outer(a, b).addr(a, b), v, v)


def test_empty_contraction_is_the_bias() -> None:
    both(F.linear, data(3, 0), data(2, 0), data(2))
    both(torch.mm, data(3, 0), data(0, 2))


def test_product_errors() -> None:
    raises_alike(
        torch.mm, data(2, 3), data(4, 5), words="mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"
    )
    raises_alike(
        torch.mm,
        data(2, 3),
        data(3, 5, dtype=D),
        words="expected m1 and m2 to have the same dtype, but got: float != double",
    )
    raises_alike(
        torch.bmm,
        data(2, 3, 4),
        data(2, 5, 4),
        words="Expected size for first two dimensions of batch2 tensor to be: [2, 4]",
    )
    raises_alike(torch.mv, data(2, 3), data(4), words="size mismatch, got input (2), mat (2x3), vec (4)")
    raises_alike(torch.dot, data(2), data(3), words="inconsistent tensor size")


# --- softmax, norms ---


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dim: int) -> None:
    x = data(3, 4, 5, dtype=D)
    x[0, 1] = -math.inf
    with_grads(lambda v: torch.softmax(v, dim), x.clone())
    with_grads(lambda v: torch.log_softmax(v, dim), data(3, 4, 5, dtype=D))
    both(lambda v: torch.softmax(v, dim), data(3, 4, 5, dtype=torch.bfloat16))
    both(lambda v: torch.softmax(v, 0), data(dtype=D))


def test_norms() -> None:
    x, w, v = data(4, 6, 5, dtype=D), data(6, dtype=D, seed=1), data(6, dtype=D, seed=2)
    with_grads(lambda a, b, c: F.group_norm(a, 3, b, c), x, w, v)
    with_grads(lambda a, b, c: F.instance_norm(a, weight=b, bias=c), x, w, v)
    with_grads(lambda a, b, c: F.layer_norm(a.transpose(1, 2), [6], b, c), x, w, v)
    with_grads(lambda a, b: F.rms_norm(a.transpose(1, 2), [6], b), x, w)
    with_grads(lambda a, b, c: F.batch_norm(a, None, None, b, c, training=True), x, w, v)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_running_statistics(momentum: float | None) -> None:
    cpu = torch.nn.BatchNorm2d(3, momentum=momentum)
    ours = copy.deepcopy(cpu).to(DEV)
    for k in range(3):
        x = data(4, 3, 5, 5, seed=k)
        same(ours(x.to(DEV)), cpu(x))
    same(dict(ours.state_dict()), dict(cpu.state_dict()))
    same(ours.eval()(x.to(DEV)), cpu.eval()(x))


# --- convolutions, pools ---

CONVS = [
    dict(),
    dict(stride=2, padding=1),
    dict(dilation=2, padding=2),
    dict(groups=2),
    dict(stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    dict(padding="same"),
]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kw", CONVS, ids=str)
def test_convolutions(dims: int, kw: dict) -> None:
    if dims != 2 and any(isinstance(v, tuple) for v in kw.values()):
        pytest.skip("pairs are for two dims")
    conv = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    x, w = (
        data(2, 4, *[6, 7, 5][:dims], dtype=D),
        data(6, 4 // kw.get("groups", 1), *[3, 2, 3][:dims], dtype=D, seed=1),
    )
    with_grads(lambda a, b, c: conv(a, b, c, **kw), x, w, data(6, dtype=D, seed=2))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "kw", [dict(), dict(stride=2, padding=1, output_padding=1), dict(groups=2, dilation=2)], ids=str
)
def test_transposed_convolutions(dims: int, kw: dict) -> None:
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    x, w = data(2, 4, *[4, 3, 3][:dims], dtype=D), data(4, 3, *[3, 2, 3][:dims], dtype=D, seed=1)
    with_grads(lambda a, b: conv(a, b, None, **kw), x, w)


def test_convolution_twice_differentiable() -> None:
    x, w = (
        data(2, 2, 5, 5, dtype=D).to(DEV).requires_grad_(),
        data(3, 2, 3, 3, dtype=D, seed=1).to(DEV).requires_grad_(),
    )
    assert torch.autograd.gradgradcheck(lambda a, b: F.conv2d(a, b, padding=1), (x, w), nondet_tol=1e-9)


def test_channels_last_stays() -> None:
    x, w = (
        data(2, 4, 6, 6).to(memory_format=torch.channels_last),
        data(5, 4, 3, 3, seed=1).to(memory_format=torch.channels_last),
    )
    assert F.conv2d(x.to(DEV), w.to(DEV)).is_contiguous(memory_format=torch.channels_last)
    both(lambda a: F.max_pool2d(a, 2), x)
    both(lambda a: F.avg_pool2d(a, 2), x)


POOLS = {
    "max1d": lambda x: F.max_pool1d(x[:, :, 0], 3, 2, 1),
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max ceil dilated": lambda x: F.max_pool2d(
        x, (2, 3), dilation=(2, 1), ceil_mode=True, return_indices=True
    ),
    "max overlapping": lambda x: F.max_pool2d(x, 6, 1, 3),
    "max unbatched": lambda x: F.max_pool2d(x[0], 2),
    "max3d": lambda x: F.max_pool3d(x, 2, return_indices=True),
    "avg": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "avg divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "avg3d": lambda x: F.avg_pool3d(x, 2, 1, 1),
    "adaptive avg": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive avg even": lambda x: F.adaptive_avg_pool2d(x, (4, 1)),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True),
    "adaptive max even": lambda x: F.adaptive_max_pool2d(x, (4, 1), return_indices=True),
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    with_grads(POOLS[name], data(2, 3, 8, 9, dtype=D))


def test_max_pool_of_nan_and_of_nothing_but_padding() -> None:
    x = data(1, 1, 6, 6, dtype=D)
    x[0, 0, 2, 2] = math.nan
    both(lambda a: F.max_pool2d(a, 3, 1, 1, return_indices=True), x)
    both(lambda a: F.max_pool2d(a, 2, return_indices=True), torch.full((1, 1, 4, 4), -math.inf))


# --- losses ---

LOSSES = {
    "mse": lambda x, t, r: F.mse_loss(x, t, reduction=r),
    "smooth l1": lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r, beta=0.7),
    "huber": lambda x, t, r: F.huber_loss(x, t, reduction=r, delta=0.7),
    "bce": lambda x, t, r: F.binary_cross_entropy(x.sigmoid(), t.sigmoid().detach(), reduction=r),
    "bce logits": lambda x, t, r: F.binary_cross_entropy_with_logits(
        x, t.sigmoid(), pos_weight=t[0].exp().detach(), reduction=r
    ),
    "soft margin": lambda x, t, r: F.soft_margin_loss(x, t.sign().detach(), reduction=r),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, reduction: str) -> None:
    with_grads(lambda x, t: LOSSES[name](x, t, reduction), data(4, 5, dtype=D), data(4, 5, dtype=D, seed=1))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_classes(reduction: str) -> None:
    x, t, w = data(4, 5, dtype=D), torch.tensor([1, -100, 4, 0]), data(5, dtype=D, seed=1).abs()
    with_grads(lambda a: F.cross_entropy(a, t.to(a.device), w.to(a.device), reduction=reduction), x)
    with_grads(lambda a: F.cross_entropy(a, t.to(a.device), reduction=reduction, label_smoothing=0.1), x)
    image = torch.randint(0, 5, (4, 3, 2), generator=torch.Generator().manual_seed(0))
    with_grads(
        lambda a: F.cross_entropy(a, image.to(a.device), reduction=reduction, ignore_index=2),
        data(4, 5, 3, 2, dtype=D),
    )
    with_grads(
        lambda a: F.multi_margin_loss(
            a, t.clamp(0).to(a.device), p=2, weight=w.to(a.device), reduction=reduction
        ),
        x,
    )
    several = torch.tensor([[1, 3, -1, 0, 0], [2, -1, 1, 1, 1], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]])
    with_grads(lambda a: F.multilabel_margin_loss(a, several.to(a.device), reduction=reduction), x)


def test_class_out_of_range() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(data(2, 3).to(DEV), torch.tensor([1, 3]).to(DEV)).item()


@pytest.mark.parametrize("flat", [False, True])
def test_ctc(flat: bool) -> None:
    x, lengths = data(12, 3, 6, dtype=D), [4, 2, 3]
    t = torch.randint(1, 6, (9,) if flat else (3, 4), generator=torch.Generator().manual_seed(0))
    with_grads(
        lambda a: F.ctc_loss(a.log_softmax(2), t.to(a.device), [12, 9, 5], lengths, reduction="none"), x
    )
    impossible = [2, 9, 5]
    with_grads(
        lambda a: F.ctc_loss(a.log_softmax(2), t.to(a.device), impossible, lengths, zero_infinity=True), x
    )


def test_ctc_of_other_lengths_is_no_new_program() -> None:
    x, t = data(12, 2, 6).log_softmax(2).to(DEV), torch.ones(2, 4, dtype=torch.int64).to(DEV)
    F.ctc_loss(x, t, [12, 9], [4, 2], reduction="none")
    torch.tpu.reset_compile_stats()
    F.ctc_loss(x, t, [7, 8], [2, 3], reduction="none")
    assert torch.tpu.compile_stats()["programs_compiled"] == 0


# --- attention ---


def heads(*counts: int, length: int = 7) -> list[torch.Tensor]:
    return [data(2, n, 5 if k == 0 else length, 8, dtype=D, seed=k) for k, n in enumerate(counts)]


def test_attention() -> None:
    seen = data(2, 1, 5, 7) > -0.5
    seen[0, 0, 2] = False  # a row in which everything is masked: 0
    sdpa = F.scaled_dot_product_attention
    with_grads(lambda q, k, v: sdpa(q, k, v), *heads(4, 4, 4))
    with_grads(lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), *heads(4, 4, 4))
    with_grads(lambda q, k, v: sdpa(q, k, v, attn_mask=seen.to(q.device)), *heads(4, 4, 4))
    with_grads(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *heads(4, 4, 4), data(5, 7, dtype=D, seed=5))
    with_grads(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), *heads(4, 2, 2))
    with_grads(lambda q, k, v: sdpa(q[0], k[0], v[0]), *heads(4, 4, 4))


def test_attention_by_the_mathematical_path() -> None:
    q = data(1, 2, 3, 4, dtype=D).to(DEV).requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(
            lambda x: F.scaled_dot_product_attention(x, x, x), (q,), nondet_tol=1e-9
        )


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of the CPU
def test_attention_under_transforms() -> None:
    def sdpa(x):
        return F.scaled_dot_product_attention(x, x, x)

    func = torch.func
    q = data(3, 1, 2, 3, 4, dtype=D)
    both(func.vmap(sdpa), q, strides=False)
    both(func.vmap(func.grad(lambda x: sdpa(x).sum())), q, strides=False)
    both(func.grad(lambda x: func.vmap(sdpa)(x).sum()), q, strides=False)
    both(func.vmap(lambda k, x: F.scaled_dot_product_attention(x, k, k), (0, None)), q, q[0], strides=False)

    def by_sample(x):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).to(x)
        loss = func.grad(lambda p, y: func.functional_call(layer, p, (y[None],)).square().sum())
        return func.vmap(loss, (None, 0))({k: v.detach() for k, v in layer.named_parameters()}, x)

    both(by_sample, q[:, 0, 0], strides=False)


def test_attention_dropout_is_the_same_in_the_gradient() -> None:
    q, k, v = (t.to(DEV).requires_grad_() for t in heads(3, 3, 3, length=16))

    def run(a, b, c):
        torch.manual_seed(3)
        return F.scaled_dot_product_attention(a, b, c, dropout_p=0.3)

    out = run(q, k, v)
    assert torch.equal(out.cpu(), run(q, k, v).cpu())
    seed, step = data(*out.shape, dtype=D, seed=7).to(DEV), 1e-4
    for i, g in enumerate(torch.autograd.grad(out, (q, k, v), seed)):
        at = [t.detach() for t in (q, k, v)]
        way = data(*g.shape, dtype=D, seed=9 + i).to(DEV)
        up, down = (run(*at[:i], at[i] + s * way, *at[i + 1 :]) for s in (step, -step))
        assert math.isclose(
            ((up - down) * seed).sum().item() / (2 * step), (g * way).sum().item(), rel_tol=1e-5, abs_tol=1e-6
        )


def test_attention_over_a_growing_cache_compiles_nothing() -> None:
    def decode(n: int, past: torch.Tensor) -> None:
        keys = past.to(DEV)
        _C.mark_generic(keys.data_ptr(), 6, list(keys.shape), list(keys.stride()), 0, 2, 24, math.nan)
        values = keys * 2
        for k in range(n):
            q, new = data(1, 4, 1, 8, seed=k), data(1, 2, 1, 8, seed=50 + k)
            past = torch.cat([past, new], 2)
            keys, values = torch.cat([keys, new.to(DEV)], 2), torch.cat([values, 2 * new.to(DEV)], 2)
            got = F.scaled_dot_product_attention(q.to(DEV), keys, values, enable_gqa=True)
            same(got, F.scaled_dot_product_attention(q, past, past * 2, enable_gqa=True))

    decode(2, data(1, 2, 5, 8))
    torch.tpu.reset_compile_stats()
    decode(12, data(1, 2, 5, 8))
    assert torch.tpu.compile_stats()["programs_compiled"] == 0


def test_transformer_modules() -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu").eval()
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    ours, x = copy.deepcopy(encoder).to(DEV), data(2, 5, 16)
    padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.inference_mode():
        same(ours(x.to(DEV)), encoder(x))
        got, expected = (
            ours(x.to(DEV), src_key_padding_mask=padded.to(DEV)),
            encoder(x, src_key_padding_mask=padded),
        )
        torch.testing.assert_close(got.cpu()[~padded], expected[~padded])
    with_grads(lambda a: (ours if a.device.type == DEV else encoder).train(False)(a), x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_modules(cell: type, bias: bool) -> None:
    cpu = cell(6, 5, 2, bias=bias, bidirectional=True).double()
    ours = copy.deepcopy(cpu).to(DEV)
    with_grads(lambda x: (cpu if x.device.type == "cpu" else ours)(x)[0], data(4, 3, 6, dtype=D))
    for net in (cpu, ours):
        net(data(4, 3, 6, dtype=D).to(next(net.parameters()).device))[0].square().sum().backward()
    same([p.grad for p in ours.parameters()], [p.grad for p in cpu.parameters()])


# --- linear algebra, transforms, resampling ---


def spd(*batch: int, n: int = 4) -> torch.Tensor:
    a = data(*batch, n, n, dtype=D)
    return a @ a.mT + n * torch.eye(n, dtype=D)


SOLVERS = {
    "det": lambda a: torch.linalg.det(a),
    "det transposed": lambda a: torch.linalg.det(a.mT),
    "slogdet": lambda a: torch.linalg.slogdet(a),
    "inv": lambda a: torch.linalg.inv(a),
    "solve": lambda a: torch.linalg.solve(a, a[..., :2] * 2),
    "solve right": lambda a: torch.linalg.solve(a, a[..., :2, :] * 2, left=False),
    "solve vector": lambda a: torch.linalg.solve(a, a[..., 0]),
    "lu": lambda a: torch.linalg.lu(a),
    "lu_solve": lambda a: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a[..., :3]),
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT + 4 * torch.eye(4, dtype=a.dtype, device=a.device)),
    "triangular": lambda a: torch.linalg.solve_triangular(
        a.triu() + 3 * torch.eye(4, dtype=a.dtype, device=a.device), a, upper=True
    ),
    "matrix_exp": lambda a: torch.linalg.matrix_exp(a),
    "pinv": lambda a: torch.linalg.pinv(a[..., :3]),
    "qr": lambda a: torch.linalg.qr(a),
    "lstsq": lambda a: torch.linalg.lstsq(a[..., :3], a[..., :2])[0],
    "norm": lambda a: torch.linalg.matrix_norm(a, 2),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_solvers(name: str, batch: tuple[int, ...]) -> None:
    with_grads(SOLVERS[name], data(*batch, 4, 4, dtype=D))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 6, 6), (1, 1), (7, 2)])
@pytest.mark.parametrize("dtype", [D, torch.complex128])
def test_svd(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for a in (
        data(*shape, dtype=dtype),
        data(*shape[:-1], 1, dtype=dtype) @ data(*shape[:-2], 1, shape[-1], dtype=dtype, seed=1),
    ):
        for full in (False, True):
            u, s, vh = (t.cpu() for t in torch.linalg.svd(a.to(DEV), full_matrices=full))
            k = s.shape[-1]
            torch.testing.assert_close(s, torch.linalg.svdvals(a), atol=1e-10, rtol=1e-9)
            torch.testing.assert_close(
                (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, atol=1e-10, rtol=1e-9
            )
            for m in (u.mH @ u, vh @ vh.mH):
                torch.testing.assert_close(
                    m, torch.eye(m.shape[-1], dtype=dtype).expand_as(m), atol=1e-10, rtol=1e-9
                )


def test_eigh() -> None:
    a = spd(3)
    w, v = torch.linalg.eigh(a.to(DEV))
    torch.testing.assert_close(w.cpu(), torch.linalg.eigvalsh(a), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close((v * w.unsqueeze(-2) @ v.mH).cpu(), a, atol=1e-8, rtol=1e-8)


def test_matrices_that_have_no_answer() -> None:
    raises_alike(torch.linalg.inv, torch.zeros(2, 2), words="singular")
    raises_alike(torch.linalg.cholesky, -torch.eye(2), words="not positive-definite")
    raises_alike(torch.linalg.solve, data(2, 3), data(2), words="square")


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(norm: str) -> None:
    x, z = data(3, 6, 5, dtype=D), data(3, 6, 5, dtype=torch.complex128)
    with_grads(lambda a: torch.view_as_real(torch.fft.rfftn(a, dim=(0, 2), norm=norm)), x)
    both(lambda a: torch.fft.fft2(a, norm=norm, dim=(1, 0)), z, strides=False)
    both(lambda a: torch.fft.ifftn(a, norm=norm), z, strides=False)
    both(lambda a: torch.fft.irfft(a, n=7, norm=norm), z, strides=False)
    both(lambda a: torch.fft.irfftn(a, s=(4, 3, 8), norm=norm), z, strides=False)
    both(lambda a: torch.fft.ihfft(a, norm=norm), x, strides=False)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(9, 4), (3, 12), (6, 5)])
def test_interpolation(mode: str, size: tuple[int, int]) -> None:
    with_grads(lambda a: F.interpolate(a, size, mode=mode), data(2, 3, 6, 5, dtype=D))
    if mode in ("bilinear", "bicubic"):
        with_grads(lambda a: F.interpolate(a, size, mode=mode, align_corners=True), data(2, 3, 6, 5, dtype=D))
        with_grads(lambda a: F.interpolate(a, size, mode=mode, antialias=True), data(2, 3, 6, 5, dtype=D))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(mode: str, padding: str, align: bool) -> None:
    grid = data(2, 4, 3, 2, dtype=D, seed=1)
    with_grads(lambda a, g: F.grid_sample(a, g, mode, padding, align), data(2, 3, 5, 6, dtype=D), grid)
    if mode != "bicubic":
        solid = data(2, 2, 3, 2, 3, dtype=D, seed=2)
        with_grads(
            lambda a, g: F.grid_sample(a, g, mode, padding, align), data(2, 3, 4, 5, 3, dtype=D), solid
        )
