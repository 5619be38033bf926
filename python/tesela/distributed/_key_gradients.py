# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of the gradients of keys and values: of a step's, and of a rank's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tesela.distributed._steps import Step


class StepSums:
    """The gradients of a step's keys and values.

    Those of one kernel over all of them are kept as they are; sums are float32.
    """

    def __init__(self, step: Step, keys: Tensor, values: Tensor) -> None:
        self._given = keys, values
        self._is_one = [each.keys for each in step.launches] == [slice(0, keys.shape[2])]
        self._sums: tuple[Tensor, Tensor] | None = None

    def add(self, keys: slice, of_keys: Tensor, of_values: Tensor) -> None:
        """Adds what a kernel found, of dk and of dv."""
        if self._is_one:
            self._sums = of_keys, of_values
            return
        for total, each in zip(self.found(), (of_keys, of_values), strict=True):
            total[:, :, keys] += each

    def found(self) -> tuple[Tensor, Tensor]:
        """Those of keys, and of values."""
        if self._sums is None:
            k, v = (torch.zeros_like(x, dtype=torch.float32) for x in self._given)
            self._sums = k, v
        return self._sums


class OwnKeys:
    """The sums of the gradients of a rank's own keys and values, in float32."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        self._given = k, v
        self._sums: list[Tensor] = []

    def add(self, places: Sequence[slice], *parts: Sequence[Tensor]) -> None:
        """Adds at each place a part, of dk and of dv."""
        is_all = sum(place.stop - place.start for place in places) == self._given[0].shape[2]
        if not self._sums:
            make = torch.empty_like if is_all else torch.zeros_like
            self._sums = [make(x, dtype=torch.float32) for x in self._given]
            for total, of in zip(self._sums, parts, strict=True):
                for place, part in zip(places, of, strict=True):
                    total[:, :, place] = part
            return
        for total, of in zip(self._sums, parts, strict=True):
            for place, part in zip(places, of, strict=True):
                total[:, :, place] += part

    def found(self) -> list[Tensor]:
        """Those of keys, and of values, in the types of k and v."""
        if not self._sums:
            return [torch.zeros_like(x) for x in self._given]
        return [total.to(x.dtype) for total, x in zip(self._sums, self._given, strict=True)]
