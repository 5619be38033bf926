# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The additional time of a backward pass for the gradients of captured tensors, in Markdown.
#
#     PYTHONPATH=build/release/python python tools/bench/parameters.py [--length 8192] [--cases slope table] [--flex]
#
# Each case is a score that reads a tensor. A backward pass with the gradients of q, k and v alone is timed beside one
# that also computes the tensor's gradient. They take turns; times are medians of single calls, as in
# tools/bench/dropout.py. --flex adds FlexAttention's backward pass with the tensor's gradient.
#
# --device cpu only tries the script out.

import argparse
import json
import sys

from single_calls import BATCH, HEADS, add_options, begins, medians

TABLE = "attention table(table: f32[H, N]) { score = s + table[h, q - k + Sk - 1] }"
CASES = {
    "slope": "a slope for each head (alibi)",
    "table": "a table of distances, [H, 2 S - 1]",
    "buckets": "32 buckets of distances for each head (t5_bias)",
    "pairs": "a bias for each head and pair, [H, S, S] (learned_bias)",
}


def captured(case: str, length: int, device: str):
    """The captured tensor of `case`."""
    import torch

    shape = {
        "slope": (HEADS,),
        "table": (HEADS, 2 * length - 1),
        "buckets": (HEADS, 32),
        "pairs": (HEADS, length, length),
    }[case]
    dtype = torch.bfloat16 if case == "pairs" else torch.float32
    return 0.1 * torch.randn(shape, device=device, dtype=dtype)


def with_tesela(case: str, tensor):
    import tesela

    if case == "slope":
        return tesela.variant("alibi", slope=tensor)
    if case == "table":
        return tesela.variant(TABLE, table=tensor)
    if case == "buckets":
        return tesela.variant("t5_bias", table=tensor)
    return tesela.variant("learned_bias", bias=tensor)


def with_flex(case: str, tensor, length: int, device: str):
    """FlexAttention with the score of `case`; None if this script has no such score."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    if case == "slope":
        mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, length, length, device=device)
        return lambda *given: compiled(
            *given,
            score_mod=lambda s, b, h, q, k: s + tensor[h] * (k - q),
            block_mask=mask,
        )
    if case == "table":
        return lambda *given: compiled(
            *given, score_mod=lambda s, b, h, q, k: s + tensor[h, q - k + length - 1]
        )
    if case == "pairs":
        return lambda *given: compiled(*given, score_mod=lambda s, b, h, q, k: s + tensor[h, q, k])
    return None


def calls(case: str, dim: int, options: argparse.Namespace) -> dict:
    """{name: a backward pass to be timed}."""
    import tesela
    import torch

    torch.manual_seed(1)
    shape = (BATCH, HEADS, options.length, dim)
    q, k, v, grad = (
        torch.randn(shape, device=options.device, dtype=torch.bfloat16) for _ in range(4)
    )
    given = [each.requires_grad_() for each in (q, k, v)]
    tensor = captured(case, options.length, options.device)
    trained = tensor.clone().requires_grad_()

    def backward(out, inputs):
        return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)

    found = {
        "without": backward(tesela.attention(*given, with_tesela(case, tensor)), given),
        "with": backward(tesela.attention(*given, with_tesela(case, trained)), [*given, trained]),
    }
    if options.flex:
        attend = with_flex(case, trained, options.length, options.device)
        if attend:
            found["flex"] = backward(attend(*given), [*given, trained])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="what gradients of captured tensors add")
    add_options(parser, [128])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--flex", action="store_true", help="FlexAttention as well")
    options = parser.parse_args()
    if not begins(options, "backward passes"):
        return 77
    print(
        "| D | what the score reads | ms without its gradient | ms with | ratio | FlexAttention, ms with |"
    )
    print("|---:|---|---:|---:|---:|---:|", flush=True)
    rows = []
    for dim in options.dims:
        for case in options.cases:
            found = medians(calls(case, dim, options), options)
            rows.append([dim, case, found])
            flex = f"{found['flex']:.3f}" if "flex" in found else ""
            print(
                f"| {dim} | {CASES[case]} | {found['without']:.3f} | {found['with']:.3f} "
                f"| {found['with'] / found['without']:.2f} | {flex} |",
                flush=True,
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
