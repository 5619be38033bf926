# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times of single calls in PyTorch, for dropout.py, parameters.py and serving.py."""

import argparse
import random
import statistics
import sys
import time

BATCH, HEADS = 2, 16


def milliseconds(call, is_gpu: bool, queued: bool = True) -> float:
    """Milliseconds of one call. `queued`: the GPU is busy at first, so that the host's time is
    not counted."""
    import torch

    if not is_gpu:
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if queued:
        torch.cuda._sleep(2_000_000)
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


def add_options(parser: argparse.ArgumentParser, dims: list[int]) -> None:
    """Adds the options of scripts that measure several head dimensions."""
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--dims", nargs="+", type=int, default=dims)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", help="a file for the medians")


def begins(options: argparse.Namespace, what: str) -> bool:
    """Prints what is measured, and where. False if the options ask for a GPU and there is none."""
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return False
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    print(
        f"{name}, PyTorch {torch.__version__}; {BATCH} x {HEADS} heads, length {options.length}, "
        f"bfloat16, {what}\n"
    )
    return True
