# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The check of gradients: PyTorch's autograd differentiates attention in float64, written with the
# variant's Python functions. It shares no formula with the kernels.
#
# The gradients of a head are right if, in every block of rows, the Euclidean norm of the error is
# at most reference.TOLERANCE times the norm of the reference.

import torch

from backward import Data
from cases import Case
from engines import Prepared, synchronize
from reference import ROWS, TOLERANCE, largest_share

NAMES = ("dq", "dk", "dv")
SCORES_AT_ONCE = 2**26  # autograd keeps about eight float64 tensors of this many elements
SCORES_IN_ALL = 2**32


def attention(
    case: Case,
    data: Data,
    place: tuple[int, int, slice],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> torch.Tensor:
    """o of the query rows `place` = (batch, head, rows), differentiable."""
    batch, head, rows = place
    query = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
    key = torch.arange(case.length, device=q.device)[None, :]
    setting = data.setting
    scores = (q @ k.T) * data.scale
    if setting.score:
        scores = setting.score(scores, batch, head, query, key)
    if setting.mask:
        scores = scores.masked_fill(~setting.mask(batch, head, query, key), float("-inf"))
    if setting.sink is not None:
        sink = setting.sink[head].double().expand(len(scores), 1)
        return torch.cat([scores, sink], dim=1).softmax(dim=1)[:, :-1] @ v
    # A row without keys is 0, whatever the inputs are.
    empty = (scores == float("-inf")).all(dim=1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(dim=1).masked_fill(empty, 0.0) @ v


def of_head(
    case: Case, data: Data, batch: int, kv_head: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dq [query heads that share the key head, Sq, D_qk], dk, dv) in float64, for the first set
    of inputs."""
    k, v = (each[0][batch, kv_head].double().requires_grad_() for each in (data.k, data.v))
    group = case.heads // case.kv_heads
    dq = []
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    step = max(ROWS, SCORES_AT_ONCE // case.length // ROWS * ROWS)
    for head in range(kv_head * group, (kv_head + 1) * group):
        for start in range(0, case.queries, step):
            rows = slice(start, min(start + step, case.queries))
            q = data.q[0][batch, head, rows].double().requires_grad_()
            with torch.enable_grad():
                o = attention(case, data, (batch, head, rows), q, k, v)
            do = data.do[0][batch, head, rows].double()
            part_q, part_k, part_v = torch.autograd.grad(o, (q, k, v), do)
            dq.append(part_q)
            dk += part_k
            dv += part_v
    return torch.cat(dq).view(group, case.queries, -1), dk.detach(), dv.detach()


def shape_fault(case: Case, found: tuple[torch.Tensor, ...]) -> str | None:
    q = (case.batch, case.heads, case.queries, case.head_dim_qk)
    k = (case.batch, case.kv_heads, case.length, case.head_dim_qk)
    v = (case.batch, case.kv_heads, case.length, case.head_dim_v)
    for name, tensor, shape in zip(NAMES, found, (q, k, v), strict=True):
        if tuple(tensor.shape) != shape:
            return f"{name}'s shape is {tuple(tensor.shape)}, it must be {shape}"
        if not torch.isfinite(tensor).all():
            count = int((~torch.isfinite(tensor)).sum())
            return f"{count} values of {name} are NaN or infinite, or were never written"
    return None


def errors(case: Case, data: Data, found: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """For each gradient, the largest norm of the error of a block of rows over the reference's
    norm."""
    dq, dk, dv = found
    group = case.heads // case.kv_heads
    worst = torch.zeros(3, dtype=torch.float64, device=dq.device)
    for place in case.checked_heads(SCORES_IN_ALL, key_heads=True):
        batch, kv_head = place
        if place not in data.references:
            data.references[place] = of_head(case, data, batch, kv_head)
        expected_q, *expected = data.references[place]
        heads = range(kv_head * group, (kv_head + 1) * group)
        shares = [
            torch.stack([largest_share(dq[batch, h], expected_q[i]) for i, h in enumerate(heads)])
            .max(),
            *(largest_share(each[batch, kv_head], x) for each, x in zip((dk, dv), expected)),
        ]  # fmt: skip
        worst = torch.maximum(worst, torch.stack(shares))
    return dict(zip(NAMES, worst.tolist()))


def check(case: Case, data: Data, prepared: Prepared) -> tuple[str | None, dict]:
    """(what is wrong with an engine's gradients for the first set of inputs, or None; its errors
    for the JSON)."""
    found = prepared.launch(0)
    synchronize()
    if fault := shape_fault(case, found):
        return fault, {}
    found = tuple(each.clone() for each in found)
    measured = errors(case, data, found)
    entry = {"error": max(measured.values()), "errors": measured}
    tolerance = TOLERANCE[case.type_name]
    for name, error in measured.items():
        # This form fails for NaN.
        if not error <= tolerance:
            return (
                f"a block of {ROWS} rows of {name} is off by {error:.2e} in norm, allowed are "
                f"{tolerance:g}"
            ), entry
    if prepared.deterministic:
        again = prepared.launch(0)
        synchronize()
        for name, first, second in zip(NAMES, found, again):
            if not torch.equal(first, second):
                return f"{name} has other bits in a second launch of a deterministic mode", entry
    return None, entry
