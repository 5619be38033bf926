# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides which pairs a call on PyTorch's tensors drops."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tesela._dropout import of_seed
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela.torch._launch import EAGER

_is_compiling = torch.compiler.is_compiling
_needs_dispatcher = EAGER.needs_dispatcher

_DRAW = "torch.randint(-(2**31), 2**31, (4,), dtype=torch.int32, device=q.device"
_OTHERS = f", a torch.Generator, a tensor of four int32 on q's device ({_DRAW}))"


def _needs_tensor(q: Tensor, generator: torch.Generator | None) -> bool:
    """Whether the seed must be a tensor, because a graph or compiled code would repeat numbers."""
    if generator is not None and generator.device.type != "cpu":
        return True  # the generator draws on a GPU
    if _is_compiling() or _needs_dispatcher(q):
        return True
    return q.is_cuda and torch.cuda.is_current_stream_capturing()


def _check_state(q: Tensor, seed: Tensor) -> None:
    """Raises InvalidArgumentError unless a seed is four int32 (or int64, as captured tensors)."""
    is_whole = seed.dtype in (torch.int32, torch.int64)
    if is_whole and tuple(seed.shape) == (4,) and seed.device == q.device:
        return
    number = "; for a number pass seed.item()" if is_whole and seed.numel() == 1 else ""
    raise InvalidArgumentError(
        f"the seed is a tensor of {seed.dtype} of the shape {tuple(seed.shape)} on "
        f"'{seed.device}', it must have four int32 on q's device, '{q.device}': draw it by "
        f"{_DRAW}){number}"
    )


def dropout(q: Tensor, seed: Any) -> dict[str, Any]:
    """The parameters of dropout other than the probability.

    Args:
        q: the queries.
        seed: a 64-bit integer, a generator, or four int32 on q's device; None: PyTorch's generator.
    """
    if isinstance(seed, Tensor):
        _check_state(q, seed)
        return {"dropout.seed": 0, "dropout.state": seed}
    if seed is not None and not isinstance(seed, torch.Generator):
        return of_seed(seed, _OTHERS)
    if seed is not None and _is_compiling():
        raise UnsupportedError(
            "the seed is a torch.Generator, which code that PyTorch compiles cannot read: outside "
            f"of that code draw seed = {_DRAW}, generator=generator), and pass this tensor"
        )
    if _needs_tensor(q, seed):
        state = torch.randint(
            -(2**31), 2**31, (4,), dtype=torch.int32, device=q.device, generator=seed
        )
        return {"dropout.seed": 0, "dropout.state": state}
    seed_word, seed_high, offset, offset_high = torch.randint(
        2**32, (4,), dtype=torch.int64, device="cpu", generator=seed
    ).tolist()
    return {
        "dropout.seed": seed_word,
        "dropout.seed_high": seed_high,
        "dropout.offset": offset,
        "dropout.offset_high": offset_high,
    }
