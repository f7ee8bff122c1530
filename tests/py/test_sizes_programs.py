"""A handful of programs serve inputs of any size: counts and values of whole programs, strict and fused. Each runs in a process of its
own with an empty program cache (sizes_programs.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sizes_programs import rung

MODES = ("strict", "fused")


def run(name: str, mode: str, cache: Path) -> dict:
    import os

    env = os.environ | {"TORCH_TPU_CACHE_DIR": str(cache), "TORCH_TPU_SIZES": "auto"}
    script = Path(__file__).with_name("sizes_programs.py")
    done = subprocess.run(
        [sys.executable, script, name, mode], env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def steps(batch: int, first: int, last: int) -> set[tuple]:
    """Kinds of decoding steps between two lengths: within a rung or into the next one, right after the prompt or later."""
    return {(batch, rung(n - 1), rung(n), n - 1 == first) for n in range(first + 1, last + 1)}


@pytest.mark.parametrize("mode", MODES)
def test_generated_text_of_any_length(mode: str, tmp_path: Path) -> None:
    per_decode, per_prompt = {"strict": (25, 45), "fused": (8, 10)}[mode]
    prompts: set[tuple] = set()
    seen: set[tuple] = set()
    result = run("smollm2", mode, tmp_path)
    for r in result["runs"]:
        batch, first, last = r["batch"], r["prompt"], r["prompt"] + r["tokens"]
        new_prompts = {(batch, rung(first)), (batch, 1)} - prompts  # a token alone is a prompt of length 1
        new_rungs = {step[2] for step in steps(batch, first, last) - seen}
        prompts |= new_prompts
        seen |= steps(batch, first, last - 1)  # the cache is one token behind the ids
        assert r["equal"], r
        allowed = per_prompt * len(new_prompts) + per_decode * len(new_rungs)
        assert r["programs"] <= allowed, (r, allowed)
    assert result["exact"] == {}


@pytest.mark.parametrize("mode", MODES)
def test_sentences_of_forty_lengths(mode: str, tmp_path: Path) -> None:
    first, again = run("minilm", mode, tmp_path)["passes"]
    seen: set[int] = set()
    for s in first:
        fresh = rung(s["length"]) not in seen
        seen.add(rung(s["length"]))
        assert s["programs"] <= (25 if fresh else 0), s
    assert all(s["cosine"] >= 0.99999 for s in first + again)
    assert sum(s["programs"] for s in again) == 0


@pytest.mark.parametrize("mode", MODES)
def test_training_on_sentences(mode: str, tmp_path: Path) -> None:
    result = run("classifier", mode, tmp_path)
    assert result["far"] <= 1e-4
    steps = result["steps"]
    rungs = {rung(s["length"]) for s in steps}
    assert sum(s["programs"] for s in steps) <= 70 + (50 if mode == "strict" else 12) * (len(rungs) + 1)
    assert sum(s["programs"] for s in steps[50:]) <= (50 if mode == "strict" else 12) * len(
        rungs - {rung(s["length"]) for s in steps[:50]}
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_smaller_last_batch(mode: str, tmp_path: Path) -> None:
    assert run("last_batch", mode, tmp_path)["epochs"][1:] == [0, 0, 0]
