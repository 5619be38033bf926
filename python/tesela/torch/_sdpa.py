# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's scaled_dot_product_attention with Tesela's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from tesela._dropout import probability_of
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import Variant, as_variant
from tesela.torch._dispatch import attention
from tesela.torch._dropout import dropout
from tesela.torch._gradients import why_no_gradients
from tesela.torch._launch import why_no_kernel
from tesela.torch._numbers import number
from tesela.torch._sdpa_log import record

_MASK_TYPES: Final = {
    torch.bool: "bool",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
}
_EXTENTS: Final = (("B", "b"), ("H", "h"), ("Sq", "q"), ("Sk", "k"))
_MOST_HEAD_DIM: Final = 256

_broadcast: Any = torch.broadcast_shapes

_mask_texts: dict[tuple[tuple[int, ...], torch.dtype], str] = {}


def _mask_text(axes: tuple[int, ...], dtype: torch.dtype) -> str:
    """The text for a mask that depends on these of the axes [b, h, q, k]."""
    found = _mask_texts.get((axes, dtype))
    if found is not None:
        return found
    extents = ", ".join(_EXTENTS[axis][0] for axis in axes) or "one"
    indices = ", ".join(_EXTENTS[axis][1] for axis in axes) or "0"
    along = "".join(_EXTENTS[axis][1] for axis in axes) or "one"
    is_bool = dtype is torch.bool
    rule = f"mask = m[{indices}]" if is_bool else f"score = s + m[{indices}]"
    name = f"sdpa_{'mask' if is_bool else 'bias'}_{along}"
    text = f"attention {name}(m: {_MASK_TYPES[dtype]}[{extents}]) {{\n  {rule}\n}}\n"
    return _mask_texts.setdefault((axes, dtype), text)


# torch.compile calls this while it traces; the contents of the dictionary are not a guard.
_mask_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _why_unsupported(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    scale: float | None,
) -> str | None:
    """A message if PyTorch supports a call and Tesela does not, otherwise None."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.layout is not torch.strided or tensor.is_nested:
            return f"{name} is a sparse or nested tensor, it must be a dense one"
        if tensor.dim() < 2:
            return f"{name} has {tensor.dim()} axes, it must have [..., length, head dimension]"
        head_dim = tensor.shape[-1]
        if head_dim % 8 != 0 or not 0 < head_dim <= _MOST_HEAD_DIM:
            return (
                f"{name}'s head dimension is {head_dim}, it must be a multiple of 8 up to "
                f"{_MOST_HEAD_DIM}"
            )
        if tensor.stride(-1) != 1:
            return f"{name}'s last stride is {tensor.stride(-1)}, it must be 1"
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        return f"the scale is {scale}, it must be finite and positive"
    if attn_mask is not None and attn_mask.dtype not in _MASK_TYPES:
        known = ", ".join(str(each) for each in _MASK_TYPES)
        return f"attn_mask's elements are {attn_mask.dtype}, they must be one of {known}"
    if not torch.is_autocast_enabled(query.device.type):
        reason = why_no_kernel(query)
        if reason is not None:
            return reason
    return why_no_gradients((query, key, value), {"attn_mask": attn_mask})


def _with_batch(tensor: Tensor, lead: Sequence[int], heads: int) -> Tensor:
    """[..., heads, length, head dimension] as [batch, heads, length, head dimension]."""
    shape = (*lead, heads, *tensor.shape[-2:])
    if tuple(tensor.shape) != shape:
        tensor = tensor.expand(shape)
    return tensor if len(lead) == 1 else tensor.reshape(-1, *shape[-3:])


def _heads(tensor: Tensor) -> int:
    return tensor.shape[-3] if tensor.dim() > 2 else 1


def _as_four_axes(
    query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool
) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """(q, k, v) as [batch, heads, length, head dimension], and the axes that form the batch."""
    q_heads, k_heads, v_heads = _heads(query), _heads(key), _heads(value)
    kv_heads = max(k_heads, v_heads)
    if enable_gqa:
        if k_heads != v_heads or q_heads % k_heads != 0:
            raise UnsupportedError(
                f"query, key and value have {q_heads}, {k_heads} and {v_heads} heads; with "
                "enable_gqa key and value have the same number, and query a multiple of it"
            )
    elif kv_heads > 1 and q_heads != kv_heads:
        q_heads = _broadcast((q_heads,), (k_heads,), (v_heads,))[0]
    lead = _broadcast(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    four = lead or (1,)
    return (
        _with_batch(query, four, q_heads),
        _with_batch(key, four, kv_heads),
        _with_batch(value, four, kv_heads),
        tuple(lead),
    )


def _mask_axes(
    mask: Tensor, lead: tuple[int, ...], heads: int, queries: int, keys: int
) -> tuple[tuple[int, ...], Tensor]:
    """Those of the axes [b, h, q, k] that the mask has, and a view of it with only these."""
    full = (*lead, heads, queries, keys)
    shape = (1,) * (len(full) - mask.dim()) + tuple(mask.shape)
    surplus = len(shape) - len(full)
    if any(
        extent not in (1, limit) for extent, limit in zip(shape, (1,) * surplus + full, strict=True)
    ):
        raise InvalidArgumentError(
            f"attn_mask has the shape {tuple(mask.shape)}, which cannot be broadcast to {full}: "
            "each extent, counted from the last, must be 1 or that of the scores"
        )
    mask = mask.reshape(shape[surplus:])
    if len(lead) == 0:
        mask = mask.unsqueeze(0)
    elif len(lead) > 1:
        if any(extent != 1 for extent in mask.shape[:-3]):
            mask = mask.expand(*lead, *mask.shape[-3:])  # the reshape may need to copy it
        mask = mask.reshape(-1, *mask.shape[-3:])
    axes = []
    for axis in (3, 2, 1, 0):
        if mask.shape[axis] == 1 or mask.stride(axis) == 0:
            mask = mask.select(axis, 0)
        else:
            axes.append(axis)
    return tuple(reversed(axes)), mask if axes else mask.reshape(1)


def _are_plain(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether all are [batch, heads, length, head dimension] with equal batches and heads."""
    a, b, c = q.shape, k.shape, v.shape
    return len(a) == len(b) == len(c) == 4 and a[0] == b[0] == c[0] and a[1] == b[1] == c[1]


def _compute(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Computes a call to which ``_why_unsupported`` has no objection, and records it."""
    if attn_mask is not None and is_causal:
        raise InvalidArgumentError(
            "attn_mask is given and is_causal is set, only one may be: leave one out"
        )
    q, k, v, lead = query, key, value, None
    if not _are_plain(q, k, v):
        q, k, v, lead = _as_four_axes(query, key, value, enable_gqa)
    parameters: dict[str, Any] = {}
    variant: Variant | str
    if attn_mask is not None:
        batch = tuple(q.shape[:1]) if lead is None else lead
        axes, mask = _mask_axes(attn_mask, batch, q.shape[1], q.shape[2], k.shape[2])
        biased = as_variant(_mask_text(axes, mask.dtype))
        variant, name = biased, biased.name
        parameters["m"] = mask
    else:
        variant = name = "causal" if is_causal else "full"
    if dropout_p != 0:
        p = probability_of(dropout_p)
        variant = as_variant(variant)._dropping({"dropout.p": p, **dropout(q, None)})
    result: Tensor = attention(q, k, v, variant, scale, False, False, None, parameters)
    record("tesela", name, None)
    if lead is None:
        return result
    shape = result.shape[1:] if max(query.dim(), key.dim(), value.dim()) > 2 else result.shape[2:]
    return result.reshape(*lead, *shape)


def attempt(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | str:
    """The result, or a message if PyTorch supports the call and Tesela does not."""
    if not isinstance(dropout_p, (int, float)):
        dropout_p = number("dropout_p", dropout_p)
    if scale is not None:
        scale = number("scale", scale)
    if torch.compiler.is_compiling():
        sentence = _why_unsupported(query, key, value, attn_mask, scale)
        if sentence is not None:
            return sentence
        return _compute(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    try:  # The launch makes the same checks, and is faster.
        return _compute(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    except Exception:
        sentence = _why_unsupported(query, key, value, attn_mask, scale)
        if sentence is None:
            raise
        return sentence


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention`` with Tesela's kernels.

    Args:
        query: ``[..., H, L, E]``; bfloat16 or float16, or on the CPU also float32. E is a multiple
            of 8 up to 256, and the last stride is 1.
        key: ``[..., H, S, E]``, in query's type, on its device.
        value: ``[..., H, S, Ev]``. The leading axes of the three are broadcast. As in PyTorch,
            there may be two or three axes, or more than four.
        attn_mask: bool, true if a query attends to a key; or float32, bfloat16 or float16, which is
            added to the scores. It is broadcast to ``[..., H, L, S]`` without a copy.
        dropout_p: the probability with which a pair is dropped. PyTorch's generator decides which;
            they are not the pairs that PyTorch's own function drops.
        is_causal: query i attends to the keys 0 to i, also if L and S differ.
        scale: the scale of the scores, finite and positive; None: ``1/sqrt(E)``.
        enable_gqa: H of query may be a multiple of H of key and value.

    Returns:
        ``[..., H, L, Ev]`` in query's type. The result of a query without keys is 0.

    Raises:
        UnsupportedError: PyTorch supports the call and Tesela does not. :func:`replace_sdpa` calls
            PyTorch's function then.
        InvalidArgumentError: a shape, type or device is not accepted.
    """
    result = attempt(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if isinstance(result, str):
        raise UnsupportedError(result)
    return result
