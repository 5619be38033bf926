# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles of the score matrix a kernel computes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tesela import _native


class HeadTiles(NamedTuple):
    """The tiles of one head, or of all heads that the mask does not tell apart.

    Attributes:
        batch: the sequence; None: of every one.
        head: the query head; None: of every one.
        empty: how many tiles are neither loaded nor computed.
        partial: how many are computed and masked pair by pair.
        full: how many are computed without the mask.
        kept_pairs: how many pairs (query, key) the mask keeps; None where they are too
            many to count.
        kinds: 0 empty, 1 partial, 2 full; a byte for each cell, row after row.
    """

    batch: int | None
    head: int | None
    empty: int
    partial: int
    full: int
    kept_pairs: int | None
    kinds: bytes


class Explanation:
    """What each tile of a launch is to its kernel, read from the kernel's own program.

    Printed it is a report; a notebook shows the picture.

    Attributes:
        variant: the variant's name.
        target: what the kernel is for, "host" or "sm_90".
        schedule: the kernel's.
        block_m: queries of a tile.
        block_n: keys of a tile.
        rows: of tiles.
        columns: of tiles.
        cell: tiles along each axis of a cell, which has one kind: that of its tiles, partial where
            they are of several. 1 unless there are too many tiles.
        form: how the kernel finds its tiles: "every tile", "key ranges" or "classified tiles".
        lost_proofs: the parts of the mask of which nothing was proved, with line, column, caret and
            what to write instead; "" if none.
        heads: the counts.
    """

    def __init__(self, native: _native.Explanation) -> None:
        self._native = native
        known = native.describe()
        self.variant: str = known["variant"]
        self.target: str = known["target"]
        self.schedule: str = known["schedule"]
        self.block_m: int = known["block_m"]
        self.block_n: int = known["block_n"]
        self.rows: int = known["rows"]
        self.columns: int = known["columns"]
        self.cell: int = known["cell"]
        self.form: str = known["form"]
        self.lost_proofs: str = known["lost_proofs"]
        self.heads = tuple(
            HeadTiles(
                None if batch < 0 else batch,
                None if head < 0 else head,
                empty,
                partial,
                full,
                None if kept < 0 else kept,
                kinds,
            )
            for batch, head, empty, partial, full, kept, kinds in known["heads"]
        )

    @property
    def svg(self) -> str:
        """The picture: queries down, keys to the right, tiles by kind, kept pairs darker."""
        return self._native.svg()

    def __str__(self) -> str:
        return self._native.text()

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or () where it has none."""
    return tuple(getattr(value, "shape", ()))
