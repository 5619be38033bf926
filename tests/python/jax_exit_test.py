# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process that ends while a call of tesela.jax still compiles or runs."""

import subprocess
import sys

import pytest
from jax_support import jax  # skips without JAX

CALL = """
import jax, jax.numpy as jnp, sys, tesela.jax

def call(q):
    return tesela.jax.attention(q, q, q, "attention fresh { score = s * 1.0625 }").sum()

# XLA's threads compile and launch the kernel after the call has returned.
"""


@pytest.mark.parametrize(
    "last",
    [
        "jax.jit(call)(jnp.ones((1, 1, 4096, 256)))",
        "jax.jit(jax.grad(call))(jnp.ones((1, 1, 1024, 64)))",
    ],
)
def test_exit_while_a_kernel_is_made(last, tmp_path):
    code = (
        f"import os\nos.environ['XDG_CACHE_HOME'] = {str(tmp_path)!r}\n"
        f"os.environ['JAX_PLATFORMS'] = {jax.default_backend()!r}\n" + CALL + last
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
