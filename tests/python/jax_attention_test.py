# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.jax.attention on the CPU: results, jit, parameters and errors."""

import threading

import pytest
import tesela
import tesela.jax
from jax_support import check, expected, inputs, jax, jnp, np, positions
from tesela._contexts import HOST, context
from tesela.jax._operation import _jitted

SHAPES = [
    (1, 1, 1, 1, 1, 8, 8),
    (2, 4, 2, 37, 53, 16, 24),
    (3, 6, 1, 130, 65, 64, 64),
    (1, 2, 2, 1, 200, 128, 128),
]


def compilations():
    return context(HOST).compile_count


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_causal(shape, dtype, jit):
    q, k, v = inputs(*shape, dtype)
    rows, columns = positions(shape[3], shape[4])

    def call(q, k, v):
        return tesela.attention(q, k, v, "causal", return_lse=True)

    actual = (jax.jit(call) if jit else call)(q, k, v)
    check(actual, expected(q, k, v, rows >= columns), dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bshd(shape):
    q, k, v = inputs(*shape, bshd=True)
    call = jax.jit(
        lambda *a: tesela.jax.attention(*a, "causal", layout="bshd", return_lse=True, scale=0.3)
    )
    o, lse = call(q, k, v)
    rows, columns = positions(shape[3], shape[4])
    swapped = (jnp.swapaxes(each, 1, 2) for each in (q, k, v))
    wanted = expected(*swapped, rows >= columns, scale=0.3)
    check((jnp.swapaxes(o, 1, 2), lse), wanted)


def test_result_without_lse():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    o = tesela.attention(q, k, v)
    np.testing.assert_allclose(np.asarray(o), expected(q, k, v)[0], atol=3e-6)
    without = jax.jit(lambda *a: tesela.attention(*a)).lower(q, k, v).as_text()
    assert "tensor<2x4x37xf32>" not in without  # the program makes no logarithms


def test_captured_tensor_and_number():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    slope = jnp.asarray([0.5, -0.25, 0.0, 1.0])
    rows, columns = positions(37, 53)
    wanted = expected(
        q,
        k,
        v,
        rows >= columns,
        lambda s: s + np.asarray(slope)[None, :, None, None] * (columns - rows),
    )
    check(tesela.attention(q, k, v, "alibi", slope=slope, return_lse=True), wanted)
    bound = tesela.variant("alibi", slope=np.asarray(slope))
    check(jax.jit(lambda *a: tesela.attention(*a, bound, return_lse=True))(q, k, v), wanted)


@pytest.mark.parametrize("element", ["int32", "bool", "bfloat16", "float16"])
def test_captured_types(element):
    q, k, v = inputs(1, 2, 2, 20, 30, 16, 16)
    name = {"int32": "i32", "bool": "bool", "bfloat16": "bf16", "float16": "f16"}[element]
    condition = "t[k]" if element == "bool" else "t[k] > 0"
    captured = jnp.asarray(np.arange(30) % 3 == 1).astype(element)
    text = f"attention chosen(t: {name}[Sk]) {{ mask = {condition} }}"
    wanted = expected(q, k, v, np.asarray(captured).astype(bool)[None, None, None, :])
    check(tesela.attention(q, k, v, text, t=captured, return_lse=True), wanted)


def test_int64_captured_tensor():
    q, k, v = inputs(1, 2, 2, 20, 30, 16, 16)
    with jax.enable_x64(True):
        captured = jnp.arange(30) % 3
        assert captured.dtype == "int64"
        text = "attention chosen(t: i32[Sk]) { mask = t[k] > 0 }"
        actual = tesela.attention(q, k, v, text, t=captured, return_lse=True)
        wanted = expected(q, k, v, np.asarray(captured)[None, None, None, :] > 0)
        check(actual, wanted)


def test_traced_scalars_compile_nothing_for_new_values():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)
    call = jax.jit(
        lambda q, k, v, w: tesela.attention(q, k, v, "sliding_window", window=w, return_lse=True)
    )
    call(q, k, v, 3)
    before = compilations()
    for window in (1, 7, 100):
        mask = (rows >= columns) & (rows - columns < window)
        check(call(q, k, v, window), expected(q, k, v, mask))
    assert call._cache_size() == 1
    assert compilations() == before


def test_new_captured_values_compile_nothing():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    tesela.attention(q, k, v, "alibi", slope=jnp.ones(4))
    programs, kernels = _jitted._cache_size(), compilations()
    for value in range(3):
        tesela.attention(q, k, v, "alibi", slope=jnp.full(4, value, jnp.float32))
        tesela.attention(q, k, v, tesela.variant("alibi", slope=jnp.full(4, value, jnp.float32)))
    assert _jitted._cache_size() == programs
    # Also an array without axes. A number becomes part of XLA's program, but no new kernel is
    # compiled.
    tesela.attention(q, k, v, "sliding_window", window=jnp.int32(3))
    programs, kernels = _jitted._cache_size(), compilations()
    tesela.attention(q, k, v, "sliding_window", window=jnp.int32(4))
    assert _jitted._cache_size() == programs
    tesela.attention(q, k, v, "sliding_window", window=5)
    tesela.attention(q, k, v, "sliding_window", window=6)
    assert compilations() == kernels


def test_defaults_constants_and_scalar_types():
    q, k, v = inputs(1, 2, 1, 33, 47, 16, 16)
    rows, columns = positions(33, 47)
    text = """attention all(const w: i32 = 9, cap: f32, on: i32 = 1) {
      score = on == 1 ? cap * tanh(s / cap) : s
      mask = q - k < w
    }"""
    for width in (9, 4):
        constants = {} if width == 9 else {"w": width}
        for cap in (2.0, np.float32(2), jnp.float32(2)):
            actual = tesela.attention(q, k, v, text, cap=cap, return_lse=True, **constants)
            capped = expected(q, k, v, rows - columns < width, lambda s: 2 * np.tanh(s / 2))
            check(actual, capped)
    actual = tesela.attention(q, k, v, text, cap=1, on=jnp.int32(0), return_lse=True)
    check(actual, expected(q, k, v, rows - columns < 9))


def test_without_batch_axis():
    q, k, v = inputs(1, 4, 2, 37, 53, 16, 24)
    o, lse = tesela.attention(q[0], k[0], v[0], "causal", return_lse=True)
    rows, columns = positions(37, 53)
    check((o[None], lse[None]), expected(q, k, v, rows >= columns))
    assert tesela.attention(q[0], k[0], v[0]).shape == (4, 37, 24)


def test_empty():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    assert tesela.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 37, 24)
    assert tesela.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 24)
    o, lse = tesela.attention(q, k[:, :, :0], v[:, :, :0], return_lse=True)
    assert not o.any() and np.isneginf(lse).all()


def test_rows_without_keys():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    text = "attention late() { mask = q >= 20 && q >= k }"
    o, lse = tesela.attention(q, k, v, text, return_lse=True)
    assert not o[:, :, :20].any() and np.isneginf(lse[:, :, :20]).all()
    rows, columns = positions(37, 53)
    check((o, lse), expected(q, k, v, (rows >= 20) & (rows >= columns)))


def test_numpy_becomes_jax():
    q, k, v = (np.asarray(each) for each in inputs(1, 2, 1, 33, 47, 16, 16))
    assert isinstance(tesela.jax.attention(q, k, v), jax.Array)
    assert isinstance(tesela.attention(q, k, v), np.ndarray)
    assert isinstance(tesela.attention(jnp.asarray(q), k, v), jax.Array)


def test_inside_control_flow():
    q, k, v = inputs(2, 4, 2, 37, 53, 16, 24)
    rows, columns = positions(37, 53)

    def step(total, window):
        o = tesela.attention(q, k, v, "sliding_window", window=window)
        return total + o, o

    total, each = jax.lax.scan(step, jnp.zeros((2, 4, 37, 24)), jnp.asarray([2, 5, 11]))
    for index, window in enumerate((2, 5, 11)):
        mask = (rows >= columns) & (rows - columns < window)
        np.testing.assert_allclose(each[index], expected(q, k, v, mask)[0], atol=3e-6)
    np.testing.assert_allclose(total, each.sum(0), atol=1e-5)
    remat = jax.checkpoint(lambda q: tesela.attention(q, k, v, "causal", return_lse=True))
    check(remat(q), expected(q, k, v, rows >= columns))


def test_threads():
    q, k, v = inputs(2, 4, 2, 70, 70, 16, 16)
    rows, columns = positions(70, 70)
    failures = []

    def work(number):
        try:
            text = f"attention mine() {{ mask = q - k < {number % 3 + 5} }}"  # three kernels
            for _ in range(5):
                actual = jax.jit(lambda *a: tesela.attention(*a, text, return_lse=True))(q, k, v)
                check(actual, expected(q, k, v, rows - columns < number % 3 + 5))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


TIMES = "attention times(n: f32) { score = s * n }"
WINDOW = "attention window(const w: i32) { mask = q - k < w }"
BAD = [
    ({}, {"q": (2, 4, 37)}, "four axes|the axes"),
    ({}, {"k": (2, 3, 53, 16), "v": (2, 3, 53, 24)}, "multiple"),
    ({}, {"k": (1, 2, 53, 16), "v": (1, 2, 53, 24)}, "do not fit"),
    ({}, {"k": (2, 2, 53, 8)}, "do not fit"),
    ({}, {"v": (2, 2, 52, 24)}, "do not fit"),
    ({"scale": 0.0}, {}, "scale is 0"),
    ({"scale": float("nan")}, {}, "scale is nan"),
    ({"scale": jnp.inf}, {}, "scale"),
    ({"variant": "alibi"}, {}, "slope"),
    ({"variant": "alibi", "slope": jnp.ones((4, 4))}, {}, r"'slope'.*\(4, 4\).*1 axes, \[H\]"),
    ({"variant": "alibi", "slope": "text"}, {}, "'slope'.*str"),
    ({"variant": "sliding_window", "window": jnp.ones(3, int)}, {}, r"'window'.*\(3,\)"),
    ({"variant": "sliding_window", "window": jnp.float32(3)}, {}, "'window'.*whole number"),
    ({"variant": "sliding_window", "window": 8.5}, {}, "'window' is 8.5.*whole number"),
    ({"variant": "sliding_window", "window": 2**31}, {}, "'window' is 2147483648.*32 bits"),
    ({"variant": TIMES, "n": 1e300}, {}, "'n' is 1e.300.*fit f32"),
    ({"variant": WINDOW, "w": 8.5}, {}, "'w' is 8.5.*whole number"),
    ({"variant": "alibi", "slope": jnp.ones(4, "float16")}, {}, "'slope' are float16.*'float32'"),
    ({"variant": "alibi", "slope": jnp.ones(4, "int8")}, {}, "'slope' are int8.*'float32'"),
    ({"variant": "sliding_window", "window": "3x"}, {}, "'window'.*number"),
    ({"variant": "causal", "windw": 3}, {}, "no parameter 'windw'"),
    ({"out": jnp.ones(3)}, {}, "out"),
]


@pytest.mark.parametrize("arguments, shapes, sentence", BAD, ids=[each[2] for each in BAD])
def test_invalid_arguments(arguments, shapes, sentence):
    usual = {"q": (2, 4, 37, 16), "k": (2, 2, 53, 16), "v": (2, 2, 53, 24)}
    arrays = [jnp.ones(shape) for shape in {**usual, **shapes}.values()]
    with pytest.raises(tesela.InvalidArgumentError, match=sentence):
        tesela.attention(*arrays, **arguments)


def test_unsupported_types():
    q, k, v = inputs(1, 2, 1, 33, 47, 16, 16)
    with pytest.raises(tesela.UnsupportedError, match=r"bfloat16 in k"):
        tesela.attention(q, k.astype("bfloat16"), v)
    with pytest.raises(tesela.UnsupportedError, match=r"int32 in q"):
        tesela.attention(q.astype("int32"), k, v)


def test_head_dimensions_are_checked_while_tracing():
    wide, narrow = jnp.ones((1, 2, 8, 584)), jnp.ones((1, 2, 8, 12))
    for array, sentence in (
        (wide, r"q and k is 584, .* up to 576: use narrower"),
        (wide[..., :576], r"of v is 576, .* up to 512: use narrower"),
        (narrow, r"q and k is 12, .* multiple of 8 up to 576: pad"),
    ):
        with pytest.raises(tesela.UnsupportedError, match=sentence):
            jax.jit(lambda q: tesela.attention(q, q, q)).lower(array)


def test_traced_constants_are_refused():
    q, k, v = inputs(1, 2, 1, 33, 47, 16, 16)
    with pytest.raises(tesela.InvalidArgumentError, match=r"'w' is a traced value.*static"):
        jax.jit(lambda w: tesela.attention(q, k, v, WINDOW, w=w))(3)
    with pytest.raises(tesela.InvalidArgumentError, match=r"scale is a traced value.*static"):
        jax.jit(lambda scale: tesela.attention(q, k, v, scale=scale))(3.0)


def test_errors_of_a_launch_carry_the_sentence():
    q, k, v = inputs(1, 2, 1, 33, 47, 16, 16)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"INVALID_ARGUMENT.*slope.*3"):
        jax.block_until_ready(tesela.attention(q, k, v, "alibi", slope=jnp.ones(3)))
    # The next call succeeds.
    check(tesela.attention(q, k, v, return_lse=True), expected(q, k, v))


def test_errors_of_a_text():
    q, k, v = inputs(1, 2, 1, 33, 47, 16, 16)
    with pytest.raises(tesela.InvalidVariantError, match=r"nonsense"):
        tesela.attention(q, k, v, "attention wrong() { mask = nonsense }")
