# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of the gradients of keys and values: of a step's, and of a rank's own.

A kernel gives them in the type of the keys. A sum of one is that; of several it is float32. A rank
with one range of queries has one kernel for each key, so that what it sends to owners is in the
keys' type, too, and nothing is lost by it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tesela.distributed._layout import Ranges


def sum_type(ranges: Ranges, of_keys: torch.dtype) -> torch.dtype:
    """The type of sums of a rank that has these ranges of queries."""
    return of_keys if len(ranges) == 1 else torch.float32


class _Written:
    """Which places of a tensor have been written: the first to come is copied, not added."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, int]] = []  # ascending, not touching

    def split(self, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Parts of the range, and whether each was written before; now all of it is."""
        at = begin
        for low, high in self._ends:
            if high <= at or low >= end:
                continue
            if low > at:
                yield at, low, False
            yield max(at, low), min(high, end), True
            at = min(high, end)
        if at < end:
            yield at, end, False
        joined: list[tuple[int, int]] = []
        for low, high in sorted([*self._ends, (begin, end)]):
            if joined and low <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
            else:
                joined.append((low, high))
        self._ends = joined

    def gaps(self, length: int) -> Iterator[tuple[int, int]]:
        at = 0
        for low, high in [*self._ends, (length, length)]:
            if at < low:
                yield at, low
            at = high


class Sums:
    """Sums of the gradients of some keys and of their values, in a type."""

    def __init__(self, keys: Tensor, values: Tensor, dtype: torch.dtype) -> None:
        self._length, self._dtype = keys.shape[2], dtype
        self._given = keys, values
        self._sums: tuple[Tensor, Tensor] | None = None
        self._written = _Written()

    def add(self, places: slice, *found: Tensor) -> None:
        """Adds what belongs to these places, of keys and of values."""
        is_all = places.stop - places.start == self._length
        if self._sums is None and is_all and found[0].dtype == self._dtype:
            self._sums = found[0], found[1]
            list(self._written.split(places.start, places.stop))
            return
        sums = self._allocated()
        for begin, end, is_sum in list(self._written.split(places.start, places.stop)):
            for total, each in zip(sums, found, strict=True):
                part = each[:, :, begin - places.start : end - places.start]
                to = total[:, :, begin:end]
                if is_sum:
                    # Of two in the keys' type the sum is rounded once.
                    to.copy_(to.float().add_(part)) if to.dtype != torch.float32 else to.add_(part)
                else:
                    to.copy_(part)

    def found(self) -> tuple[Tensor, Tensor]:
        """The sums; zeros where there are none."""
        sums = self._allocated()
        for begin, end in self._written.gaps(self._length):
            for total in sums:
                total[:, :, begin:end].zero_()
        return sums

    def _allocated(self) -> tuple[Tensor, Tensor]:
        """The tensors of the sums, new ones where there are none yet."""
        if self._sums is None:
            k, v = (torch.empty_like(x, dtype=self._dtype) for x in self._given)
            self._sums = k, v
        return self._sums
