#!/usr/bin/env python3
"""Instructions an op, counted by callgrind: the same on a noisy machine as on a quiet one.

    python bench/instructions.py           measures anew and shows what changed against instructions.json
    python bench/instructions.py --keep    and keeps it

Each loop runs at two lengths; the difference over the difference in length is what one op costs, by library.
Needs valgrind. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter

from measure import HERE, LENGTHS, ONE_THREAD

KEPT = HERE / "instructions.json"
SIDES = {"fused": ("tpu", "fused"), "strict": ("tpu", "strict"), "CPU eager": ("cpu", "-")}
LIBRARIES = {
    "libtorch_tpu_glue": "core and glue",
    "_C.abi3": "core and glue",
    "pjrt": "plugin",
    "libtorch": "torch",
    "libc10": "torch",
    "python": "Python",
    "libstdc++": "libc",
    "libc.": "libc",
    "ld-linux": "libc",
}
Cost = dict[str, int]  # instructions by library, and their sum as "all"


def library(path: str) -> str:
    name = pathlib.Path(path).name
    return next((kind for start, kind in LIBRARIES.items() if start in name), "other")


def profile(file: pathlib.Path) -> Counter[str]:
    """Instructions of one callgrind profile by library. Format: valgrind's manual, "Callgrind Format"."""
    names: dict[str, str] = {}
    cost: Counter[str] = Counter()
    ours, called = "other", False
    for line in file.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            number, name = re.fullmatch(r"ob=(\(\d+\))? ?(.*)", line).groups()  # type: ignore[union-attr]
            names[number] = name or names[number]
            ours = library(names[number])
        elif line.startswith("cob="):
            number, name = re.fullmatch(r"cob=(\(\d+\))? ?(.*)", line).groups()  # type: ignore[union-attr]
            names[number] = name or names[number]
        elif line.startswith("calls="):
            called = True  # the next line is what the callee cost
        elif line[:1] in "0123456789+-*" and line:
            if not called:
                cost[ours] += int(line.split()[1])
            called = False
    return cost


def measure_side(device: str, mode: str) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "profile"
        valgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}"]
        fixed = {"PYTHONHASHSEED": "0", "TORCH_TPU_CACHE_DIR": os.path.join(folder, "cache")}
        subprocess.run(
            [*valgrind, sys.executable, str(HERE / "counted.py"), device, mode],
            env=os.environ | ONE_THREAD | fixed,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        parts = [profile(pathlib.Path(f"{out}.{k + 2}")) for k in range(2 * len(LENGTHS))]
    costs = {}
    for k, (name, (short, long)) in enumerate(LENGTHS.items()):
        few, many = parts[2 * k : 2 * k + 2]
        cost = {kind: round((many[kind] - few[kind]) / (long - short)) for kind in sorted(few | many)}
        costs[name] = {"all": sum(cost.values())} | cost
    return costs


def show(now: dict[str, dict[str, Cost]], kept: dict[str, dict[str, Cost]]) -> None:
    kinds = ["all", "core and glue", "plugin", "torch", "Python", "libc", "other"]
    print(f"{'':18}" + "".join(f"{k:>22}" for k in kinds))
    for side, loops in now.items():
        for loop, cost in loops.items():
            cells = []
            for kind in kinds:
                new, old = cost.get(kind, 0), kept.get(side, {}).get(loop, {}).get(kind)
                change = f" {100 * (new - old) / old:+.1f}%" if old else ""
                cells.append(f"{new:>13}{change:>9}")
            print(f"{side:10}{loop:8}" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="write instructions.json")
    parser.add_argument("--side", nargs="+", choices=list(SIDES), default=list(SIDES))
    args = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    now = {side: measure_side(*SIDES[side]) for side in args.side}
    show(now, kept)
    if args.keep:
        KEPT.write_text(json.dumps(kept | now, indent=1) + "\n")


if __name__ == "__main__":
    main()
