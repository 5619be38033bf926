# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dropout in PyTorch: the pairs that the rule says, in both passes, and where a seed comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import reference  # noqa: E402
import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_gradient_tools import Gradients, check, gradients  # noqa: E402
from torch_tools import inputs, random  # noqa: E402

SEED = 0x123456789ABCDEF0
WORDS = (SEED & 0xFFFFFFFF, SEED >> 32, 0, 0)
STATE = torch.tensor([5, -6, 7, -8], dtype=torch.int32)
B, H, QUERIES, KEYS = 2, 6, 37, 61


def plain(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, keep: Tensor, bias: Tensor) -> Tensor:
    """Attention with weights on the probabilities, in float64."""
    shared = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(shared, 1) for each in (k, v))
    s = q @ k.mT / q.shape[-1] ** 0.5 + bias
    p = torch.where(keep, s, -torch.inf).softmax(-1)
    return (torch.where(keep, p, 0) * weight) @ v


def weight_of(probability: float, words: Any) -> Tensor:
    return torch.from_numpy(reference.dropout_weight(probability, words, B, H, QUERIES, KEYS))


SLOPE = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.03, 0.01])
_i, _j = torch.arange(QUERIES)[:, None], torch.arange(KEYS)
CASES: list[tuple[str, dict[str, Any], Tensor, Tensor]] = [
    ("full", {}, torch.ones(QUERIES, KEYS, dtype=torch.bool), torch.zeros(1)),
    ("causal", {}, _i >= _j, torch.zeros(1)),
    (
        "attention alibi(slope: f32[H]) { mask = q + 25 >= k\n score = s + slope[h] * (k - q) }",
        {"slope": SLOPE},
        _i + 25 >= _j,
        SLOPE.double()[:, None, None] * (_j - _i),
    ),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0][:16])
def test_both_passes(case: Any, probability: float, dtype: torch.dtype) -> None:
    variant, parameters, keep, bias = case
    q, k, v = inputs(dtype=dtype)
    grad = random(B, H, QUERIES, 64, seed=4, dtype=dtype)
    for seed, words in ((SEED, WORDS), (STATE, STATE)):
        weight = weight_of(probability, words)

        def attend(q: Tensor, k: Tensor, v: Tensor, seed: Any = seed) -> Tensor:
            return tesela.attention(
                q, k, v, variant, dropout_p=probability, seed=seed, **parameters
            )

        exact = [each.double().requires_grad_() for each in (q, k, v)]
        wanted = plain(*exact, weight, keep, bias)
        wanted.backward(grad.double())
        error = (attend(q, k, v).double() - wanted.detach()).abs().max()
        assert error <= (4e-5 if dtype is torch.float32 else 3e-2)
        check(gradients(attend, (q, k, v), grad), Gradients(*(x.grad for x in exact)), dtype)


def test_logarithms_are_those_of_all_pairs() -> None:
    q, k, v = inputs()
    _, lse = tesela.attention(q, k, v, "causal", return_lse=True)
    _, dropped = tesela.attention(q, k, v, "causal", return_lse=True, dropout_p=0.5, seed=1)
    assert torch.equal(lse, dropped)


def test_no_dropout_is_the_plain_kernel() -> None:
    q, k, v = inputs()
    wanted = tesela.attention(q, k, v, "causal")
    assert torch.equal(tesela.attention(q, k, v, "causal", dropout_p=0.0, seed=3), wanted)


def results(attend: Callable[[], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Of a call, of the next, and of the first one again."""
    torch.manual_seed(7)
    first, second = attend(), attend()
    torch.manual_seed(7)
    return first, second, attend()


def test_the_generator_decides() -> None:
    q, k, v = inputs()
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    for attend in (
        lambda: tesela.attention(q, k, v, dropout_p=0.3),
        lambda: tesela.torch.scaled_dot_product_attention(
            q, k, v, keep, dropout_p=0.3, enable_gqa=True
        ),
        torch.compile(
            lambda: tesela.attention(q, k, v, dropout_p=0.3), backend="eager", fullgraph=True
        ),
    ):
        first, second, again = results(attend)
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
    generator = torch.Generator().manual_seed(3)
    first = tesela.attention(q, k, v, dropout_p=0.3, seed=generator)
    assert not torch.equal(first, tesela.attention(q, k, v, dropout_p=0.3, seed=generator))
    generator.manual_seed(3)
    assert torch.equal(first, tesela.attention(q, k, v, dropout_p=0.3, seed=generator))


def test_checkpointing_drops_the_same_pairs() -> None:
    dense, grad = inputs(), random(B, H, QUERIES, 64, seed=4, dtype=torch.float32)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal", dropout_p=0.3)

    torch.manual_seed(5)
    wanted = gradients(attend, dense, grad)
    torch.manual_seed(5)
    got = gradients(lambda *x: checkpoint(attend, *x, use_reentrant=False), dense, grad)
    for a, b in zip(wanted, got, strict=True):
        assert torch.equal(a, b)


def test_compiled_gradients() -> None:
    """A training step in compiled code: the pairs of the backward pass are those of forward."""
    dense, grad = inputs(), random(B, H, QUERIES, 64, seed=4, dtype=torch.float32)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal", dropout_p=0.3, seed=STATE)

    wanted = gradients(attend, dense, grad)
    got = gradients(torch.compile(attend, backend="aot_eager", fullgraph=True), dense, grad)
    for a, b in zip(wanted, got, strict=True):
        assert torch.equal(a, b)


def test_mistakes() -> None:
    q, k, v = inputs()
    for probability in (-0.5, 1.5, float("nan")):
        with pytest.raises(tesela.InvalidArgumentError, match=r"must lie in \[0, 1\]"):
            tesela.attention(q, k, v, dropout_p=probability, seed=1)
    with pytest.raises(tesela.InvalidArgumentError, match=r"the seed is -1, it must lie in"):
        tesela.attention(q, k, v, dropout_p=0.5, seed=-1)
    with pytest.raises(tesela.InvalidArgumentError, match="it must be a whole number"):
        tesela.attention(q, k, v, dropout_p=0.5, seed="one")
    with pytest.raises(tesela.InvalidArgumentError, match=r"dropout\.state.*4 words"):
        tesela.attention(q, k, v, dropout_p=0.5, seed=STATE[:3])


def test_numpy() -> None:
    q, k, v = (each.numpy() for each in inputs())
    out = tesela.attention(q, k, v, dropout_p=0.25, seed=SEED)
    weight = reference.dropout_weight(0.25, WORDS, B, H, QUERIES, KEYS)
    reference.check(out, reference.attention(q, k, v, weight=weight)[0])
    first, second = (tesela.attention(q, k, v, dropout_p=0.25) for _ in range(2))
    assert (first != second).any()
