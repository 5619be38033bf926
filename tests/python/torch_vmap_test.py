# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.vmap over tesela.attention: each result must be that of a separate call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from tesela.torch._vmap import _batch_tensors  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_tools import poisoned, random  # noqa: E402

COUNT = 3


def check(function: Callable[..., Any], arguments: tuple[Tensor, ...], axes: Any) -> None:
    with poisoned():
        got = torch.vmap(function, axes)(*arguments)
    each = [
        function(
            *(a if d is None else a.select(d, i) for a, d in zip(arguments, axes, strict=True))
        )
        for i in range(COUNT)
    ]
    if isinstance(got, Tensor):
        got, each = (got,), [(one,) for one in each]
    for mapped, alone in zip(got, zip(*each, strict=True), strict=True):
        torch.testing.assert_close(mapped, torch.stack(alone))


@pytest.fixture
def q() -> Tensor:
    return random(COUNT, 2, 4, 17, 32, seed=1, dtype=torch.float32)


@pytest.fixture
def kv() -> Tensor:
    return random(COUNT, 2, 2, 23, 32, seed=2, dtype=torch.float32)


def test_dense(q: Tensor, kv: Tensor) -> None:
    check(lambda q: tesela.attention(q, q, q), (q,), (0,))
    check(lambda q: tesela.attention(q, q, q, "causal", return_lse=True), (q,), (0,))
    check(lambda q: tesela.attention(q, q, q, layout="bshd", return_lse=True), (q,), (0,))
    last = q.movedim(0, 3).contiguous()
    check(lambda q, k: tesela.attention(q, k, k), (last, kv[0]), (3, None))
    check(lambda q, k: tesela.attention(q, k, k), (q[0], kv), (None, 0))


def test_tensors_of_the_batch_join(q: Tensor, kv: Tensor) -> None:
    ignored = torch.rand(COUNT, 2, 23) > 0.5

    def padded(q: Tensor, k: Tensor, m: Tensor) -> Any:
        return tesela.attention(q, k, k, "key_padding", ignored=m)

    assert _batch_tensors(tesela.variant("key_padding").text) == {"ignored"}
    check(padded, (q, kv, ignored), (0, 0, 0))
    check(padded, (q, kv, ignored[0]), (0, 0, None))
    check(padded, (q[0], kv[0], ignored), (None, None, 0))
    check(padded, (q, kv, ignored.movedim(0, 2)), (0, 0, 2))


@pytest.mark.parametrize(
    "text",
    [
        "attention t(m: i32[B]) { mask = k >= m[b + 0] }",
        "attention t(m: i32[B]) { mask = k >= m[b] + b }",
        "attention t(m: i32[B]) { mask = k >= m[b] + B }",
        "attention t(m: i32[B]) { let x = b mask = k >= m[x] }",
        "attention t(m: i32[B]) { mask = k >= m[0] }",
        "attention t(m: i32[2*B]) { mask = k >= m[b] }",
        "attention t(m: i32[M]) { mask = k >= m[b] }",
    ],
)
def test_the_batch_number_matters(q: Tensor, kv: Tensor, text: str) -> None:
    text = text.replace(" mask", "\n mask")
    for count in (2, 4):
        m = torch.arange(COUNT * count, dtype=torch.int32).reshape(COUNT, count)
        if count == (4 if "2*B" in text else 2):
            check(lambda q, k, m: tesela.attention(q, k, k, text, m=m), (q, kv, m), (0, 0, 0))
            check(lambda q, k, m: tesela.attention(q, k, k, text, m=m), (q, kv, m[1]), (0, 0, None))


def test_other_tensors_do_not_join(q: Tensor) -> None:
    def sloped(q: Tensor, slope: Tensor) -> Any:
        return tesela.attention(q, q, q, "alibi", slope=slope, return_lse=True)

    check(sloped, (q, torch.rand(COUNT, 4)), (0, 0))
    check(sloped, (q, torch.rand(4)), (0, None))


def test_scalars(q: Tensor) -> None:
    def windowed(q: Tensor, size: Tensor) -> Any:
        return tesela.attention(q, q, q, "sliding_window", window=size)

    check(windowed, (q, torch.tensor([1, 5, 9])), (0, 0))
    check(windowed, (q, torch.tensor(5)), (0, None))


def test_out(q: Tensor) -> None:
    def into(q: Tensor, out: Tensor) -> Tensor:
        tesela.attention(q, q, q, "causal", out=out)
        return out

    check(into, (q, torch.full_like(q, torch.nan)), (0, 0))
    with pytest.raises(RuntimeError, match="out is not mapped"):
        torch.vmap(into, (0, None))(q, torch.empty_like(q[0]))


def test_nested_and_compiled(q: Tensor) -> None:
    def twice(q: Tensor) -> Tensor:
        return torch.vmap(torch.vmap(lambda q: tesela.attention(q, q, q, "causal")))(q)

    wanted = tesela.attention(*[q.flatten(0, 1)] * 3, "causal").unflatten(0, (COUNT, 2))
    torch.testing.assert_close(twice(q.unsqueeze(2)).squeeze(2), wanted)
    compiled = torch.compile(twice, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q.unsqueeze(2)).squeeze(2), wanted)
