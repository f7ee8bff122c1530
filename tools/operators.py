#!/usr/bin/env python3
"""Writes docs/operators.md from what is registered with PyTorch's dispatcher: make docs.

native: a row of the core. decomposed: PyTorch's own kernel in terms of other ops. fallback: runs on the CPU.
"""

from __future__ import annotations

import collections
import json
import re

import torch
from torch_tpu import _C

COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
REASONS = (
    (r"quant|qint|q_scale|q_zero|q_per|fbgemm|fused_moving_avg|fake_quant|dequant", "quantised tensors are not there"),
    (r"sparse|coalesce|indices|crow|ccol|to_dense|_values|_nnz|_dim[IV]|spdiags|sspaddmm", "sparse layouts are not there"),
    (r"mkldnn|mkl_", "a layout of the CPU library"),
    (r"nested|jagged|padded_dense", "nested tensors are not there"),
    (r"_for_cpu|_cpu|slow_conv|transform_bias_rescale", "a kernel of the CPU's own"),
    (r"_int4|_int8|weight_int|_pack|_scaled_(grouped_)?mm|_grouped_mm", "packed weights"),
    (r"linalg_eig(\.|$|vals)|geqrf|ormqr|ldl|orgqr|householder|lstsq", "LAPACK's algorithm has no counterpart in StableHLO"),
    (r"histogramdd|segment_reduce|hash_tensor|airy", "rarely used"),
    (r"_test_|_dummy|_assert|_foobar|_dep_token", "internal to PyTorch's tests and checks"),
    (r"from_file|_pin_memory|is_pinned|to_numpy|share_memory", "about host memory"),
)  # fmt: skip


def has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def state(name: str) -> str | None:
    if has(name, "PrivateUse1"):
        return "native"
    if any(has(name, key) for key in COMPOSITE):
        return "decomposed"
    return "fallback" if has(name, "CPU") else None


def why(name: str) -> str:
    return next((reason for pattern, reason in REASONS if re.search(pattern, name)), "no row yet")


def main() -> None:
    names = sorted(
        n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")
    )
    states = {n: s for n in names if (s := state("aten::" + n))}
    count = collections.Counter(states.values())
    registration = json.loads(_C.registration())
    print("# Operators\n")
    print("<!-- Written by tools/operators.py (make docs); do not edit. -->\n")
    print(
        f"Of the {len(states)} ATen overloads of torch {torch.__version__.split('+')[0]} that work on a dense CPU tensor, "
        f"**{count['native']} are native** ({len(_C.rows())} rows of the core; in-place and `out=` forms are derived), "
        f"{count['decomposed']} are decomposed by PyTorch into others, and {count['fallback']} run on the CPU, "
        "counted by `torch.tpu.fallback_report()`.\n"
    )
    print("## CPU fallback\n\n| op | why |\n| --- | --- |")
    for name, s in states.items():
        if s == "fallback":
            print(f"| `{name}` | {why(name)} |")
    if registration["refused"]:
        print("\n## Rows that PyTorch's own kernel replaces\n\n| row | why |\n| --- | --- |")
        for name, reason in sorted(registration["refused"].items()):
            print(f"| `{name}` | {reason} |")
    for title in ("native", "decomposed"):
        print(f"\n## {title.capitalize()}\n")
        bases: dict[str, list[str]] = collections.defaultdict(list)
        for name, s in states.items():
            if s == title:
                base, _, overload = name.partition(".")
                bases[base].append(overload or "default")
        for base, overloads in sorted(bases.items()):
            print(f"* `{base}`: {', '.join(overloads)}")


if __name__ == "__main__":
    main()
