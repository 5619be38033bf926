# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The tables of results (the form that `--json` writes) in Markdown that is also readable as plain
# text.

from collections.abc import Sequence
from typing import Any

from summary import (
    LIBRARY,
    MODES,
    NAMES,
    PEERS,
    Result,
    Times,
    geometric_mean,
    geometric_means,
    groups,
    ratio,
    ratio_with_block_mask,
    ratios,
    tflops,
    tile_tflops,
    timed,
)


def cell(text: Any) -> str:
    return str(text).replace("|", "\\|")


def table(rows: Sequence[Sequence[Any]], left: int = 1) -> list[str]:
    """The lines of a table. The first row is the head; the first `left` columns are aligned
    left."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*texts)]
    rule = ["-" * (width - (i >= left)) + ":" * (i >= left) for i, width in enumerate(widths)]
    lines = []
    for row in (texts[0], rule, *texts[1:]):
        aligned = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ]
        lines.append(f"| {' | '.join(aligned)} |")
    return lines


def speed(case: Result, time: Times) -> str:
    """TFLOP/s, and the distance of the quartiles in percent of the median."""
    share = (time["quartile3_ms"] - time["quartile1_ms"]) / time["median_ms"]
    value = tflops(case, time)
    return f"{value:.{0 if value >= 100 else 1}f} ({100 * share:.1f}%)"


def two_digits(value: float | None) -> str:
    return f"{value:.2f}" if value else ""


def engine_cell(case: Result, engine: str, mode: str) -> str:
    """An engine's speed, or why it has none. Empty if the engine is not meant for the case."""
    if time := timed(case, engine, mode):
        return speed(case, time)
    names = [name for name in case["engines"] if name.split("/")[0] == engine]
    return case["engines"][names[0]]["status"] if names else ""


def speeds(members: Sequence[Result], mode: str) -> list[str]:
    """A group's cases, one in each row: the speed of each engine, and Tesela's ratio to each
    peer."""
    peers = [peer for peer in PEERS if any(timed(case, peer, mode) for case in members)]
    masks = [case["engines"].get("flex", {}).get("block_mask_ms") for case in members]
    head = ["", NAMES["tesela"]]
    for peer in peers:
        head += [NAMES[peer], "ratio"]
    rows = [head]
    for case in members:
        row = [case["label"], engine_cell(case, "tesela", mode)]
        for peer in peers:
            row += [engine_cell(case, peer, mode), two_digits(ratio(case, peer, mode))]
        rows.append(row)
    if peers and len(members) > 1:
        row = ["geometric mean", ""]
        for peer in peers:
            row += ["", two_digits(geometric_mean(ratios(members, peer, mode)))]
        rows.append(row)
    if any(masks):
        head += ["block mask, ms", "ratio with it"]
        counted = [ratio_with_block_mask(case, mode) for case in members]
        for row, mask, value in zip(rows[1:], [*masks, None], [*counted, None]):
            row += [two_digits(mask), two_digits(value)]
    return table(rows)


def remark(case: Result) -> str:
    """The numbers that a library variant was given, or why an engine has no time."""
    bad = [
        f"{NAMES[name]} {entry['status'].upper()}: {entry['reason'].strip().splitlines()[0]}"
        for name, entry in case["engines"].items()
        if "reason" in entry
    ]
    numbers = [f"{name} = {value:g}" for name, value in case.get("numbers", {}).items()]
    return "; ".join(bad) or ", ".join(numbers)


def library(members: Sequence[Result], mode: str) -> list[str]:
    """The library's variants beside FlexAttention, one in each row, and the means over all."""
    ours, theirs = NAMES["tesela"], NAMES["flex"]
    head = ["", f"{ours}, ms", f"{theirs}, ms", f"{ours}, TFLOP/s", f"{theirs}, TFLOP/s"]
    rows = [[*head, "ratio", "remark"]]
    for case in members:
        times = [timed(case, engine, mode) for engine in ("tesela", "flex")]
        rows.append(
            [
                case["label"],
                *(f"{time['median_ms']:.3f}" if time else "" for time in times),
                *(engine_cell(case, engine, mode) for engine in ("tesela", "flex")),
                two_digits(ratio(case, "flex", mode)),
                remark(case),
            ]
        )
    lines = table(rows)
    found = [(value, case["label"]) for case in members if (value := ratio(case, "flex", mode))]
    if found:
        mean = geometric_mean([value for value, _ in found])
        slower = [f"{label} {value:.3f}" for value, label in sorted(found) if value < 1]
        lines += [
            "",
            f"Geometric mean {mean:.2f} of {len(found)} variants (of {len(members)}), the least "
            f"{min(found)[0]:.2f} ({min(found)[1]}). Below 1.0: {', '.join(slower) or 'none'}.",
        ]
    return lines


def tiles(members: Sequence[Result], mode: str) -> list[str]:
    """Tesela's speed over the tiles that have a kept pair, beside its speed without a mask.
    Empty if the group has no such case."""
    full = [case for case in members if case["shape"]["variant"] == "full"]
    whole = tile_tflops(full[0], mode) if full and len(members) > len(full) else None
    if not whole:
        return []
    rows = [["", "tiles a head", "of their pairs kept", "useful", "over tiles", "to full"]]
    for case in members:
        if value := tile_tflops(case, mode):
            entry = case["engines"]["tesela"]
            rows.append(
                [
                    case["label"],
                    entry["tiles"],
                    f"{100 * case['flops'] / entry['tile_flops']:.1f}%",
                    f"{tflops(case, entry[mode]):.1f}",
                    f"{value:.1f}",
                    two_digits(value / whole),
                ]
            )
    return table(rows)


def reasons(members: Sequence[Result]) -> list[str]:
    """Why engines were not timed: a line for each reason, with the cases that it applies to."""
    labels: dict[tuple[str, str, str], list[str]] = {}
    for case in members:
        for name, entry in case["engines"].items():
            if "reason" in entry:
                sentence = entry["reason"].strip().split("\n")[0]
                labels.setdefault((name, entry["status"], sentence), []).append(case["label"])
    return [
        f"- {NAMES.get(name, name)} {status} at {', '.join(where)}: {sentence}"
        for (name, status, sentence), where in labels.items()
    ]


def errors(members: Sequence[Result]) -> list[str]:
    """The errors of each engine's gradients against the reference, one case in each row."""
    engines = [name for name in NAMES if any(name in case["engines"] for case in members)]
    rows = [["", *(NAMES[name] for name in engines)]]
    for case in members:
        row = [case["label"]]
        for name in engines:
            found = case["engines"].get(name, {}).get("errors")
            row.append(" / ".join(f"{value:.1e}" for value in found.values()) if found else "")
        rows.append(row)
    return table(rows) if any(any(row[1:]) for row in rows[1:]) else []


def kernels(cases: Sequence[Result]) -> list[str]:
    """Tesela's kernels, one in each row, at their first use. Later uses find the kernel in
    memory."""
    rows: dict[tuple[Any, ...], list[Any]] = {}
    entries = [(case["shape"], *item) for case in cases for item in case["engines"].items()]
    for shape, engine, entry in entries:
        if "schedule" not in entry:
            continue
        dims = str(shape["head_dim_qk"])
        if shape["head_dim_v"] != shape["head_dim_qk"]:
            dims += f"/{shape['head_dim_v']}"
        facts = ("registers", "spill_bytes", "shared_bytes", "threads")
        name = shape["variant"] + (f", {engine}" if engine != "tesela" else "")
        rows.setdefault(
            (name, dims, shape["dtype"]),
            [
                f"{name}, D {dims}, {shape['dtype']}, {entry['target']}",
                entry["schedule"],
                *(entry.get(fact, "") for fact in facts),
                f"{entry['compile_ms']:.0f}",
            ],
        )
    head = ["kernel", "schedule", "registers", "bytes spilled", "bytes shared", "threads"]
    return table([[*head, "compiled in, ms"], *rows.values()], left=2) if rows else []


def overview(cases: Sequence[Result], own: str = "tesela") -> list[str]:
    """Each group's geometric mean and least of the ratios of Tesela's engine `own`."""
    means = geometric_means(cases, own)
    found = [(group, mode, means[group][mode]) for group in means for mode in means[group]]
    peers = [peer for peer in PEERS if any(peer in values for _, _, values in found)]
    rows = [["", *(f"to {NAMES[peer]}" for peer in peers)]]
    for group, mode, values in found:
        row = [f"{group}, {mode}"]
        for peer in peers:
            value = values.get(peer)
            row.append(f"{value['mean']:.2f} ({value['least']:.2f})" if value else "")
        rows.append(row)
    return table(rows) if found else []


def section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"### {title}", "", *lines, ""] if lines else []


def markdown(results: dict[str, Any]) -> str:
    """The whole report: everything in `--json` that a person would read."""
    tesela, cases = results["tesela"], results["cases"]
    lines = [
        f"{results['device']}; Tesela {tesela['version']} ({tesela['source']}), PyTorch "
        f"{results['torch']}, cuDNN {results['cudnn']}, Triton {results['triton']}.",
        f"The {results['settings'].get('pass', 'forward')} pass. Figures are the median's TFLOP/s "
        "and, in brackets, the distance of the quartiles over the median; a ratio says how many "
        "times as fast as the peer Tesela is.",
        "",
    ]
    for group, members in groups(cases).items():
        for mode in MODES:
            if any(timed(case, engine, mode) for case in members for engine in NAMES):
                rows = library if group.startswith(LIBRARY) else speeds
                lines += section(f"{group}, {mode}", rows(members, mode))
                lines += section(f"{group}, {mode}: tiles", tiles(members, mode))
        lines += section(f"{group}: errors of dq / dk / dv", errors(members))
        lines += section(f"{group}, not timed", reasons(members))
    lines += section("Ratios: geometric mean (least)", overview(cases))
    own = "deterministic"
    lines += section(f"Ratios of {NAMES[own]}: geometric mean (least)", overview(cases, own))
    lines += section("Tesela's kernels", kernels(cases))
    if "stopped" in results:
        lines += [f"Stopped at {results['stopped']}", ""]
    return "\n".join(lines).rstrip()
