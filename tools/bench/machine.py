# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the figures depend on: the GPU's clocks and power, the driver, the source's version. A value
# that cannot be found is None.

import os
import subprocess
from collections.abc import Sequence

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIELDS = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "pstate",
)


def output_of(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def parse_state(line: str) -> dict[str, str | float]:
    """A line of nvidia-smi's output, with MHz, W and degrees Celsius as numbers and the rest as
    text."""
    state = {}
    for field, value in zip(FIELDS, line.split(",")):
        try:
            state[field] = float(value) if field != "driver_version" else value.strip()
        except ValueError:
            state[field] = value.strip()
    return state


def gpu_state(uuid: str | None) -> dict[str, str | float] | None:
    """The GPU's present state, from nvidia-smi. `uuid`: "GPU-...", or None for the first GPU."""
    query = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    answer = output_of(query + (["-i", uuid] if uuid else []))
    return parse_state(answer.splitlines()[0]) if answer else None


def source_version() -> str | None:
    return output_of(["git", "-C", ROOT, "describe", "--always", "--dirty"])
