# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of PyTorch's gradients share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch_tools import poisoned

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
    """Those of `function`, whose results are poisoned before."""
    given = leaves(*dense)
    with poisoned():
        function(*given).backward(grad)
    return Gradients(*(each.grad for each in given))


def check(actual: Gradients, wanted: Gradients, dtype: torch.dtype) -> None:
    """Holds the largest error, and the norm of the error of each block of 16 rows.

    Where rows have one key, all that is left of dq and dk is rounding: elements count as no smaller
    than what is usual here.
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
