# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a layout means for its ranks: kept pairs, received keys and launches, for predictions."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tesela.distributed._cells import Counts
from tesela.distributed._layout import Ranges
from tesela.distributed._needs import Needs


class _Parts(NamedTuple):
    """The parts of cells that ranks hold, one after the other.

    Attributes:
        ranks: the rank of each part.
        cells: the cell of each part.
        tokens: the number of positions of each part, float64.
    """

    ranks: Tensor
    cells: Tensor
    tokens: Tensor

    def of_ranks(self, values: Tensor, ranks: int) -> Tensor:
        """Sums over the cells: ``[cells, n]`` becomes ``[ranks, n]``, with tokens as factors."""
        sums = values.new_zeros((ranks, values.shape[1]))
        return sums.index_add_(0, self.ranks, values[self.cells] * self.tokens[:, None])


class Totals:
    """Sums over the cells of ranks. Each is computed when it is needed.

    A cell mostly belongs to one rank. So sums go through the parts of cells, which are few, and
    not through matrices of ranks and cells.
    """

    def __init__(
        self, ranges: tuple[Ranges, ...], counts: Counts, needs: Needs, cell: int, length: int
    ) -> None:
        """Prepares the sums.

        Args:
            ranges: the ranges of positions of each rank.
            counts: the counted cells.
            needs: the cells of keys that each cell of queries needs.
            cell: the positions of a cell.
            length: the number of positions of the sequence.
        """
        self._ranges, self._counts, self._needs = ranges, counts, needs
        self._cell, self._length = cell, length

    @cached_property
    def _parts(self) -> _Parts:
        found: list[tuple[int, int, int]] = []
        for rank, ranges in enumerate(self._ranges):
            for begin, end in ranges:
                for cell in range(begin // self._cell, (end - 1) // self._cell + 1):
                    first, last = cell * self._cell, (cell + 1) * self._cell
                    found.append((rank, cell, min(end, last) - max(begin, first)))
        parts = torch.tensor(found, dtype=torch.int64, device="cpu").view(-1, 3)
        return _Parts(parts[:, 0], parts[:, 1], parts[:, 2].double())

    @cached_property
    def work(self) -> Tensor:
        """The work of all cells of queries and of keys that two ranks hold, float64.

        Each work is multiplied by the tokens of both parts of cells. ``[ranks, ranks of keys]``.
        """
        rows = self._parts.of_ranks(self._counts.table.double(), len(self._ranges))
        return self._parts.of_ranks(rows.T.contiguous(), len(self._ranges)).T

    @cached_property
    def needed_cells(self) -> tuple[int, ...]:
        """The cells whose keys each rank needs, as sets of ``Needs``."""
        return tuple(map(self._needs.of_all, self._ranges))

    @cached_property
    def received(self) -> Tensor:
        """Tokens whose keys rank r receives from rank o, float64 ``[ranks, ranks]``."""
        ranks, cells = len(self._ranges), self._counts.rows
        width = (cells + 7) // 8
        bits = bytearray(b"".join(each.to_bytes(width, "little") for each in self.needed_cells))
        if not bits:
            return torch.zeros(ranks, ranks, dtype=torch.float64, device="cpu")
        of_bytes = torch.frombuffer(bits, dtype=torch.uint8).view(ranks, width, 1)
        needed = of_bytes >> torch.arange(8, dtype=torch.uint8, device="cpu") & 1
        by_cell = needed.view(ranks, -1)[:, :cells].T.double()
        return self._parts.of_ranks(by_cell, ranks).T.contiguous().fill_diagonal_(0)

    @cached_property
    def touched(self) -> Tensor:
        """Tokens of rank r whose queries may keep a key of rank o, float64 ``[ranks, ranks]``."""
        keeps = (self._counts.table > 0).T.double()
        of_keys = self._parts.of_ranks(keeps, len(self._ranges)) > 0
        return self._parts.of_ranks(of_keys.T.double(), len(self._ranges))

    @cached_property
    def launches(self) -> Tensor:
        """The number of kernels that each rank launches when it has all keys that it needs."""
        counts = []
        for ranges, cells in zip(self._ranges, self.needed_cells, strict=True):
            runs = [self._needs.cells((run,)) for run in self._needs.ranges(cells)]
            of_ranges = [self._needs.of(queries) for queries in ranges]
            kernels = sum(needed & run != 0 for needed in of_ranges for run in runs)
            counts.append(max(len(ranges), kernels))
        return torch.tensor(counts, dtype=torch.float64, device="cpu")
