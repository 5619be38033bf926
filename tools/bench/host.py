# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tesela's host target beside PyTorch's scaled_dot_product_attention on the CPU, with as many
# threads: `python3 tools/bench/host.py --help`.

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import c_api
import options as command_line
import tables

WINDOW = 256
VARIANTS = {
    "full": "attention full() { mask = true }",
    "causal": "attention causal() { mask = q >= k }",
    "window": f"attention window() {{ mask = q >= k && q - k < {WINDOW} }}",
}
TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}  # the error's norm over the reference's


def say(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr, flush=True)


def kept_pairs(variant: str, queries: int, keys: int) -> int:
    if variant == "full":
        return queries * keys
    width = WINDOW if variant == "window" else queries
    return sum(max(0, min(q + 1, keys) - max(0, q + 1 - width)) for q in range(queries))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 tools/bench/host.py",
        description="Times Tesela's host target beside PyTorch's scaled_dot_product_attention on "
        "the CPU, in one process, on the same tensors and with as many threads. Every result is "
        f"checked before it is timed. The window holds {WINDOW} keys; PyTorch gets it as a bool "
        "mask. The table goes to standard output as Markdown; its speeds count the kept pairs. "
        "Exit status: 0 done, 1 a result was wrong, 2 bad usage, 3 PyTorch or the library is "
        "missing.",
    )
    add = parser.add_argument
    add("--library", default=None, help="libtesela.so; default: this tree's, else the loader's")
    add("--threads", type=command_line.whole_number, default=os.cpu_count(), help="of both")
    add("--variants", type=command_line.names(tuple(VARIANTS)), default=list(VARIANTS))
    add("--dtypes", type=command_line.names(tuple(TOLERANCE)), default=["f32"])
    add("--dims", type=command_line.lengths, default=[64, 128])
    add("--lengths", type=command_line.lengths, default=[1024, 4096])
    add("--heads", type=command_line.whole_number, default=4)
    add("--kv-heads", type=command_line.whole_number, help="key/value heads; default: as --heads")
    add("--queries", type=command_line.whole_number, help="default: as many as keys")
    add("--schedule", default=None, help="choices of Tesela's schedule for all cases")
    add("--repetitions", type=command_line.whole_number, default=9, help="of each engine and case")
    add("--seed", type=int, default=1)
    add("--json", type=command_line.output, metavar="FILE", help="all times")
    options = parser.parse_args(arguments)
    if options.kv_heads and options.heads % options.kv_heads:
        parser.error(f"--heads {options.heads} is no multiple of --kv-heads {options.kv_heads}")
    return options


def reference(torch: Any, q: Any, k: Any, v: Any, keeps: Any) -> Any:
    """The last head's output in double."""
    q, k, v = (each[0, -1].double() for each in (q, k, v))
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if keeps is not None:
        scores.masked_fill_(~keeps, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0) @ v  # rows without keys are 0


def milliseconds(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)


def run_case(
    torch: Any, context: c_api.Context, case: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    variant, length, dim = case["variant"], case["length"], case["dim"]
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[case["dtype"]]
    queries, kv_heads = options.queries or length, options.kv_heads or options.heads
    shape, kv_shape = (1, options.heads, queries, dim), (1, kv_heads, length, dim)
    q, k, v = (torch.randn(each).to(dtype) for each in (shape, kv_shape, kv_shape))
    o = torch.full(shape, math.nan, dtype=dtype)
    lse = torch.empty(shape[:3])
    kernel = context.compile(
        VARIANTS[variant],
        case["dtype"],
        dim,
        dim,
        schedule=options.schedule,
        expected_length=length,
        expected_queries=queries,
    )
    views = [c_api.contiguous(each.data_ptr(), tuple(each.shape)) for each in (q, k, v, o)]
    launch = kernel.launcher(
        (1, options.heads, kv_heads, queries, length), *views, lse.data_ptr()
    )
    row, column = torch.arange(queries)[:, None], torch.arange(length)[None, :]
    keeps = {
        "full": None,
        "causal": row >= column,
        "window": (row >= column) & (row - column < WINDOW),
    }[variant]
    mask = keeps if variant == "window" else None
    attention = torch.nn.functional.scaled_dot_product_attention

    def peer() -> Any:
        is_causal = variant == "causal"
        return attention(
            q, k, v, attn_mask=mask, is_causal=is_causal, enable_gqa=kv_heads != options.heads
        )

    launch()
    exact = reference(torch, q, k, v, keeps)
    errors = {}
    for name, result in (("tesela", o), ("torch", peer())):
        error = torch.linalg.vector_norm(result[0, -1].double() - exact)
        errors[name] = float(error / torch.linalg.vector_norm(exact))
    result = {**case, **kernel.info(), "errors": errors}
    bound = TOLERANCE[case["dtype"]]
    if not errors["tesela"] <= bound or not bool(torch.isfinite(o).all()):
        return {**result, "wrong": f"an error of {errors['tesela']:.1e}, {bound:.0e} is allowed"}

    calls: dict[str, Callable[[], Any]] = {"tesela": launch, "torch": peer}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(options.seed)
    for _ in range(options.repetitions):
        for name in order.sample(list(calls), len(calls)):
            times[name].append(milliseconds(calls[name]))
    return {**result, "times_ms": times}


def table(results: Sequence[dict[str, Any]], options: argparse.Namespace) -> list[str]:
    rows = [["", "Tesela, ms", "GFLOP/s", "PyTorch, ms", "GFLOP/s", "ratio"]]
    for case in results:
        label = f"{case['dtype']} D {case['dim']} S {case['length']} {case['variant']}"
        if "wrong" in case:
            rows.append([label, f"wrong: {case['wrong']}", "", "", "", ""])
            continue
        queries = options.queries or case["length"]
        pairs = kept_pairs(case["variant"], queries, case["length"])
        flop = 4 * case["dim"] * options.heads * pairs
        best = {name: min(times) for name, times in case["times_ms"].items()}
        cells = [
            text for ms in best.values() for text in (f"{ms:.2f}", f"{flop / ms / 1e6:.1f}")
        ]
        rows.append([label, *cells, f"{best['torch'] / best['tesela']:.2f}"])
    return tables.table(rows)


def main() -> int:
    options = parse()
    try:
        import torch
    except ImportError:
        say("PyTorch is not installed: `pip install torch`")
        return 3
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    try:
        library = c_api.Library(command_line.library_path(options.library))
        context = library.context("host", options.threads)
    except (OSError, AttributeError, c_api.Error) as error:
        say(f"{error}: name the library by --library")
        return 3
    results: list[dict[str, Any]] = []
    for dtype in options.dtypes:
        for dim in options.dims:
            for length in options.lengths:
                for variant in options.variants:
                    case = {"dtype": dtype, "dim": dim, "length": length, "variant": variant}
                    results.append(run_case(torch, context, case, options))
                    say(table(results[-1:], options)[-1])
    heads = f"{options.heads} heads over {options.kv_heads or options.heads}"
    queries = f"{options.queries} queries, " if options.queries else ""
    print(f"{context.device}, {options.threads} threads, {heads}, {queries}", end="")
    print(f"Tesela {library.version}, PyTorch {torch.__version__}, best of {options.repetitions}\n")
    print("\n".join(table(results, options)))
    if options.json:
        with open(options.json, "w") as file:
            keys = ("threads", "heads", "kv_heads", "queries")
            settings = {key: vars(options)[key] for key in keys}
            json.dump({**settings, "cases": results}, file)
    return 1 if any("wrong" in case for case in results) else 0


if __name__ == "__main__":
    sys.exit(main())
