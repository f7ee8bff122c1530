"""A model as one StableHLO program, for other consumers of StableHLO: ``torch_tpu.export``.

torch.export traces the model, the graph is recorded as torch.compile's graphs are (_compile/execute.py), and the text of its one program
gets a ``main`` whose arguments are the model's weights and inputs in their order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

import torch

_TYPE = r"tensor<(?:[^<>]|<[^<>]*>)*>"
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@dataclasses.dataclass(frozen=True)
class Argument:
    """Of ``main``: a weight (its name in the state dict) or an input (PyTorch's name of it)."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class Exported:
    """``main(*weights, *inputs) -> outputs``; writes into buffers of the model come before the outputs.

    stablehlo: the program's text. weights: CPU tensors by name, in the order of the first arguments; constants of the model are among
    them. inputs: the other arguments. outputs: names of buffers that are written, then ``""`` for each result.
    """

    stablehlo: str
    weights: dict[str, torch.Tensor]
    inputs: tuple[Argument, ...]
    outputs: tuple[str, ...]

    def serialize(self, version: str | None = None) -> bytes:
        """StableHLO's portable artifact: MLIR bytecode, which later versions of StableHLO read, too. version: the one to write for, such
        as "1.13.0"; None: that of twelve weeks before the writer's own. The promise is StableHLO's: operations of CHLO (erf, lgamma, top_k
        and such) go along as they are. Needs jaxlib, which has the writer.
        """
        try:
            from jaxlib import _jax  # type: ignore[attr-defined]
            from jaxlib.mlir.dialects import stablehlo
        except ImportError as error:
            raise ImportError(
                "Exported.serialize needs StableHLO's writer, which is in jaxlib: pip install jaxlib. The text "
                "(Exported.stablehlo) needs nothing."
            ) from error
        if version is None:
            version = stablehlo.get_version_from_compatibility_requirement(
                stablehlo.StablehloCompatibilityRequirement.WEEK_12
            )
        mixed = "chlo." in self.stablehlo
        return _jax.mlir.serialize_portable_artifact(self.stablehlo, version, mixed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text where the path ends in .mlir, else the portable artifact. Weights are not in it."""
        text = os.fspath(path).endswith(".mlir")
        with open(path, "wb") as f:
            f.write(self.stablehlo.encode() if text else self.serialize())


def _element(type_: str) -> str:
    return re.sub(r"^(\d+x)*", "", type_[len("tensor<") : -1])


def _constant(number: list[int], type_: str) -> str:
    """The bits of a number as a dense constant of that type."""
    low, high = number
    of = _element(type_)
    if of == "i1":
        return "true" if low & 1 else "false"
    if of in _BITS:
        return f"0x{low & (1 << _BITS[of]) - 1:0{_BITS[of] // 4}X}"
    if of == "complex<f32>":
        return f"(0x{low & 0xFFFFFFFF:08X}, 0x{low >> 32:08X})"
    if of == "complex<f64>":
        return f"(0x{low:016X}, 0x{high:016X})"
    width = int(of.lstrip("ui"))
    low &= (1 << width) - 1
    return str(low if of.startswith("ui") or not low >> (width - 1) else low - (1 << width))


def _as(name: str, has: str, wants: str, lines: list[str]) -> str:
    """The value with the dims that are wanted: a contiguous tensor may lie in memory that was made with other ones."""
    if has == wants:
        return name
    if _element(has) != _element(wants):
        raise RuntimeError(f"torch_tpu.export: {wants} is a view of a {has}; pass clones of such tensors")
    lines.append(f"    %s{len(lines)} = stablehlo.reshape {name} : ({has}) -> {wants}")
    return f"%s{len(lines) - 1}"


def _call(
    run: dict[str, Any], arguments: list[str], lines: list[str]
) -> tuple[dict[int, tuple[str, str]], str]:
    """Adds the call of the recorded program: name and type of each slot that it gives, and its text without the module around it."""
    if not run["run"]["launches"]:
        return {}, "}\n"
    (launch,), (text,) = run["run"]["launches"], run["run"]["texts"]
    found = re.search(r"func\.func public @main\((.*)\) -> \((.*)\) \{\n", text)
    if found is None:
        raise RuntimeError("torch_tpu.export: the program's text has no main; please report this")
    types, made = (re.findall(_TYPE, part) for part in found.groups())
    operands = []
    for i, (o, type_) in enumerate(zip(launch["operands"], types, strict=True)):
        if "input" in o:
            k = run["inputs"][o["input"]]
            operands.append(_as(f"%arg{k}", arguments[k], type_, lines))
            continue
        if o["from"] != "record":
            raise RuntimeError(
                "torch_tpu.export: the model draws random numbers; export it after model.eval()"
            )
        lines.append(f"    %n{i} = stablehlo.constant dense<{_constant(o['number'], type_)}> : {type_}")
        operands.append(f"%n{i}")
    call = f"    %r:{len(made)} = func.call @program({', '.join(operands)})"
    lines.append(f"{call} : ({', '.join(types)}) -> ({', '.join(made)})")
    slots = {s: (f"%r#{k}", made[k]) for k, s in enumerate(launch["results"])}
    return slots, text.replace("func.func public @main(", "func.func private @program(", 1).split("\n", 1)[1]


def _with_main(run: dict[str, Any], arguments: list[str], wanted: list[str]) -> str:
    """The program's text with a main of our order: types of its arguments and results."""
    lines: list[str] = []
    slots, body = _call(run, arguments, lines)
    values = []
    for i, (r, wants) in enumerate(zip(run["results"], wanted, strict=True)):
        if r.get("slot") == -1:  # never written
            zero = "" if re.search(r"[<x]0x", wants) else _constant([0, 0], wants)
            lines.append(f"    %z{i} = stablehlo.constant dense<{zero}> : {wants}")
            values.append(f"%z{i}")
            continue
        (kind, k) = next(iter(r.items()))
        name, has = slots[k] if kind == "slot" else (f"%arg{k}", arguments[k])
        values.append(_as(name, has, wants, lines))
    kinds = ", ".join(wanted)
    head = ", ".join(f"%arg{i}: {t}" for i, t in enumerate(arguments))
    main = ["module @program {", f"  func.func public @main({head}) -> ({kinds}) {{", *lines]
    return "\n".join([*main, f"    return {', '.join(values)} : {kinds}", "  }", body])


_ELEMENTS = {
    torch.bool: "i1", torch.uint8: "ui8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "complex<f32>", torch.complex128: "complex<f64>",
}  # fmt: skip


def _type(t: torch.Tensor) -> str:
    if t.dtype not in _ELEMENTS:
        raise TypeError(f"torch_tpu.export: {t.dtype} has no type in StableHLO that this package uses")
    return f"tensor<{''.join(f'{n}x' for n in t.shape)}{_ELEMENTS[t.dtype]}>"


def _contiguous_outputs(graph: torch.fx.Graph) -> None:
    """Each result as memory of its own, contiguous: a view of something has another type in the program."""
    (output,) = (n for n in graph.nodes if n.op == "output")
    with graph.inserting_before(output):
        for n in list(dict.fromkeys(output.all_input_nodes)):
            if n.op == "placeholder" or not isinstance(n.meta.get("val"), torch.Tensor):
                continue
            copy = graph.call_function(
                torch.ops.aten.clone.default, (n,), {"memory_format": torch.contiguous_format}
            )
            copy.meta["val"] = n.meta["val"].clone(memory_format=torch.contiguous_format)
            output.replace_input_with(n, copy)


def _traced(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    from torch.export.passes import move_to_device_pass

    from ._compile import execute

    exported = torch.export.export(model, args, kwargs).run_decompositions({})
    for n in exported.graph.nodes:
        if isinstance(n.meta.get("val"), torch.Tensor) and any(map(execute.is_symbolic, n.meta["val"].shape)):
            raise RuntimeError(
                f"torch_tpu.export: {n.target}: its size hangs on values; a program's are constant"
            )
    return move_to_device_pass(exported, "tpu:0")


def _own(t: torch.Tensor) -> torch.Tensor:
    """On the device, contiguous, and nothing else in its memory."""
    t = t.detach().to("tpu:0").contiguous()
    return t if t.untyped_storage().nbytes() == t.nbytes else t.clone()


def _values(exported: Any) -> tuple[list[Any], list[str]]:
    """Of each placeholder, and names: of a weight its own, "" for an input."""
    from torch.export.graph_signature import InputKind

    inputs = iter(torch.utils._pytree.tree_leaves(exported.example_inputs))
    values, names = [], []
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(next(inputs))
            names.append("")
        else:
            store = exported.state_dict if spec.target in exported.state_dict else exported.constants
            values.append(store[spec.target])
            names.append(spec.target)
    return [_own(v) if isinstance(v, torch.Tensor) else v for v in values], names


def _program(exported: Any, values: list[Any]) -> dict[str, Any]:
    """What was recorded of the graph: one launch of one program."""
    from . import _device
    from ._compile import backend, execute

    graph = execute.CompiledGraph(exported.graph_module, backend.next_name("exported"), True)
    with _device.sizes("exact"), torch.no_grad():
        graph(list(values))
    report = graph.report()
    for s in report["separate"]:
        raise RuntimeError(
            f"torch_tpu.export: {s['op']} ({s['line']}) cannot be part of a program: {s['why']}"
        )
    if graph._fast is None or report["pieces"][0]["not_kept"]:
        why = report["pieces"][0]["not_kept"] if report["pieces"] else "there is nothing to compute"
        raise RuntimeError(f"torch_tpu.export: the model is not one program: {why}")
    (run,) = json.loads(torch.ops.tpu.graph_programs(graph._fast.handle))
    at = graph._tensor_at  # inputs of the piece -> of the graph
    run["inputs"] = [at[i] for i in run["inputs"]]
    outputs = [
        {kind: at[k] if kind in ("input", "view_of", "copy_of") else k for kind, k in o.items()}
        for o in run["outputs"]
    ]
    run["results"] = [
        outputs[what] if kind == 0 else {"input": what} for kind, what in graph._plan if kind in (0, 2)
    ]
    return run


def export(
    model: torch.nn.Module, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Exported:
    """The model's forward pass on such arguments as one StableHLO program; see `Exported`.

    The model and the arguments may lie on the CPU or on a tpu; sizes are constants of the program. Runs the model once, on tpu:0.
    Raises what ``torch.export.export`` raises; RuntimeError where a call cannot be part of a program (it names it) or draws random numbers;
    TypeError for dtypes without a type in StableHLO.
    """
    exported = _traced(model, args, kwargs)
    _contiguous_outputs(exported.graph_module.graph)
    values, names = _values(exported)
    run = _program(exported, values)
    order = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
    order.sort(key=lambda i: not names[i])  # weights first
    place = {i: k for k, i in enumerate(order)}
    run["inputs"] = [place[i] for i in run["inputs"]]
    run["results"] = [
        {kind: k if kind == "slot" else place[k] for kind, k in r.items()} for r in run["results"]
    ]
    (output,) = (n for n in exported.graph_module.graph.nodes if n.op == "output")
    wanted = [_type(n.meta["val"]) for n in output.args[0] if isinstance(n, torch.fx.Node)]
    placeholders = [n.name for n in exported.graph_module.graph.nodes if n.op == "placeholder"]
    specs = exported.graph_signature.output_specs
    return Exported(
        _with_main(run, [_type(values[i]) for i in order], wanted),
        {names[i]: values[i].cpu() for i in order if names[i]},
        tuple(
            Argument(placeholders[i], tuple(values[i].shape), values[i].dtype) for i in order if not names[i]
        ),
        tuple((s.target or "") if "MUTATION" in s.kind.name else "" for s in specs),
    )
