# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How fast a machine computes and sends, and what a plan takes on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

SCHEMES: Final = ("gather", "ring", "heads")


@dataclass(frozen=True)
class Machine:
    """What predictions are made with. The defaults are those of nodes of eight H200.

    Attributes:
        flops: floating-point operations a second of the forward pass on full tiles.
        ranks_per_node: that many neighbouring ranks share a node.
        node_bandwidth: bytes a second that a rank receives from its node, in one direction.
        network_bandwidth: likewise from other nodes.
        latency: seconds of a message.
        launch: seconds that a launch takes besides its tiles: its start, the copies beside it, and
            multiprocessors without work at its end.
        memory_bandwidth: bytes a second of a rank's own memory.
    """

    flops: float = 750e12
    ranks_per_node: int = 8
    node_bandwidth: float = 300e9
    network_bandwidth: float = 45e9
    latency: float = 15e-6
    launch: float = 50e-6
    memory_bandwidth: float = 3e12


@dataclass(frozen=True)
class Shape:
    """The sizes of a call besides its length.

    Attributes:
        batch: sequences.
        heads: of queries.
        kv_heads: of keys and values.
        head_dim: of queries and keys.
        head_dim_v: of values.
        element_bytes: of an element of q, k and v.
    """

    batch: int = 1
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    head_dim_v: int = 128
    element_bytes: int = 2

    @property
    def key_bytes(self) -> int:
        """Of a token's keys and values."""
        return self.batch * self.kv_heads * (self.head_dim + self.head_dim_v) * self.element_bytes

    @property
    def query_bytes(self) -> int:
        """Of a token's queries and results."""
        return self.batch * self.heads * (self.head_dim + self.head_dim_v) * self.element_bytes


@dataclass(frozen=True)
class Prediction:
    """What a forward pass takes by one scheme.

    Attributes:
        scheme: its name.
        seconds: of the slowest rank; infinite where the scheme cannot be.
        efficiency: the share of the time in which the ranks' kernels would do all work, were it
            spread evenly and nothing sent.
        why: how the time came about, or why the scheme cannot be.
    """

    scheme: str
    seconds: float
    efficiency: float
    why: str


def predict(
    scheme: str,
    machine: Machine,
    shape: Shape,
    pairs: Tensor,
    received: Tensor,
    touched: Tensor,
    held: Tensor,
    launches: Tensor,
) -> Prediction:
    """The time of a forward pass.

    Args:
        scheme: one of ``SCHEMES``.
        machine: what it runs on.
        shape: the call's sizes.
        pairs: kept pairs of queries and keys of all heads, float64 ``[ranks, ranks of keys]``.
        received: tokens whose keys a rank needs of another, likewise.
        touched: tokens of a rank that need keys of another, likewise.
        held: tokens of each rank.
        launches: how many each rank makes, where it has all its keys.
    """
    ranks = len(held)
    total = float(pairs.sum()) * 2 * (shape.head_dim + shape.head_dim_v) / machine.flops
    compute = pairs * (2 * (shape.head_dim + shape.head_dim_v) / machine.flops)
    nodes = torch.arange(ranks, device="cpu") // machine.ranks_per_node
    bandwidth = torch.where(
        nodes[:, None] == nodes[None, :], machine.node_bandwidth, machine.network_bandwidth
    ).double()
    if scheme == "heads":
        if shape.kv_heads % ranks:
            return Prediction(
                scheme,
                *(float("inf"), 0.0),
                f"{shape.kv_heads} kv heads cannot be divided among {ranks} ranks",
            )
        share = (shape.key_bytes + shape.query_bytes) / ranks
        sending = share * held.max() * (1 / bandwidth).fill_diagonal_(0).sum(1).max()
        seconds = float(total / ranks + sending + 2 * machine.latency + machine.launch)
        why = _times(total / ranks, float(sending))
    else:
        seconds_of = received * shape.key_bytes / bandwidth
        messages = (received > 0).sum(1) * machine.latency
        if scheme == "gather":
            arriving = seconds_of.sum(1) + messages
            computing = compute.sum(1) + launches * machine.launch
            busiest = int((arriving + computing).argmax())
            seconds = float(arriving[busiest] + computing[busiest])
            why = _times(float(computing[busiest]), float(arriving[busiest]))
        else:
            # Step t computes with the keys of the rank t before, while the next ones arrive.
            steps = torch.arange(ranks, device="cpu")
            owner = (steps[:, None] - steps[None, :]) % ranks
            computing = compute.gather(1, owner)
            is_step = computing > 0
            # Its own keys come first; later results are joined to the rows, in float32.
            merge = 26 * touched.gather(1, owner) * shape.batch * shape.heads * shape.head_dim_v
            merge[:, 0] = 0
            computing = computing + is_step * (machine.launch + merge / machine.memory_bandwidth)
            arriving = (seconds_of + (received > 0) * machine.latency).gather(1, owner)
            arriving = torch.cat([arriving[:, 1:], arriving.new_zeros(ranks, 1)], 1)
            of_ranks = torch.maximum(computing, arriving).sum(1)
            busiest = int(of_ranks.argmax())
            seconds = float(of_ranks[busiest])
            hidden = float(arriving[busiest].sum()) - (seconds - float(computing[busiest].sum()))
            why = (
                f"{_ms(float(computing[busiest].sum()))} of kernels and merging, "
                f"{_ms(float(arriving[busiest].sum()))} of keys, of which "
                f"{_ms(max(hidden, 0.0))} arrive meanwhile"
            )
    return Prediction(scheme, seconds, total / ranks / seconds if seconds else 1.0, why)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _times(computing: float, arriving: float) -> str:
    return f"{_ms(computing)} of kernels, {_ms(arriving)} of sending before and after them"
