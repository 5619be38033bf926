# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The library, templates/variants, beside FlexAttention. Each function below is named after a
# variant. It draws data that a user of the variant would have. It gives the numbers and tensors for
# Tesela's text, and the mask and the score that a user of FlexAttention would write.
#
# The reference also calls the masks and scores, on blocks of indices, so they only use operators
# and tensor methods. Windows and similar lengths are those of the paper or model, but 1024 instead
# of 4096, and at most a quarter of the keys (Draw.bounded), so that a mask still has tiles to skip.

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cases import Case, Cases, Setting, Variant, short
from draw import Draw
from summary import LIBRARY

FOLDER = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "templates", "variants"
)


def keeps_causal(b, h, q, k):
    return q >= k


@dataclass(frozen=True)
class Entry:
    setting: Callable[[Draw], Setting]
    queries: Callable[[int], int]  # number of keys -> number of queries


ENTRIES: dict[str, Entry] = {}


def entry(
    function: Callable[[Draw], Setting] | None = None,
    queries: Callable[[int], int] = lambda keys: keys,
) -> Callable:
    """Registers `function` as the data of the variant with its name."""
    if function is None:
        return partial(entry, queries=queries)
    ENTRIES[function.__name__] = Entry(function, queries)
    return function


@entry
def alibi(draw):
    slope = draw.slopes()
    return Setting(
        {"slope": slope},
        mask=keeps_causal,
        score=lambda s, b, h, q, k: s + slope[h] * (k - q),
    )


@entry
def alibi_symmetric(draw):
    slope = draw.slopes()
    return Setting({"slope": slope}, score=lambda s, b, h, q, k: s - slope[h] * (q - k).abs())


@entry
def axial(draw):
    width = draw.width()
    return Setting(
        {"width": width},
        mask=lambda b, h, q, k: ((q - k) % width == 0) | (q // width == k // width),
    )


@entry
def big_bird(draw):
    block = draw.bounded(64)
    blocks = -(-draw.length // block)
    chance = draw.integers(0, blocks, draw.heads, blocks, 3)
    last = (draw.length - 1) // block

    def mask(b, h, q, k):
        row, column = q // block, k // block
        near = (row - column).abs() <= 1
        ends = (row == 0) | (row == last) | (column == 0) | (column == last)
        picked = (
            (chance[h, row, 0] == column)
            | (chance[h, row, 1] == column)
            | (chance[h, row, 2] == column)
        )
        return ends | near | picked

    return Setting({"chance": chance, "block": block}, mask=mask, per_head=True)


@entry
def block_causal(draw):
    frame = draw.bounded(1560)
    return Setting({"frame": frame}, mask=lambda b, h, q, k: k < (q // frame + 1) * frame)


@entry
def block_diffusion(draw):
    length, block = draw.length // 2, 16

    def mask(b, h, q, k):
        # Follows `block_diff_mask` of https://github.com/kuleshov-group/bd3lms.
        clean_q, clean_k = q >= length, k >= length
        block_q = (q - length * clean_q) // block
        block_k = (k - length * clean_k) // block
        own_noisy = (block_q == block_k) & (clean_q == clean_k)
        clean_before = (block_q > block_k) & clean_k & ~clean_q
        clean_causal = (block_q >= block_k) & clean_k & clean_q
        return own_noisy | clean_before | clean_causal

    return Setting({"length": length, "block": block}, mask=mask)


@entry
def block_sparse(draw):
    """A random quarter of the blocks, and the blocks on the diagonal."""
    block = draw.bounded(64)
    blocks = -(-draw.length // block)
    layout = draw.normal(draw.heads, blocks, blocks) > 0.6745
    layout |= draw.torch.eye(blocks, dtype=draw.torch.bool, device=draw.device)
    return Setting(
        {"layout": layout, "block": block},
        mask=lambda b, h, q, k: layout[h, q // block, k // block],
        per_head=True,
    )


@entry
def boolean_mask(draw):
    """Stands for a mask made by hand: causal, without a random quarter of the pairs."""
    kept = draw.normal(draw.queries, draw.length) > -0.6745
    kept = kept.tril()
    kept.fill_diagonal_(True)
    return Setting({"kept": kept}, mask=lambda b, h, q, k: kept[q, k])


@entry
def causal(draw):
    return Setting(mask=keeps_causal)


@entry(queries=lambda keys: keys // 4)
def causal_bottom_right(draw):
    """The queries are the last quarter of a prompt; the cache has the keys of the rest."""
    offset = draw.length - draw.queries
    return Setting(mask=lambda b, h, q, k: q + offset >= k)


@entry(queries=lambda keys: keys // 4)
def causal_offset(draw):
    """The queries are a piece of a prompt, a quarter as long as the keys, at a random offset for
    each batch."""
    offset = draw.integers(0, draw.length - draw.queries + 1, draw.batch)
    return Setting({"offset": offset}, mask=lambda b, h, q, k: q + offset[b] >= k, per_batch=True)


@entry
def chosen_tokens(draw):
    """A question of 32 tokens anywhere in each sequence."""
    window, tokens = draw.bounded(512), draw.bounded(32)
    start = draw.integers(0, draw.length - tokens + 1, draw.batch)[:, None]
    chosen = (draw.places() >= start) & (draw.places() < start + tokens)
    return Setting(
        {"chosen": chosen, "window": window},
        mask=lambda b, h, q, k: chosen[b, k] | chosen[b, q] | ((q - k).abs() <= window // 2),
        per_batch=True,
    )


@entry
def chunked_local(draw):
    chunk = draw.bounded(8192)
    return Setting({"chunk": chunk}, mask=lambda b, h, q, k: (q >= k) & (q // chunk == k // chunk))


@entry
def clusters(draw):
    """32 clusters, whose tokens are anywhere in the sequence."""
    cluster = draw.integers(0, 32, draw.batch, draw.heads, draw.length)
    return Setting(
        {"cluster": cluster},
        mask=lambda b, h, q, k: (q >= k) & (cluster[b, h, q] == cluster[b, h, k]),
        per_batch=True,
        per_head=True,
    )


@entry
def dilated_segments(draw):
    segment, dilation = draw.bounded(2048), 2

    def mask(b, h, q, k):
        first = h % dilation
        same = (q >= k) & (q // segment == k // segment)
        return same & (q % dilation == first) & (k % dilation == first)

    return Setting({"segment": segment, "dilation": dilation}, mask=mask, per_head=True)


@entry
def dilated_window(draw):
    window, dilation = draw.bounded(256), 2

    def mask(b, h, q, k):
        distance = q - k
        return (distance >= 0) & (distance < window * dilation) & (distance % dilation == 0)

    return Setting({"window": window, "dilation": dilation}, mask=mask)


@entry
def documents(draw):
    ids = draw.documents()
    return Setting({"id": ids}, mask=lambda b, h, q, k: ids[b, q] == ids[b, k], per_batch=True)


@entry
def documents_causal(draw):
    ids = draw.documents()
    return Setting(
        {"id": ids},
        mask=lambda b, h, q, k: (q >= k) & (ids[b, q] == ids[b, k]),
        per_batch=True,
    )


@entry
def fixed_summaries(draw):
    block, summary = draw.bounded(128), 8
    return Setting(
        {"block": block, "summary": summary},
        mask=lambda b, h, q, k: (
            (q >= k) & ((q // block == k // block) | (k % block >= block - summary))
        ),
    )


@entry
def forgetting(draw):
    """Forget gates with a median of 95 %, so that the cumulative sums reach some hundreds."""
    gates = draw.normal(draw.batch, draw.heads, draw.length) + 3.0
    gate = gates.sigmoid().log().cumsum(dim=2)
    return Setting({"gate": gate}, mask=keeps_causal, score=lambda s, b, h, q, k: s - gate[b, h, k])


@entry
def full(draw):
    return Setting()


@entry
def global_tokens(draw):
    window, tokens = draw.bounded(512), 1
    return Setting(
        {"window": window, "tokens": tokens},
        mask=lambda b, h, q, k: ((q - k).abs() <= window // 2) | (q < tokens) | (k < tokens),
    )


@entry
def graph_distance(draw):
    """Distances of up to 31; 31 stands for "no path"."""
    distance = draw.integers(0, 32, draw.batch, draw.queries, draw.length)
    table = draw.normal(draw.heads, 32)
    return Setting(
        {"distance": distance, "table": table},
        score=lambda s, b, h, q, k: s + table[h, distance[b, q, k]],
    )


@entry
def image_before(draw):
    """Images at random places of a text. The text is as long as all images have tokens together."""
    tokens = draw.bounded(64)
    image = draw.integers(0, draw.length // tokens + 1, draw.batch, draw.queries).sort().values
    return Setting(
        {"image": image, "tokens": tokens},
        mask=lambda b, h, q, k: k // tokens + 1 == image[b, q],
        per_batch=True,
    )


@entry
def images_in_text(draw):
    """Images of 256 tokens; before each there are up to 511 tokens of text."""
    tokens = draw.bounded(256)
    image = draw.integers(0, 1, draw.batch, draw.length)
    texts = draw.integers(0, 2 * tokens, draw.batch, draw.length // tokens + 1).tolist()
    for row, lengths in zip(image, texts):
        place = 0
        for number, length in enumerate(lengths, start=1):
            row[place + length : place + length + tokens] = number
            place += length + tokens
    return Setting(
        {"image": image},
        mask=lambda b, h, q, k: (q >= k) | ((image[b, q] != 0) & (image[b, q] == image[b, k])),
        per_batch=True,
    )


@entry
def key_padding(draw):
    """Padding at the end, up to half of a sequence."""
    length = draw.integers(draw.length // 2, draw.length + 1, draw.batch)
    ignored = draw.places() >= length[:, None]
    return Setting({"ignored": ignored}, mask=lambda b, h, q, k: ~ignored[b, k], per_batch=True)


@entry
def learned_bias(draw):
    bias = draw.tensor(draw.normal(draw.heads, draw.queries, draw.length), "bf16")
    return Setting({"bias": bias}, score=lambda s, b, h, q, k: s + bias[h, q, k])


@entry
def learned_sinks(draw):
    window = draw.bounded(128)
    logit = draw.tensor(draw.normal(draw.heads), "bf16")
    return Setting(
        {"logit": logit, "window": window},
        mask=lambda b, h, q, k: (q >= k) & (q - k < window),
        sink=logit.float(),
    )


@entry
def local_global(draw):
    """A layer with a local window."""
    window = draw.bounded(1024)
    return Setting(
        {"global": 0, "window": window}, mask=lambda b, h, q, k: (q >= k) & (q - k < window)
    )


@entry
def log_distance(draw):
    amount, rate = draw.normal(draw.heads).abs(), draw.normal(draw.heads).abs()
    return Setting(
        {"amount": amount, "rate": rate},
        mask=keeps_causal,
        score=lambda s, b, h, q, k: s - amount[h] * (1.0 + rate[h] * (q - k).abs()).log(),
    )


@entry
def merged_tokens(draw):
    """Each key stands for 1 to 4 merged tokens."""
    size = draw.integers(1, 5, draw.batch, draw.length).float()
    return Setting({"size": size}, score=lambda s, b, h, q, k: s + size[b, k].log())


@entry
def neighbourhood(draw):
    width, reach = draw.width(), 3
    height = -(-draw.length // width)

    def mask(b, h, q, k):
        row = (q // width).clamp(reach, height - 1 - reach)
        column = (q % width).clamp(reach, width - 1 - reach)
        return ((column - k % width).abs() <= reach) & ((row - k // width).abs() <= reach)

    return Setting({"height": height, "width": width, "reach": reach}, mask=mask)


@entry
def next_scale(draw):
    """Scales of 1, 4, 16, 64, … tokens. The last one may be cut off."""
    levels = [((3 * place + 1).bit_length() + 1) // 2 for place in range(draw.length)]
    level = draw.tensor(levels, "i32")
    return Setting({"level": level}, mask=lambda b, h, q, k: level[q] >= level[k])


@entry
def off_by_one(draw):
    return Setting(mask=keeps_causal, sink=draw.tensor([0.0] * draw.heads, "f32"))


@entry
def padded(draw):
    length = draw.integers(draw.length // 2, draw.length + 1, draw.batch)
    return Setting({"length": length}, mask=lambda b, h, q, k: k < length[b], per_batch=True)


@entry
def padded_causal(draw):
    start = draw.integers(0, draw.length // 2, draw.batch)
    return Setting(
        {"start": start}, mask=lambda b, h, q, k: (q >= k) & (k >= start[b]), per_batch=True
    )


@entry
def parallel_contexts(draw):
    """The task begins in the last quarter of the sequence."""
    width = draw.bounded(2048)
    task = draw.integers(3 * draw.length // 4, draw.length, draw.batch)
    return Setting(
        {"task": task, "width": width},
        mask=lambda b, h, q, k: (q >= k) & ((q // width == k // width) | (q >= task[b])),
        per_batch=True,
    )


@entry
def permutation(draw):
    order = draw.permutations(draw.batch, draw.length)
    return Setting(
        {"order": order}, mask=lambda b, h, q, k: order[b, q] >= order[b, k], per_batch=True
    )


@entry
def prefix_lm(draw):
    prefix = draw.integers(0, draw.length // 2, draw.batch)
    return Setting(
        {"prefix": prefix}, mask=lambda b, h, q, k: (k < prefix[b]) | (q >= k), per_batch=True
    )


@entry
def prefix_window(draw):
    prefix, window = draw.integers(0, draw.length // 4, draw.batch), draw.bounded(1024)
    return Setting(
        {"prefix": prefix, "window": window},
        mask=lambda b, h, q, k: (k < prefix[b]) | ((q >= k) & (q - k < window)),
        per_batch=True,
    )


@entry
def relative_bias(draw):
    reach = 16
    table = draw.normal(draw.heads, 2 * reach + 1)
    return Setting(
        {"table": table, "reach": reach},
        score=lambda s, b, h, q, k: s + table[h, (k - q).clamp(-reach, reach) + reach],
    )


@entry
def scalable_softmax(draw):
    """Factors near 0.43, which the paper reports as the learned value."""
    factor = 0.43 + 0.1 * draw.normal(draw.heads)
    return Setting(
        {"factor": factor},
        mask=keeps_causal,
        score=lambda s, b, h, q, k: s * factor[h] * (q + 1.0).log(),
    )


@entry
def sliding_window(draw):
    window = draw.bounded(1024)
    return Setting({"window": window}, mask=lambda b, h, q, k: (q >= k) & (q - k < window))


@entry
def softcap(draw):
    return Setting(
        {"cap": 50.0}, mask=keeps_causal, score=lambda s, b, h, q, k: 50.0 * (s / 50.0).tanh()
    )


@entry
def softcap_window(draw):
    window = draw.bounded(1024)
    return Setting(
        {"window": window, "cap": 50.0},
        mask=lambda b, h, q, k: (q >= k) & (q - k < window),
        score=lambda s, b, h, q, k: 50.0 * (s / 50.0).tanh(),
    )


@entry(queries=lambda keys: min(64, keys // 2))
def speculative_tree(draw):
    """64 guesses; the parent of each is an earlier guess."""
    ancestor = draw.torch.eye(draw.queries, dtype=draw.torch.bool, device=draw.device)
    for guess in range(1, draw.queries):
        ancestor[guess] |= ancestor[int(draw.integers(0, guess, 1))]
    cache = draw.length - draw.queries
    return Setting(
        {"ancestor": ancestor},
        # For keys of the cache the index is clamped, because it must stay inside the tensor.
        mask=lambda b, h, q, k: (k < cache) | ancestor[q, (k - cache).clamp(min=0)],
    )


@entry
def streaming(draw):
    sinks, window = 4, draw.bounded(1024)
    return Setting(
        {"sinks": sinks, "window": window},
        mask=lambda b, h, q, k: (q >= k) & ((k < sinks) | (q - k < window)),
    )


@entry
def strided(draw):
    stride = draw.bounded(128)
    return Setting(
        {"stride": stride},
        mask=lambda b, h, q, k: (q >= k) & ((q - k < stride) | ((q - k) % stride == 0)),
    )


@entry
def symmetric_window(draw):
    window = draw.bounded(128)
    return Setting({"window": window}, mask=lambda b, h, q, k: (q - k).abs() <= window // 2)


@entry
def t5_bias(draw):
    """The scale is 1/sqrt(D). T5 has no scale, but its weights make the queries that much
    smaller."""
    buckets, reach = 32, 128
    each, single = buckets // 2, buckets // 4
    table = draw.normal(draw.heads, buckets)
    denominator = math.log(reach / single)

    def score(s, b, h, q, k):
        # Follows `_relative_position_bucket` of Hugging Face's T5.
        distance = (k - q).abs()
        ratio = (distance.clamp(min=1) / single).log() / denominator
        # Distances of 16, 32 and 64 begin a bucket. The small term makes that hold for any rounding
        # of the logarithm; no other distance is so close below a whole number that the term changes
        # its bucket.
        far = (single + (ratio * (each - single) + 1e-3).int()).clamp(max=each - 1)
        near = distance < single
        return s + table[h, (k > q) * each + near * distance + ~near * far]

    return Setting({"table": table, "buckets": buckets, "reach": reach}, score=score)


@entry
def window_bias(draw):
    """One window, as large as the sequence."""
    side = math.isqrt(draw.length - 1) + 1
    table = draw.normal(draw.heads, (2 * side - 1) ** 2)

    def score(s, b, h, q, k):
        rows = q // side - k // side + side - 1
        columns = q % side - k % side + side - 1
        return s + table[h, rows * (2 * side - 1) + columns]

    return Setting({"table": table, "side": side}, score=score)


def text(name: str) -> str:
    with open(os.path.join(FOLDER, f"{name}.attn"), encoding="utf-8") as file:
        return file.read()


def variant(name: str) -> Variant:
    setting = ENTRIES[name].setting
    return Variant(
        name,
        text(name),
        kept=None,
        setting=lambda case, device, seed: setting(Draw(case, device, seed)),
        # Timing it would need one more compilation by PyTorch for each of many variants.
        time_block_mask=False,
    )


def library_case(
    name: str, batch: int, heads: int, length: int, head_dim: int, type_name: str
) -> Case:
    queries = ENTRIES[name].queries(length)
    few = queries if queries != length else None
    return Case(
        f"{LIBRARY} D {head_dim} {short(length)}", f"{name}, {few} queries" if few else name,
        variant(name), batch, heads, heads, length, head_dim, head_dim, type_name, few,
    )  # fmt: skip


def library_cases(
    type_name: str, lengths: Sequence[int] | None, chosen: Sequence[str] | None
) -> Cases:
    """`chosen`: names of variants; None means all."""
    for length in lengths or [8192]:
        for name in chosen or ENTRIES:
            yield library_case(name, 2, 16, length, 128, type_name)
