# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes in the input raise errors with a message, and nothing is printed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tesela
import torch
from reference import random

Q = random(1, 4, 8, 64, seed=1)
K = random(1, 2, 9, 64, seed=2)

POOL = random(6, 16, 2, 64, seed=3)
NARROW = POOL.astype(ml_dtypes.float8_e4m3fn)
OTHER = POOL.astype(ml_dtypes.float8_e5m2)
TABLE, LENGTHS = np.zeros((3, 2), np.int32), np.ones(3, np.int32)
STARTS = np.array([0, 8, 9], np.int32)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"q": Q[0]}, r"q has the shape \(4, 8, 64\).*four axes"),
        ({"q": Q[:, :3]}, "q has 3 heads and k has 2: the number of heads of q must be a multiple"),
        ({"k": K[..., :32]}, "k has the head dimension extent 32, the kernel has 64"),
        ({"v": K[:, :, :8]}, "v has the length extent 8, k has 9"),
        ({"q": Q.astype(np.float64)}, "q's elements are float64"),
        (
            {"v": K.astype(np.float16)},
            "q's elements are float32, k's are float32 and v's are float16",
        ),
        ({"k": K.astype(">f4")}, "k's elements are >f4 in the other order of bytes"),
        ({"k": K.astype(np.int64)}, "k.*i64, which only captured tensors may have"),
        ({"q": Q[..., ::2], "k": K[..., :32], "v": K[..., :32]}, "q's last stride is 2"),
        ({"q": Q[:, :, ::-1]}, "q's length stride is -64"),
        ({"q": [1, 2]}, "q is of the type <class 'list'>"),
        ({"v": [1, 2]}, "v None"),
        ({"k": "k"}, "k is of the type <class 'str'>, which is not a tensor"),
        ({"out": Q[:, :, :4].copy()}, "o has the length extent 4, q has 8"),
        ({"scale": "x"}, "the scale is of the type <class 'str'>, it must be a number"),
        ({"layout": "bhs"}, "the layout is 'bhs'"),
        ({"windw": 3}, "no parameter 'windw'; it has window"),
        (
            {"variant": "full", "is_causal": True},
            "'full' has no parameter 'is_causal'; it has none: for a causal mask pass the variant "
            r"'causal', as in attention\(q, k, v, 'causal'\)",
        ),
        ({"causal": True}, "it has window: for a causal mask pass the variant 'causal'"),
        (
            {"variant": "causal", "is_causal": True},
            "it has none: leave 'is_causal' out, the variant is causal",
        ),
        (
            {"variant": "full", "window_size": 3},
            "for a window pass the variant 'sliding_window' and its parameter window",
        ),
        ({"softmax_scale": 0.5}, "no parameter 'softmax_scale'; it has window: pass it as scale"),
        ({"window": "wide"}, "the parameter 'window' is of the type <class 'str'>"),
        ({"window": 2.5}, "the parameter 'window' is 2.5, it must be a whole number"),
        ({"window": np.ones(3)}, "the parameter 'window' is of the type"),
        ({"variant": "alibi"}, "the captured tensor 'slope' is missing"),
        ({"variant": "alibi", "slope": 3}, "slope is of the type <class 'int'>"),
        (
            {"variant": "alibi", "slope": np.ones(3, np.float32)},
            r"'slope' is f32\[3\], its extent of axis 0 must be H = 4",
        ),
        ({"variant": "attention x(w: i32) { mask = q < w }"}, "'w' is missing and has no default"),
        (
            {"variant": "attention x(const w: i32) { mask = q < w }"},
            r"the constant 'w' of the variant 'x' has no value: pass w=\.\.\. in the call",
        ),
        ({"variant": max}, "the names of the arguments of 'max' are not known; write a function"),
        ({"variant": lambda *a: a[0] >= a[1]}, r"only arguments are '\*a'.*as in def mask\(q, k\)"),
    ],
)
def test_mistakes(arguments: dict[str, Any], sentence: str) -> None:
    given = {"q": Q, "k": K, "v": K, "variant": "sliding_window", **arguments}
    with pytest.raises(tesela.Error, match=sentence) as raised:
        tesela.attention(**given)
    assert raised.value.chain
    assert str(raised.value).endswith(raised.value.chain[-1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"v": POOL[:4]}, "k has 6 pages, and v has 4: both must have the same number"),
        ({"k": POOL[:, :0], "v": POOL[:, :0]}, "a page of k has 0 rows, it must have at least one"),
        ({"k": None}, r"k is None: pass a tensor of PyTorch or NumPy with the axes \[pages, page,"),
        ({"lengths": None}, r"lengths is None: pass a tensor .* with the axes \[B\]"),
        ({"lengths": [1, 2, 3]}, "lengths is of the type <class 'list'>: pass a tensor"),
        ({"table": torch.zeros(3, 2, device="meta")}, "table is on the device 'meta'"),
        (
            {"max_keys": 2**70},
            f"max_keys is {2**70}, it must be a whole number from 0 to 2147479552",
        ),
        ({"max_keys": "many"}, "max_keys is 'many', it must be a whole number"),
        ({"max_keys": 1.5}, "max_keys is 1.5, it must be a whole number"),
        ({"split": "yes"}, "split is 'yes', it must be True or False"),
        ({"positions": None}, r"positions is None: pass .* axes \[B\], or 'begin' or 'end'"),
        ({"positions": [1, 2, 3]}, "positions is of the type <class 'list'>"),
        ({"positions": 5}, "positions is of the type <class 'int'>"),
        ({"positions": LENGTHS[:2]}, "positions has 2 sequences, and the launch has 3"),
        ({"positions": LENGTHS.astype(np.int64)}, "positions' elements are int64, they must be"),
        ({"max_key": 4}, "it has none: did you mean the argument 'max_keys' of attention_paged"),
        ({"start_q": LENGTHS}, "did you mean the argument 'starts_q' of attention_paged"),
        ({"k": NARROW, "v": NARROW, "k_scale": [1.0, 1.0], "v_scale": 1.0}, "k_scale is of the"),
        ({"k": OTHER, "v": OTHER, "k_scale": 1.0}, "k's .* float8_e5m2: .* only float8_e4m3fn is"),
        ({"k": NARROW, "v": None, "value_dim": 32}, "v is None, and k's elements are float8_e4m3f"),
    ],
)
def test_mistakes_with_pages(arguments: dict[str, Any], sentence: str) -> None:
    given = {"q": random(3, 1, 4, 64, seed=1), "k": POOL, "v": POOL, **arguments}
    with pytest.raises(tesela.Error, match=sentence):
        tesela.attention_paged(**{"table": TABLE, "lengths": LENGTHS, **given})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"v": random(7, 2, 64, seed=2)}, "k has 9 tokens, and v has 7"),
        ({"starts_q": None}, r"starts_q is None: pass a tensor .* \[B \+ 1\]"),
        ({"max_queries": -3}, "max_queries is -3, it must be a whole number"),
    ],
)
def test_mistakes_with_tokens(arguments: dict[str, Any], sentence: str) -> None:
    k = random(9, 2, 64, seed=2)
    given = {"q": random(9, 4, 64, seed=1), "k": k, "v": k, "starts_q": STARTS, "max_queries": 8}
    with pytest.raises(tesela.InvalidArgumentError, match=sentence):
        tesela.attention_ragged(**given | arguments)


def test_mistakes_with_parts() -> None:
    out, lse = torch.zeros(4, 2, 64), torch.zeros(2, 4)

    def says(sentence: str, outs: Any, lses: Any) -> None:
        with pytest.raises(tesela.Error, match=sentence):
            tesela.merge_partials(outs, lses)

    says(r"outs is \[\]: pass at least one part", [], [])
    says(r"outs has parts of the shapes \(4, 2, 64\), \(2, 2, 64\)", [out, out[:2]], [lse, lse])
    says("lses is None", [out, out], None)
    says("lses has parts .* of one framework", [out, out], [lse, lse.numpy()])
    says("outs's elements are torch.float64, .* convert outs", [out.double()] * 2, [lse, lse])
    # On the host the logarithms may be NumPy's.
    assert torch.equal(tesela.merge_partials([out, out], [lse.numpy()] * 2), out)


def test_written_memory_is_writable() -> None:
    out = np.zeros_like(Q)
    out.flags.writeable = False
    with pytest.raises(tesela.InvalidArgumentError, match="o is read-only, but it must be written"):
        tesela.attention(Q, K, K, out=out)
    assert (out == 0).all()


def test_inputs_may_be_read_only() -> None:
    q = Q.copy()
    q.flags.writeable = False
    assert np.isfinite(tesela.attention(q, K, K)).all()


def test_classes() -> None:
    for each, base in (
        (tesela.InvalidArgumentError, ValueError),
        (tesela.OutOfMemoryError, MemoryError),
        (tesela.NotFoundError, LookupError),
        (tesela.DeadlineExceededError, TimeoutError),
        (tesela.InputOutputError, OSError),
    ):
        assert issubclass(each, tesela.Error)
        assert issubclass(each, base)


def test_nothing_is_printed() -> None:
    program = """
import numpy as np, tesela
q = np.ones((1, 1, 4, 8), np.float32)
tesela.attention(q, q, q, "causal")
try:
    tesela.attention(q, q, q, "alibi")
except tesela.Error:
    pass
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_tensors_without_memory() -> None:
    """A captured tensor of PyTorch on the device 'meta', or a sparse one, is named."""
    q = torch.zeros(1, 1, 8, 16)
    text = "attention x(t: f32[Sq]) { score = s + t[q] }"
    for t, sentence in (
        (torch.zeros(8, device="meta"), "the tensor 't' is on the device 'meta'"),
        (torch.zeros(8).to_sparse(), "the tensor 't' has the layout torch.sparse_coo.*to_dense"),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match=sentence):
            tesela.attention(q, q, q, text, t=t)
        with pytest.raises(tesela.InvalidVariantError, match=sentence):
            tesela.attention(q, q, q, lambda s, q, t=t: s + t[q])


def test_lengths_of_explain() -> None:
    causal = tesela.variant("causal")
    for arguments, sentence in (
        ({"length": -1}, "length is -1, it must be a whole number from 0"),
        ({"length": 8, "kv_length": -1}, "kv_length is -1, it must be a whole number from 0"),
        ({"length": "8"}, "length is '8', it must be a whole number"),
    ):
        with pytest.raises(tesela.InvalidArgumentError, match=sentence):
            causal.explain(**arguments)


def test_a_parameter_named_self() -> None:
    bound = tesela.variant("attention x(self: i32) { mask = q >= self }", self=3)
    assert bound.bound == {"self": 3}
    assert tesela.attention(Q, K, K, lambda self, q, k: q >= k + self, self=1).shape == Q.shape
