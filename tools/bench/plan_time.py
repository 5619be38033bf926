#!/usr/bin/env python3
# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/plan_time.py [--length 1048576] [--ranks 64] [--documents 8 64 300 1000 3000] [--batches 9]: the time in which the
# host makes a plan for a new batch of documents. Each batch has other documents. Prints one line of JSON for each number of
# documents: the median, the least and the greatest time in milliseconds, and the medians of the parts: the copy of the
# documents, the count of kept cells, and the layout. A first plan is made before, which analyses the variant's text.
"""Milliseconds of a plan of a split context."""

import argparse
import json
import statistics
import time
from collections import defaultdict

import torch


def documents(length: int, count: int, seed: int) -> torch.Tensor:
    """The document of each token; the ends are random."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.sort(torch.randperm(length, generator=generator)[: count - 1])[0]
    return torch.searchsorted(ends, torch.arange(length), right=True).int()[None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=1 << 20)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--documents", type=int, nargs="+", default=[8, 64, 300, 1000, 3000])
    parser.add_argument("--batches", type=int, default=9)
    options = parser.parse_args()

    import tesela.distributed
    from tesela.distributed import _plan

    parts: dict[str, list[float]] = defaultdict(list)

    def timed(owner, name: str, part: str) -> None:
        function = getattr(owner, name)

        def call(*arguments):
            begin = time.perf_counter()
            result = function(*arguments)
            parts[part].append((time.perf_counter() - begin) * 1e3)
            return result

        setattr(owner, name, call)

    timed(_plan, "on_host", "copy")
    timed(_plan.CellMask, "count", "count")
    timed(_plan, "owners_by", "layout")

    def made(ids: torch.Tensor):
        return tesela.distributed.plan("documents_causal", length=options.length, ranks=options.ranks, id=ids)

    for count in options.documents:
        batches = [documents(options.length, count, seed) for seed in range(options.batches)]
        made(documents(options.length, count, 99))
        parts.clear()
        times, layouts, imbalances = [], [], []
        for ids in batches:
            begin = time.perf_counter()
            plan = made(ids)
            times.append((time.perf_counter() - begin) * 1e3)
            layouts.append(plan.layout.split(" ")[0])
            imbalances.append(plan.imbalance)
        print(json.dumps({
            "documents": count, "ms": round(statistics.median(times), 3), "least": round(min(times), 3),
            "greatest": round(max(times), 3),
            **{part: round(statistics.median(each), 3) for part, each in parts.items()},
            "layouts": sorted(set(layouts)), "busiest by the plan": round(max(imbalances), 3),
        }), flush=True)


if __name__ == "__main__":
    main()
