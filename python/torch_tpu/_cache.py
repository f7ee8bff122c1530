"""``python -m torch_tpu cache``: the directory of compiled programs, as people see it. The files are core/step/cache.c's."""

from __future__ import annotations

import argparse
import json
import re
import time
from typing import Any

_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _number(text: str, units: dict[str, int], ending: str) -> int:
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*([a-z]?){ending}", text.strip().lower())
    if not found or found[2] not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is none (known units: {' '.join(u for u in units if u)})")
    return int(float(found[1]) * units[found[2]])


def size(text: str) -> int:
    """'1500000', '1.5G', '512MiB'"""
    return _number(text, _BYTES, "(?:i?b)?")


def age(text: str) -> int:
    """'90', '15m', '12h', '30d', '2w'"""
    return _number(text, _SECONDS, "")


def _mib(n: int) -> str:
    return f"{n / (1 << 20):.1f} MiB"


def _ago(seconds: float) -> str:
    for unit, n in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= n:
            return f"{seconds / n:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", help="another directory than the host's own, such as the shared one")
    common.add_argument("--json", action="store_true")
    commands.add_parser("list", parents=[common], help="programs, the one used last at the end")
    command = commands.add_parser(
        "verify", parents=[common], help="read every byte; exit code 1 = some are damaged"
    )
    command.add_argument("--fix", action="store_true", help="throw damaged ones away")
    command = commands.add_parser(
        "prune", parents=[common], help="throw away what was not used for longest, or too long"
    )
    command.add_argument("--max-size", type=size, metavar="SIZE", help="such as 500M: keep so much")
    command.add_argument("--older-than", type=age, metavar="AGE", help="such as 12h or 30d: not used since")
    commands.add_parser("clear", parents=[common], help="throw all away")


def run(args: argparse.Namespace) -> int:
    from . import _C

    if args.what == "prune" and args.max_size is None and args.older_than is None:
        print("prune wants --max-size or --older-than")
        return 2
    if args.what in ("list", "verify"):
        report = json.loads(_C.cache_list(args.dir, args.what == "verify", getattr(args, "fix", False)))
    else:
        most = 0 if args.what == "clear" else args.max_size
        seconds = getattr(args, "older_than", None)
        report = json.loads(
            _C.cache_prune(args.dir, -1 if most is None else most, -1 if seconds is None else seconds)
        )
    if args.json:
        print(json.dumps(report, indent=2))
    elif not report["found"]:
        print(f"{report['dir']} cannot be read" if report["dir"] else "there is no cache directory")
    else:
        {"list": _list, "verify": _verify}.get(args.what, _pruned)(report)
    if not report["found"]:
        return 1
    bad = [e for e in report.get("entries") or () if e["state"] == "damaged"] if args.what == "verify" else []
    return 1 if bad else 0


def _list(report: dict[str, Any]) -> None:
    now = time.time()
    entries = sorted(report["entries"], key=lambda e: e["used"])
    for e in entries:
        name = e["name"] or f"({e['state']})"
        print(
            f"{e['file']}  {e['bytes'] / 1024:8.0f} KiB  {_ago(now - e['used']):>4} ago  {e['seconds']:7.2f} s  {e['ops']:5} ops  {name}"
        )
    print(f"{len(entries)} programs, {_mib(sum(e['bytes'] for e in entries))} in {report['dir']}")


def _verify(report: dict[str, Any]) -> None:
    states: dict[str, int] = {}
    for e in report["entries"]:
        states[e["state"]] = states.get(e["state"], 0) + 1
        if e["state"] != "fine":
            print(f"{e['file']}  {e['state']}{', removed' if e['removed'] else ''}")
    said = ", ".join(f"{n} {state}" for state, n in sorted(states.items())) or "no programs"
    print(f"{said} in {report['dir']}")


def _pruned(report: dict[str, Any]) -> None:
    left = report["entries"] - report["removed"]
    print(
        f"{report['removed']} programs removed, {_mib(report['bytes'] - report['left'])}; "
        f"{left} left, {_mib(report['left'])} in {report['dir']}"
    )
