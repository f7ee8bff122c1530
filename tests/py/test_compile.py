"""torch.compile(backend="tpu"): values against the CPU, random draws against eager mode, what is recorded and what is not."""

from __future__ import annotations

import copy
import gc
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from helpers import data, move, run_python, same
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def reports():
    from torch_tpu._compile import backend

    return [g.report() for g in backend.graphs() if g.calls]


def calls_alone() -> set[str]:
    return {name for r in reports() for name in r["alone"]}


def twice(fn, *args, **how):
    """The function compiled, called twice with fresh copies; results and written arguments as on the CPU."""
    compiled = torch.compile(fn, backend="tpu", **how)
    for _ in range(2):
        cpu, tpu = copy.deepcopy(args), move(copy.deepcopy(args))
        expected = fn(*cpu)
        same(compiled(*tpu), expected)
        same(tpu, cpu)


def train(device: str, make, optimizer, compiled: str = "", steps: int = 5, lrs=None):
    """Parameters after some steps. compiled: "model", "optimizer" or "step"."""
    torch.manual_seed(0)
    model = make().to(device)
    opt = optimizer(model.parameters())
    run, update = model, opt.step
    if compiled == "model":
        run = torch.compile(model, backend="tpu", fullgraph=True)
    if compiled == "optimizer":
        update = torch.compile(lambda: opt.step(), backend="tpu")

    def step(x):
        loss = run(x).square().mean()
        loss.backward()
        update()
        opt.zero_grad()
        return loss.detach()

    one = torch.compile(step, backend="tpu") if compiled == "step" else step
    torch.manual_seed(1)
    for i in range(steps):
        if lrs:
            opt.param_groups[0]["lr"] = lrs[i]
        one(torch.randn(6, 4).to(device))
    return [p.detach().cpu() for p in model.parameters()]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01, foreach=True),
}


@pytest.mark.parametrize("what", ["model", "optimizer", "step"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name: str, what: str) -> None:
    expected = train("cpu", mlp, OPTIMIZERS[name])
    for got, want in zip(train("tpu", mlp, OPTIMIZERS[name], what), expected, strict=True):
        torch.testing.assert_close(got, want)
    assert not calls_alone()


def test_a_capturable_optimizer() -> None:
    expected = train("cpu", mlp, lambda ps: torch.optim.Adam(ps, lr=0.01))
    got = train("tpu", mlp, lambda ps: torch.optim.Adam(ps, lr=0.01, capturable=True), "optimizer")
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e)


def test_another_learning_rate_compiles_nothing(fresh) -> None:
    lrs = [torch.tensor(0.1 / (i + 1)) for i in range(5)]
    expected = train("cpu", mlp, OPTIMIZERS["sgd"], lrs=[float(lr) for lr in lrs])
    got = train("tpu", mlp, OPTIMIZERS["sgd"], "optimizer", lrs=lrs)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e)
    calls = [r["calls"] for r in reports()]
    assert max(calls) >= 3, calls  # one graph serves all rates once momentum exists


def test_pointwise_and_reductions() -> None:
    x, y = torch.randn(4, 5), torch.randn(5)
    twice(lambda x, y: (x + y).relu() * 2, x, y)
    twice(lambda x: torch.softmax(x, -1)[:, 1:].sum(0), x)
    twice(lambda x: x.sum(0), torch.randn(0, 3))
    twice(lambda x, y: (x * y).abs(), x.to(torch.complex64), y.to(torch.complex64))
    twice(lambda x: (x // 2) % 3, torch.arange(9))


def test_writes() -> None:
    def into(x, c):
        c.add_(x)
        c[0].mul_(2)
        return c.sum()

    twice(into, torch.randn(3), torch.randn(3))
    twice(
        lambda x, c, i: c.index_copy_(0, i, x).sum(), torch.randn(1, 3), torch.zeros(4, 3), torch.tensor([2])
    )


def test_results_that_alias() -> None:
    twice(lambda x: (x.t(), x[1:], x.view(-1), None, {"a": x + 1}), torch.randn(3, 4))
    twice(lambda x: [(x + 1).t(), (x + 1)[1:]], torch.randn(3, 4))
    same_input = torch.compile(lambda x: (x, x + 1), backend="tpu")
    x = torch.ones(3, device="tpu")
    for _ in range(2):
        assert same_input(x)[0] is x

    def pair(x):
        y = x * 2
        return y, y[1:]

    a, b = torch.compile(pair, backend="tpu")(x)
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    b.zero_()
    assert a.tolist() == [2, 0, 0]


def test_copies_of_inputs() -> None:
    """A whole copy is the same value until somebody writes: the graph is kept, and both are right afterwards."""

    def copies(x, y):
        return x.clone(), y.copy_(x), x + 1

    def swap(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    fn = torch.compile(copies, backend="tpu")
    for i in range(3):
        x, y = data(3, seed=i), torch.zeros(3, device="tpu")
        t = x.to("tpu")
        a, b, c = fn(t, y)
        t.add_(1)
        same([a, b, c, y, t], [x, x, x + 1, x, x + 1])
        y.zero_()
        same([a, t], [x, x + 1])
    fn = torch.compile(swap, backend="tpu")
    one, zero = torch.ones(3, device="tpu"), torch.zeros(3, device="tpu")
    for i in range(4):
        fn(one, zero)
        same([one, zero], [torch.full((3,), float(i % 2)), torch.full((3,), float(1 - i % 2))])
    assert all(not p["not_kept"] for r in reports()[-2:] for p in r["pieces"])


def test_inputs_read_as_another_dtype() -> None:
    """The graph casts its input; the input stays what it is, and the graph is kept."""
    x = torch.tensor([1.5, -2.0, 0.0, float("nan")])
    z = torch.tensor([1 + 2j, -3j])

    def f(x, z):
        return x.view(torch.int32) + 1, torch.view_as_real(z) * 2, x + 1

    run = torch.compile(f, backend="tpu", fullgraph=True)
    there = move((x, z))
    for _ in range(3):
        same(run(*there), f(x, z))
    same(there, (x, z))
    assert all(p["not_kept"] is None for r in reports() for p in r["pieces"])


def test_deep_copies_are_kept() -> None:
    """Storages are copied as bytes: no program, and a graph that reads either is kept."""
    model = nn.BatchNorm1d(5).to("tpu")
    known = len(torch.tpu.compile_stats()["programs"])
    twin = copy.deepcopy(model)
    state = copy.deepcopy(model.state_dict())
    assert len(torch.tpu.compile_stats()["programs"]) == known
    run = torch.compile(lambda m, x: m(x), backend="tpu", fullgraph=True)
    x = data(4, 5)
    for m in (model, twin):
        reference = nn.BatchNorm1d(5)
        for _ in range(2):
            same(run(m, x.to("tpu")), reference(x))
        same(dict(m.state_dict()), dict(reference.state_dict()))
    same(dict(state), dict(nn.BatchNorm1d(5).state_dict()))
    assert all(p["not_kept"] is None for r in reports() for p in r["pieces"])


def test_a_graph_that_goes_while_another_is_traced() -> None:
    """The collector may run at any time: what it frees is no call of the graph that is being traced."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch_tpu._compile import execute

    x = torch.ones(3, device="tpu")
    held = [execute.CompiledGraph(make_fx(lambda x: x + 1, tracing_mode="fake")(x), "graph 0", False)]
    same(held[0]([x])[0], torch.full((3,), 2.0))

    def traced(x):
        held.clear()
        gc.collect()
        return x * 2

    gm = make_fx(traced, tracing_mode="fake")(x)
    assert not held and [n.target for n in gm.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.mul.Tensor
    ]


def test_inputs_that_share_a_storage() -> None:
    def into(a, b):
        a.add_(1)
        return b * 2

    compiled = torch.compile(into, backend="tpu")
    for _ in range(3):
        base, cpu = torch.zeros(6, device="tpu"), torch.zeros(6)
        same(compiled(base[:4], base[2:]), into(cpu[:4], cpu[2:]))
        same(base, cpu)
        base, cpu = torch.zeros(6, device="tpu"), torch.zeros(6)
        same(compiled(base[:2], base[2:]), into(cpu[:2], cpu[2:]))
        same(base, cpu)


def test_numbers() -> None:
    twice(lambda x, y: x * y + 2.5, torch.randn(3, 4), torch.tensor(2.0))
    times = torch.compile(lambda x, k: x * k, backend="tpu")
    for k in (1.5, 2.5, 3.5, 4.5):
        same(times(torch.ones(3, device="tpu"), k), torch.ones(3) * k)
    for k in (1.5, 2.5, 3.5):
        same(times(torch.ones(3, device="tpu"), torch.tensor(k)), torch.ones(3) * k)
    constants = torch.compile(
        lambda x: x * torch.tensor(3.0) + torch.tensor([1.0, 2.0, 3.0], device="tpu"), backend="tpu"
    )
    for _ in range(2):
        same(constants(torch.ones(3, device="tpu")), torch.tensor([4.0, 5.0, 6.0]))


def test_no_inputs() -> None:
    ones = torch.compile(lambda: torch.ones(3, device="tpu"), backend="tpu")
    for _ in range(2):
        same(ones(), torch.ones(3))


def test_sizes_that_only_values_tell() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, 0.0])
    twice(lambda x: x.nonzero(), x)
    twice(lambda x: x[x > 0] * 2, x)
    twice(lambda x: x * x.sum().item(), x)


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_sizes_that_only_values_tell_in_one_graph() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, 0.0])
    twice(lambda x: x.nonzero() + 1, x, fullgraph=True)
    twice(lambda x: x * x.sum().item(), x, fullgraph=True)


def test_the_cpu_in_a_graph() -> None:
    moves = torch.compile(lambda x, y: x + y.to(x.device).relu(), backend="tpu")
    for _ in range(3):  # what is uploaded is no constant
        y = torch.randn(3)
        same(moves(torch.ones(3, device="tpu"), y), torch.ones(3) + y.relu())
    back = torch.compile(lambda x: x.relu().cpu() + 1, backend="tpu")
    for _ in range(2):
        x = torch.randn(4)
        torch.testing.assert_close(back(x.to("tpu")), x.relu() + 1)


def test_dropout_is_eagers() -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 2)).to("tpu")
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="tpu", fullgraph=True)
    x = torch.randn(3, 4, device="tpu")
    draws = []
    for run, parameters in ((compiled, model), (other, other)):
        torch.manual_seed(3)
        losses = []
        for _ in range(3):
            loss = run(x).square().sum()
            loss.backward()
            losses.append(loss.item())
        draws.append((losses, [p.grad.cpu() for p in parameters.parameters()], torch.tpu.get_rng_state()))
    assert len(set(draws[0][0])) == 3
    torch.testing.assert_close(draws[0], draws[1])
    rand = torch.compile(lambda: torch.rand(4, device="tpu"), backend="tpu")
    torch.manual_seed(5)
    got = [rand().tolist() for _ in range(3)]
    torch.manual_seed(5)
    assert got == [torch.rand(4, device="tpu").tolist() for _ in range(3)]


def test_checkpoints() -> None:
    grads = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        fn = lambda x: checkpoint(model, x, use_reentrant=False).sum()
        run = torch.compile(fn, backend="tpu") if device == "tpu" else fn
        x = torch.ones(3, 4, device=device, requires_grad=True)
        run(x).backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads)


def test_checkpoints_draw_the_same_again() -> None:
    drop = nn.Dropout(0.5)
    run = torch.compile(lambda x: checkpoint(lambda y: drop(y) * y, x, use_reentrant=False), backend="tpu")
    x = torch.ones(64, device="tpu", requires_grad=True)
    for _ in range(3):
        x.grad = None
        y = run(x)
        y.sum().backward()
        same(x.grad, (2 * y.detach()).cpu())  # d/dx (mask x x) = 2 mask x: the mask of the forward


def test_autocast() -> None:
    layer = nn.Linear(4, 8).to("tpu")

    def fn(x):
        with torch.autocast("tpu", dtype=torch.bfloat16):
            return torch.softmax(layer(x), -1)

    x = torch.randn(3, 4, device="tpu")
    got, want = torch.compile(fn, backend="tpu")(x), fn(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want)
    with torch.autocast("tpu", dtype=torch.bfloat16):  # outside: the graph has its casts already
        got, want = torch.compile(layer, backend="tpu")(x), layer(x)
    assert got.dtype == want.dtype == torch.bfloat16
    torch.testing.assert_close(got, want)


def test_hooks_and_functions() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = torch.randn(3, device="tpu", requires_grad=True)
    seen = []
    y = torch.compile(lambda x: Square.apply(x) * 3, backend="tpu")(x)
    y.register_hook(lambda g: seen.append(g.cpu()))
    y.sum().backward()
    same(x.grad, 6 * x.detach().cpu())
    assert seen[0].tolist() == [1, 1, 1]


def test_custom_ops() -> None:
    @torch.library.custom_op("torch_tpu_test::twice", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    fn = torch.compile(lambda x: double(x + 1) - 1, backend="tpu", fullgraph=True)
    for _ in range(2):
        same(fn(torch.ones(3, device="tpu")), torch.full((3,), 3.0))


def test_pytorchs_checks_of_custom_ops() -> None:
    @torch.library.custom_op("torch_tpu_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, g: (scaled(g, ctx.by), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
    )
    # its check of the registration for autograd knows three devices, and refuses others
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    for x in (torch.randn(3, device="tpu"), torch.randn(2, 3, device="tpu").t().requires_grad_()):
        torch.library.opcheck(scaled, (x, 2.5), test_utils=checks)


def test_control_flow() -> None:
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    twice(branch, torch.ones(4))
    twice(branch, -torch.ones(4))

    def loop(x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(
            lambda i, x: i < 4,
            lambda i, x: (i + 1, x * 2),
            (torch.zeros((), dtype=torch.int64, device=x.device), x),
        )

    twice(loop, torch.randn(4))


def test_scans() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan
    from torch._higher_order_ops.scan import scan

    def decayed(first, xs):
        return scan(lambda c, x: (c * 0.5 + x, c * x), first, xs)

    def gradients(device: str):
        first, xs = torch.linspace(-1, 1, 3), torch.linspace(0, 2, 15).reshape(5, 3)
        first, xs = (t.to(device).requires_grad_() for t in (first, xs))
        fn = torch.compile(decayed, backend="tpu", fullgraph=True) if device == "tpu" else decayed
        last, all_ = fn(first, xs)
        return torch.autograd.grad(last.sum() + all_.square().sum(), (first, xs)), last, all_

    same(gradients("tpu"), gradients("cpu"))
    torch._dynamo.reset()
    xs = torch.rand(7, 2)
    sums = torch.compile(
        lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"), backend="tpu", fullgraph=True
    )
    same(sums(xs.to("tpu")), xs.cumsum(0))


def test_an_op_without_a_kernel_splits_the_graph() -> None:
    torch.tpu.set_fallback_policy("silent")
    torch.tpu.reset_fallback_report()
    twice(lambda x: torch.linalg.eigvals(x + 1).abs().sum() * 2, torch.randn(3, 3))
    assert (
        "aten::linalg_eigvals" in torch.tpu.fallback_report()
        or "aten::linalg_eig" in torch.tpu.fallback_report()
    )
    torch.tpu.reset_fallback_report()
    assert len(reports()[-1]["pieces"]) == 2  # before and after it


def test_another_device() -> None:
    fn = torch.compile(lambda x, y: (x @ y).relu() + torch.ones(2, device=x.device), backend="tpu")
    x, y = torch.randn(3, 4), torch.randn(4, 2)
    for _ in range(2):
        got = fn(x.to("tpu:1"), y.to("tpu:1"))
        assert got.device == torch.device("tpu:1")
        same(got, (x @ y).relu() + 1)
    across = torch.compile(lambda x: (x + 1).to("tpu:1") * 2, backend="tpu")
    for _ in range(2):
        got = across(x.to("tpu:0"))
        assert got.device == torch.device("tpu:1")
        same(got, (x + 1) * 2)


def test_tied_weights_and_buffers() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.b(self.a(x).relu()))

    torch.manual_seed(0)
    cpu = Tied().double()  # a bias before batch norm has the gradient zero: in float32 rounding is all of it
    tpu = copy.deepcopy(cpu).to("tpu")
    run = torch.compile(tpu, backend="tpu", fullgraph=True)
    for _ in range(3):
        x = torch.randn(5, 4, dtype=torch.float64)
        cpu(x).pow(3).sum().backward()
        run(x.to("tpu")).pow(3).sum().backward()
    torch.testing.assert_close({k: v.cpu() for k, v in tpu.state_dict().items()}, cpu.state_dict())
    same([p.grad for p in tpu.parameters()], [p.grad for p in cpu.parameters()])


def test_inference_mode() -> None:
    model = mlp().to("tpu")
    run = torch.compile(model, backend="tpu")
    x = torch.randn(3, 4, device="tpu")
    with torch.inference_mode():
        same(run(x), model(x).cpu())
        same(run(x), model(x).cpu())


def test_a_write_takes_no_memory() -> None:
    write = torch.compile(lambda x, c, i: c.index_copy_(0, i, x).mean(), backend="tpu")
    cache, i = torch.zeros(1024, 1024, device="tpu"), torch.tensor([3], device="tpu")
    with torch.no_grad():
        for k in range(3):
            write(torch.full((1, 1024), k + 1.0, device="tpu"), cache, i)
            if k == 0:
                torch.tpu.synchronize()
                torch.tpu.reset_peak_memory_stats()
                before = torch.tpu.memory_allocated()
    torch.tpu.synchronize()
    assert torch.tpu.max_memory_allocated() - before < cache.nbytes // 2
    assert cache[3].unique().tolist() == [3.0] and cache.sum().item() == 3 * 1024


def test_a_held_input_is_not_taken() -> None:
    write = torch.compile(lambda c: c.mul_(2), backend="tpu")
    c = torch.ones(4, device="tpu")
    with torch.no_grad():
        for k in range(3):
            held = c.clone()  # the same value under another name
            write(c)
            assert held.tolist() == [2.0**k] * 4 and c.tolist() == [2.0 ** (k + 1)] * 4


def test_equal_layers_are_one_program(fresh) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.n = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

        def forward(self, x):
            y = F.gelu(self.a(self.n(x)))
            return (x + self.b(torch.tanh(y) * y).sigmoid()).clamp(-9, 9)

    torch.manual_seed(0)
    cpu = nn.Sequential(*[Layer() for _ in range(12)])
    x = torch.randn(5, 8)
    expected = cpu(x)
    for repeat in ("auto", "inline"):
        tpu = copy.deepcopy(cpu).to("tpu")
        run = torch.compile(tpu, backend="tpu", fullgraph=True, options={"repeat": repeat})
        got = run(x.to("tpu"))
        same(got, expected, atol=1e-5, rtol=1e-5)  # twelve layers of sums in another order
        got.sum().backward()
        forward, backward = reports()[-2:]
        ((f,), (b,)) = (r["pieces"][0]["recorded"] for r in (forward, backward))
        if repeat == "inline":
            assert (f["launches"], f["programs"], b["launches"], b["programs"]) == (1, 1, 1, 1)
        else:
            assert f["launches"] >= 10 and f["programs"] <= 3, f
            assert b["launches"] >= 10 and b["programs"] <= 4, b


def test_cleared_programs_are_recorded_again() -> None:
    from torch_tpu import _C

    fn = torch.compile(lambda x: x.sin() + 1, backend="tpu")
    x = torch.randn(4)
    for _ in range(3):
        same(fn(x.to("tpu")), x.sin() + 1)
        _C.clear_programs()


def test_modes_agree(mode: str) -> None:
    fn = torch.compile(lambda x, y: (x @ y).softmax(-1), backend="tpu")
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    for _ in range(3):
        tx = x.to("tpu") + 0  # pending, in fused mode
        same(fn(tx, y.to("tpu")) * 2, (x @ y).softmax(-1) * 2)


def test_an_index_out_of_range() -> None:
    fn = torch.compile(lambda t, i: F.embedding(i, t) + 1, backend="tpu")
    table = torch.randn(4, 3, device="tpu")
    same(fn(table, torch.tensor([1], device="tpu")), table[1:2].cpu() + 1)
    for _ in range(2):
        with pytest.raises(IndexError):
            fn(table, torch.tensor([9], device="tpu"))
            torch.tpu.synchronize()
    same(fn(table, torch.tensor([1], device="tpu")), table[1:2].cpu() + 1)


def test_options_that_do_nothing_are_named() -> None:
    x = torch.ones(3, device="tpu")
    with pytest.warns(UserWarning, match="max-autotune"):
        torch.compile(lambda x: x + 1, backend="tpu", mode="max-autotune")(x)
    with pytest.warns(UserWarning, match="unknown options foo"):
        torch.compile(lambda x: x + 2, backend="tpu", options={"foo": 1})(x)
    with pytest.raises(Exception, match="repeat"):
        torch.compile(lambda x: x + 3, backend="tpu", options={"repeat": "never"})(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(lambda x: x + 4, backend="tpu")(x)


def test_the_callable_backend() -> None:
    from torch_tpu._internal.compile import TpuBackend

    x = torch.ones(3, device="tpu")
    assert torch.compile(lambda x: x + 1, backend=TpuBackend())(x).tolist() == [2, 2, 2]

    class Model(nn.Module):  # Dynamo looks into none of PyTorch's own modules alone
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, x):
            return self.layers(x) * 2

    model = Model().to("tpu")
    x = torch.ones(3, 4, device="tpu")
    expected = model(x)
    model.compile(backend="tpu", fullgraph=True, dynamic=False)
    torch.testing.assert_close(model(x), expected)
    assert "tpu" in torch._dynamo.list_backends()


def test_inductors_graphs_come_here() -> None:
    """Backend and mode that libraries name by themselves; CPU graphs stay Inductor's."""
    code = """
import copy, logging, torch, torch.nn as nn
notes = []
class Notes(logging.Handler):
    def emit(self, record): notes.append(record.getMessage())
logging.getLogger("torch_tpu.compile").addHandler(Notes())
def into(x, c):
    c.add_(x)
    return (c * 2).relu()
run = torch.compile(into, mode="reduce-overhead", fullgraph=True)
c, x = torch.zeros(3, 4), torch.randn(3, 4)
tc = c.to("tpu")
for _ in range(3):
    torch.testing.assert_close(run(x.to("tpu"), tc).cpu(), into(x, c))
torch.testing.assert_close(tc.cpu(), c)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
tpu = copy.deepcopy(model).to("tpu")
run = torch.compile(tpu)
for n in (3, 5, 7):
    x = torch.randn(n, 4)
    want, got = model(x), run(x.to("tpu"))
    want.sum().backward(); got.sum().backward()
    torch.testing.assert_close(got.cpu(), want)
for p, q in zip(model.parameters(), tpu.parameters()):
    torch.testing.assert_close(q.grad.cpu(), p.grad)
assert len(notes) == 1 and "inductor" in notes[0], notes
from torch_tpu._compile import backend
assert all(g.name.startswith("inductor") and not g.alone for g in backend.graphs())
before = len(backend.graphs())
cpu = torch.compile(lambda x: (x * 2).relu() + 1)
torch.testing.assert_close(cpu(x), (x * 2).relu() + 1)
assert len(backend.graphs()) == before
"""
    run_python(code)


def test_importing_torch_imports_no_compiler() -> None:
    code = "import sys, torch; print([m for m in ('torch._dynamo', 'torch._inductor.compile_fx') if m in sys.modules])"
    plain = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout
    assert run_python(code).stdout == plain
