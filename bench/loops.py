"""Loops of small ops: what the bench times, and what callgrind counts."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor


def issue(x: Tensor, y: Tensor, n: int) -> None:
    """One op after the other whose results are dropped: in fused mode recording and nothing else."""
    for _ in range(n):
        x.add(y)


def chain(x: Tensor, y: Tensor, n: int) -> None:
    """Each op needs the one before; read at the end."""
    for _ in range(n):
        x = x.add(y)
    x.cpu()


def linears(x: Tensor, weight: Tensor, n: int) -> None:
    for _ in range(n):
        x = F.linear(x, weight)
    x.cpu()


class Layer:
    """One decoder layer on one token, as Transformers' Llama runs it, of dims so small that only the ops count."""

    def __init__(self, device: str, d: int = 16, heads: int = 2, past: int = 8) -> None:
        def make(*sizes: int) -> Tensor:
            return torch.ones(sizes, device=device) / d

        self.heads = heads
        self.norms = [make(d), make(d)]
        self.q, self.k, self.v, self.o = (make(d, d) for _ in range(4))
        self.gate, self.up, self.down = make(2 * d, d), make(2 * d, d), make(d, 2 * d)
        self.keys = make(1, heads, past, d // heads)
        self.cos, self.sin = make(1, 1, 1, d // heads), make(1, 1, 1, d // heads)

    @staticmethod
    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))

    def rotate(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * self.cos + turned * self.sin

    def split(self, x: Tensor) -> Tensor:
        return x.view(1, 1, self.heads, -1).transpose(1, 2)

    def __call__(self, x: Tensor) -> Tensor:
        y = self.norm(x, self.norms[0])
        q, k = self.rotate(self.split(F.linear(y, self.q))), self.rotate(self.split(F.linear(y, self.k)))
        v = self.split(F.linear(y, self.v))
        keys, values = torch.cat((self.keys, k), dim=-2), torch.cat((self.keys, v), dim=-2)
        a = F.scaled_dot_product_attention(q, keys, values)
        x = x + F.linear(a.transpose(1, 2).reshape(1, 1, -1), self.o)
        y = self.norm(x, self.norms[1])
        return x + F.linear(F.silu(F.linear(y, self.gate)) * F.linear(y, self.up), self.down)


def layers(layer: Layer, x: Tensor, n: int) -> None:
    for _ in range(n):
        x = layer(x)
    x.cpu()


def seconds(work, *args) -> float:
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start
