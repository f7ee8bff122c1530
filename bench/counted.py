"""What bench/instructions.py runs under callgrind: python bench/counted.py DEVICE MODE

A mark is os.getppid(), which nothing else here calls: callgrind ends one profile there and begins the next. Each
loop runs between marks, at two lengths.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import loops
import torch
from measure import LENGTHS


def loop_of(name: str, device: str) -> Callable[[int], None]:
    """Sizes are as small as can be, so that little but the ops themselves is counted."""
    x, y, row, square = (torch.ones(s, device=device) for s in (8, 8, (1, 8), (8, 8)))
    if name == "layer":
        layer, token = loops.Layer(device), torch.ones(1, 1, 16, device=device)
        return lambda n: loops.layers(layer, token, n)
    if name == "linear":
        return lambda n: loops.linears(row, square, n)
    work = loops.issue if name == "record" else loops.chain
    return lambda n: work(x, y, n)


def main() -> None:
    device, mode = sys.argv[1:]
    if device == "tpu":
        torch.tpu.set_eager_mode(mode)
    with torch.inference_mode():
        for name in LENGTHS:
            loop = loop_of(name, device)
            for n in LENGTHS[name] * 2:  # the first time compiles
                loop(n)
            for n in LENGTHS[name]:
                os.getppid()
                loop(n)
            os.getppid()


if __name__ == "__main__":
    main()
