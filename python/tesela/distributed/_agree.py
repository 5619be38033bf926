# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks agree before anything is sent: or each of them raises, and names the difference.

What ranks must agree in is a list of facts. Their digests are compared by one small reduction on
the host; only where they differ do ranks exchange the facts themselves.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from tesela._errors import CancelledError, Error, InvalidArgumentError

REFUSED = "refused"
"""The fact that a rank's own arguments are wrong: its sentence."""

_host_groups: dict[Any, Any] = {}
"""By group: one of the same ranks whose messages pass by the host."""


def host_group(group: Any) -> Any:
    """A group of the same ranks that compares on the host. The first time all ranks call it."""
    key = dist.group.WORLD if group is None else group
    found = _host_groups.get(key)
    if found is None:
        if "gloo" in str(dist.get_backend(group)):
            found = key
        else:
            ranks = dist.get_process_group_ranks(key)
            found = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        _host_groups[key] = found
    return found


def agree(group: Any, facts: dict[str, Any], failure: Error | None = None) -> None:
    """Returns where all ranks of the group have the same facts, and none has failed.

    All ranks call it.

    Args:
        group: whose ranks.
        facts: what they must agree in; values that JSON can write.
        failure: what this rank raises if it had to go on.

    Raises:
        InvalidArgumentError: they differ; the sentence says in what, and which ranks have what.
        CancelledError: a rank did not answer.
    """
    if failure is not None:
        facts = {REFUSED: str(failure)}
    text = json.dumps(facts)
    digest = hashlib.sha256(text.encode()).digest()
    words = [int.from_bytes(digest[i : i + 7], "big") for i in (0, 7)]
    # The least of x and of -x: ranks agree where both come back.
    mine = torch.tensor([*words, *(-word for word in words), int(failure is None)])
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
    """Raises what a rank says whose messages to the others failed."""
    raise CancelledError(
        "a rank of the group did not answer: it ended, it raised an error elsewhere, or it called "
        "something else than the others; torch.distributed says: "
        + str(error).strip().split("\n")[0]
    ) from error


def difference(all_facts: list[dict[str, Any]]) -> str:
    """A sentence about the first fact that ranks differ in."""
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
    return "the ranks' calls differ, and a second look finds them alike: call again"


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:4])) + (", ..." if len(ranks) > 4 else "")
    return f"rank {shown} has" if len(ranks) == 1 else f"ranks {shown} have"
