# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention as servers use it (decoding, chunks of prompts, ragged prompts) by Tesela, FlashAttention-3 and cuDNN, in
# Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/serving.py [--page 64] [--fa3 FOLDER] [--cases decode mixed]
#
# Each row is a problem. --page 0 keeps keys dense, with one page for each sequence. Engines take turns, in a new random
# order in each repetition. The times are medians of single calls: eager calls, and replays of a graph of the same call,
# by CUDA events. TB/s count the keys and values of the sequences; TFLOP/s count the pairs that the mask keeps.
# FlashAttention-3 comes from FOLDER (fa3.py says which files). cuDNN is PyTorch's, for dense keys of one length.
# FlashMLA comes from the folder of --flashmla (flash_mla.py says which file), for `latent` in pages of 64; it is timed
# with its work plan made before the call, and with the plan made in the call.
# The cases `prefix` have keys that all sequences share: attention_cascade is timed beside attention_paged. `latent` is
# multi-head latent attention, whose values are the first columns of the keys; its FLOPs count all pairs and both
# products. The results are compared: a difference from Tesela's of more than 0.02 is printed.
# --narrow adds Tesela's times with keys and values of 8 bits; their TB/s are those that 16 bits would have.
#
# --device cpu only tries the script out.

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fa3 as fa3_library
import flash_mla
from single_calls import milliseconds

HEADS, KV_HEADS, DIM = 32, 8, 128


@dataclass
class Problem:
    """Sequences, by their numbers of queries and keys. The last query is at the position of the last key."""

    name: str
    queries: list[int]
    keys: list[int]
    variant: str = "causal"
    parameters: dict[str, Any] = field(default_factory=dict)
    is_prompt: bool = False  # the keys belong to the queries' own tokens, and there is no cache
    heads: int = HEADS
    kv_heads: int = KV_HEADS
    dim: int = DIM
    value_dim: int = 0  # values are this many first columns of the keys; 0: values are a tensor of their own
    shared: int = 0  # how many first keys all sequences have in common

    @property
    def batch(self) -> int:
        return len(self.keys)

    def is_even(self) -> bool:
        return len(set(self.queries)) == 1 and len(set(self.keys)) == 1

    def cache_bytes(self) -> int:
        columns = self.dim * (1 if self.value_dim else 2)
        return sum(self.keys) * self.kv_heads * columns * 2

    def operations(self) -> int:
        pairs = sum(
            n * (m - n) + n * (n + 1) // 2 for n, m in zip(self.queries, self.keys, strict=True)
        )
        return 2 * pairs * self.heads * (self.dim + (self.value_dim or self.dim))


def problems(scale: int) -> dict[str, list[Problem]]:
    """The problems of each group of --cases. Lengths are divided by `scale`."""

    def even(name: str, batch: int, queries: int, keys: int, **more: Any) -> Problem:
        return Problem(name, [queries] * batch, [keys // scale] * batch, **more)

    order = random.Random(1)
    mixed = [max(1, int(2 ** order.uniform(0, 15)) // scale) for _ in range(64)]
    documents = [max(1, int(2 ** order.uniform(4, 13)) // scale) for _ in range(48)]
    window = {"variant": "sliding_window", "parameters": {"window": 1024}}
    latent = {"heads": 128, "kv_heads": 1, "dim": 576, "value_dim": 512}

    def behind(batch: int, prefix: int, keys: int) -> Problem:
        name = f"1 query, B {batch}, {keys} keys behind {prefix} shared ones"
        return even(name, batch, 1, prefix + keys, shared=prefix // scale)

    return {
        "decode": [
            even("1 query, B 1, 131072 keys", 1, 1, 131072),
            even("1 query, B 1, 8192 keys", 1, 1, 8192),
            even("1 query, B 16, 8192 keys", 16, 1, 8192),
            even("1 query, B 64, 8192 keys", 64, 1, 8192),
            even("1 query, B 128, 4096 keys", 128, 1, 4096),
        ],
        "few": [even("64 queries, B 1, 32768 keys", 1, 64, 32768)],
        "mixed": [Problem("1 query, B 64, 1 to 32k keys", [1] * 64, mixed)],
        "chunk": [even("512 queries behind 32k keys", 1, 512, 32768 + 512 * scale)],
        "ragged": [Problem("documents of 16 to 8k tokens", documents, documents, is_prompt=True)],
        "variants": [
            even("window 1024, 1 query, B 64, 8192 keys", 64, 1, 8192, **window),
            even("softcap, 1 query, B 64, 8192 keys", 64, 1, 8192, variant="softcap"),
        ],
        "prefix": [
            behind(16, 8192, 512),
            behind(64, 2048, 512),
            behind(64, 8192, 512),
            behind(64, 32768, 512),
            behind(128, 8192, 256),
        ],
        "latent": [even("latent, 1 query, B 64, 8192 keys", 64, 1, 8192, **latent)],
    }


class Inputs:
    """Queries as tokens; keys as pages in random order, or as tokens for a prompt."""

    def __init__(self, problem: Problem, page: int, device: str) -> None:
        import torch

        torch.manual_seed(2)
        self.problem, self.page = problem, page

        def randn(*shape: int) -> Any:
            return torch.randn(*shape, device=device, dtype=torch.bfloat16)

        def integers(values: Any) -> Any:
            return torch.tensor(values, dtype=torch.int32, device=device)

        starts = [0]
        for n in problem.queries:
            starts.append(starts[-1] + n)
        self.starts = integers(starts)
        self.lengths = integers(problem.keys)
        self.q = randn(starts[-1], problem.heads, problem.dim)
        if problem.is_prompt:
            self.k, self.v = randn(2, starts[-1], problem.kv_heads, problem.dim)
            return
        self.page = page = page or max(problem.keys)
        most = -(-max(problem.keys) // page)
        in_common = problem.shared // page  # an incomplete shared page is copied for each sequence
        pages = in_common + sum(-(-n // page) - in_common for n in problem.keys)
        numbers = torch.randperm(pages).tolist()
        prefix = [numbers.pop() for _ in range(in_common)]
        table = [prefix + [0] * (most - in_common) for _ in problem.keys]
        for line, n in zip(table, problem.keys, strict=True):
            for i in range(in_common, -(-n // page)):
                line[i] = numbers.pop()
        self.table = integers(table)
        self.prefix_table, self.prefix_length = integers(prefix), integers([in_common * page])
        self.k, self.v = randn(2, pages, page, problem.kv_heads, problem.dim)
        if problem.value_dim:
            self.v = None


def by_tesela(inputs: Inputs, split: bool | None, scales: str | None = None) -> Callable[[], Any]:
    """`scales`: None, or "head" or "page" for keys and values of 8 bits with scales by head or page."""
    import tesela
    import torch

    problem = inputs.problem
    k, v, narrow = inputs.k, inputs.v, {}
    if scales:
        k, v = ((each / 0.02).to(torch.float8_e4m3fn) for each in (k, v))
        heads = problem.kv_heads
        extents = (heads,) if scales == "head" else (len(k), heads)
        scale = torch.full(extents, 0.02, device=k.device)
        narrow = {"k_scale": scale, "v_scale": scale}
    variant = tesela.variant(problem.variant, **problem.parameters)
    bounds = {"max_queries": max(problem.queries), "max_keys": max(problem.keys)}
    if problem.is_prompt:
        return lambda: tesela.attention_ragged(
            *(inputs.q, k, v, variant),
            starts_q=inputs.starts,
            max_queries=bounds["max_queries"],
            **narrow,
        )
    q, more = inputs.q, {"starts_q": inputs.starts, "max_queries": bounds["max_queries"]}
    if problem.is_even():
        q, more = q.view(problem.batch, problem.queries[0], problem.heads, problem.dim), {}
    return lambda: tesela.attention_paged(
        *(q, k, v, variant),
        table=inputs.table,
        lengths=inputs.lengths,
        max_keys=bounds["max_keys"],
        split=split,
        value_dim=problem.value_dim or None,
        **more,
        **narrow,
    )


def by_cascade(inputs: Inputs, split: bool | None) -> Callable[[], Any]:
    """Computes the prefix once for all sequences. All layers share the rows of queries: they are not timed."""
    import tesela

    problem = inputs.problem
    variant = tesela.variant(problem.variant, **problem.parameters)
    rows = tesela.query_rows(inputs.starts, inputs.lengths, len(inputs.q))
    return lambda: tesela.attention_cascade(
        *(inputs.q, inputs.k, inputs.v, variant),
        table=inputs.table,
        lengths=inputs.lengths,
        starts_q=inputs.starts,
        max_queries=max(problem.queries),
        prefix_table=inputs.prefix_table,
        prefix_length=inputs.prefix_length,
        rows=rows,
        max_keys=max(problem.keys),
        split=split,
    )


def by_fa3(operators: Any, inputs: Inputs) -> Callable[[], Any] | None:
    problem = inputs.problem
    windows = {"causal": (-1, -1), "sliding_window": (problem.parameters.get("window", 0) - 1, 0)}
    if problem.variant not in windows or problem.value_dim:
        return None
    left, right = windows[problem.variant]
    given: dict[str, Any] = {
        "is_causal": problem.variant == "causal",
        "window_size_left": left,
        "window_size_right": right,
        "num_splits": 1 if problem.is_prompt else 0,
    }
    q = inputs.q
    if problem.is_prompt:
        given |= {"cu_seqlens_q": inputs.starts, "cu_seqlens_k": inputs.starts}
        given |= {"max_seqlen_q": max(problem.queries), "max_seqlen_k": max(problem.queries)}
    else:
        given |= {"page_table": inputs.table, "seqused_k": inputs.lengths}
        if problem.is_even():
            q = q.view(problem.batch, problem.queries[0], problem.heads, problem.dim)
        else:
            given |= {"cu_seqlens_q": inputs.starts, "max_seqlen_q": max(problem.queries)}
    return lambda: operators.fwd(q, inputs.k, inputs.v, **given)[0]


def by_flash_mla(operators: Any, inputs: Inputs) -> dict[str, Callable[[], Any]]:
    problem = inputs.problem
    fits = (
        problem.is_even()
        and problem.variant in ("causal", "full")
        and (inputs.page, problem.kv_heads) == (flash_mla.PAGE, 1)
        and (problem.dim, problem.value_dim) == (flash_mla.DIM, flash_mla.VALUE_DIM)
    )
    if not operators or not fits:
        return {}
    q = inputs.q.view(problem.batch, problem.queries[0], problem.heads, problem.dim)
    is_causal = problem.variant == "causal"
    planned, whole = flash_mla.decode(
        operators, q, inputs.k, inputs.table, inputs.lengths, is_causal
    )
    return {"FlashMLA": planned, "FlashMLA with its plan": whole}


def by_cudnn(inputs: Inputs) -> Callable[[], Any] | None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    problem = inputs.problem
    is_one = problem.is_even() and problem.queries[0] == 1 and not problem.is_prompt
    if (
        not is_one
        or problem.value_dim
        or problem.variant != "causal"
        or inputs.page != problem.keys[0]
    ):
        return None
    order = inputs.table[:, 0].long()
    q = inputs.q.view(problem.batch, 1, HEADS, DIM).transpose(1, 2)
    k, v = (each[order].transpose(1, 2) for each in (inputs.k, inputs.v))

    def call() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)

    return call


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """A function that replays a CUDA graph of the call."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay() -> Any:
        graph.replay()
        return kept

    return replay


def medians(
    calls: dict[str, Callable[[], Any]], is_gpu: bool, repetitions: int
) -> dict[str, float]:
    order, times = random.Random(1), {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(3):
            milliseconds(call, is_gpu, True)
    for _ in range(repetitions):
        names = list(calls)
        order.shuffle(names)
        for name in names:
            # On an idle queue an eager call includes the host's time, as it does for the caller.
            times[name].append(milliseconds(calls[name], is_gpu, not name.endswith("idle")))
            time.sleep(0.003)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description="attention as servers ask for it")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--page", type=int, default=64, help="rows of a page; 0: dense")
    parser.add_argument("--fa3", help=fa3_library.SOURCE)
    parser.add_argument("--flashmla", help=flash_mla.SOURCE)
    parser.add_argument("--cases", nargs="+", choices=tuple(problems(1)), help="default: all")
    parser.add_argument("--narrow", action="store_true", help="keys and values of 8 bits, too")
    parser.add_argument("--scale", type=int, default=1, help="divides the numbers of keys")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    is_gpu = options.device == "cuda"
    if is_gpu and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    operators = fa3_library.load(options.fa3) if options.fa3 else None
    mla_operators = flash_mla.load(options.flashmla) if options.flashmla else None
    device = torch.cuda.get_device_name() if is_gpu else "the CPU"
    pages = f"pages of {options.page}" if options.page else "dense keys"
    print(
        f"{device}, PyTorch {torch.__version__}; {HEADS} heads over {KV_HEADS}, D {DIM}, bfloat16, "
        f"{pages}\n"
    )
    print("| case | engine | ms | TB/s | TFLOP/s |\n|---|---|---:|---:|---:|", flush=True)
    groups = problems(options.scale)
    for name in options.cases or groups:
        for problem in groups[name]:
            inputs = Inputs(problem, options.page, options.device)
            calls = {"Tesela": by_tesela(inputs, None)}
            if not problem.is_prompt:
                calls["Tesela in one part"] = by_tesela(inputs, False)
            if problem.shared and len(inputs.prefix_table):
                calls["Tesela, cascade"] = by_cascade(inputs, None)
                calls["Tesela, cascade in one part"] = by_cascade(inputs, False)
            if options.narrow and not problem.value_dim:
                calls["Tesela, 8 bits"] = by_tesela(inputs, None, "head")
                if not problem.is_prompt:
                    calls["Tesela, 8 bits, in one part"] = by_tesela(inputs, False, "head")
                    calls["Tesela, 8 bits, scales of pages"] = by_tesela(inputs, None, "page")
            peers = {"FA3": by_fa3(operators, inputs) if operators else None}
            peers["cuDNN"] = by_cudnn(inputs) if is_gpu else None
            calls |= {peer: call for peer, call in peers.items() if call}
            calls |= by_flash_mla(mla_operators, inputs)
            expected = calls["Tesela"]().float().flatten()
            for engine, call in list(calls.items()):
                difference = float((call().float().flatten() - expected).abs().max())
                if difference > (0.2 if "8 bits" in engine else 0.02):
                    print(f"{problem.name}: {engine} differs by {difference:.3f}", file=sys.stderr)
                if is_gpu:
                    calls[f"{engine}, graph"] = captured(call)
                    calls[f"{engine}, idle"] = call
            for engine, ms in medians(calls, is_gpu, options.repetitions).items():
                print(
                    f"| {problem.name} | {engine} | {ms:.4f} | {problem.cache_bytes() / ms / 1e9:.3f} "
                    f"| {problem.operations() / ms / 1e9:.1f} |",
                    flush=True,
                )
            del inputs, calls
    return 0


if __name__ == "__main__":
    sys.exit(main())
