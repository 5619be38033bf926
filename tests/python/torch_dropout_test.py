# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dropout in PyTorch: which pairs are dropped, in both passes, and where a seed comes from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import reference  # noqa: E402
import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_dropout_tools import (  # noqa: E402
    CASES,
    SEED,
    STATE,
    WORDS,
    Case,
    check_both_passes,
)
from torch_gradient_tools import gradients  # noqa: E402
from torch_tools import inputs, random  # noqa: E402

B, H, QUERIES, KEYS = 2, 6, 37, 61
SLOPE = torch.rand(H, generator=torch.Generator().manual_seed(8)) / 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.variant[:16])
def test_both_passes(case: Case, probability: float, dtype: torch.dtype) -> None:
    for seed, words in ((SEED, WORDS), (STATE, STATE)):
        check_both_passes(case, inputs(dtype=dtype), probability, seed, words)


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
    """The results of a call, of the next call, and of the first one again."""
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


FRESH = """
import tesela, tesela.torch, torch
from torch.utils.checkpoint import checkpoint
q = torch.randn(1, 2, 16, 16, requires_grad=True)
def attend(q):
    return tesela.attention(q, q, q, "causal", dropout_p=0.5)
def sdpa(q):
    return tesela.torch.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
def again(q):
    return checkpoint(lambda q: tesela.attention(q, q, q, "alibi", dropout_p=0.5,
                                                 slope=torch.ones(2)), q, use_reentrant=False)
for function in (attend, sdpa, again):
    torch.compile(function, fullgraph=True, backend="aot_eager")(q).sum().backward()
"""


def test_first_call_of_a_process_is_compiled() -> None:
    """No eager call made the kernels' dictionary for dropout before."""
    subprocess.run([sys.executable, "-c", FRESH], check=True)


def test_compiled_gradients() -> None:
    """A training step in compiled code: the backward pass drops the same pairs as the forward
    pass."""
    dense, grad = inputs(), random(B, H, QUERIES, 64, seed=4, dtype=torch.float32)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal", dropout_p=0.3, seed=STATE)

    wanted = gradients(attend, dense, grad)
    got = gradients(torch.compile(attend, backend="aot_eager", fullgraph=True), dense, grad)
    for a, b in zip(wanted, got, strict=True):
        assert torch.equal(a, b)


def test_compiled_gradients_of_parameters() -> None:
    """The third kernel also drops the same pairs, if the operator is called with a state."""
    dense, slope = inputs(), CASES[2].slope
    assert slope is not None
    grad = random(B, H, QUERIES, 64, seed=4, dtype=torch.float32)

    def attend(slope: Tensor) -> Tensor:
        return tesela.attention(*dense, CASES[2].variant, dropout_p=0.3, seed=STATE, slope=slope)

    found = []
    for function in (attend, torch.compile(attend, backend="aot_eager", fullgraph=True)):
        given = slope.clone().requires_grad_()
        function(given).backward(grad)
        found.append(given.grad)
    assert torch.equal(*found)


def test_vmap() -> None:
    """Each index is a call of its own, in all passes; a number gives all the same pairs."""
    q, k, v = (each[:, None] for each in inputs(batch=3))
    slope = torch.stack([SLOPE, SLOPE * 2, SLOPE * 3])

    def loss(q: Tensor, k: Tensor, v: Tensor, slope: Tensor, seed: Any = 5) -> Tensor:
        out: Tensor = tesela.attention(
            q, k, v, CASES[2].variant, dropout_p=0.3, seed=seed, slope=slope
        )
        return out.square().sum()

    grad = torch.func.grad(loss, (0, 1, 2, 3))
    one_by_one = [grad(q[i], k[i], v[i], slope[i]) for i in range(3)]
    for got, *wanted in zip(torch.vmap(grad)(q, k, v, slope), *one_by_one, strict=True):
        assert torch.equal(got, torch.stack(wanted))
    grad = torch.func.grad(lambda *x: loss(*x, SLOPE), (0, 1, 2))
    one_by_one = [grad(q[i], k[i], v[i]) for i in range(3)]
    for got, *wanted in zip(torch.vmap(grad)(q, k, v), *one_by_one, strict=True):
        assert torch.equal(got, torch.stack(wanted))
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(lambda *x: loss(*x, SLOPE, None))(q, k, v)
    mapped = torch.vmap(lambda *x: loss(*x, SLOPE, None), randomness="different")
    same = mapped(*(each[:1].expand_as(each) for each in (q, k, v)))
    assert same[0] != same[1]


def test_gradients_that_are_mapped_alone() -> None:
    dense = inputs()

    def attend(*dense: Tensor) -> Tensor:
        return tesela.attention(*dense, "causal", dropout_p=0.3, seed=5)

    out, backward = torch.func.vjp(attend, *dense)
    grad = random(3, *out.shape, seed=4, dtype=torch.float32)
    one_by_one = [backward(each) for each in grad]
    for got, *wanted in zip(torch.vmap(backward)(grad), *one_by_one, strict=True):
        assert torch.equal(got, torch.stack(wanted))


def test_mistakes() -> None:
    q, k, v = inputs()
    for probability in (-0.5, 1.5, float("nan")):
        with pytest.raises(tesela.InvalidArgumentError, match=r"must lie in \[0, 1\]"):
            tesela.attention(q, k, v, dropout_p=probability, seed=1)
    with pytest.raises(tesela.InvalidArgumentError, match=r"the seed is -1, it must lie in"):
        tesela.attention(q, k, v, dropout_p=0.5, seed=-1)
    for seed in ("one", 1.5):
        with pytest.raises(tesela.InvalidArgumentError, match=r"whole number.*Generator.*tensor"):
            tesela.attention(q, k, v, dropout_p=0.5, seed=seed)
    for state in (STATE[:3], torch.rand(4), STATE.to("meta")):
        with pytest.raises(tesela.InvalidArgumentError, match=r"the seed is .*four int32.*randint"):
            tesela.attention(q, k, v, dropout_p=0.5, seed=state)
    with pytest.raises(tesela.InvalidArgumentError, match=r"the seed is .*pass seed\.item\(\)"):
        tesela.attention(q, k, v, dropout_p=0.5, seed=torch.tensor(3))


def test_probabilities_that_are_no_numbers() -> None:
    q, k, v = inputs()
    sdpa = tesela.torch.scaled_dot_product_attention
    trained = torch.tensor(0.5, requires_grad=True)
    for wrong, error, sentence in (
        (None, tesela.InvalidArgumentError, "dropout_p is of the type.*NoneType"),
        ("a", tesela.InvalidArgumentError, "dropout_p is of the type.*str"),
        (torch.rand(2), tesela.InvalidArgumentError, "dropout_p is a tensor of the shape"),
        (trained, tesela.UnsupportedError, r"dropout_p .* a gradient.*dropout_p\.item\(\)"),
    ):
        with pytest.raises(error, match=sentence):
            tesela.attention(q, k, v, dropout_p=wrong)
        with pytest.raises(error, match=sentence):
            sdpa(q, k, v, dropout_p=wrong, enable_gqa=True)
    wanted = tesela.attention(q, k, v, dropout_p=0.5, seed=3)
    assert torch.equal(tesela.attention(q, k, v, dropout_p=trained.detach(), seed=3), wanted)
    zero = tesela.attention(q, k, v, dropout_p=torch.zeros(1))
    assert torch.equal(zero, tesela.attention(q, k, v))


def test_numpy() -> None:
    q, k, v = (each.numpy() for each in inputs())
    out = tesela.attention(q, k, v, dropout_p=0.25, seed=SEED)
    weight = reference.dropout_weight(0.25, WORDS, B, H, QUERIES, KEYS)
    reference.check(out, reference.attention(q, k, v, weight=weight)[0])
    first, second = (tesela.attention(q, k, v, dropout_p=0.25) for _ in range(2))
    assert (first != second).any()
