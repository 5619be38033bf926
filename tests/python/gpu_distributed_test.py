# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A context that is split over two GPUs, by NCCL, and CUDA graphs of it. Skipped with one GPU.

    PYTHONPATH=build/release/python python3 -m pytest -rs tests/python/gpu_distributed_test.py

One pair of processes computes all cases: to start one takes seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of split contexts need PyTorch")

import tesela  # noqa: E402
import tesela.distributed  # noqa: E402
import torch.distributed as dist  # noqa: E402
from tesela.distributed._machine import Machine  # noqa: E402
from torch import Tensor  # noqa: E402

COUNT = torch.cuda.device_count()
pytestmark = pytest.mark.skipif(COUNT < 2, reason=f"TWO GPUS ARE NEEDED, there are {COUNT}")

LENGTH, HEADS, KV_HEADS, HEAD_DIM = 3072, 8, 2, 128
SECONDS = 300
CASES = ("documents_causal", "sliding_window", "causal")
SCHEMES = ("gather", "ring", "heads")


def dense(seed: int, device: str) -> list[Tensor]:
    """q, k, v and the gradient of the result."""
    generator = torch.Generator(device).manual_seed(seed)
    return [
        torch.randn(
            *(1, heads, LENGTH, HEAD_DIM), device=device, dtype=torch.bfloat16, generator=generator
        )
        for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)
    ]


def planned(name: str, scheme: str, device: str) -> tuple[Any, dict[str, Any]]:
    parameters: dict[str, Any] = {}
    if name == "documents_causal":
        parameters["id"] = (torch.arange(LENGTH, device=device) // 700).int()[None]
    if name == "sliding_window":
        parameters["window"] = 300
    machine = Machine(launch=0.0)  # divides each range with queries that need only own keys
    plan = tesela.distributed.plan(
        name, length=LENGTH, scheme=scheme, heads=HEADS, machine=machine, **parameters
    )
    return plan, parameters


def step(own: list[Tensor], grad: Tensor, plan: Any, parameters: dict[str, Any]) -> list[Tensor]:
    out = tesela.distributed.attention(*own, plan=plan, **parameters)
    return [out.detach(), *torch.autograd.grad(out, own, grad)]


def differences(name: str, scheme: str, device: str) -> list[float]:
    """The differences from one GPU's result and gradients, relative to their norms."""
    plan, parameters = planned(name, scheme, device)
    q, k, v, grad = dense(1, device)
    whole = [each.requires_grad_() for each in (q, k, v)]
    out = tesela.attention(*whole, name, **parameters)
    wanted = [out.detach(), *torch.autograd.grad(out, whole, grad)]
    own = [plan.shard(each.detach()).requires_grad_() for each in whole]
    found = step(own, plan.shard(grad), plan, parameters)
    return [
        float((got - plan.shard(exact)).float().norm() / exact.float().norm())
        for got, exact in zip(found, wanted, strict=True)
    ]


def captured(name: str, scheme: str, is_training: bool, device: str) -> list[float]:
    """The differences between a graph, replayed with new numbers, and an eager call."""
    plan, parameters = planned(name, scheme, device)
    *own, grad = (plan.shard(each) for each in dense(1, device))
    own = [each.requires_grad_(is_training) for each in own]

    def call() -> list[Tensor]:
        if is_training:
            return step(own, grad, plan, parameters)
        return [tesela.distributed.attention(*own, plan=plan, **parameters)]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # a first call compiles, and connects the ranks
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # A thread of NCCL queries events during the capture.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = call()
    with torch.no_grad():
        for to, other in zip((*own, grad), dense(2, device), strict=True):
            to.copy_(plan.shard(other))
    for each in results:
        each.detach().zero_()
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    found = [each.detach().clone() for each in results]
    wanted = call()
    torch.cuda.synchronize()
    return [
        float((got - exact).float().norm() / exact.float().norm())
        for got, exact in zip(found, wanted, strict=True)
    ]


def serve(rank: int, port: int, pipe: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_NVLS_ENABLE="0")
    torch.cuda.set_device(rank)
    device = f"cuda:{rank}"
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device(device))
    while True:
        request = pipe.recv()
        if request is None:
            break
        function, *arguments = request
        try:
            pipe.send((function(*arguments, device), None))
        except Exception:
            pipe.send((None, traceback.format_exc()))
    dist.destroy_process_group()


Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Calls a function on both ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(2):
        pipe, of_child = context.Pipe()
        processes.append(context.Process(target=serve, args=(rank, port, of_child), daemon=True))
        processes[-1].start()
        pipes.append(pipe)

    def call(*request: Any) -> list[Any]:
        for pipe in pipes:
            pipe.send(request)
        found = []
        for rank, pipe in enumerate(pipes):
            assert pipe.poll(SECONDS), f"rank {rank} gives no answer"
            result, failure = pipe.recv()
            assert failure is None, f"rank {rank}: {failure}"
            found.append(result)
        return found

    yield call
    for pipe in pipes:
        pipe.send(None)
    for process in processes:
        process.join(20)
        process.kill()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", CASES)
def test_two_gpus_compute_what_one_does(run: Run, name: str, scheme: str) -> None:
    for found in run(differences, name, scheme):
        assert max(found) < 1e-2, found


@pytest.mark.parametrize("is_training", [False, True], ids=["forward", "step"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", CASES[:2])
def test_a_graph_replays(run: Run, name: str, scheme: str, is_training: bool) -> None:
    for found in run(captured, name, scheme, is_training):
        assert max(found) < 1e-2, found
