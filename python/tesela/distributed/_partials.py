# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins results of several kernels for the same rows, one after another.

The first kernel of a range of queries gives all of its rows. If no other kernel adds to a row, its
bits stay. Later kernels give only the rows that keep some of their keys; only these rows are
float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Rows:
    """Rows of a tensor ``[batch, heads, rows, ...]``; in float32 if several kernels add."""

    def __init__(self, base: Tensor) -> None:
        self._base = base
        self._begin = self._end = 0
        self._sum: Tensor | None = None  # the rows from _begin to _end

    def over(self, begin: int, end: int) -> Tensor:
        """These rows in float32. The caller changes them in place."""
        if self._base.dtype == torch.float32:
            return self._base[:, :, begin:end]
        if self._sum is None:
            self._begin, self._end = begin, end
            self._sum = self._copied(begin, end)
        elif begin < self._begin or end > self._end:
            low, high = min(begin, self._begin), max(end, self._end)
            wider = self._copied(low, high)
            wider[:, :, self._begin - low : self._end - low] = self._sum
            self._begin, self._end, self._sum = low, high, wider
        return self._sum[:, :, begin - self._begin : end - self._begin]

    def put(self, begin: int, end: int, given: Tensor) -> None:
        """Writes the first values of these rows."""
        if given.dtype == torch.float32 or self.overlaps(begin, end):
            self.over(begin, end).copy_(given)
        else:
            self._base[:, :, begin:end] = given

    def overlaps(self, begin: int, end: int) -> bool:
        """Whether some of these rows are in float32 at present."""
        return self._sum is not None and begin < self._end and end > self._begin

    def _copied(self, begin: int, end: int) -> Tensor:
        return self._base[:, :, begin:end].to(torch.float32, copy=True)

    def finish(self) -> None:
        """Writes the sums into the tensor, rounded to its type."""
        if self._sum is not None:
            self._base[:, :, self._begin : self._end] = self._sum
            self._sum = None


class Partials:
    """Results over parts of the keys for one range of queries, and their logarithms."""

    def __init__(self, out: Tensor, lse: Tensor) -> None:
        """Begins with the first part, which has all rows. Both tensors are changed in place.

        Args:
            out: ``[batch, heads, rows, head dimension]``.
            lse: the logarithms, float32 ``[batch, heads, rows]``; -inf for a row without keys.
        """
        self._rows, self._lse = Rows(out), lse

    def add(self, first: int, out: Tensor, lse: Tensor) -> None:
        """Joins another part, whose rows begin at ``first``."""
        end = first + out.shape[2]
        of_rows = self._lse[:, :, first:end]
        joined = torch.logaddexp(of_rows, lse)
        # For a row without keys in both parts, -inf - -inf would be NaN. A row with NaN keeps it.
        reference = joined.masked_fill(joined == -torch.inf, 0)
        before, now = ((each - reference).exp().unsqueeze(-1) for each in (of_rows, lse))
        self._rows.over(first, end).mul_(before).addcmul_(out.float(), now)
        of_rows.copy_(joined)

    def finish(self) -> None:
        """Writes the joined rows into the first part's result."""
        self._rows.finish()
