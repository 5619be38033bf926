# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Test cases of functions for FlexAttention; `CASES` has them by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Mod = Callable[..., Any]
B, H, SQ, SK = 2, 4, 40, 56


@dataclass
class Case:
    """A mask, a score, or both, with lengths."""

    mask: Mod | None = None
    score: Mod | None = None
    queries: int = SQ
    keys: int = SK


CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ints(low: int, high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=generator(seed))


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed))
