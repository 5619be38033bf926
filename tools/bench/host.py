# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tesela's host target beside PyTorch's scaled_dot_product_attention on the CPU, with the same
# number of threads: `python3 tools/bench/host.py --help`.

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import c_api
import options as command_line
import summary
import tables

WINDOW = 256
VARIANTS = {
    "full": "attention full() { mask = true }",
    "causal": "attention causal() { mask = q >= k }",
    "window": f"attention window() {{ mask = q >= k && q - k < {WINDOW} }}",
}
GRADIENTS = ("dq", "dk", "dv")
TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}  # the error's norm over the reference's norm


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
        "the CPU, in one process, on the same tensors and with as many threads: attention, or "
        "with --pass backward its gradients, PyTorch's by autograd. Every result is "
        f"checked before it is timed. The window holds {WINDOW} keys; PyTorch gets it as a bool "
        "mask. The table goes to standard output as Markdown; its speeds count the kept pairs. "
        "Exit status: 0 done, 1 a result was wrong, 2 bad usage, 3 PyTorch or the library is "
        "missing.",
    )
    add = parser.add_argument
    add("--library", default=None, help="libtesela.so; default: this tree's, else the loader's")
    add("--pass", dest="pass_name", choices=command_line.PASSES, default="forward")
    add("--threads", type=command_line.whole_number, default=os.cpu_count(), help="of both")
    add("--variants", type=command_line.names(tuple(VARIANTS)), default=list(VARIANTS))
    add("--dtypes", type=command_line.names(tuple(TOLERANCE)), default=["f32"])
    add("--dims", type=command_line.lengths, default=[64, 128])
    add("--lengths", type=command_line.lengths, default=[1024, 4096])
    add("--heads", type=command_line.whole_number, default=4)
    add("--kv-heads", type=command_line.whole_number, help="key/value heads; default: as --heads")
    add("--queries", type=command_line.whole_number, help="default: as many as keys")
    add("--schedule", default=None, help="choices of the schedule of Tesela's timed kernels")
    add("--repetitions", type=command_line.whole_number, default=9, help="of each engine and case")
    add("--seed", type=int, default=1)
    add("--json", type=command_line.output, metavar="FILE", help="all times")
    options = parser.parse_args(arguments)
    if options.kv_heads and options.heads % options.kv_heads:
        parser.error(f"--heads {options.heads} is not a multiple of --kv-heads {options.kv_heads}")
    return options


def attention(torch: Any, q: Any, k: Any, v: Any, keeps: Any) -> Any:
    """Attention of heads that share one key head. Rows without keys are 0."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if keeps is None:
        return torch.softmax(scores, -1) @ v
    empty = ~keeps.any(-1, keepdim=True)
    scores = scores.masked_fill(~keeps, -math.inf).masked_fill(empty, 0)
    return torch.softmax(scores, -1).masked_fill(empty, 0) @ v


def milliseconds(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)


class Data:
    """A case's tensors for both passes. A subclass computes the reference of the last key head."""

    def __init__(self, torch: Any, case: dict[str, Any], options: argparse.Namespace):
        self.torch, self.variant, self.length = torch, case["variant"], case["length"]
        self.dtype_name, self.dim = case["dtype"], case["dim"]
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        self.queries, self.kv_heads = options.queries or self.length, options.kv_heads
        self.heads, self.schedule = options.heads, options.schedule
        self.kv_heads = self.kv_heads or self.heads
        shape = (1, self.heads, self.queries, self.dim)
        kv_shape = (1, self.kv_heads, self.length, self.dim)
        self.q, self.k, self.v, self.do = (
            torch.randn(each).to(dtype[self.dtype_name])
            for each in (shape, kv_shape, kv_shape, shape)
        )
        self.o, self.dq, self.dk, self.dv = (
            torch.full_like(each, math.nan) for each in (self.q, self.q, self.k, self.v)
        )
        self.lse = torch.empty(shape[:3])
        row, column = torch.arange(self.queries)[:, None], torch.arange(self.length)[None, :]
        self.keeps = {
            "full": None,
            "causal": row >= column,
            "window": (row >= column) & (row - column < WINDOW),
        }[self.variant]

    def launcher(self, context: c_api.Context, algorithm: str) -> tuple[Any, dict[str, Any]]:
        """(a function that launches, what the library knows about its kernel)"""
        is_forward = algorithm == "forward"
        kernel = context.compile(
            VARIANTS[self.variant],
            self.dtype_name,
            self.dim,
            self.dim,
            schedule=self.schedule if is_forward == (self.pass_name == "forward") else None,
            expected_length=self.length,
            expected_queries=self.queries,
            algorithm=algorithm,
        )
        names = ("q", "k", "v", "o") if is_forward else ("q", "k", "v", "o", *GRADIENTS, "do")
        tensors = {name: getattr(self, name) for name in names}
        views = {
            name: c_api.tensor(each.data_ptr(), self.dtype_name, each.shape, each.stride())
            for name, each in tensors.items()
        }
        shape = self.lse.shape
        views["lse"] = c_api.tensor(self.lse.data_ptr(), "f32", shape, self.lse.stride())
        return kernel.tensor_launcher(views), kernel.info()

    def peer(self, q: Any, k: Any, v: Any) -> Any:
        return self.torch.nn.functional.scaled_dot_product_attention(
            *(q, k, v),
            attn_mask=self.keeps if self.variant == "window" else None,
            is_causal=self.variant == "causal",
            enable_gqa=self.kv_heads != self.heads,
        )

    def of_last_head(self, tensor: Any) -> Any:
        """The part of a tensor that belongs to the last key head and the query heads that share
        it, in double."""
        return tensor[0, -(tensor.shape[1] // self.kv_heads) :].double()


class Forward(Data):
    pass_name = "forward"
    flops_of_pair = 4

    def launch_of(self, context: c_api.Context) -> tuple[Any, dict[str, Any]]:
        return self.launcher(context, "forward")

    def results(self) -> tuple[Any, ...]:
        return (self.o,)

    def peer_call(self) -> Callable[[], tuple[Any, ...]]:
        return lambda: (self.peer(self.q, self.k, self.v),)

    def exact(self) -> tuple[Any, ...]:
        q, k, v = map(self.of_last_head, (self.q, self.k, self.v))
        return (attention(self.torch, q, k[0], v[0], self.keeps),)


class Backward(Data):
    pass_name = "backward"
    flops_of_pair = 10

    def launch_of(self, context: c_api.Context) -> tuple[Any, dict[str, Any]]:
        forward, _ = self.launcher(context, "forward")
        forward()
        return self.launcher(context, "backward_fast")

    def results(self) -> tuple[Any, ...]:
        return self.dq, self.dk, self.dv

    def peer_call(self) -> Callable[[], tuple[Any, ...]]:
        inputs = [each.clone().requires_grad_() for each in (self.q, self.k, self.v)]
        with self.torch.enable_grad():
            o = self.peer(*inputs)
        return lambda: self.torch.autograd.grad(o, inputs, self.do, retain_graph=True)

    def exact(self) -> tuple[Any, ...]:
        inputs = [self.of_last_head(each) for each in (self.q, self.k, self.v)]
        for each in inputs:
            each.requires_grad_()
        with self.torch.enable_grad():
            q, k, v = inputs
            o = attention(self.torch, q, k[0], v[0], self.keeps)
        return self.torch.autograd.grad(o, inputs, self.of_last_head(self.do))


DATA = {"forward": Forward, "backward": Backward}


def run_case(
    torch: Any, context: c_api.Context, case: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    data = DATA[options.pass_name](torch, case, options)
    launch, info = data.launch_of(context)
    launch()
    peer = data.peer_call()
    errors = {}
    exact = data.exact()
    for name, results in (("tesela", data.results()), ("torch", peer())):
        shares = torch.stack(
            [
                torch.linalg.vector_norm(data.of_last_head(found) - expected)
                / torch.linalg.vector_norm(expected)
                for found, expected in zip(results, exact, strict=True)
            ]
        )
        errors[name] = float(shares.max())
    result = {**case, **info, "errors": errors}
    bound = TOLERANCE[case["dtype"]]
    are_finite = all(bool(torch.isfinite(each).all()) for each in data.results())
    if not errors["tesela"] <= bound or not are_finite:
        return {**result, "wrong": f"an error of {errors['tesela']:.1e}, {bound:.0e} is allowed"}

    calls: dict[str, Callable[[], Any]] = {"tesela": launch, "torch": peer}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(options.seed)
    for _ in range(options.repetitions):
        for name in order.sample(list(calls), len(calls)):
            times[name].append(milliseconds(calls[name]))
    return {**result, "times_ms": times}


def middle(times: Sequence[float]) -> str:
    """The median, and the distance of the quartiles in percent of it."""
    found = summary.spread(times)
    width = (found["quartile3_ms"] - found["quartile1_ms"]) / found["median_ms"]
    return f"{found['median_ms']:.2f} ({100 * width:.0f}%)"


def table(results: Sequence[dict[str, Any]], options: argparse.Namespace) -> list[str]:
    columns = ("best, ms", "median", "GFLOP/s")
    heads = (f"{name}, {column}" for name in ("Tesela", "PyTorch") for column in columns)
    rows = [["", *heads, "ratio", "of medians"]]
    for case in results:
        label = f"{case['dtype']} D {case['dim']} S {case['length']} {case['variant']}"
        if "wrong" in case:
            rows.append([label, f"wrong: {case['wrong']}", *[""] * 7])
            continue
        queries = options.queries or case["length"]
        pairs = kept_pairs(case["variant"], queries, case["length"])
        flop = DATA[options.pass_name].flops_of_pair * case["dim"] * options.heads * pairs
        cells = []
        for times in case["times_ms"].values():
            best = min(times)
            cells += [f"{best:.2f}", middle(times), f"{flop / best / 1e6:.1f}"]
        own, torch = case["times_ms"]["tesela"], case["times_ms"]["torch"]
        ratios = (f"{of(torch) / of(own):.2f}" for of in (min, statistics.median))
        rows.append([label, *cells, *ratios])
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
    print(f"{options.pass_name} pass, ", end="")
    print(f"{context.device}, {options.threads} threads, {heads}, {queries}", end="")
    print(f"Tesela {library.version}, PyTorch {torch.__version__}, {options.repetitions} of each\n")
    print("\n".join(table(results, options)))
    if options.json:
        with open(options.json, "w") as file:
            keys = ("pass_name", "threads", "heads", "kv_heads", "queries")
            settings = {key: vars(options)[key] for key in keys}
            json.dump({**settings, "cases": results}, file)
    return 1 if any("wrong" in case for case in results) else 0


if __name__ == "__main__":
    sys.exit(main())
