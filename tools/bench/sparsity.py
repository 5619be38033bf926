# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Masks that drop most of the pairs, at lengths where that pays, beside full attention.

import random

from cases import CAUSAL, FULL, Case, Cases, Variant, kept_causal, prefix, short, window

MEAN_DOCUMENT = 700


def packed(keys: int) -> list[int]:
    """The document of each position: random lengths from 1 to 1399, the same at each call."""
    numbers = random.Random(2)  # 47 documents in 32768 positions
    result: list[int] = []
    document = 0
    while len(result) < keys:
        result += [document] * numbers.randint(1, 2 * MEAN_DOCUMENT - 1)
        document += 1
    return result[:keys]


def document_lengths(keys: int) -> list[int]:
    documents = packed(keys)
    return [documents.count(document) for document in range(documents[-1] + 1)]


def documents(causal: bool) -> Variant:
    """Packed documents. All cases have as many queries as keys."""

    def mask(b, h, q, k, document):
        same = document[q] == document[k]
        return (q >= k) & same if causal else same

    def kept(queries: int, keys: int) -> int:
        lengths = document_lengths(keys)
        return sum(kept_causal(n, n) if causal else n * n for n in lengths)

    condition = "q >= k && document[q] == document[k]" if causal else "document[q] == document[k]"
    return Variant(
        "documents causal" if causal else "documents",
        f"attention documents(document: i32[Sk]) {{ mask = {condition} }}",
        kept,
        mask=mask,
        capture="document",
        values=lambda heads, keys, normal: normal(keys).new_tensor(packed(keys)).int(),
    )


def neighbourhood(width: int, reach: int) -> Variant:
    """A picture's pixels, row by row. A pixel sees the rows and columns at a distance of at most
    `reach` (Hassani et al., "Neighborhood Attention Transformer", arXiv:2204.07143; here windows
    are cut off at the edges)."""

    def near(place: int, places: int) -> int:
        return min(place + reach, places - 1) - max(place - reach, 0) + 1

    def kept(queries: int, keys: int) -> int:
        """The number of kept pairs, for whole rows and as many queries as keys."""
        rows = sum(near(row, keys // width) for row in range(queries // width))
        return rows * sum(near(column, width) for column in range(width))

    return Variant(
        f"neighbourhood {2 * reach + 1}",
        f"attention neighbourhood(width: i32 = {width}, reach: i32 = {reach}) {{ mask = "
        "abs(q / width - k / width) <= reach && abs(q % width - k % width) <= reach }",
        kept,
        mask=lambda b, h, q, k, none: (abs(q // width - k // width) <= reach)
        & (abs(q % width - k % width) <= reach),
    )


# The product stays in i32 at every distance. (q - k) * (q - k) would wrap from 46341 on and keep
# pairs again.
TWO_FORMS = window(
    256,
    classified="attention window_squared(window: i32 = 256) "
    "{ mask = q >= k && min(q - k, window) * min(q - k, window) < window * window }",
)


def sparsity_cases(type_name: str, length: int = 32768) -> Cases:
    for variant in (
        FULL,
        CAUSAL,
        window(1024),
        prefix(length // 4),
        neighbourhood(256, 8),
        documents(causal=False),
        documents(causal=True),
    ):
        yield Case(
            f"sparsity D 128 {short(length)}", variant.name, variant, 1, 16, 16, length,
            128, 128, type_name,
        )  # fmt: skip


def form_cases(type_name: str, length: int = 262144) -> Cases:
    yield Case(
        f"forms D 128 {short(length)}", TWO_FORMS.name, TWO_FORMS, 1, 2, 2, length, 128, 128,
        type_name,
    )  # fmt: skip
