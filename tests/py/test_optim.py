"""Optimizers, their foreach and fused forms, the gradient scaler; a schedule compiles nothing."""

import pytest
import torch
from helpers import both, raises_alike
from torch import optim

CASES = [
    (optim.SGD, dict(momentum=0.9, nesterov=True, weight_decay=0.1)),
    (optim.SGD, dict(fused=True, momentum=0.9, weight_decay=0.01)),
    (optim.Adam, dict(foreach=True, amsgrad=True, weight_decay=0.1)),
    (optim.Adam, dict(fused=True, amsgrad=True, weight_decay=0.1)),
    (optim.AdamW, dict(foreach=False)),
    (optim.AdamW, dict(fused=True)),
    (optim.AdamW, dict(foreach=True, maximize=True)),
    (optim.Adagrad, dict(foreach=True)),
    (optim.Adagrad, dict(fused=True)),
    (optim.RMSprop, dict(foreach=True, momentum=0.9, centered=True)),
    (optim.Adadelta, {}),
    (optim.Adamax, {}),
    (optim.NAdam, {}),
    (optim.RAdam, {}),
    (optim.ASGD, {}),
    (optim.Rprop, {}),
]


def train(device, kind, kw, steps=4):
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to(device)
    o = kind(m.parameters(), lr=0.01, **kw)
    sched = optim.lr_scheduler.ExponentialLR(o, 0.9)
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x, y = torch.randn(32, 8, generator=g).to(device), torch.randn(32, 4, generator=g).to(device)
        o.zero_grad()
        ((m(x) - y) ** 2).mean().backward()
        o.step()
        sched.step()
    return [p.detach().cpu() for p in m.parameters()]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_optimizer(case):
    for a, b in zip(train("cpu", *CASES[case]), train("tpu", *CASES[case]), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


def test_fused_optimizer_in_fused_mode():
    torch.tpu.set_eager_mode("fused")
    for a, b in zip(
        train("cpu", optim.AdamW, dict(fused=True)), train("tpu", optim.AdamW, dict(fused=True)), strict=True
    ):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kw", [dict(fused=True), dict(foreach=True), dict(foreach=False)], ids=str)
def test_schedule_compiles_nothing(kw):
    p = torch.nn.Parameter(torch.ones(5, device="tpu"))
    o = optim.AdamW([p], lr=0.01, **kw)
    counts = []
    for i in range(5):
        o.param_groups[0]["lr"] = 1 / (i + 2.3)
        p.grad = torch.full_like(p, 0.5)
        o.step()
        stats = torch.tpu.compile_stats()
        counts.append(stats["programs_compiled"] + stats["programs_loaded"])
    assert counts[-1] == counts[1], counts


def test_gradient_scaler():
    def run(device):
        torch.manual_seed(0)
        m = torch.nn.Linear(4, 4).to(device)
        o = optim.SGD(m.parameters(), lr=0.1)
        s = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
        scales = []
        for i in range(6):
            o.zero_grad()
            s.scale(m(torch.ones(3, 4, device=device) * (float("inf") if i == 3 else 1)).sum()).backward()
            s.step(o)
            s.update()
            scales.append(s.get_scale())
        return scales, [p.detach().cpu() for p in m.parameters()]

    a, b = run("cpu"), run("tpu")
    assert a[0] == b[0]
    torch.testing.assert_close(b[1], a[1])


@pytest.mark.parametrize("op", ["addcmul", "addcdiv"])
def test_a_number_an_item(op):
    """What torch's capturable optimizers pass: one CPU tensor with a number for each item of the lists."""
    xs = [torch.rand(3) + 1, torch.rand(2, 2) + 1]
    for numbers in (torch.tensor([2.5, -1.0]), torch.tensor([2.5, -1.0]).double(), torch.tensor([2, 3])):
        both(lambda a, b, c: getattr(torch, f"_foreach_{op}")(a, b, c, numbers), xs, xs, xs)
        both(lambda a, b, c: getattr(torch, f"_foreach_{op}_")(a, b, c, numbers), xs, xs, xs)
        programs = torch.tpu.compile_stats()["programs_compiled"]
        both(lambda a, b, c: getattr(torch, f"_foreach_{op}")(a, b, c, numbers + 1), xs, xs, xs)
        assert torch.tpu.compile_stats()["programs_compiled"] == programs
    for wrong in (torch.ones(3), torch.ones(2, 1)):
        raises_alike(lambda a: getattr(torch, f"_foreach_{op}")(a, a, a, wrong), xs, words="Expected ")
