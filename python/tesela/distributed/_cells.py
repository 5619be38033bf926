# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts which pairs a mask keeps, cell by cell. Plans are made from these counts.

The square of queries and keys is cut into cells. The analysis of masks says for each cell whether
it is empty, full or partial, without testing pairs (``python/src/KeptCells.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tesela import _native
from tesela._errors import InvalidArgumentError
from tesela._variant import Variant
from tesela.distributed._positions import TYPES, Sizes, extent_of

_CELLS: Final = 512
"""Cells along an axis if each rank gets eight: they are counted in some milliseconds."""

_MOST_CELLS: Final = 1024
"""The most cells along an axis, if each rank gets two."""

_CELLS_OF_RANK: Final = 8
TILE: Final = 128
"""Positions of a GPU's tile: a range that begins at a multiple does not cut a tile."""


def cell_size(length: int, ranks: int) -> int:
    """Positions of a cell: a multiple of the tile size if the sequence is long enough.

    If possible, the size lets each rank hold the same number of cells.
    """
    few = _CELLS_OF_RANK * ranks
    # With cells of one tile each nothing is estimated.
    many = length // TILE if length // TILE <= _MOST_CELLS else _CELLS
    cells = max(2 * ranks, min(max(few, many), _MOST_CELLS))
    most = max(length // cells, 1)
    step = next(step for step in (TILE, 64, 32, 16, 8, 4, 2, 1) if step <= most)
    for cell in range(most // step * step, 0, -step):
        if length % (2 * ranks * cell) == 0 and 2 * cell > most:
            return cell
    return most // step * step


class Counts(NamedTuple):
    """The work of each cell, summed over batches and heads.

    Attributes:
        rows: the number of cells of queries.
        columns: the number of cells of keys.
        work: u32 for each cell, row after row. A full cell counts ``full`` for each head, a partial
            cell less (estimated from a sample of pairs), an empty cell 0.
        sums: the sum of each row.
        needs: which cells of a row have work, as bits; see ``CellCounts`` of the C++ API.
    """

    rows: int
    columns: int
    work: bytearray
    sums: list[int]
    needs: bytes

    @property
    def table(self) -> Tensor:
        """The work as int32 ``[rows, columns]``, without a copy."""
        if not self.work:
            return torch.zeros(self.rows, self.columns, dtype=torch.int32, device="cpu")
        return torch.frombuffer(self.work, dtype=torch.int32).view(self.rows, self.columns)


class CellMask:
    """Which pairs a mask keeps: an analysis for cells of one size, made once for each text.

    Attributes:
        cell: the positions of a cell, along both axes.
        full: the work of a full cell of one head.
        deciding: the names of the parameters from which the mask is computed. A parameter of a
            score that can be -inf is one, too.
        tells_batches: whether the kept pairs may differ between batches.
        tells_heads: whether the kept pairs may differ between heads.
    """

    def __init__(self, variant: Variant, constants: tuple[tuple[str, float], ...], cell: int):
        self._variant = variant
        self._native = _native.KeptCells(variant._program.native, constants, cell, TILE, 0)
        self.cell = cell
        self.full = 2 * max(cell // TILE, 1)
        self.deciding = self._native.deciding
        self.tells_batches, self.tells_heads = self._native.tells_apart

    def count(self, values: Mapping[str, Any], sizes: Sizes) -> Counts:
        """The work of each cell, summed over batches and heads.

        Args:
            values: the values of the parameters, with captured tensors on the host. Parameters that
                do not decide the mask may be missing.
            sizes: the sizes of the launch.

        """
        given = self._complete(values, sizes)
        slots, _ = self._variant._arguments(given)
        return Counts(*self._native.count(sizes, slots))

    def _complete(self, values: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
        """All parameters. A missing captured tensor is replaced by one of the right shape."""
        given = {name: value for name, value in values.items() if value is not None}
        bound: dict[str, int] = {}
        for parameter in self._variant.parameters:
            tensor = given.get(parameter.name)
            if parameter.constant:
                continue
            if parameter.shape is None:
                if parameter.default is None and parameter.name not in given:
                    if parameter.name in self.deciding:
                        raise InvalidArgumentError(_missing(self._variant, parameter.name))
                    given[parameter.name] = 0
                continue
            if parameter.name in self.deciding and tensor is None:
                raise InvalidArgumentError(_missing(self._variant, parameter.name))
            if tensor is not None:
                for text, extent in zip(parameter.shape, tuple(tensor.shape), strict=False):
                    bound.setdefault(text, extent)
        for parameter in self._variant.parameters:
            if parameter.shape is None or parameter.name in given:
                continue
            shape = []
            for text in parameter.shape:
                extent = extent_of(text, sizes)
                shape.append(bound.setdefault(text, 1) if extent is None else extent)
            one = torch.zeros((), dtype=TYPES[parameter.type][0], device="cpu")
            given[parameter.name] = one.expand(shape)
        return given


def _missing(variant: Variant, name: str) -> str:
    return (
        f"the mask of '{variant.name}' is computed from '{name}', which has no value: pass it to "
        f"tesela.distributed.plan, as {name}=..., so that the plan knows which pairs are kept"
    )


_masks: dict[tuple[Any, ...], CellMask] = {}


def cell_mask(variant: Variant, constants: tuple[tuple[str, float], ...], cell: int) -> CellMask:
    """The analysis of a variant for cells of this size."""
    key = (variant.text, constants, cell)
    found = _masks.get(key)
    if found is None:
        found = _masks.setdefault(key, CellMask(variant, constants, cell))
    return found
