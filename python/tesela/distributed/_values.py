# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of parameters that decide a mask: copies for plans, and comparisons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def of_torch(value: Any) -> Any:
    """Converts NumPy's arrays to tensors with memory of their own, and its numbers to Python's."""
    if isinstance(value, Tensor) or not hasattr(value, "shape"):
        return value
    return torch.tensor(value, device="cpu") if value.shape else value.item()


def on_host(value: Any) -> Any:
    """A value for the analysis: a copy on the host, which nothing else changes."""
    if not isinstance(value, Tensor):
        return of_torch(value)
    value = value.detach()
    if not value.dim():
        return value.item()
    is_plain = type(value) is Tensor and value.is_cpu and not value.is_neg()
    if not is_plain or not value.is_contiguous() or value.numel() == 0:
        return value.to("cpu", copy=True)
    # PyTorch's copy wakes its threads on all processors. Afterwards they wait in a loop, and the
    # threads that count cells get no processor. So one thread copies here.
    numbers = bytearray(value.view(-1).view(torch.uint8).numpy())
    return torch.frombuffer(numbers, dtype=value.dtype).view(value.shape)


def version_of(value: Any) -> int | None:
    """PyTorch's counter of changes for a tensor on a GPU; None: compare the elements."""
    if not isinstance(value, Tensor) or value.is_cpu or value.is_inference():
        return None
    return value._version


def is_equal(value: Any, planned: Any) -> bool:
    """Whether both have the same shape and the same elements, of any type."""
    if value is None or planned is None:
        return value is planned
    value, planned = (torch.as_tensor(each, device="cpu").detach() for each in (value, planned))
    if value.shape != planned.shape:
        return False
    wide = torch.promote_types(value.dtype, planned.dtype)
    if not wide.is_floating_point:
        return torch.equal(value.to(wide), planned.to(wide))
    # PyTorch compares an integer and a float32 as float32, which would round the integer.
    value, planned = value.double(), planned.double()
    return bool(((value == planned) | (value.isnan() & planned.isnan())).all())
