# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small model of Llama's shape whose context is split over ranks.

    torchrun --nproc-per-node 2 examples/long_context.py [steps] [length] [ddp | fsdp]

In each step there is one sequence of packed documents, and each rank holds some ranges of it. The
documents and the plan differ from step to step. DistributedDataParallel or FSDP2 sums the gradients
of the weights; FSDP2 also splits the weights over the ranks. Rank 0 also trains the same model with
the whole sequence, and prints both losses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import tesela
import tesela.distributed
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, HEADS, KV_HEADS, LAYERS = 64, 64, 4, 2, 2
HEAD_DIM = WIDTH // HEADS

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding of [batch, heads, tokens, head dimension] for tokens at these positions."""
    rates = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2, device=x.device) / HEAD_DIM)
    angles = positions[:, None] * rates
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.into = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        projected = self.into(self.norms[0](x)).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
        q, k, v = projected.split([HEADS, KV_HEADS, KV_HEADS], 1)
        mixed = attend(turned(q, positions), turned(k, positions), v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            # The forward pass with its messages runs again in the backward pass.
            x = checkpoint(layer, x, positions, attend, use_reentrant=False)
        return self.head(x)


def batch(step: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens, the token after each, the number of its document); the same on each rank."""
    generator = torch.Generator().manual_seed(step)
    ends = torch.sort(torch.randint(1, length, (5,), generator=generator))[0]
    ids = torch.searchsorted(ends, torch.arange(length), right=True).int()[None]
    # Each document counts up from a random number, so that there is something to learn.
    firsts = torch.randint(VOCABULARY, (6,), generator=generator)
    text = (firsts[ids.long()] + torch.arange(length + 1)[None, :length] * 3) % VOCABULARY
    return text, text.roll(-1, 1), ids


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    is_sharded = len(sys.argv) > 3 and sys.argv[3] == "fsdp"
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    types = torch.bfloat16 if device.type == "cuda" else torch.float32

    torch.manual_seed(0)
    model = Model().to(device)
    if is_sharded:
        for layer in model.layers:
            fully_shard(layer)
    split = fully_shard(model) if is_sharded else DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(split.parameters(), 1e-3)
    torch.manual_seed(0)
    alone = Model().to(device)
    optimizer_alone = torch.optim.AdamW(alone.parameters(), 1e-3)

    def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")

    for step in range(steps):
        tokens, labels, ids = (each.to(device) for each in batch(step, length))
        plan = tesela.distributed.plan("documents_causal", length=length, id=ids)

        def attend(q: Tensor, k: Tensor, v: Tensor, plan: tesela.distributed.Plan = plan) -> Tensor:
            dense = (each.to(types) for each in (q, k, v))
            return tesela.distributed.attention(*dense, plan=plan).to(q.dtype)

        logits = split(plan.shard(tokens, 1), plan.positions(device), attend)
        own = loss_of(logits, plan.shard(labels, 1)) / length
        optimizer.zero_grad()
        (own * ranks).backward()  # DDP and FSDP divide by the number of ranks
        optimizer.step()
        loss = own.detach()
        dist.all_reduce(loss)

        def attend_alone(q: Tensor, k: Tensor, v: Tensor, ids: Tensor = ids) -> Tensor:
            dense = (each.to(types) for each in (q, k, v))
            return tesela.attention(*dense, "documents_causal", id=ids).to(q.dtype)

        if rank == 0:
            positions = torch.arange(length, device=device)
            logits = alone(tokens, positions, attend_alone)
            loss_alone = loss_of(logits, labels) / length
            optimizer_alone.zero_grad()
            loss_alone.backward()
            optimizer_alone.step()
            print(f"step {step}: {loss.item():.5f} by {ranks} ranks, {loss_alone.item():.5f} alone")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
