# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of sequences that begin with the same keys, which are read once for all of them."""

from __future__ import annotations

from typing import Any

from tesela._arguments import axes, bound
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._serving import Call, TokenLayout, framework_of


def query_rows(starts_q: Any, lengths: Any, tokens: int) -> tuple[Any, Any, Any]:
    """The rows' positions that :func:`attention_cascade` needs, for each token of q.

    They are the same for all layers of a model: compute them once for each step. Nothing is copied
    to the host.

    Args:
        starts_q: int32 ``[B + 1]``, where each sequence's queries begin and end.
        lengths: int32 ``[B]``, the number of keys of each sequence, including the prefix and its
            queries' own keys.
        tokens: the number of rows of q. For a token that belongs to no sequence the results mean
            nothing.

    Returns:
        Three int32 ``[tokens]``: the token's position among the keys of its sequence, the number of
        the sequence, and the sequence's number of keys.
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
    """Attention over pages for sequences that begin with the same keys, such as a system prompt.

    The result is that of :func:`tesela.attention_paged` for the same table and lengths. The keys
    and values of the prefix are read once for all queries of the batch. This is faster if the
    prefix is long and there are many sequences. A variant sees true positions in both parts, and a
    sink counts once. All lengths are on the device, so a CUDA graph of the call also serves other
    lengths.

    Args:
        q: queries, ``[tokens, H, Dqk]``, or ``[H, tokens, Dqk]`` with ``layout="bhsd"``.
        k: pages of keys, as for :func:`tesela.attention_paged`.
        v: pages of values, likewise.
        variant: as for :func:`tesela.attention_paged`. It may not read the extent B.
        prefix_table: int32 ``[most pages of the prefix]``, on q's device.
        prefix_length: int32 ``[1]``: how many first keys all sequences share. Rows after them in
            the last page may belong to another sequence.
        table: int32 ``[B, most pages of a sequence]``, including the pages of the prefix: key i of
            a sequence is in page ``i // page`` of its row. If the prefix ends within a tile, its
            last pages are read through this table too.
        lengths: int32 ``[B]``: the number of keys of each sequence, including those of the prefix
            and of its queries. If a sequence has queries, this is at least ``prefix_length``.
        starts_q: int32 ``[B + 1]``: the first row of each sequence's queries, and the end of the
            last.
        max_queries: an upper bound for the queries of a sequence.
        max_keys: an upper bound for the keys of a sequence; None: the keys that a row of the table
            can hold.
        rows: the result of :func:`query_rows`; None: computed by this call.
        scale: this and the following arguments are those of :func:`tesela.attention_paged`.
        return_lse: also return the logarithms, ``[H, tokens]``.
        layout: see scale.
        out: see scale.
        split: see scale.
        k_scale: see scale.
        v_scale: see scale.
        parameters: see scale.

    Returns:
        The result, ``[tokens, H, Dv]``; with ``return_lse`` a pair. Rows of tokens that belong to
        no sequence are not written.

    Raises:
        InvalidArgumentError: a shape, stride, type or bound is not accepted. The message says
            which.
        UnsupportedError: there are no kernels for the device or the type, or v is None.
    """
    if v is None:
        raise UnsupportedError(
            "v is None, and a shared prefix has no latent form: pass the first columns of k as v, "
            "or use tesela.attention_paged with value_dim"
        )
    call = Call(attention_cascade, layout, "end")
    q_shape = axes("q", q, 3, call.order("tokens"))
    tokens = q_shape[0 if call.is_bshd else 1]
    call.add_pages(k, v, table, lengths)
    call.add_starts(starts_q)
    axes("prefix_table", prefix_table, 1, "[most pages of the prefix]")
    axes("prefix_length", prefix_length, 1, "[1]")
    if rows is None:
        rows = query_rows(starts_q, lengths, tokens)
    if not isinstance(rows, list | tuple) or len(rows) != 3:
        said = f"{len(rows)} tensors" if isinstance(rows, list | tuple) else f"a {type(rows)}"
        raise InvalidArgumentError(
            f"rows is {said}, it must be a tuple of three: compute it with "
            "tesela.query_rows(starts_q, lengths, tokens)"
        )
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
    most_keys = call.most_keys if max_keys is None else bound("max_keys", max_keys)
    return call.launch(
        *(q, k, v, variant, scale, return_lse, out, split, most_queries, most_keys, parameters)
    )
