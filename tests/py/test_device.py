"""The torch.tpu module: names that callers use, with CUDA's meaning; loading; processes."""

from __future__ import annotations

import copy
import io
import json
import pickle
import subprocess
import sys

import pytest
import torch
from helpers import DEV, data, run_python, same

tpu = torch.tpu


def test_names_of_the_surface():
    names = """is_available device_count current_device set_device synchronize empty_cache
        manual_seed manual_seed_all seed seed_all initial_seed get_rng_state set_rng_state
        get_rng_state_all set_rng_state_all default_generators is_initialized init get_device_name
        get_device_properties get_device_capability memory_stats memory_allocated memory_reserved
        max_memory_allocated max_memory_reserved reset_peak_memory_stats
        reset_accumulated_memory_stats mem_get_info memory_summary memory current_stream
        default_stream set_stream stream Stream Event device device_of get_amp_supported_dtype
        is_bf16_supported precision Precision set_eager_mode eager_mode get_eager_mode compile_stats
        reset_compile_stats fallback_report _hbm_usage_summary _get_cache_stats _clear_cache
        _is_in_bad_fork memory_snapshot ipc_collect set_per_process_memory_fraction
        get_per_process_memory_fraction is_current_stream_capturing OutOfMemoryError random"""
    assert [n for n in names.split() if not hasattr(tpu, n)] == []
    assert torch.get_device_module("tpu") is tpu is sys.modules["torch.tpu"]
    assert torch._utils._get_available_device_type() == "tpu"
    assert torch.accelerator.current_accelerator().type == torch._C._get_accelerator().type == "tpu"


def test_devices():
    assert tpu.is_available() and torch.accelerator.is_available()
    assert tpu.device_count() == torch.accelerator.device_count() == 2
    assert tpu.current_device() == 0
    with tpu.device(1):
        assert tpu.current_device() == 1
        assert torch.empty(1, device="tpu").device.index == 1
        with tpu.device(None):
            assert tpu.current_device() == 1
        with tpu.device_of(torch.empty(1, device="tpu:0")):
            assert tpu.current_device() == 0
        with tpu.device_of(torch.empty(1)):
            assert tpu.current_device() == 1
    assert tpu.current_device() == 0
    tpu.set_device("tpu:1")
    assert torch.accelerator.current_device_index() == 1
    tpu.set_device(torch.device("tpu", 0))
    tpu.set_device(-1)
    assert tpu.current_device() == 0
    for bad in (2, 100, "tpu:7"):
        with pytest.raises(RuntimeError):
            tpu.set_device(bad)
    with pytest.raises((RuntimeError, ValueError)):
        tpu.set_device("cpu")
    with pytest.raises(RuntimeError):
        torch.empty(1, device="tpu:9")


def test_local_rank_of_a_process_with_one_device():
    code = "import torch as t; t.tpu.set_device(3); print(t.tpu.current_device(), t.ones(1).tpu().device)"
    out = run_python(code, TORCH_TPU_NUM_DEVICES="1", LOCAL_RANK="3").stdout
    assert out.split() == ["0", "tpu:0"]


def test_programs_of_a_process_with_one_device(tmp_path):
    # its programs are bound to the device, the ones of this process are not: they must not meet in the cache
    code = (
        "import torch as t; x = t.arange(6., device='tpu').view(2, 3); y = x @ x.t(); y.add_(1).mul_(y)\n"
        "t.tpu.set_eager_mode('fused'); y = (y + 1).relu() - x.sum(); print(y.cpu().flatten().tolist())\n"
        "print(t.tpu.compile_stats()['programs_compiled'])"
    )
    x = torch.arange(6.0).view(2, 3)
    expected = str(((x @ x.t() + 1) ** 2 + 1 - x.sum()).flatten().tolist())
    compiled = []
    for devices in "1", "2", "1", "2":
        env = dict(TORCH_TPU_NUM_DEVICES=devices, TORCH_TPU_CACHE_DIR=str(tmp_path))
        got, n = run_python(code, **env).stdout.splitlines()
        assert got == expected
        compiled.append(int(n))
    assert compiled[0] == compiled[1] > 0 and compiled[2:] == [0, 0]


def test_little_address_space():
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 40, r.getrlimit(r.RLIMIT_AS)[1])); import torch as t\n"
        "x, y = t.ones(3, device='tpu'), t.ones(3, device='tpu'); print((x + y).tolist(), x.data_ptr() != y.data_ptr())"
    )
    assert run_python(code).stdout.split("\n")[0] == "[2.0, 2.0, 2.0] True"


def test_what_the_device_is():
    name = tpu.get_device_name()
    assert name.startswith("TPU") and "simulated" in name
    properties = tpu.get_device_properties("tpu:1")
    assert properties.name == name and properties.total_memory > 1 << 30
    assert tpu.get_device_capability(0) == (0, 0)
    assert tpu.is_bf16_supported()


@pytest.mark.parametrize(
    "kind, name",
    [
        ("TPU v6 lite", "TPU v6e"),
        ("TPU v5 lite", "TPU v5e"),
        ("TPU v5e", "TPU v5e"),
        ("TPU v5", "TPU v5p"),
        ("TPU v5p", "TPU v5p"),
        ("TPU v4", "TPU v4"),
        ("TPU7x", "TPU v7"),
    ],
)
def test_names_of_chips(kind, name):
    assert tpu._name_of(kind, "tpu") == name


def test_methods_and_properties():
    x = data(3)
    y = x.tpu()
    assert y.is_tpu and not x.is_tpu and y.device == torch.device("tpu:0")
    assert x.tpu(1).device.index == 1
    assert torch.nn.Linear(2, 2).tpu(1).weight.device.index == 1
    assert torch.nn.Linear(2, 2).to("tpu").weight.is_tpu
    assert y.untyped_storage().is_tpu and y.untyped_storage().device.type == "tpu"
    assert x.untyped_storage().tpu().device.type == "tpu"
    packed = torch.nn.utils.rnn.pack_sequence([data(3, 2), data(2, 2)])
    assert packed.tpu().data.is_tpu


def test_memory():
    with tpu.device(1):
        before = tpu.memory_allocated()
        x = torch.ones(1 << 20, device="tpu:1")
        tpu.synchronize()
        assert tpu.memory_allocated(1) - before >= 4 << 20
        assert tpu.memory_allocated() == tpu.memory_reserved()
        tpu.reset_peak_memory_stats()
        peak = tpu.max_memory_allocated()
        del x
        assert tpu.memory_allocated() <= before + 1024
        assert tpu.max_memory_allocated() == peak
        stats = tpu.memory_stats()
        for key in ("active_bytes.all.peak", "reserved_bytes.all.peak", "allocated_bytes.all.current"):
            assert stats[key] >= 0
        assert stats["num_alloc_retries"] >= 0 and stats["num_ooms"] == 0
        assert tpu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"] == peak
        assert torch.accelerator.memory_stats(1)["allocated_bytes.all.peak"] == peak
        free, total = tpu.mem_get_info()
        assert 0 < free <= total
        assert torch.accelerator.get_memory_info(1)[1] == total
        assert "limit" in tpu.memory_summary() and "tpu:1" in tpu._hbm_usage_summary()
        tpu.empty_cache()
        torch.accelerator.empty_cache()


def test_memory_snapshot_is_a_valid_pickle(tmp_path):
    tpu.memory._record_memory_history(max_entries=10)
    tpu.memory._dump_snapshot(str(tmp_path / "snapshot"))
    with open(tmp_path / "snapshot", "rb") as file:
        assert set(pickle.load(file)) >= {"segments", "device_traces"}
    tpu.memory._record_memory_history(enabled=None)


def test_empty_runs_nothing():
    tpu.reset_compile_stats()
    before = tpu.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.float16, device=DEV)
    y = torch.empty_like(x)
    assert tpu.memory_allocated() == before and x.data_ptr() != y.data_ptr()
    stats = tpu.compile_stats()
    assert stats["programs_compiled"] + stats["programs_loaded"] + stats["memory_hits"] == 0


def test_random_state():
    torch.manual_seed(5)
    a = torch.rand(8, device=DEV)
    torch.manual_seed(5)
    same(torch.rand(8, device=DEV), a)
    assert tpu.initial_seed() == 5
    state = tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    b = torch.randn(3, device=DEV)
    c = torch.randn(3, device=DEV)
    assert not torch.equal(b.cpu(), c.cpu())
    tpu.set_rng_state(state)
    same(torch.randn(3, device=DEV), b)
    tpu.manual_seed_all(7)
    assert [g.initial_seed() for g in tpu.default_generators] == [7, 7]
    tpu.manual_seed(8)
    assert [g.initial_seed() for g in tpu.default_generators] == [8, 7]
    states = tpu.get_rng_state_all()
    tpu.seed_all()
    assert tpu.seed() == tpu.initial_seed()
    tpu.set_rng_state_all(states)
    assert [g.initial_seed() for g in tpu.default_generators] == [8, 7]
    with torch.random.fork_rng(devices=[0, 1], device_type="tpu"):
        torch.manual_seed(99)
    assert [g.initial_seed() for g in tpu.default_generators] == [8, 7]
    g = torch.Generator(device="tpu").manual_seed(1)
    d = torch.rand(4, device=DEV, generator=g)
    same(torch.rand(4, device=DEV, generator=torch.Generator(device="tpu").manual_seed(1)), d)
    with pytest.raises(RuntimeError):
        torch.rand(4, device=DEV, generator=torch.Generator())


def test_streams_and_events():
    s = tpu.Stream()
    assert isinstance(s, torch.Stream) and s.device == torch.device("tpu:0")
    assert tpu.current_stream() == tpu.default_stream()
    with tpu.stream(s):
        assert tpu.current_stream() == s
        start = tpu.Event(enable_timing=True)
        start.record()
        x = torch.ones(100, 100, device=DEV)
        for _ in range(3):
            x = x @ x * 1e-2
    assert tpu.current_stream() == tpu.default_stream()
    with tpu.stream(None):
        pass
    end = s.record_event(tpu.Event(enable_timing=True))
    tpu.default_stream().wait_stream(s)
    s.wait_event(end)
    end.synchronize()
    assert end.query() and s.query()
    assert 0 < start.elapsed_time(end) < 60_000
    s.synchronize()
    tpu.set_stream(s)
    assert tpu.current_stream() == s
    tpu.set_stream(tpu.default_stream())
    plain = torch.Event(device="tpu", enable_timing=True)
    plain.record()
    assert start.elapsed_time(plain) > 0
    assert isinstance(start, torch.Event)
    x.record_stream(s)


def test_synchronize_waits():
    x = torch.ones(600, 600, device=DEV)
    (x @ x).sum().item()  # compiled
    for _ in range(20):
        y = x @ x
    event = torch.Event(device="tpu")
    event.record()
    torch.accelerator.synchronize()
    assert event.query()
    del y


def test_precision_and_backends():
    assert torch.backends.tpu.is_built() and torch.backends.tpu.is_available()
    with tpu.precision(tpu.Precision.DEFAULT):
        assert torch.backends.tpu.matmul_precision == "default"
    assert torch.backends.tpu.matmul_precision == "highest"
    assert torch.backends.tpu.allow_excess_precision is True
    with pytest.raises(ValueError):
        torch.backends.tpu.matmul_precision = "low"
    old = torch.get_float32_matmul_precision()
    try:
        for name in ("medium", "high", "highest"):
            torch.set_float32_matmul_precision(name)
            x = data(8, 8)
            same(x.to(DEV) @ x.to(DEV), x @ x)
    finally:
        torch.set_float32_matmul_precision(old)


def test_modes():
    assert tpu.get_eager_mode() == "strict"
    with tpu.eager_mode("fused"):
        assert tpu.get_eager_mode() == "fused"
        with tpu.set_eager_mode("debug"):
            assert tpu.get_eager_mode() == "debug"
        assert tpu.get_eager_mode() == "fused"
    assert tpu.get_eager_mode() == "strict"
    with pytest.raises(ValueError):
        tpu.set_eager_mode("lazy")


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("TORCH_TPU_EAGER_MODE", "fused", "fused"),
        ("TORCH_TPU_EAGER_MODE", "debug", "debug"),
        ("TPU_LAUNCH_BLOCKING", "1", "debug"),
        ("TPU_LAUNCH_BLOCKING", "0", "strict"),
        ("TORCH_TPU_DEFER_AND_FUSE", "1", "fused"),
        ("TPU_DEFER_AND_FUSE", "true", "fused"),
    ],
)
def test_modes_from_the_environment(name, value, expected):
    assert (
        run_python("import torch; print(torch.tpu.get_eager_mode())", **{name: value}).stdout.strip()
        == expected
    )


@pytest.mark.parametrize(
    "name, value",
    [
        ("TORCH_TPU_EAGER_MODE", "lazy"),
        ("TORCH_TPU_FALLBACK", "cpu"),
        ("TPU_LAUNCH_BLOCKING", "yes"),
        ("TORCH_TPU_DEFER_AND_FUSE", "2"),
        ("TPU_DEFER_AND_FUSE", "fused"),
        ("TORCH_TPU_MEMORY_LIMIT", "99999999999999999999"),
        ("TORCH_TPU_CACHE_MAX_BYTES", "-1"),
        ("TORCH_TPU_DUMP", "/nowhere/at/all"),
    ],
)
def test_a_switch_with_a_value_that_it_does_not_have(name, value):
    done = run_python("import torch; torch.ones(2, device='tpu')", check=False, **{name: value})
    assert done.returncode == 1 and f"ValueError: {name} is '{value}': set it to" in done.stderr


def test_upstream_names():
    from torch_tpu import _loader
    from torch_tpu._internal import execution_mode, sync
    from torch_tpu._internal.utils import hardware
    from torch_tpu.api import tpu_device

    _loader.load()
    mode = execution_mode.EagerMode
    with execution_mode.eager_mode(mode.DEFER_AND_FUSE):
        assert tpu.get_eager_mode() == "fused"
        x = torch.ones(3, device=DEV) + 1
        sync.synchronize(x, wait=False)
    with execution_mode.set_eager_mode(mode.DEFER_NEVER_AND_LAUNCH_BLOCKING):
        assert tpu.get_eager_mode() == "debug"
    assert execution_mode.get_eager_mode() is mode.DEFER_NEVER
    sync.synchronize(x, wait=True)
    sync.synchronize(None, wait=True)
    assert hardware.get_tpu_device_name().startswith("TPU")
    assert tpu_device() == torch.device("tpu") and tpu_device(1).index == 1


def test_statistics():
    tpu.reset_compile_stats()
    x = data(7, 5).to(DEV)
    (x * 1.5 + x).tanh().sum()
    stats = tpu.compile_stats()
    assert {"programs_compiled", "programs_loaded", "memory_hits", "seconds_compiling", "programs"} <= set(
        stats
    )
    assert stats["programs_compiled"] + stats["programs_loaded"] + stats["memory_hits"] > 0
    assert tpu._get_cache_stats().num_cache_reqs >= stats["programs_compiled"]
    tpu._clear_cache()
    (x * 1.5 + x).tanh().sum()


def test_amp():
    x, y = data(4, 4).to(DEV), data(4, 4).to(DEV)
    with torch.autocast("tpu"):
        assert (x @ y).dtype == torch.bfloat16
        assert torch.softmax(x @ y, -1).dtype == torch.float32
    with torch.amp.autocast("tpu", dtype=torch.float16):
        assert torch.nn.functional.linear(x, y).dtype == torch.float16
    with torch.autocast("tpu", enabled=False):
        assert (x @ y).dtype == torch.float32
    w = torch.nn.Parameter(y.clone())
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("tpu", init_scale=8.0)
    loss = (x @ w).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    expected = torch.nn.Parameter(y.cpu().clone())
    (x.cpu() @ expected).square().mean().backward()
    same(w, expected - 0.1 * expected.grad)
    assert scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale((x @ w).square().mean() * float("inf")).backward()
    before = w.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    same(w, before)
    assert scaler.get_scale() == 4.0


# --- copies, pinning, saving ---


def test_pinned_and_non_blocking():
    x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned() and not torch.ones(2).is_pinned()
    y = x.to(DEV, non_blocking=True)
    x.zero_()  # the source may be overwritten at once
    same(y, torch.arange(1000.0))
    z = torch.empty(1000).pin_memory()
    z.copy_(y, non_blocking=True)
    tpu.synchronize()
    torch.testing.assert_close(z, torch.arange(1000.0))


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers):
    torch.ones(2, device=DEV).sum().item()  # the runtime is up before the workers fork
    set_ = torch.utils.data.TensorDataset(torch.arange(32.0).view(16, 2), torch.arange(16))
    loader = torch.utils.data.DataLoader(set_, batch_size=4, num_workers=workers, pin_memory=True)
    total = sum((x.to(DEV).sum() + y.to(DEV).sum()).item() for x, y in loader)
    assert total == torch.arange(32.0).sum().item() + torch.arange(16).sum().item()


def test_save_and_load(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(DEV)
    x = data(5, 3)
    model(x.to(DEV))
    torch.save(model.state_dict(), tmp_path / "m.pt")
    back = torch.load(tmp_path / "m.pt")
    assert all(t.is_tpu for t in back.values())
    there = torch.load(tmp_path / "m.pt", map_location="cpu")
    assert all(t.device.type == "cpu" for t in there.values())
    other = torch.load(tmp_path / "m.pt", map_location="tpu:1")
    assert all(t.device.index == 1 for t in other.values())
    for name, t in model.state_dict().items():
        same(back[name], t)
        torch.testing.assert_close(there[name], t.cpu())
    on_cpu = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    on_cpu.load_state_dict(there)
    same(model.eval()(x.to(DEV)), on_cpu.eval()(x))


def test_loads_on_the_cpu_without_the_package(tmp_path):
    torch.save({"w": data(2, 3).to(DEV), "v": data(4, 4).to(DEV)[1:, ::2]}, tmp_path / "w.pt")
    code = (
        f"import torch; d = torch.load({str(tmp_path / 'w.pt')!r}, map_location='cpu'); print(d['v'].shape)"
    )
    assert "[3, 2]" in run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout


def test_pickle_and_deepcopy():
    x = data(4, 3).to(DEV)
    for back in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert back.is_tpu
        same(back, x)
    a = torch.nn.Linear(3, 3).to(DEV)
    both_ = torch.nn.ModuleList([a, a])
    twin = copy.deepcopy(both_)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not a.weight
    same(twin[0].weight, a.weight)
    buffer = io.BytesIO()
    torch.save(both_, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False)[1].weight.is_tpu
    v = x.t()[1:]
    same(pickle.loads(pickle.dumps(v)), v)
    y = copy.deepcopy([x, v])
    assert y[0].untyped_storage().data_ptr() == y[1].untyped_storage().data_ptr()


def test_python_values():
    x = torch.tensor([1.5, -2.0], device=DEV)
    assert x[1].item() == -2.0 and x.tolist() == [1.5, -2.0] and float(x[0]) == 1.5
    assert bool(torch.tensor(True, device=DEV)) and int(torch.tensor(7, device=DEV)) == 7
    assert list(range(10))[torch.tensor(3, device=DEV)] == 3
    assert "device='tpu:0'" in repr(x)
    with pytest.raises(TypeError):
        x.numpy()
    assert x.cpu().numpy().tolist() == [1.5, -2.0]
    assert len({x, x}) == 1 and (x == x).all()


def test_threads():
    import threading

    results = {}

    def work(i):
        with tpu.device(i % 2):
            y = torch.full((5,), float(i), device="tpu")
            for _ in range(20):
                y = y * 1.0 + 1.0
            results[i] = y.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: 5.0 * (i + 20) for i in range(6)}


@pytest.mark.parametrize("eager", ["strict", "debug", "fused"])
def test_threads_write_one_tensor_while_its_program_compiles(eager):
    """The core's lock is free during a compile: a call that waited for one runs on what is there afterwards."""
    code = """
import threading, torch
x, failed = torch.zeros(100, device='tpu'), []
def work():
    try:
        for _ in range(200):
            x.add_(1)
            x[:50].sub_(1)
    except Exception as e:
        failed.append(e)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(x[:50].sum().item(), x[50:].unique().tolist(), failed)
"""
    done = run_python(code, TORCH_TPU_CACHE="off", TORCH_TPU_EAGER_MODE=eager)
    assert done.stdout.strip() == "0.0 [800.0] []"


# --- loading, processes ---


def test_import_is_silent_and_starts_nothing():
    code = """
import sys, threading, torch
assert not torch.tpu.is_initialized() and torch.tpu.is_available() and torch.tpu.device_count() == 2
assert not torch.tpu.is_initialized() and threading.active_count() == 1
bad = [m for m in ('jax', 'transformers', 'torch._dynamo', 'torch._inductor', 'lammps_jax_pjrt_cpu')
       if m in sys.modules]
assert not bad, bad
torch.manual_seed(1)
torch.tpu.manual_seed_all(3)
assert not torch.tpu.is_initialized()
maps = open('/proc/self/maps').read()
assert 'pjrt' not in maps
"""
    done = run_python(code)
    assert done.stdout == "" and done.stderr == ""


def test_explicit_loading():
    code = """
import torch
assert not hasattr(torch, 'tpu')
import torch_tpu
assert torch.backends.tpu.is_built()
from torch_tpu import _loader
_loader.load(); _loader.load()
print(torch.ones(2, device='tpu').sum().item(), torch_tpu.__version__)
"""
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() == ["2.0", "0.1.0"]


@pytest.mark.parametrize("first", ["torch_tpu", "torch"])
def test_either_import_first(first):
    run_python(f"import {first}, torch, torch_tpu; torch_tpu._autoload(); assert torch.tpu.is_available()")


def test_another_torch_is_one_sentence():
    code = """
import warnings
warnings.simplefilter('error')
import torch, torch_tpu._build
torch_tpu._build.TORCH_VERSION = '2.99.0'
from torch_tpu import _loader
try:
    _loader.load()
except ImportError as error:
    assert 'built against torch 2.99.0' in str(error) and 'install' in str(error)
else:
    raise SystemExit('no error')
assert 'glue' not in open('/proc/self/maps').read()
warnings.simplefilter('always')
import torch_tpu
torch_tpu._autoload()
"""
    done = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "undefined symbol" not in done.stderr and "built against torch 2.99.0" in done.stderr


def test_fork_before_the_first_use_is_fine():
    code = """
import os, torch
torch.manual_seed(0)
pid = os.fork()
if pid == 0:
    os._exit(0 if torch.ones(3, device='tpu').sum().item() == 3 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert torch.ones(3, device='tpu').sum().item() == 3
"""
    run_python(code)


def test_use_in_a_forked_child_names_spawn():
    code = """
import os, torch
x = torch.ones(3, device='tpu')
x.sum().item()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        (x + 1).cpu()
    except RuntimeError as error:
        code = 0 if 'spawn' in str(error) and torch.tpu._is_in_bad_fork() else 2
    del x
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert x.sum().item() == 3
"""
    run_python(code, timeout=60)


def test_exit_with_live_tensors_is_quiet():
    code = """
import torch
keep = [torch.ones(100, device='tpu') * i for i in range(10)]
module = torch.nn.Linear(3, 3).to('tpu')
torch.tpu.set_eager_mode('fused')
pending = keep[0] + 1
"""
    done = run_python(code)
    assert done.stdout == "" and done.stderr == ""


def test_info_command():
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "info", "--json"], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert (
        facts["works"]
        and facts["device_names"][0].startswith("TPU")
        and facts["plugin"]
        and facts["cache_dir"]
    )
    text = subprocess.run([sys.executable, "-m", "torch_tpu", "info"], capture_output=True, text=True)
    assert text.returncode == 0 and "usable" in text.stdout


def test_info_command_without_a_plugin(tmp_path):
    import os

    env = {**os.environ, "TORCH_TPU_PJRT_PLUGIN": str(tmp_path / "none.so")}
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "info"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 1 and "NOT usable" in done.stdout and "none.so" in done.stdout


def test_no_leak_of_buffers(mode):
    def live() -> int:
        tpu.synchronize()
        return tpu.memory_stats()["allocation.all.current"]

    w = torch.nn.Parameter(torch.ones(8, 8, device=DEV))
    optimizer = torch.optim.Adam([w], lr=0.01)
    x = data(4, 8).to(DEV)
    counts = []
    for step in range(60):
        optimizer.zero_grad()
        (x @ w).square().mean().backward()
        optimizer.step()
        if step % 20 == 19:
            counts.append(live())
    assert counts[1] == counts[2], counts
