# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replaces PyTorch's scaled_dot_product_attention by Tesela's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela.torch._sdpa import attempt
from tesela.torch._sdpa_log import SdpaCall, record, sdpa_log

_pytorch: Callable[..., Tensor] = torch.nn.functional.scaled_dot_product_attention


def _why_pytorch(values: Iterable[Any]) -> str | None:
    """A message if a tensor has a rule of its own for PyTorch's function, otherwise None."""
    for value in values:
        if isinstance(value, Tensor) and type(value) not in (Tensor, torch.nn.Parameter):
            return f"an argument is of the type {type(value).__name__}, not a torch.Tensor"
    return None


def _replacement(*arguments: Any, **options: Any) -> Tensor:
    """Calls Tesela's function if that can do it, otherwise PyTorch's. The logs record which."""
    result: Tensor | str | None = _why_pytorch((*arguments, *options.values()))
    if result is None and torch.compiler.is_compiling():
        result = attempt(*arguments, **options)
    elif result is None:
        try:
            result = attempt(*arguments, **options)
        except (InvalidArgumentError, UnsupportedError) as error:  # PyTorch may support it
            result = str(error)
    if isinstance(result, Tensor):
        return result
    record("pytorch", None, result)
    return _pytorch(*arguments, **options)


@contextmanager
def replace_sdpa() -> Iterator[Counter[SdpaCall]]:
    """Replaces ``torch.nn.functional.scaled_dot_product_attention`` by Tesela's function.

    Calls that Tesela does not support still run PyTorch's function. The ``with`` statement gives a
    log with all calls and the reason for each of these; it is that of :func:`sdpa_log`.

        with tesela.torch.replace_sdpa() as log:
            logits = model(tokens)
        for call, times in log.items():
            print(times, call.path, call.variant or call.reason)

    The replacement is for all threads of the process, until the ``with`` statement ends. It
    replaces the attribute of ``torch.nn.functional``. A module that imported the function before by
    ``from torch.nn.functional import ...`` keeps PyTorch's function. Code that torch.compile
    compiled before is compiled again.
    """
    before = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = _replacement
    try:
        with sdpa_log() as log:
            yield log
    finally:
        torch.nn.functional.scaled_dot_product_attention = before
