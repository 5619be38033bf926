# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common part of the tests of PyTorch's layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import reference
import tesela
import torch
from tesela.torch import _dispatch, _launch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_TOLERANCES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class _Poison:
    """The functions that allocate the outputs of eager calls."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(_launch.QUICK, name)
        return lambda *arguments: function(*arguments).fill_(torch.nan)


class Watch(TorchDispatchMode):
    """Notes the operators that PyTorch dispatches while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        self.seen.append(str(function))
        return function(*arguments, **(named or {}))


@contextmanager
def allocating(quick: Any) -> Iterator[None]:
    """Outputs of eager calls are allocated by the functions of ``quick``."""
    before = _launch._launch, _dispatch._attend
    eager = _launch.make_eager(quick)
    _launch._launch, _dispatch._attend = eager.launch, eager.attend
    try:
        yield
    finally:
        _launch._launch, _dispatch._attend = before


@contextmanager
def poisoned() -> Iterator[None]:
    """New tensors of PyTorch are full of NaN, so that unwritten elements are found."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(8).isnan().all()
    try:
        with allocating(_Poison()):
            yield
    finally:
        torch.use_deterministic_algorithms(before)


def random(*shape: int, seed: int, dtype: torch.dtype, device: str = "cpu") -> Tensor:
    """Normal random numbers, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device, dtype)


def inputs(
    batch: int = 2,
    heads: int = 6,
    kv_heads: int = 2,
    queries: int = 37,
    keys: int = 61,
    head_dim: int = 64,
    head_dim_v: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        random(batch, heads, queries, head_dim, seed=1, dtype=dtype, device=device),
        random(batch, kv_heads, keys, head_dim, seed=2, dtype=dtype, device=device),
        random(batch, kv_heads, keys, head_dim_v or head_dim, seed=3, dtype=dtype, device=device),
    )


def double(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().double().cpu().numpy()


def expected(q: Tensor, k: Tensor, v: Tensor, **rules: Any) -> tuple[Tensor, Tensor]:
    """The output and the logarithms in double precision, by NumPy."""
    out, lse = reference.attention(double(q), double(k), double(v), **rules)
    return torch.from_numpy(out), torch.from_numpy(lse)


def check(out: Tensor, wanted: Tensor) -> None:
    assert out.shape == wanted.shape
    error = (out.detach().double().cpu() - wanted).abs()
    assert not error.isnan().any(), "the output has NaN"
    largest = error.max().item() if error.numel() else 0
    assert largest <= _TOLERANCES[out.dtype], f"the largest error is {largest}"


def check_lse(lse: Tensor, wanted: Tensor) -> None:
    reference.check_lse(lse.cpu().numpy(), wanted.numpy())


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(size: int) -> Callable[..., Any]:
    return lambda b, h, q, k: (q >= k) & (q - k < size)


def attend(*arguments: Any, **named: Any) -> Any:
    """tesela.attention with poisoned outputs."""
    with poisoned():
        return tesela.attention(*arguments, **named)
