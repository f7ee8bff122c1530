"""Memory: what is counted, what new memory holds, what is left when a storage loses its bytes."""

import pytest
import torch
from helpers import ALL, move


def test_pinned_memory_is_counted():
    torch.tpu.reset_accumulated_host_memory_stats()
    before = torch.tpu.host_memory_stats()
    x = torch.zeros(1000).pin_memory()
    during = torch.tpu.host_memory_stats()
    assert during["allocated_bytes.current"] - before["allocated_bytes.current"] == 4000
    assert during["active_requests.current"] - before["active_requests.current"] == 1
    assert during["num_host_alloc"] == 1
    del x
    after = torch.tpu.host_memory_stats()
    assert after["active_bytes.current"] == before["active_bytes.current"]
    assert after["allocated_bytes.peak"] >= during["allocated_bytes.current"]
    assert after["allocated_bytes.freed"] == 4000 and after["num_host_free"] == 1
    torch.tpu.reset_peak_host_memory_stats()
    stats = torch.tpu.host_memory_stats_as_nested_dict()["allocated_bytes"]
    assert stats["peak"] == stats["current"]
    assert set(before) < {f"{a}.{b}" for a in ("allocations", "allocated_bytes", "active_requests", "active_bytes")
                          for b in ("current", "peak", "allocated", "freed")} | {"num_host_alloc", "num_host_free", ""}  # fmt: skip


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [*ALL, torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_new_memory_when_deterministic(deterministic, dtype):
    for make in (
        lambda d: torch.empty(3, 2, dtype=dtype, device=d),
        lambda d: torch.empty_strided((2, 3), (1, 2), dtype=dtype, device=d),
        lambda d: torch.ones(2, device=d).to(dtype).resize_(5),
        lambda d: torch.ones(4, device=d).to(dtype).resize_(2).resize_(6),
    ):
        expected, got = make("cpu"), make("tpu")
        torch.testing.assert_close(move(got, "cpu"), expected, equal_nan=True)
        assert got.stride() == expected.stride()
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        x = torch.empty(2, dtype=dtype, device="tpu")
        assert x.float().eq(0).all()  # not written: a new value is zeros here
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
