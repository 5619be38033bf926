# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of the gradients of keys that several kernels add to, and where kernels may write them."""

from __future__ import annotations

import pytest
import torch
from tesela.distributed._key_gradients import Sums, Targets
from torch import Tensor

LENGTH = 40
BF16 = torch.bfloat16


def empty(length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Gradients of keys and values that are not written yet: NaN."""
    shape = (1, 2, length)
    k, v = torch.full((*shape, 4), torch.nan), torch.full((*shape, 6), torch.nan)
    return k.to(dtype), v.to(dtype)


def ones(length: int, of: float, dtype: torch.dtype = BF16) -> tuple[Tensor, Tensor]:
    k, v = empty(length, dtype)
    return torch.full_like(k, of), torch.full_like(v, of)


@pytest.mark.parametrize("dtype", [BF16, torch.float32])
@pytest.mark.parametrize("seed", range(20))
def test_sums(seed: int, dtype: torch.dtype) -> None:
    """Ranges overlap in any way. Some are written by a kernel and some are added."""
    generator = torch.Generator().manual_seed(seed)
    tensors = empty(LENGTH, dtype)
    sums = Sums(*tensors)
    wanted = torch.zeros(LENGTH)
    for number in range(6):
        begin, end = sorted(torch.randint(LENGTH + 1, (2,), generator=generator).tolist())
        places = slice(begin, end)
        value = 2.0**number
        into = sums.place(places, BF16) if number % 2 else None
        given = ones(end - begin, value)
        if into is None:
            sums.add(places, *given)
        else:
            for to, each in zip(into, given, strict=True):
                to.copy_(each)
            sums.settle()
        wanted[places] += value
    for found in sums.finish():
        assert torch.equal(found.float(), wanted.view(1, 1, -1, 1).expand(found.shape))
    assert [each.data_ptr() for each in sums.finish()] == [each.data_ptr() for each in tensors]


def test_a_sum_is_rounded_once() -> None:
    """1 + 100 · 2^-9 in bfloat16, whose numbers beside 1 are 2^-7 apart."""
    sums = Sums(*empty(LENGTH, BF16))
    sums.add(slice(0, LENGTH), *ones(LENGTH, 1.0))
    for _ in range(100):
        sums.add(slice(0, 30), *ones(30, 2.0**-9))
    for found in sums.finish():
        assert (found[:, :, :30] == 1.1953125).all()
        assert (found[:, :, 30:] == 1).all()


def test_a_kernel_writes_where_it_is_needed() -> None:
    sums = Sums(*empty(LENGTH, BF16))
    first = sums.place(slice(0, 30), BF16)
    assert first is not None
    assert sums.place(slice(0, 40), BF16) is None, "most of it has been written"
    assert sums.place(slice(30, 40), torch.float32) is None
    few = sums.place(slice(25, 40), BF16)
    assert few is not None


def test_parts_go_to_their_owners() -> None:
    own, other = Sums(*empty(LENGTH, BF16)), Sums(*empty(10, torch.float32))
    targets = Targets([(slice(0, 10), other, slice(0, 10)), (slice(10, 30), own, slice(20, 40))])
    assert targets.place(slice(5, 12), BF16) is None, "of two owners"
    targets.add(slice(5, 12), *ones(7, 3.0))
    into = targets.place(slice(11, 30), BF16)
    assert into is not None
    for each in into:
        each.fill_(2.0)
    targets.settle()
    for found in other.finish():
        assert found[0, 0, :, 0].tolist() == 5 * [0.0] + 5 * [3.0]
    for found in own.finish():
        assert found[0, 0, :, 0].tolist() == 20 * [0.0] + [3.0, 5.0] + 18 * [2.0]
