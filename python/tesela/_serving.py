# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention for serving: sequences of any length, keys in pages, few queries, parts of the keys."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

from tesela import _native
from tesela._arguments import (
    agree,
    axes,
    bound,
    is_narrow,
    switch,
    tensor_shape,
    tokens_before_heads,
)
from tesela._contexts import context
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import Variant, as_variant
from tesela._variant import variant as variant_of

Positions = Literal["begin", "end"]
TokenLayout = Literal["bshd", "bhsd"]

_FEW_QUERIES = 64
"""In each sequence. With more queries their blocks keep a device busy without splitting."""

_FEW_KEYS = 512
"""In each sequence. Splitting fewer keys costs more than it gains."""


ROWS_APART = (
    "'s pages must follow one another in memory, row by row, without gaps: pass a tensor that "
    "contains whole pages only"
)
"""The end of a message about a tensor whose rows are used as slots; its name comes first."""


HEADS_APART = "'s heads must follow one another in memory without gaps: pass a contiguous tensor"
"""The end of a message about a tensor whose heads are cut into pieces; its name comes first."""


class Place(NamedTuple):
    """The type and the device of a launch.

    Attributes:
        input_type: the library's number of the element type.
        device: CUDA's ordinal, or ``HOST``.
        stream: the device's current stream.
        allocate: allocates device memory for a launch; None on the host.
    """

    input_type: int
    device: int
    stream: int
    allocate: Any


class Framework(Protocol):
    """The functions that a framework provides (``tesela._numpy``, ``tesela.torch._serving``)."""

    @staticmethod
    def place(tensor: Any, name: str = "q", is_part: bool = False) -> Place: ...
    @staticmethod
    def empty(like: Any, shape: tuple[int, ...], is_f32: bool) -> Any: ...
    @staticmethod
    def stack(tensors: Sequence[Any]) -> Any: ...
    @staticmethod
    def number(like: Any, value: float) -> Any: ...
    @staticmethod
    def refuse_gradients(tensors: Sequence[Any]) -> None: ...
    @staticmethod
    def memory(tensor: Any) -> tuple[int, tuple[int, ...], int]: ...
    @staticmethod
    def rows_of_pages(name: str, pages: Any) -> Any: ...
    @staticmethod
    def pieces_of_heads(name: str, tensor: Any, pieces: int) -> Any: ...
    @staticmethod
    def query_rows(starts_q: Any, lengths: Any, tokens: int) -> tuple[Any, Any, Any]: ...


_MODULES = {"numpy": "_numpy", "torch": "torch._serving"}


def framework_of(tensor: Any, name: str) -> Any:
    """The functions of the framework of ``tensor``, which is the argument ``name``."""
    for base in type(tensor).__mro__:
        module = _MODULES.get(base.__module__.partition(".")[0])
        if module is not None:
            return importlib.import_module(f"tesela.{module}").Serving
    raise InvalidArgumentError(
        f"{name} is of the type {type(tensor)}, it must be a tensor of PyTorch or NumPy: convert it"
    )


def scale_of(name: str, scale: Any, q: Any) -> Any:
    """A number or a tensor as a tensor with at least one axis."""
    if isinstance(scale, Real):
        return framework_of(q, "q").number(q, float(scale))
    shape = tensor_shape(name, scale, "[1] or [kv heads], or a number")
    return scale if shape else scale.reshape((1,))


def page_size(k: tuple[str, Any], v: tuple[str, Any], of: str, axis: int) -> int:
    """The number of rows, ``axis``, of pages of keys and values, which come with their names."""
    (k_name, k_pages), (v_name, v_pages) = k, v
    k_shape, v_shape = axes(k_name, k_pages, 4, of), axes(v_name, v_pages, 4, of)
    agree("pages", k_name, k_shape[0], v_name, v_shape[0])
    agree("rows", f"a page of {k_name}", k_shape[axis], f"a page of {v_name}", v_shape[axis])
    if k_shape[axis] < 1:
        raise InvalidArgumentError(f"a page of {k_name} has 0 rows, it must have at least one")
    return k_shape[axis]


class Call:
    """Collects the bindings and tensors of a launch over sequences."""

    def __init__(self, function: Callable[..., Any], layout: str, positions: Any) -> None:
        self.function = function  # errors name its keywords
        self.is_bshd = tokens_before_heads(layout)
        self.positions = positions
        self.bindings: list[str] = []
        self.names: list[str] = ["q", "k", "v", "o", "lse"]
        self.tensors: list[Any] = []
        self.extents: list[tuple[str, int]] = []
        self.captures: tuple[tuple[str, Any], ...] = ()  # the captured tensors of the template
        self.batch = 0
        self.most_keys = 0  # how many keys a row of the table can hold
        if isinstance(positions, str):
            if positions not in ("begin", "end"):
                raise InvalidArgumentError(
                    f"positions is {positions!r}, it must be 'begin', 'end' or a tensor of int32 "
                    "[B], the position of each sequence's first query"
                )
            self.bindings.append(f"positions={positions}")
        else:
            axes("positions", positions, 1, "[B], or 'begin' or 'end'")
            if str(positions.dtype).rpartition(".")[2] != "int32":
                raise InvalidArgumentError(
                    f"positions' elements are {positions.dtype}, they must be int32: convert them"
                )
            self.bindings.append("positions=given")
            self.add("offsets", positions)

    def add(self, name: str, tensor: Any) -> None:
        self.names.append(name)
        self.tensors.append(tensor)

    def order(self, rows: str, *before: str) -> str:
        """The axes of a tensor whose rows are ``rows``, in the order of the layout."""
        inner = (rows, "heads") if self.is_bshd else ("heads", rows)
        return f"[{', '.join((*before, *inner))}, head dimension]"

    def add_pages(self, k: Any, v: Any, table: Any, lengths: Any) -> None:
        """Adds the pages of keys and values. Sets the number of sequences."""
        keys, values = ("k", k), ("v", k if v is None else v)
        page = page_size(keys, values, self.order("page", "pages"), 1 if self.is_bshd else 2)
        self.batch, pages = axes("table", table, 2, "[B, most pages of a sequence]")
        self.most_keys = page * pages
        self.bindings += ["keys=paged", f"page={page}"]
        self.add("table", table)
        axes("lengths", lengths, 1, "[B]")
        self.add("lengths", lengths)

    def add_starts(self, starts_q: Any) -> None:
        """Adds the queries of sequences that follow one another."""
        axes("starts_q", starts_q, 1, "[B + 1]")
        self.bindings.append("queries=ragged")
        self.add("starts_q", starts_q)

    def value_dim_of(self, k: Any, v: Any, value_dim: int | None) -> int:
        """The head dimension of values. If v is None, values are the first columns of k."""
        if v is not None:
            if value_dim is not None:
                raise InvalidArgumentError(
                    f"value_dim is {value_dim}, and v is given: pass value_dim only if the values "
                    "are the first columns of k and v is None; leave one of them out"
                )
            return int(v.shape[-1])
        dim_of_keys = k.shape[-1]
        if value_dim is None or not 0 < int(value_dim) <= dim_of_keys:
            raise InvalidArgumentError(
                f"v is None, and value_dim is {value_dim}: pass how many of k's {dim_of_keys} "
                "columns are the values, or a tensor v"
            )
        self.bindings.append("values=keys")
        self.names.remove("v")
        return int(value_dim)

    def add_scales(self, q: Any, keys: tuple[Any, Any], scales: tuple[Any, Any]) -> None:
        """Adds the scales of keys and values with 8 bits. Other types have none."""
        if keys[1] is None:
            if is_narrow("k", keys[0]):
                raise UnsupportedError(
                    f"v is None, and k's elements are {keys[0].dtype}: keys of 8 bits need values "
                    "of their own; pass v, or keys of 16 bits"
                )
            if scales != (None, None):
                raise InvalidArgumentError(
                    "v is None, and a scale is given: only separate keys and values of 8 bits have "
                    "scales; leave the scale out"
                )
            return
        names = ("k", "v")
        are_narrow = [is_narrow(name, each) for name, each in zip(names, keys, strict=True)]
        for name, tensor, has_scale, scale in zip(names, keys, are_narrow, scales, strict=True):
            if has_scale and scale is None:
                raise InvalidArgumentError(
                    f"{name}_scale is missing, and {name}'s elements have 8 bits: pass the factor "
                    "of the elements, a number or a float32 tensor"
                )
            if scale is not None and not has_scale:
                raise InvalidArgumentError(
                    f"{name}_scale is given, and {name}'s elements are {tensor.dtype}: only "
                    "elements of float8_e4m3fn have scales; leave it out"
                )
        if are_narrow[0] != are_narrow[1]:
            raise InvalidArgumentError(
                f"k's elements are {keys[0].dtype}, v's are {keys[1].dtype}: both must have 8 "
                "bits, or neither"
            )
        if not are_narrow[0]:
            return
        is_paged = any(binding == "keys=paged" for binding in self.bindings)
        pages = keys[0].shape[0]
        heads = keys[0].shape[-2 if self.is_bshd else -3]
        placed = []
        for name, scale in zip(names, scales, strict=True):
            scale = scale_of(f"{name}_scale", scale, q)
            shape = tuple(scale.shape)
            fits = len(shape) <= 2 and shape[-1] in (1, heads)
            if len(shape) == 2:
                fits = fits and is_paged and shape[0] in (1, pages)
            if not fits:
                raise InvalidArgumentError(
                    f"{name}_scale has the shape {shape}, it must have one number, or [{heads}] "
                    "with one for each kv head"
                    + (f", or [{pages}, 1 or {heads}] with one for each page" if is_paged else "")
                )
            placed.append(scale)
        is_by_page = any(len(scale.shape) == 2 for scale in placed)
        for name, scale in zip(names, placed, strict=True):
            if is_by_page and len(scale.shape) == 1:
                scale = scale.reshape((1, -1))
            self.add(f"{name}_scale", scale)
        self.bindings += ["cache=e4m3", f"scales={'page' if is_by_page else 'head'}"]

    def launch(
        self,
        q: Any,
        k: Any,
        v: Any,
        variant: Any,
        scale: float | None,
        return_lse: bool,
        out: Any,
        split: bool | None,
        most_queries: int,
        most_keys: int,
        parameters: dict[str, Any],
        value_dim: int | None = None,
    ) -> Any:
        framework = framework_of(q, "q")
        place: Place = framework.place(q)
        if not isinstance(self.positions, str):
            agree("sequences", "positions", len(self.positions), "the launch", self.batch)
        head_dim_v = self.value_dim_of(k, v, value_dim)
        if callable(variant) and not isinstance(variant, Variant):
            variant, parameters = variant_of(variant, **parameters), {}
        variant = as_variant(variant)
        if split is not None:
            split = switch("split", split)
        else:
            split = most_queries <= _FEW_QUERIES and most_keys > _FEW_KEYS
        algorithm, bindings = "forward", tuple(self.bindings)
        if split:
            algorithm = "forward_in_parts"
            axis_of_heads = -2 if self.is_bshd else -3
            heads, kv_heads = q.shape[axis_of_heads], k.shape[axis_of_heads]
            workers = context(place.device).workers(
                *(place.input_type, q.shape[-1], head_dim_v, "cache=e4m3" in self.bindings),
                (self.batch, heads, kv_heads, most_queries, most_keys),
            )
            bindings = (*bindings, f"workers={workers}")
        values, constants = variant._arguments(parameters, self.function)
        own = (each for _, each in self.captures)
        own_values = () if v is None else (v,)
        framework.refuse_gradients((q, k, *own_values, *values, *self.tensors, *own))
        kernel = variant._kernel(
            place.input_type, q.shape[-1], head_dim_v, place.device, constants, algorithm, bindings
        )
        if out is None:
            out = framework.empty(q, (*q.shape[:-1], head_dim_v), False)
        lse = None
        if return_lse or self.captures:  # the kernel that joins two parts reads the logarithms
            *batch, second, third = q.shape[:-1]
            rows = (third, second) if self.is_bshd else (second, third)
            lse = framework.empty(q, (*batch, *rows), True)
        self.extents += [("Sq", most_queries), ("Sk", most_keys)]
        kernel.launch_named(
            tuple(self.names),
            (q, k, *own_values, out, lse, *self.tensors),
            scale,
            values,
            self.captures,
            tuple(self.extents),
            self.is_bshd,
            place.stream,
            place.allocate,
        )
        return (out, lse) if return_lse else out


def attention_ragged(
    q: Any,
    k: Any,
    v: Any,
    variant: Any = "causal",
    *,
    starts_q: Any,
    starts_k: Any = None,
    max_queries: int,
    max_keys: int | None = None,
    positions: Positions | Any = "begin",
    scale: float | None = None,
    return_lse: bool = False,
    layout: TokenLayout = "bshd",
    out: Any = None,
    split: bool | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    value_dim: int | None = None,
    **parameters: Any,
) -> Any:
    """Attention within each of several sequences that follow one another, without padding.

    Sequence b has the queries ``starts_q[b] .. starts_q[b + 1]`` and the keys ``starts_k[b] ..
    starts_k[b + 1]``. In a mask and a score, ``q k Sq Sk b`` belong to the sequence. The lengths
    are on the device: nothing is copied to the host, and a CUDA graph of the call also serves other
    lengths up to the bounds. Wrong starts never cause an access outside of the tensors.

    Args:
        q: queries, ``[tokens, H, Dqk]``, or ``[H, tokens, Dqk]`` with ``layout="bhsd"``: a tensor
            of PyTorch or NumPy. Types, strides and addresses must be as for
            :func:`tesela.attention`.
        k: keys, ``[tokens of keys, Hkv, Dqk]``.
        v: values, ``[tokens of keys, Hkv, Dv]``; None: the first ``value_dim`` columns of k.
        variant: a :class:`tesela.Variant`, or what :func:`tesela.variant` takes. Captured tensors
            with the extents Sq and Sk must have the sizes ``max_queries`` and ``max_keys``; they
            are read at positions in the sequence.
        starts_q: int32 ``[B + 1]``, on q's device, ascending.
        starts_k: int32 ``[B + 1]``, the same for keys; None: ``starts_q``.
        max_queries: an upper bound for the queries of a sequence.
        max_keys: an upper bound for the keys of a sequence; None, if ``starts_k`` is None:
            ``max_queries``.
        positions: the position of a sequence's first query among its keys: ``"begin"`` means 0;
            ``"end"`` means that the last query has the position of the last key; or an int32
            ``[B]`` on the device.
        scale: the factor of ``q k^T``; None: ``1/sqrt(Dqk)``.
        return_lse: also return the natural logarithm of each row's sum, ``[H, tokens]`` in float32.
        layout: the order of the axes.
        out: the tensor that receives the result; None: a new tensor.
        split: whether work items share the keys of a sequence, so that a second kernel joins their
            results; None: if ``max_queries`` is small and ``max_keys`` is not.
        k_scale: for k with 8-bit elements (float8_e4m3fn) and a wider q: the factor of k's
            elements, which the kernel applies after loading. One number, or a float32 tensor on q's
            device with one number for each kv head.
        v_scale: the same for values.
        value_dim: Dv, if v is None. The kernel then reads each key once, for multi-head latent
            attention (Dqk 576, Dv 512).
        parameters: values of the variant's parameters.

    Returns:
        The result, ``[tokens, H, Dv]``; with ``return_lse`` a pair. Rows of tokens that belong to
        no sequence are not written.

    Raises:
        InvalidArgumentError: a shape, stride, type or bound is not accepted. The message says
            which.
        UnsupportedError: there are no kernels for the device or the type.
    """
    call = Call(attention_ragged, layout, positions)
    of, axis = call.order("tokens"), 0 if call.is_bshd else 1
    axes("q", q, 3, of)
    k_tokens = axes("k", k, 3, of)[axis]
    if v is not None:
        agree("tokens", "k", k_tokens, "v", axes("v", v, 3, of)[axis])
    most_queries = bound("max_queries", max_queries)
    if max_keys is None and starts_k is not None:
        bound("max_keys", None)
    call.bindings += ["queries=ragged", "keys=ragged"]
    (starts,) = axes("starts_q", starts_q, 1, "[B + 1]")
    call.add("starts_q", starts_q)
    if starts_k is not None:
        axes("starts_k", starts_k, 1, "[B + 1]")
    call.add("starts_k", starts_q if starts_k is None else starts_k)
    call.batch = max(starts - 1, 0)
    call.extents.append(("B", call.batch))
    call.add_scales(q, (k, v), (k_scale, v_scale))
    most_keys = most_queries if max_keys is None else bound("max_keys", max_keys)
    return call.launch(
        *(q, k, v, variant, scale, return_lse, out, split, most_queries, most_keys, parameters),
        value_dim,
    )


def attention_paged(
    q: Any,
    k: Any,
    v: Any,
    variant: Any = "causal",
    *,
    table: Any,
    lengths: Any,
    starts_q: Any = None,
    max_queries: int | None = None,
    max_keys: int | None = None,
    positions: Positions | Any = "end",
    scale: float | None = None,
    return_lse: bool = False,
    layout: TokenLayout = "bshd",
    out: Any = None,
    split: bool | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    value_dim: int | None = None,
    **parameters: Any,
) -> Any:
    """Attention over keys and values in pages.

    Key i of sequence b is row ``i % page`` of page ``table[b, i // page]``. The sequence has
    ``lengths[b]`` keys; neither later rows nor their part of the table are read. Table and lengths
    are on the device: nothing is copied to the host, and a CUDA graph of the call also serves other
    lengths, tables and offsets. A wrong table or length never causes an access outside of the
    pages.

    Args:
        q: queries, ``[B, Sq, H, Dqk]``, or ``[B, H, Sq, Dqk]`` with ``layout="bhsd"``; with
            ``starts_q`` ``[tokens, H, Dqk]``, or ``[H, tokens, Dqk]``.
        k: pages of keys, ``[pages, page, Hkv, Dqk]``, or ``[pages, Hkv, page, Dqk]`` with
            ``layout="bhsd"``; any strides. Pages of 64 rows or more are fastest. A page may have
            one row, but that is slow.
        v: pages of values, with the same axes; None: the first ``value_dim`` columns of k.
        variant: as for :func:`attention_ragged`.
        table: int32 ``[B, most pages of a sequence]``, on q's device.
        lengths: int32 ``[B]``: the number of keys of each sequence, including those of its own
            queries.
        starts_q: int32 ``[B + 1]``: the first row of each sequence's queries, and the end of the
            last, if sequences have different numbers of queries; None: each sequence has Sq.
        max_queries: with ``starts_q``: an upper bound for the queries of a sequence.
        max_keys: an upper bound for the keys of a sequence; None: the keys that a row of the table
            can hold.
        positions: as for :func:`attention_ragged`; use ``"end"`` for decoding, speculative decoding
            and chunks of a prompt.
        scale: this and the following arguments are those of :func:`attention_ragged`.
        return_lse: also return the logarithms, ``[B, H, Sq]``, or ``[H, tokens]`` with
            ``starts_q``.
        layout: the order of the axes of q, the pages and the result.
        out: see scale.
        split: see scale.
        k_scale: as for :func:`attention_ragged`; or a float32 tensor with one number for each page,
            ``[pages, 1]``, or for each kv head of each page, ``[pages, Hkv]``.
        v_scale: the same for values.
        value_dim: see scale.
        parameters: see scale.

    Returns:
        The result, of q's shape with Dv in place of Dqk; with ``return_lse`` a pair.

    Raises:
        InvalidArgumentError: a shape, stride, type or bound is not accepted. The message says
            which.
        UnsupportedError: there are no kernels for the device or the type.
    """
    call = Call(attention_paged, layout, positions)
    call.add_pages(k, v, table, lengths)
    if starts_q is None:
        q_shape = axes("q", q, 4, call.order("Sq", "B"))
        most_queries = q_shape[1 if call.is_bshd else 2]
    else:
        axes("q", q, 3, f"{call.order('tokens')}, since starts_q is given")
        most_queries = bound("max_queries", max_queries)
        call.add_starts(starts_q)
    call.add_scales(q, (k, v), (k_scale, v_scale))
    most_keys = call.most_keys if max_keys is None else bound("max_keys", max_keys)
    return call.launch(
        *(q, k, v, variant, scale, return_lse, out, split, most_queries, most_keys, parameters),
        value_dim,
    )


_TYPE_NAMES = {_native.F32: "f32", _native.F16: "f16", _native.BF16: "bf16"}


def _stacked(name: str, parts: Any) -> Any:
    """The parts as one tensor, with a first axis of parts."""
    if not isinstance(parts, list | tuple):
        tensor_shape(name, parts, "of the parts, or a list of tensors")
        return parts
    if not parts:
        raise InvalidArgumentError(f"{name} is {parts!r}: pass at least one part")
    shapes = [tensor_shape(f"each of {name}", each, "of a part") for each in parts]
    try:
        return framework_of(parts[0], f"each of {name}").stack(parts)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(
            f"{name} has parts of the shapes {', '.join(map(str, shapes))}: all parts must have "
            "one shape, and be of one framework and on one device"
        ) from error


def merge_partials(
    outs: Any,
    lses: Any,
    *,
    return_lse: bool = False,
    layout: TokenLayout = "bshd",
    out: Any = None,
) -> Any:
    """Joins results of attention over parts of the keys into the result over all of them.

    ``lse = log(sum_p exp(lse_p))`` and ``out = sum_p exp(lse_p - lse) out_p``. A part without keys
    has the logarithm -inf; its result is ignored.

    Args:
        outs: the results of the parts: a sequence of two or more tensors ``[tokens, H, Dv]`` or
            ``[B, Sq, H, Dv]`` (``[H, tokens, Dv]``, ``[B, H, Sq, Dv]`` with ``layout="bhsd"``), or
            one tensor with an additional first axis of parts, which is not copied. In float32,
            bfloat16 or float16.
        lses: the logarithms of the parts, float32 ``[H, tokens]`` or ``[B, H, Sq]``, given in the
            same way.
        return_lse: also return the joined logarithms.
        layout: the order of the axes of the results.
        out: the tensor that receives the result, float32, float16 or bfloat16; None: a new tensor
            of the parts' type.

    Returns:
        The joined result; with ``return_lse`` a pair.

    Raises:
        InvalidArgumentError: the shapes do not fit to each other. The message says which.
    """
    outs, lses = _stacked("outs", outs), _stacked("lses", lses)
    framework = framework_of(outs, "outs")
    is_bshd = tokens_before_heads(layout)
    shape = tuple(outs.shape)
    if len(shape) not in (4, 5) or shape[0] < 1:
        raise InvalidArgumentError(
            f"the results have the shape {shape}, they must have an axis of parts, and then "
            "[tokens, heads, head dimension] or [B, Sq, heads, head dimension]"
        )
    parts, *rest = shape
    *batch, second, third, head_dim = rest
    heads, queries = (third, second) if is_bshd else (second, third)
    expected = (parts, *batch, heads, queries)
    if tuple(lses.shape) != expected:
        raise InvalidArgumentError(
            f"the logarithms have the shape {tuple(lses.shape)}, the results' is {shape}: they "
            f"must have {expected}"
        )
    framework.refuse_gradients((outs, lses))
    place: Place = framework.place(outs, "outs", is_part=True)
    if out is None:
        out = framework.empty(outs, tuple(rest), False)
    of_out: Place = framework_of(out, "out").place(out, "out", is_part=True)
    lse = framework.empty(outs, expected[1:], True) if return_lse else None
    kernel = as_variant("full")._kernel(
        _native.BF16,  # of q, k and v, which this kernel does not have
        *(head_dim, head_dim, place.device, (), "merge"),
        (f"part={_TYPE_NAMES[place.input_type]}", f"output={_TYPE_NAMES[of_out.input_type]}"),
    )
    # Part p of batch b is the batch p · B + b of the launch.
    launches_batches = (-1, *shape[-3:])
    kernel.launch_named(
        ("o_parts", "lse_parts", "o", "lse"),
        (
            *(outs.reshape(launches_batches), lses.reshape((-1, *expected[-2:]))),
            *(out, lse),
        ),
        None,
        (),
        (("parts", float(parts)),),
        (),
        is_bshd,
        place.stream,
        place.allocate,
    )
    return (out, lse) if return_lse else out
