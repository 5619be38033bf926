# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: N803 - arguments have FlexAttention's names
"""FlexAttention's interface on Tesela: a program only changes its import.

    from tesela.flex import create_block_mask, flex_attention

    block_mask = create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    out = flex_attention(query, key, value, score_mod, block_mask)

Differences from PyTorch's functions:

- A :class:`BlockMask` holds its function and the lengths, and nothing of their size. The kernel
  finds the blocks itself, so ``create_block_mask`` takes microseconds, at any length.
- Functions may use ``and``, ``or``, ``not`` and ``if``.
- An index below 0 or after the end of a captured tensor reads its first or last element.
- Scores are computed in float32 for any type of the query, also after ``.to(torch.float16)``.
"""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from tesela._attention import attention
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._trace import plan_flex, trace_flex, values
from tesela._variant import Variant, _program_of, as_variant

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Mod = Callable[..., Any]

_BLOCK = 128  # FlexAttention's default


class AuxRequest(NamedTuple):
    """The additional results that `flex_attention` should return.

    Attributes:
        lse: the natural logarithm of each row's sum of exponentials.
        max_scores: the largest score of each row. Tesela does not support it.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The additional results that were asked for by :class:`AuxRequest`; the others are None.

    Attributes:
        lse: ``[B, H, Q_LEN]``, float32; -inf for a row without keys.
        max_scores: always None.
    """

    lse: Any = None
    max_scores: Any = None


# Masks


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that keeps every pair."""
    return batch == batch


def and_masks(*mask_mods: Mod) -> Mod:
    """The mask of the pairs that all of `mask_mods` keep."""
    _check_callable(mask_mods)

    def and_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = noop_mask(b, h, q_idx, kv_idx)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: Mod) -> Mod:
    """The mask of the pairs that any of `mask_mods` keeps."""
    _check_callable(mask_mods)

    def or_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b != b
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _check_callable(mask_mods: tuple[Mod, ...]) -> None:
    for mask in mask_mods:
        if not callable(mask):
            raise InvalidArgumentError(
                f"a mask is a function of (b, h, q_idx, kv_idx), not {mask!r}"
            )


def _sliced(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> NoReturn:
    """The mask of a sliced BlockMask: it raises an error."""
    raise InvalidArgumentError(
        "a BlockMask that was sliced has no mask_mod, since its queries are counted from 0 again; "
        "set sliced.mask_mod to the original's, with the offset added to q_idx"
    )


_TENSORS = frozenset(
    f"{full}{axis}_{what}"
    for full in ("", "full_")
    for axis in ("kv", "q")
    for what in ("num_blocks", "indices")
)


class BlockMask:
    """A mask for given lengths. It holds the function, and allocates nothing of their size.

    Made by :func:`create_block_mask`, or from lists of blocks by :meth:`from_kv_blocks`.

    Attributes:
        mask_mod: the function. It may be replaced.
        seq_lengths: (Q_LEN, KV_LEN).
        BLOCK_SIZE: the numbers of queries and keys of a block, for :meth:`sparsity` and indexing. A
            kernel uses its own tiles.
    """

    def __init__(
        self,
        mask_mod: Mod | None,
        batch: int,
        heads: int,
        seq_lengths: tuple[int, int],
        BLOCK_SIZE: tuple[int, int] = (_BLOCK, _BLOCK),
    ) -> None:
        self.mask_mod: Mod = noop_mask if mask_mod is None else mask_mod
        self.seq_lengths = seq_lengths
        self.BLOCK_SIZE = BLOCK_SIZE
        self._batch = batch
        self._heads = heads

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **unused: Any,
    ) -> BlockMask:
        """Makes a mask from lists of blocks, like PyTorch's ``BlockMask.from_kv_blocks``.

        Args:
            kv_num_blocks: the number of partial blocks of each row, ``[B, H, rows]``.
            kv_indices: the partial blocks, ``[B, H, rows, columns]``, int32. `mask_mod` decides in
                them.
            full_kv_num_blocks: the number of full blocks, whose pairs are all kept, or None.
            full_kv_indices: the full blocks, or None.
            BLOCK_SIZE: the numbers of queries and keys of a block.
            mask_mod: the mask in partial blocks; None keeps all pairs.
            seq_lengths: (Q_LEN, KV_LEN); None: the length of all blocks.
            compute_q_blocks: has no effect.
            unused: has no effect; PyTorch's options of its backward pass.
        """
        size = _pair(BLOCK_SIZE)
        batch, heads, rows, columns = kv_indices.shape
        partial = _dense(kv_num_blocks, kv_indices)
        full = None if full_kv_indices is None else _dense(full_kv_num_blocks, full_kv_indices)
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        mask = _of_blocks(partial, full, size, mask_mod)
        return cls(mask, batch, heads, lengths, size)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q_LEN, KV_LEN)."""
        return (self._batch, self._heads, *self.seq_lengths)

    @property
    def variant(self) -> Variant:
        """The mask as a variant, bound to the present values of what the function captures.

        ``variant.text`` is its text; ``variant.explain(length=8192)`` shows its tiles.
        """
        return _variant_of(self.mask_mod, None)

    def numel(self) -> int:
        """The number of pairs."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of blocks of ``BLOCK_SIZE`` without a kept pair, in percent.

        The function is evaluated for all pairs, one row of blocks after another.
        """
        rows, columns = (
            -(-n // size) for n, size in zip(self.seq_lengths, self.BLOCK_SIZE, strict=True)
        )
        computed = sum(int(self._row_of_blocks(row).sum()) for row in range(rows))
        blocks = self._batch * self._heads * rows * columns
        return 100.0 * (1 - computed / blocks) if blocks else 0.0

    def _row_of_blocks(self, row: int) -> Any:
        """Which blocks of a row have a kept pair, [B, H, columns]."""
        import torch

        size_q, size_k = self.BLOCK_SIZE
        keys = self.seq_lengths[1]
        queries = range(row * size_q, min((row + 1) * size_q, self.seq_lengths[0]))
        kept = _pairs(self.mask_mod, self._batch, self._heads, queries, keys, "cpu")
        kept = torch.nn.functional.pad(kept.any(-2), (0, -keys % size_k))
        return kept.view(*kept.shape[:-1], -1, size_k).any(-1)

    def to_dense(self) -> Any:
        """Which blocks have a kept pair, ``[B, H, rows, columns]``, a tensor of bools."""
        import torch

        rows = -(-self.seq_lengths[0] // self.BLOCK_SIZE[0])
        return torch.stack([self._row_of_blocks(row) for row in range(rows)], -2)

    def to(self, device: Any) -> BlockMask:
        """Returns the mask itself: it has no tensors. What its function captures is not moved."""
        return self

    def __getitem__(self, index: Any) -> BlockMask:
        """Selects batches, heads and rows of blocks. The result needs a new ``mask_mod``."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > 3:
            raise IndexError("a BlockMask is indexed by batch, head and row of blocks")
        queries, keys = self.seq_lengths
        size = self.BLOCK_SIZE[0]
        rows = -(-queries // size)
        counts = [self._batch, self._heads, rows]
        chosen = [range(n) for n in counts]
        for axis, each in enumerate(index):
            chosen[axis] = _selected(each, counts[axis])
        length = sum(min((row + 1) * size, queries) - row * size for row in chosen[2])
        return BlockMask(_sliced, len(chosen[0]), len(chosen[1]), (length, keys), self.BLOCK_SIZE)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """A mask with the same function for other lengths."""
        return BlockMask(
            self.mask_mod, self._batch, self._heads, (new_q_len, new_kv_len), self.BLOCK_SIZE
        )

    def as_tuple(self, flatten: bool = True) -> NoReturn:
        """Raises UnsupportedError: the mask has no tensors."""
        raise UnsupportedError(_no_tensors("as_tuple()"))

    def __getattr__(self, name: str) -> NoReturn:
        if name in _TENSORS:
            raise AttributeError(_no_tensors(name))
        raise AttributeError(f"a BlockMask has no attribute '{name}'")

    def __repr__(self) -> str:
        name = getattr(self.mask_mod, "__name__", repr(self.mask_mod))
        return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE}, mask_mod={name})"


def _no_tensors(name: str) -> str:
    return (
        f"Tesela's BlockMask has no {name}: it holds a function, and a kernel finds the blocks; "
        "to_dense() computes which blocks are kept"
    )


def _selected(index: Any, count: int) -> Any:
    if isinstance(index, int):
        if not -count <= index < count:
            raise IndexError(
                f"the index {index} is out of range for an axis of a BlockMask with {count} entries"
            )
        return range(count)[index : index + 1 or None]
    if isinstance(index, slice):
        return range(count)[index]
    return (
        [int(i) % count for i in index.nonzero().flatten()]
        if (str(index.dtype).endswith("bool"))
        else [int(i) % count for i in index.flatten()]
    )


def _dense(count: Any, indices: Any) -> Any:
    """Lists of blocks as a table of bools, [B, H, rows, columns]."""
    import torch

    columns = indices.shape[-1]
    valid = torch.arange(columns, device=indices.device) < count[..., None]
    table = torch.zeros((*count.shape, columns + 1), dtype=torch.bool, device=indices.device)
    table.scatter_(-1, torch.where(valid, indices.long(), columns), True)
    return table[..., :columns].contiguous()


def _of_blocks(partial: Any, full: Any, size: tuple[int, int], mask_mod: Mod | None) -> Mod:
    one_batch, one_head = partial.shape[0] == 1, partial.shape[1] == 1
    q_size, k_size = size

    def blocks(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        batch = 0 if one_batch else b
        head = 0 if one_head else h
        row, column = q_idx // q_size, kv_idx // k_size
        kept = partial[batch, head, row, column]
        if mask_mod is not None:
            kept = kept & mask_mod(b, h, q_idx, kv_idx)
        return kept if full is None else full[batch, head, row, column] | kept

    return blocks


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _pairs(mod: Mod, batch: int, heads: int, queries: range, keys: int, device: Any) -> Any:
    """The mask of all pairs, [batch, heads, queries, keys], by PyTorch's vmap."""
    import torch
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    places = [torch.arange(n, device=device) for n in (batch, heads)]
    places.append(torch.arange(queries.start, queries.stop, device=device))
    places.append(torch.arange(keys, device=device))
    function = mod
    for axis in (3, 2, 1, 0):
        axes = tuple(0 if i == axis else None for i in range(4))
        function = torch.vmap(function, in_dims=axes)
    with TransformGetItemToIndex():
        kept = function(*places)
    return kept.expand(batch, heads, len(queries), keys)


def create_mask(
    mod_fn: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Any:
    """A mask as a tensor of bools, ``[B, H, Q_LEN, KV_LEN]``, for inspection and tests.

    Args:
        mod_fn: a mask, ``(b, h, q_idx, kv_idx)``, or a score, ``(score, b, h, q_idx, kv_idx)``,
            which drops a pair if it turns the score 0 into -inf.
        B: the batch size; None: 1.
        H: the number of query heads; None: 1.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: the device of the tensor; None: a GPU if there is one.
    """
    import torch

    if _positional(mod_fn) == 5:
        score = mod_fn

        def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
            zero = torch.zeros((), device=b.device)
            return ~torch.isneginf(score(zero, b, h, q_idx, kv_idx))

        mod_fn = mask
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    return _pairs(mod_fn, B or 1, H or 1, range(Q_LEN), KV_LEN, device).clone()


def _positional(function: Mod) -> int:
    """The number of arguments without a default of a function."""
    if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
        return function.__code__.co_argcount - len(function.__defaults__ or ())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(1 for p in parameters if p.default is p.empty and p.kind in kinds)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Makes a mask for given lengths. It computes nothing, and allocates nothing of their size.

    Args:
        mask_mod: a function of ``(b, h, q_idx, kv_idx)`` that is true where a pair is kept.
        B: the batch size; None: 1, which fits any batch size.
        H: the number of query heads; None: 1, which fits any number.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: has no effect: there are no tensors.
        BLOCK_SIZE: the unit of ``BlockMask.sparsity`` and of indexing.
        _compile: has no effect, like the remaining arguments, which are for PyTorch's kernels.
        separate_full_blocks: has no effect.
        compute_dq_write_order: has no effect.
        dq_kv_order: has no effect.

    Raises:
        InvalidArgumentError: `mask_mod` is not a function of four arguments.
    """
    if not callable(mask_mod) or _positional(mask_mod) != 4:
        raise InvalidArgumentError(
            f"mask_mod is {mask_mod!r}; it must be a function of (b, h, q_idx, kv_idx)"
        )
    batch = 1 if B is None else B
    heads = 1 if H is None else H
    return BlockMask(mask_mod, batch, heads, (Q_LEN, KV_LEN), _pair(BLOCK_SIZE))


# Attention


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Computes attention with a score function and a mask.

    Args:
        query: ``[B, Hq, L, E]``, float16 or bfloat16, or on the host also float32.
        key: ``[B, Hkv, S, E]``, or with a batch of 1.
        value: ``[B, Hkv, S, Ev]``, or with a batch of 1. E and Ev are multiples of 8 up to 256.
        score_mod: a function of ``(score, b, h, q_idx, kv_idx)``; None: the score does not change.
        block_mask: the result of :func:`create_block_mask` for L queries and S keys; None keeps all
            pairs.
        scale: the factor of the products of queries and keys; None: ``1 / sqrt(E)``.
        enable_gqa: whether Hq may be a multiple of Hkv.
        return_lse: also return the logarithms, as PyTorch did before `return_aux`.
        kernel_options: has no effect; it is for PyTorch's kernels.
        return_aux: which additional results to return.

    Returns:
        The result, ``[B, Hq, L, Ev]`` in the query's type. With `return_lse` a pair: the result,
        and the natural logarithms of the rows' sums, ``[B, Hq, L]`` in float32. With `return_aux` a
        pair: the result, and an :class:`AuxOutput`. A row without keys has the result 0 and the
        logarithm -inf.

    Raises:
        InvalidArgumentError: a shape, type or device is not accepted. The message says which.
        TraceError: a function cannot be traced. The message names its line and says what to write
            instead.
        UnsupportedError: ``return_aux.max_scores`` was asked for.
    """
    if return_lse and return_aux is not None:
        raise InvalidArgumentError(
            "return_lse and return_aux were both given; give return_aux only"
        )
    if return_aux is not None and return_aux.max_scores:
        raise UnsupportedError(
            "Tesela does not give the largest score of each row; ask for lse only"
        )
    _check(query, key, value, block_mask, enable_gqa)
    batch = query.shape[0]
    if key.shape[0] != batch:
        key = key.expand(batch, -1, -1, -1)
        value = value.expand(batch, -1, -1, -1)
    mask_mod = None if block_mask is None else block_mask.mask_mod
    with_lse = return_lse if return_aux is None else return_aux.lse
    if _is_compiling():
        result = _compiled(query, key, value, mask_mod, score_mod, scale, with_lse)
    else:
        variant = _variant_of(mask_mod, score_mod)
        result = attention(query, key, value, variant, scale=scale, return_lse=with_lse)
    if return_aux is None:
        return result
    return (result[0], AuxOutput(lse=result[1])) if with_lse else (result, AuxOutput())


def _is_compiling() -> bool:
    """Whether torch.compile traces this call."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def _compiled(
    query: Any,
    key: Any,
    value: Any,
    mask_mod: Mod | None,
    score_mod: Mod | None,
    scale: float | None,
    return_lse: bool,
) -> Any:
    from tesela.torch import attention as operator  # type: ignore[import-not-found, unused-ignore]

    source, plan = _constant(mask_mod, score_mod)
    roots = tuple(f for f in (mask_mod, score_mod) if f is not None)
    given = values(roots, *plan)
    variant = as_variant(source)
    result: Any = operator(query, key, value, variant, scale, return_lse, False, None, given)
    return result


def _constant(mask_mod: Mod | None, score_mod: Mod | None) -> tuple[str, Any]:
    """The constants of PyTorch's graph: the variant's source, and the places of its values."""
    if mask_mod is None and score_mod is None:
        source, plan = "full", ((), (), ())
    else:
        source, plan = plan_flex(mask_mod, score_mod)
    as_variant(source)  # so that later look-ups find it
    return source, plan


_constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _variant_of(mask_mod: Mod | None, score_mod: Mod | None) -> Variant:
    if mask_mod is None and score_mod is None:
        return as_variant("full")
    text, values = trace_flex(mask_mod, score_mod)
    return Variant(_program_of(text, "variant"), values)


def _check(
    query: Any, key: Any, value: Any, block_mask: BlockMask | None, enable_gqa: bool
) -> None:
    """Checks what PyTorch's function checks, too. Tesela itself checks the rest."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.ndim != 4:
            raise InvalidArgumentError(
                f"{name} has the shape {tuple(tensor.shape)}; it must have four axes, [B, H, L, E]"
            )
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise InvalidArgumentError(
            f"query has {query.shape[1]} heads, key {key.shape[1]}; set enable_gqa=True"
        )
    if query.shape[0] != key.shape[0] != 1:
        raise InvalidArgumentError(
            f"query has a batch of {query.shape[0]}, key of {key.shape[0]}; they must be equal, or "
            "key's must be 1"
        )
    if block_mask is None:
        return
    if not isinstance(block_mask, BlockMask):
        raise InvalidArgumentError(
            f"block_mask is a {type(block_mask).__module__}.{type(block_mask).__name__}; make it "
            "with tesela.create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN)"
        )
    lengths = (query.shape[2], key.shape[2])
    if block_mask.seq_lengths != lengths:
        raise InvalidArgumentError(
            f"block_mask is for {block_mask.seq_lengths[0]} queries and "
            f"{block_mask.seq_lengths[1]} keys, but there are {lengths[0]} and {lengths[1]}; make "
            "one for these lengths, which costs nothing"
        )
    for name, own, given in (
        ("batch", block_mask.shape[0], query.shape[0]),
        ("number of heads", block_mask.shape[1], query.shape[1]),
    ):
        if own not in (1, given):
            raise InvalidArgumentError(
                f"block_mask is for a {name} of {own}, query has {given}; make one for {given}, or "
                "with None for all"
            )
