# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What dropout costs, forward and backward, in Tesela and in PyTorch's FlashAttention-2, in Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/dropout.py [--length 8192] [--dims 64 128]
#
# All functions of a shape take turns, in a new random order in each repetition, with a rest after each call. The times
# are medians of single calls, by CUDA events on a GPU. A backward pass includes all of its kernels. The cost is the
# time with dropout over the time without it, minus 1. Kernels with dropout have no tuned schedules, so begin with an
# empty cache.
#
# --device cpu only tries the script out.

import argparse
import contextlib
import json
import sys

from single_calls import BATCH, HEADS, add_options, begins, medians

FA2 = "FlashAttention-2"


def calls(dim: int, causal: bool, options: argparse.Namespace) -> dict:
    """{(implementation, pass, probability): a function to be timed}."""
    import tesela
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    torch.manual_seed(1)
    shape = (BATCH, HEADS, options.length, dim)
    q, k, v, grad = (
        torch.randn(shape, device=options.device, dtype=torch.bfloat16) for _ in range(4)
    )
    given = [each.requires_grad_() for each in (q, k, v)]

    def by_tesela(p: float):
        return tesela.attention(*given, "causal" if causal else "full", dropout_p=p, seed=1)

    def by_fa2(p: float):
        is_gpu = options.device == "cuda"
        chosen = sdpa_kernel(SDPBackend.FLASH_ATTENTION) if is_gpu else contextlib.nullcontext()
        with chosen:
            return scaled_dot_product_attention(*given, dropout_p=p, is_causal=causal)

    def forward(attend, p):
        def call():
            with torch.no_grad():
                attend(p)

        return call

    def backward(attend, p):
        out = attend(p)
        return lambda: torch.autograd.grad(out, given, grad, retain_graph=True)

    return {
        (name, which, p): make(attend, p)
        for name, attend in (("Tesela", by_tesela), (FA2, by_fa2))
        for which, make in (("forward", forward), ("backward", backward))
        for p in (0.0, options.probability)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="what dropout costs")
    add_options(parser, [64, 128])
    parser.add_argument("--probability", type=float, default=0.1)
    options = parser.parse_args()
    if not begins(options, f"p = {options.probability}"):
        return 77
    print("| D | mask | pass | implementation | ms without | ms with | cost |")
    print("|---:|---|---|---|---:|---:|---:|", flush=True)
    rows = []
    for dim in options.dims:
        for causal in (False, True):
            found = medians(calls(dim, causal, options), options)
            for which in ("forward", "backward"):
                for implementation in ("Tesela", FA2):
                    without, dropping = (
                        found[implementation, which, p] for p in (0.0, options.probability)
                    )
                    mask = "causal" if causal else "full"
                    rows.append([dim, mask, which, implementation, without, dropping])
                    print(
                        f"| {dim} | {mask} | {which} | {implementation} | {without:.3f} "
                        f"| {dropping:.3f} | {100 * (dropping / without - 1):+.1f} % |",
                        flush=True,
                    )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
