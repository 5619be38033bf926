# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks agree before anything is sent. If they differ, each rank raises an error that says how.

The ranks must agree on a list of facts. One small reduction on the host compares digests of the
lists. Only if the digests differ do the ranks exchange the facts themselves.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from tesela._errors import CancelledError, Error, InvalidArgumentError

REFUSED = "refused"
"""The fact with a rank's message, if the rank's own arguments are wrong."""

_host_groups: dict[Any, Any] = {}
"""group -> a group of the same ranks whose messages go through the host."""

_connected: set[tuple[Any, torch.device]] = set()
"""The groups in which single ranks can already exchange messages from the device."""


def host_group(group: Any) -> Any:
    """A group of the same ranks that compares on the host. All ranks must make the first call."""
    key = dist.group.WORLD if group is None else group
    found = _host_groups.get(key)
    if found is None:
        if _backends(key).get("cpu") == "gloo":
            found = key
        else:
            ranks = dist.get_process_group_ranks(key)
            found = dist.new_group(
                ranks, timeout=_timeout(key), backend="gloo", use_local_synchronization=True
            )
        _host_groups[key] = found
    return found


def connect(group: Any, device: torch.device) -> None:
    """Prepares a group for messages between single ranks. All ranks must make the first call.

    The first message of an NCCL group must involve all ranks; otherwise some ranks wait forever. A
    rank that sends nothing would not take part. So a sum over all ranks is the first message.
    """
    key = dist.group.WORLD if group is None else group
    if (key, device) in _connected:
        return
    if _backends(key).get(device.type) != "gloo" and dist.get_world_size(key) > 1:
        try:
            dist.all_reduce(torch.zeros(1, device=device), group=key)
        except RuntimeError as error:
            no_answer(error)
    _connected.add((key, device))


def _backends(group: Any) -> dict[str, str]:
    """Kind of device -> backend, from "cpu:gloo,cuda:nccl"."""
    config = dist.get_backend_config(group)
    return dict(each.split(":", 1) for each in config.split(","))


def _timeout(group: Any) -> timedelta | None:
    """How long ranks of the group wait; None: PyTorch's default for new groups."""
    kind = next(iter(_backends(group)))
    options = getattr(group._get_backend(torch.device(kind)), "options", None)
    return getattr(options, "_timeout", None)


def agree(group: Any, facts: dict[str, Any], failure: Error | None = None) -> None:
    """Raises unless all ranks of the group have the same facts and none has failed.

    All ranks must call it.

    Args:
        group: the group of the ranks.
        facts: the facts on which the ranks must agree; values that JSON can write.
        failure: the error of this rank, if it cannot go on.

    Raises:
        InvalidArgumentError: the ranks differ. The message says in what, and which ranks have which
            value.
        CancelledError: a rank did not answer.
    """
    if failure is not None:
        facts = {REFUSED: str(failure)}
    text = json.dumps(facts, default=str)
    digest = hashlib.sha256(text.encode()).digest()
    words = [int.from_bytes(digest[i : i + 7], "big") for i in (0, 7)]
    # The minimum over ranks of x and of -x: the ranks agree if both are this rank's own values.
    mine = torch.tensor([*words, *(-word for word in words), int(failure is None)], device="cpu")
    least = mine.clone()
    try:
        host = host_group(group)
        dist.all_reduce(least, dist.ReduceOp.MIN, group=host)
        if torch.equal(least, mine) and failure is None:
            return
        all_facts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(all_facts, text, group=host)
    except RuntimeError as error:
        no_answer(error)
    if failure is not None:
        raise failure
    raise InvalidArgumentError(difference([json.loads(each) for each in all_facts]))


def no_answer(error: BaseException) -> NoReturn:
    """Raises the error of a rank whose messages to other ranks failed."""
    raise CancelledError(
        "a rank of the group did not answer: it ended, it raised an error elsewhere, or it called "
        "something else than the others; torch.distributed says: "
        + str(error).strip().split("\n")[0]
    ) from error


def difference(all_facts: list[dict[str, Any]]) -> str:
    """A sentence about the first fact in which the ranks differ."""
    refused = [(rank, facts[REFUSED]) for rank, facts in enumerate(all_facts) if REFUSED in facts]
    if refused:
        rank, sentence = refused[0]
        return f"rank {rank} refuses the call: {sentence}"
    for name in all_facts[0]:
        by_value: dict[str, list[int]] = {}
        for rank, facts in enumerate(all_facts):
            by_value.setdefault(json.dumps(facts.get(name)), []).append(rank)
        if len(by_value) > 1:
            told = "; ".join(
                f"{_ranks(ranks)} {json.loads(value)}" for value, ranks in by_value.items()
            )
            return (
                f"the ranks' calls differ in {name}: {told}. Nothing was sent: pass the same on "
                "all ranks of the group"
            )
    return "the ranks' calls differed, but were equal in a second comparison: call again"


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:4])) + (", ..." if len(ranks) > 4 else "")
    return f"rank {shown} has" if len(ranks) == 1 else f"ranks {shown} have"
