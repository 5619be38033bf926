#!/usr/bin/env python3
# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/plan_time.py [--length 1048576] [--ranks 64] [--documents 8 64 300 1000 3000] [--batches 9]: the time in which the
# host makes a plan for a new batch of documents. Each batch has other documents. Prints two lines of JSON for each number of
# documents: the median, the least and the greatest time in milliseconds, and the medians of the parts: the copy of the
# documents, the count of kept cells, and the layout. "first call" is what a rank's first call with the plan adds on the
# host: the choice of a scheme, and the steps of messages and kernels. A first plan is made before, which analyses the
# variant's text.
# After an operation, PyTorch's threads wait in a loop for about 10 ms, and take processors from the threads of a plan. So
# one line is for plans that are made REST seconds after the last operation, and the other for plans right behind one.
"""Milliseconds of a plan of a split context."""

import argparse
import itertools
import json
import statistics
import time
from collections import defaultdict

import torch

REST = 0.1  # longer than PyTorch's threads wait in a loop


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

    def timed(function, part: str):
        def call(*arguments):
            begin = time.perf_counter()
            result = function(*arguments)
            parts[part].append((time.perf_counter() - begin) * 1e3)
            return result

        return call

    _plan.on_host = timed(_plan.on_host, "copy")
    _plan.CellMask.count = timed(_plan.CellMask.count, "count")
    _plan.owners_by = timed(_plan.owners_by, "layout")

    def made(ids: torch.Tensor):
        return tesela.distributed.plan("documents_causal", length=options.length, ranks=options.ranks, id=ids)

    def prepared(plan) -> None:
        scheme = plan.scheme_for(plan.shape)
        if scheme == "nodes":
            plan.of_nodes.steps(plan.scheme_between_nodes(plan.shape))
        elif scheme != "heads":
            plan.steps(scheme)

    first_call = timed(prepared, "first call")
    numbers = torch.ones(1 << 22)
    for count, rests in itertools.product(options.documents, (True, False)):
        batches = [documents(options.length, count, seed) for seed in range(options.batches)]
        made(documents(options.length, count, 99))
        parts.clear()
        times, layouts, imbalances = [], [], []
        for ids in batches:
            if rests:
                time.sleep(REST)
            else:
                numbers.add_(1)
            begin = time.perf_counter()
            plan = made(ids)
            times.append((time.perf_counter() - begin) * 1e3)
            plan.rank = 0
            first_call(plan)
            layouts.append(plan.layout.split(" ")[0])
            imbalances.append(plan.imbalance)
        print(json.dumps({
            "documents": count, "PyTorch's threads": "rest" if rests else "wait in a loop",
            "ms": round(statistics.median(times), 3), "least": round(min(times), 3), "greatest": round(max(times), 3),
            **{part: round(statistics.median(each), 3) for part, each in parts.items()},
            "layouts": sorted(set(layouts)), "busiest by the plan": round(max(imbalances), 3),
        }), flush=True)


if __name__ == "__main__":
    main()
