# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common part of the tests of PyTorch's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tesela
import torch
from gradient_variants import Case, Parameters, reference, reference_with_lse
from torch import Tensor
from torch_tools import inputs, poisoned, random

_TOLERANCES = {torch.float32: 5e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Gradients(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [each.detach().clone().requires_grad_() for each in tensors]


def gradients(
    function: Callable[..., Tensor], dense: tuple[Tensor, ...], grad: Tensor
) -> Gradients:
    """The gradients of `function`. Memory of results is poisoned before."""
    given = leaves(*dense)
    with poisoned():
        function(*given).backward(grad)
    return Gradients(*(each.grad for each in given))


def check(actual: Gradients, wanted: Gradients, dtype: torch.dtype) -> None:
    """Checks the largest error, and the norm of the error of each block of 16 rows.

    For rows with one key, dq and dk only consist of rounding errors. So elements count as at least
    as large as is usual in these tests.
    """
    for name, got, exact in zip("qkv", actual, wanted, strict=True):
        assert got.dtype is dtype
        assert got.shape == exact.shape
        error = (got.cpu().double() - exact.cpu()).abs()
        assert not error.isnan().any(), f"d{name} has NaN"
        if error.numel() == 0:
            continue
        largest = (error.max() / exact.abs().max().clamp_min(0.5)).item()
        assert largest <= _TOLERANCES[dtype], f"the largest error of d{name} is {largest}"
        for rows, wanted_rows in zip(error.split(16, 2), exact.cpu().split(16, 2), strict=True):
            norm = max(wanted_rows.norm().item(), 0.25 * wanted_rows.numel() ** 0.5)
            assert rows.norm().item() <= _TOLERANCES[dtype] * norm, f"a block of d{name} is wrong"


def check_parameter(actual: Tensor, exact: Tensor, like: Tensor, dtype: torch.dtype) -> None:
    """Checks a gradient of `like`, for attention in `dtype`."""
    assert actual.dtype is like.dtype
    assert actual.shape == like.shape
    assert actual.device == like.device
    error = actual.double() - exact
    tolerance = _TOLERANCES[dtype] + (0 if like.dtype is torch.float32 else _TOLERANCES[like.dtype])
    assert error.norm() <= tolerance * exact.norm() + 1e-6, f"{error.norm()} of {exact.norm()}"


def check_parameters(case: Case, dtype: torch.dtype, device: str) -> None:
    """All floating-point parameters are trained, with q, k and v and without them."""
    dense = inputs(**case.sizes, dtype=dtype, device=device)
    parameters = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in case.parameters().items()
    }
    trained = {
        name: torch.as_tensor(value).detach().clone().requires_grad_()
        for name, value in parameters.items()
        if isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
    }
    grad = random(*dense[0].shape[:3], dense[2].shape[3], seed=4, dtype=dtype, device=device)
    given = leaves(*dense)
    with poisoned():
        out = tesela.attention(*given, case.variant, **{**parameters, **trained})
        got = torch.autograd.grad(out, (*given, *trained.values()), grad)
        out = tesela.attention(*dense, case.variant, **{**parameters, **trained})
        again = torch.autograd.grad(out, list(trained.values()), grad)

    exact = {name: value.detach().double().requires_grad_() for name, value in trained.items()}
    wide = [each.detach().double() for each in dense]
    wanted = torch.autograd.grad(
        reference(wide[0], wide[1], wide[2], case, {**parameters, **exact}),
        list(exact.values()),
        grad.double(),
    )
    for name, actual, second, each in zip(trained, got[3:], again, wanted, strict=True):
        check_parameter(actual, each, trained[name], dtype)
        assert torch.equal(actual, second)


# Losses that use the logarithms

Loss = Callable[[Tensor, Tensor], Tensor]


def _weights(of: Tensor) -> Tensor:
    """Numbers in [-1.6, 1.6] that each type represents. No random generator, because vmap
    refuses it."""
    numbers = torch.arange(of.numel(), device=of.device) * 37 % 101 - 50
    return (numbers / 32).view(of.shape).to(of.dtype)


def z_loss(out: Tensor, lse: Tensor) -> Tensor:
    """A loss of the result and of the squares of the logarithms, without rows that have no keys."""
    lse = lse.masked_fill(lse.isneginf(), 0.0)
    return (out * _weights(out)).sum() + 0.5 * lse.square().sum()


def of_lse(_: Tensor, lse: Tensor) -> Tensor:
    """A loss of only the logarithms."""
    return (lse.masked_fill(lse.isneginf(), 0.0) * _weights(lse)).sum()


def loss_gradients(attend: Callable[..., Any], dense: tuple[Tensor, ...], loss: Loss) -> Gradients:
    """The gradients of `loss` of the result and the logarithms. Their memory is poisoned before."""
    given = leaves(*dense)
    with poisoned():
        loss(*attend(*given)).backward()
    return Gradients(*(each.grad for each in given))


def exact_loss_gradients(
    dense: tuple[Tensor, ...], case: Case, parameters: Parameters, loss: Loss
) -> Gradients:
    """The same in float64, with PyTorch's own operations."""
    given = [each.detach().double().requires_grad_() for each in dense]
    found = loss(*reference_with_lse(*given, case, parameters))
    some = torch.autograd.grad(found, given, allow_unused=True)
    pairs = zip(some, given, strict=True)
    return Gradients(*(torch.zeros_like(of) if each is None else each for each, of in pairs))


def merged(*parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Joins attention over parts of the keys into attention over all keys."""
    lse = torch.logsumexp(torch.stack([each for _, each in parts]), 0)
    shares = [(each - lse).exp().unsqueeze(-1) for _, each in parts]
    return sum(out * share for (out, _), share in zip(parts, shares, strict=True)), lse  # type: ignore[return-value]


def attention_by_parts(sizes: list[int]) -> Callable[[Tensor, Tensor, Tensor], Any]:
    """Ring attention on one device: each part of the keys, of these sizes, by its own launch."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        cuts = zip(k.split(sizes, 2), v.split(sizes, 2), strict=True)
        parts = [tesela.attention(q, *each, return_lse=True) for each in cuts]
        out, lse = merged(*((out.float(), lse) for out, lse in parts))
        return out.to(q.dtype), lse

    return attend
