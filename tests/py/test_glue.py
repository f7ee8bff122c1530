"""The device as PyTorch's own machinery sees it: devices, streams, events, generators, memory, structural
ops, copies, out= and in-place forms, the CPU fallback, autocast, saving."""

import copy
import io
import pickle
import warnings

import pytest
import torch

dev = "tpu:0"
two = pytest.mark.skipif(torch.accelerator.device_count() < 2, reason="needs two devices")


def up(*shape, dtype=torch.float32, device=dev):
    n = 1
    for s in shape:
        n *= s
    return torch.arange(n).reshape(shape).to(dtype).to(device)


def same(x, y):
    torch.testing.assert_close(x.cpu(), y, rtol=0, atol=0)


# --- devices, streams, events ---


def test_accelerator():
    assert torch.accelerator.current_accelerator().type == "tpu"
    assert torch.accelerator.is_available()
    assert torch.empty(2, device="tpu").device == torch.device(
        "tpu", torch.accelerator.current_device_index()
    )
    with pytest.raises(RuntimeError):
        torch.accelerator.set_device_index(100)
    torch.accelerator.synchronize()


@two
def test_second_device():
    with torch.accelerator.device_index(1):
        assert torch.empty(2, device="tpu").device.index == 1
    x = up(2, 3)
    same(x.to("tpu:1"), x.cpu())
    same((x.to("tpu:1") + 1).to("tpu:0"), x.cpu() + 1)
    w = torch.ones(3, device="tpu:1", requires_grad=True)
    (w * w).sum().backward()
    assert w.grad.device.index == 1
    same(w.grad, torch.full((3,), 2.0))


def test_streams_and_events():
    s, a, b = (
        torch.Stream(device=dev),
        torch.Event(device=dev, enable_timing=True),
        torch.Event(device=dev, enable_timing=True),
    )
    with s:
        assert torch.accelerator.current_stream() == s
        a.record()
        y = up(8) * 2
    b.record(s)
    b.wait(s)
    s.wait_event(a)
    b.synchronize()
    s.synchronize()
    assert a.query() and s.query() and a.elapsed_time(b) >= 0
    same(y, torch.arange(8.0) * 2)


# --- memory ---


def test_memory_statistics():
    torch.accelerator.synchronize()
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1 << 20, device=dev)
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated() >= before + (4 << 20)
    assert torch.accelerator.max_memory_allocated() >= before + (4 << 20)
    del x
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated() < before + (4 << 20)
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()


def test_pinned_memory():
    x = torch.arange(4.0).pin_memory()
    assert x.is_pinned() and x[1:].is_pinned() and not torch.arange(4.0).is_pinned()
    same(x.to(dev, non_blocking=True), torch.arange(4.0))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.arange(4.0)), batch_size=2, pin_memory=True
    )
    assert next(iter(loader))[0].is_pinned()


# --- generators ---


def test_generator():
    g = torch.Generator(device=dev).manual_seed(5)
    state = g.get_state()
    a = torch.rand(16, device=dev, generator=g)
    offset = g.get_offset()
    assert offset > 0 and g.initial_seed() == 5 and state.numel() == 16
    b = torch.rand(16, device=dev, generator=g)
    assert not torch.equal(a, b)
    g.set_state(state)
    assert torch.equal(a, torch.rand(16, device=dev, generator=g))
    other = g.clone_state()
    assert torch.equal(b, torch.rand(16, device=dev, generator=other)) and g.get_offset() == offset
    shared = g.graphsafe_get_state()
    torch.rand(16, device=dev, generator=shared)
    assert g.get_offset() > offset
    with pytest.raises(RuntimeError, match="wrong size"):
        g.set_state(state[:8])
    with pytest.raises(RuntimeError, match="'tpu' device type for generator"):
        torch.empty(2, device=dev).uniform_(generator=torch.Generator())


def test_default_generator():
    torch.manual_seed(1)
    a = torch.rand(4, device=dev)
    torch.manual_seed(1)
    assert torch.equal(a, torch.rand(4, device=dev))


# --- structure ---


def test_views():
    x, c = up(2, 3, 4), torch.arange(24.0).reshape(2, 3, 4)
    for f in (
        lambda t: t.view(6, 4),
        lambda t: t.permute(2, 0, 1),
        lambda t: t[1, :, ::2],
        lambda t: t[:, -1],
        lambda t: t.unfold(2, 2, 1),
        lambda t: t[:, :1].expand(2, 3, 4),
        lambda t: t.as_strided((3, 2), (4, 1), 2),
        lambda t: t.transpose(0, 2).reshape(8, 3),
        lambda t: t.view(torch.int32),
        lambda t: torch.view_as_complex(t.view(2, 3, 2, 2)),
        lambda t: torch.view_as_real(torch.view_as_complex(t.view(2, 3, 2, 2)).conj().resolve_conj()),
        lambda t: t.contiguous(memory_format=torch.contiguous_format).movedim(0, 1),
        lambda t: t.squeeze().unsqueeze(1),
    ):
        y, want = f(x), f(c)
        assert y.shape == want.shape and y.stride() == want.stride()
        same(y, want)
    assert x[1].data_ptr() - x.data_ptr() == 48


def test_writes_through_views():
    x, c = up(4, 5), torch.arange(20.0).reshape(4, 5)
    for t in (x, c):
        t[1] = 7
        t[:, 2].add_(100)
        t.t()[0].mul_(2)
        t[::2, 1:3] = t[1::2, 2:4]
        t.view(-1)[3:6].zero_()
    same(x, c)


def test_memory_formats():
    x = torch.empty(2, 3, 4, 5, device=dev, memory_format=torch.channels_last)
    assert x.stride() == (60, 1, 15, 3)
    assert torch.empty_like(x).stride() == x.stride() and x.clone().stride() == x.stride()
    assert up(3, 4).t().clone().stride() == (1, 4)


def test_resize_and_set():
    x = up(6)
    x.resize_(2, 2)
    same(x, torch.arange(4.0).reshape(2, 2))
    x.resize_(8)
    same(x[:6], torch.arange(6.0))
    y = torch.empty(0, device=dev).set_(x.untyped_storage(), 1, (2,), (2,))
    same(y, torch.tensor([1.0, 3.0]))
    assert torch.empty(0, device=dev).set_(x).is_set_to(x)
    assert torch.empty(2, device=dev).set_().shape == (0,)
    s = x.untyped_storage()
    s.resize_(0)
    assert s.nbytes() == 0
    s.resize_(64)
    assert s.nbytes() == 64
    assert torch.UntypedStorage(8, device=dev).device.type == "tpu"


def test_copies():
    x = up(2, 3)
    same(torch.zeros(3, 2).t().copy_(x), x.cpu())
    same(torch.zeros(2, 3, device=dev).copy_(torch.tensor([1.0, 2, 3])), torch.tensor([[1.0, 2, 3]] * 2))
    same(torch.zeros(2, 3).copy_(x[0]), torch.tensor([[0.0, 1, 2]] * 2))
    same(torch.ones(1, 1).expand(2, 3).to(dev), torch.ones(2, 3))
    same(torch.arange(6).reshape(2, 3).t().to(dev), torch.arange(6).reshape(2, 3).t())
    assert torch.empty(0, 3).to(dev).cpu().shape == (0, 3)
    z = torch.complex(torch.ones(2), torch.ones(2))
    same(z.conj().to(dev), z.conj().resolve_conj())
    assert torch.equal(z.to(dev).conj().cpu(), z.conj())
    same(x.to(torch.int64), x.cpu().long())
    same(
        torch.zeros(2, 3, dtype=torch.bfloat16, device=dev).copy_(torch.arange(6.0).reshape(2, 3)),
        x.cpu().bfloat16(),
    )
    with pytest.raises(NotImplementedError):
        torch.empty(2, device="meta").to(dev)


@pytest.mark.parametrize("value", [True, 3, -1.5, 1 + 2j])
def test_item(value):
    assert torch.tensor(value).to(dev).item() == value


def test_item_dtypes():
    for dtype in (
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.float16,
        torch.bfloat16,
        torch.float64,
    ):
        assert torch.tensor(3, dtype=dtype).to(dev).item() == 3
    with pytest.raises(RuntimeError):
        up(2).item()


# --- forms of one op ---


def test_forms():
    x, c = up(2, 3), torch.arange(6.0).reshape(2, 3)
    same(torch.add(x, x, alpha=3), c + 3 * c)
    same(x + 2, c + 2)
    same(2 - x, 2 - c)
    same(x * torch.tensor(2.5), c * 2.5)
    out = torch.empty(0, device=dev)
    assert torch.add(x, x, out=out) is out
    same(out, c + c)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(x, x, out=torch.empty(5, device=dev))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.empty(2, 3, dtype=torch.int64, device=dev))
    y = x.clone()
    assert y.add_(x) is y
    same(y, c + c)
    values, indices = torch.empty(0, device=dev), torch.empty(0, dtype=torch.int64, device=dev)
    torch.max(x, 1, out=(values, indices))
    same(values, c.max(1)[0])
    same(indices, c.max(1)[1])
    lists = torch._foreach_add([x, x], [x, x])
    same(lists[1], c + c)
    a, b = x.clone(), x.clone()
    torch._foreach_mul_([a, b], 2.0)
    same(b, c * 2)


def test_factories():
    same(torch.arange(3, device=dev), torch.arange(3))
    same(torch.arange(1, 2, 0.25, device=dev), torch.arange(1, 2, 0.25))
    same(torch.full((2,), 3, device=dev), torch.full((2,), 3))
    same(torch.zeros(2, dtype=torch.bool, device=dev), torch.zeros(2, dtype=torch.bool))
    same(torch.ones_like(up(2)), torch.ones(2))
    assert torch.ones_like(up(2), device="cpu").device.type == "cpu"
    same(torch.eye(3, device=dev), torch.eye(3))
    same(torch.linspace(0, 1, 5, device=dev), torch.linspace(0, 1, 5))
    assert sorted(torch.randperm(5, device=dev).tolist()) == list(range(5))


def test_devices_must_agree():
    x = up(2, 3)
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device.*tpu:0 and cpu.*argument other"
    ):
        x + torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.tensor(1.0).add_(x[0, 0])
    same(x[torch.tensor([1, 0])], x.cpu()[[1, 0]])
    same(
        x.index_put((torch.tensor([0]),), torch.tensor(5.0)),
        x.cpu().index_put((torch.tensor([0]),), torch.tensor(5.0)),
    )


def test_overlap():
    e = up(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        e.add_(1)
    e.fill_(2)
    same(e, torch.full((2, 3), 2.0))


# --- autograd, autocast, serialisation ---


def test_autograd():
    w, c = up(2, 3).requires_grad_(), torch.arange(6.0).reshape(2, 3).requires_grad_()
    for t in (w, c):
        (torch.relu(t - 2).sum(1) * 3).mean().backward()
    same(w.grad, c.grad)
    assert torch.autograd.gradcheck(lambda t: t * t + t[0], (up(2, 2, dtype=torch.float64).requires_grad_(),))


def test_forward_mode():
    import torch.autograd.forward_ad as fw

    x = up(3)
    with fw.dual_level():
        d = fw.make_dual(x, torch.ones_like(x))
        same(fw.unpack_dual(d * d + x).tangent, 2 * torch.arange(3.0))


def test_autocast():
    x, w = torch.randn(4, 4, device=dev), torch.nn.Linear(4, 4).to(dev)
    with torch.autocast("tpu"):
        assert (x @ x).dtype == torch.bfloat16
        assert w(x).dtype == torch.bfloat16
        assert torch.exp(x.bfloat16()).dtype == torch.float32
        assert x.bfloat16().sum().dtype == torch.float32
        assert torch.addcmul(x, x.bfloat16(), x).dtype == torch.float32
        assert x.norm().dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid())
    with torch.autocast("tpu", dtype=torch.float16):
        assert torch.mm(x, x).dtype == torch.float16
    w(x).sum().backward()
    assert w.weight.grad.dtype == torch.float32


def test_saving():
    x = up(2, 3)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    back = torch.load(file)["x"]
    assert back.device == x.device
    same(back, x.cpu())
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
    file = io.BytesIO()
    torch.save(x, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    same(torch.load(file), x.cpu())
    same(pickle.loads(pickle.dumps(x)), x.cpu())
    same(copy.deepcopy(x), x.cpu())


def test_checkpoint_repeats_dropout():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(64, device=dev, requires_grad=True)
    y = checkpoint(lambda t: torch.dropout(t * t, 0.5, True), x, use_reentrant=False)
    y.sum().backward()
    same((x.grad != 0), (y != 0).cpu())


def test_attention():
    q = torch.randn(2, 3, 5, 8)
    mask = torch.rand(5, 5) > 0.3
    for kw in ({}, {"is_causal": True}, {"attn_mask": mask}):
        on = {k: v.to(dev) if isinstance(v, torch.Tensor) else v for k, v in kw.items()}
        a, b = q.clone().requires_grad_(), q.to(dev).requires_grad_()
        y, z = (torch.nn.functional.scaled_dot_product_attention(t, t, t, **k) for t, k in ((a, kw), (b, on)))
        torch.testing.assert_close(z.cpu(), y)
        y.square().sum().backward()
        z.square().sum().backward()
        # the same tensor as query, key and value: three gradients are summed, in another order than the CPU's
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-4)


# --- the CPU fallback ---


def test_fallback():
    x = torch.randn(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            y = torch.linalg.eig(x.to(dev)).eigenvalues
        except NotImplementedError as e:
            assert "is not implemented for TPU" in str(e)  # TORCH_TPU_FALLBACK=error
        else:
            assert y.device.type == "tpu"
