# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What is timed: variants, and the shapes at which they are timed.
#
# A variant is Tesela's text, and the same mask and score as Python functions. The functions are
# called by the reference, on whole blocks of indices, and by FlexAttention as score_mod and
# mask_mod, on single indices. So they only use operators and tensor methods.

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A variant with its data: parameters of Tesela's text, and functions for FlexAttention."""

    parameters: dict[str, Any] = field(default_factory=dict)  # name -> number or captured tensor
    mask: Callable | None = None  # (b, h, q, k) -> bool
    score: Callable | None = None  # (s, b, h, q, k) -> score
    sink: Any = None  # a tensor with the sink of each head
    per_batch: bool = False  # whether the mask reads b
    per_head: bool = False  # whether the mask reads h

    def numbers(self) -> dict[str, float]:
        return {
            name: value
            for name, value in self.parameters.items()
            if isinstance(value, (int, float))
        }


@dataclass(frozen=True)
class Variant:
    name: str
    text: str
    # (queries, keys) -> how many pairs the mask keeps; None: the pairs are counted one by one
    kept: Callable[[int, int], int] | None
    plain: str | None = None  # "full" or "causal" if the vendors' kernels have this mask
    window: int | None = None  # the width if the mask is a causal window and nothing else
    mask: Callable | None = None  # (b, h, q, k, captured tensor) -> bool
    score: Callable | None = None  # (s, b, h, q, k, captured tensor) -> score
    capture: str | None = None  # the captured tensor's name; it holds f32 or i32
    # (heads, keys, function from extents to a tensor of normal random numbers) -> captured tensor
    values: Callable | None = None
    # The same mask in a text that gives no closed key ranges, so that each tile is classified.
    classified: str | None = None
    # (case, device, seed) -> a Setting; replaces `mask`, `score`, `capture` and `values`
    setting: Callable | None = None
    time_block_mask: bool = True  # whether to time FlexAttention's compiled block mask


def kept_causal(queries: int, keys: int) -> int:
    return sum(min(q + 1, keys) for q in range(queries))


def kept_full(queries: int, keys: int) -> int:
    return queries * keys


def causal(b, h, q, k, none):
    return q >= k


def window(width: int, classified: str | None = None) -> Variant:
    """A causal mask that keeps only the last `width` keys."""
    return Variant(
        f"window {width}",
        f"attention window(window: i32 = {width}) {{ mask = q >= k && q - k < window }}",
        lambda queries, keys: sum(
            max(0, min(q + 1, keys) - max(0, q - width + 1)) for q in range(queries)
        ),
        window=width,
        mask=lambda b, h, q, k, none: (q >= k) & (q - k < width),
        classified=classified,
    )


def prefix(length: int) -> Variant:
    """All queries see the first `length` keys; the other keys are causal."""
    return Variant(
        f"prefix {length}",
        f"attention prefix(prefix: i32 = {length}) {{ mask = k < prefix || q >= k }}",
        lambda queries, keys: sum(min(max(q + 1, length), keys) for q in range(queries)),
        mask=lambda b, h, q, k, none: (k < length) | (q >= k),
    )


def alibi_slopes(heads: int, keys: int, normal: Callable) -> Any:
    """The slopes of the ALiBi paper (arXiv:2108.12409); the number of heads must be a power of
    two."""
    return normal(heads).new_tensor([2.0 ** (-8 * (head + 1) / heads) for head in range(heads)])


def documents(keys: int) -> list[int]:
    """The document of each position. The lengths vary, and most documents end inside a tile."""
    result: list[int] = []
    for document, length in enumerate(cycle((1000, 300, 760, 500))):
        result += [document] * length
        if len(result) >= keys:
            break
    return result[:keys]


def kept_documents(queries: int, keys: int) -> int:
    """The number of kept pairs. All cases have as many queries as keys."""
    counts: dict[int, int] = {}
    for document in documents(keys):
        counts[document] = counts.get(document, 0) + 1
    return sum(kept_causal(count, count) for count in counts.values())


FULL = Variant("full", "attention full() { mask = true }", kept_full, plain="full")
CAUSAL = Variant(
    "causal", "attention causal() { mask = q >= k }", kept_causal, plain="causal", mask=causal
)
VARIANTS = (
    FULL,
    CAUSAL,
    window(1024),
    Variant(
        "alibi causal",
        "attention alibi(slope: f32[H]) { mask = q >= k; score = s + slope[h] * (k - q) }",
        kept_causal,
        mask=causal,
        score=lambda s, b, h, q, k, slope: s + slope[h] * (k - q),
        capture="slope",
        values=alibi_slopes,
    ),
    Variant(
        "softcap",
        "attention softcap(cap: f32 = 50.0) { score = cap * tanh(s / cap) }",
        kept_full,
        score=lambda s, b, h, q, k, none: (s / 50.0).tanh() * 50.0,
    ),
    Variant(
        "softcap causal",
        "attention softcap_causal(cap: f32 = 50.0) { mask = q >= k; score = cap * tanh(s / cap) }",
        kept_causal,
        mask=causal,
        score=lambda s, b, h, q, k, none: (s / 50.0).tanh() * 50.0,
    ),
    prefix(2048),
    Variant(
        "relative bias",
        "attention relative_bias(table: f32[H, 2*Sk]) { score = s + table[h, q - k + Sk] }",
        kept_full,
        score=lambda s, b, h, q, k, table: s + table[h, q - k + table.shape[1] // 2],
        capture="table",
        values=lambda heads, keys, normal: normal(heads, 2 * keys),
    ),
    Variant(
        "documents causal",
        "attention documents(document: i32[Sk]) " "{ mask = q >= k && document[q] == document[k] }",
        kept_documents,
        mask=lambda b, h, q, k, document: (q >= k) & (document[q] == document[k]),
        capture="document",
        values=lambda heads, keys, normal: normal(keys).new_tensor(documents(keys)).int(),
    ),
)


@dataclass(frozen=True)
class Case:
    group: str  # cases of a group share a table, a geometric mean and a panel of the chart
    label: str  # unique within the group
    variant: Variant
    batch: int
    heads: int
    kv_heads: int
    length: int  # the number of keys
    head_dim_qk: int
    head_dim_v: int
    type_name: str
    few_queries: int | None = None  # None: as many queries as keys

    @property
    def queries(self) -> int:
        return self.few_queries or self.length

    @property
    def pairs(self) -> float:
        """The pairs (query, key) that FLOPs are counted for. A plain causal mask counts half of
        all pairs, as the literature does. Other masks count exactly the pairs that they keep."""
        half = self.variant is CAUSAL and self.queries == self.length
        kept = (
            self.length * self.length / 2 if half else self.variant.kept(self.queries, self.length)
        )
        return self.batch * self.heads * kept

    @property
    def flops(self) -> float:
        return self.flops_of(self.pairs)

    def setting(self, device: str, seed: int, normal: Callable) -> Setting:
        """`normal`: a function from extents to a tensor of normal random numbers."""
        variant = self.variant
        if variant.setting:
            return variant.setting(self, device, seed)
        captured = variant.values(self.heads, self.length, normal) if variant.capture else None
        mask, score = variant.mask, variant.score
        return Setting(
            {variant.capture: captured} if variant.capture else {},
            mask and (lambda b, h, q, k: mask(b, h, q, k, captured)),
            score and (lambda s, b, h, q, k: score(s, b, h, q, k, captured)),
        )

    def flops_of(self, pairs: float) -> float:
        """Two products: 2 D_qk + 2 D_v operations for each pair."""
        return 2 * (self.head_dim_qk + self.head_dim_v) * pairs

    def backward_flops_of(self, pairs: float) -> float:
        """Five products: Q K^T, dO V^T, dV, dQ and dK. If D_qk and D_v are equal, these are 2.5
        times the operations of the forward pass."""
        return (6 * self.head_dim_qk + 4 * self.head_dim_v) * pairs

    @property
    def input_bytes(self) -> int:
        q = self.queries * self.heads * self.head_dim_qk
        kv = self.length * self.kv_heads * (self.head_dim_qk + self.head_dim_v)
        return 2 * self.batch * (q + kv)

    def copies(self, cache_bytes: int) -> int:
        """How many sets of inputs must take turns, so that a cache of that size holds none of
        them at its next use."""
        if self.input_bytes >= 2 * cache_bytes:
            return 1
        return min(8, -(-2 * cache_bytes // self.input_bytes) + 1)

    def checked_heads(self, scores: int = 2**33, key_heads: bool = False) -> list[tuple[int, int]]:
        """(batch, head) of the heads whose rows the reference computes. If all heads together
        have at most `scores` scores, these are all heads; else the first, the last and some
        evenly between. With `key_heads` they are key heads; each counts the scores of all its
        query heads."""
        heads = self.kv_heads if key_heads else self.heads
        total = self.batch * heads
        count = min(total, max(2, scores * heads // (self.heads * self.queries * self.length)))
        picked = [i * (total - 1) // max(1, count - 1) for i in range(count)]
        return [divmod(i, heads) for i in picked]

    def describe(self) -> dict[str, str | int]:
        classified = self.variant.classified
        return {
            "variant": self.variant.name,
            "text": self.variant.text,
            **({"classified": classified} if classified else {}),
            "batch": self.batch,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "queries": self.queries,
            "length": self.length,
            "head_dim_qk": self.head_dim_qk,
            "head_dim_v": self.head_dim_v,
            "dtype": self.type_name,
        }


Cases = Iterator[Case]
POSITIONS = 16384  # batch times length of the FlashAttention-3 paper's shapes


def short(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else str(length)


def batch_of(length: int) -> int:
    return max(1, POSITIONS // length)


def peer_cases(
    dims: Sequence[tuple[int, int]], lengths: Sequence[int] | None, causal: str, type_name: str
) -> Cases:
    """The FlashAttention-3 paper's shapes: batch x length = 16384, heads x D_v = 2048. `causal`:
    "no", "yes" or "both"."""
    chosen = {"no": [FULL], "yes": [CAUSAL], "both": [FULL, CAUSAL]}[causal]
    for qk, v in dims:
        # Different head dimensions are those of multi-head latent attention (DeepSeek-V2,
        # arXiv:2405.04434). Its prefill is causal.
        for variant in [CAUSAL] if qk != v and causal == "both" else chosen:
            for length in lengths or [512, 1024, 2048, 4096, 8192, 16384]:
                name = f"D {qk}" if qk == v else f"D {qk}/{v}"
                heads = max(1, 2048 // v)
                yield Case(
                    f"{name} {variant.name}", short(length), variant, batch_of(length),
                    heads, heads, length, qk, v, type_name,
                )  # fmt: skip


def gqa_cases(lengths: Sequence[int] | None, type_name: str) -> Cases:
    for length in lengths or [2048, 4096, 8192, 16384, 32768, 65536]:
        yield Case(
            "GQA 64/8 D 128 causal", short(length), CAUSAL, batch_of(length), 64, 8, length,
            128, 128, type_name,
        )  # fmt: skip


def shared_cases(lengths: Sequence[int] | None, type_name: str) -> Cases:
    """One sequence, and few key heads for many query heads, as on a rank of tensor parallelism.
    Its gradients have few blocks of keys for a GPU's multiprocessors."""
    for heads, kv_heads, dim in ((8, 1, 128), (8, 1, 256), (16, 4, 64), (32, 8, 128)):
        for length in lengths or [2048, 4096, 8192, 16384]:
            yield Case(
                f"shared {heads}/{kv_heads} D {dim} causal", short(length), CAUSAL, 1, heads,
                kv_heads, length, dim, dim, type_name,
            )  # fmt: skip


def decode_cases(lengths: Sequence[int] | None, type_name: str) -> Cases:
    """A step of decoding: one query, or four queries for tokens that a draft model guessed."""
    for queries in (1, 4):
        for length in lengths or [8192]:
            yield Case(
                "decode GQA 64/8 D 128", f"{queries} of {short(length)}", FULL, 64, 64, 8, length,
                128, 128, type_name, few_queries=queries,
            )  # fmt: skip


def variant_cases(type_name: str, length: int = 8192) -> Cases:
    for variant in VARIANTS:
        yield Case(
            "variants D 128 8k", variant.name, variant, 2, 16, 16, length, 128, 128, type_name
        )
