# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host's time of an eager call on CUDA, and its parts, beside PyTorch's functions.

    PYTHONPATH=build/release/python python tests/python/gpu_torch_host_time.py

Prints a table in Markdown. The tensors are small, so that the GPU is done before the host; each
number is the least of several rounds, in microseconds a call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import tesela
import tesela.torch
import torch
from tesela import _native
from tesela.torch import _dispatch, _launch
from tesela.torch._request import Request
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS, ROUNDS = 500, 15
_empty = torch._C._dynamo.guards._empty_strided_cuda


def microseconds(function: Callable[[], Any]) -> float:
    for _ in range(50):
        function()
    best = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        best = min(best, time.perf_counter() - start)
        torch.cuda.synchronize()
    return best / CALLS * 1e6


def row(name: str, function: Callable[[], Any]) -> None:
    try:
        print(f"| {name} | {microseconds(function):.1f} |", flush=True)
    except Exception as error:  # a peer that is not there is a row of the table
        print(f"| {name} | {type(error).__name__}: {str(error)[:80]} |", flush=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| what | us |\n|---|---|")
    q = torch.randn(1, 4, 16, 64, device="cuda", dtype=torch.bfloat16)
    window = tesela.variant("sliding_window", window=8)
    alibi = tesela.variant("alibi", slope=torch.rand(4, device="cuda"))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        row("tesela.attention, causal", lambda: tesela.attention(q, q, q, "causal"))
        row("tesela.attention, a scalar", lambda: tesela.attention(q, q, q, window))
        row("tesela.attention, a captured tensor", lambda: tesela.attention(q, q, q, alibi))
        row(
            "tesela.attention, causal, with lse",
            lambda: tesela.attention(q, q, q, "causal", return_lse=True),
        )
        row(
            "tesela.torch.scaled_dot_product_attention",
            lambda: tesela.torch.scaled_dot_product_attention(q, q, q, is_causal=True),
        )
        for name, backend in (
            ("flash", SDPBackend.FLASH_ATTENTION),
            ("cuDNN", SDPBackend.CUDNN_ATTENTION),
            ("efficient", SDPBackend.EFFICIENT_ATTENTION),
        ):
            with sdpa_kernel(backend):
                row(f"PyTorch's SDPA, {name}", lambda: sdpa(q, q, q, is_causal=True))
        row_of_flex(q)
        print("| *parts of causal:* | |")
        variant = tesela.variant("causal")
        kernel = variant._kernel(_native.BF16, 64, 64, 0, ())
        out = torch.empty_like(q)
        stream = torch.cuda.current_stream().cuda_stream
        rest = (variant, None, False, False, None, {})
        row(
            "binding and launch: Kernel.launch",
            lambda: kernel.launch(q, q, q, out, None, None, (), False, stream, None),
        )
        row(
            "with the output, the stream, the kernel's look-up: Eager.launch",
            lambda: _launch.EAGER.launch(q, q, q, *rest),
        )
        row(
            "with the look whether more is to happen: Eager.attend",
            lambda: _launch.EAGER.attend(q, q, q, *rest),
        )
        row(
            "with the look whether torch.compile traces",
            lambda: _dispatch.attention(q, q, q, *rest),
        )
        request = Request(variant, {}, None, False)
        row(
            "by the dispatcher instead",
            lambda: _dispatch._by_operator(q, q, q, request, False, None),
        )
        row("an output alone", lambda: _empty((1, 4, 16, 64), (4096, 1024, 64, 1), q.dtype))
    row("tesela.attention, causal, grad mode", lambda: tesela.attention(q, q, q, "causal"))
    x, grad = q.clone().requires_grad_(), torch.ones_like(q)
    for name, backend, attend in (
        ("tesela.attention", SDPBackend.MATH, lambda: tesela.attention(x, x, x, "causal")),
        ("flash", SDPBackend.FLASH_ATTENTION, lambda: sdpa(x, x, x, is_causal=True)),
        ("cuDNN", SDPBackend.CUDNN_ATTENTION, lambda: sdpa(x, x, x, is_causal=True)),
    ):
        with sdpa_kernel(backend):
            row(f"{name}, causal, differentiated", attend)
            row(
                f"{name}, its forward and backward pass",
                lambda attend=attend: torch.autograd.grad(attend(), x, grad),
            )
    return 0


def row_of_flex(q: torch.Tensor) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cuda")
    compiled = torch.compile(flex_attention)
    row("FlexAttention, compiled", lambda: compiled(q, q, q, block_mask=mask))


if __name__ == "__main__":
    sys.exit(main())
