# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of the gradients of keys and values, for a rank's own keys and for messages to owners.

A kernel writes its gradients directly into these tensors, in the type of the keys, if no kernel has
written there before. If several gradients are added, the sum is float32 until it is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tesela.distributed._partials import Rows


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
        self.add(begin, end)

    def among(self, begin: int, end: int) -> list[slice]:
        """The parts of the range that have been written."""
        parts = [slice(max(low, begin), min(high, end)) for low, high in self._ends]
        return [part for part in parts if part.start < part.stop]

    def add(self, begin: int, end: int) -> None:
        """Marks the whole range as written."""
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
    """Sums of the gradients of some keys and of their values, in two tensors."""

    def __init__(self, of_keys: Tensor, of_values: Tensor) -> None:
        """The sums are written to these tensors. Their present numbers are not read."""
        self._tensors = of_keys, of_values
        self._rows = Rows(of_keys), Rows(of_values)
        self._written = _Written()
        self._aside: list[tuple[slice, tuple[Tensor, ...]]] = []

    def place(self, places: slice, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
        """The tensors into which a kernel may write gradients of this type; None: it may not.

        If up to half of the places have gradients already, these are put aside. Call ``settle``
        after the kernel: it adds them again.
        """
        if self._tensors[0].dtype != dtype or self._rows[0].overlaps(places.start, places.stop):
            return None
        had = self._written.among(places.start, places.stop)
        if 2 * sum(place.stop - place.start for place in had) > places.stop - places.start:
            return None
        for place in had:
            self._aside.append((place, tuple(x[:, :, place].clone() for x in self._tensors)))
        self._written.add(places.start, places.stop)
        k, v = (each[:, :, places] for each in self._tensors)
        return k, v

    def settle(self) -> None:
        """Adds the gradients that ``place`` put aside to those that the kernel wrote."""
        for place, values in self._aside:
            for rows, each in zip(self._rows, values, strict=True):
                rows.over(place.start, place.stop).add_(each)
        self._aside = []

    def add(self, places: slice, *found: Tensor) -> None:
        """Adds the gradients of the keys and of the values at these places."""
        for begin, end, is_sum in list(self._written.split(places.start, places.stop)):
            for rows, each in zip(self._rows, found, strict=True):
                part = each[:, :, begin - places.start : end - places.start]
                if is_sum:
                    rows.over(begin, end).add_(part)
                else:
                    rows.put(begin, end, part)

    def finish(self) -> tuple[Tensor, Tensor]:
        """The tensors with the sums; zeros for places without any."""
        for rows in self._rows:
            rows.finish()
        for begin, end in self._written.gaps(self._tensors[0].shape[2]):
            for total in self._tensors:
                total[:, :, begin:end].zero_()
        return self._tensors


Part = tuple[slice, Sums, slice]
"""A part of a step's keys: its place in the step, the sums of its owner, and its places in them."""


class Targets:
    """Passes the gradients of a step's keys to the sums of the keys' owners."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def place(self, keys: slice, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
        """Like ``Sums.place``, for places in the step.

        None also if the keys have several owners.
        """
        for at, sums, places in self._parts:
            if at.start <= keys.start and keys.stop <= at.stop:
                shift = places.start - at.start
                return sums.place(slice(keys.start + shift, keys.stop + shift), dtype)
        return None

    def settle(self) -> None:
        """Calls ``settle`` of all sums."""
        for _, sums, _ in self._parts:
            sums.settle()

    def add(self, keys: slice, *found: Tensor) -> None:
        """Adds the gradients of the keys at these places of the step."""
        for at, sums, places in self._parts:
            begin, end = max(keys.start, at.start), min(keys.stop, at.stop)
            if begin < end:
                shift = places.start - at.start
                own = (each[:, :, begin - keys.start : end - keys.start] for each in found)
                sums.add(slice(begin + shift, end + shift), *own)
