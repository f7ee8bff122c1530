"""Every native op with a Scalar argument, called with numbers that its dtypes cannot hold."""

from __future__ import annotations

import torch
from torch_tpu import _C

VALUES = (1e39, -1e39, 7e4, float("nan"), float("inf"), -float("inf"), 2**40, 300, -1, 1e39j)
DTYPES = (torch.float32, torch.float16, torch.float64, torch.int32, torch.uint8, torch.complex64)

SHAPES = {  # of tensors by schema and name, where (2, 2) will not do
    "addmv": {"self": (2,), "vec": (2,)},
    "addr": {"vec1": (2,), "vec2": (2,)},
    "baddbmm": {"self": (2, 2, 2), "batch1": (2, 2, 2), "batch2": (2, 2, 2)},
    "addbmm": {"batch1": (2, 2, 2), "batch2": (2, 2, 2)},
    "bucketize": {"boundaries": (2,)},
    "searchsorted": {"sorted_sequence": (2,)},
    "index_add": {"index": (2,)},
    "index_fill": {"index": (2,)},
    "multi_margin_loss": {"target": (2,)},
    "multi_margin_loss_backward": {"target": (2,), "grad_output": (2,)},
    "linspace": {"start": (), "end": ()},
    "logspace": {"start": (), "end": ()},
    "_foreach_add.Tensor": {"other": ()},
}
ARGUMENTS = {"dim": 1, "steps": 3, "bins": 3, "size": [2], "pad": [1, 1], "reduce": "add", "reduction": 1, "base": 2.0,
             "rounding_mode": "floor", "training": True, "use_gelu": False, "is_result": False, "self_is_result": False}  # fmt: skip
NUMBERS = {"p": 2, "step": 1, "maxnorm": 1, "upper": 0.5, "lower": 0.25, "end": 3}  # others: 1
LISTS = ("_foreach_norm", "_foreach_powsum")


def schemas() -> dict[str, torch._C.FunctionSchema]:
    """Native overloads that take a number, by name; not those whose numbers say
    how large the result is, or how long it takes."""
    found = {}
    for name in _C.rows():
        base, _, overload = name.partition(".")
        if (
            base in ("arange", "range")
            or "polynomial" in base
            or name.startswith("tpu::")
            or not torch._C._jit_get_schemas_for_operator("aten::" + base)
        ):
            continue
        schema = torch._C._get_schema("aten::" + base, overload)
        if any("number" in str(a.type) for a in schema.arguments):
            found[name] = schema
    return found


def tensor(name: str, argument: str, dtype: torch.dtype) -> torch.Tensor:
    base = name.partition(".")[0]
    shape = {**SHAPES.get(base, {}), **SHAPES.get(name, {})}.get(argument, (2, 2))
    if argument in ("index", "target"):
        return torch.zeros(shape, dtype=torch.long)
    if argument == "mask":
        return torch.ones(shape, dtype=torch.bool)
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) + 1).to(dtype)


def arguments(name: str, schema: torch._C.FunctionSchema, dtype: torch.dtype, bad: str, value) -> dict:
    """On the CPU; the number called `bad` has the value."""
    given: dict[str, object] = {}
    for a in schema.arguments:
        kind = str(a.type)
        if "number" in kind:
            number = value if a.name == bad else NUMBERS.get(a.name, 1)
            given[a.name] = [number, 1] if "List" in kind else number
        elif kind == "List[Tensor]":
            given[a.name] = [tensor(name, a.name, dtype), tensor(name, a.name, dtype)]
        elif kind == "Tensor":
            given[a.name] = tensor(name, a.name, dtype)
        elif a.name in ARGUMENTS and not kind.startswith("Optional[List"):
            given[a.name] = (
                [ARGUMENTS[a.name]] if kind == "List[int]" and a.name == "dim" else ARGUMENTS[a.name]
            )
        elif a.name == "dtype" and (
            kind == "int" or not any(str(b.type) == "Tensor" for b in schema.arguments)
        ):
            given[a.name] = dtype
        elif a.name == "out_dtype":
            given[a.name] = torch.float32
        elif not a.has_default_value() and kind.startswith("Optional"):
            given[a.name] = None
        elif not a.has_default_value():
            given[a.name] = False
    return given


def outcome(name: str, given: dict, device: str):
    """The words of the error, or None. A tpu's call is recorded and dropped: numbers are looked at before anything is compiled."""
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")

    def move(x):
        if isinstance(x, torch.Tensor):
            return x.clone().to(device)
        return [move(item) for item in x] if isinstance(x, list) else x

    given = {key: move(x) for key, x in given.items()}
    if any(a.name == "device" for a in op._schema.arguments):
        given["device"] = device
    try:
        with torch.tpu.eager_mode("fused"):
            op(**given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
