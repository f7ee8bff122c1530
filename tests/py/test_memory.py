"""Memory: what is counted, what new memory holds, what is left when a storage loses its bytes."""

import pytest
import torch
from helpers import ALL, move, run_python


def test_pinned_memory_is_counted():
    torch.tpu.reset_accumulated_host_memory_stats()
    before = torch.tpu.host_memory_stats()
    x = torch.zeros(1000).pin_memory()
    during = torch.tpu.host_memory_stats()
    assert during["allocated_bytes.current"] - before["allocated_bytes.current"] == 4000
    assert during["active_requests.current"] - before["active_requests.current"] == 1
    assert during["num_host_alloc"] == 1
    del x
    after = torch.tpu.host_memory_stats()
    assert after["active_bytes.current"] == before["active_bytes.current"]
    assert after["allocated_bytes.peak"] >= during["allocated_bytes.current"]
    assert after["allocated_bytes.freed"] == 4000 and after["num_host_free"] == 1
    torch.tpu.reset_peak_host_memory_stats()
    stats = torch.tpu.host_memory_stats_as_nested_dict()["allocated_bytes"]
    assert stats["peak"] == stats["current"]
    assert set(before) < {f"{a}.{b}" for a in ("allocations", "allocated_bytes", "active_requests", "active_bytes")
                          for b in ("current", "peak", "allocated", "freed")} | {"num_host_alloc", "num_host_free", ""}  # fmt: skip


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [*ALL, torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_new_memory_when_deterministic(deterministic, dtype):
    for make in (
        lambda d: torch.empty(3, 2, dtype=dtype, device=d),
        lambda d: torch.empty_strided((2, 3), (1, 2), dtype=dtype, device=d),
        lambda d: torch.ones(2, device=d).to(dtype).resize_(5),
        lambda d: torch.ones(4, device=d).to(dtype).resize_(2).resize_(6),
    ):
        expected, got = make("cpu"), make("tpu")
        torch.testing.assert_close(move(got, "cpu"), expected, equal_nan=True)
        assert got.stride() == expected.stride()
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        x = torch.empty(2, dtype=dtype, device="tpu")
        assert x.float().eq(0).all()  # not written: a new value is zeros here
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("left", [0, 8])
def test_a_storage_that_lost_its_bytes(mode, left):
    """An error that says so, not zeros and not what lies behind them; the bytes may come back."""
    with torch.tpu.eager_mode(mode):
        for use in (
            lambda x: x + 1,
            lambda x: x.cpu(),
            lambda x: x.clone(),
            lambda x: x.add_(1),
            lambda x: x.fill_(1),
            lambda x: x.copy_(torch.ones(2, 3)),
            lambda x: torch.empty(2, 3, device="tpu").copy_(x),
            lambda x: torch.add(torch.ones(2, 3, device="tpu"), 1, out=x),
            lambda x: x @ x.detach().new_ones(3, 2),
            torch.Tensor.tolist,
        ):
            x = torch.rand(2, 3).to("tpu")
            y = x + 1
            x.untyped_storage().resize_(left)
            with pytest.raises(RuntimeError, match="storage"):
                use(x)
            x.untyped_storage().resize_(24)
            torch.testing.assert_close(x.copy_(y).cpu(), y.cpu())


def test_out_of_memory_names_small_sizes():
    code = """import torch
x = torch.empty(200_000, dtype=torch.uint8, device="tpu").fill_(1)
try:
    torch.ones(900, device="tpu").cumsum(0).repeat(250).cpu()
except torch.OutOfMemoryError as error:
    print(error)
"""
    said = run_python(code, TORCH_TPU_MEMORY_LIMIT="1000000").stdout
    assert "out of memory. Tried to allocate 878.91 KiB." in said, said
    assert "a total capacity of 976.56 KiB" in said and "0.00 MiB" not in said


def test_tensors_go_to_other_processes(tmp_path):
    """Through a queue and as arguments of the process; both ways, with what makes them parameters."""
    script = tmp_path / "send.py"
    script.write_text("""import torch, torch.multiprocessing as mp

def child(model, q, back):
    x = q.get()
    assert x.device == torch.device("tpu:0") and x.stride() == (1, 3) and isinstance(model.weight, torch.nn.Parameter)
    back.put([model(x).detach(), next(model.parameters()).requires_grad, q.get(), q.get().device])

if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    q, back = ctx.Queue(), ctx.Queue()
    model = torch.nn.Linear(2, 2).to("tpu")
    p = ctx.Process(target=child, args=(model, q, back))
    p.start()
    x = torch.rand(2, 3, device="tpu").t()
    q.put(x), q.put(torch.ones(0, 3, device="tpu")), q.put(torch.ones(2))
    y, grad, empty, host = back.get()
    p.join()
    assert y.device.type == "tpu" and torch.equal(y, model(x)) and grad
    assert empty.shape == (0, 3) and empty.device.type == "tpu" and host.type == "cpu"
    try:
        mp.reductions.reduction.ForkingPickler.dumps(model(x))
    except RuntimeError as error:
        assert "non-leaf" in str(error)
    print("done")
""")
    code = f"import runpy, sys; sys.argv = [{str(script)!r}]; runpy.run_path({str(script)!r}, run_name='__main__')"
    assert run_python(code).stdout.strip().endswith("done")


BEYOND = """
import torch
torch.tpu.set_eager_mode('{mode}')
torch.manual_seed(0)
model = torch.nn.Linear(64, 64).to('tpu')
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
x = torch.randn(8, 64).to('tpu')
def batch():
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    big = torch.zeros(1000, 1, device='tpu') + torch.zeros(1, 20_000, device='tpu')
    return big * 2, model(x)
kept = []
try:
    kept += batch()
    torch.tpu.flush()
except torch.OutOfMemoryError as error:
    print(str(error).split(' TPU 0')[0])
print(model(x).double().sum().item())
for t in kept[1:]:
    print(t.double().sum().item())
for t in kept[:1]:
    try:
        t[0, 0].item()
    except torch.OutOfMemoryError as error:
        print(str(error).split(' TPU 0')[0])
print(torch.tpu.memory_stats()['num_ooms'])
"""


def test_a_step_that_does_not_fit_loses_what_strict_mode_loses():
    """The op that did not fit and what depends on it, not the weights of the same step."""
    limit = dict(TORCH_TPU_MEMORY_LIMIT="64M", TORCH_TPU_NUM_DEVICES="1")
    strict = run_python(BEYOND.format(mode="strict"), **limit).stdout.splitlines()
    fused = run_python(BEYOND.format(mode="fused"), **limit).stdout.splitlines()
    assert strict[0] == "aten::add.Tensor: TPU out of memory. Tried to allocate 76.29 MiB."
    assert fused[0] == strict[0] == fused[3] and fused[4] == strict[2] == "1"
    assert float(fused[1]) == pytest.approx(float(strict[1]), rel=1e-4)
    assert float(fused[2]) == pytest.approx(float(strict[1]), rel=1e-4)


def test_weights_of_more_than_half_the_memory(mode):
    """Strict mode updates them one by one: so a step takes over what it replaces, or runs op by op."""
    code = f"""
import torch
torch.tpu.set_eager_mode({mode!r})
kept = [torch.ones(1 << 20, device='tpu') for _ in range(5)]
for w in kept:
    w.mul_(2).add_(1)
print([w[0].item() for w in kept])
views = [w[:] for w in kept]
olds = []
for w in kept:
    olds.append(w.sum())
    w.data = w * 2  # not in place: what a step cannot take over while it reads it
print([w[0].item() for w in kept[:2]], [v[1].item() for v in views[:2]], olds[4].item())
print(torch.tpu.memory_stats()['num_ooms'], torch.tpu.max_memory_allocated() <= 44 << 20)
"""
    done = run_python(code, TORCH_TPU_MEMORY_LIMIT="44M", TORCH_TPU_NUM_DEVICES="1").stdout.splitlines()
    assert done == ["[3.0, 3.0, 3.0, 3.0, 3.0]", "[6.0, 6.0] [3.0, 3.0] 3145728.0", "0 True"]


def test_memory_is_counted_once_it_is_written():
    before = torch.tpu.memory_allocated()
    x = torch.empty(1000, device="tpu")
    assert torch.tpu.memory_allocated() == before
    x.fill_(1)
    y = x.expand(50, 1000)
    torch.tpu.flush()
    assert torch.tpu.memory_allocated() - before == 4000
    del x, y
    assert torch.tpu.memory_allocated() == before


def test_a_part_of_the_memory():
    code = """
import torch
tpu = torch.tpu
assert tpu.get_per_process_memory_fraction() == 1
x = torch.ones(4 << 20, device='tpu')
tpu.set_per_process_memory_fraction(0.5)
assert tpu.get_per_process_memory_fraction('tpu:0') == 0.5 and tpu.mem_get_info()[1] == 64 << 20
try:
    y = x.repeat(2)
except tpu.OutOfMemoryError as error:
    print(error)
tpu.set_per_process_memory_fraction(1.0)
print(x.repeat(2).sum().item())
tpu.set_per_process_memory_fraction(0.0)
try:
    torch.ones(1, device='tpu') + 1
except torch.OutOfMemoryError:
    print('none')
for bad, kind in ((1, TypeError), (1.5, ValueError), (-0.1, ValueError), (float('nan'), ValueError)):
    try:
        tpu.set_per_process_memory_fraction(bad)
    except kind:
        continue
    raise SystemExit(f'{bad} was taken')
assert tpu.memory_snapshot() == [] and tpu.ipc_collect() is None
assert not tpu.is_current_stream_capturing() and tpu.random.get_rng_state().numel()
"""
    done = run_python(code, TORCH_TPU_MEMORY_LIMIT="64M", TORCH_TPU_NUM_DEVICES="1").stdout.splitlines()
    assert "32.00 MiB may be had by this process and 16.00 MiB is free" in done[0]
    assert done[1:] == [f"{8 << 20}.0", "none"]
