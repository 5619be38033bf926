# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans: which rank holds which tokens, whose keys it needs, and how much work it has."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._prepare import extents
from tesela._variant import Variant, as_variant
from tesela._variant import variant as variant_of
from tesela.distributed import _layout as layouts
from tesela.distributed._cells import TILE, CellMask, Counts, cell_mask, cell_size
from tesela.distributed._layout import Range, Ranges
from tesela.distributed._machine import (
    SCHEMES,
    Machine,
    Prediction,
    Shape,
    no_nodes,
    predict,
    predict_nodes,
    ranks_per_node,
)
from tesela.distributed._needs import Needs
from tesela.distributed._operator import number_of
from tesela.distributed._positions import Sizes, placed
from tesela.distributed._search import owners_by
from tesela.distributed._steps import Step, steps_of
from tesela.distributed._told import told
from tesela.distributed._totals import Totals
from tesela.distributed._values import is_equal, of_torch, on_host, version_of

BY_HEADS = ("heads", "nodes")
"""The schemes in which a rank computes some of the heads. They do not support dropout."""


class Plan:
    """How a sequence is split over ranks, for one mask. Made by :func:`plan`; prints as a report.

    Attributes:
        variant: the variant, bound to the values for which the plan was made.
        length: the number of tokens of the sequence.
        ranges: the ranges of positions of each rank, ascending. A rank's tensors hold them in this
            order.
        layout: how the ranges were found.
        rank: the rank of this process; None: the plan is only for inspection.
        group: the process group, or None.
        members: the rank in the group of each rank of the plan.
        machine: the figures for predictions.
        shape: the sizes of a call, for predictions.
        scheme: how keys are moved to the queries, or "auto".
        number: a tensor by which compiled code finds the plan.
        work_of_cells: the work of each pair of cells, int32 [cells of queries, cells of keys].
    """

    def __init__(
        self,
        variant: Variant,
        sizes: Sizes,
        ranges: tuple[Ranges, ...],
        layout: str,
        mask: CellMask,
        counts: Counts,
        decided: dict[str, Any],
        host: dict[str, Any],
        rank: int | None,
        group: Any,
        machine: Machine,
        shape: Shape,
        scheme: str,
        members: Sequence[int] | None = None,
    ) -> None:
        self.variant = variant
        self.placed = placed(variant)
        self.length = sizes.Sq
        self.ranges = ranges
        self.layout = layout
        self.rank = rank
        self.group = group
        self.members = range(len(ranges)) if members is None else members
        self.machine = machine
        self.scheme = scheme
        self._sizes = sizes
        self._mask = mask
        self._counts = counts
        self.work_of_cells = counts.table
        self._decided = decided
        self._versions = {name: version_of(value) for name, value in decided.items()}
        self._planned = host
        self.shape = shape
        self._copies: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._schemes: dict[tuple[Shape, bool], str] = {}
        self._passes_between_nodes: dict[Shape, Prediction] = {}
        self._steps: dict[str, tuple[Step, ...]] = {}
        self.number = number_of(self)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.ranges)

    @property
    def cell(self) -> int:
        """Positions of a cell. The plan knows for each cell whether pairs are kept."""
        return self._mask.cell

    # These properties are computed on demand: a step with new documents only needs the ranges and
    # what its own rank sends.

    @cached_property
    def _totals(self) -> Totals:
        return Totals(self.ranges, self._counts, self.needs, self.cell, self.length)

    @cached_property
    def pairs(self) -> Tensor:
        """The kept pairs of rank r's queries and rank o's keys, over all batches and heads.

        Partial cells are estimated from a sample of pairs. float64 ``[ranks, ranks of keys]``.
        """
        return self._totals.work / self._mask.full

    @property
    def received(self) -> Tensor:
        """Tokens whose keys rank r receives from rank o, float64 ``[ranks, ranks]``."""
        return self._totals.received

    @property
    def touched(self) -> Tensor:
        """Tokens of rank r whose queries may keep a key of rank o, float64 ``[ranks, ranks]``."""
        return self._totals.touched

    @property
    def launches(self) -> Tensor:
        """The number of kernels that each rank launches when it has all keys that it needs."""
        return self._totals.launches

    @cached_property
    def needs(self) -> Needs:
        """Which cells of keys each cell of queries needs."""
        return Needs(self._counts, self.cell, self.length)

    @cached_property
    def needed(self) -> tuple[Ranges, ...]:
        """The ranges of keys that each rank's queries need, including the rank's own keys."""
        return tuple(map(self.needs.ranges, self._totals.needed_cells))

    def _cells_of(self, positions: Range) -> slice:
        """The cells that contain some of the positions."""
        return slice(positions[0] // self.cell, (positions[1] - 1) // self.cell + 1)

    @cached_property
    def keeps_received(self) -> bool:
        """Whether ranks keep the keys that they receive in "gather" for the backward pass.

        They do if each receives at most a quarter as many keys as it holds. Then the kept keys take
        at most a tenth of the memory that the backward pass needs besides.
        """
        held = [layouts.tokens(each) for each in self.ranges]
        received = self.received.sum(1).tolist()
        return all(4 * few <= many for few, many in zip(received, held, strict=True))

    @cached_property
    def _held_cells(self) -> tuple[int, ...]:
        """The cells of which each rank holds some positions."""
        return tuple(map(self.needs.cells, self.ranges))

    def sum_type(self, rank: int, owner: int, of_keys: torch.dtype) -> torch.dtype:
        """The type in which a rank sends the gradients of an owner's keys.

        If one range of queries needs these keys, it is the keys' type: one kernel gives the result.
        """
        held = self._held_cells[owner]
        asking = sum(self.needs.of(each) & held != 0 for each in self.ranges[rank])
        return of_keys if asking <= 1 else torch.float32

    @property
    def work(self) -> Tensor:
        """The work of each rank, in kept tiles of 128 x 128 pairs."""
        return self.pairs.sum(1) / TILE**2

    @property
    def imbalance(self) -> float:
        """The work of the busiest rank over the mean."""
        work = self.work
        return float(work.max() / work.mean()) if float(work.sum()) else 1.0

    def pairs_of(self, queries: Range) -> float:
        """An estimate of the pairs that these queries keep in a call of the plan's shape."""
        work = float(self.work_of_cells[self._cells_of(queries)].sum()) / self._mask.full
        return work * self.cell**2 * self._scale(self.shape)

    def _scale(self, shape: Shape) -> float:
        """A call's number of batches times heads, over that for which cells were counted."""
        counted = self._sizes.B * self._sizes.H
        return shape.batch * shape.heads / counted if counted else 1.0

    def predictions(self, shape: Shape | None = None) -> list[Prediction]:
        """The predicted forward pass of each scheme, the fastest first.

        Args:
            shape: the sizes of the call; None: those of the plan.
        """
        found = [self._prediction(scheme, shape or self.shape) for scheme in SCHEMES]
        return sorted(found, key=lambda each: each.seconds)

    def _prediction(self, scheme: str, shape: Shape) -> Prediction:
        if scheme == "nodes":
            why = no_nodes(self.machine, self.ranks, shape.kv_heads)
            if why is not None:
                return Prediction(scheme, float("inf"), 0.0, why)
            most = max(map(layouts.tokens, self.ranges))
            return predict_nodes(self.machine, shape, most, self._between_nodes(shape))
        scale = self._scale(shape)
        held = [float(layouts.tokens(each)) for each in self.ranges]
        return predict(
            *(scheme, self.machine, shape, self.pairs * scale, self.received, self.touched),
            torch.tensor(held, dtype=torch.float64, device="cpu"),
            self.launches,
        )

    @cached_property
    def of_nodes(self) -> Plan:
        """The plan between nodes: a node counts as one rank with all tokens of its ranks.

        The scheme "nodes" runs it once for each rank of a node, with a part of the heads.
        """
        size = self.machine.ranks_per_node
        ranges = tuple(
            layouts.joined([each for rank in self.ranges[first : first + size] for each in rank])
            for first in range(0, self.ranks, size)
        )
        rank = self.rank if self.rank is None else self.rank // size
        members = range((self.rank or 0) % size, self.ranks, size)
        return Plan(
            *(self.variant, self._sizes, ranges, self.layout, self._mask, self._counts),
            *(self._decided, self._planned, rank, self.group),
            *(replace(self.machine, ranks_per_node=1), self._of_rank(self.shape), "auto", members),
        )

    def _of_rank(self, shape: Shape) -> Shape:
        """The sizes of a call between nodes: a rank of a node has its part of the heads."""
        size = self.machine.ranks_per_node
        return replace(shape, heads=shape.heads // size, kv_heads=shape.kv_heads // size)

    def _between_nodes(self, shape: Shape) -> Prediction:
        """The predicted pass between nodes of the scheme "nodes", by the faster scheme."""
        found = self._passes_between_nodes.get(shape)
        if found is None:
            of_rank = self._of_rank(shape)
            both = [self.of_nodes._prediction(scheme, of_rank) for scheme in ("gather", "ring")]
            found = self._passes_between_nodes[shape] = min(both, key=lambda each: each.seconds)
        return found

    def scheme_between_nodes(self, shape: Shape) -> str:
        """How keys move between nodes in the scheme "nodes": "gather" or "ring".

        Args:
            shape: the sizes of the call.

        Raises:
            UnsupportedError: the ranks cannot be divided into nodes of the machine's size, or the
                kv heads cannot be divided among the ranks of a node.
        """
        why = no_nodes(self.machine, self.ranks, shape.kv_heads)
        if why is not None:
            raise UnsupportedError(f"the scheme is 'nodes', and {why}: use scheme='auto'")
        return self._between_nodes(shape).scheme

    def choice(self, shape: Shape | None = None) -> Prediction:
        """The scheme for a call of this shape, with its prediction."""
        if self.scheme == "auto":
            return self.predictions(shape)[0]
        return self._prediction(self.scheme, shape or self.shape)

    def scheme_for(self, shape: Shape, drops: bool = False) -> str:
        """The name of ``choice``'s scheme, cached, because a model asks again in each layer.

        Args:
            shape: the sizes of the call.
            drops: whether the call has dropout, which "heads" and "nodes" do not support.
        """
        if self.scheme != "auto":
            return self.scheme
        found = self._schemes.get((shape, drops))
        if found is None:
            schemes = [each.scheme for each in self.predictions(shape)]
            found = next(each for each in schemes if not (drops and each in BY_HEADS))
            self._schemes[shape, drops] = found
        return found

    def steps(self, scheme: str) -> tuple[Step, ...]:
        """The steps of this rank for a scheme that moves keys."""
        found = self._steps.get(scheme)
        if found is None:
            found = self._steps[scheme] = steps_of(self, scheme)
        return found

    def shard(self, x: Tensor, axis: int = 2) -> Tensor:
        """This rank's part of a tensor of the whole sequence, in the plan's order.

        Args:
            x: a tensor with ``length`` elements along ``axis``.
            axis: the axis of the sequence; 2 is that of ``[batch, heads, length, head dimension]``.

        Raises:
            InvalidArgumentError: the axis has another length, or the plan has no rank.
        """
        ranges = self.ranges[self._own_rank()]
        self._check_axis(x, axis, self.length, "the whole sequence")
        parts = [x.narrow(axis, begin, end - begin) for begin, end in ranges]
        return torch.cat(parts or [x.narrow(axis, 0, 0)], axis)

    def positions(self, device: Any = None) -> Tensor:
        """The positions of this rank's tokens, int64, such as for rotary embeddings."""
        ranges = self.ranges[self._own_rank()]
        parts = [torch.arange(begin, end, device=device) for begin, end in ranges]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64, device=device)

    def gather(self, x: Tensor, axis: int = 2) -> Tensor:
        """Joins a tensor of which each rank has a part. All ranks must call it.

        The gradient assumes that each rank uses the whole tensor in the same way. So a rank's
        gradient is its part of the gradient of the whole.
        """
        from tesela.distributed._exchange import gather

        self._check_axis(x, axis, layouts.tokens(self.ranges[self._own_rank()]), "this rank's part")
        return gather(self, x, axis)

    def _own_rank(self) -> int:
        if self.rank is None:
            raise InvalidArgumentError(
                "the plan was made without a process group and can only be printed: to run it, "
                "make it with group=, or after torch.distributed.init_process_group"
            )
        return self.rank

    def _check_axis(self, x: Tensor, axis: int, expected: int, of: str) -> None:
        if not -x.dim() <= axis < x.dim() or x.shape[axis] != expected:
            raise InvalidArgumentError(
                f"the tensor has the shape {tuple(x.shape)}, and its axis {axis} must have the "
                f"{expected} tokens of {of}: pass the axis of the sequence"
            )

    def check_values(self, given: Mapping[str, Any]) -> None:
        """Raises if a value that decides the mask is not the one for which the plan was made.

        Values are compared element by element with the plan's copy. There is one exception: if the
        value is the plan's own tensor on a GPU, PyTorch's counter of changes is compared, because
        reading the tensor would wait for the GPU.

        Args:
            given: the values of the call, by name.
        """
        for name, decided in self._decided.items():
            value = given.get(name)
            version = version_of(value)
            if value is decided and version is not None:
                is_same = version == self._versions[name]
            else:
                is_same = is_equal(value, self._planned[name])
            if not is_same and value is decided:
                raise InvalidArgumentError(
                    f"'{name}' decides which pairs are kept, and it was changed in place since the "
                    "plan was made: make a plan for the new values"
                )
            if not is_same:
                raise InvalidArgumentError(
                    f"'{name}' decides which pairs are kept, and its value differs from the one "
                    "that the plan was made for: make a plan for this value"
                )

    def value_on(self, name: str, value: Any, device: torch.device) -> Any:
        """A parameter's value for kernels on the device.

        Args:
            name: the name of the parameter.
            value: a value that ``check_values`` has accepted.
            device: the device of q, k and v.
        """
        value = of_torch(value)
        if not isinstance(value, Tensor) or value.dim() == 0 or value.device == device:
            return value
        if name not in self._decided or value.requires_grad or not value.is_cpu:
            return value.to(device)
        # The value is the plan's, so one copy serves all layers.
        key = (name, value.dtype, device)
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = value.to(device)
        return found

    def check_sizes(self, sizes: Sizes) -> None:
        """Raises if the mask depends on the batch or the head, and their numbers differ."""
        for decides, what, names in (
            (self._mask.tells_batches, "batch", ("B",)),
            (self._mask.tells_heads, "heads", ("H", "Hkv")),
        ):
            for name in names:
                planned, found = getattr(self._sizes, name), getattr(sizes, name)
                if decides and planned != found:
                    raise InvalidArgumentError(
                        f"{name} is {found}, and the plan was made for {planned}; the mask is "
                        f"computed from it: pass {what}= to tesela.distributed.plan"
                        + (", and kv_heads=" if name != "B" else "")
                    )

    @cached_property
    def digest(self) -> str:
        """Two plans have the same digest if they have the same mask, ranges and cells."""
        made = hashlib.sha256()
        constants = self.variant._arguments({})[1]
        made.update(repr((self.variant.text, constants, self._sizes.Sq, self.cell)).encode())
        made.update(repr(self.ranges).encode())
        for name in self._decided:
            value = self._planned[name]
            made.update(name.encode())
            if isinstance(value, Tensor):
                made.update(repr((value.dtype, tuple(value.shape))).encode())
                made.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
            else:
                made.update(repr(value).encode())
        return made.hexdigest()[:16]

    def __str__(self) -> str:
        return told(self)

    def __repr__(self) -> str:
        return f"<tesela.distributed.Plan {self.variant.name}, {self.length} tokens, {self.layout}>"


def plan(
    variant: Variant | str | Any,
    *,
    length: int,
    group: Any = None,
    ranks: int | None = None,
    layout: str | Sequence[Sequence[Range]] = "search",
    scheme: str = "auto",
    batch: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int = 128,
    head_dim_v: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
    machine: Machine | None = None,
    cell: int | None = None,
    **parameters: Any,
) -> Plan:
    """Splits a sequence over the ranks of a group, for one mask.

    Every rank must call it with the same arguments. It gets the same plan; nothing is sent.

    Args:
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes.
        length: the number of tokens of the sequence, for queries and keys.
        group: a group of torch.distributed; None: all processes. Ranks are counted within the
            group.
        ranks: the number of ranks, in place of a group; such a plan is only for inspection.
        layout: "contiguous": one range for each rank. "zigzag": two ranges for each rank.
            "striped": cells in turn. "balanced": the same number of cells for each rank, with
            similar work. "near": the same, and near to the keys that the rank needs. "work": one
            range for each rank, with equal work. "search": of "contiguous", "zigzag" and "near" the
            one with the fastest prediction, among those whose busiest rank has at most 1.05 of the
            mean work; if there is none, "balanced", then "striped", or the most even of all. Or the
            ranges themselves: a list of (begin, end) for each rank.
        scheme: how keys are moved to the queries. "gather": a rank gets all keys that it needs
            before its kernels. "ring": rank by rank, while kernels run. "heads": queries and keys
            are exchanged, so that each rank has some heads of all tokens. "nodes": they are
            exchanged within each node, and then keys move between nodes. "auto": the scheme with
            the fastest prediction for a call's sizes.
        batch: the number of sequences; None: from the shapes of captured tensors, or 1.
        heads: the number of query heads; None: from the shapes of captured tensors. It matters for
            predictions, and if the mask depends on the head. If it is not known, predictions use
            32, and 8 kv heads.
        kv_heads: the number of key/value heads; None: heads.
        head_dim: the head dimension of queries and keys. This and the next three are only for
            predictions.
        head_dim_v: the head dimension of values; None: head_dim.
        dtype: the type of q, k and v.
        machine: the figures for predictions, and the number of ranks of a node. None:
            ``Machine()``, with the ranks of a node that torchrun started (LOCAL_WORLD_SIZE). Pass
            the machine if nodes have different numbers of ranks: all ranks need the same one.
        cell: the number of tokens of a cell; the plan knows for each cell whether pairs are kept.
            None: an eighth of a rank's tokens, as a multiple of 128 if a rank has many.
        parameters: values of the variant's parameters. Those that decide the mask are required; the
            plan keeps a copy of them on the host.

    Raises:
        InvalidArgumentError: a value is not accepted, or one that decides the mask is missing.
    """
    if callable(variant) and not isinstance(variant, Variant):
        variant, parameters = variant_of(variant, **parameters), {}
    whole = as_variant(variant)
    if parameters:
        whole = whole.bind(**parameters)
    if scheme != "auto" and scheme not in SCHEMES:
        raise InvalidArgumentError(
            f"the scheme is {scheme!r}, it must be 'auto', {', '.join(map(repr, SCHEMES))}"
        )
    rank = None
    if ranks is None:
        if not dist.is_initialized():
            raise InvalidArgumentError(
                "there is no process group: call torch.distributed.init_process_group before, or "
                "pass ranks= for a plan that is only printed"
            )
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        if rank < 0:
            raise InvalidArgumentError(
                "this process is not in the group: call plan only on the group's ranks"
            )
    elif group is not None:
        raise InvalidArgumentError("both group and ranks are given: pass one of them")
    if ranks < 1 or length < 0:
        raise InvalidArgumentError(
            f"length is {length} and ranks is {ranks}: ranks must be at least 1, and length at "
            "least 0"
        )
    found = extents(whole, whole.bound, B=batch, H=heads, Hkv=kv_heads, Sq=length, Sk=length)
    sizes = Sizes(**{name: found[name] for name in Sizes._fields})
    shape = Shape(
        sizes.B,
        *((sizes.H, sizes.Hkv) if found["H"] > 1 or heads is not None else (32, 8)),
        *(head_dim, head_dim_v or head_dim, dtype.itemsize),
    )
    if machine is None:
        machine = Machine() if rank is None else _machine_of(group)
    cell = cell or cell_size(length, ranks)
    mask = cell_mask(whole, whole._arguments({})[1], cell)
    placed(whole).check_captures(whole.bound, sizes)
    host = {name: on_host(value) for name, value in whole.bound.items() if name in mask.deciding}
    counts = mask.count(host, sizes)
    if isinstance(layout, str):
        owners, how = owners_by(
            layout, counts, ranks, cell, sizes, shape, machine, mask.full, scheme
        )
        ranges = layouts.ranges_of(owners, cell, length, ranks)
    else:
        ranges, how = layouts.checked(layout, length, ranks), "given ranges"
    decided = _deciding(whole, mask)
    host = {name: host.get(name, value) for name, value in decided.items()}
    return Plan(
        whole, sizes, ranges, how, mask, counts, decided, host, rank, group, machine, shape, scheme
    )


def _machine_of(group: Any) -> Machine:
    """The default machine, with the size of the nodes on which the group's processes run."""
    group_ranks = dist.get_process_group_ranks(dist.group.WORLD if group is None else group)
    size = ranks_per_node(group_ranks, os.environ.get("LOCAL_WORLD_SIZE"))
    return Machine() if size is None else Machine(ranks_per_node=size)


def _deciding(whole: Variant, mask: CellMask) -> dict[str, Any]:
    """The values that decide the mask, including defaults."""
    defaults = {each.name: each.default for each in whole.parameters}
    return {name: whole.bound.get(name, defaults[name]) for name in mask.deciding}
