# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first call of causal attention in a new Python process, by Tesela and by FlexAttention.

    python3 tools/bench/first_call.py [--runs 9] [--head-dim 128] [--at-once 1] [--flex-at-once 1]
        [--engines tesela flex]

Each run is a process of its own. The time is that of the call, until its result is on the device.
PyTorch and the engine are imported and CUDA is started before, as in `flex_functions.py`. What a
process finds:

- Tesela: nothing (no kernels of the package, empty caches); the same with `fast_start` (the call
  runs the simple schedule); the package's kernels; the disk cache;
- FlexAttention, compiled, with its `create_block_mask`: empty caches; the caches of an earlier
  process.

Processes that run at once share the processors and the device. With more than one, the script ends
sooner, and compiling takes longer.

If the library came without kernels, set TESELA_SHIPPED_KERNELS to a pack. The script prints a row
for each case, with the median, the least and the largest of the runs. It needs PyTorch with CUDA
and the package `tesela`. Exit status: 0 done, 1 a process failed, or it compiled a kernel that it
should have found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHILD = r"""
import json, sys, time
import torch

engine, found, head_dim = sys.argv[1], sys.argv[2], int(sys.argv[3])
q, k, v = (torch.randn(1, 16, 1024, head_dim, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
if engine == "tesela":
    import tesela

    def call():
        if found == "two tiers":
            tesela.prepare(["causal"], head_dim=head_dim, length=1024, fast_start=True).wait()
        return tesela.attention(q, k, v, "causal")
else:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def call():
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 1024, 1024)
        return torch.compile(flex_attention)(q, k, v, block_mask=mask)
torch.cuda.synchronize()
begin = time.perf_counter()
out = call()
torch.cuda.synchronize()
took = time.perf_counter() - begin
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
assert (out - expected).abs().max() < 0.05, "the result is wrong"
print(json.dumps(took * 1e3))
"""

ROWS = [  # (the engine, what the process finds)
    ("tesela", "nothing"),
    ("tesela", "two tiers"),
    ("tesela", "package"),
    ("tesela", "disk cache"),
    ("flex", "empty caches"),
    ("flex", "warm caches"),
]


def run(engine: str, found: str, folder: str, head_dim: int) -> float:
    """Milliseconds of the first call of a new process whose caches are in `folder`."""
    environment = {
        **os.environ,
        "TESELA_CACHE_DIR": os.path.join(folder, "tesela"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
    }
    if found != "package":
        environment["TESELA_SHIPPED_KERNELS"] = ""
    if found in ("nothing", "two tiers"):
        environment["CUDA_CACHE_DISABLE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, engine, found, str(head_dim)],
        capture_output=True, text=True, env=environment, check=False)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"first_call: a process of {engine} with {found} failed:\n{done.stderr}")
    kept = list(Path(folder, "tesela").rglob("*.kernel"))
    if engine == "tesela" and bool(kept) == (found == "package"):
        sys.exit(f"first_call: {len(kept)} kernels were compiled by a process with {found}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure(engine: str, found: str, options: argparse.Namespace) -> list[float]:
    """All runs of one row."""
    with tempfile.TemporaryDirectory() as folder:
        is_warm = found in ("disk cache", "warm caches")
        if is_warm:
            run(engine, "disk cache", folder, options.head_dim)

        def once(number: int) -> float:
            own = folder if is_warm else os.path.join(folder, str(number))
            return run(engine, found, own, options.head_dim)

        at_once = options.flex_at_once if engine == "flex" else options.at_once
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(once, range(options.runs)))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--at-once", type=int, default=1, help="Tesela's processes")
    parser.add_argument("--flex-at-once", type=int, default=1, help="FlexAttention's")
    parser.add_argument("--engines", nargs="+", choices=("tesela", "flex"), default=None)
    options = parser.parse_args()
    print(f"first call of causal attention, D {options.head_dim}, ms, medians of {options.runs}")
    print("| engine | a process finds | median | least | most |\n|---|---|--:|--:|--:|")
    for engine, found in ROWS:
        if options.engines and engine not in options.engines:
            continue
        times = measure(engine, found, options)
        print(
            f"| {engine} | {found} | {statistics.median(times):.1f} | {min(times):.1f} "
            f"| {max(times):.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
