# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes new keys and values into pages, with rotary embedding."""

from __future__ import annotations

from typing import Any

from tesela import _native
from tesela._errors import InvalidArgumentError
from tesela._serving import Place, axes, framework_of
from tesela._variant import as_variant


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
        v: new values, ``[tokens, Hkv, Dv]`` or ``[B, Sq, Hkv, Dv]``.
        k_pages: pages of keys, ``[pages, page, Hkv, Dqk]``, in q's type or float8_e4m3fn. The rows
            of all pages must follow one another at the same distance.
        v_pages: pages of values, the same with Dv.
        slots: int32 ``[tokens]`` or ``[B, Sq]``, on q's device: the slot of each token.
        positions: int32 like ``slots``: the position of each token; needed with ``cos``.
        cos: float32 ``[positions, R / 2]``: cosines of the angles of rotary embedding, by position
            and pair of columns. The first R columns are rotated. None: no rotation.
        sin: the sines.
        interleaved: whether a pair is columns 2i and 2i + 1 (GPT-J), or i and i + R / 2 (NeoX,
            Llama).
        k_scale: for pages of 8 bits: a number, or a float32 tensor with one number for each kv
            head. Keys are divided by it.
        v_scale: the same for values.
        out: the tensor that receives the rotated queries, not q itself; None: a new tensor.

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
    shape = tuple(q.shape)
    if len(shape) not in (3, 4):
        raise InvalidArgumentError(
            f"q has the shape {shape}, it must have the axes [tokens, heads, head dimension], or "
            "[B, Sq, heads, head dimension]"
        )
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        axes(name, pages, 4, "[pages, page, heads, head dimension]")
    if (cos is None) != (sin is None) or (cos is not None and positions is None):
        raise InvalidArgumentError(
            "cos, sin and positions belong together: pass all of them, or leave cos and sin out"
        )
    are_narrow = [framework.is_narrow(pages) for pages in (k_pages, v_pages)]
    if are_narrow[0] != are_narrow[1]:
        raise InvalidArgumentError(
            f"k_pages' elements are {k_pages.dtype}, v_pages' are {v_pages.dtype}: both must have "
            "8 bits, or neither"
        )
    scales = []
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if (scale is not None) != are_narrow[0]:
            raise InvalidArgumentError(
                f"{name} is missing: pages of 8 bits need it, a number or a float32 tensor"
                if scale is None
                else f"{name} is given, and the pages' elements have more than 8 bits: leave it out"
            )
        if scale is None:
            scales.append(framework.empty(q, (0,), True))
            continue
        if isinstance(scale, int | float):
            scale = framework.number(q, float(scale))
        axes(name, scale, 1, "[kv heads] or [1]")
        if len(scale) not in (1, k.shape[-2]):
            raise InvalidArgumentError(
                f"{name} has the shape {tuple(scale.shape)}, it must have one number, or "
                f"[{k.shape[-2]}] with one for each kv head"
            )
        scales.append(scale)
    rotary = 0
    if cos is not None:
        rotary = 2 * axes("cos", cos, 2, "[positions, pairs]")[1]
        if tuple(sin.shape) != tuple(cos.shape) or rotary > shape[-1]:
            raise InvalidArgumentError(
                f"cos has the shape {tuple(cos.shape)} and sin {tuple(sin.shape)}: both must have "
                f"the same shape, with at most {shape[-1] // 2} pairs, half of the head dimension"
            )
    else:
        cos = sin = framework.empty(q, (0, 0), True)
        positions = slots
    types = {_native.F32: "f32", _native.F16: "f16", _native.BF16: "bf16"}
    element = "e4m3" if are_narrow[0] else types[place.input_type]
    kernel = as_variant("full")._kernel(
        place.input_type,
        *(shape[-1], v.shape[-1], place.device, (), "write_pages"),
        (f"rotary={rotary}", f"interleaved={int(interleaved)}", f"element={element}"),
    )
    if out is not None and framework.begin_together(out, q):
        raise InvalidArgumentError(
            "out is q, but q is still read while out is written: leave out= out, or pass another "
            "tensor"
        )
    if out is None:
        out = framework.empty(q, shape, False)
    batches = 1 if len(shape) == 3 else shape[0]
    rows = framework.rows_of_pages

    def by_batch(tensor: Any) -> Any:
        return tensor.reshape((batches, -1)) if batches else tensor  # -1 is ambiguous for 0

    kernel.launch_named(
        (
            "q",
            "k_new",
            "v_new",
            "o",
            "k",
            "v",
            "cos",
            "sin",
            "positions",
            "slots",
            "k_scale",
            "v_scale",
        ),
        (
            *(q, k, v, out, rows("k_pages", k_pages), rows("v_pages", v_pages), cos, sin),
            *(by_batch(positions), by_batch(slots), *scales),
        ),
        None,
        (),
        (),
        (),
        True,
        place.stream,
        place.allocate,
    )
    return out
