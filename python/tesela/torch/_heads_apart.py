# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of shared key/value heads with more work items than a key/value head has.

A work item of the gradients' kernel of keys has 128 keys of a key/value head, and loops over the
query heads that share it. With few such heads, as in tensor parallelism, a launch has too few work
items for a GPU: eight query heads over one, 8192 keys: 64 work items for 132 multiprocessors. Most
kernels deal the query heads to more work items themselves (``tile.head_parts``). Those of wide
heads on sm_90 do not (compiler/driver/TemplateBindings.cpp). There the query heads of a key/value
head are dealt to several copies of its keys and values, and the gradients of the copies are summed
afterwards.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import torch
from torch import Tensor

from tesela.torch._request import Request

_ITEM_KEYS: Final = 128  # of a work item (compiler/driver/Attempts.cpp)
_LEAST_WIDE: Final = 129
"""Kernels of narrower heads deal them themselves."""

_LEAST_QUERIES: Final = 4096
"""The queries that a work item must have before the four additional kernels are worth their time.
An estimate: they were not timed. 4096 queries take a work item some 120 microseconds, by the 1.86
for a tile of 64 (docs/log/2026-11-27-backward.md)."""

_ITEMS_OF_MULTIPROCESSOR: Final = 3
"""With so many, the end of the launch is short: under a causal mask the longest work item has twice
the work of the average."""


@cache
def _multiprocessors(device: int) -> int:
    """Of a GPU whose kernels do not deal heads. Others, and the host, count as having none."""
    if device < 0:
        return 0
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count if properties.major == 9 else 0


@cache
def _reads_kv_heads(text: str) -> bool:
    return re.search(r"\b(hkv|Hkv)\b", text) is not None


@cache
def _has_mask(text: str) -> bool:
    return re.search(r"\bmask\s*=\s*(?!true\b)\S", text) is not None


def copies_of_heads(q: Tensor, k: Tensor, v: Tensor, request: Request) -> int:
    """How many copies of each key/value head a launch should have; 1: none but itself.

    Args:
        q: q, k, v and the request are those of the forward launch.
        k: see q.
        v: see q.
        request: see q.
    """
    head_axis, row_axis = (2, 1) if request.is_bshd else (1, 2)
    heads, kv_heads = q.shape[head_axis], k.shape[head_axis]
    if heads == kv_heads or k.numel() == 0 or q.numel() == 0:
        return 1
    if heads % kv_heads:  # the launch reports it
        return 1
    if max(q.shape[3], v.shape[3]) < _LEAST_WIDE:
        return 1
    text = request.variant._program.line
    shared = heads // kv_heads
    items = q.shape[0] * kv_heads * -(-k.shape[row_axis] // _ITEM_KEYS)
    multiprocessors = _multiprocessors(q.get_device())
    # A mask makes the items uneven, so that even two for each multiprocessor leave some idle.
    if items > multiprocessors * (2 if _has_mask(text) else 1):
        return 1
    if shared * q.shape[row_axis] < _LEAST_QUERIES or _reads_kv_heads(text):
        return 1
    wanted = _ITEMS_OF_MULTIPROCESSOR * multiprocessors
    divisors = (each for each in range(1, shared) if shared % each == 0)
    return next((each for each in divisors if items * each >= wanted), shared)


def repeated(tensor: Tensor, copies: int, request: Request) -> Tensor:
    """Keys or values with ``copies`` copies of each head, one after the other."""
    return tensor.repeat_interleave(copies, 2 if request.is_bshd else 1)


def summed(gradient: Tensor, copies: int, request: Request, into: Tensor) -> Tensor:
    """The sums over the copies of each head in ``into``, which is returned.

    Each copy's gradient is rounded to the element type already. The sum is made in float32.
    """
    axis = 2 if request.is_bshd else 1
    shape = gradient.shape
    by_head = gradient.view(*shape[:axis], shape[axis] // copies, copies, *shape[axis + 1 :])
    return torch.sum(by_head, axis + 1, out=into)
