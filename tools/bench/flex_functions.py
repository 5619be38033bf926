# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Twenty masks and scores, written as FlexAttention's users write them, by Tesela and by FlexAttention.

    python3 tools/bench/flex_functions.py [--json FILE] [--names causal,alibi] [--length 8192]

Both get the same function: `tesela.flex_attention` beside compiled `torch.nn.attention.flex_attention`,
B 2, H 16, D 128, bf16, random data, one GPU. For each function it prints a row of

- the time of a call whose mask object exists (median of interleaved calls, CUDA events);
- the time of a call with a new mask object (compiled `create_block_mask` for FlexAttention);
- the first call in a fresh process with empty caches, and in a second process with the first one's
  caches: from the functions to the result, without imports and without making the inputs;
- the memory that a new mask and a call take beyond the inputs and the result;
- the largest error over sampled rows against attention in double precision.

It needs PyTorch with CUDA and the package `tesela`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

Mod = Callable[..., Any]
B, H, D = 2, 16, 128


@dataclass
class Function:
    """A mask, a score, or both."""

    mask: Mod | None = None
    score: Mod | None = None
    by_head: bool = False  # the mask asks for the head


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def both(*masks: Mod) -> Mod:
    def joined(b: Any, h: Any, q: Any, k: Any) -> Any:
        result = masks[0](b, h, q, k)
        for mask in masks[1:]:
            result = result & mask(b, h, q, k)
        return result

    return joined


def functions(length: int, device: str) -> dict[str, Function]:
    """The functions by name, with their tensors on `device`."""
    generator = torch.Generator().manual_seed(3)

    def documents(low: int, high: int) -> torch.Tensor:
        numbers = []
        while sum(numbers) < length:
            numbers.append(int(torch.randint(low, high, (), generator=generator)))
        ids = torch.repeat_interleave(torch.arange(len(numbers)), torch.tensor(numbers))
        return ids[:length].to(device=device, dtype=torch.int32)

    document = documents(300, 1000)
    starts = torch.zeros(int(document.max()) + 1, dtype=torch.int32, device=device)
    starts[1:] = torch.cumsum(torch.bincount(document), 0)[:-1].to(torch.int32)
    slopes = torch.exp2(-(torch.arange(H, device=device) + 1) * 8.0 / H)
    bias = torch.randn(H, 2 * length, generator=generator).to(device)
    prefix = torch.tensor([length // 4, length // 8], dtype=torch.int32, device=device)
    padding = torch.tensor([length - 100, length // 2], dtype=torch.int32, device=device)
    width = 128

    def same_document(b: Any, h: Any, q: Any, k: Any) -> Any:
        return document[q] == document[k]

    def window(size: int) -> Mod:
        return lambda b, h, q, k: q - k <= size

    def alibi(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s + slopes[h] * (k - q)

    def softcap(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return 50.0 * torch.tanh(s / 50.0)

    def relative(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s + bias[h, q - k + length]

    def prefix_or_causal(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k < prefix[b]) | (q >= k)

    def neighbourhood(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (torch.abs(q // width - k // width) <= 6) & (torch.abs(q % width - k % width) <= 6)

    def dilated(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & ((q - k) % 4 == 0) & (q - k < 4096)

    def within_document(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q - starts[document[q]]) >= (k - starts[document[k]])

    def chunks(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q // 1024 == k // 1024) & (q >= k)

    def padded(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k < padding[b]) & (q >= k)

    def streaming(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & ((q - k < 1024) | (k < 4))

    def tree(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k < length - 1024) | ((q >= k) & ((q - k) % 2 == 0))

    def head_windows(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & (q - k < 256 * (h + 1))

    def distance(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s + (k - q)

    def temperature(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s * torch.where(q < 1024, 1.0, 0.9)

    return {
        "no mask": Function(),
        "causal": Function(causal),
        "window 1024": Function(both(causal, window(1024))),
        "window 256": Function(both(causal, window(256))),
        "prefix per sequence": Function(prefix_or_causal),
        "documents": Function(same_document),
        "documents, causal": Function(both(same_document, causal)),
        "documents, window": Function(both(same_document, causal, window(256))),
        "documents, own positions": Function(both(same_document, within_document)),
        "neighbourhood 13 x 13": Function(neighbourhood),
        "dilated": Function(dilated),
        "chunks": Function(chunks),
        "padding, causal": Function(padded),
        "streaming": Function(streaming),
        "tree of guesses": Function(tree),
        "windows by head": Function(head_windows, by_head=True),
        "ALiBi, causal": Function(causal, alibi),
        "softcap, causal": Function(causal, softcap),
        "relative bias": Function(None, relative),
        "distance, causal": Function(causal, distance),
        "temperature": Function(causal, temperature),
    }


def inputs(length: int) -> list[torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(1)
    return [
        torch.randn(B, H, length, D, generator=generator, device="cuda", dtype=torch.bfloat16)
        for _ in range(3)
    ]


class Engine:
    """`mask` makes the mask object; `call` is attention with it."""

    def __init__(self, name: str, length: int) -> None:
        self.length = length
        if name == "tesela":
            import tesela

            self.attention: Any = tesela.flex_attention
            self.create: Any = tesela.create_block_mask
        else:
            from torch.nn.attention import flex_attention as flex

            self.attention = torch.compile(flex.flex_attention)
            self.create = torch.compile(flex.create_block_mask)

    def mask(self, function: Function) -> Any:
        if function.mask is None:
            return None
        heads = H if function.by_head else None
        return self.create(function.mask, B, heads, self.length, self.length, device="cuda")

    def call(self, tensors: list[torch.Tensor], function: Function, mask: Any) -> torch.Tensor:
        result = self.attention(*tensors, score_mod=function.score, block_mask=mask)
        assert isinstance(result, torch.Tensor)
        return result


def largest_error(tensors: list[torch.Tensor], out: torch.Tensor, function: Function) -> float:
    """Over some rows of some heads."""
    q, k, v = tensors
    length = q.shape[2]
    rows = torch.cat([torch.arange(0, 8), torch.arange(0, length, length // 56)]).cuda()
    keys = torch.arange(length, device="cuda")[None, :]
    worst = 0.0
    for b, h in [(0, 0), (1, H - 1)]:
        s = q[b, h][rows].double() @ k[b, h].double().T / math.sqrt(D)
        place = (torch.tensor(b).cuda(), torch.tensor(h).cuda(), rows[:, None], keys)
        if function.score is not None:
            s = function.score(s, *place).double()
        if function.mask is not None:
            s = s.masked_fill(~function.mask(*place).expand_as(s), -math.inf)
        p = torch.softmax(s, dim=-1).nan_to_num(0.0)
        worst = max(worst, float((p @ v[b, h].double() - out[b, h][rows].double()).abs().max()))
    return worst


def first_call(name: str, engine_name: str, length: int) -> float:
    """In this process: from the functions to the result, in milliseconds."""
    torch.zeros(1, device="cuda")
    tensors = inputs(length)
    function = functions(length, "cuda")[name]
    engine = Engine(engine_name, length)
    torch.cuda.synchronize()
    started = time.perf_counter()
    engine.call(tensors, function, engine.mask(function))
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e3


def first_calls(name: str, engine: str, length: int) -> tuple[float, float]:
    """In a fresh process with empty caches, and in a second one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
            TRITON_CACHE_DIR=f"{folder}/triton",
            TESELA_CACHE_DIR=f"{folder}/tesela",
        )
        times = []
        for _ in range(2):
            ran = subprocess.run(
                [sys.executable, __file__, "--first", name, "--engine", engine]
                + ["--length", str(length)],
                env=environment,
                capture_output=True,
                text=True,
            )
            times.append(float(ran.stdout.split()[-1]) if ran.returncode == 0 else math.nan)
        return times[0], times[1]


def milliseconds(work: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def wall_milliseconds(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e3


def measure(name: str, length: int, repeat: int) -> dict[str, dict[str, float]]:
    tensors = inputs(length)
    function = functions(length, "cuda")[name]
    engines = {each: Engine(each, length) for each in ("tesela", "flex")}
    result: dict[str, dict[str, float]] = {}
    masks: dict[str, Any] = {}
    for each, engine in engines.items():
        try:
            masks[each] = engine.mask(function)
            out = engine.call(tensors, function, masks[each])
        except Exception as error:  # a peer that refuses is shown, not hidden
            print(f"{each} refuses '{name}': {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        result[each] = {"error": largest_error(tensors, out, function)}
        del out
    for each in result:
        engine = engines[each]
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        new = engine.mask(function)
        out = engine.call(tensors, function, new)
        torch.cuda.synchronize()
        taken = torch.cuda.max_memory_allocated() - before - out.numel() * out.element_size()
        result[each]["memory"] = taken / 2**20
        del new, out
    times: dict[str, list[float]] = {each: [] for each in result}
    whole: dict[str, list[float]] = {each: [] for each in result}
    for _ in range(repeat):
        for each in result:
            engine, mask = engines[each], masks[each]
            call = lambda e=engine, m=mask: e.call(tensors, function, m)  # noqa: E731
            call()
            times[each].append(milliseconds(call))
            whole[each].append(
                wall_milliseconds(lambda e=engine: e.call(tensors, function, e.mask(function)))
            )
    for each in result:
        result[each]["call"] = statistics.median(times[each])
        result[each]["with mask"] = statistics.median(whole[each])
    return result


COLUMNS = [("call", "call, ms", 3), ("with mask", "with its mask, ms", 3),
           ("first", "first call, ms", 0), ("second", "in a second process, ms", 0),
           ("memory", "memory, MiB", 1), ("error", "error", 5)]  # fmt: skip


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| function | " + " | ".join(f"{title}: Tesela | Flex" for _, title, _ in COLUMNS) + " |"]
    lines.append("|---|" + "---|" * (2 * len(COLUMNS)))
    for name, row in results.items():
        cells = []
        for key, _, digits in COLUMNS:
            for engine in ("tesela", "flex"):
                value = row.get(engine, {}).get(key, math.nan)
                cells.append("–" if math.isnan(value) else f"{value:.{digits}f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--names", default="", help="joined by semicolons; all of them if empty")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--processes", type=int, default=4, help="first calls at a time; 0: none")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        print(first_call(options.first, options.engine, options.length))
        return
    names = [n for n in options.names.split(";") if n] or list(functions(options.length, "cpu"))
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        torch._dynamo.reset()
        results[name] = measure(name, options.length, options.repeat)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)
    if options.processes > 0:
        pairs = [(name, engine) for name in names for engine in results[name]]
        with ThreadPoolExecutor(options.processes) as pool:
            firsts = pool.map(lambda pair: first_calls(*pair, options.length), pairs)
        for (name, engine), (first, second) in zip(pairs, firsts):
            results[name][engine].update({"first": first, "second": second})
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)
    print(f"{torch.cuda.get_device_name()}, B {B}, H {H}, S {options.length}, D {D}, bf16, "
          f"PyTorch {torch.__version__}\n")  # fmt: skip
    print(table(results))


if __name__ == "__main__":
    main()
