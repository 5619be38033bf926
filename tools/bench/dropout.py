# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What dropout costs, forward and backward, by Tesela and by FlashAttention-2 as PyTorch has it, in Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/dropout.py [--length 8192] [--dims 64 128]
#
# All that is compared of a shape is timed in turn, in an order of its own in every repetition, each with a rest after
# it: the medians of single calls, by CUDA events on a GPU. A backward pass has all of its kernels. The cost is the time
# with dropout over the time without it, less 1. Kernels with dropout are not tuned, so begin with an empty cache.
#
# --device cpu is for trying it out.

import argparse
import contextlib
import json
import random
import statistics
import sys
import time

BATCH, HEADS = 2, 16
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


def milliseconds(call, is_gpu: bool) -> float:
    import torch

    if not is_gpu:
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)  # the host has dispatched the call before it begins
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def medians(functions: dict, options: argparse.Namespace) -> dict:
    is_gpu = options.device == "cuda"
    order, times = random.Random(1), {key: [] for key in functions}
    for call in functions.values():
        for _ in range(2):
            milliseconds(call, is_gpu)
    for _ in range(options.repetitions):
        keys = list(functions)
        order.shuffle(keys)
        for key in keys:
            times[key].append(milliseconds(functions[key], is_gpu))
            time.sleep(min(max(4e-3 * times[key][-1], 0.003), 0.1))
    return {key: statistics.median(each) for key, each in times.items()}


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description="what dropout costs")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--dims", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--probability", type=float, default=0.1)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", help="a file for the medians")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    print(
        f"{name}, PyTorch {torch.__version__}; {BATCH} x {HEADS} heads, length {options.length}, "
        f"bfloat16, p = {options.probability}\n"
    )
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
