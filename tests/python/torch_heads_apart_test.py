# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of shared key/value heads by copies of keys and values, on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from tesela.torch import _heads_apart  # noqa: E402
from tesela.torch._request import Request  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_gradient_tools import leaves  # noqa: E402
from torch_tools import inputs, random  # noqa: E402


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("name", ["causal", "alibi", "softcap"])
@pytest.mark.parametrize("processors, copies", [(1000, 4), (2, 2)])
def test_heads_apart(
    processors: int, copies: int, name: str, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of shared keys. The gradients keep k's order of axes in memory."""
    q, k, v = inputs(queries=70, keys=90, heads=8, kv_heads=2, head_dim=136)
    parameters = {
        "alibi": {"slope": random(8, seed=9, dtype=torch.float32)},
        "softcap": {"cap": 3.0},
    }.get(name, {})
    grad = random(*q.shape[:3], v.shape[3], seed=4, dtype=torch.float32)
    grad_of_lse = random(*q.shape[:3], seed=5, dtype=torch.float32)

    def run() -> tuple[Tensor, ...]:
        given = leaves(q, k, v)
        turned = [x.transpose(1, 2) if layout == "bshd" else x for x in given]
        o, lse = tesela.attention(*turned, name, return_lse=True, layout=layout, **parameters)
        o = o.transpose(1, 2) if layout == "bshd" else o
        results: tuple[Tensor, ...] = torch.autograd.grad((o, lse), given, (grad, grad_of_lse))
        return results

    wanted = run()
    monkeypatch.setattr(_heads_apart, "_multiprocessors", lambda device: processors)
    monkeypatch.setattr(_heads_apart, "_LEAST_QUERIES", 1)
    request = Request(tesela.variant(name), {}, None, False)
    assert _heads_apart.copies_of_heads(q, k, v, request) == copies
    actual = run()
    for x, exact, like in zip(actual, wanted, (q, k, v), strict=True):
        assert x.stride() == exact.stride() or layout == "bshd"
        assert x.shape == like.shape
        torch.testing.assert_close(x, exact, rtol=1e-5, atol=1e-5)


def test_which_heads_are_computed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_heads_apart, "_multiprocessors", lambda device: 132)

    def copies(
        variant: Any,
        heads: int,
        kv_heads: int,
        length: int,
        batch: int = 1,
        head_dim: int = 256,
        head_dim_v: int | None = None,
    ) -> int:
        q = torch.empty(batch, heads, length, head_dim, device="meta")
        k = torch.empty(batch, kv_heads, length, head_dim, device="meta")
        v = torch.empty(batch, kv_heads, length, head_dim_v or head_dim, device="meta")
        request = Request(tesela.variant(variant), {}, None, False)
        return _heads_apart.copies_of_heads(q, k, v, request)

    assert copies("causal", 8, 1, 8192) == 8  # 64 work items
    assert copies("causal", 32, 8, 4096) == 2  # 256, uneven
    assert copies("causal", 64, 1, 32768) == 2  # the same
    assert copies("full", 32, 8, 4096) == 1  # 256, even
    assert copies("causal", 32, 8, 8192) == 1
    assert copies("causal", 8, 8, 4096) == 1  # none is shared
    assert copies("causal", 8, 1, 256) == 1  # too little work
    assert copies("causal", 7, 2, 8192) == 1  # an error, which the launch reports
    assert copies("causal", 8, 1, 8192, head_dim=128) == 1  # the kernel deals the heads
    assert copies("causal", 8, 1, 8192, head_dim=64) == 1  # the same
    assert copies("causal", 8, 1, 8192, head_dim=64, head_dim_v=256) == 8
    of_kv_heads = "attention a(w: f32[Hkv]) { mask = q >= k\n score = s * w[hkv] }"
    assert copies(of_kv_heads, 8, 1, 8192) == 1  # the text knows the shared heads


@pytest.mark.parametrize("batch, keys", [(1, 0), (0, 1024)])
def test_nothing_to_compute_with_many_queries_for_shared_keys(batch: int, keys: int) -> None:
    given = leaves(*inputs(batch=batch, heads=8, kv_heads=2, queries=1024, keys=keys))
    results = torch.autograd.grad(tesela.attention(*given).sum(), given)
    assert all(not each.any() for each in results)
