"""``python -m torch_tpu info|explain|cache``."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

from . import _cache


def info(as_json: bool) -> int:
    import torch

    from . import __version__, _loader

    facts: dict[str, Any] = {
        "torch_tpu": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    try:
        _loader.load()
        from . import _C, _device

        try:
            _device.init()
            x = torch.ones(2, device="tpu") + 1
            facts["works"] = x.cpu().tolist() == [2.0, 2.0]
        except Exception as error:
            facts["works"], facts["problem"] = False, str(error)
        facts.update(json.loads(_C.info()))
        if facts["works"]:
            facts["device_names"] = [_device.get_device_name(i) for i in range(_device.device_count())]
        facts["eager_mode"] = _device.get_eager_mode()
        facts["fallback"] = _device.get_fallback_policy()
    except ImportError as error:
        facts["works"], facts["problem"] = False, str(error)

    if as_json:
        print(json.dumps(facts, indent=2))
        return 0 if facts["works"] else 1
    for key, value in facts.items():
        if key == "cache_dir" and value:
            value += (
                f" ({facts.get('cache_entries')} programs, {facts.get('cache_bytes', 0) / (1 << 20):.1f} MiB)"
            )
        if key in ("cache_entries", "cache_bytes"):
            continue
        if isinstance(value, list):
            value = ", ".join(json.dumps(v) if isinstance(v, dict) else str(v) for v in value)
        if value not in (None, ""):
            print(f"{key.replace('_', ' '):18} {value}")
    print("The device is usable." if facts["works"] else "The device is NOT usable.")
    return 0 if facts["works"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_tpu", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("info", help="plugin, devices, versions, cache; exit code 0 = usable")
    command.add_argument("--json", action="store_true")
    command = commands.add_parser("explain", help="run a script, then print what came of torch.compile in it")
    command.add_argument("script")
    command.add_argument("args", nargs=argparse.REMAINDER)
    command = commands.add_parser("cache", help="the programs on this host's disk")
    _cache.add_commands(command)
    chosen = parser.parse_args()
    if chosen.command == "cache":
        return _cache.run(chosen)
    if chosen.command == "explain":
        from . import _explain

        return _explain.explain_script(chosen.script, chosen.args)
    return info(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
