"""How to look at what torch.compile made: explain, compile_stats, the command."""

import os
import subprocess
import sys

import pytest
import torch
from helpers import data, run_python


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("tpu")


def test_explain_counts_graphs_ops_and_programs():
    net = model()
    x = data(3, 4).to("tpu")
    with torch.no_grad():
        said = torch.tpu.explain(net, x)
        torch.testing.assert_close(said.result, net(x))
    (graph,) = said.graphs
    (piece,) = graph["pieces"]
    assert graph["calls"] == 1 and graph["separate"] == [] and piece["not_kept"] is None
    (recorded,) = piece["recorded"]
    assert recorded["launches"] == 1 and recorded["programs"] == 1 and recorded["ops"] >= 3
    assert said.breaks == said.recompiles == said.failures == [] and said.fallbacks == {}
    text = str(said)
    assert f"{graph['name']}: 1 run, 1 piece, {recorded['ops']} ops, 1 launch, 1 program" in text
    assert "graphs: 1" in text and "graph breaks: 0" in text and "calls on the CPU: 0" in text


def test_explain_has_the_text_of_each_program():
    (graph,) = torch.tpu.explain(lambda x: (x.exp() + 1).sum(), data(3).to("tpu")).graphs
    (recorded,) = graph["pieces"][0]["recorded"]
    (text,) = recorded["stablehlo"]
    assert text.startswith("module @program") and "stablehlo.exponential" in text


def test_explain_of_a_compiled_function_and_of_its_backward():
    net = torch.compile(model(), backend="tpu")
    x = data(3, 4).to("tpu")
    net(x)
    assert [g["name"].split()[0] for g in torch.tpu.explain(net, x).graphs] == ["forward"]

    def step(x):
        net(x).sum().backward()

    kinds = [g["name"].split()[0] for g in torch.tpu.explain(step, x).graphs]
    assert "forward" in kinds and "backward" in kinds


def test_explain_tells_breaks_with_their_line():
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()  # this line
        return y + 1

    said = torch.tpu.explain(f, data(3).to("tpu"))
    assert len(said.graphs) == 2 and len(said.breaks) == 1
    (broken,) = said.breaks
    assert broken["file"] == __file__ and broken["line"] == f.__code__.co_firstlineno + 2
    assert f"{__file__}:{broken['line']}: " in str(said) and "graph_break" in broken["reason"]


def test_explain_tells_what_ran_by_itself_and_on_the_cpu():
    def f(x):
        y = (x + 1).cpu() * 2
        return y.to("tpu") - 1

    said = torch.tpu.explain(f, data(3).to("tpu"))
    separate = [s for g in said.graphs for s in g["separate"]]
    assert [s["op"] for s in separate if "aten.mul" in s["op"]] == ["aten.mul.Tensor"]
    mul = next(s for s in separate if "aten.mul" in s["op"])
    assert mul["why"] == "it runs on another device"
    assert mul["line"] == f"{__file__}:{f.__code__.co_firstlineno + 1}"
    assert f"by itself: aten.mul.Tensor ({mul['line']}): it runs on another device" in str(said)


@pytest.fixture
def fallbacks_pass():
    torch.tpu.set_fallback_policy("silent")
    yield
    torch.tpu.reset_fallback_report()


def test_explain_counts_calls_on_the_cpu_of_this_run_alone(fallbacks_pass):
    library = torch.library.Library("tools_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    torch.library.register_fake("tools_test::twice", torch.empty_like, lib=library)
    x = data(3).to("tpu")
    torch.ops.tools_test.twice(x)

    def f(x):
        return torch.ops.tools_test.twice(x + 1) + 1

    said = torch.tpu.explain(f, x)
    assert said.fallbacks == {"tools_test::twice": 1} and "tools_test::twice: 1" in str(said)
    assert [s["why"] for g in said.graphs for s in g["separate"]] == ["it has no kernel for the device"]
    torch.testing.assert_close(said.result.cpu(), (x.cpu() + 1) * 2 + 1)
    library._destroy()


def test_explain_tells_why_a_function_was_compiled_again():
    @torch.compile(backend="tpu")
    def inner(x, k):
        return x * k

    x = data(3).to("tpu")

    def both(x):
        torch._dynamo.disable(lambda: (inner(x, True), inner(x.double(), True)))()
        return x + 1

    said = torch.tpu.explain(both, x)
    (again,) = said.recompiles
    assert again["function"] == "inner" and "dtype mismatch" in again["reason"], again


def test_graphs_are_among_the_statistics():
    torch._dynamo.reset()
    f = torch.compile(lambda x: x.sin() + 1, backend="tpu")
    x = data(3).to("tpu")
    before = {g["name"] for g in torch.tpu.compile_stats()["graphs"]}
    f(x)
    f(x)
    (mine,) = [g for g in torch.tpu.compile_stats()["graphs"] if g["name"] not in before]
    assert mine["calls"] == 2 and mine["pieces"][0]["recorded"][0]["ops"] == 2


def test_the_statistics_import_no_compiler():
    run_python(
        "import sys, torch; torch.ones(2, device='tpu') + 1; "
        "assert torch.tpu.compile_stats()['graphs'] == []; assert 'torch._dynamo' not in sys.modules"
    )


SCRIPT = """
import sys, torch
from beside import K
f = torch.compile(lambda x: (x * K).sin(), backend="tpu")
print(f(torch.ones(3, device="tpu")).shape, sys.argv[1:])
del f
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 3])
def test_the_command(tmp_path, code):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("K = 3")
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "explain", str(tmp_path / "script.py"), str(code), "--flag"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.returncode == code, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"torch.Size([3]) ['{code}', '--flag']" and lines[1] == "graphs: 1"
    assert "inference graph 0: 1 run, 1 piece, 2 ops, 1 launch, 1 program" in done.stdout


SLOW = """
# no part of it repeats: one program that takes seconds
import torch
with torch.tpu.eager_mode("fused"):
    y = torch.ones(1000, device="tpu")
    for i in range(65):
        y = torch.sin(y) * (1.0 + i) + torch.cumsum(y, 0)
        for b in range(7):
            y = torch.exp(y) if (i * 2654435761 >> b) & 1 else torch.tanh(y).sort()[0]
    y.cpu()
print(max(p["seconds"] for p in torch.tpu.compile_stats()["programs"]))
"""


def on_a_terminal(code: str, tmp_path) -> str:
    """What the program writes to its standard error, which is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    env = dict(os.environ, TORCH_TPU_CACHE_DIR=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=env) as p:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux's way to say that the other end was closed
                break
            if not piece:
                break
            said += piece
        printed = p.stdout.read().decode()
    os.close(ours)
    assert p.returncode == 0, said.decode()
    if float(printed.split()[-1]) < 1.3:
        pytest.skip("the compiler is too quick for a progress line")
    return said.decode()


def test_a_long_compile_shows_where_it_is_on_a_terminal_alone(tmp_path):
    said = on_a_terminal(SLOW, tmp_path / "one")
    lines = [line for line in said.split("\r") if "compiling" in line]
    assert lines and all("compiling program " in line for line in lines), said
    assert " ops (" in lines[0] and "KiB of StableHLO), 1 s" in lines[0], lines
    assert said.endswith("\r\x1b[K")  # and is gone afterwards
    assert run_python(SLOW, TORCH_TPU_CACHE_DIR=str(tmp_path / "two")).stderr == ""
