# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The mask of a model's layers, as a function of positions instead of a tensor of all pairs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import flex_attention
from transformers.masking_utils import (
    add_offsets_to_mask_function,
    and_masks,
    causal_mask_function,
    padding_mask_function,
    prepare_padding_mask,
)
from transformers.utils.import_utils import is_tracing

from tesela._trace import trace_flex
from tesela._variant import Variant, as_variant
from tesela.flex import BlockMask


class Mask(BlockMask, flex_attention.BlockMask):  # type: ignore[misc]
    """A mask for the layers of one forward pass. It allocates nothing of the size of all pairs.

    It is a ``tesela.BlockMask``: it can be printed, and ``to_dense`` computes its blocks. It is
    also an instance of PyTorch's class, because models only pass on masks of that class or tensors.

    Attributes:
        text: the mask in Tesela's language.
        values: the values of the text's parameters, numbers and tensors.
    """

    def __init__(
        self, mask_function: Callable[..., Any], batch: int, seq_lengths: tuple[int, int]
    ) -> None:
        super().__init__(mask_function, batch, 1, seq_lengths)
        self.text, self.values = trace_flex(mask_function, None)

    @property
    def variant(self) -> Variant:
        """The mask as a variant, bound to the values. It can be explained or used directly."""
        return as_variant(self.text).bind(**self.values)

    def to(self, device: Any, **unused: Any) -> Mask:
        """The mask with its tensors on a device, because layers may be on several devices."""
        moved = copy.copy(self)
        moved.values = {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in self.values.items()
        }
        return moved

    def contiguous(self) -> Mask:
        """The mask itself. ``generate`` calls this."""
        return self


def _length_mask_function(length: int) -> Callable[..., Any]:
    """Keeps the keys before a position."""

    def inner_mask(batch_idx: Any, head_idx: Any, q_idx: Any, kv_idx: Any) -> Any:
        return kv_idx < length

    return inner_mask


def _padding(mask: Tensor, kv_length: int, kv_offset: int) -> Callable[..., Any] | None:
    """The mask for padding [batch, key]; None if it keeps all keys.

    Testing the values waits for the device, once in each forward pass. Without padding, which is
    the most frequent case, the kernel then reads no tensor, and knows its tiles in advance.
    """
    if not is_tracing(mask) and bool(mask.all()):
        length = mask.shape[-1]
        return None if length >= kv_length + kv_offset else _length_mask_function(length)
    padded = prepare_padding_mask(mask, kv_length, kv_offset)
    return padding_mask_function(padded)  # type: ignore[arg-type]


@torch.compiler.disable(  # type: ignore[no-untyped-call, untyped-decorator]
    reason="Tesela traces a mask's function, which torch.compile cannot follow: it is done eagerly"
)
def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    **unused: Any,
) -> Mask:
    """The mask of a forward pass. transformers calls it as its ``AttentionMaskInterface``.

    Args:
        batch_size: the batch size of the queries.
        q_length: the number of queries.
        kv_length: the number of keys, including those of the cache.
        q_offset: the position of the first query. For a static cache it is a tensor without axes.
        kv_offset: the position of the first key. A sliding cache has dropped the keys before it.
        mask_function: a function of (batch, head, query, key), where queries and keys are
            positions. It is true if a query attends to a key.
        attention_mask: bool, [batch, position]; false for padding.
        unused: arguments for other implementations, such as when to leave out the mask.

    Raises:
        TraceError: the function cannot be expressed in Tesela's language. The message says which
            line, and what to write instead.
    """
    if attention_mask is not None:
        padding = _padding(attention_mask, kv_length, kv_offset)
        if padding is not None:
            mask_function = and_masks(mask_function, padding)
    if isinstance(q_offset, Tensor):
        # A copy, because the cache changes its own before the first layer attends.
        q_offset = q_offset.to(torch.int32, copy=True)
    if isinstance(q_offset, Tensor) or q_offset != 0 or kv_offset != 0:
        shifted: Callable[..., Any] = add_offsets_to_mask_function
        mask_function = shifted(mask_function, q_offset, kv_offset)
    return Mask(mask_function, batch_size, (q_length, kv_length))
