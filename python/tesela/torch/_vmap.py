# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of torch.vmap. If the variant allows it, the mapped axis is joined with the batch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tesela._variant import as_variant
from tesela.torch._operator import (
    ATTENTION,
    ATTENTION_BACKWARD,
    ATTENTION_BACKWARD_PARAMETERS,
    ATTENTION_INTO,
    LIBRARY,
)


@lru_cache(maxsize=256)
def _batch_tensors(text: str) -> frozenset[str] | None:
    """The captured tensors with a batch axis; None if other parts depend on the batch.

    A joined batch has other numbers ``b``, and more of them. That changes nothing if the text only
    uses b to index the first axis of tensors with the extent B there, and if that axis has no other
    index. Anything that this function does not understand counts as another use.
    """
    variant = as_variant(text)
    named = set()
    for parameter in variant.parameters:
        if parameter.shape is None:
            continue
        first, *others = parameter.shape
        if first == "B":
            named.add(parameter.name)
        elif re.search(r"\bB\b", first):
            return None
        if any(re.search(r"\bB\b", extent) for extent in others):
            return None
    code = re.sub(r"//[^\n]*", "", text)
    body = code[code.index("{") :]
    for name in named:
        body = re.sub(rf"\b{name}\s*\[\s*b\s*(?=[,\]])", "[", body)
    words = "|".join(("b", "B", *named))
    return None if re.search(rf"\b({words})\b", body) else frozenset(named)


def _first(tensor: Tensor, axis: int | None, count: int) -> Tensor:
    """Moves the mapped axis to the front. A tensor that is not mapped gets an axis of stride 0."""
    if axis is None:
        return tensor.expand(count, *tensor.shape)
    return tensor.movedim(axis, 0)


def _join(tensor: Tensor) -> Tensor:
    """Joins the mapped axis and the batch. Copies if the strides do not allow a view."""
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], *tensor.shape[2:])


def _joins(
    text: str,
    number_names: Sequence[str],
    tensor_names: Sequence[str],
    axes: Sequence[int | None],
) -> bool:
    """Whether one launch is enough: only tensors with a batch axis are mapped.

    Dropout drops other pairs in each batch. If a backward pass, or that of parameters, were joined
    and its forward pass had another number of batches, they would drop different pairs.
    """
    with_batch = _batch_tensors(text)
    if with_batch is None or "dropout.p" in (*number_names, *tensor_names):
        return False
    return all(
        name in with_batch or axis is None for name, axis in zip(tensor_names, axes, strict=True)
    )


def _map(
    operator: Any, leading: int, info: Any, in_dims: Any, *arguments: Any, joins: bool = True
) -> Any:
    """``leading``: how many tensors come first; each of them has a batch axis.

    One of them may be None.
    """
    count = info.batch_size
    dense, rest = arguments[:leading], arguments[leading:]
    text, number_names, numbers, tensor_names, tensors, *options = rest
    axes = in_dims[leading + 4] or [None] * len(tensors)
    mapped = [
        None if tensor is None else _first(tensor, axis, count)
        for tensor, axis in zip(dense, in_dims[:leading], strict=True)
    ]
    if joins and _joins(text, number_names, tensor_names, axes):
        with_batch = _batch_tensors(text) or frozenset()
        joined = [None if tensor is None else _join(tensor) for tensor in mapped]
        captured = [
            _join(_first(tensor, axis, count)) if name in with_batch else tensor
            for name, tensor, axis in zip(tensor_names, tensors, axes, strict=True)
        ]
        results = operator(*joined, text, number_names, numbers, tensor_names, captured, *options)
        return _split(results, count)
    each = [
        operator(
            *(None if tensor is None else tensor[i] for tensor in mapped),
            text,
            number_names,
            numbers,
            tensor_names,
            [
                tensor if axis is None else tensor.select(axis, i)
                for tensor, axis in zip(tensors, axes, strict=True)
            ],
            *options,
        )
        for i in range(count)
    ]
    if isinstance(each[0], Tensor):
        return torch.stack(each), 0
    return tuple(torch.stack(parts) for parts in zip(*each, strict=True)), (0,) * len(each[0])


def _split(results: Any, count: int) -> Any:
    """Splits the mapped axis from the batch. If lse was not asked for, it is empty."""

    def apart(tensor: Tensor) -> Tensor:
        return tensor.reshape(count, tensor.shape[0] // count, *tensor.shape[1:])

    if isinstance(results, Tensor):
        return apart(results), 0
    return tuple(apart(tensor) for tensor in results), (0,) * len(results)


def _map_attention(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return _map(ATTENTION, 3, info, in_dims, *arguments)


def _map_attention_into(info: Any, in_dims: Any, *arguments: Any) -> Any:
    if in_dims[3] is None:
        raise RuntimeError("vmap: out is not mapped, but the result is: map out, too, or omit it")
    return _map(ATTENTION_INTO, 4, info, in_dims, *arguments)


def _map_attention_backward(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return _map(ATTENTION_BACKWARD, 7, info, in_dims, *arguments)


def _map_attention_backward_parameters(info: Any, in_dims: Any, *arguments: Any) -> Any:
    # A launch sums over its batch, but each index of the mapped axis needs its own gradient.
    gradients, axes = _map(ATTENTION_BACKWARD_PARAMETERS, 7, info, in_dims, *arguments, joins=False)
    return list(gradients), list(axes)


torch.library.register_vmap(ATTENTION, _map_attention, lib=LIBRARY)
torch.library.register_vmap(ATTENTION_INTO, _map_attention_into, lib=LIBRARY)
torch.library.register_vmap(ATTENTION_BACKWARD, _map_attention_backward, lib=LIBRARY)
torch.library.register_vmap(
    ATTENTION_BACKWARD_PARAMETERS, _map_attention_backward_parameters, lib=LIBRARY
)
