# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Draws the charts of the documents from data/bench, by matplotlib.
"""Draws the charts of the documents from data/bench.

    python3 tools/bench/picture.py       # writes docs/charts/performance.svg and forward.svg

Each picture contains a digest of its figures, so that a test can find a picture that is out of
date.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pages

COLOURS = {"tesela": "#d9480f", "cudnn": "#1c7ed6", "fa3": "#343a40", "prototype": "#ae3ec9"}
Figures = dict[str, Any]


def ratios(root: Path) -> Figures:
    """{"what, beside whom": the geometric mean} of the list `picture` of overview.json."""
    found = pages.load(root / "data/bench")
    lists = json.loads((root / "data/bench/overview.json").read_text(encoding="utf-8"))
    return {
        f"{row['what']}\nbeside {pages.NAMES[row['peer']]}": pages.summed(
            found[row["table"]], row["peer"]
        )
        for row in lists["picture"]
    }


def forward(root: Path) -> Figures:
    """{row: {engine: TFLOP/s by length}} of the forward pass. A peer's speed is Tesela's over
    the ratio."""
    table = pages.load(root / "data/bench")["forward/peers"]
    result: Figures = {"columns": table["columns"]}
    for row in table["rows"]:
        result[row["case"]] = {"tesela": row["tesela"]} | {
            peer: [round(own / value) for own, value in zip(row["tesela"], values)]
            for peer, values in row["ratio"].items()
        }
    return result


PICTURES = {"performance": ratios, "forward": forward}


def digest(figures: Figures) -> str:
    text = json.dumps(figures, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stale(root: Path) -> list[str]:
    """The pictures that are out of date."""
    found = []
    for name, figures in PICTURES.items():
        path = root / "docs/charts" / f"{name}.svg"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if f"figures {digest(figures(root))}" not in text:
            found.append(str(path.relative_to(root)))
    return found


def draw_ratios(figures: Figures) -> Any:
    import matplotlib.pyplot as plt

    shape, axes = plt.subplots(figsize=(8, 0.52 * len(figures) + 0.9))
    names, values = list(figures)[::-1], list(figures.values())[::-1]
    colours = [COLOURS["tesela"] if value >= 1 else "#868e96" for value in values]
    bars = axes.barh(names, values, color=colours, height=0.62)
    axes.bar_label(bars, [f"{value:.2f}" for value in values], padding=4)
    axes.axvline(1, color=COLOURS["fa3"], linewidth=1)
    axes.set_xlabel("times as fast as the other library (geometric mean)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    return shape


def draw_forward(figures: Figures) -> Any:
    import matplotlib.pyplot as plt

    columns = figures["columns"]
    rows = {name: row for name, row in figures.items() if name != "columns"}
    shape, grid = plt.subplots(-(-len(rows) // 2), 2, figsize=(10, 2.5 * -(-len(rows) // 2)))
    for axes in grid.flat[len(rows) :]:
        axes.set_visible(False)
    for axes, (name, row) in zip(grid.flat, rows.items()):
        for place, (engine, speeds) in enumerate(row.items()):
            at = [index + 0.27 * (place - 1) for index in range(len(columns))]
            axes.bar(at, speeds, 0.26, color=COLOURS[engine], label=pages.NAMES[engine])
        axes.set_xticks(range(len(columns)), columns)
        axes.set_title(f"{name}, TFLOP/s by length", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    shape.legend(*grid.flat[0].get_legend_handles_labels(), loc="lower right")
    return shape


def main() -> int:
    try:
        import matplotlib
    except ImportError:
        print("picture.py: matplotlib is missing: pip install matplotlib", file=sys.stderr)
        return 3
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "tesela", "svg.fonttype": "none"}
    for name, draw in (("performance", draw_ratios), ("forward", draw_forward)):
        figures = PICTURES[name](pages.ROOT)
        shape = draw(figures)
        shape.tight_layout()
        path = pages.ROOT / "docs/charts" / f"{name}.svg"
        about = {"Date": None, "Description": f"figures {digest(figures)}"}
        shape.savefig(path, metadata=about)
        text = re.sub(r"[ \t]+$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
