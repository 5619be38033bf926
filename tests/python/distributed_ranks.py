# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that are the ranks of a gloo group, while a file of tests runs.

Starting a process takes seconds, so four are started once. Smaller groups use some of them.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_SECONDS = 120


def _serve(rank: int, processes: int, store: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    # As torchrun does. There may be more ranks than GPUs.
    os.environ["LOCAL_RANK"] = str(rank % max(torch.cuda.device_count(), 1))
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=_SECONDS),
    )
    groups = {size: dist.new_group(range(size)) for size in (1, 2, 3)}
    groups[processes] = dist.group.WORLD
    while True:
        request = pipe.recv()
        if request is None:
            break
        size, function, arguments = request
        try:
            pipe.send((function(groups[size], *arguments), None))
        except Exception:
            pipe.send((None, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    """Runs functions in the processes."""

    def __init__(self, folder: Path, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for rank in range(processes):
            pipe, of_child = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, processes, str(folder / "store"), of_child), daemon=True
            )
            process.start()
            of_child.close()
            self._pipes.append(pipe)
            self._processes.append(process)

    def run(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The result of ``function(group, *arguments)`` on each rank of a group of this size."""
        pipes = self._pipes[:size]
        for pipe in pipes:
            pipe.send((size, function, arguments))
        found, failures = [], []
        for rank, pipe in enumerate(pipes):
            assert pipe.poll(_SECONDS), f"rank {rank} gives no answer"
            result, failure = pipe.recv()
            found.append(result)
            if failure is not None:
                failures.append(f"rank {rank}: {failure}")
        assert not failures, "\n".join(failures)
        return found

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(20)
            process.kill()


@contextmanager
def started(folder: Path, processes: int = 4) -> Iterator[Ranks]:
    ranks = Ranks(folder, processes)
    try:
        yield ranks
    finally:
        ranks.close()
