# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks and scores, written as FlexAttention's users write them, by Tesela and by FlexAttention.

    python3 tools/bench/flex_functions.py [--json FILE] [--names "causal;softcap, causal"]

Both engines get the same function: Tesela as `tesela.flex_attention`, PyTorch as its compiled
`flex_attention`. B 2, H 16, D 128, bf16, random data, one GPU. The script prints a row for each
function, with

- the time of a call whose mask object exists (median of interleaved calls, CUDA events);
- the time of a call with a new mask object (compiled `create_block_mask` for FlexAttention);
- the time of the first call in a fresh process with empty caches, and in a second process with the
  first one's caches. It goes from the functions to the result. It does not include the import of
  the two packages or making the inputs. It includes what a compiler imports at its first use;
- the memory that a new mask and a call take, besides the inputs and the result;
- the largest error, over sampled rows, against attention in double precision.

The first calls take four new processes for each function, about 50 seconds in all. So the functions
can be measured a few at a time, and the results of several runs can be merged:

    python3 tools/bench/flex_functions.py --columns calls --json calls.json
    python3 tools/bench/flex_functions.py --columns first --seconds 240 --json first.json
    python3 tools/bench/flex_functions.py --merge calls.json first.json

A run with `--seconds` starts nothing that it could not finish, and says what is left.

The script needs PyTorch with CUDA and the package `tesela`; `--merge` needs neither a GPU nor the
package. `--device cpu` only tries the script out; its times say nothing about a GPU. Exit status: 0
done, 1 something failed or was left for lack of time, 2 bad usage, 3 PyTorch's CUDA or the package
is missing.
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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import torch

Mod = Callable[..., Any]
Results = dict[str, dict[str, dict[str, float]]]  # function -> engine -> quantity -> figure
B, H, D = 2, 16, 128


@dataclass
class Function:
    """A mask, a score, or both."""

    mask: Mod | None = None
    score: Mod | None = None
    by_head: bool = False  # whether the mask depends on the head


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
    """The functions by name. Their tensors are on `device`."""
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


def inputs(length: int, device: str) -> list[torch.Tensor]:
    generator = torch.Generator(device).manual_seed(1)
    return [
        torch.randn(B, H, length, D, generator=generator, device=device, dtype=torch.bfloat16)
        for _ in range(3)
    ]


def synchronize() -> None:
    """Waits for the GPU. On the CPU a call returns when its work is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Engine:
    """One engine: `mask` makes the mask object, `call` computes attention with it."""

    def __init__(self, name: str, length: int, device: str) -> None:
        self.length, self.device = length, device
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
        return self.create(function.mask, B, heads, self.length, self.length, device=self.device)

    def call(self, tensors: list[torch.Tensor], function: Function, mask: Any) -> torch.Tensor:
        result = self.attention(*tensors, score_mod=function.score, block_mask=mask)
        assert isinstance(result, torch.Tensor)
        return result


def largest_error(tensors: list[torch.Tensor], out: torch.Tensor, function: Function) -> float:
    """The largest error over some rows of some heads, against attention in double precision."""
    q, k, v = tensors
    length = q.shape[2]
    rows = torch.cat([torch.arange(0, 8), torch.arange(0, length, length // 56)]).to(q.device)
    keys = torch.arange(length, device=q.device)[None, :]
    worst = 0.0
    for b, h in [(0, 0), (1, H - 1)]:
        s = q[b, h][rows].double() @ k[b, h].double().T / math.sqrt(D)
        place = (*torch.tensor([b, h], device=q.device), rows[:, None], keys)
        if function.score is not None:
            s = function.score(s, *place).double()
        if function.mask is not None:
            s = s.masked_fill(~function.mask(*place).expand_as(s), -math.inf)
        p = torch.softmax(s, dim=-1).nan_to_num(0.0)
        worst = max(worst, float((p @ v[b, h].double() - out[b, h][rows].double()).abs().max()))
    return worst


def first_call(name: str, engine_name: str, length: int, device: str) -> float:
    """Milliseconds of the first call in this process, from the functions to the result."""
    torch.zeros(1, device=device)
    tensors = inputs(length, device)
    function = functions(length, device)[name]
    engine = Engine(engine_name, length, device)
    synchronize()
    started = time.perf_counter()
    engine.call(tensors, function, engine.mask(function))
    synchronize()
    return (time.perf_counter() - started) * 1e3


class NoTimeLeft(Exception):
    """The next measurement would exceed the limit of `--seconds`."""


class Clock:
    """The time that is left of `--seconds`. Without `--seconds` there is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds
        self.longest = 0.0  # the longest measurement so far

    def left(self) -> float | None:
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    def begin(self) -> None:
        """Raises NoTimeLeft if another measurement as long as the longest one would not finish
        in time."""
        left = self.left()
        if left is not None and left <= self.longest:
            raise NoTimeLeft


def first_calls(
    name: str, engine: str, options: argparse.Namespace, clock: Clock
) -> dict[str, float]:
    """The first call in a fresh process with empty caches, and in a second one. May raise
    RuntimeError."""
    clock.begin()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
            TRITON_CACHE_DIR=f"{folder}/triton",
            TESELA_CACHE_DIR=f"{folder}/tesela",
        )
        command = [sys.executable, __file__, "--first", name, "--engine", engine]
        command += ["--length", str(options.length), "--device", options.device]
        times = {}
        for process in ("first", "second"):
            try:
                ran = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=clock.left()
                )
            except subprocess.TimeoutExpired as error:
                raise NoTimeLeft from error
            if ran.returncode != 0:
                raise RuntimeError((ran.stderr.strip().splitlines() or ["no message"])[-1])
            times[process] = float(ran.stdout.split()[-1])
    clock.longest = max(clock.longest, time.monotonic() - started)
    return times


def milliseconds(work: Callable[[], Any]) -> float:
    if not torch.cuda.is_available():
        return wall_milliseconds(work)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def wall_milliseconds(work: Callable[[], Any]) -> float:
    synchronize()
    started = time.perf_counter()
    work()
    synchronize()
    return (time.perf_counter() - started) * 1e3


def memory(engine: Engine, tensors: list[torch.Tensor], function: Function) -> float:
    """MiB that a new mask and a call take, besides the inputs and the result."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    mask = engine.mask(function)
    out = engine.call(tensors, function, mask)
    torch.cuda.synchronize()
    taken = torch.cuda.max_memory_allocated() - before - out.numel() * out.element_size()
    return taken / 2**20


def measure(name: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    length, device = options.length, options.device
    tensors = inputs(length, device)
    function = functions(length, device)[name]
    engines = {each: Engine(each, length, device) for each in ENGINES}
    result: dict[str, dict[str, float]] = {}
    masks: dict[str, Any] = {}
    for each, engine in engines.items():
        try:
            masks[each] = engine.mask(function)
            out = engine.call(tensors, function, masks[each])
        except Exception as error:  # an engine that refuses is reported
            say(f"{each} refuses '{name}': {(str(error).splitlines() or [repr(error)])[0]}")
            continue
        result[each] = {"error": largest_error(tensors, out, function)}
        del out
    if device == "cuda":
        for each in result:
            result[each]["memory"] = memory(engines[each], tensors, function)
    times: dict[str, list[float]] = {each: [] for each in result}
    whole: dict[str, list[float]] = {each: [] for each in result}
    for _ in range(options.repeat):
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


ENGINES = ("tesela", "flex")
COLUMNS = [("call", "call, ms", 3), ("with mask", "with its mask, ms", 3),
           ("first", "first call, ms", 0), ("second", "in a second process, ms", 0),
           ("memory", "memory, MiB", 1), ("error", "error", 5)]  # fmt: skip


def table(results: Results) -> str:
    """The columns that were measured."""
    columns = [
        column
        for column in COLUMNS
        if any(column[0] in entry for row in results.values() for entry in row.values())
    ]
    titles = " | ".join(f"{title}: Tesela | Flex" for _, title, _ in columns)
    lines = [f"| function | {titles} |", "|---|" + "---|" * (2 * len(columns))]
    for name, row in results.items():
        cells = []
        for key, _, digits in columns:
            for engine in ENGINES:
                value = row.get(engine, {}).get(key, math.nan)
                cells.append("–" if math.isnan(value) else f"{value:.{digits}f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def merged(files: list[str]) -> Results:
    """The results of several runs. If two files have the same figure, the later file's counts."""
    results: Results = {}
    for path in files:
        with open(path) as file:
            for name, row in json.load(file).items():
                for engine, entry in row.items():
                    results.setdefault(name, {}).setdefault(engine, {}).update(entry)
    return results


def say(sentence: str) -> None:
    print(f"flex_functions: {sentence}", file=sys.stderr, flush=True)


def save(results: Results, path: str | None) -> None:
    if path:
        with open(f"{path}.part", "w") as file:
            json.dump(results, file, indent=1)
        os.replace(f"{path}.part", path)


def run(names: list[str], options: argparse.Namespace) -> tuple[Results, list[str], bool]:
    """(the results, the functions that no time was left for, whether a first call failed)"""
    results: Results = {}
    left: list[str] = []
    clock = Clock(options.seconds)
    if "calls" in options.columns:
        for name in names:
            started = time.monotonic()
            try:
                clock.begin()
            except NoTimeLeft:
                left.append(name)
                continue
            torch._dynamo.reset()
            results[name] = measure(name, options)
            save(results, options.json)
            clock.longest = max(clock.longest, time.monotonic() - started)
    failed = False
    if "first" in options.columns:
        pairs = [(name, each) for name in names if name not in left for each in ENGINES]
        with ThreadPoolExecutor(options.processes) as pool:
            jobs = {pool.submit(first_calls, *pair, options, clock): pair for pair in pairs}
            for job in as_completed(jobs):
                name, engine = jobs[job]
                try:
                    times = job.result()
                except NoTimeLeft:
                    left.append(name)
                except RuntimeError as error:
                    say(f"the first call of '{name}' by {engine} failed: {error}")
                    failed = True
                else:
                    results.setdefault(name, {}).setdefault(engine, {}).update(times)
                    save(results, options.json)
        results = {name: results[name] for name in names if name in results}
        save(results, options.json)
    return results, [name for name in names if name in left], failed


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--json", metavar="FILE", help="for the results; written anew after each function")
    add("--names", default="", help="joined by semicolons; all of them if empty")
    add("--columns", nargs="+", choices=("calls", "first"), default=["calls", "first"],
        help="calls: times, memory and errors; first: first calls; default: both")  # fmt: skip
    add("--seconds", type=float, help="what would not end in them is left; default: no limit")
    add("--merge", nargs="+", metavar="FILE", help="only a table of the --json of several runs")
    add("--length", type=int, default=8192)
    add("--repeat", type=int, default=15)
    add("--processes", type=int, default=4, help="first calls at a time")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script out")
    add("--first", help=argparse.SUPPRESS)
    add("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processes < 1:
        parser.error(f"argument --processes: {options.processes} is less than 1")
    if options.length < 56:
        parser.error(f"argument --length: {options.length} is less than 56")
    if options.merge and options.json in options.merge:
        parser.error(f"argument --json: '{options.json}' is one of the files that are merged")
    known = list(functions(options.length, "cpu"))
    options.names = [name.strip() for name in options.names.split(";") if name.strip()] or known
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"argument --names: '{unknown[0]}' is unknown: choose from {'; '.join(known)}")
    return options


def main() -> int:
    options = parse()
    if options.merge:
        try:
            results = merged(options.merge)
        except (OSError, ValueError, AttributeError) as error:
            say(f"--merge: {error}: name files that --json wrote")
            return 2
        save(results, options.json)
        print(table(results))
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        say("PyTorch finds no CUDA device: name --device cpu to try the script out")
        return 3
    try:
        import tesela  # noqa: F401
    except ImportError as error:
        say(f"{error}: set PYTHONPATH to a build's folder python, or install the package")
        return 3
    if options.first:
        print(first_call(options.first, options.engine, options.length, options.device))
        return 0
    results, left, failed = run(options.names, options)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{where}, B {B}, H {H}, S {options.length}, D {D}, bf16, PyTorch {torch.__version__}\n")
    print(table(results))
    if left:
        say(f'no time was left for: --names "{";".join(left)}"')
    return 1 if left or failed else 0


if __name__ == "__main__":
    sys.exit(main())
