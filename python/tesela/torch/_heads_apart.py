# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of shared key/value heads with work items for each query head.

A work item of the gradients' kernel of keys has 128 keys of a key/value head, and loops over the
query heads that share it. With few such heads, as in tensor parallelism, a launch has too few work
items for a GPU: eight query heads over one, 8192 keys: 64 work items for 132 multiprocessors. Then
each query head gets keys and values of its own, and the gradients of these are summed afterwards.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import torch
from torch import Tensor

from tesela.torch._request import Request

_ITEM_KEYS: Final = 128  # of a work item (compiler/driver/Attempts.cpp)
_LEAST_QUERIES: Final = 4096
"""What a work item must have before the four additional kernels are worth their time: they take
some 20 microseconds, and a tile of 64 queries takes 2 (docs/log/2026-11-27-backward.md)."""


@cache
def _multiprocessors(device: int) -> int:
    """Of a GPU. The host has none: its threads share the work of a head anyway."""
    if device < 0:
        return 0
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def _reads_kv_heads(text: str) -> bool:
    return re.search(r"\b(hkv|Hkv)\b", text) is not None


@cache
def _has_mask(text: str) -> bool:
    return re.search(r"\bmask\s*=\s*(?!true\b)\S", text) is not None


def sharing_heads(q: Tensor, k: Tensor, request: Request) -> int:
    """How many query heads share a key/value head if they should be computed apart, otherwise 1.

    Args:
        q: q, k and the request are those of the forward launch.
        k: see q.
        request: see q.
    """
    head_axis, row_axis = (2, 1) if request.is_bshd else (1, 2)
    heads, kv_heads = q.shape[head_axis], k.shape[head_axis]
    if heads == kv_heads or k.numel() == 0 or q.numel() == 0:
        return 1
    if heads % kv_heads:  # the launch reports it
        return 1
    text = request.variant._program.line
    shared = heads // kv_heads
    items = q.shape[0] * kv_heads * -(-k.shape[row_axis] // _ITEM_KEYS)
    # A mask makes the items uneven. Then twice as many are needed for even work.
    needed = _multiprocessors(q.get_device()) * (2 if _has_mask(text) else 1)
    if items > needed or shared * q.shape[row_axis] < _LEAST_QUERIES or _reads_kv_heads(text):
        return 1
    return shared


def repeated(tensor: Tensor, shared: int, request: Request) -> Tensor:
    """A copy of the keys or values in which each head follows ``shared`` times."""
    return tensor.repeat_interleave(shared, 2 if request.is_bshd else 1)


def summed(gradient: Tensor, shared: int, request: Request, into: Tensor) -> Tensor:
    """The sums over ``shared`` successive heads in ``into``, which is returned.

    Each head's gradient is rounded to the element type already. The sum is made in float32.
    """
    axis = 2 if request.is_bshd else 1
    shape = gradient.shape
    by_group = gradient.view(*shape[:axis], shape[axis] // shared, shared, *shape[axis + 1 :])
    return torch.sum(by_group, axis + 1, out=into)
