# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The chart as SVG text: one panel of grouped bars for each group of cases.

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

import summary

COLOURS = {
    "tesela": "#d9480f",
    "classified": "#f59f00",
    "deterministic": "#fab005",
    "cudnn": "#1c7ed6",
    "fa3": "#343a40",
    "fa3_deterministic": "#0b7285",
    "flex": "#37b24d",
    "fa2": "#868e96",
    "prototype": "#ae3ec9",
}
INK, GREY, RULE = "#212529", "#495057", "#dee2e6"
PANEL_WIDTH, PANEL_HEIGHT = 560, 270
LEFT, TOP, BOTTOM, GAP = 44, 34, 34, 24  # within a panel
HEADER = 74


def tick_step(largest: float, ticks: int = 5) -> float:
    """A round step (1, 2 or 5 times a power of ten), so that at most `ticks` steps reach
    `largest`."""
    if largest <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(largest / ticks))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * ticks >= largest)


def text(
    x: float,
    y: float,
    content: str,
    size: int = 12,
    anchor: str = "start",
    fill: str = INK,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{fill}" font-weight="{weight}">{escape(content)}</text>'
    )


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, tip: str | None = None
) -> str:
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"'
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def panel(
    group: str,
    members: Sequence[summary.Result],
    engines: Sequence[str],
    mode: str,
    x: float,
    y: float,
) -> list[str]:
    """The panel of one group: a cluster of bars for each case, in TFLOP/s, with figures above
    Tesela's bars."""
    values = {
        (index, engine): summary.tflops(case, time)
        for index, case in enumerate(members)
        for engine in engines
        if (time := summary.timed(case, engine, mode))
    }
    step = tick_step(max(values.values(), default=1))
    top = step * math.ceil(max(values.values(), default=1) / step)
    width, height = PANEL_WIDTH - LEFT, PANEL_HEIGHT - TOP - BOTTOM
    left, base = x + LEFT, y + PANEL_HEIGHT - BOTTOM
    parts = [text(left, y + 16, f"{group}, {mode}", size=14, weight="bold")]
    for tick in range(round(top / step) + 1):
        level = base - height * tick * step / top
        parts.append(
            f'<line x1="{left}" y1="{level:.1f}" x2="{left + width}" y2="{level:.1f}" '
            f'stroke="{RULE}"/>'
        )
        parts.append(text(left - 6, level + 4, f"{tick * step:g}", 11, "end", GREY))
    cluster = width / len(members)
    most = max(
        sum((index, engine) in values for engine in engines) for index in range(len(members))
    )
    bar = min(22.0, 0.84 * cluster / max(1, most))
    for index, case in enumerate(members):
        middle = left + cluster * (index + 0.5)
        # Long labels are written with one word on each line.
        words = [case["label"]] if len(case["label"]) * 6 < cluster else case["label"].split()
        for line, word in enumerate(words):
            parts.append(text(middle, base + 16 + 12 * line, word, 11, "middle", GREY))
        present = [engine for engine in engines if (index, engine) in values]
        for place, engine in enumerate(present):
            value = values[index, engine]
            start, rise = middle + (place - len(present) / 2) * bar, height * value / top
            tip = f"{summary.NAMES[engine]}, {group}, {case['label']}: {value:.0f} TFLOP/s"
            parts.append(rectangle(start, base - rise, bar - 1, rise, COLOURS[engine], tip))
            if engine == "tesela":
                label = f"{value:.0f}"
                parts.append(
                    text(start + bar / 2, base - rise - 4, label, 10, "middle", weight="bold")
                )
    return parts


def svg(results: dict[str, Any]) -> str:
    """The whole chart of `results` (what `--json` writes). If there are two modes, they are side
    by side."""
    cases, modes = results["cases"], results["settings"]["modes"]
    engines = [
        engine
        for engine in COLOURS
        if any(summary.timed(case, engine, mode) for case in cases for mode in modes)
    ]
    panels = [
        (group, members, mode)
        for group, members in summary.groups(cases).items()
        for mode in modes
        if any(summary.timed(case, engine, mode) for case in members for engine in engines)
    ]
    columns = min(2, max(1, len(panels)))
    rows = math.ceil(len(panels) / columns)
    width = GAP + columns * (PANEL_WIDTH + GAP)
    height = HEADER + rows * (PANEL_HEIGHT + GAP)
    types = sorted({case["shape"]["dtype"] for case in cases})
    title = (
        f"Attention, {results['settings'].get('pass', 'forward')} pass, TFLOP/s (higher is better): "
        f"{results['device']}, {', '.join(types)}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">',
        rectangle(0, 0, width, height, "#ffffff"),
        text(GAP, 28, title, size=16, weight="bold"),
    ]
    x = GAP
    for engine in engines:
        parts += [
            rectangle(x, 44, 12, 12, COLOURS[engine]),
            text(x + 17, 54, summary.NAMES[engine], 12, fill=GREY),
        ]
        x += 40 + 7 * len(summary.NAMES[engine])
    parts.append(text(width - GAP, 54, "medians", 12, "end", GREY))
    for index, (group, members, mode) in enumerate(panels):
        row, column = divmod(index, columns)
        place = (GAP + column * (PANEL_WIDTH + GAP), HEADER + row * (PANEL_HEIGHT + GAP))
        parts += panel(group, members, engines, mode, *place)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
