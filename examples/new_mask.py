# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A new mask, from the idea to its picture and its speed.

    python3 examples/new_mask.py [LENGTH]

Needs Tesela and PyTorch. It runs on the GPU, or on the CPU if there is no GPU, and writes
notebook.svg.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tesela
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


# The idea: a model reads a long text. A query sees the last tokens. Of the older text it only sees
# the headings: the first tokens of every page.
def notebook(q: Any, k: Any, window: int, page: int, heading: int) -> Any:
    return (q >= k) & ((q - k < window) | (k % page < heading))


def milliseconds(function: Callable[[], Tensor], device: str) -> float:
    """The median of ten calls."""
    times = []
    for _ in range(11):  # the first one compiles
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times[1:])


def main(length: int) -> None:
    mask = tesela.variant(notebook, window=64, page=128, heading=8)
    print(mask.text)

    # Its picture, and how many tiles are left to compute. This compiles no kernel.
    picture = mask.explain(length=length, heads=4)
    print(picture)
    Path("notebook.svg").write_text(picture.svg, encoding="utf-8")

    # Is it right? PyTorch gets the same mask as a tensor of all pairs.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v = (torch.randn(1, 4, length, 64, device=device, dtype=dtype) for _ in range(3))
    positions = torch.arange(length, device=device)
    pairs = notebook(positions[:, None], positions[None, :], 64, 128, 8)
    expected = scaled_dot_product_attention(q, k, v, attn_mask=pairs)
    error = (tesela.attention(q, k, v, mask) - expected).abs().max().item()
    print(f"largest difference to PyTorch: {error:.1e}")

    # Its speed. A new value of a parameter needs no compilation.
    ours = milliseconds(lambda: tesela.attention(q, k, v, mask), device)
    wider = milliseconds(lambda: tesela.attention(q, k, v, mask.bind(window=256)), device)
    dense = milliseconds(lambda: scaled_dot_product_attention(q, k, v, attn_mask=pairs), device)
    print(f"Tesela {ours:.2f} ms, with a window of 256 {wider:.2f}; PyTorch {dense:.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4096)
