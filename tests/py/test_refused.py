"""What the CPU refuses is refused here with an error of the same type, and what it takes works: dtypes of indices,
sizes that do not fit, dtypes without a kernel, numbers out of range."""

from __future__ import annotations

import pytest
import torch
from helpers import move
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map

ODD = (torch.float32, torch.float64, torch.bool, torch.uint8, torch.int16, torch.int32, torch.complex64)
MANY = (torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16, torch.complex64)
aten = torch.ops.aten


def outcome(fn, args, device):
    args = move(args, device)
    try:
        result = fn(*args)
        if device != "cpu":
            torch.tpu.synchronize()
    except Exception as error:
        return error, None
    leaves = [x for x in tree_leaves((result, args)) if isinstance(x, torch.Tensor)]
    return None, tree_map(lambda t: t.detach().cpu(), leaves)


def alike(fn, *args, values: bool = True):
    """The error of the tpu, or None; both must be errors of one type, or both results."""
    (cpu, expected), (tpu, got) = outcome(fn, args, "cpu"), outcome(fn, args, "tpu")
    assert type(cpu) is type(tpu), f"cpu: {cpu!r}; tpu: {tpu!r}"
    if cpu is None and values:
        assert_close(got, expected, equal_nan=True)
    return tpu


X = torch.arange(20.0).reshape(4, 5)
I32 = torch.int32

BY_PLACE = {  # an index of the rank of x
    "gather": lambda x, i: torch.gather(x, 0, i),
    "gather backward": lambda x, i: aten.gather_backward(x, x, 0, i, False),
    "scatter": lambda x, i: torch.scatter(x, 0, i, x),
    "scatter value": lambda x, i: torch.scatter(x, 0, i, 1.0),
    "scatter_": lambda x, i: x.scatter_(0, i, 1.0),
    "scatter reduce": lambda x, i: x.scatter(0, i, x.clone(), reduce="add"),
    "scatter value reduce": lambda x, i: x.scatter_(0, i, 2.0, reduce="multiply"),
    "scatter_add": lambda x, i: torch.scatter_add(x, 0, i, x),
    "scatter_reduce": lambda x, i: torch.scatter_reduce(x, 0, i, x, "amax"),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 0),
    "max_unpool1d": lambda x, i: F.max_unpool1d(x[None], i[None], 1),
}
BY_SLICE = {  # a vector of indices
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "index_add": lambda x, i: torch.index_add(x, 0, i, x[:3]),
    "index_copy": lambda x, i: torch.index_copy(x, 0, i, x[:3]),
    "index_reduce": lambda x, i: torch.index_reduce(x, 0, i, x[:3], "prod"),
    "index_fill": lambda x, i: torch.index_fill(x, 0, i, 2.0),
    "take": torch.take,
    "put": lambda x, i: x.put(i, x[0, :3]),
    "index": lambda x, i: x[i],
    "index of dim 1": lambda x, i: x[:, i],
    "index_put": lambda x, i: x.index_put((i,), x[:3]),
    "index_put accumulate": lambda x, i: x.index_put((i,), x[:3], accumulate=True),
    "_unsafe_index": lambda x, i: aten._unsafe_index(x, [i]),
    "setitem": lambda x, i: x.__setitem__(i, 2.0),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding backward": lambda x, i: aten.embedding_dense_backward(x[:3], i, 4, -1, False),
    "embedding max_norm": lambda x, i: F.embedding(i, x, max_norm=0.1),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, i[:1].long()),
    "embedding_bag offsets": lambda x, i: F.embedding_bag(i.long(), x, i[:1]),
    "one_hot": lambda x, i: F.one_hot(i),
    "one_hot of 3": lambda x, i: F.one_hot(i, 3),
    "bincount": lambda x, i: torch.bincount(i),
    "bincount weights": lambda x, i: torch.bincount(i, x[0, :3]),
    "nll_loss": lambda x, i: F.nll_loss(x[:3], i),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:3], i),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(x[0, :3], i),
    "repeat_interleave": lambda x, i: torch.repeat_interleave(i),
    "masked_fill": lambda x, i: x[0, :3].masked_fill(i, 1.0),
    "masked_select": lambda x, i: x[0, :3].masked_select(i),
    "masked_scatter": lambda x, i: x[0, :3].masked_scatter(i, x),
    "where": lambda x, i: torch.where(i, x[0, :3], x[0, :3]),
    "searchsorted": lambda x, i: torch.searchsorted(x[0, :3], x, sorter=i),
}


@pytest.mark.parametrize("name", BY_PLACE)
def test_dtypes_of_places(name):
    for dtype in ODD:
        alike(BY_PLACE[name], X, torch.zeros(4, 5).to(dtype))


@pytest.mark.parametrize("name", BY_SLICE)
def test_dtypes_of_indices(name):
    for dtype in ODD:
        if (name, dtype) != ("multilabel_margin_loss", torch.complex64):  # the CPU's error is of its min()
            alike(BY_SLICE[name], X, torch.zeros(3).to(dtype))
        if not name.startswith("multi"):  # the CPU's result of nothing is memory that nobody wrote
            alike(BY_SLICE[name], X[:, :0] if name in ("take",) else X, torch.zeros(0).to(dtype))


def test_index_errors_name_the_op():
    x, i = X.to("tpu"), torch.zeros(3).to("tpu")
    for words, fn in {
        "gather(): Expected dtype int32/int64 for index": lambda: torch.gather(x, 0, x),
        "scatter(): Expected dtype int32/int64 for index": lambda: torch.scatter(x, 0, x, x),
        "take(): Expected a long tensor for index, but got Float": lambda: torch.take(x, i),
        "'indices' to have one of the following scalar types: Long, Int; but got Float": lambda: F.embedding(
            i, x
        ),
        "shape \\[1, 2, 5\\] cannot be broadcast to indexing result of shape \\[2, 5\\]": lambda: x.index_put(
            (i[:2].long(),), x[None, :2]
        ),
        "Class values must be smaller than num_classes. \\(in aten::one_hot\\)": lambda: F.one_hot(
            i.long() + 3, 2
        ).cpu(),
        "one_hot: Class values must be non-negative.": lambda: F.one_hot(i.long() - 1),
        "quantile\\(\\) q values must be in the range \\[0, 1\\]": lambda: torch.quantile(x, i[:2] + 2).cpu(),
        "bincount only supports 1-d non-negative": lambda: torch.bincount(i.long() - 1),
        "bincount: weights should be 1-d": lambda: torch.bincount(i.long(), x),
        "repeat_interleave: repeats can not be negative$": lambda: torch.repeat_interleave(i.long() - 1),
        "n must be non-negative, got -1": lambda: torch.randperm(-1, device="tpu"),
    }.items():
        with pytest.raises(RuntimeError, match=words.replace("(): ", "\\(\\): ")):
            fn()


def test_quantile_has_its_gradient():
    for q in (torch.tensor([0.2, 0.7]), torch.tensor(0.5)):
        grads = []
        for device in ("cpu", "tpu"):
            x, at = (t.clone().to(device).requires_grad_() for t in (X, q))
            torch.quantile(x, at, dim=0).sum().backward()
            grads.append((x.grad.cpu(), at.grad.cpu()))
        assert_close(grads[1], grads[0])
    with torch.inference_mode():
        alike(lambda x, q: torch.quantile(x, q), X, torch.tensor([0.1]))


L = torch.tensor
SLICES = [  # dim, index, source
    (0, L([0, 1]), (3, 5)), (0, L([0, 1]), (2, 4)), (0, L([0, 1]), (2,)), (0, L([[0, 1]]), (2, 5)),
    (0, L(0), (1, 5)), (0, L(0), (5,)), (0, L(0), (2, 5)), (1, L([0, 1]), (4, 2)), (1, L([0, 1]), (3, 2)),
    (0, L([0, 7]), (2, 5)), (0, L([0, -1]), (2, 5)), (2, L([0]), (1, 5)), (0, L([0]), ()),
    (0, L([0, 1]), (1, 5)), (0, L([0, 1]), (2, 5, 1)),
]  # fmt: skip
SCALARS = [(L([0]), (1,)), (L(0), ()), (L(0), (1,)), (L([0, 0]), (2,)), (L([1]), (1,)), (L([0]), (1, 1))]


@pytest.mark.parametrize(
    "fn",
    [torch.index_copy, torch.index_add, lambda *a: torch.index_reduce(*a, "mean")],
    ids=["index_copy", "index_add", "index_reduce"],
)
def test_sizes_of_slices(fn):
    for dim, index, sizes in SLICES:
        alike(lambda x, i, s, d=dim: fn(x, d, i, s), X, index, torch.ones(sizes))
    for index, sizes in SCALARS:
        alike(lambda x, i, s: fn(x, 0, i, s), torch.ones(()), index, torch.ones(sizes))
    alike(lambda x, i, s: fn(x, 0, i, s), X, L([0, 1]), torch.ones(2, 5).double())


def test_sizes_of_places():
    for dim, index, source in [
        (0, torch.zeros(4, 6).long(), X), (0, torch.zeros(4).long(), X), (0, torch.zeros(9, 5).long(), X),
        (0, torch.zeros(2, 2).long(), torch.ones(1, 5)), (0, torch.zeros(2, 2).long(), torch.ones(2)),
        (0, torch.zeros(2, 2).long(), X.double()), (0, torch.full((4, 5), 4), X), (0, torch.full((4, 5), -1), X),
        (5, torch.zeros(4, 5).long(), X), (0, L(0), torch.ones(())),
    ]:  # fmt: skip
        for fn in (
            lambda x, i, s, d: torch.gather(x, d, i),
            lambda x, i, s, d: torch.scatter(x, d, i, s),
            lambda x, i, s, d: torch.scatter(x, d, i, 1.0),
            lambda x, i, s, d: torch.scatter_add(x, d, i, s),
        ):
            alike(lambda x, i, s, d=dim, f=fn: f(x, i, s, d), X, index, source)
    places = torch.zeros(4, 5).long()
    for name in ("mean", "sum", "add", "frob"):
        alike(lambda x, i, n=name: torch.scatter(x, 0, i, x, reduce=n), X, places)
        alike(lambda x, i, n=name: torch.scatter_reduce(x, 0, i, x, n), X, places)
        alike(lambda x, i, n=name: torch.index_reduce(x, 0, i, x, n), X, torch.arange(4))


def test_sizes_of_index_put():
    two = L([0, 1])
    for indices, values in [
        ((two,), torch.ones(3, 5)), ((two,), torch.ones(2, 4)), ((two, L([0, 1, 2])), torch.ones(2)),
        ((L([0, 9]),), torch.ones(2, 5)), ((two[:1],) * 3, torch.ones(1)), ((two,), torch.ones(2, 5).double()),
        ((L([True, False]),), torch.ones(1, 5)), ((L([True, False, True, False]),), torch.ones(3, 5)),
        ((two,), torch.ones(2, 2, 5)), ((two,), torch.ones(1, 2, 5)), ((two[:0],), torch.ones(2, 5)),
        ((two.to(I32),), torch.ones(2, 5)), ((two.to(I32), two), torch.ones(2)),
    ]:  # fmt: skip
        for accumulate in (False, True):
            alike(lambda x, v, *i, a=accumulate: x.index_put(i, v, accumulate=a), X, values, *indices)
        alike(lambda x, v, *i: x.__setitem__(i, v), X, values, *indices)
    for index, n in ((two, 3), (L([0, 99]), 2), (L([-21]), 1)):
        alike(lambda x, i, s: x.put(i, s), X, index, torch.ones(n))


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("baddbmm", [((2, 3), (2, 3), (3, 3)), ((2, 3, 3), (2, 3), (3, 3)), ((2, 3, 3), (2, 3, 4), (4, 3)),
                     ((2, 3, 3), (2, 3, 4), (2, 5, 3)), ((3, 3, 3), (2, 3, 4), (2, 4, 3)),
                     ((2, 2, 3), (2, 3, 4), (2, 4, 3))]),
        ("addbmm", [((3, 3), (3, 4), (4, 3)), ((3, 3), (2, 3, 4), (2, 3, 3)), ((3, 3), (3, 3, 4), (2, 4, 3))]),
        ("addmm", [((3, 3), (3,), (3, 3)), ((3, 3), (3, 4), (3, 3)), ((1, 3, 3), (3, 4), (4, 3))]),
        ("addmv", [((3,), (3,), (3,)), ((2,), (3, 4), (4,))]),
        ("addr", [((3, 3), (3, 1), (3,)), ((2, 2), (3,), (3,))]),
        ("bmm", [((3, 3), (3, 3)), ((2, 3, 4), (4, 3)), ((2, 3, 4), (3, 4, 3))]),
        ("mm", [((3,), (3, 3)), ((3, 4), (3, 3))]),
        ("mv", [((3,), (3,)), ((3, 4), (3,))]),
        ("dot", [((3,), (4,)), ((3, 1), (3,))]),
        ("cdist", [((3,), (3,)), ((3, 4), (3, 5)), ((3, 4), (3, 4))]),
    ],
)  # fmt: skip
def test_products(name, shapes):
    for sizes in shapes:
        operands = [torch.ones(s) for s in sizes]
        alike(getattr(torch, name), *operands)
        for k in range(len(operands)):
            for dtype in (torch.float64, torch.int64, torch.complex64):
                alike(getattr(torch, name), *(x.to(dtype) if i == k else x for i, x in enumerate(operands)))


REDUCTIONS = """argmax argmin amax amin max min median nanmedian mode sort argsort all any sum prod mean var logsumexp
    count_nonzero nansum aminmax""".split()
POINTWISE = {
    "topk": lambda x: torch.topk(x, 1),
    "kthvalue": lambda x: torch.kthvalue(x, 2),
    "msort": torch.msort,
    "cummax": lambda x: torch.cummax(x, 0),
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "heaviside": lambda x: torch.heaviside(x, x),
    "isin": lambda x: torch.isin(x, x),
    "histc": lambda x: torch.histc(x, 4),
    "trace": torch.trace,
    "bincount": lambda x: torch.bincount(x.flatten()),
    "quantile": lambda x: torch.quantile(x, 0.5),
    "hardtanh": F.hardtanh,
    "mvlgamma": lambda x: torch.mvlgamma(x, 1),
    "softmax": lambda x: torch.softmax(x, 0),
    "diff": torch.diff,
    "round": torch.round,
    "sign": torch.sign,
}
LINALG = """linalg.cholesky linalg.cholesky_ex cholesky_inverse linalg.det linalg.slogdet linalg.inv linalg.lu
    linalg.lu_factor linalg.qr linalg.svdvals linalg.eigvalsh geqrf linalg.matrix_exp linalg.matrix_rank
    linalg.pinv""".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_dtypes_of_reductions(name):
    fn = getattr(torch, name)
    data = L([[3.0, 1, 0, 2], [1, 0, 2, 1], [0, 1, 1, 2], [1, 1, 3, 0]])
    for dtype in MANY:
        x = data.to(dtype)
        for f in (fn, lambda x: fn(x, dim=0)):
            alike(f, x)
            if not (fn in (torch.median, torch.nanmedian) and not dtype.is_floating_point):
                alike(f, x[:0])  # the CPU's median of no integers is a NaN as a number


@pytest.mark.parametrize("name", POINTWISE)
def test_dtypes_of_ops(name):
    for dtype in MANY:
        alike(POINTWISE[name], L([[3.0, 1], [0, 2]]).to(dtype))


@pytest.mark.parametrize("name", LINALG)
def test_dtypes_of_linear_algebra(name):
    fn = torch
    for part in name.split("."):
        fn = getattr(fn, part)
    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.float64):
        low = name == "linalg.matrix_exp" and dtype == torch.bfloat16  # the CPU's is 1e30, not e
        alike(fn, torch.eye(3).to(dtype), values=not low)
    for sizes in ((2, 3), (3,), ()):
        alike(fn, torch.ones(sizes), values=False)
    packed, pivots = torch.eye(3), torch.arange(1, 4, dtype=I32)
    for dtype in (torch.bfloat16, torch.int64, torch.float32):
        alike(torch.lu_unpack, packed.to(dtype), pivots)
    alike(lambda a, t: torch.ormqr(a, t, a), torch.ones(2, 3), torch.ones(3))


def test_numbers_out_of_range():
    for args in [
        (2, 5, 1.0),
        (-1, 0, 1.0),
        (2, 0, -1.0),
        (0, 0, 1.0),
        (1j, 0, 1.0),
        (2, 0, 1j),
        (1.5, 0, 0.5),
    ]:
        alike(lambda x, a=args: torch.renorm(x, *a), X)
    alike(lambda x: torch.renorm(x, 2, 0, 1.0), torch.ones(3))
    for fn in (
        lambda i: F.one_hot(i, 2), lambda i: F.one_hot(i, 0), lambda i: F.one_hot(i, -5), F.one_hot,
        lambda i: F.one_hot(i, 7), lambda i: torch.bincount(i, minlength=-1), torch.bincount,
    ):  # fmt: skip
        for index in (L([3, 1]), L([-1, 1]), L([]).long(), L([[1]]), L([0.5])):
            alike(fn, index)
    for q in (1.5, -0.5, L([0.5]).double(), L([[0.5]]), L([0.5, 2.0]), L([float("nan")]), L(0.3)):
        if isinstance(q, float):
            alike(lambda x, q=q: torch.quantile(x, q), X)
        else:
            alike(torch.quantile, X, q)
            alike(torch.nanquantile, X, q)
