#!/usr/bin/env python3
"""Speed and memory as ratios, both sides in one interleaved run on one core (see measure.py).

    python bench/bench.py [--only NAME ...] [--core N] [--json FILE]

A ratio above its `must` is marked MISSED; of a row in seconds it is our number that must not be above it.
Instruction counts, for noisy machines: bench/instructions.py.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import measure
from rows import ROWS, Row


def result(row: Row) -> dict[str, object]:
    ours, theirs = row.measure()
    ratio = ours / theirs
    bounded = ratio if row.bound == "ratio" else ours
    return {
        "name": row.name,
        "what": row.what,
        "unit": row.unit,
        "ours": round(ours, 3),
        "against": row.against,
        "theirs": round(theirs, 3),
        "ratio": round(ratio, 3),
        "must": row.must,
        "aim": row.aim,
        "bound": row.bound,
        "missed": row.must is not None and bounded > row.must,
    }


def line(r: dict[str, object]) -> str:
    must = "-" if r["must"] is None else r["must"]
    mark = "  MISSED" if r["missed"] else ""
    return (
        f"{r['name']:13} {r['what']:50} {r['ours']:9.2f} {r['theirs']:9.2f} {r['unit']:4}"
        f"{r['ratio']:6.2f} {must:>5} {r['aim']:>5}  {r['against']}{mark}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[r.name for r in ROWS])
    parser.add_argument("--core", type=int, help="default: the last of those we may use")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the numbers, for a machine")
    args = parser.parse_args()
    measure.pin(args.core)
    print(f"{'':13} {'':50} {'ours':>9} {'theirs':>9} {'':4}{'ratio':>6} {'must':>5} {'aim':>5}", flush=True)
    results = []
    for row in ROWS:
        if args.only and row.name not in args.only:
            continue
        results.append(result(row))
        print(line(results[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    missed = [str(r["name"]) for r in results if r["missed"]]
    print(f"missed: {', '.join(missed)}" if missed else "every must is met", file=sys.stderr)


if __name__ == "__main__":
    main()
