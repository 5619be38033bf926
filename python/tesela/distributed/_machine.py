# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model of how fast a machine computes and sends, and the predicted time of a plan on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError

SCHEMES: Final = ("gather", "ring", "heads", "nodes")


@dataclass(frozen=True)
class Machine:
    """The figures for predictions. The defaults are those of nodes of eight H200.

    Attributes:
        flops: floating-point operations per second of the forward pass on full tiles.
        ranks_per_node: the number of neighbouring ranks on one node. The last node may have fewer.
        node_bandwidth: bytes per second that a rank receives from its node, in one direction.
        network_bandwidth: bytes per second that a rank receives from other nodes.
        latency: seconds for each message.
        launch: seconds of a launch besides its tiles: its start, the copies around it, and
            multiprocessors that are idle at its end.
        memory_bandwidth: bytes per second of a rank's own memory.
    """

    flops: float = 750e12
    ranks_per_node: int = 8
    node_bandwidth: float = 300e9
    network_bandwidth: float = 45e9
    latency: float = 15e-6
    launch: float = 50e-6
    memory_bandwidth: float = 3e12

    def __post_init__(self) -> None:
        """Raises if a node has no ranks."""
        if self.ranks_per_node < 1:
            raise InvalidArgumentError(
                f"ranks_per_node is {self.ranks_per_node}, it must be at least 1: the number of "
                "neighbouring ranks on one node"
            )

    def bandwidth(self, ranks: int) -> float:
        """Bytes per second that one of `ranks` ranks receives over their slowest links."""
        return self.node_bandwidth if ranks <= self.ranks_per_node else self.network_bandwidth


@dataclass(frozen=True)
class Shape:
    """The sizes of a call, without its length.

    Attributes:
        batch: the number of sequences.
        heads: the number of query heads.
        kv_heads: the number of key/value heads.
        head_dim: the head dimension of queries and keys.
        head_dim_v: the head dimension of values.
        element_bytes: the size of an element of q, k and v.
    """

    batch: int = 1
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    head_dim_v: int = 128
    element_bytes: int = 2

    @property
    def key_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        return self.batch * self.kv_heads * (self.head_dim + self.head_dim_v) * self.element_bytes

    @property
    def pair_flops(self) -> int:
        """Floating-point operations of one kept pair of one head in a forward pass."""
        return 2 * (self.head_dim + self.head_dim_v)

    @property
    def query_bytes(self) -> int:
        """Bytes of one token's queries and results."""
        return self.batch * self.heads * (self.head_dim + self.head_dim_v) * self.element_bytes


@dataclass(frozen=True)
class Prediction:
    """The predicted forward pass of one scheme.

    Attributes:
        scheme: the name of the scheme.
        seconds: the time of the slowest rank; infinite if the scheme is not possible.
        efficiency: the time that all work would take, spread evenly over the ranks and without
            sending, over ``seconds``.
        why: the parts of the time, or why the scheme is not possible.
    """

    scheme: str
    seconds: float
    efficiency: float
    why: str


def ranks_per_node(group_ranks: Sequence[int], local_world_size: str | None) -> int | None:
    """The number of a group's neighbouring ranks on one node; None if it is not known.

    It is 1 if the ranks of a node are not neighbours in the group, or nodes have different numbers
    of them. The last node may have fewer.

    Args:
        group_ranks: the global rank of each rank of the group.
        local_world_size: the environment variable LOCAL_WORLD_SIZE, which torchrun sets.
    """
    if not local_world_size or not local_world_size.isdecimal() or int(local_world_size) == 0:
        return None
    nodes = [rank // int(local_world_size) for rank in group_ranks]
    runs = [len(list(run)) for _, run in groupby(nodes)]
    is_regular = (
        len(runs) == len(set(nodes)) and set(runs[:-1]) <= {runs[0]} and runs[-1] <= runs[0]
    )
    return runs[0] if is_regular else 1


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
    """Predicts a forward pass.

    Args:
        scheme: one of ``SCHEMES``.
        machine: the machine.
        shape: the sizes of the call.
        pairs: kept pairs of queries and keys of all heads, float64 ``[ranks, ranks of keys]``.
        received: tokens whose keys a rank needs from another one, float64 ``[ranks, ranks]``.
        touched: tokens of a rank that need keys of another one, float64 ``[ranks, ranks]``.
        held: the number of tokens of each rank.
        launches: the number of launches of each rank when it has all keys.
    """
    ranks = len(held)
    total = float(pairs.sum()) * shape.pair_flops / machine.flops
    compute = pairs * (shape.pair_flops / machine.flops)
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
            # Step t computes with the keys of the rank t places before, while the next keys arrive.
            steps = torch.arange(ranks, device="cpu")
            owner = (steps[:, None] - steps[None, :]) % ranks
            computing = compute.gather(1, owner)
            is_step = computing > 0
            # A rank's own keys come first. Later results are merged into the rows, in float32.
            merge = 26 * touched.gather(1, owner) * shape.batch * shape.heads * shape.head_dim_v
            merge[:, 0] = 0
            computing = computing + is_step * (machine.launch + merge / machine.memory_bandwidth)
            arriving = (seconds_of + (received > 0) * machine.latency).gather(1, owner)
            done = _end_of_ring(computing, arriving)
            busiest = int(done.argmax())
            seconds = float(done[busiest])
            of_kernels = float(computing[busiest].sum())
            waiting = max(round(seconds - of_kernels, 9), 0.0)  # not errors of floating-point sums
            why = (
                f"{_ms(of_kernels)} of kernels and merging, {_ms(waiting)} of waiting "
                f"for keys, which take {_ms(float(arriving[busiest].sum()))} to arrive"
            )
    return Prediction(scheme, seconds, total / ranks / seconds if seconds else 1.0, why)


def _end_of_ring(computing: Tensor, arriving: Tensor) -> Tensor:
    """When each rank has computed all steps of a ring.

    A rank computes with the keys that have come, while those of the next step come. The keys of
    step t come from the rank t places before, and the rank's own go to the one t places behind. A
    message begins when its sender and its receiver have begun step t - 1. A rank waits for both.

    Args:
        computing: the seconds of each rank's kernels in each step, ``[ranks, steps]``.
        arriving: the seconds in which the keys of each step come; 0 if there are none.
    """
    of_steps, needed = computing.T.contiguous(), arriving.T.contiguous()
    done = came = computing.new_zeros(len(computing))
    for step, seconds in enumerate(of_steps):
        begin = torch.maximum(done, came)
        done = begin + seconds
        if step + 1 < len(of_steps):
            both = torch.maximum(begin, begin.roll(step + 1))
            came = torch.where(needed[step + 1] > 0, both + needed[step + 1], 0.0)
            came = torch.maximum(came, came.roll(-step - 1))
    return done


def predict_nodes(machine: Machine, shape: Shape, held: int, between: Prediction) -> Prediction:
    """Predicts a forward pass of the scheme "nodes".

    Args:
        machine: the machine.
        shape: the sizes of the call.
        held: the most tokens that a rank holds.
        between: the prediction of the pass between nodes, for the heads of one rank of each node.
    """
    sending = exchange_seconds(machine, shape, held)
    seconds = between.seconds + sending
    efficiency = between.efficiency * between.seconds / seconds if seconds else 1.0
    why = f"{_ms(sending)} of exchange within nodes; {between.scheme}: {between.why}"
    return Prediction("nodes", seconds, efficiency, why)


def exchange_seconds(machine: Machine, shape: Shape, held: int) -> float:
    """The predicted time to exchange tokens for heads within a node.

    q, k and v are exchanged before the kernels, and the result and its logarithms after them.

    Args:
        machine: the machine.
        shape: the sizes of the call.
        held: the most tokens that a rank holds.
    """
    size = machine.ranks_per_node
    share = held * (shape.key_bytes + shape.query_bytes) / size
    return (size - 1) * (share / machine.node_bandwidth + 3 * machine.latency)


def no_nodes(machine: Machine, ranks: int, kv_heads: int) -> str | None:
    """Why the scheme "nodes" is not possible; None if it is."""
    size = machine.ranks_per_node
    if size < 2:
        return "a node has only one rank"
    if ranks <= size:
        return f"all {ranks} ranks are on one node"
    if ranks % size:
        return f"{ranks} ranks cannot be divided into nodes of {size}"
    if kv_heads % size:
        return f"{kv_heads} kv heads cannot be divided among {size} ranks of a node"
    return None


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _times(computing: float, arriving: float) -> str:
    return f"{_ms(computing)} of kernels, {_ms(arriving)} of sending before and after them"
