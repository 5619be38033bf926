# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: A001, A002 - arguments have the names that the frameworks use
"""Functions of whole axes: reductions (reductions of the language, too), and orders of axes."""

from __future__ import annotations

from typing import Any

from .error import error
from .functions import apply, check_extents, graph_of, is_one, named
from .graph import BOOL, Graph, Node
from .value import TABLE, Array, Traced, Value, operand


def axis_of(dim: Any, ndim: int) -> int:
    """The number of an axis, counted from the first one."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise error(f"an axis must be an integer here, this one is {dim!r}")
    if not -ndim <= dim < ndim:
        raise error(f"there is no axis {dim} of a tensor with {ndim} axes")
    return dim % ndim


def axes_of(dims: Any, ndim: int) -> list[int]:
    """The numbers of different axes."""
    axes = [axis_of(dim, ndim) for dim in dims]
    if len(set(axes)) < len(axes):
        raise error(f"an axis is named twice in {tuple(dims)}; name each once")
    return axes


def _axes(array: Array, dim: Any) -> list[int]:
    if dim is None:
        return list(range(array.ndim))
    return sorted(axes_of([dim] if isinstance(dim, int) else dim, array.ndim))


def _reduced(kind: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if not isinstance(input, Array):
        if isinstance(input, (tuple, list)):
            raise error(f"{kind}() of a list cannot be traced; write Python's own {kind}()")
        return input if kind == "sum" else apply(Graph.boolean, input)
    array = input
    for axis in reversed(_axes(array, dim)):
        array = _along(kind, array, axis, keepdim)
    return array if array.nodes else Value(array.element(()))


def _along(kind: str, array: Array, axis: int, keepdim: bool) -> Array:
    graph, extent, inner = array.graph, array.nodes[axis], array.element
    shape = list(array.nodes)
    if keepdim:
        shape[axis] = graph.constant(1)
    else:
        del shape[axis]

    def element(indices: tuple[Node, ...]) -> Node:
        after = indices[axis + 1 :] if keepdim else indices[axis:]
        index = graph.enter()
        return graph.leave(kind, extent, inner((*indices[:axis], index, *after)))

    return Array(graph, tuple(shape), element)


def _options(kind: str, dim: Any, keepdim: Any, axis: Any, keepdims: Any) -> tuple[Any, bool]:
    """The axes of a reduction, and whether they stay, by the names of PyTorch or of NumPy."""
    keepdim = keepdim if keepdims is None else keepdims
    if keepdim is not None and not isinstance(keepdim, bool):
        raise error(f"the third argument of {kind}() must be a bool; give others by their names")
    return dim if axis is None else axis, bool(keepdim)


@named("sum")
def _sum(
    input: Any,
    dim: Any = None,
    keepdim: Any = None,
    *,
    dtype: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    initial: Any = None,
    where: Any = None,
) -> Any:
    if keepdim is not None and not isinstance(keepdim, bool):
        keepdim, dtype = None, keepdim  # NumPy's third argument is the type
    dim, keeps = _options("sum", dim, keepdim, axis, keepdims)
    if dtype is not None:
        input = TABLE["to"](input, dtype)
    if where is not None:
        input = TABLE["where"](where, input, 0)
    result = _reduced("sum", input, dim, keeps)
    return result if initial is None else result + initial


@named("nansum")
def _nansum(input: Any, *args: Any, **named: Any) -> Any:
    return _sum(TABLE["where"](TABLE["isnan"](input), 0, input), *args, **named)


@named("any")
def _any(
    input: Any,
    dim: Any = None,
    keepdim: Any = None,
    *,
    axis: Any = None,
    keepdims: Any = None,
    where: Any = None,
) -> Any:
    if where is not None:
        input = TABLE["logical_and"](where, input)
    return _reduced("any", input, *_options("any", dim, keepdim, axis, keepdims))


@named("all")
def _all(
    input: Any,
    dim: Any = None,
    keepdim: Any = None,
    *,
    axis: Any = None,
    keepdims: Any = None,
    where: Any = None,
) -> Any:
    if where is not None:
        input = TABLE["logical_or"](TABLE["logical_not"](where), input)
    return _reduced("all", input, *_options("all", dim, keepdim, axis, keepdims))


@named("mean")
def _mean(
    input: Any,
    dim: Any = None,
    keepdim: Any = None,
    *,
    dtype: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    if keepdim is not None and not isinstance(keepdim, bool):
        keepdim, dtype = None, keepdim
    dim, keeps = _options("mean", dim, keepdim, axis, keepdims)
    if dtype is not None:
        input = TABLE["to"](input, dtype)
    input = TABLE["float"](input)
    if not isinstance(input, Array):
        return input
    total = _sum(input, dim, keeps)
    for each in _axes(input, dim):
        total = total / Value(input.nodes[each])
    return total


@named("count_nonzero")
def _count_nonzero(input: Any, dim: Any = None, *, axis: Any = None, keepdims: bool = False) -> Any:
    return _sum(apply(Graph.boolean, input), dim, axis=axis, keepdims=keepdims)


@named("dot")
def _dot(input: Any, other: Any) -> Any:
    graph = graph_of(input, other)
    a, b = operand(graph, input), operand(graph, other)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.ndim > 1 and b.ndim > 2:
        raise error("dot() of these tensors is not their '@'; write '@' or sum()")
    return _matmul(a, b)


@named("vdot", "inner")
def _inner(input: Any, other: Any) -> Any:
    graph = graph_of(input, other)
    a, b = operand(graph, input), operand(graph, other)
    if a.ndim > 1 or b.ndim > 1:
        raise error("vdot() and inner() are traced for tensors with one axis; write '@' or sum()")
    return _dot(a, b)


@named("vecdot")
def _vecdot(input: Any, other: Any, *, dim: int = -1, axis: int = -1) -> Any:
    graph = graph_of(input, other)
    a, b = operand(graph, input), operand(graph, other)
    reduced = _any if a.element_type() == b.element_type() == BOOL else _sum
    return reduced(a * b, dim if axis == -1 else axis)


@named("matmul", "mm", "mv")
def _matmul(input: Any, other: Any) -> Any:
    graph = graph_of(input, other)
    a, b = operand(graph, input), operand(graph, other)
    if not isinstance(a, Array) or not isinstance(b, Array):
        raise error("'@' takes two tensors, but an operand is one value; write '*'")
    check_extents(a.nodes[-1], b.nodes[-2 if b.ndim > 1 else -1])  # these are not broadcast
    if b.ndim == 1:
        return _vecdot(a, b)
    if a.ndim == 1:
        return _vecdot(a[:, None], b, dim=-2)
    return _vecdot(a[..., :, None], b[..., None, :, :], dim=-2)


@named("isin")
def _isin(
    elements: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False
) -> Any:
    graph = graph_of(elements, test_elements)
    if isinstance(test_elements, (tuple, list)):
        result: Any = Value(graph.false)
        for each in test_elements:
            result = result | (elements == each)
    else:
        tests = operand(graph, test_elements)
        result = _any(operand(graph, elements)[..., None] == tests.reshape(-1), -1)
    return TABLE["logical_not"](result) if invert else result


@named("bucketize")
def _bucketize(input: Any, boundaries: Any, *, right: bool = False) -> Any:
    """How many of the ascending boundaries are below each element; if `right`, or equal to it."""
    graph = graph_of(input, boundaries)
    x, bounds = operand(graph, input), operand(graph, boundaries)
    if bounds.ndim != 1:
        raise error(f"the boundaries have {bounds.ndim} axes, they must have one; index them first")
    x = x[..., None]
    return _sum(bounds <= x if right else bounds < x, -1)


@named("digitize")
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """NumPy's: `right` says that an interval contains its right end, so it counts fewer."""
    return _bucketize(x, bins, right=not right)


@named("searchsorted")
def _searchsorted(
    sorted_sequence: Any, input: Any, side: str | None = None, *, right: bool = False
) -> Any:
    return _bucketize(input, sorted_sequence, right=right or side == "right")


# Axes


@named("size")
def _size(input: Any, dim: Any = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


@named("dim", "ndimension", "rank")
def _dim(input: Any) -> int:
    return int(input.ndim)


@named("numel", "nelement")
def _numel(input: Any) -> Any:
    result: Any = Value(graph_of(input).constant(1))
    for extent in input.shape:
        result = result * extent
    return result


@named("getitem")
def _getitem(input: Any, index: Any) -> Any:
    indices = index if isinstance(index, tuple) else (index,)
    return operand(graph_of(input, *indices), input)[index]


@named("select")
def _select(input: Any, dim: Any = None, index: Any = None) -> Any:
    """PyTorch's `t.select(dim, index)`."""
    if not isinstance(input, Array) or not isinstance(dim, int):
        raise error("this select() cannot be traced; write where(condition, x, y)")
    return input[(slice(None),) * axis_of(dim, input.ndim) + (index,)]


@named("index_select", "take")
def _index_select(input: Any, *args: Any, **named: Any) -> Any:
    raise error("this way to read a tensor cannot be traced; index it, as in t[i]")


@named("embedding")
def _embedding(
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: Any = False,
    sparse: Any = False,
) -> Any:
    if max_norm is not None:
        raise error("embedding() with max_norm cannot be traced; scale the table outside")
    return _getitem(weight, input)


@named("unsqueeze", "expand_dims")
def _unsqueeze(input: Any, dim: Any = None, *, axis: Any = None) -> Any:
    dim = axis if dim is None else dim
    at = axis_of(dim, input.ndim + 1)
    return input[(slice(None),) * at + (None,)] if input.ndim else input[None]


@named("squeeze")
def _squeeze(input: Any, dim: Any = None, *, axis: Any = None) -> Any:
    dim = axis if dim is None else dim
    if not isinstance(input, Array):
        return input
    if dim is None:
        raise error("squeeze() needs the axis here; index the tensor with 0 instead")
    at = axis_of(dim, input.ndim)
    if not is_one(input.nodes[at]):
        return input  # as in PyTorch
    return input[(slice(None),) * at + (0,)]


@named("transpose")
def _transpose(input: Any, *dims: Any, dim0: Any = None, dim1: Any = None, axes: Any = None) -> Any:
    """PyTorch's for two axes, and NumPy's for a tuple or for three and more."""
    dims = dims or tuple(each for each in (dim0, dim1) if each is not None)
    order = axes if axes is not None else dims[0] if len(dims) == 1 else dims
    if order is None or (isinstance(order, tuple) and not order):
        return input.T
    if len(dims) == 2:
        return _swapaxes(input, *dims)
    return _permute(input, order)


@named("swapaxes", "swapdims")
def _swapaxes(input: Any, axis0: Any, axis1: Any) -> Any:
    order = list(range(input.ndim))
    a, b = axis_of(axis0, input.ndim), axis_of(axis1, input.ndim)
    order[a], order[b] = b, a
    return input.transposed(tuple(order))


@named("t")
def _t(input: Any) -> Any:
    return input.T


@named("permute")
def _permute(input: Any, *order: Any, dims: Any = None, axes: Any = None) -> Any:
    if not order:
        order = dims if axes is None else axes
    elif len(order) == 1 and not isinstance(order[0], int):
        order = order[0]
    if len(order) != input.ndim:
        raise error(
            f"{len(order)} axes were given for a tensor with {input.ndim}; name all of them"
        )
    return input.transposed(tuple(axes_of(order, input.ndim)))


@named("flip")
def _flip(input: Any, dims: Any = None, *, axis: Any = None) -> Any:
    axes = _axes(input, dims if axis is None else axis)
    return input[
        tuple(slice(None, None, -1) if axis in axes else slice(None) for axis in range(input.ndim))
    ]


@named("reshape", "view", "flatten", "ravel", "view_as", "squeeze_")
def _reshape(input: Any, *shape: Any) -> Any:
    if not isinstance(input, Traced):
        raise error("a traced value cannot be part of a shape; reshape the tensor outside")
    sizes = shape[0] if shape and isinstance(shape[0], (tuple, list)) else shape
    if isinstance(input, Value):
        if all(isinstance(n, int) and abs(n) == 1 for n in sizes):
            return input[(None,) * len(sizes)]
    elif isinstance(input, Array) and input.ndim == 1 and tuple(sizes) in ((-1,), ()):
        return input
    raise error("a tensor cannot be reshaped in a traced function; reshape it outside")


@named("expand", "broadcast_to")
def _expand(input: Any, *sizes: Any, shape: Any = None, size: Any = None) -> Any:
    wanted = sizes or (shape if shape is not None else size,)
    if len(wanted) == 1 and isinstance(wanted[0], (tuple, list)):
        wanted = tuple(wanted[0])
    graph = graph_of(input, *wanted)
    array = operand(graph, input)
    if not wanted and not array.ndim:
        return input
    added = len(wanted) - array.ndim
    if added < 0:
        raise error(f"{len(wanted)} sizes were given for a tensor with {array.ndim} axes")
    nodes: list[Node] = []
    ones = set()
    for axis, each in enumerate(wanted):
        old = array.nodes[axis - added] if axis >= added else None
        is_kept = isinstance(each, int) and each == -1
        if is_kept and old is None:
            raise error("the size of a new axis is -1, it must be positive")
        node = old if is_kept else operand(graph, each).node
        assert node is not None
        if old is not None and node is not old:
            if is_one(old):
                ones.add(axis)
            else:
                check_extents(old, node)
        nodes.append(node)
    zero = graph.constant(0)

    def element(indices: tuple[Node, ...]) -> Node:
        kept = tuple(zero if i in ones else indices[i] for i in range(added, len(indices)))
        node: Node = array.element(kept) if isinstance(array, Array) else array.node
        return node

    return Array(graph, tuple(nodes), element)


@named("expand_as")
def _expand_as(input: Any, other: Any) -> Any:
    return _expand(input, tuple(operand(graph_of(input, other), other).shape))
