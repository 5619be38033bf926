# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tesela in the place of PyTorch's scaled_dot_product_attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela.torch import _sdpa
from tesela.torch._sdpa_log import SdpaCall, record, sdpa_log

_pytorch: Callable[..., Tensor] = torch.nn.functional.scaled_dot_product_attention


def _why_pytorch(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None) -> str | None:
    """A sentence where a tensor has a rule of its own for PyTorch's function."""
    for name, tensor in (
        ("query", query),
        ("key", key),
        ("value", value),
        ("attn_mask", attn_mask),
    ):
        if tensor is not None and type(tensor) not in (Tensor, torch.nn.Parameter):
            return f"{name} is of the type {type(tensor).__name__}, not a torch.Tensor"
    return None


def _replacement(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Tesela's where it can do the call, else PyTorch's; a log tells which."""
    reason = _why_pytorch(query, key, value, attn_mask) or _sdpa.why_unsupported(
        query, key, value, attn_mask, dropout_p, scale
    )
    if reason is None and torch.compiler.is_compiling():
        return _sdpa.compute(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    if reason is None:
        try:
            return _sdpa.compute(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        except (InvalidArgumentError, UnsupportedError) as error:  # PyTorch may know better
            reason = str(error)
    record("pytorch", None, reason)
    return _pytorch(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


@contextmanager
def replace_sdpa() -> Iterator[Counter[SdpaCall]]:
    """Puts Tesela in the place of ``torch.nn.functional.scaled_dot_product_attention``.

    What Tesela cannot do still goes to PyTorch's function. The log that the ``with`` statement
    gives has each such call, with the reason; it is that of :func:`sdpa_log`.

        with tesela.torch.replace_sdpa() as log:
            logits = model(tokens)
        for call, times in log.items():
            print(times, call.path, call.variant or call.reason)

    It holds for all threads of the process, until the ``with`` statement ends. It replaces the
    attribute of ``torch.nn.functional``, so a module that took the function by
    ``from torch.nn.functional import ...`` before keeps PyTorch's. What torch.compile has compiled
    before is compiled again.
    """
    before = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = _replacement
    try:
        with sdpa_log() as log:
            yield log
    finally:
        torch.nn.functional.scaled_dot_product_attention = before
