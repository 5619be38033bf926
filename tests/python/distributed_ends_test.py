# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank ends or hangs: the others must raise an error with a message before the timeout."""

from __future__ import annotations

import multiprocessing
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import tesela
import tesela.distributed
import torch
import torch.distributed as dist
from tesela.distributed import _by_keys

_SECONDS = 5


def _ends(rank: int) -> None:
    if rank == 1:
        os._exit(0)


def _sleeps(rank: int) -> None:
    if rank == 1:
        time.sleep(3 * _SECONDS)
        os._exit(0)


def _run(rank: int, store: str, how: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=_SECONDS),
    )
    plan = tesela.distributed.plan("full", length=64, layout="contiguous", scheme="gather")
    own = [plan.shard(torch.randn(1, 2, 64, 16)) for _ in range(3)]
    tesela.distributed.attention(*own, plan=plan)
    if how == "ends before the call":
        _ends(rank)
    elif how == "calls nothing":
        _sleeps(rank)
    else:
        exchange = _by_keys.exchange

        def ended(*arguments: Any) -> Any:
            _ends(rank)
            return exchange(*arguments)

        _by_keys.exchange = ended
    begin = time.monotonic()
    try:
        tesela.distributed.attention(*own, plan=plan)
    except tesela.Error as error:
        pipe.send((type(error).__name__, str(error), time.monotonic() - begin))
    os._exit(0)


@pytest.mark.parametrize(
    "how", ["ends before the call", "calls nothing", "ends after all have agreed"]
)
def test_the_other_rank_says_so(tmp_path: Path, how: str) -> None:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(2):
        pipe, of_child = context.Pipe()
        process = context.Process(
            target=_run, args=(rank, str(tmp_path / "store"), how, of_child), daemon=True
        )
        process.start()
        of_child.close()
        pipes.append(pipe)
        processes.append(process)
    try:
        assert pipes[0].poll(120), "the rank that is left gives no answer"
        kind, sentence, seconds = pipes[0].recv()
        assert kind == "CancelledError"
        assert "a rank of the group did not answer" in sentence
        assert "torch.distributed says:" in sentence
        assert seconds < 2.5 * _SECONDS
    finally:
        for process in processes:
            process.kill()
            process.join()
