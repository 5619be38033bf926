# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes new keys and values into pages, with rotary embedding."""

from __future__ import annotations

from typing import Any

from tesela import _native
from tesela._arguments import axes, is_narrow, switch, tensor_shape
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._serving import Place, framework_of, page_size, scale_of
from tesela._variant import as_variant


def _is_sum(distance: int, axes: list[tuple[int, int]]) -> bool:
    """Whether ``distance`` is a sum of strides, each with a factor smaller than the extent."""
    if not axes:
        return distance == 0
    (stride, extent), *rest = axes
    most = sum(stride * (extent - 1) for stride, extent in rest)
    first, last = -((most - distance) // stride), (distance + most) // stride
    factors = range(max(first, 1 - extent), min(last, extent - 1) + 1)
    return any(_is_sum(distance - factor * stride, rest) for factor in factors)


def _end(tensor: Any, begin: int, strides: tuple[int, ...], size: int) -> int:
    """The address after the last element."""
    last: int = sum(
        stride * (extent - 1) for stride, extent in zip(strides, tensor.shape, strict=True)
    )
    return begin + last + size


def _share_memory(out: Any, q: Any) -> bool:
    """Whether some elements of both are at the same address.

    For tensors with different strides: whether one begins before the other one ends.
    """
    if 0 in out.shape or 0 in q.shape:
        return False
    of_out = framework_of(out, "out").memory(out)
    of_q = framework_of(q, "q").memory(q)
    if out.shape == q.shape and of_out[1:] == of_q[1:]:
        begin, strides, size = of_q
        steps = sorted(zip(strides, q.shape, strict=True), reverse=True)
        return _is_sum(of_out[0] - begin, [*(each for each in steps if each[0] > 0), (1, size)])
    return bool(of_out[0] < _end(q, *of_q) and of_q[0] < _end(out, *of_out))


def _is_latent(v: Any, v_pages: Any) -> bool:
    """Whether a key's first columns are its value, so that there are no values."""
    if (v is None) != (v_pages is None):
        raise InvalidArgumentError(
            f"{'v' if v is None else 'v_pages'} is None, but not "
            f"{'v_pages' if v is None else 'v'}: pass both, or neither for a latent cache, whose "
            "rows are keys and values at once"
        )
    return v is None


def _check_new(q: Any, name: str, new: Any, pages: Any) -> None:
    """Checks that ``new``, keys or values, has the tokens of ``q`` and the heads of ``pages``."""
    shape = tuple(q.shape)
    new_shape = axes(name, new, len(shape), "of q")
    if new_shape[:-2] != shape[:-2]:
        raise InvalidArgumentError(
            f"{name} has the shape {new_shape}, and q has {shape}: both must have the same tokens"
        )
    if new_shape[-2:] != tuple(pages.shape[2:]):
        raise InvalidArgumentError(
            f"{name} has the shape {new_shape}, and {name}_pages has {tuple(pages.shape)}: "
            "both must have the same heads and head dimension"
        )


def _scales(q: Any, heads: int, is_narrow: bool, given: tuple[tuple[str, Any], ...]) -> list[Any]:
    """The scales of pages with elements of 8 bits, and empty tensors for other pages."""
    framework = framework_of(q, "q")
    scales = []
    for name, scale in given:
        if (scale is not None) != is_narrow:
            raise InvalidArgumentError(
                f"{name} is missing: pages of 8 bits need it, a number or a float32 tensor"
                if scale is None
                else f"{name} is given, and the pages' elements have more than 8 bits: leave it out"
            )
        if scale is None:
            scales.append(framework.empty(q, (0,), True))
            continue
        scale = scale_of(name, scale, q)
        if tuple(scale.shape) not in ((1,), (heads,)):
            raise InvalidArgumentError(
                f"{name} has the shape {tuple(scale.shape)}, it must have one number, or "
                f"[{heads}] with one for each kv head"
            )
        scales.append(scale)
    return scales


def _rotary(shape: tuple[int, ...], cos: Any, sin: Any, positions: Any) -> int:
    """How many columns are rotated."""
    if (cos is None) != (sin is None) or (cos is not None and positions is None):
        raise InvalidArgumentError(
            "cos, sin and positions belong together: pass all of them, or leave cos and sin out"
        )
    if cos is None:
        return 0
    tensor_shape("positions", positions, "[tokens] or [B, Sq]")
    rotary = 2 * axes("cos", cos, 2, "[positions, pairs]")[1]
    if axes("sin", sin, 2, "[positions, pairs]") != tuple(cos.shape) or rotary > shape[-1]:
        raise InvalidArgumentError(
            f"cos has the shape {tuple(cos.shape)} and sin {tuple(sin.shape)}: both must have "
            f"the same shape, with at most {shape[-1] // 2} pairs, half of the head dimension"
        )
    return rotary


def _pieces(columns: int, rotary: int) -> int:
    """Into how many pieces a latent row is cut. Rotated columns are in the last piece.

    A piece is a kernel's head, with at most 256 columns. 64 columns make enough work items.
    """
    widths = [w for w in range(8, min(columns, 256) + 1, 8) if columns % w == 0 and w >= rotary]
    if not widths:
        raise InvalidArgumentError(
            f"rows of {columns} columns, of which the last {rotary} are rotated, cannot be cut "
            "into pieces: a piece has a multiple of 8 columns, at most 256, and all that are "
            "rotated"
        )
    wide = [w for w in widths if w >= 64]
    return columns // (wide[0] if wide else widths[-1])


def write_pages(
    q: Any,
    k: Any,
    v: Any,
    k_pages: Any,
    v_pages: Any,
    *,
    slots: Any,
    positions: Any = None,
    cos: Any = None,
    sin: Any = None,
    interleaved: bool = False,
    k_scale: Any = None,
    v_scale: Any = None,
    out: Any = None,
) -> Any:
    """Writes new keys and values into pages. Applies rotary embedding to queries and keys.

    It is one launch, before the attention of the same step. Row ``r`` of page ``p`` is the slot ``p
    * page + r``. A token whose slot does not exist (such as -1 for padding) is not written.

    Args:
        q: new queries, ``[tokens, H, Dqk]`` or ``[B, Sq, H, Dqk]``, of PyTorch or NumPy.
        k: new keys, ``[tokens, Hkv, Dqk]`` or ``[B, Sq, Hkv, Dqk]``.
        v: new values, ``[tokens, Hkv, Dv]`` or ``[B, Sq, Hkv, Dv]``. None: the cache is latent, so
            a key's first columns are its value. Then ``v_pages`` is None, too.
        k_pages: pages of keys, ``[pages, page, Hkv, Dqk]``, in q's type or float8_e4m3fn. The rows
            of all pages must follow one another at the same distance.
        v_pages: pages of values, the same with Dv.
        slots: int32 ``[tokens]`` or ``[B, Sq]``, on q's device: the slot of each token.
        positions: int32 like ``slots``: the position of each token; needed with ``cos``.
        cos: float32 ``[positions, R / 2]``: cosines of the angles of rotary embedding, by position
            and pair of columns. The first R columns are rotated, and those of a latent cache's
            rows and queries are the last R. None: no rotation.
        sin: the sines.
        interleaved: whether a pair is columns 2i and 2i + 1 (GPT-J), or i and i + R / 2 (NeoX,
            Llama).
        k_scale: for pages of 8 bits: a number, or a float32 tensor with one number for each kv
            head. Keys are divided by it.
        v_scale: the same for values.
        out: the tensor that receives the rotated queries, in other memory than q; None: a new
            tensor.

    Returns:
        The rotated queries, with q's shape and type.

    Raises:
        InvalidArgumentError: a shape, stride or type is not accepted. The message says which.
        UnsupportedError: there are no kernels for the device or the type, or an argument requires a
            gradient.
    """
    framework = framework_of(q, "q")
    framework.refuse_gradients((q, k, v, k_pages, v_pages, cos, sin, k_scale, v_scale))
    place: Place = framework.place(q)
    interleaved = switch("interleaved", interleaved)
    shape = tuple(q.shape)
    if len(shape) not in (3, 4):
        raise InvalidArgumentError(
            f"q has the shape {shape}, it must have the axes [tokens, heads, head dimension], or "
            "[B, Sq, heads, head dimension]"
        )
    is_latent = _is_latent(v, v_pages)
    new = [("k", k, k_pages)] if is_latent else [("k", k, k_pages), ("v", v, v_pages)]
    both = [(f"{name}_pages", pages) for name, _, pages in new]
    page_size(both[0], both[-1], "[pages, page, heads, head dimension]", 1)
    for name, each, pages in new:
        _check_new(q, name, each, pages)
    if is_latent and k.shape[-1] != shape[-1]:
        raise InvalidArgumentError(
            f"k has the shape {tuple(k.shape)}, and q has {shape}: without v both must have the "
            "same head dimension"
        )
    tensor_shape("slots", slots, "[tokens] or [B, Sq]")
    rotary = _rotary(shape, cos, sin, positions)
    if cos is None:
        cos = sin = framework.empty(q, (0, 0), True)
        positions = slots
    narrow = [is_narrow(name, pages) for name, pages in both]
    if narrow[0] != narrow[-1]:
        raise InvalidArgumentError(
            f"k_pages' elements are {k_pages.dtype}, v_pages' are {v_pages.dtype}: both must have "
            "8 bits, or neither"
        )
    if is_latent and narrow[0]:
        raise UnsupportedError(
            "k_pages' elements have 8 bits, and a latent cache has elements of q's type: convert it"
        )
    scales = _scales(q, k.shape[-2], narrow[0], (("k_scale", k_scale), ("v_scale", v_scale)))
    pieces = _pieces(shape[-1], rotary) if is_latent else 1
    types = {_native.F32: "f32", _native.F16: "f16", _native.BF16: "bf16"}
    element = "e4m3" if narrow[0] else types[place.input_type]
    kernel = as_variant("full")._kernel(
        place.input_type,
        shape[-1] // pieces,
        shape[-1] // pieces if is_latent else v.shape[-1],
        place.device,
        (),
        "write_latents" if is_latent else "write_pages",
        (
            f"rotary={rotary}",
            f"interleaved={int(interleaved)}",
            f"pieces={pieces}" if is_latent else f"element={element}",
        ),
    )
    if out is not None and tensor_shape("out", out, "of q") and _share_memory(out, q):
        raise InvalidArgumentError(
            "out shares memory with q, but q is still read while out is written: leave out= out, "
            "or pass another tensor"
        )
    if out is not None and tuple(out.shape) != shape:
        raise InvalidArgumentError(
            f"out has the shape {tuple(out.shape)}, and q has {shape}: both must have the same"
        )
    if out is None:
        out = framework.empty(q, shape, False)
    batches = 1 if len(shape) == 3 else shape[0]

    def by_batch(tensor: Any) -> Any:
        return tensor.reshape((batches, -1)) if batches else tensor  # -1 is ambiguous for 0

    def rows(name: str, pages: Any) -> Any:
        return cut(name, framework.rows_of_pages(name, pages))

    def cut(name: str, tensor: Any) -> Any:
        return framework.pieces_of_heads(name, tensor, pieces) if pieces > 1 else tensor

    tensors = {
        "q": cut("q", q),
        "k_new": cut("k", k),
        "o": cut("out", out),
        "k": rows("k_pages", k_pages),
        "cos": cos,
        "sin": sin,
        "positions": by_batch(positions),
        "slots": by_batch(slots),
    }
    if not is_latent:
        tensors["v_new"], tensors["v"] = v, rows("v_pages", v_pages)
        tensors["k_scale"], tensors["v_scale"] = scales
    kernel.launch_named(
        tuple(tensors),
        tuple(tensors.values()),
        None,
        (),
        (),
        (),
        True,
        place.stream,
        place.allocate,
    )
    return out
