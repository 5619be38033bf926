# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of the gradients of keys and values, for a step and for a rank's own keys.

A kernel gives gradients in the type of the keys. A sum of one gradient keeps this type; a sum of
several is float32. A rank with one range of queries runs one kernel for each key. It can send its
gradients in the keys' type without loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tesela.distributed._layout import Ranges


def sum_type(ranges: Ranges, of_keys: torch.dtype) -> torch.dtype:
    """The type of the sums of a rank with these ranges of queries."""
    return of_keys if len(ranges) == 1 else torch.float32


class _Written:
    """Which places of a tensor were written: the first gradient of a place is copied, not added."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, int]] = []  # sorted; the ranges do not touch

    def split(self, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Parts of the range, each with whether it was written before. Marks them as written."""
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
    """Sums of the gradients of some keys and of their values, in one type."""

    def __init__(self, keys: Tensor, values: Tensor, dtype: torch.dtype) -> None:
        self._length, self._dtype = keys.shape[2], dtype
        self._given = keys, values
        self._sums: tuple[Tensor, Tensor] | None = None
        self._written = _Written()

    def add(self, places: slice, *found: Tensor) -> None:
        """Adds the gradients of the keys and of the values at these places."""
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
                    # The sum of two gradients in the keys' type is rounded once.
                    to.copy_(to.float().add_(part)) if to.dtype != torch.float32 else to.add_(part)
                else:
                    to.copy_(part)

    def found(self) -> tuple[Tensor, Tensor]:
        """The sums; zeros for places without any."""
        sums = self._allocated()
        for begin, end in self._written.gaps(self._length):
            for total in sums:
                total[:, :, begin:end].zero_()
        return sums

    def _allocated(self) -> tuple[Tensor, Tensor]:
        """The tensors of the sums. They are allocated at the first call."""
        if self._sums is None:
            k, v = (torch.empty_like(x, dtype=self._dtype) for x in self._given)
            self._sums = k, v
        return self._sums
