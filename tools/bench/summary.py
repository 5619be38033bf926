# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Statistics and tables of results, as `--json` holds them. Nothing here needs a GPU.

import math
import statistics

MODES = ("bursts", "sustained")
PEERS = ("cudnn", "fa2", "flex", "prototype")


def spread(values):
    """The median and the quartiles of times in milliseconds."""
    if len(values) > 1:
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    else:
        low = middle = high = values[0]
    return {"median_ms": middle, "quartile1_ms": low, "quartile3_ms": high, "count": len(values)}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def timed(case, engine, mode):
    """The times of `engine` in a case, None without; of several prototypes the fastest."""
    times = [
        entry[mode]
        for name, entry in case["engines"].items()
        if name.split("/")[0] == engine and mode in entry
    ]
    return min(times, key=lambda time: time["median_ms"], default=None)


def tflops(case, time):
    return case["flops"] / time["median_ms"] / 1e9


def ratio(case, peer, mode):
    """How many times as fast as `peer` Tesela is; None where one of the two was not timed."""
    ours, theirs = timed(case, "tesela", mode), timed(case, peer, mode)
    return theirs["median_ms"] / ours["median_ms"] if ours and theirs else None


def groups(cases):
    """{group: its cases}, in order."""
    result = {}
    for case in cases:
        result.setdefault(case["group"], []).append(case)
    return result


def ratios(cases, peer, mode):
    return [value for case in cases if (value := ratio(case, peer, mode))]


def geometric_means(cases):
    """{group: {mode: {peer: {mean, least, cases}}}} of Tesela's ratios."""
    result = {}
    for group, members in groups(cases).items():
        for mode in MODES:
            for peer in PEERS:
                if values := ratios(members, peer, mode):
                    entry = {
                        "mean": geometric_mean(values),
                        "least": min(values),
                        "cases": len(values),
                    }
                    result.setdefault(group, {}).setdefault(mode, {})[peer] = entry
    return result


def table(cases, mode):
    """A table for each group: TFLOP/s, the spread of Tesela's times (the distance of the
    quartiles over the median), and Tesela's ratio to each peer. "" where nothing was timed."""
    lines = []
    for group, members in groups(cases).items():
        if not any(timed(case, engine, mode) for case in members for engine in ("tesela", *PEERS)):
            continue
        peers = [peer for peer in PEERS if any(timed(case, peer, mode) for case in members)]
        width = max(len(case["label"]) for case in members) + 2
        width = max(width, len("geometric mean") + 2)
        head = f"{'':{width}}{'tesela':>8} {'spread':>7}"
        head += "".join(f"{peer:>11} {'ratio':>6}" for peer in peers)
        lines += ["", f"{group}, {mode}, TFLOP/s", head]
        for case in members:
            ours = timed(case, "tesela", mode)
            line = f"{case['label']:{width}}"
            if ours:
                share = (ours["quartile3_ms"] - ours["quartile1_ms"]) / ours["median_ms"]
                line += f"{tflops(case, ours):8.1f} {100 * share:6.1f}%"
            else:
                line += f"{case['engines']['tesela']['status']:>8} {'':7}"
            for peer in peers:
                theirs, value = timed(case, peer, mode), ratio(case, peer, mode)
                line += f"{tflops(case, theirs):11.1f}" if theirs else f"{'-':>11}"
                line += f" {value:6.2f}" if value else f" {'-':>6}"
            lines.append(line)
        if not peers:
            continue
        line = f"{'geometric mean':{width}}{'':16}"
        for peer in peers:
            mean = geometric_mean(ratios(members, peer, mode))
            line += f"{'':11}" + (f" {mean:6.2f}" if mean else f" {'-':>6}")
        lines.append(line)
    return "\n".join(lines[1:])
