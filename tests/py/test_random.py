"""Random ops: the distribution, the bounds, the same draws in every mode and again after a seed."""

import math

import pytest
import torch

N = 40000
dev = "tpu"


def ks(x, cdf):
    """Kolmogorov-Smirnov distance times sqrt(n): above 2 once in 1500."""
    x = x.double().cpu().sort()[0]
    n = x.numel()
    f = cdf(x)
    i = torch.arange(n, dtype=torch.float64)
    return max((f - i / n).max().item(), ((i + 1) / n - f).max().item()) * math.sqrt(n)


def fresh(dtype=torch.float32, n=N):
    return torch.empty(n, dtype=dtype, device=dev)


CONTINUOUS = {
    "uniform": (lambda t: t.uniform_(-1, 3), lambda x: (x + 1) / 4),
    "normal": (lambda t: t.normal_(1, 2), torch.distributions.Normal(1.0, 2.0).cdf),
    "exponential": (lambda t: t.exponential_(2), lambda x: 1 - torch.exp(-2 * x)),
    "cauchy": (lambda t: t.cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log_normal": (
        lambda t: t.log_normal_(0.5, 0.7),
        lambda x: torch.distributions.Normal(0.5, 0.7).cdf(x.log()),
    ),
    "gamma": (
        lambda t: torch._standard_gamma(t.fill_(2.5)),
        lambda x: torch.special.gammainc(torch.tensor(2.5).double(), x),
    ),
    "gamma below 1": (
        lambda t: torch._standard_gamma(t.fill_(0.3)),
        lambda x: torch.special.gammainc(torch.tensor(0.3).double(), x),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous(name, dtype):
    torch.manual_seed(1)
    f, cdf = CONTINUOUS[name]
    assert ks(f(fresh(dtype)), cdf) < 2


def moments(x, mean, var):
    x = x.double().cpu()
    return (
        abs(x.mean().item() - mean) < 5 * math.sqrt(var / x.numel())
        and abs(x.var().item() - var) < 0.08 * var
    )


def test_counts():
    torch.manual_seed(2)
    assert moments(fresh().geometric_(0.3), 1 / 0.3, 0.7 / 0.09)
    for rate in (0.3, 9.0, 40.0, 1000.0):
        assert moments(torch.poisson(fresh().fill_(rate)), rate, rate)
    for n, p in ((10, 0.3), (200, 0.4), (1000, 0.9), (10**5, 0.5)):
        assert moments(torch.binomial(fresh().fill_(n), fresh().fill_(p)), n * p, n * p * (1 - p))
    for p in (0.0, 0.25, 1.0):
        m = fresh().bernoulli_(p).mean().item()
        assert m == p if p in (0, 1) else abs(m - p) < 0.015
    w = torch.tensor([1.0, 2, 3, 4, 0], device=dev)
    for k, replacement in ((1, False), (2, False), (3, True)):
        m = torch.multinomial(w.expand(10000, 5), k, replacement).cpu()
        share = torch.bincount(m[:, 0], minlength=5) / 10000
        torch.testing.assert_close(share, w.cpu() / 10, atol=0.02, rtol=0)
        assert replacement or k == 1 or (m[:, 0] != m[:, 1]).all()


def test_integers():
    torch.manual_seed(3)
    x = torch.randint(-3, 7, (N,), device=dev).cpu()
    assert x.min() == -3 and x.max() == 6
    assert ((torch.bincount(x + 3) - N / 10).abs() < 6 * math.sqrt(N / 10)).all()
    x = fresh(torch.int64).random_(-(2**62), 2**62).cpu()
    assert x.min() < -(2**61) and x.max() > 2**61 and abs(x.double().mean().item()) < 2**62 * 0.02
    assert fresh(torch.uint8).random_().unique().numel() == 256
    p = torch.randperm(1000, device=dev).cpu()
    assert p.sort()[0].equal(torch.arange(1000)) and not p.equal(torch.arange(1000))


def test_bounds():
    """Cases 69 and 70."""
    torch.manual_seed(0)
    assert (torch.rand(100, device=dev) != 0).any()
    for dt in (torch.bfloat16, torch.float16, torch.float32):
        x = torch.rand(500000, dtype=dt, device=dev)
        assert x.max() < 1 and x.min() >= 0
    x = torch.randn(10**6, device=dev)
    assert x.isfinite().all() and 4 < x.abs().max() < 9
    assert (fresh().exponential_() > 0).all()


def draws():
    torch.manual_seed(7)
    ones = torch.ones(50, device=dev)
    out = [
        torch.rand(5, 3, device=dev) * 2,
        (torch.randn(100, device=dev) * 2 + 1).exp(),
        torch.randperm(9, device=dev),
    ]
    out += [
        torch.nn.functional.dropout(ones, 0.5),
        fresh(n=33).exponential_().log(),
        torch.bernoulli(ones / 3),
        fresh(n=8).cauchy_(),
    ]
    return [t.cpu() for t in out]


def test_same_draws_in_all_modes():
    want = draws()
    for mode in ("debug", "fused", "strict"):
        torch.tpu.set_eager_mode(mode)
        assert all(torch.equal(a, b) for a, b in zip(want, draws(), strict=True)), mode


def test_dropout_backward_uses_the_mask():
    x = torch.ones(1000, device=dev, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert not torch.equal(y, torch.nn.functional.dropout(x, 0.25))
