# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results over parts of the keys, joined as they come: a row's sum so far and its logarithm."""

from __future__ import annotations

import torch
from torch import Tensor


class Partials:
    """The rows of one range of queries.

    One part is kept as it is, so that its bits are the kernel's. From the second on sums are
    float32.
    """

    def __init__(self) -> None:
        self.out: Tensor | None = None
        self.lse: Tensor | None = None
        self._is_sum = False  # out is a sum of several, of our own

    def add(self, out: Tensor, lse: Tensor) -> None:
        """Joins another part.

        Args:
            out: ``[batch, heads, length, head dimension]``.
            lse: its logarithms, float32 ``[batch, heads, length]``; -inf where a row has no key.
        """
        if self.out is None or self.lse is None:
            self.out, self.lse = out, lse
            return
        joined = torch.logaddexp(self.lse, lse)
        # A row without keys in either part: -inf - -inf would be NaN. One with NaN stays so.
        reference = joined.masked_fill(joined == -torch.inf, 0)
        before, now = ((each - reference).exp().unsqueeze(-1) for each in (self.lse, lse))
        self.out = self.out.mul_(before) if self._is_sum else self.out.float() * before
        self._is_sum = True
        self.out.addcmul_(out.float(), now)
        self.lse = joined
