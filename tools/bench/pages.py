# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes the figures of `data/bench` into the documents.
"""Writes the figures of data/bench/*.json into the documents.

    python3 tools/bench/pages.py                       # rewrites the tables in README.md and docs/
    python3 tools/bench/pages.py --check               # says which tables are out of date; exit status 1
    python3 tools/bench/pages.py --import results.json --into forward/peers

A block in a document looks like this:

    <!-- bench forward/peers -->
    <!-- end bench -->

`forward/peers` is the table `peers` of data/bench/forward.json. `overview/LIST` is a list of data/bench/overview.json,
and `log` is the list of the pages of docs/log. This script writes the lines between the two comments.
data/bench/README.md describes the files. `--import` makes a table from the output of `tools/bench --json`.
"""

import argparse
import datetime
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import summary
import tables

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    **summary.NAMES,
    "prototype": "hand-written",
    "sdpa": "PyTorch's SDPA",
    "flash_mla": "FlashMLA",
    "flex_with_mask": "FlexAttention and its block mask",
}
LESS_IS_BETTER = ("ms", "µs", "s")
REQUIRED = ("title", "measured", "device", "software", "command", "unit", "rows")
BLOCK = re.compile(r"(<!-- bench (\S+) -->\n)(.*?)(<!-- end bench -->)", re.DOTALL)

Table = dict[str, Any]


def load(folder: Path) -> dict[str, Table]:
    """{"FILE/TABLE": the table} of all files in `folder` except overview.json."""
    return {
        f"{path.stem}/{name}": table
        for path in sorted(folder.glob("*.json"))
        if path.stem != "overview"
        for name, table in json.loads(path.read_text(encoding="utf-8"))["tables"].items()
    }


def engines(table: Table) -> list[str]:
    """The engines of a table: Tesela first, then in the order of NAMES."""
    found = {key for row in table["rows"] for key in (*row, *row.get("ratio", {}))}
    return [name for name in NAMES if name in found]


def quotients(table: Table, row: dict[str, Any], peer: str) -> list[float]:
    """How many times as fast as `peer` Tesela is, for each column of a row. A ratio that the row gives counts;
    otherwise it is computed from the two figures."""
    given = row.get("ratio", {}).get(peer)
    if given is not None:
        return given if isinstance(given, list) else [given]
    ours, theirs = row.get("tesela"), row.get(peer)
    if ours is None or theirs is None or isinstance(ours, dict):
        return []
    pairs = zip(ours, theirs) if isinstance(ours, list) else [(ours, theirs)]
    less = table["unit"] in LESS_IS_BETTER
    return [their / our if less else our / their for our, their in pairs]


def mean(table: Table, row: dict[str, Any], peer: str) -> str:
    """A row's geometric mean: the one that the row gives, which may cover more lengths, or that of the columns."""
    value = row.get("mean", {}).get(peer) or summary.geometric_mean(quotients(table, row, peer))
    least = row.get("least", {}).get(peer)
    return f"{value:.2f}" + (f" (least {least:.2f})" if least else "") if value else ""


def figures(values: Sequence[float | None]) -> list[str]:
    """The figures of one row or column as text, with the same number of decimals."""
    present = [str(value) for value in values if value is not None]
    digits = max((len(text.partition(".")[2]) for text in present), default=0)
    return ["" if value is None else f"{value:.{digits}f}" for value in values]


def times(value: float | None) -> str:
    """A ratio as text: how many times as fast."""
    return "" if value is None else f"{value:.0f}" if value >= 20 else f"{value:.2f}"


def grid(table: Table) -> list[str]:
    """A row of figures for each case, followed by a row of ratios for each peer."""
    lines = [["", *table["columns"], "geometric mean"]]
    for row in table["rows"]:
        if "tesela" in row:
            lines.append([f"**{row['case']}**, {table['unit']}", *figures(row["tesela"]), ""])
        for peer in engines(table):
            if values := quotients(table, row, peer) if peer != "tesela" else []:
                of = "" if "tesela" in row else f"**{row['case']}** "
                ratios = [times(value) for value in values]
                lines.append([f"{of}to {NAMES[peer]}", *ratios, mean(table, row, peer)])
    return tables.table(lines)


def change(table: Table, values: dict[str, float]) -> str:
    """The second of two measures relative to the first: its cost in percent, or the speedup."""
    before, after = (values[measure] for measure in table["measures"])
    if table["compare"] == "cost":
        return f"{100 * (after / before - 1):.0f} %"
    return f"{before / after:.2f}"


def listing(table: Table) -> list[str]:
    """A row for each case: the figures of all engines, and the ratios."""
    rows, unit, measures = table["rows"], table["unit"], table.get("measures", {})
    columns = [["", *(row["case"] for row in rows)]]
    for name in engines(table):
        entries = [row.get(name) for row in rows]
        if not any(entries):
            continue
        for measure, text in measures.items():
            values = [entry and entry[measure] for entry in entries]
            columns.append([f"{NAMES[name]}, {text}, {unit}", *figures(values)])
        if "compare" in table:
            columns.append([table["compare"], *(change(table, entry) for entry in entries)])
        if not measures:
            columns.append([f"{NAMES[name]}, {unit}", *figures(entries)])
    means = ["geometric mean", *[""] * (len(columns) - 1)]
    for peer in engines(table):
        ratios = [quotients(table, row, peer) for row in rows] if peer != "tesela" else []
        if any(ratios):
            columns.append([f"to {NAMES[peer]}", *(times(next(iter(r), None)) for r in ratios)])
            means.append(times(summed(table, peer)))
    lines = [list(cells) for cells in zip(*columns)]
    return tables.table([*lines, means] if any(means[1:]) and len(rows) > 1 else lines)


def origin(table: Table) -> list[str]:
    """How a table was measured."""
    note = f" {table['note']}" if "note" in table else ""
    return ["", f"{table['device']}, {table['measured']}: `{table['command']}`.{note}"]


def every(table: Table, peer: str) -> list[float]:
    """The ratios to `peer` of all cases of a table."""
    return [value for row in table["rows"] for value in quotients(table, row, peer)]


def summed(table: Table, peer: str) -> float:
    """A table's geometric mean: the one that the table gives, or that of its cases."""
    given = table.get("mean", {}).get(peer)
    return given or summary.geometric_mean(every(table, peer)) or 0.0


def overview(found: dict[str, Table], rows: list[dict[str, str]]) -> list[str]:
    """A row for each table: its geometric mean, its least and its largest ratio."""
    head = ["", "beside", "times as fast (geometric mean)", "least to most", "cases slower"]
    lines = [head]
    for row in rows:
        table = found[row["table"]]
        peer = row["peer"]
        values = every(table, peer)
        slower = sum(round(value, 2) < 1 for value in values)
        lines.append(
            [
                row["what"],
                NAMES[peer],
                times(summed(table, peer)),
                f"{times(min(values))} to {times(max(values))}",
                f"{slower} of {len(values)}",
            ]
        )
    return tables.table(lines, left=2)


def log(folder: Path) -> list[str]:
    """The list of the pages of docs/log, the latest day first."""
    lines = [["day", "page"]]
    for path in sorted(folder.glob("2*.md"), reverse=True):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append([path.name[: len("2026-01-01")], f"[{title}]({path.name})"])
    return tables.table(lines, left=2)


def render(root: Path, name: str) -> str:
    """The text of the block `name`."""
    if name == "log":
        return "\n".join(log(root / "docs/log")) + "\n"
    folder = root / "data/bench"
    found = load(folder)
    if name.startswith("overview/"):
        lists = json.loads((folder / "overview.json").read_text(encoding="utf-8"))
        return "\n".join(overview(found, lists[name.removeprefix("overview/")])) + "\n"
    if name not in found:
        raise SystemExit(f"'{name}' is not a table of {folder}; the tables are {', '.join(found)}.")
    table = found[name]
    lines = grid(table) if "columns" in table else listing(table)
    return "\n".join([*lines, *origin(table)]) + "\n"


def documents(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(document, name of a block, text of the block)"""
    for path in documents(root):
        for match in BLOCK.finditer(path.read_text(encoding="utf-8")):
            yield path, match[2], match[3]


def write(root: Path) -> list[str]:
    """Writes all blocks. Gives the documents that changed."""
    changed = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda block: block[1] + render(root, block[2]) + block[4], text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(str(path.relative_to(root)))
    return changed


def stale(root: Path) -> list[str]:
    """The blocks that differ from data/bench."""
    return [
        f"{path.relative_to(root)}: {name}"
        for path, name, text in blocks(root)
        if text != render(root, name)
    ]


def rounded(value: float) -> float:
    """The figure with three digits: runs differ in the others."""
    return round(value) if value >= 100 else float(f"{value:.3g}")


def imported(results: dict[str, Any], old: Table | None, command: str, today: str) -> Table:
    """A table made of the output of `tools/bench --json`: a row for each group, a column for each label. Bursts
    count; without bursts, the sustained launches. The old table's title and note stay."""
    cases = results["cases"]
    mode = "bursts" if any("bursts" in case["engines"]["tesela"] for case in cases) else "sustained"
    columns = list(dict.fromkeys(case["label"] for case in cases))
    rows = []
    for group, members in summary.groups(cases).items():
        members = sorted(members, key=lambda case: columns.index(case["label"]))
        if [case["label"] for case in members] != columns:
            raise SystemExit(f"'{group}' was not timed at {', '.join(columns)}: run those again.")
        row: dict[str, Any] = {"case": group}
        for name in NAMES:
            found = [summary.timed(case, name, mode) for case in members]
            if all(found):
                speeds = [summary.tflops(case, time) for case, time in zip(members, found) if time]
                row[name] = [rounded(value) for value in speeds]
                if name != "tesela":
                    ratios = [summary.ratio(case, name, mode) for case in members]
                    row.setdefault("ratio", {})[name] = [
                        round(value, 3) for value in ratios if value
                    ]
        rows.append(row)
    return {
        "title": (old or {}).get("title", results["cases"][0]["group"]),
        "measured": today,
        "device": results["device"],
        "software": f"Tesela {results['tesela']['version']}, PyTorch {results['torch']}, cuDNN "
        f"{results['cudnn']}",
        "command": command,
        **{key: old[key] for key in ("note",) if old and key in old},
        "unit": "TFLOP/s",
        "columns": columns,
        "rows": rows,
    }


def written(file: dict[str, Any]) -> str:
    """JSON with one line for each row."""
    parts = []
    for name, table in file["tables"].items():
        lines = [
            f"   {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in table.items()
            if key != "rows"
        ]
        rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
        lines.append(f'   "rows": [\n{rows}\n   ]')
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return '{\n "tables": {\n' + ",\n".join(parts) + "\n }\n}\n"


def take(root: Path, source: Path, into: str, command: str) -> None:
    """Writes the table `into` from the results of a run."""
    stem, _, name = into.partition("/")
    path = root / "data/bench" / f"{stem}.json"
    file = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    results = json.loads(source.read_text(encoding="utf-8"))
    today = datetime.date.today().isoformat()
    file["tables"][name] = imported(results, file["tables"].get(name), command, today)
    path.write_text(written(file), encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--check",
        action="store_true",
        help="write nothing; exit status 1 where a table is out of date",
    )
    add("--import", dest="source", type=Path, metavar="FILE", help="results of tools/bench --json")
    add("--into", metavar="FILE/TABLE", help="the table that --import makes")
    add("--command", default="python3 tools/bench", help="the command that gave these results")
    options = parser.parse_args(arguments)
    if options.source:
        if not options.into or "/" not in options.into:
            parser.error("--import needs --into FILE/TABLE, such as forward/peers")
        take(ROOT, options.source, options.into, options.command)
    if options.check:
        found = stale(ROOT)
        for line in found:
            print(f"{line} is out of date: run python3 tools/bench/pages.py", file=sys.stderr)
        return 1 if found else 0
    for line in write(ROOT):
        print(f"wrote {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
