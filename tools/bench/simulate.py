#!/usr/bin/env python3
# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tools/bench/simulate.py FILE [--compare] [--ranks 8 ... 1024] [--lengths 1048576 10485760]: estimates the time of a
# split context on more GPUs than this machine has. FILE has the lines that tools/bench/distributed.py prints. The time
# of a kernel for each kept pair comes from these lines. With --compare a simulation of two GPUs is compared with what
# two GPUs took. Bandwidths are stated, not measured: see Links. The simulation has kernels, copies, messages and their
# dependencies, step by step. It has no contention in the network, and all ranks are equally fast.
"""Simulated efficiency of a context that is split over many GPUs."""

import argparse
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from distributed import HEAD_DIM, HEADS, KV_HEADS, case_of  # noqa: E402


@dataclass(frozen=True)
class Links:
    """Bandwidths in bytes per second in one direction, and latencies in seconds.

    Attributes:
            node: bandwidth between two GPUs of a node of eight, by NVLink 4 (450 GB/s are its peak).
            network: bandwidth from a GPU to other nodes: one link of 400 Gb/s InfiniBand for each GPU (50 GB/s are its
            peak).
            memory: bandwidth of a GPU's own memory, for copies.
            message: seconds until a message begins to arrive, including the start of NCCL's kernel.
            launch: seconds of a launch besides its tiles: its start, and multiprocessors that are idle at its end.
    """

    node: float = 340e9
    network: float = 45e9
    memory: float = 3e12
    message: float = 25e-6
    launch: float = 20e-6


KEY_BYTES = KV_HEADS * 2 * HEAD_DIM * 2  # of one token's key and value, bf16
QUERY_BYTES = HEADS * HEAD_DIM * 2  # of one token's query


class Simulation:
    """A plan on given links, with the seconds that kernels take for a kept pair of a head.

    ``heads`` is the part of the heads that a rank has: the scheme "nodes" runs the plan between nodes with some of them.
    """

    def __init__(self, plan, links: Links, forward: float, backward: float, heads: float = 1.0) -> None:
        self.plan, self.links = plan, links
        self.seconds = forward, backward
        self.forward_seconds, self.backward_seconds = forward * heads, backward * heads
        self.key_bytes, self.query_bytes = KEY_BYTES * heads, QUERY_BYTES * heads
        ranks = plan.ranks
        self.held = torch.tensor([sum(end - begin for begin, end in each) for each in plan.ranges]).double()
        node = torch.arange(ranks) // plan.machine.ranks_per_node
        bandwidth = torch.where(node[:, None] == node, links.node, links.network).double()
        #: [r, o]: seconds in which rank r receives what it needs from rank o. The diagonal is 0.
        self.arriving = plan.received * self.key_bytes / bandwidth
        self.messages = (plan.received > 0).double()

    def copies(self, tokens, times: float):
        """Seconds to move the keys and values of this many tokens through memory this many times."""
        return tokens * self.key_bytes * times / self.links.memory

    def step(self, is_training: bool) -> float:
        """Seconds of the slowest rank: forward, or forward and backward."""
        run = getattr(self, self.plan.choice().scheme)
        return run(False) + (run(True) if is_training else 0)

    def early(self):
        """For each rank: the share of its work that needs no other rank's keys, and the own tokens whose keys are copied."""
        from tesela.distributed._layout import overlap, tokens
        from tesela.distributed._waiting import parts_of

        shares, copied = [], []
        for rank, own in enumerate(self.plan.ranges):
            parts = parts_of(self.plan, rank)
            late = tuple(part for part, waits in parts if waits)
            work = [self.plan.pairs_of(part) * (not waits) for part, waits in parts]
            total = sum(self.plan.pairs_of(part) for part, _ in parts)
            shares.append(sum(work) / total if total else 1.0)
            copied.append(tokens(overlap(self.plan.needs.ranges(self.plan.needs.of_all(late)), own)))
        return torch.tensor(shares).double(), torch.tensor(copied).double()

    def gather(self, is_backward: bool) -> float:
        plan, links = self.plan, self.links
        received, sent = plan.received.sum(1), plan.received.sum(0)
        # A link transfers in both directions at the same time.
        moving = torch.maximum(self.arriving.sum(1), self.arriving.sum(0)) + links.message * (self.messages.sum(1) > 0)
        share, copied = self.early()
        seconds = self.backward_seconds if is_backward else self.forward_seconds
        launches = plan.launches + ((share > 0) & (share < 1))
        kernels = plan.pairs.sum(1) * seconds + launches * links.launch * (3 if is_backward else 1)
        early = kernels * share
        # Messages are packed (read and written), and keys that lie apart are joined (likewise).
        joining = self.copies(received + copied, 2)
        packing = self.copies(sent, 2).max()
        if not is_backward:
            return float(packing + (joining + torch.maximum(early, moving.max()) + kernels - early).max())
        # Gradients of several ranges travel as float32. What comes is added in float32, and rounded.
        pairs = itertools.permutations(range(plan.ranks), 2)
        is_sum = any(plan.sum_type(*pair, torch.bfloat16) == torch.float32 for pair in pairs)
        back = moving.max() * (2 if is_sum else 1)
        adding = self.copies(sent, 8)
        if plan.keeps_received:
            late = joining + kernels - early
            arrived = late.max() + back  # of the slowest owner
            return float((torch.maximum(late + early, arrived) + adding).max())
        late = packing + (joining + torch.maximum(early, moving.max()) + kernels - early).max()
        return float(late + back + adding.max())

    def ring(self, is_backward: bool) -> float:
        """In step t a rank computes with the keys of the rank t places before it, while the next keys arrive."""
        plan, links, ranks = self.plan, self.links, self.plan.ranks
        every = torch.arange(ranks)
        seconds = self.backward_seconds if is_backward else self.forward_seconds
        done, arrived = torch.zeros(ranks).double(), torch.zeros(ranks).double()
        for t in range(ranks):
            owner, taker = (every - t) % ranks, (every + t) % ranks
            begin = torch.maximum(done, arrived)
            if t + 1 < ranks:
                of_next = (every - t - 1) % ranks
                needs = self.messages[every, of_next]
                both = torch.maximum(begin, begin[of_next])  # a message begins when both ranks are ready
                packing = self.copies(plan.received[every, of_next], 2)
                arrived = torch.where(
                    needs > 0, both + packing + links.message + self.arriving[every, of_next], torch.zeros(())
                )
                # A rank also waits until its own message has been sent.
                arrived = torch.maximum(arrived, arrived.roll(-t - 1))
            pairs = plan.pairs[every, owner]
            # Rows that keep some of these keys are read and written as float32, several times; so is dQ in the backward
            # pass.
            merging = (t > 0) * plan.touched[every, owner] * self.query_bytes * 13 / links.memory
            done = begin + pairs * seconds + (pairs > 0) * links.launch * (3 if is_backward else 1) + merging
            if is_backward and t > 0:
                # dK and dV of the step go back at once, and those of the rank's own keys arrive.
                back = self.arriving[every, owner] * 2 + self.copies(plan.received[every, owner], 5)
                came = self.messages[taker, every] > 0
                ready = done + torch.where(self.messages[every, owner] > 0, back + links.message, torch.zeros(()))
                adding = self.copies(plan.received[taker, every], 6)
                done = torch.where(came, torch.maximum(done, ready[taker]) + adding, ready)
        ends = self.copies(self.held, 6).max() if is_backward else 0.0
        return float(done.max() + ends)

    def heads(self, is_backward: bool) -> float:
        """Queries, keys and values are exchanged by heads before, and results after; the same holds for gradients."""
        plan, links, ranks = self.plan, self.links, self.plan.ranks
        share = self.held.max() * (KEY_BYTES + 2 * QUERY_BYTES) / ranks
        others_of_node = min(ranks, plan.machine.ranks_per_node) - 1
        others = ranks - 1 - others_of_node
        sending = share * (others_of_node / links.node + others / links.network)
        seconds = self.backward_seconds if is_backward else self.forward_seconds
        kernels = plan.pairs.sum() / ranks * seconds + links.launch * (3 if is_backward else 1)
        return float(sending + self.copies_of_exchange() + 2 * links.message + kernels)

    def copies_of_exchange(self) -> float:
        """Seconds to pack and to unpack what is exchanged by heads."""
        return float(self.held.max()) * (KEY_BYTES + 2 * QUERY_BYTES) * 4 / self.links.memory

    def nodes(self, is_backward: bool) -> float:
        """Heads are exchanged within each node, and the plan between nodes runs with a rank's heads."""
        plan, links = self.plan, self.links
        size = plan.machine.ranks_per_node
        inner = Simulation(plan.of_nodes, links, *self.seconds, heads=1 / size)
        sending = float(self.held.max()) * (KEY_BYTES + 2 * QUERY_BYTES) / size * (size - 1) / links.node
        between = getattr(inner, plan.scheme_between_nodes(plan.shape))
        return sending + self.copies_of_exchange() + 2 * links.message + between(is_backward)


def read(file: Path) -> list[dict]:
    """The lines of tools/bench/distributed.py in the file."""
    found = []
    for line in file.read_text().splitlines():
        if line.strip().startswith("{"):
            found.append(json.loads(line))
    return found


def made_plan(name: str, length: int, ranks: int, layout: str = "search", scheme: str = "auto"):
    import tesela.distributed

    variant, parameters = case_of(name, length, "cpu")
    return tesela.distributed.plan(
        variant, length=length, ranks=ranks, layout=layout, scheme=scheme, heads=HEADS, kv_heads=KV_HEADS, **parameters
    )


def rates(lines: list[dict], name: str, length: int, slower: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Seconds for a kept pair of a head, forward and backward, on one GPU at the nearest measured length.

    ``slower``: for each case, the time of kernels over parts relative to kernels over the whole, where that was
    measured.
    """
    times = {(x["length"], x["what"]): x["one_ms"] for x in lines if x.get("case") == name and "one_ms" in x}
    lengths = sorted({at for at, _ in times if (at, "step") in times and (at, "forward") in times})
    if not lengths:
        raise SystemExit(f"the file has no forward and step of {name}: measure it with tools/bench/distributed.py")
    nearest = min(lengths, key=lambda at: abs(at - length))
    pairs = float(made_plan(name, nearest, 1).pairs.sum())
    forward = times[nearest, "forward"] * 1e-3 / pairs
    backward = times[nearest, "step"] * 1e-3 / pairs - forward
    factors = slower.get(name, (1.0, 1.0))
    return forward * factors[0], backward * factors[1]


def compare(lines: list[dict], links: Links, slower: dict[str, tuple[float, float]]) -> None:
    print("| case | tokens | | measured ms | simulated ms | difference |\n|---|---|---|---|---|---|")
    for x in lines:
        if "split_ms" not in x or "one_ms" not in x:
            continue
        layout = x["layout"].split(" ")[0]
        plan = made_plan(x["case"], x["length"], 2, layout, x["scheme"])
        simulated = Simulation(plan, links, *rates(lines, x["case"], x["length"], slower)).step(x["what"] == "step") * 1e3
        print(
            f"| {x['case']} | {x['length']:,} | {x['what']}, {layout}, {x['scheme']} | {x['split_ms']:.2f} | {simulated:.2f} "
            f"| {simulated / x['split_ms'] - 1:+.1%} |"
        )


def table(lines: list[dict], links: Links, slower: dict[str, tuple[float, float]], options: argparse.Namespace) -> None:
    ranks, cases = options.ranks, options.cases
    for length in options.lengths:
        print(f"\nSimulated efficiency at {length:,} tokens, forward / forward + backward, with the scheme:\n")
        print("| GPUs | " + " | ".join(cases) + " |\n|---|" + "---|" * len(cases))
        for count in ranks:
            row = []
            for name in cases:
                plan = made_plan(name, length, count)
                simulation = Simulation(plan, links, *rates(lines, name, length, slower))
                forward, backward = rates(lines, name, length, {})  # of the whole, so that splitting costs count
                total = float(plan.pairs.sum()) / count
                shares = (total * forward / simulation.step(False), total * (forward + backward) / simulation.step(True))
                row.append(f"{shares[0]:.2f} / {shares[1]:.2f} {plan.choice().scheme}")
            print(f"| {count:,} | " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512, 1024])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1 << 20, 10 << 20])
    parser.add_argument("--cases", nargs="+", default=["causal", "window", "documents", "prefix"])
    parser.add_argument(
        "--slower", nargs="*", default=[], metavar="CASE=FORWARD:BACKWARD",
        help="what kernels over parts take by those over the whole",
    )
    options = parser.parse_args()
    lines = read(options.file)
    slower = {}
    for each in options.slower:
        name, _, factors = each.partition("=")
        forward, _, backward = factors.partition(":")
        slower[name] = float(forward), float(backward)
    if options.compare:
        compare(lines, Links(), slower)
    else:
        table(lines, Links(), slower, options)


if __name__ == "__main__":
    main()
