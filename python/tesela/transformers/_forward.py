# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of one layer of a model."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import as_variant
from tesela.torch._dispatch import attention
from tesela.torch._dropout import dropout as draw
from tesela.torch._sdpa import _EXTENTS, _MASK_TYPES, _mask_axes
from tesela.transformers._mask import Mask

_FULL: Final = "attention full {\n}\n"
_CAUSAL: Final = "attention causal {\n  mask = q >= k\n}\n"

_Kind = tuple[tuple[int, ...], torch.dtype] | None
"""(which of the axes b, h, q and k a tensor of the layer has, its type)."""

_texts: dict[tuple[Any, ...], str] = {}


def _text(mask: str, is_capped: bool, tensor: _Kind, bias: _Kind, sinks: _Kind) -> str:
    """The text of a mask with the score and the sink of a layer."""
    key = (mask, is_capped, tensor, bias, sinks)
    found = _texts.get(key)
    if found is not None:
        return found
    # The tracer writes a text as "attention name(parameters) {", statements, "}".
    head, _, body = mask.partition(" {\n")
    name, _, listed = head.partition("(")
    parameters = [listed.removesuffix(")")] if listed else []
    statements = [body.removesuffix("}\n")]
    terms = ["s"]
    if is_capped:
        parameters.append("layer_softcap: f32")
        terms = ["layer_softcap * tanh(s / layer_softcap)"]
    for parameter, kind in (
        ("layer_mask", tensor),
        ("layer_bias", bias),
        ("layer_sinks", sinks),
    ):
        if kind is None:
            continue
        axes, dtype = kind
        extents = ", ".join(_EXTENTS[axis][0] for axis in axes) or "1"
        indices = ", ".join(_EXTENTS[axis][1] for axis in axes) or "0"
        parameters.append(f"{parameter}: {_MASK_TYPES[dtype]}[{extents}]")
        read = f"{parameter}[{indices}]"
        if parameter == "layer_sinks":
            statements.append(f"  sink = {read}\n")
        elif dtype is torch.bool:
            statements.append(f"  mask = {read}\n")
        else:
            terms.append(read)
    if terms != ["s"]:
        statements.append(f"  score = {' + '.join(terms)}\n")
    list_of_parameters = f"({', '.join(parameters)})" if parameters else ""
    text = f"{name}{list_of_parameters} {{\n{''.join(statements)}}}\n"
    return _texts.setdefault(key, text)


# torch.compile calls this while it traces; the contents of the dictionary are not a guard.
_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _checked(name: str, value: Tensor) -> Tensor:
    if value.dtype not in _MASK_TYPES:
        known = ", ".join(str(each) for each in _MASK_TYPES)
        raise InvalidArgumentError(
            f"the elements of {name} are {value.dtype}, they must be one of {known}: convert it"
        )
    return value


def _refuse(module: Any, others: dict[str, Any]) -> None:
    layer = type(module).__name__
    if others.get("output_attentions"):
        raise UnsupportedError(
            f"{layer} asks for the probabilities (output_attentions), which Tesela does not keep: "
            'load the model with attn_implementation="eager"'
        )
    if others.get("cache") is not None:
        raise UnsupportedError(
            f"{layer} has a paged cache, of continuous batching, which Tesela does not read in "
            'transformers: use attn_implementation="paged|sdpa"'
        )


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention of a layer, which transformers calls through its ``AttentionInterface``.

    Args:
        module: the layer.
        query: [batch, heads, queries, head dimension], in bfloat16 or float16, or on the CPU also
            float32. The head dimension is a multiple of 8 up to 256.
        key: [batch, key heads, keys, head dimension].
        value: [batch, key heads, keys, head dimension of the values].
        attention_mask: a mask of :func:`attention_mask`; or a tensor of bools, true if a query
            attends to a key; or a float tensor, which is added to the scores. Tensors are broadcast
            to [batch, heads, queries, keys]. None: `is_causal` decides.
        dropout: the probability with which a pair is dropped; PyTorch's generator decides which.
        scaling: the scale of the scores; None: 1 over the square root of the head dimension.
        is_causal: without a mask and with more than one query, no query attends to a later key.
            None: the layer's own ``is_causal``, or true if it has none.
        softcap: a score becomes ``softcap * tanh(score / softcap)``.
        s_aux: [heads], a logit for each head that is only added to the denominator (a sink).
        position_bias: added to the scores; broadcast to [batch, heads, queries, keys].
        others: what the mask has already (such as sliding_window), or what other implementations
            use.

    Returns:
        [batch, queries, heads, head dimension of the values], without gaps; and None in place of
        the probabilities.

    Raises:
        UnsupportedError: output_attentions or a paged cache is asked for.
        InvalidArgumentError: a shape or a type is not accepted.
    """
    _refuse(module, others)
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    if key.shape[0] != batch and batch == 1:  # learned queries that all batches share
        batch = key.shape[0]
        query = query.expand(batch, -1, -1, -1)

    values: dict[str, Any] = {}
    kinds: dict[str, _Kind] = {"layer_mask": None, "layer_bias": None}
    for parameter, tensor in (("layer_mask", attention_mask), ("layer_bias", position_bias)):
        if isinstance(tensor, Tensor):
            tensor = _checked(parameter.replace("layer_", "the layer's "), tensor)[..., :keys]
            axes, view = _mask_axes(tensor, (batch,), heads, queries, keys)
            values[parameter], kinds[parameter] = view, (axes, view.dtype)
    sinks: _Kind = None
    if s_aux is not None:
        logits = _checked("the layer's sinks", s_aux).reshape(-1)
        values["layer_sinks"], sinks = logits, ((1,), logits.dtype)
    if softcap is not None:
        values["layer_softcap"] = softcap

    text = _FULL
    if isinstance(attention_mask, Mask):
        text = attention_mask.text
        values.update(attention_mask.values)
    elif attention_mask is None and queries > 1:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        text = _CAUSAL if causal else _FULL
    text = _text(text, softcap is not None, kinds["layer_mask"], kinds["layer_bias"], sinks)
    variant = as_variant(text)
    if dropout != 0:
        variant = variant._dropping({"dropout.p": dropout, **draw(query, None)})
    result: Tensor = attention(query, key, value, variant, scaling, False, False, None, values)
    return result.transpose(1, 2).contiguous(), None
