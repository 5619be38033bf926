# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The tiles that a kernel must compute: those with a pair that the mask keeps. They are found in the
# mask itself, pair by pair, not by the analysis that Tesela skips tiles with. So a kernel that
# computes more tiles looks slower.

import torch

import c_api
from cases import Case, Setting

PAIRS_AT_ONCE = 2**27


def extents(schedule: str) -> tuple[int, int]:
    """(queries, keys) of a tile for one head. If query heads share a block's rows, each has an
    equal part."""
    rows, heads = c_api.choice(schedule, "block_m"), c_api.choice(schedule, "heads", default=1)
    return rows // heads, c_api.choice(schedule, "block_n")


def kept_pairs(case: Case, setting: Setting, device: str = "cuda") -> int:
    """The number of pairs that the mask keeps, over all batches and heads."""
    if not setting.mask:
        return case.batch * case.heads * case.queries * case.length
    batches = range(case.batch if setting.per_batch else 1)
    heads = range(case.heads if setting.per_head else 1)
    step = max(1, PAIRS_AT_ONCE // case.length)
    key = torch.arange(case.length, device=device)[None, :]
    pairs = torch.zeros((), dtype=torch.int64, device=device)
    for start in range(0, case.queries, step):
        query = torch.arange(start, min(start + step, case.queries), device=device)[:, None]
        for batch in batches:
            for head in heads:
                kept = setting.mask(batch, head, query, key)
                pairs += kept.expand(len(query), case.length).sum()
    return int(pairs) * case.batch * case.heads // (len(batches) * len(heads))


def needed(
    case: Case, setting: Setting, block_m: int, block_n: int, device: str = "cuda"
) -> tuple[int, int]:
    """(tiles of `block_m` queries by `block_n` keys, the pairs in them) of one head: no mask
    here depends on the batch or the head. Tiles at the ends count only the pairs that exist."""
    queries, length = case.queries, case.length
    step = max(1, PAIRS_AT_ONCE // length // block_m) * block_m
    key = torch.arange(length, device=device)[None, :]
    widths = (length - key[0, ::block_n]).clamp(max=block_n)
    tiles = pairs = 0
    for start in range(0, queries, step):
        query = torch.arange(start, min(start + step, queries), device=device)[:, None]
        if setting.mask:
            kept = setting.mask(0, 0, query, key)
        else:
            kept = torch.ones(len(query), length, dtype=torch.bool, device=device)
        edges = (0, -length % block_n, 0, -len(query) % block_m)
        kept = torch.nn.functional.pad(kept, edges).view(-1, block_m, len(widths), block_n)
        run = kept.any(dim=3).any(dim=1)
        heights = (queries - query[::block_m]).clamp(max=block_m)
        tiles += int(run.sum())
        pairs += int((run * heights * widths).sum())
    return tiles, pairs
