# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How jax.jit divides attention among devices: along batches and heads.

Without a rule XLA would gather all of q, k and v on every device. Batches are divided if the
variant only uses ``b`` to read captured tensors. Heads are divided if this holds for ``h`` and
``hkv``. The tensors that these indices read are divided in the same way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import (
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)

from tesela._variant import _DROPOUT
from tesela.jax._rewrite import is_only_index, program_of, with_named_axes

P: Any = jax.sharding.PartitionSpec


class _Axes:
    """The axes of an operation's arrays, as letters.

    b batch, h heads of q, g heads of k and v; "" is an axis that is not divided.
    """

    def __init__(
        self,
        text: str,
        operands: Sequence[str],
        is_bshd: bool,
        algorithm: str,
        leading: int,
        result_count: int,
        q_shape: tuple[int, ...],
        k_shape: tuple[int, ...],
    ) -> None:
        self.axis_of_heads = 2 if is_bshd else 1
        self.heads, self.kv_heads = q_shape[self.axis_of_heads], k_shape[self.axis_of_heads]
        is_shared = k_shape[0] == 1 and q_shape[0] != 1
        has_batches = is_only_index(text, "b", "B")
        has_heads = is_only_index(text, "h", "H") and is_only_index(text, "hkv", "Hkv")
        if "dropout.state" in operands:  # which pairs are dropped depends on b and h
            has_batches = has_heads = False
        is_backward = algorithm == "backward"
        if is_backward and self.kv_heads == 1:  # dk and dv sum over all heads of q
            has_heads = False
        b = "b" if has_batches else ""
        h = "h" if has_heads else ""
        g = "g" if has_heads and self.kv_heads != 1 else ""  # a single head serves all heads of q
        letters = {"B": b, "H": h, "Hkv": g}
        kv_batch = "" if is_shared else b  # a single batch of k and v serves all batches of q

        def four(batch: str, heads: str) -> tuple[str, ...]:
            return (batch, "", heads, "") if is_bshd else (batch, heads, "", "")

        parameters = {each.name: each for each in (*program_of(text).parameters, *_DROPOUT)}
        results = [four(b, h), (b, h, "")]
        self.of_arguments = [
            *(four(b, h), four(kv_batch, g), four(kv_batch, g)),
            *[*results, four(b, h), (b, h, "")][: leading - 3],  # o, lse, do, dlse
            *(
                tuple(letters.get(extent, "") for extent in parameters[name].shape or ())
                for name in operands
            ),
        ]
        gradients = [four(b, h), four(b, g), four(b, g)]
        self.of_results = gradients if is_backward else results[:result_count]

    def rule(self) -> Any:
        """The rule for the partitioner Shardy."""
        whole: list[str] = []
        array: Any = ArrayMapping
        compound: Any = CompoundFactor
        uses_heads = self.of_results[0][self.axis_of_heads] == "h"
        is_grouped = uses_heads and self.kv_heads not in (1, self.heads)

        def factor(letter: str) -> Any:
            if letter == "h" and is_grouped:
                return compound("g", "r")
            if letter == "h" and self.kv_heads != 1:
                return "g"
            if letter:
                return letter
            whole.append(f"w{len(whole)}")
            return whole[-1]

        arguments, results = (
            tuple(array(*map(factor, axes)) for axes in each)
            for each in (self.of_arguments, self.of_results)
        )
        sizes = {"r": self.heads // self.kv_heads} if is_grouped else {}
        make: Any = SdyShardingRule
        return make(arguments, results, need_replication_factors=tuple(whole), **sizes)

    def specs(self, of_q: Any, sizes: Mapping[str, int]) -> tuple[list[Any], list[Any]]:
        """The specs of the arguments and of the results, from q's spec and the mesh's sizes."""
        spec = (*of_q, None, None, None, None)
        names = {"b": spec[0], "h": spec[self.axis_of_heads], "g": None, "": None}
        heads = names["h"] or ()
        devices = [sizes[name] for name in (heads if isinstance(heads, tuple) else (heads,))]
        if self.kv_heads % math.prod(devices) == 0:
            names["g"] = names["h"]
        elif self.kv_heads != 1:
            names["h"] = None  # heads that share a key head must stay together
        arguments, results = (
            [P(*(names[letter] for letter in axes)) for axes in each]
            for each in (self.of_arguments, self.of_results)
        )
        return arguments, results

    def shardings(self, mesh: Any, of_q: Any) -> tuple[list[Any], list[Any]]:
        """The shardings of the arguments and of the results, for the partitioner."""
        if mesh.empty:  # q is not sharded along a mesh: nothing is divided
            mesh = jax.sharding.Mesh(np.array(list(of_q.device_set)), ("all",))
            of_q = jax.sharding.NamedSharding(mesh, P())
        arguments, results = (
            [jax.sharding.NamedSharding(mesh, spec) for spec in each]
            for each in self.specs(of_q.spec, mesh.shape)
        )
        return arguments, results


def _divide(
    launch: Callable[..., Sequence[jax.Array]],
    axes: _Axes,
    of_q: Any,
    names: set[str],
    *arrays: jax.Array,
) -> Sequence[jax.Array]:
    """Divides along explicit axes of a mesh, for which no partitioner runs."""
    in_specs, out_specs = axes.specs(of_q.spec, of_q.mesh.shape)
    reshard: Any = jax.sharding.reshard
    placed = [
        reshard(each, jax.sharding.NamedSharding(of_q.mesh, spec))
        for each, spec in zip(arrays, in_specs, strict=True)
    ]
    local: Any = jax.shard_map(
        launch, mesh=of_q.mesh, in_specs=tuple(in_specs), out_specs=out_specs, axis_names=names
    )
    results: Sequence[jax.Array] = local(*placed)
    return results


def divisible(
    launch: Callable[..., Sequence[jax.Array]],
    text: str,
    operands: Sequence[str],
    is_bshd: bool,
    algorithm: str,
    result_count: int,
    arrays: Sequence[jax.Array],
) -> Callable[..., Sequence[jax.Array]]:
    """``launch``, a function of arrays like these, with the rule for dividing it."""
    q_shape, k_shape = arrays[0].shape, arrays[1].shape
    axis = 2 if is_bshd else 1
    leading = len(arrays) - len(operands)
    shapes = tuple(
        (name, each.shape) for name, each in zip(operands, arrays[leading:], strict=True)
    )
    named = with_named_axes(text, shapes, q_shape[0], q_shape[axis], k_shape[axis])
    axes = _Axes(named, operands, is_bshd, algorithm, leading, result_count, q_shape, k_shape)
    of_q: Any = jax.typeof(arrays[0]).sharding
    explicit = [
        name
        for name, kind in zip(of_q.mesh.axis_names, of_q.mesh.axis_types, strict=True)
        if kind == jax.sharding.AxisType.Explicit
    ]
    if explicit:
        return functools.partial(_divide, launch, axes, of_q, set(explicit))

    def infer(mesh: Any, arguments: Any, _: Any) -> Any:
        return axes.shardings(mesh, arguments[0].sharding)[1]

    def partition(mesh: Any, arguments: Any, _: Any) -> Any:
        given, results = axes.shardings(mesh, arguments[0].sharding)
        return mesh, launch, results, tuple(given)

    def rule(*_: Any) -> Any:
        return axes.rule()

    make: Any = custom_partitioning
    divided = make(launch)
    divided.def_partition(
        partition=partition, infer_sharding_from_operands=infer, sharding_rule=rule
    )
    found: Callable[..., Sequence[jax.Array]] = divided
    return found
