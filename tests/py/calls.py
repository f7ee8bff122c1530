"""Calls of ATen operators, recorded on the CPU while PyTorch's operator database runs, and their in-place and out= forms
found by schema: what the sweeps over "every operator" run over."""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

Overload = torch._ops.OpOverload


class Call(NamedTuple):
    op: Overload
    args: tuple
    kwargs: dict


def tensors(x: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def copy(x: Any, device: str = "cpu") -> Any:
    """Every tensor with its strides; what is not dense becomes so."""
    return tree_map(lambda t: t.detach().clone().to(device) if isinstance(t, torch.Tensor) else t, x)


class Recorder(TorchDispatchMode):
    """At most `most` calls of an overload, told apart by shapes."""

    def __init__(self, most: int):
        super().__init__()
        self.most, self.calls = most, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        seen = self.calls.setdefault(func, {})
        inside = tensors((args, kwargs))
        key = tuple((t.shape, t.stride(), t.dtype) for t in inside)
        plain = all(type(t) is torch.Tensor and t.layout == torch.strided and t.is_cpu for t in inside)
        if plain and key not in seen and len(seen) < self.most:
            seen[key] = Call(func, copy(args), copy(kwargs))
        return func(*args, **kwargs)


@functools.cache
def corpus(dtype: torch.dtype = torch.float32, samples: int = 6, most: int = 4) -> dict[str, list[Call]]:
    """Name of an aten overload -> calls of it."""
    recorder = Recorder(most)
    # The samples seed every device's generator thousands of times, and the others note each time who asked: half of the time.
    others = [mock.patch(f"torch.{device}._lazy_call") for device in ("cuda", "xpu")]
    with warnings.catch_warnings(), others[0], others[1]:
        warnings.simplefilter("ignore")
        for op in op_db:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            torch.default_generator.manual_seed(0)
            try:
                for s in itertools.islice(op.sample_inputs("cpu", dtype), samples):
                    with recorder, torch.no_grad():
                        op(s.input, *s.args, **s.kwargs)
            except Exception:
                continue  # what the CPU itself cannot do
    return {name(op): list(c.values()) for op, c in recorder.calls.items() if op.namespace == "aten" and c}


def name(op: Overload) -> str:
    return str(op).removeprefix("aten.").removesuffix(".default")


def every_overload() -> list[Overload]:
    found = []
    for full in torch._C._dispatch_get_all_op_names():
        base, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, base, None) if full.startswith("aten::") else None
        op = getattr(packet, overload or "default", None)
        if op is not None:
            found.append(op)
    return found


def written(op: Overload) -> list[int]:
    return [i for i, a in enumerate(op._schema.arguments) if a.alias_info and a.alias_info.is_write]


def forms(op: Overload) -> tuple[list[Overload], list[Overload]]:
    """The in-place and the out= overloads that take the same arguments."""
    have = [(a.name, str(a.type)) for a in op._schema.arguments]
    inplace, out = [], []
    for base, found in ((op._opname, out), (op._opname + "_", inplace)):
        packet = getattr(torch.ops.aten, base, None)
        for o in packet.overloads() if packet else ():
            f = getattr(packet, o)
            args = [a for a in f._schema.arguments if not a.is_out]
            same = [(a.name, str(a.type)) for a in args] == have
            outs = len(args) < len(f._schema.arguments)
            if same and f is not op and outs == (found is out) and written(f):
                found.append(f)
    return inplace, out
