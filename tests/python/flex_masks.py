# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks as users of FlexAttention write them: one of each kind in attention-gym
(https://github.com/meta-pytorch/attention-gym) and in FlexAttention's documentation and article
(https://pytorch.org/blog/flexattention/), written anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from flex_cases import SK, B, Case, H, Mod, case, generator, ints
from torch.nn.attention.flex_attention import and_masks, noop_mask, or_masks


def causal_mask(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


@case
def noop() -> Case:
    return Case(noop_mask)


@case
def causal() -> Case:
    return Case(causal_mask)


def sliding(size: int) -> Mod:
    def near(b, h, q_idx, kv_idx):
        return q_idx - kv_idx <= size

    return and_masks(near, causal_mask)


@case
def sliding_window() -> Case:
    return Case(sliding(7))


@case
def prefix_lm() -> Case:
    length = 13

    def prefix(b, h, q_idx, kv_idx):
        return kv_idx < length

    return Case(or_masks(prefix, causal_mask))


@case
def prefix_lm_of_each_sequence() -> Case:
    lengths = torch.tensor([5, 21])

    def prefix(b, h, q_idx, kv_idx):
        return kv_idx <= lengths[b]

    return Case(or_masks(prefix, causal_mask))


@case
def padded_causal() -> Case:
    lengths = torch.tensor([33, 50], dtype=torch.int32)

    def padding(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (kv_idx < lengths[b])

    return Case(padding)


def document_ids(*lengths: int) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


@case
def documents_causal() -> Case:
    ids = document_ids(9, 3, 20, 8, 16)

    def same(b, h, q_idx, kv_idx):
        return ids[q_idx] == ids[kv_idx]

    return Case(and_masks(causal_mask, same))


@case
def documents_by_sequence_and_head() -> Case:
    ids = ints(0, 3, B, H, SK)

    def same(b, h, q_idx, kv_idx):
        mine = ids[b, h]
        return mine[q_idx] == ids[b][h][kv_idx]

    return Case(same)


@case
def documents_with_inner_mask() -> Case:
    ids = document_ids(9, 3, 20, 8, 16)
    starts = torch.tensor([0, 9, 12, 32, 40, 56])
    inner = sliding(4)

    def document(b, h, q_idx, kv_idx):
        together = ids[q_idx] == ids[kv_idx]
        return together & inner(b, h, q_idx - starts[ids[q_idx]], kv_idx - starts[ids[kv_idx]])

    return Case(document)


@case
def documents_packed_causal() -> Case:
    ids = document_ids(9, 3, 20, 8, 16)
    starts = torch.tensor([0, 9, 12, 32, 40, 56])

    def packed(b, h, q_idx, kv_idx):
        return (kv_idx >= starts[ids[q_idx]]) & causal_mask(b, h, q_idx, kv_idx)

    return Case(packed)


@case
def shared_prefix() -> Case:
    ids = document_ids(8, 6, 10, 12, 20)
    starts = torch.tensor([0, 8, 14, 24, 36, 56])
    prefixes = torch.tensor([0, 0, 0, 3, 3])

    def shared(b, h, q_idx, kv_idx):
        mine = ids[q_idx]
        prefix = prefixes[mine]
        own = (kv_idx >= starts[mine]) & causal_mask(b, h, q_idx, kv_idx)
        before = (mine != prefix) & (kv_idx >= starts[prefix]) & (kv_idx < starts[prefix + 1])
        return own | before

    return Case(shared)


@case
def dilated_window() -> Case:
    size, dilation = 12, 3

    def dilated(b, h, q_idx, kv_idx):
        distance = torch.abs(q_idx - kv_idx)
        return (distance <= size) & ((distance % dilation) == 0)

    return Case(dilated)


@case
def global_window() -> Case:
    size = 5
    chosen = ints(0, 10, SK) == 0

    def near(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= size

    def is_global(b, h, q_idx, kv_idx):
        return chosen[q_idx] | chosen[kv_idx]

    return Case(or_masks(near, is_global))


@case
def batched_groups() -> Case:
    size, inner = 16, sliding(5)

    def grouped(b, h, q_idx, kv_idx):
        same = q_idx // size == kv_idx // size
        return same & inner(b, h, q_idx % size, kv_idx % size)

    return Case(grouped)


@case
def block_diffusion() -> Case:
    length, block = 28, 4

    def mask(b, h, q_idx, kv_idx):
        noisy_q, noisy_k = q_idx < length, kv_idx < length
        q_block, k_block = (q_idx % length) // block, (kv_idx % length) // block
        diagonal = (q_block == k_block) & (noisy_q == noisy_k)
        offset = (q_block > k_block) & noisy_q & ~noisy_k
        clean = (q_block >= k_block) & ~noisy_q & ~noisy_k
        return diagonal | offset | clean

    return Case(mask, queries=56)


@case
def flamingo() -> Case:
    intervals = torch.tensor([[0, 12], [12, 20], [20, 33], [33, 40]])
    images = document_ids(14, 14, 14, 14)

    def cross(b, h, q_idx, kv_idx):
        interval = intervals[images[kv_idx]]
        return (q_idx >= interval[0]) & (q_idx < interval[1])

    return Case(cross)


@case
def flamingo_unpacked() -> Case:
    intervals = torch.tensor([[0, 12], [12, 20], [20, 33], [33, 40]])

    def cross(b, h, q_idx, kv_idx):
        first = intervals[kv_idx // 14, 0]
        return (q_idx >= first) & (q_idx < intervals[kv_idx // 14, -1])

    return Case(cross)


@case
def speculative_tree() -> Case:
    parents = [-1, 0, 0, 1, 1, 2, 3, 5]
    ancestors = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents[1:], 1):
        ancestors[node] |= ancestors[parent]
    prefix, nodes = 24, len(parents)

    def tree(b, h, q_idx, kv_idx):
        at = (kv_idx - prefix).clamp(min=0, max=nodes - 1)
        inside = (kv_idx >= prefix) & (kv_idx < prefix + nodes)
        return (kv_idx < prefix) | (inside & ancestors[q_idx, at])

    return Case(tree, queries=nodes, keys=prefix + nodes)


@case
def draft_training() -> Case:
    prefix, block = 16, 8

    def draft(b, h, q_idx, kv_idx):
        q_block, q_at = q_idx // block, q_idx % block
        k_block, k_at = (kv_idx - prefix) // block, (kv_idx - prefix) % block
        own = (kv_idx >= prefix) & (q_block == k_block) & (k_at <= q_at)
        return (kv_idx < prefix) | own

    return Case(draft)


def neighbourhood(place: Callable[[Any], tuple[Any, Any]], width: int, height: int) -> Mod:
    reach = 1

    def mask(b, h, q_idx, kv_idx):
        q_x, q_y = place(q_idx)
        k_x, k_y = place(kv_idx)
        x = q_x.clamp(reach, (width - 1) - reach)
        y = q_y.clamp(reach, (height - 1) - reach)
        return ((x - k_x).abs() <= reach) & ((y - k_y).abs() <= reach)

    return mask


@case
def natten() -> Case:
    width = 8

    def place(index):
        return index // width, index % width

    return Case(neighbourhood(place, width, 8), queries=64, keys=64)


@case
def natten_tiled() -> Case:
    width, tile_w, tile_h = 8, 4, 2

    def place(index):
        tile = index // (tile_h * tile_w)
        tile_y, tile_x = tile // (width // tile_w), tile % (width // tile_w)
        at = index % (tile_h * tile_w)
        return tile_x * tile_w + at % tile_w, tile_y * tile_h + at // tile_w

    return Case(neighbourhood(place, width, 8), queries=64, keys=64)


def gathered_bits(code):
    """Joins the bits at even places."""
    code = code & 0x55555555
    code = (code | (code >> 1)) & 0x33333333
    code = (code | (code >> 2)) & 0x0F0F0F0F
    code = (code | (code >> 4)) & 0x00FF00FF
    return (code | (code >> 8)) & 0x0000FFFF


@case
def natten_morton() -> Case:
    return Case(
        neighbourhood(lambda i: (gathered_bits(i), gathered_bits(i >> 1)), 8, 8),
        queries=64,
        keys=64,
    )


def spread_bits(x):
    x = x & 0x0000FFFF
    x = (x | (x << 8)) & 0x00FF00FF
    x = (x | (x << 4)) & 0x0F0F0F0F
    x = (x | (x << 2)) & 0x33333333
    return (x | (x << 1)) & 0x55555555


@case
def morton_causal() -> Case:
    width = 8

    def code(index):
        return (spread_bits(index // width) << 1) | spread_bits(index % width)

    def mask(b, h, q_idx, kv_idx):
        return code(q_idx) >= code(kv_idx)

    return Case(mask, queries=64, keys=64)


@case
def bits_of_unknown() -> Case:
    def mask(b, h, q_idx, kv_idx):
        return ((q_idx & kv_idx) == 0) | ((q_idx ^ kv_idx) == 5) | ((q_idx | kv_idx) == 31)

    return Case(mask)


@case
def sliding_tiles_2d() -> Case:
    canvas, kernel, tile, text = (8, 4), (4, 2), (2, 2), 6
    tiles_h, tiles_w = canvas[0] // tile[0], canvas[1] // tile[1]
    size_h, size_w = kernel[0] // tile[0], kernel[1] // tile[1]
    vision = canvas[0] * canvas[1]

    def place(index):
        at = index // (tile[0] * tile[1])
        return at // tiles_w, at % tiles_w

    def border(size):
        return size // 2, size // 2 + (size % 2 - 1)

    def mask(b, h, q_idx, kv_idx):
        q_h, q_w = place(q_idx)
        k_h, k_w = place(kv_idx)
        left_h, right_h = border(size_h)
        left_w, right_w = border(size_w)
        at_h = q_h.clamp(left_h, (tiles_h - 1) - right_h)
        at_w = q_w.clamp(left_w, (tiles_w - 1) - right_w)
        near_h = (k_h >= at_h - left_h) & (k_h <= at_h + right_h)
        near_w = (k_w >= at_w - left_w) & (k_w <= at_w + right_w)
        pictures = (q_idx < vision) & (kv_idx < vision)
        to_text = (q_idx < vision) & (kv_idx >= vision) & (kv_idx < vision + text)
        from_text = (q_idx >= vision) & (kv_idx < vision + text)
        return (pictures & near_h & near_w) | to_text | from_text

    return Case(mask, queries=40, keys=40)


@case
def sliding_tiles_3d() -> Case:
    canvas, tile, text = (2, 4, 4), (1, 2, 2), 4
    t, y, x = (c // s for c, s in zip(canvas, tile, strict=True))
    vision = math.prod(canvas)

    def place(index):
        at = index // math.prod(tile)
        return at // (y * x), (at % (y * x)) // x, at % x

    def mask(b, h, q_idx, kv_idx):
        near = kv_idx < vision
        for mine, other, size in zip(place(q_idx), place(kv_idx), (t, y, x), strict=True):
            centre = mine.clamp(0, size - 1)
            near = near & ((other - centre).abs() <= 0)
        text_keys = (kv_idx >= vision) & (kv_idx < vision + text)
        return near | text_keys | (q_idx >= vision)

    return Case(mask, queries=40, keys=40)


@case
def video_spatial() -> Case:
    prompt, frame, width, rounded = 6, 10, 2, 8

    def round_down(index):
        return math.floor(index / rounded) * rounded

    def mask(b, h, q_idx, kv_idx):
        wide = round_down(width * frame)
        return (kv_idx < prompt) | (q_idx < prompt) | (torch.abs(q_idx - kv_idx) < wide)

    return Case(mask)


@case
def video_spatial_with_sink() -> Case:
    prompt, frame, sink = 6, 10, True

    def mask(b, h, q_idx, kv_idx):
        first = kv_idx < (prompt + frame) if sink else kv_idx < prompt
        return first | (q_idx < prompt)

    return Case(mask)


@case
def video_temporal() -> Case:
    prompt, frame, frames, width = 6, 10, 5, 2

    def inside(index, start):
        return (index - start) % frame

    def mask(b, h, q_idx, kv_idx):
        wide = (width * frame) // frames
        near = torch.abs(inside(q_idx, prompt) - inside(kv_idx, prompt)) < wide
        return (kv_idx < prompt) | (q_idx < prompt) | near

    return Case(mask)


@case
def chosen_tiles() -> Case:
    tile, sizes = 8, torch.tensor([8, 8, 5, 8, 8, 3, 8])
    chosen = torch.stack(
        [torch.randperm(7, generator=generator(i))[:3] for i in range(B * H * 5)]
    ).view(B, H, 5, 3)

    def mask(b, h, q_idx, kv_idx):
        mine = chosen[b, h, q_idx // tile]
        selected = (mine == (kv_idx // tile).unsqueeze(-1)).any(dim=-1)
        if sizes is None:
            return selected
        return selected & (kv_idx % tile < sizes[kv_idx // tile])

    return Case(mask)


@case
def tile_map() -> Case:
    tile = 8
    kept = ints(0, 2, B, H, 5, 7).bool()

    def mask(b, h, q_idx, kv_idx):
        return kept[b, h, q_idx // tile, kv_idx // tile]

    return Case(mask)


@case
def tile_padding() -> Case:
    tile, sizes = 8, torch.tensor([8, 8, 5, 8, 8, 3, 8])

    def mask(b, h, q_idx, kv_idx):
        return kv_idx % tile < sizes[kv_idx // tile]

    return Case(mask)


@case
def paged() -> Case:
    class Pages:
        size = 8

        def __init__(self) -> None:
            self.logical = torch.tensor([[3, -1, 0, 1, 2, -1, 4], [0, 1, -1, 2, -1, 4, 3]])

        def mask(self, inner: Mod) -> Mod:
            logical = self.logical

            def physical(b, h, q_idx, kv_idx):
                page, at = kv_idx // self.size, kv_idx % self.size
                block = logical[b, page]
                inside = inner(b, h, q_idx, block * self.size + at)
                return torch.where(block >= 0, inside, False)

            return physical

    return Case(Pages().mask(causal_mask))


@case
def method_of_object() -> Case:
    class Config:
        def __init__(self) -> None:
            self.window = 9
            self.ids = document_ids(9, 3, 20, 8, 16)

        def allowed(self, b, h, q_idx, kv_idx):
            return (q_idx - kv_idx).abs() < self.window

        def mask(self, b, h, q_idx, kv_idx):
            return self.allowed(b, h, q_idx, kv_idx) & (self.ids[q_idx] == self.ids[kv_idx])

    return Case(Config().mask)


@case
def shard_with_defaults() -> Case:
    first, second = 30, 11

    def shard(b, h, q_idx, kv_idx, _q=first, _k=second):
        return q_idx + _q >= kv_idx + _k

    return Case(shard)


@case
def head_dependent_window() -> Case:
    def window(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= 2**h

    return Case(window)


@case
def stand_alone_image() -> Case:
    width = 7

    def image(b, h, q_idx, kv_idx):
        row = torch.div(q_idx, width, rounding_mode="floor") - kv_idx // width
        return (row.abs() <= 2) & (torch.remainder(q_idx, width) - kv_idx % width).abs().le(2)

    return Case(image)


@case
def checkerboard() -> Case:
    def board(b, h, q_idx, kv_idx):
        return (q_idx + kv_idx) % 2 == 0

    return Case(board)
