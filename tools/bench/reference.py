# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The reference: attention in float32, from the variant's Python functions, one block of rows after
# another.
#
# An output is right if, in every block of ROWS rows of every checked head, the Euclidean norm of
# the error is at most TOLERANCE times the norm of the reference. With a causal mask the last rows
# have small values; a norm over the whole output would hide their errors.

import torch

from cases import Case
from engines import Data, Prepared, synchronize

ROWS = 128
TOLERANCE = {"bf16": 1e-2, "f16": 2e-3}
LSE_TOLERANCE = 1e-3  # in natural logarithm; the rounding of float32 is added
SCORES_AT_ONCE = 2**27


def block_norms(rows: torch.Tensor) -> torch.Tensor:
    """The Euclidean norm of each block of ROWS rows of [rows, D]."""
    squares = rows.square().sum(dim=1)
    squares = torch.nn.functional.pad(squares, (0, -len(squares) % ROWS))
    return squares.view(-1, ROWS).sum(dim=1).sqrt()


def largest_share(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The largest norm of the error of a block of ROWS rows, over the norm of the expected
    values."""
    error = block_norms(found.to(expected.dtype) - expected)
    # Rows without keys are exactly 0: an error of 0 over a norm of 0 counts as 0.
    return torch.where(error == 0, 0.0, error / block_norms(expected)).max()


def reference_rows(
    case: Case, data: Data, batch: int, head: int, rows: slice
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse) in float32 of the query rows `rows` of one head, for the first set of inputs."""
    kv_head = head * case.kv_heads // case.heads
    q = data.q[0][batch, head, rows].float()
    k, v = data.k[0][batch, kv_head].float(), data.v[0][batch, kv_head].float()
    scores = (q @ k.T) * data.scale
    query = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
    key = torch.arange(case.length, device=q.device)[None, :]
    setting = data.setting
    if setting.score:
        scores = setting.score(scores, batch, head, query, key)
    if setting.mask:
        scores.masked_fill_(~setting.mask(batch, head, query, key), float("-inf"))
    lse = torch.logsumexp(scores, dim=1)
    if setting.sink is not None:
        lse = torch.logaddexp(lse, setting.sink[head].float())
    # For a row without keys, exp(-inf - 0) is 0.
    return (scores - lse.masked_fill(lse == float("-inf"), 0.0)[:, None]).exp_() @ v, lse


def fault(
    case: Case, data: Data, output: torch.Tensor, lse: torch.Tensor | None
) -> tuple[str | None, float | None]:
    """(what is wrong with an engine's result for the first set of inputs, or None; the largest
    error in norm). `lse` may be None."""
    shape = (case.batch, case.heads, case.queries, case.head_dim_v)
    if tuple(output.shape) != shape:
        return f"the output's shape is {tuple(output.shape)}, it must be {shape}", None
    if not torch.isfinite(output).all():
        count = int((~torch.isfinite(output)).sum())
        return f"{count} values of the output are NaN or infinite, or were never written", None
    if lse is not None and (torch.isnan(lse) | (lse == float("inf"))).any():
        return "values of the LSE are NaN or +inf, or were never written", None
    torch.set_float32_matmul_precision("highest")  # no TF32
    step = max(ROWS, SCORES_AT_ONCE // case.length // ROWS * ROWS)
    worst = torch.zeros((), device=output.device)
    worst_lse = torch.zeros((), device=output.device)
    for batch, head in case.checked_heads():
        for start in range(0, case.queries, step):
            rows = slice(start, min(start + step, case.queries))
            expected, expected_lse = reference_rows(case, data, batch, head, rows)
            worst = torch.maximum(worst, largest_share(output[batch, head, rows], expected))
            if lse is not None:
                found = lse[batch, head, rows]
                excess = (found - expected_lse).abs() - 5e-7 * expected_lse.abs()
                # A row without keys has an LSE of -inf, and -inf minus -inf is NaN.
                excess = torch.where(found == expected_lse, 0.0, excess)
                worst_lse = torch.maximum(worst_lse, excess.max())
    error, tolerance = worst.item(), TOLERANCE[case.type_name]
    # This form fails for NaN.
    if not error <= tolerance:
        return (
            f"a block of {ROWS} rows is off by {error:.2e} in norm, allowed are {tolerance:g}",
            error,
        )
    if not worst_lse.item() <= LSE_TOLERANCE:
        return f"the LSE is off by {worst_lse.item():.2e}, allowed are {LSE_TOLERANCE:g}", error
    return None, error


def check(case: Case, data: Data, prepared: Prepared) -> tuple[str | None, dict]:
    """(what is wrong with an engine's result for the first set of inputs, or None; its error for
    the JSON)."""
    output = prepared.launch(0)
    synchronize()
    reason, error = fault(case, data, output, prepared.lse(0))
    return reason, {"error": error}
