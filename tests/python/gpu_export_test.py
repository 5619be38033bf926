# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exported kernels of pages and sequences, launched from C, against the library's own calls, and
in a graph whose lengths change."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tesela
import torch
from torch import Tensor

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
]

B, H, HKV, D, PAGE, MOST_KEYS = 5, 32, 8, 128, 64, 2048
MOST_PAGES = MOST_KEYS // PAGE

ADAPTER = """
#include "NAME.h"
#include <string.h>

typedef struct problem {
  void *q, *k, *v, *o, *lse, *table, *lengths, *starts, *scale, *workspace;
  int64_t pages, tokens, most_queries, workspace_bytes;
} problem;

enum { B = 5, H = 32, HKV = 8, D = 128, PAGE = 64, MOST_KEYS = 2048 };
enum { MOST_PAGES = MOST_KEYS / PAGE };

static void fill(NAME_arguments *a, const problem *p) {
  NAME_set_defaults(a);
  a->k = (NAME_tensor){p->k, {p->pages, HKV, PAGE, D}, {PAGE * HKV * D, D, HKV * D, 1}};
  a->v = a->k;
  a->v.data = p->v;
  a->table = (NAME_tensor_2){p->table, {B, MOST_PAGES}, {MOST_PAGES, 1}};
  a->lengths = (NAME_tensor_1){p->lengths, {B}, {1}};
  a->Sk = MOST_KEYS;
  a->workspace = p->workspace;
  a->workspace_bytes = (size_t)p->workspace_bytes;
#ifdef RAGGED
  a->q = (NAME_tensor){p->q, {1, H, p->tokens, D}, {0, D, H * D, 1}};
  a->lse = (NAME_tensor_3){p->lse, {1, H, p->tokens}, {0, p->tokens, 1}};
  a->starts_q = (NAME_tensor_1){p->starts, {B + 1}, {1}};
  a->Sq = p->most_queries;
#else
  a->q = (NAME_tensor){p->q, {B, H, 1, D}, {H * D, D, H * D, 1}};
  a->lse = p->lse;
#endif
#ifdef NARROW
  a->k_scale = a->v_scale = (NAME_tensor_1){p->scale, {HKV}, {1}};
#endif
  a->o = a->q;
  a->o.data = p->o;
}

int create(int device, NAME_kernel **kernel, char *message) {
  NAME_error error;
  int code = NAME_create(device, kernel, &error);
  strcpy(message, error.message);
  return code;
}

int measure(const NAME_kernel *kernel, problem *p, char *message) {
  NAME_error error;
  NAME_arguments arguments;
  size_t bytes = 0;
  int code;
  fill(&arguments, p);
  code = NAME_workspace_bytes(kernel, &arguments, &bytes, &error);
  p->workspace_bytes = (int64_t)bytes;
  strcpy(message, error.message);
  return code;
}

int launch(const NAME_kernel *kernel, const problem *p, void *stream, char *message) {
  NAME_error error;
  NAME_arguments arguments;
  int code;
  fill(&arguments, p);
  code = NAME_launch(kernel, &arguments, stream, &error);
  strcpy(message, error.message);
  return code;
}

void destroy(NAME_kernel *kernel) { NAME_destroy(kernel); }
"""


class Problem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "table", "lengths")),
        *((name, ctypes.c_void_p) for name in ("starts", "scale", "workspace")),
        *((name, ctypes.c_int64) for name in ("pages", "tokens", "most_queries")),
        ("workspace_bytes", ctypes.c_int64),
    ]


class Launcher:
    """An exported kernel of `causal`, with its launcher compiled as users do."""

    def __init__(self, folder: Path, algorithm: str, bindings: list[str], *defines: str) -> None:
        where = folder / "bundle"
        major, minor = torch.cuda.get_device_capability()
        command = shutil.which("tesela")
        begin = [command] if command else [sys.executable, "-m", "tesela"]
        bound = [word for each in bindings for word in ("--bind", each)]
        export = ["export", "causal", "--algorithm", algorithm, *bound, "--head-dim", str(D)]
        export += [] if "RAGGED" in defines else ["--length", "1"]
        export += ["--target", f"sm_{major}{minor}", "--name", "served", "-o", str(where)]
        subprocess.run([*begin, *export], check=True, capture_output=True, timeout=300)
        (folder / "adapter.c").write_text(ADAPTER.replace("NAME", "served"))
        options = ["-std=c99", "-O1", "-fPIC", "-shared", f"-I{where}"]
        sources = [str(folder / "adapter.c"), str(where / "served.c")]
        library = folder / "adapter.so"
        defined = [f"-D{each}" for each in defines]
        subprocess.run(
            ["cc", *options, *defined, *sources, "-o", str(library), "-ldl"],
            check=True,
            capture_output=True,
            timeout=300,
        )
        self.library = ctypes.CDLL(str(library))
        self.kernel, self.message = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
        torch.zeros(1, device="cuda")  # PyTorch's context is also the launcher's
        self.call("create", torch.cuda.current_device(), ctypes.byref(self.kernel))

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments, self.message)
        assert code == 0, self.message.value.decode()

    def measure(self, problem: Problem) -> None:
        self.call("measure", self.kernel, ctypes.byref(problem))

    def launch(self, problem: Problem) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call("launch", self.kernel, ctypes.byref(problem), stream)

    def __del__(self) -> None:
        if hasattr(self, "kernel"):
            torch.cuda.synchronize()
            self.library.destroy(self.kernel)


def cache(lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """A pool with NaN where no sequence has keys, a table, and lengths. Each sequence has pages
    for MOST_KEYS keys, so that lengths can grow with fill()."""
    pool = torch.full((2, B * MOST_PAGES + 3, PAGE, HKV, D), torch.nan, device="cuda")
    order = torch.randperm(B * MOST_PAGES + 3, device="cuda")[: B * MOST_PAGES].int()
    table = order.view(B, MOST_PAGES).contiguous()
    counts = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    pool = pool.bfloat16()
    fill(pool, table, lengths)
    return pool, table, counts


def fill(pool: Tensor, table: Tensor, lengths: list[int]) -> None:
    pool.fill_(torch.nan)
    for b, n in enumerate(lengths):
        for i in range(-(-n // PAGE)):
            rows = min(PAGE, n - i * PAGE)
            pool[:, table[b, i], :rows] = torch.randn(2, rows, HKV, D, device="cuda").bfloat16()


def run(
    launcher: Launcher,
    tensors: dict[str, Tensor],
    numbers: dict[str, int],
    change: Callable[[], None],
    expected: Callable[[], tuple[Tensor, Tensor]],
) -> None:
    """Launches eagerly, then in a graph with other values in the same tensors."""
    o, lse = tensors["o"], tensors["lse"]
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    problem = Problem(**addresses, **numbers)
    launcher.measure(problem)
    memory = torch.full((problem.workspace_bytes + 256,), 255, dtype=torch.uint8, device="cuda")
    problem.workspace = -(-memory.data_ptr() // 256) * 256

    def check() -> None:
        torch.cuda.synchronize()
        want, want_lse = expected()
        torch.testing.assert_close(o, want.view(o.shape), atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(lse, want_lse.view(lse.shape), atol=2e-3, rtol=1e-3)

    o.fill_(torch.nan), lse.fill_(torch.nan)
    launcher.launch(problem)
    check()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher.launch(problem)
    change()
    o.fill_(torch.nan), lse.fill_(torch.nan)
    graph.replay()
    check()


@pytest.mark.parametrize("is_narrow", [False, True])
def test_decoding(tmp_path: Path, is_narrow: bool) -> None:
    bindings = ["keys=paged", f"page={PAGE}", "positions=end", "workers=132"]
    defines = ["NARROW"] if is_narrow else []
    bindings += ["cache=e4m3", "scales=head"] if is_narrow else []
    launcher = Launcher(tmp_path, "forward_in_parts", bindings, *defines)
    pool, table, lengths = cache([1000, 1, 0, 77, 2048])
    scale = torch.full((HKV,), 0.02, device="cuda")
    k, v = (pool / 0.02).to(torch.float8_e4m3fn) if is_narrow else pool
    q = torch.randn(B, 1, H, D, device="cuda").bfloat16()
    tensors = {"q": q, "k": k, "v": v, "table": table, "lengths": lengths, "scale": scale}
    tensors |= {"o": torch.empty_like(q), "lse": torch.empty(B, H, 1, device="cuda")}

    def change() -> None:
        counts = [5, 2000, 640, 0, 1]
        fill(pool, table, counts)
        if is_narrow:
            k.copy_(pool[0] / 0.02), v.copy_(pool[1] / 0.02)
        lengths.copy_(torch.tensor(counts))

    def expected() -> tuple[Tensor, Tensor]:
        scales = {"k_scale": scale, "v_scale": scale} if is_narrow else {}
        where = {"table": table, "lengths": lengths, "max_keys": MOST_KEYS}
        return tesela.attention_paged(q, k, v, "causal", return_lse=True, **where, **scales)

    run(launcher, tensors, {"pages": len(k)}, change, expected)


def test_ragged_prompts(tmp_path: Path) -> None:
    bindings = ["queries=ragged", "keys=paged", f"page={PAGE}", "positions=end"]
    launcher = Launcher(tmp_path, "forward", bindings, "RAGGED")
    pool, table, lengths = cache([1000, 1, 300, 0, 2048])
    tokens = 520
    starts = torch.tensor([0, 400, 401, 401, 401, 520], dtype=torch.int32, device="cuda")
    q = torch.randn(tokens, H, D, device="cuda").bfloat16()
    tensors = {"q": q, "k": pool[0], "v": pool[1], "table": table, "lengths": lengths}
    tensors |= {"starts": starts, "o": torch.empty_like(q)}
    tensors |= {"lse": torch.empty(H, tokens, device="cuda")}

    def change() -> None:
        counts = [64, 400, 1999, 20, 1]
        fill(pool, table, counts)
        lengths.copy_(torch.tensor(counts))
        starts.copy_(torch.tensor([0, 60, 460, 500, 520, 520]))

    def expected() -> tuple[Tensor, Tensor]:
        where = {"table": table, "lengths": lengths, "starts_q": starts, "max_queries": 400}
        return tesela.attention_paged(
            q, pool[0], pool[1], "causal", return_lse=True, max_keys=MOST_KEYS, **where
        )

    numbers = {"pages": pool.shape[1], "tokens": tokens, "most_queries": 400}
    run(launcher, tensors, numbers, change, expected)
