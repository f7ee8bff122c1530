"""Written tensors that share memory with themselves or with an argument: refused where the CPU refuses it, in its words,
and nowhere else. Values are immutable here, so that nothing goes wrong where it is allowed."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
import torch
from calls import Call, Overload, copy, corpus, forms, name, tensors, written
from helpers import both, raises_alike

WORDS = {
    "itself": "unsupported operation: more than one element of the written-to tensor refers to a single memory",
    "argument": "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single",
}
# (form, written tensor, argument) that the CPU refuses and we do not: kernels whose other arguments are free
ALLOWED = {
    ("histogram.bins_tensor_out", 1, 1),  # bin_edges over bins: the CPU copies the one to the other
    ("huber_loss.out", 0, 1),  # elementwise for one of its reductions only
    ("linalg_solve_triangular.out", 0, 1),  # the CPU solves in B's place
}
# In place, elements of an expanded self may share a place: the CPU has no check, and values that mean something.
SHARED = {
    "fill_.Scalar", "fill_.Tensor", "zero_", "masked_fill_.Scalar", "masked_fill_.Tensor", "index_fill_.int_Scalar",
    "index_fill_.int_Tensor", "index_put_", "tril_", "triu_", "threshold_",
}  # fmt: skip
PARTS = 4


class Form(NamedTuple):
    """An in-place or out= form of a recorded call."""

    call: Call
    op: Overload
    outs: list[str]  # names of the out arguments; none: in place
    written: list[torch.Tensor]

    def says(self, device: str, k: int, target: torch.Tensor, args: dict[int, torch.Tensor]) -> str:
        """Which refusal comes when written tensor k is `target` and some arguments are others."""
        a, kwargs = list(copy(self.call.args, device)), copy(self.call.kwargs, device)
        for i, x in args.items():
            a[i] = x
        if self.outs:
            outs = [torch.empty_like(t, device=device) for t in self.written]
            outs[k] = target
            kwargs |= dict(zip(self.outs, outs, strict=True))
        else:
            a[0] = target
        try:
            self.op(*a, **kwargs)
        except RuntimeError as error:
            if isinstance(error, NotImplementedError) and device == "tpu":
                return "no kernel"
            return next((k for k, words in WORDS.items() if words in str(error)), "")
        return ""


def all_forms():
    for _, calls in sorted(corpus().items()):
        view = any(r.alias_info for r in calls[0].op._schema.returns)
        for call in [] if view or written(calls[0].op) else calls:
            try:
                results = tensors(call.op(*copy(call.args), **copy(call.kwargs)))
            except Exception:
                continue  # a sample that asks for an error
            if any(t.layout != torch.strided for t in results):
                continue
            inplace, out = forms(call.op)
            for f in inplace:
                if isinstance(call.args[0], torch.Tensor):
                    yield Form(call, f, [], [call.args[0]])
            for f in out:
                names = [a.name for a in f._schema.arguments if a.is_out]
                if len(names) == len(results):
                    yield Form(call, f, names, results)


def with_an_argument():
    """Once for each form, written tensor and argument of its shape."""
    seen = set()
    for f in all_forms():
        for k, t in enumerate(f.written):
            for i, x in enumerate(f.call.args):
                like = (
                    isinstance(x, torch.Tensor) and x is not t and x.shape == t.shape and x.dtype == t.dtype
                )
                if like and x.numel() > 1 and (f.op, k, i) not in seen:
                    seen.add((f.op, k, i))
                    yield f, k, i, x


def shifted(x: torch.Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of x's shape, one element apart; the second has its values."""
    memory = torch.zeros(x.numel() + 1, dtype=x.dtype, device=device)
    a, b = memory[:-1].view(x.shape), memory[1:].view(x.shape)
    return a, b.copy_(x.to(device))


def aliased(x: torch.Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    a = x.contiguous().to(device, copy=True)
    return a.view(x.shape), a


@pytest.mark.parametrize("part", range(PARTS))
def test_with_an_argument(part):
    different = []
    for f, k, i, x in itertools.islice(with_an_argument(), part, None, PARTS):
        for pair in (shifted, aliased):
            said = {}
            for device in ("tpu", "cpu"):
                target, arg = pair(x, device)
                said[device] = f.says(device, k, target, {i: arg})
            fine = said["tpu"] == "no kernel" or ((name(f.op), k, i) in ALLOWED and not said["tpu"])
            if not fine and said["tpu"] != said["cpu"]:
                different.append((name(f.op), pair.__name__, k, i, said))
    assert not different


def test_with_itself():
    """The CPU is not asked: in some out= forms it looks at nothing and writes beyond the memory."""
    different, seen = [], set()
    for f in all_forms():
        for k, t in enumerate(f.written):
            d = next((d for d, n in enumerate(t.shape) if n > 1), None)
            if d is None or t.numel() == 0 or (f.op, k) in seen or name(f.op) in SHARED:
                continue
            seen.add((f.op, k))
            target = t.to("tpu").narrow(d, 0, 1).clone().expand(t.shape)
            said = f.says("tpu", k, target, {})
            if said not in ("itself", "no kernel"):
                different.append((name(f.op), k, said))
    assert len(seen) > 400
    assert not different


def expanded(f):
    """f on something expanded; what lies in memory."""

    def run(x, *args):
        wide = x.expand(4, *x.shape[1:])
        f(wide, *args)
        return x

    return run


def test_shared_places():
    """The last element that changes a place decides, as in the CPU's loops."""
    x, nan = torch.arange(4.0).reshape(1, 4) - 1, torch.tensor([[0.0, torch.nan, 2.0, torch.nan]])
    mask = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]).bool()
    for t in (x, nan, x.int(), x > 0):
        both(expanded(lambda w: w.fill_(3)), t)
        both(expanded(lambda w: w.zero_()), t)
        both(expanded(lambda w, m: w.masked_fill_(m, 1)), t, mask)
        both(expanded(lambda w, i: w.index_fill_(1, i, 1)), t, torch.tensor([1, 3]))
        both(expanded(lambda w, i: w.index_fill_(0, i, 1)), t, torch.tensor([1]))
        both(expanded(lambda w: w.triu_(-1)), t)
        both(expanded(lambda w: w.tril_(1)), t)
    both(expanded(lambda w: torch.threshold_(w, 0.5, 7)), x)
    where = torch.tensor([0, 2, 3]), torch.tensor([1, 3, 0])
    both(expanded(lambda w, i, j, v: w.index_put_((i, j), v)), x, *where, torch.tensor([5.0, 6.0, 7.0]))
    both(expanded(lambda w, m: w.__setitem__(m, 9.0)), x, mask)


def test_copy():
    x = torch.arange(4.0)
    raises_alike(lambda t: t[1:].copy_(t[:-1]), x, words=WORDS["argument"])
    raises_alike(lambda t: t.copy_(t[:1]), x, words=WORDS["argument"])
    raises_alike(lambda t: t[:1].expand(4).copy_(t.clone()), x, words=WORDS["itself"])
    raises_alike(lambda t: t[:1].expand(4).copy_(torch.ones(4)), x, words=WORDS["itself"])
    both(lambda t: t[:1].expand(0, 4, 1).copy_(t[:1]), x)
    both(lambda t: (t.copy_(t), t[1:3].copy_(t[1:3]), t[::2].copy_(t[1::2]), t[:2].copy_(t[2:])), x)
    both(lambda t: t.unfold(0, 2, 1).copy_(torch.ones(3, 2).to(t.device)), x)


def test_lists():
    x = torch.arange(4.0)
    raises_alike(lambda t: torch._foreach_add_([t[:1].expand(3)], 1.0), x, words=WORDS["itself"])
    raises_alike(lambda t: torch._foreach_mul_([t.clone(), t[1:]], [t, t[:-1]]), x, words=WORDS["argument"])
    raises_alike(lambda t: torch.cat([t[:1], t[3:]], out=t[:2]), x, words=WORDS["argument"])
    both(lambda t: torch._foreach_mul_([t[:2], t[2:]], [t[:2], t[2:]]), x)
