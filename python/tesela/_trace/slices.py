# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indexing of tensors by values, slices, `None` and `...`.

The language clamps an index to the whole tensor. A slice that ends elsewhere needs bounds of its
own, so that an index beyond the slice reads the slice's first or last element.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import state
from .error import error
from .graph import Graph, Node, is_natural, number_of
from .known import leaves_of
from .value import Array, Value, from_end, operand, position


class _Part(NamedTuple):
    """How an axis of the slice reads an axis of the tensor.

    Attributes:
        axis: the axis of the slice.
        start: the first element.
        step: the distance of two elements.
        is_inner: whether elements lie in front of the first one.
        last: the index of the slice's last element; None if the tensor ends there.
        stop: the end, where an element must be before it; None if the tensor ends there.
        is_full: a condition that differs from launch to launch: the slice has elements.
    """

    axis: int
    start: Node
    step: int
    is_inner: bool
    last: Node | None
    stop: Node | None
    is_full: Node | None


def indexed(array: Array, index: tuple[Any, ...]) -> Any:
    """`array[index]`. Axes with a value as index are removed; axes of slices and None stay."""
    graph = array.graph
    wanted = sum(1 for i in index if i is not None and i is not ...)
    if wanted > array.ndim:
        raise error(
            f"a tensor with {array.ndim} axes was read with {wanted} indices; write at most one "
            "for each axis"
        )
    if ... not in [i for i in index if i is None or i is ...]:
        index = (*index, ...)
    at = [i is ... for i in index].index(True)
    rest = (slice(None),) * (array.ndim - wanted)
    index = (*index[:at], *rest, *index[at + 1 :])

    shape: list[Node] = []
    parts: list[Node | _Part] = []  # for each axis of `array`
    is_empty = False
    for each in index:
        if each is None:
            shape.append(graph.constant(1))
            continue
        extent = array.nodes[len(parts)]
        if isinstance(each, slice):
            length, part = _slice(graph, each, extent, len(shape))
            is_empty = is_empty or (length.op == "const" and number_of(length) == 0)
            parts.append(part)
            shape.append(length)
        else:
            parts.append(position(graph, each, extent))

    def element(indices: tuple[Node, ...]) -> Node:
        old = tuple(p if isinstance(p, Node) else _place(graph, p, indices) for p in parts)
        value = array.element(old)
        zero = graph.constant(0) if value.type != "bool" else graph.false
        if is_empty:
            return graph.floating(zero) if value.type == "f32" else zero
        for part in parts:
            if isinstance(part, _Part) and part.is_full is not None:
                value = graph.select(part.is_full, value, zero)
        return value

    return Array(graph, tuple(shape), element, array._type) if shape else Value(element(()))


def _place(graph: Graph, part: _Part, indices: tuple[Node, ...]) -> Node:
    """The index into the tensor."""
    index = indices[part.axis]
    if index.op != "index":  # the index of a reduction over the slice is within it
        if part.is_inner and not is_natural(index):
            index = graph.extreme("max", index, graph.constant(0))
        if part.last is not None:
            index = graph.extreme("min", index, part.last)
    place = graph.arithmetic("*", index, graph.constant(part.step))
    place = graph.arithmetic("+", place, part.start)
    if part.stop is not None and index.op != "index":
        place = graph.extreme("min", place, graph.arithmetic("-", part.stop, graph.constant(1)))
    return place


def _slice(graph: Graph, part: slice, extent: Node, axis: int) -> tuple[Node, _Part]:
    """The extent of a slice, and how it reads the tensor's axis."""
    step = 1 if part.step is None else int(part.step)
    zero, one = graph.constant(0), graph.constant(1)
    if step == -1 and part.start is None and part.stop is None:
        start = graph.arithmetic("-", extent, one)
        return extent, _Part(axis, start, -1, False, None, None, None)
    if step < 1:
        raise error(f"the step of a slice is {step}, it must be positive for a traced tensor")

    def end(value: Any) -> Node:
        """An end, counted from the tensor's first element."""
        node: Node = operand(graph, value).node
        if node.type != "i32":
            raise error(f"an end of a slice must be an integer, this one is {node.type}")
        if node.op == "const" and number_of(node) < 0:
            return graph.arithmetic("+", extent, node)
        return from_end(graph, node, extent)

    start = zero if part.start is None else end(part.start)
    stop = None if part.stop is None else end(part.stop)
    if not is_natural(start):
        start = graph.extreme("max", start, zero)
    limit = extent if stop is None else graph.extreme("min", stop, extent)
    is_full: Node | None = None
    if start is not zero or (stop is not None and not _is_positive(stop)):
        is_full = graph.compare("<", start, limit)
        if all(isinstance(leaf, tuple) for leaf in leaves_of(is_full)) and is_full.uniform:
            # Shapes alone decide this, so they may decide the text.
            is_known = is_full.op == "const"
            has = is_full is not graph.false if is_known else state.current().number(is_full)
            is_full = None if has else graph.false
    if is_full is graph.false:
        return zero, _Part(axis, zero, 1, False, None, None, None)
    length = graph.arithmetic("-", limit, start)
    if is_full is not None:
        length = graph.extreme("max", length, zero)
    if step > 1:
        length = graph.arithmetic("+", length, graph.constant(step - 1))
        length = graph.arithmetic("/", length, graph.constant(step))
    last = graph.arithmetic("-", length, one) if step > 1 else None
    return length, _Part(
        axis, start, step, start is not zero, last, stop if step == 1 else None, is_full
    )


def _is_positive(node: Node) -> bool:
    return node.op == "const" and number_of(node) > 0
