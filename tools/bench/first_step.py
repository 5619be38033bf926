# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How long the first forward and backward pass of a fresh process take together in PyTorch, with nothing compiled
# before; in Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/first_step.py [--runs 3] [--peers flex]
#
# Each run is a process of its own with an empty cache. Before the timing it imports PyTorch and tesela, starts the GPU,
# multiplies two matrices and makes the variant. The time goes from the call of attention until the gradients are on the
# device. The table also has the two passes alone (each until it ends on the device), and the same step again when
# everything is compiled. The target is 1.5 s.
#
# --device cpu only tries the script out.

import argparse
import json
import statistics
import sys
import time

import fresh_process

CASES = ("causal", "documents", "softcap", "slopes")
BATCH, HEADS = 2, 16


def attention(case: str, engine: str, length: int, device: str):
    """(the call, the tensors besides q, k and v whose gradients are asked for)."""
    import torch

    ids = torch.arange(length, device=device, dtype=torch.int32) // 300
    slopes = torch.full((HEADS,), 0.1, device=device)
    if engine == "flex":
        from torch.nn.attention import flex_attention as flex

        def causal(b, h, q, k):
            return q >= k

        def documents(b, h, q, k):
            return (q >= k) & (ids[q] == ids[k])

        def softcap(score, b, h, q, k):
            return 50 * torch.tanh(score / 50)

        if case == "slopes":
            slopes.requires_grad_()

        def alibi(score, b, h, q, k):
            return score + slopes[h] * (k - q)

        score = {"softcap": softcap, "slopes": alibi}.get(case)
        compiled = torch.compile(flex.flex_attention, dynamic=False)
        mask_of = documents if case == "documents" else causal

        def attend(q, k, v):
            mask = flex.create_block_mask(mask_of, None, None, length, length, device=device)
            return compiled(q, k, v, score, mask)

        return attend, [slopes] if case == "slopes" else []
    import tesela
    import tesela.torch

    if case == "slopes":
        slopes.requires_grad_()
        variant = tesela.variant("alibi", slope=slopes)
        return lambda q, k, v: tesela.attention(q, k, v, variant), [slopes]
    variant = {
        "causal": lambda: tesela.variant("causal"),
        "documents": lambda: tesela.variant("documents_causal", id=ids.repeat(BATCH, 1)),
        "softcap": lambda: tesela.variant("softcap", cap=50.0),
    }[case]()
    return lambda q, k, v: tesela.attention(q, k, v, variant), []


def measure(options: argparse.Namespace) -> None:
    """Runs in one process: prints seconds as JSON."""
    import torch

    case, engine, head_dim = options.one[0], options.one[1], int(options.one[2])
    device = options.device

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    def tensor():
        return torch.randn(
            (BATCH, HEADS, options.length, head_dim), device=device, dtype=torch.bfloat16
        )

    given = [tensor().requires_grad_() for _ in range(3)]
    grad = tensor()
    attend, more = attention(case, engine, options.length, device)
    square = torch.randn(512, 512, device=device, dtype=torch.bfloat16, requires_grad=True)
    # This starts libraries of products and autograd's threads, and imports what PyTorch imports for gradients.
    torch.autograd.grad(square @ square, square, square.detach())
    wait()
    seconds = {}
    for name in ("first", "again"):
        begin = time.perf_counter()
        out = attend(*given)
        wait()
        between = time.perf_counter()
        torch.autograd.grad(out, (*given, *more), grad)
        wait()
        end = time.perf_counter()
        seconds[name] = [end - begin, between - begin, end - between]
    print(json.dumps(seconds))


def run(case: str, engine: str, head_dim: int, options: argparse.Namespace):
    """The measurements of a fresh process, or a sentence if it fails."""
    command = [sys.executable, __file__, "--one", case, engine, str(head_dim)]
    command += ["--device", options.device, "--length", str(options.length)]
    return fresh_process.measured(command, options.seconds)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="the first forward and backward pass of a process")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--peers", nargs="*", choices=("flex",), default=[])
    parser.add_argument("--runs", type=int, default=3, help="processes a figure; default: 3")
    parser.add_argument(
        "--seconds", type=float, default=120, help="that a process may take; default: 120"
    )
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options)
        return 0
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    print(f"{name}, PyTorch {torch.__version__}, length {options.length}, {HEADS} heads, bf16\n")
    print("| case | D | | both passes, s [all runs] | forward | backward | again, ms |")
    print("|---|--:|---|---|--:|--:|--:|", flush=True)
    failed = 0
    for case in options.cases:
        for head_dim in map(int, options.dims.split(",")):
            for engine in ("tesela", *options.peers):
                got = [run(case, engine, head_dim, options) for _ in range(options.runs)]
                wrong = [each for each in got if isinstance(each, str)]
                if wrong:
                    failed += engine == "tesela"
                    print(f"| {case} | {head_dim} | {engine} | {wrong[0]} | | | |", flush=True)
                    continue
                firsts = sorted(each["first"] for each in got)
                both, forward, backward = firsts[len(firsts) // 2]
                again = statistics.median(each["again"][0] for each in got)
                runs = ", ".join(f"{each[0]:.2f}" for each in firsts)
                print(
                    f"| {case} | {head_dim} | {engine} | {both:.2f} [{runs}] | {forward:.2f} "
                    f"| {backward:.2f} | {1e3 * again:.2f} |",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
