# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Timing by CUDA events. The GPU first gets a delay to work on. So the host has queued a launch
# before it begins, and the host's time does not count.

import random
import time
from collections.abc import Callable

import torch

from engines import Prepared

DELAY_CYCLES = 2_000_000  # a little more than a millisecond
REST_FACTOR, REST_LEAST_S, REST_MOST_S = 4, 0.003, 0.1  # idle time after a burst


def event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def shuffled(prepared: dict[str, Prepared], order: random.Random) -> list[str]:
    names = list(prepared)
    order.shuffle(names)
    return names


def launches_ms(launch: Callable, count: int, sets: int, untimed: int = 0) -> float:
    """Milliseconds of `count` launches back to back, after `untimed` other launches."""
    torch.cuda._sleep(DELAY_CYCLES)
    for index in range(untimed):
        launch(index % sets)
    begin, end = event(), event()
    begin.record()
    for index in range(untimed, untimed + count):
        launch(index % sets)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def bursts(
    prepared: dict[str, Prepared], sets: int, repetitions: int, order: random.Random
) -> dict[str, list[float]]:
    """{name: milliseconds of single launches}; idle time follows each launch. In every
    repetition each engine launches once, in a new random order."""
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for name in prepared:
        launches_ms(prepared[name].launch, 2, sets)  # warm-up
    for repetition in range(repetitions):
        for name in shuffled(prepared, order):
            launch = prepared[name].launch
            duration = launches_ms(lambda index: launch(repetition % sets), 1, sets)
            times[name].append(duration)
            time.sleep(min(max(REST_FACTOR * duration * 1e-3, REST_LEAST_S), REST_MOST_S))
    return times


def sustained(
    prepared: dict[str, Prepared], sets: int, rounds: int, block_ms: float, order: random.Random
) -> dict[str, list[float]]:
    """{name: milliseconds of one launch, one figure for each block}. A block is a series of
    launches back to back, about `block_ms` long, after a quarter of that time that is not
    measured. The engines take turns by blocks, without a rest."""
    times: dict[str, list[float]] = {name: [] for name in prepared}
    estimates = {
        name: launches_ms(entry.launch, 3, sets, untimed=1) / 3 for name, entry in prepared.items()
    }
    for _ in range(rounds):
        for name in shuffled(prepared, order):
            count = min(400, max(4, int(block_ms / estimates[name])))
            duration = launches_ms(prepared[name].launch, count, sets, untimed=count // 4)
            times[name].append(duration / count)
    return times
