# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exported programs with tesela.attention, which another process runs."""

import subprocess
import sys

import pytest
import tesela
from jax_support import check, expected, inputs, jax, jnp, np, positions

pytest.importorskip("flatbuffers", reason="jax.export needs it")
from jax import export

READER = """
import sys
import numpy as np
from jax import export
import tesela.jax

data = np.load(sys.argv[2])
program = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
o, lse = program.call(data["q"], data["k"], data["v"], data["slope"], data["window"])
np.savez(sys.argv[3], o=o, lse=lse)
"""

ALLOWED = [export.DisabledSafetyCheck.custom_call("tesela_attention")]


def call(q, k, v, slope, window):
    text = """attention both(slope: f32[H], window: i32, cap: f32) {
      mask  = q >= k && q - k < window
      score = cap * tanh((s + slope[h] * (k - q)) / cap)
    }"""
    return tesela.attention(q, k, v, text, slope=slope, window=window, cap=3.0, return_lse=True)


def test_export(tmp_path):
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    given = {
        "q": q,
        "k": k,
        "v": v,
        "slope": jnp.asarray([0.5, -0.25, 0.0, 1.0]),
        "window": jnp.int32(11),
    }
    batch = export.symbolic_shape("batch")[0]
    shapes = [
        jax.ShapeDtypeStruct((batch, *each.shape[1:]) if name in "qkv" else each.shape, each.dtype)
        for name, each in given.items()
    ]
    program = export.export(jax.jit(call), platforms=["cpu", "cuda"], disabled_checks=ALLOWED)
    (tmp_path / "program").write_bytes(program(*shapes).serialize())
    np.savez(tmp_path / "inputs.npz", **given)
    paths = [str(tmp_path / name) for name in ("program", "inputs.npz", "results.npz")]
    subprocess.run([sys.executable, "-c", READER, *paths], check=True)
    results = np.load(tmp_path / "results.npz")
    rows, columns = positions(37, 53)
    bias = np.asarray(given["slope"])[None, :, None, None] * (columns - rows)
    wanted = expected(
        q, k, v, (rows >= columns) & (rows - columns < 11), lambda s: 3 * np.tanh((s + bias) / 3)
    )
    check((jnp.asarray(results["o"]), jnp.asarray(results["lse"])), wanted)


CACHED = """
import sys
import jax, jax.numpy as jnp
import tesela
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append("cache_hits" in name))
q = jnp.linspace(0, 1, 2 * 33 * 16).reshape(1, 2, 33, 16)
print(float(jax.jit(lambda q: tesela.attention(q, q, q, "causal").sum())(q)), any(hits))
"""


def test_cache_of_jax(tmp_path):
    command = [sys.executable, "-c", CACHED, str(tmp_path)]
    printed = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert printed[0][0] == printed[1][0]
    assert [each[1] for each in printed] == ["False", "True"]
