# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of sequences that begin with the same keys, which are read once for all of them."""

from __future__ import annotations

from typing import Any

from tesela._errors import InvalidArgumentError
from tesela._serving import Call, TokenLayout, axes, bound, framework_of


def query_rows(starts_q: Any, lengths: Any, tokens: int) -> tuple[Any, Any, Any]:
    """What :func:`attention_cascade` asks of each token of a query.

    It is the same for all layers of a model: compute it once a step. Nothing is copied to the host.

    Args:
        starts_q: int32 ``[B + 1]``, where each sequence's queries begin and end.
        lengths: int32 ``[B]``, the keys of each sequence, the prefix and its queries' own included.
        tokens: rows of q. For those that no sequence has the numbers mean nothing.

    Returns:
        Three int32 ``[tokens]``: each token's position among its sequence's keys, the number of the
        sequence, and how many keys that has.
    """
    return tuple(framework_of(starts_q, "starts_q").query_rows(starts_q, lengths, tokens))


def attention_cascade(
    q: Any,
    k: Any,
    v: Any,
    variant: Any = "causal",
    *,
    prefix_table: Any,
    prefix_length: Any,
    table: Any,
    lengths: Any,
    starts_q: Any,
    max_queries: int,
    max_keys: int | None = None,
    rows: tuple[Any, Any, Any] | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    layout: TokenLayout = "bshd",
    out: Any = None,
    split: bool | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    **parameters: Any,
) -> Any:
    """Attention over pages where all sequences begin with the same keys: a prompt of a system.

    What :func:`tesela.attention_paged` gives for the same table and lengths; the keys and values of
    the prefix are read once for all queries of the batch, as those of one sequence. It pays where
    the prefix is long and sequences are many. A variant sees true positions in both parts, and a
    sink counts once. All numbers lie on the device, and a CUDA graph of the call serves others.

    Args:
        q: queries, ``[tokens, H, Dqk]``, or ``[H, tokens, Dqk]`` with ``layout="bhsd"``.
        k: pages of keys, as for :func:`tesela.attention_paged`.
        v: pages of values, likewise.
        variant: as there. It may not read the extent B.
        prefix_table: int32 ``[most pages of the prefix]``, on q's device.
        prefix_length: int32 ``[1]``: how many keys all sequences begin with. What lies behind them
            in the last page may be another sequence's.
        table: int32 ``[B, most pages of a sequence]``, the pages of the prefix included: key i of a
            sequence lies in page ``i // page`` of its row. Where the prefix ends within a tile, its
            last pages are read by this table, too.
        lengths: int32 ``[B]``: the keys of each sequence, those of the prefix and of its queries
            included. One of a sequence with queries is no smaller than ``prefix_length``.
        starts_q: int32 ``[B + 1]``: where each sequence's queries begin and end.
        max_queries: the most queries that a sequence has, or more.
        max_keys: the most keys of a sequence, or more; None: as many as the table has pages for.
        rows: of :func:`query_rows`; None: computed here.
        scale: as for :func:`tesela.attention_paged`, and so is the rest.
        return_lse: also give the logarithms, ``[H, tokens]``.
        layout: see scale.
        out: see scale.
        split: see scale.
        k_scale: see scale.
        v_scale: see scale.
        parameters: see scale.

    Returns:
        The result, ``[tokens, H, Dv]``; with ``return_lse`` a pair. Tokens that no sequence has are
        not written.

    Raises:
        InvalidArgumentError: a shape, stride, type or bound does not fit; the sentence says which.
        UnsupportedError: there are no kernels for the device or the type.
    """
    call = Call(layout, "end")
    q_shape = axes("q", q, 3, "[tokens, heads, head dimension]")
    tokens = q_shape[0 if call.is_bshd else 1]
    call.add_pages(k, v, table, lengths)
    call.add_starts(starts_q)
    axes("prefix_table", prefix_table, 1, "[most pages of the prefix]")
    axes("prefix_length", prefix_length, 1, "[1]")
    if rows is None:
        rows = query_rows(starts_q, lengths, tokens)
    for each in rows:
        (count,) = axes("each of rows", each, 1, "[tokens]")
        if count != tokens:
            raise InvalidArgumentError(
                f"rows have {count} tokens, q has {tokens}: compute rows with "
                "tesela.query_rows(starts_q, lengths, tokens)"
            )
    call.add_scales(q, (k, v), (k_scale, v_scale))
    call.bindings.append("prefix=shared")
    names = ("query_positions", "query_sequences", "query_keys")
    call.captures = (
        ("prefix_table", prefix_table.reshape((1, -1))),
        ("prefix_length", prefix_length),
        *zip(names, rows, strict=True),
    )
    most_queries = bound("max_queries", max_queries)
    most_keys = call.most_keys if max_keys is None else int(max_keys)
    return call.launch(
        *(q, k, v, variant, scale, return_lse, out, split, most_queries, most_keys, parameters)
    )
