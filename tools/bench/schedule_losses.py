# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the heuristic's schedule loses against the shipped table and the best timed schedule.

    python3 tools/bench/schedule_losses.py [--cells each|all] [--seconds 8] [--exhaustive]

There are three variants, three lengths and three head dimensions. `all` has the 27 cells. `each`
has the nine cells of a Latin square, so that each variant meets each length and each head dimension
once. A cell is a race of `tesela tune`, whose ratios compare with the heuristic's launches of the
same round. Races of one variant and head dimension share their kernels. `--exhaustive` times all
schedules fully (20 to 30 seconds for each cell on 16 cores). The script prints a row for each
finished cell:

    the number of timed schedules; the heuristic's time; the ratio of the table's schedule, if the
    table has the launch; the ratio of the fastest schedule, and how sure the race is that it is
    faster; the fastest schedule.

The kernels and choices are removed at the end. The script needs the command `tesela`, and the
device to itself. Exit status: 0 done, 1 a race failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

VARIANTS = ("full", "causal", "sliding_window")
LENGTHS = (1024, 4096, 16384)
HEAD_DIMS = (64, 128, 256)


def cells(which: str) -> list[tuple[str, int, int]]:
    """(variant, length, head dimension) of the cells."""
    return [
        (variant, length, head_dim)
        for i, variant in enumerate(VARIANTS)
        for k, head_dim in enumerate(HEAD_DIMS)
        for j, length in enumerate(LENGTHS)
        if which == "all" or j == (i + k) % 3
    ]


def tesela(command: str, variant: str, *options: str) -> Any:
    """The command's JSON output."""
    done = subprocess.run(
        ["tesela", command, variant, "--json", *options],
        capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"schedule_losses: {variant} {' '.join(options)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> None:
    """Races and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", choices=("each", "all"), default="each")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--exhaustive", action="store_true")
    options = parser.parse_args()
    print("| variant | D | B, H, length | timed | heuristic, ms | table | best | sure | its schedule |")
    print("|---|--:|---|--:|--:|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for variant, length, head_dim in cells(options.cells):
            batch, heads = 16384 // length, 2048 // head_dim
            of_kernel = ("--head-dim", str(head_dim), "--cache-folder", folder)
            bucket = f"h{1 << (batch * heads).bit_length() - 1}.g1.q{length}.k{length}"
            kept = tesela("tune", variant, "--show", *of_kernel)["kept"]
            shipped = [
                each["schedule"]
                for each in kept
                if each["bucket"] == bucket and not each["record"].startswith(folder)
            ]
            report = tesela(
                "tune", variant, *of_kernel, "--batch", str(batch), "--heads", str(heads),
                "--length", str(length), "--seconds", str(options.seconds),
                *(["--exhaustive"] if options.exhaustive else []))  # fmt: skip
            trials = [each for each in report["trials"] if "ms" in each]
            heuristic = next(each for each in trials if each.get("heuristic"))
            ratios = [each["ratio"] for each in trials if each["schedule"] in shipped]
            table = f"{ratios[0]:.3f}" if ratios else "not timed" if shipped else "-"
            choice = report["choice"]
            changed = set(choice["schedule"].split(", ")) - set(heuristic["schedule"].split(", "))
            print(
                f"| {variant} | {head_dim} | {batch}, {heads}, {length} | {report['timed']} of "
                f"{len(report['trials'])} | {heuristic['ms']:.3f} | {table} | "
                f"{choice['ratio']:.3f} | {choice['sure_over_heuristic']:.2f} | "
                f"{', '.join(sorted(changed)) or 'the heuristic'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
