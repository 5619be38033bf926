# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which cells of keys some queries need.

A set of cells is an integer with a bit for each cell. A plan asks for many unions and intersections
of such sets, and one takes a tenth of a microsecond. With tensors one took some ten microseconds,
which made up most of the host's time for a new batch of documents.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesela.distributed._cells import Counts
from tesela.distributed._layout import Range, Ranges


class Needs:
    """The cells of keys that each cell of queries needs.

    A range of queries or keys is rounded to cells.
    """

    def __init__(self, counts: Counts, cell: int, length: int) -> None:
        """Reads the sets.

        Args:
            counts: the counted cells.
            cell: the positions of a cell.
            length: the number of positions of the sequence.
        """
        self._cell, self._length = cell, length
        width = (counts.columns + 63) // 64 * 8
        self._rows = [
            int.from_bytes(counts.needs[row * width : (row + 1) * width], "little")
            for row in range(counts.rows)
        ]

    def cells(self, ranges: Iterable[Range]) -> int:
        """The cells that contain some of the positions."""
        found = 0
        for begin, end in ranges:
            first, last = begin // self._cell, (end - 1) // self._cell
            found |= (1 << last + 1) - (1 << first)
        return found

    def whole_cells(self, ranges: Ranges) -> int:
        """The cells all of whose positions are in the ranges, which are sorted and do not touch."""
        found = 0
        for begin, end in ranges:
            first = (begin + self._cell - 1) // self._cell
            last = len(self._rows) if end == self._length else end // self._cell
            if first < last:
                found |= (1 << last) - (1 << first)
        return found

    def ranges(self, cells: int) -> Ranges:
        """The ranges of positions of a set of cells."""
        found = []
        at = 0
        while cells:
            skipped = _zeros(cells)
            cells >>= skipped
            count = _zeros(~cells)
            cells >>= count
            at += skipped
            end = min((at + count) * self._cell, self._length)
            found.append((at * self._cell, end))
            at += count
        return tuple(found)

    def of(self, queries: Range) -> int:
        """The cells of keys that these queries need."""
        found = 0
        for row in self._rows_of(queries):
            found |= self._rows[row]
        return found

    def of_all(self, queries: Iterable[Range]) -> int:
        """The cells of keys that the queries of several ranges need."""
        found = 0
        for each in queries:
            found |= self.of(each)
        return found

    def between(self, queries: Range, keys: Range) -> Range:
        """The part of ``keys`` outside which ``queries`` keep no pair."""
        kept = self.of(queries) & self.cells((keys,))
        if not kept:
            return keys[0], keys[0]
        low, high = _zeros(kept), kept.bit_length()
        return max(keys[0], low * self._cell), min(keys[1], high * self._cell)

    def queries_between(self, queries: Range, keys: Range) -> Range:
        """The part of ``queries`` outside which no pair with ``keys`` is kept. There is one."""
        cells = self.cells((keys,))
        kept = [row for row in self._rows_of(queries) if self._rows[row] & cells]
        low, high = kept[0] * self._cell, (kept[-1] + 1) * self._cell
        return max(queries[0], low), min(queries[1], high)

    def which(self, cells: int) -> list[bool]:
        """For each cell of queries: whether it needs one of these cells of keys."""
        return [row & cells != 0 for row in self._rows]

    def _rows_of(self, queries: Range) -> range:
        return range(queries[0] // self._cell, (queries[1] - 1) // self._cell + 1)


def _zeros(bits: int) -> int:
    """The number of zeros below the lowest bit that is set. There is one."""
    return (bits & -bits).bit_length() - 1
