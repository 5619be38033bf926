# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Statistics of results in the form that `--json` writes. No GPU is needed.

import math
import statistics
from collections.abc import Sequence
from typing import Any

MODES = ("bursts", "sustained")
PEERS = (
    "classified",
    "deterministic",
    "cudnn",
    "fa3",
    "fa3_deterministic",
    "fa2",
    "flex",
    "prototype",
)
OURS = ("tesela", "classified", "deterministic")
LIBRARY = "library"  # names of groups of library variants begin with this
NAMES = {
    "tesela": "Tesela",
    "classified": "Tesela, classified",
    "deterministic": "Tesela, deterministic",
    "cudnn": "cuDNN",
    "fa3": "FlashAttention-3",
    "fa3_deterministic": "FlashAttention-3, deterministic",
    "fa2": "FlashAttention-2",
    "flex": "FlexAttention",
    "prototype": "prototype",
}

Result = dict[str, Any]  # the result of one case
Times = dict[str, float]  # the times of one engine in one mode


def spread(values: Sequence[float]) -> Times:
    """The median and the quartiles of times in milliseconds."""
    if len(values) > 1:
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    else:
        low = middle = high = values[0]
    return {"median_ms": middle, "quartile1_ms": low, "quartile3_ms": high, "count": len(values)}


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def timed(case: Result, engine: str, mode: str) -> Times | None:
    """The times of `engine` in a case, or None. Of several prototypes, those of the fastest."""
    times = [
        entry[mode]
        for name, entry in case["engines"].items()
        if name.split("/")[0] == engine and mode in entry
    ]
    return min(times, key=lambda time: time["median_ms"], default=None)


def tflops(case: Result, time: Times) -> float:
    return case["flops"] / time["median_ms"] / 1e9


def to_compare(entries: dict[str, Any]) -> bool:
    """Whether at least one of Tesela's engines was not left out of a case. Otherwise there is
    nothing to compare peers with."""
    return any(entries[name]["status"] != "left out" for name in OURS if name in entries)


def ratio(case: Result, peer: str, mode: str, own: str = "tesela") -> float | None:
    """How many times as fast as `peer` Tesela's engine `own` is; None if one of the two was not
    timed."""
    ours, theirs = timed(case, own, mode), timed(case, peer, mode)
    return theirs["median_ms"] / ours["median_ms"] if ours and theirs else None


def ratio_with_block_mask(case: Result, mode: str) -> float | None:
    """Like `ratio` to FlexAttention, if FlexAttention makes its block mask anew for each launch."""
    ours, theirs = timed(case, "tesela", mode), timed(case, "flex", mode)
    block_mask = case["engines"].get("flex", {}).get("block_mask_ms")
    if not ours or not theirs or not block_mask:
        return None
    return (theirs["median_ms"] + block_mask) / ours["median_ms"]


def tile_tflops(case: Result, mode: str) -> float | None:
    """Tesela's TFLOP/s, counted over the tiles that have a kept pair."""
    time, flops = timed(case, "tesela", mode), case["engines"]["tesela"].get("tile_flops")
    return flops / time["median_ms"] / 1e9 if time and flops else None


def groups(cases: Sequence[Result]) -> dict[str, list[Result]]:
    """{group: its cases}, in order."""
    result: dict[str, list[Result]] = {}
    for case in cases:
        result.setdefault(case["group"], []).append(case)
    return result


def ratios(cases: Sequence[Result], peer: str, mode: str, own: str = "tesela") -> list[float]:
    return [value for case in cases if (value := ratio(case, peer, mode, own))]


def geometric_means(cases: Sequence[Result], own: str = "tesela") -> dict[str, Any]:
    """{group: {mode: {peer: {mean, least, cases}}}} of the ratios of Tesela's engine `own`."""
    result: dict[str, Any] = {}
    for group, members in groups(cases).items():
        for mode in MODES:
            for peer in PEERS:
                if peer != own and (values := ratios(members, peer, mode, own)):
                    entry = {
                        "mean": geometric_mean(values),
                        "least": min(values),
                        "cases": len(values),
                    }
                    result.setdefault(group, {}).setdefault(mode, {})[peer] = entry
    return result
