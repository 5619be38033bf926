# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses that use the logarithms, by PyTorch's autograd, against float64 autograd of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from gradient_variants import CASES, Case  # noqa: E402
from tesela import flex  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_gradient_tools import (  # noqa: E402
    attention_by_parts,
    check,
    exact_loss_gradients,
    leaves,
    loss_gradients,
    of_lse,
    z_loss,
)
from torch_tools import inputs, random  # noqa: E402

CAUSAL = CASES[1]
_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@_dtypes
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_z_loss(case: Case, dtype: torch.dtype) -> None:
    dense = inputs(**case.sizes, dtype=dtype)
    parameters = case.parameters()

    def attend(*dense: Tensor) -> Any:
        return tesela.attention(*dense, case.variant, return_lse=True, **parameters)

    check(
        loss_gradients(attend, dense, z_loss),
        exact_loss_gradients(dense, case, parameters, z_loss),
        dtype,
    )


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_only_the_logarithms(layout: Any) -> None:
    dense = inputs()

    def attend(*dense: Tensor) -> Any:
        if layout == "bshd":
            dense = tuple(each.transpose(1, 2).contiguous() for each in dense)
        return tesela.attention(*dense, "causal", return_lse=True, layout=layout)

    found = loss_gradients(attend, dense, of_lse)
    check(found, exact_loss_gradients(dense, CAUSAL, {}, of_lse), torch.float32)
    assert (found.v == 0).all()


@_dtypes
def test_merged_parts_of_the_keys(dtype: torch.dtype) -> None:
    dense = inputs(queries=70, keys=150, dtype=dtype)
    check(
        loss_gradients(attention_by_parts([64, 1, 85]), dense, z_loss),
        exact_loss_gradients(dense, CASES[0], {}, z_loss),
        dtype,
    )


def test_nothing_of_rows_without_keys() -> None:
    """A loss may give the logarithms a gradient of inf or NaN."""
    text = "attention late() { mask = q >= 20 && q >= k }"
    dense = inputs()
    given = leaves(*dense)
    out, lse = tesela.attention(*given, text, return_lse=True)
    assert lse[:, :, :20].isneginf().all()
    of_rows = random(*lse.shape, seed=5, dtype=torch.float32)
    out_weight = random(*out.shape, seed=4, dtype=torch.float32)
    found = {}
    for value in (0.0, torch.nan, torch.inf):
        of_rows[:, :, :20] = value
        found[value] = torch.autograd.grad(
            (out, lse), given, (out_weight, of_rows), retain_graph=True
        )
    first, *others = found.values()
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    assert (first[0][:, :, :20] == 0).all()


def test_zeros_give_the_same_bits() -> None:
    given = leaves(*inputs())
    out, lse = tesela.attention(*given, "causal", return_lse=True)
    grad = random(*out.shape, seed=4, dtype=torch.float32)
    without = torch.autograd.grad(out, given, grad, retain_graph=True)
    zeros = torch.autograd.grad((out, lse), given, (grad, torch.zeros_like(lse)))
    assert all(map(torch.equal, zeros, without))


@pytest.mark.parametrize("name", ["expanded", "transposed", "every other row"])
def test_strides_of_the_gradient(name: str) -> None:
    dense = inputs(queries=37)
    grad = {
        "expanded": torch.ones(()).expand(2, 6, 37),
        "transposed": random(2, 37, 6, 1, seed=5, dtype=torch.float32).squeeze(-1).mT,
        "every other row": random(2, 6, 74, 1, seed=5, dtype=torch.float32).squeeze(-1)[..., ::2],
    }[name]
    found = []
    for each in (grad, grad.contiguous()):
        given = leaves(*dense)
        lse = tesela.attention(*given, return_lse=True)[1]
        found.append(torch.autograd.grad(lse, given[:2], each))
    assert all(map(torch.equal, *found))


def test_flex_attention() -> None:
    dense = inputs(kv_heads=6)

    def attend(*dense: Tensor) -> Any:
        out, aux = flex.flex_attention(
            *dense,
            block_mask=flex.create_block_mask(
                lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 37, 61
            ),
            return_aux=flex.AuxRequest(lse=True),
        )
        return out, aux.lse

    check(
        loss_gradients(attend, dense, z_loss),
        exact_loss_gradients(dense, CAUSAL, {}, z_loss),
        torch.float32,
    )


def test_ways_to_the_same_gradients() -> None:
    """Through the dispatcher: torch.func, mapped, and compiled."""
    dense = inputs()

    def attend(*dense: Tensor) -> Any:
        return tesela.attention(*dense, "causal", return_lse=True)

    exact = loss_gradients(attend, dense, z_loss)
    with torch.profiler.profile():
        assert all(map(torch.equal, loss_gradients(attend, dense, z_loss), exact))

    def loss(*dense: Tensor) -> Tensor:
        return z_loss(*attend(*dense))

    def of_lse_alone(*dense: Tensor) -> Tensor:
        return of_lse(*attend(*dense))

    by_function = torch.func.grad(loss, (0, 1, 2))
    assert all(map(torch.equal, by_function(*dense), exact))
    batches = [torch.stack([each, each.flip(0)]) for each in dense]
    for function in (loss, of_lse_alone):
        by_function = torch.func.grad(function, (0, 1, 2))
        for index, mapped in enumerate(zip(*torch.vmap(by_function)(*batches), strict=True)):
            alone = by_function(*(each[index] for each in batches))
            for got, one in zip(mapped, alone, strict=True):
                torch.testing.assert_close(got, one)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    given = leaves(*dense)
    for got, one in zip(torch.autograd.grad(compiled(*given), given), exact, strict=True):
        torch.testing.assert_close(got, one)


def test_second_gradients_are_refused() -> None:
    given = leaves(*inputs())
    lse = tesela.attention(*given, return_lse=True)[1]
    first = torch.autograd.grad(lse.square().sum(), given[:2], create_graph=True)
    with pytest.raises(tesela.UnsupportedError, match="double backward"):
        first[0].sum().backward()
