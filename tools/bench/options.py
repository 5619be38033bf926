# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What can be asked of the benchmark on the command line.

import argparse
import os

import cases
import summary

SHAPES = ("peers", "gqa", "variants")
PEERS = ("cudnn", "fa2", "flex")


def dimensions(text):
    """64,128 or 192/128 (D_qk/D_v): [(D_qk, D_v)]."""
    result = []
    for item in text.split(","):
        parts = [int(part) for part in item.split("/")]
        if len(parts) > 2 or min(parts) < 1:
            raise ValueError(item)
        result.append((parts[0], parts[-1]))
    return result


def lengths(text):
    result = [int(item) for item in text.split(",")]
    if min(result) < 1:
        raise ValueError(text)
    return result


def names(allowed):
    def parse(text):
        chosen = [item for item in text.split(",") if item]
        if unknown := [item for item in chosen if item not in allowed]:
            raise argparse.ArgumentTypeError(
                f"'{unknown[0]}' is unknown: choose from {', '.join(allowed)}, joined by commas"
            )
        return chosen

    return parse


def parser():
    result = argparse.ArgumentParser(
        prog="python3 tools/bench",
        description="Times Tesela beside cuDNN, FlashAttention-2 and FlexAttention, as PyTorch has "
        "them, in one process on the same tensors. Every result is checked before it is timed. "
        "docs/benchmark.md tells the method. Exit status: 0 done, 1 a result was wrong, 2 bad "
        "usage, 3 PyTorch, a GPU or the library is missing.",
    )
    add = result.add_argument
    add("--library", default=None, help="libtesela.so; default: as the loader finds it")
    add(
        "--shapes",
        type=names((*SHAPES, "all")),
        default=None,
        help="peers, gqa, variants, or all; default: peers",
    )
    add(
        "--dims",
        type=dimensions,
        default=None,
        help="head dimensions of the peers' shapes, 192/128 for D_qk/D_v; default: 64,128,256",
    )
    add(
        "--lengths",
        type=lengths,
        default=None,
        help="of the peers' and gqa shapes; default: 512 to 16384, and 2048 to 65536",
    )
    add("--causal", choices=("no", "yes", "both"), default="both", help="of the peers' shapes")
    add("--dtype", choices=("bf16", "f16"), default="bf16")
    add("--peers", type=names(PEERS), default=list(PEERS), help="cudnn,fa2,flex; '' for none")
    add("--prototypes", metavar="DIR", help="a folder of cubins with its spec.json, timed as well")
    add(
        "--mode",
        choices=(*summary.MODES, "both"),
        default=None,
        help="single launches with rests between, blocks back to back, or both (the default)",
    )
    add("--repetitions", type=int, default=None, help="bursts of each engine; default: 21")
    add("--rounds", type=int, default=None, help="sustained blocks of each engine; default: 5")
    add("--block-ms", type=float, default=80.0, help="length of a sustained block; default: 80")
    add("--seed", type=int, default=1)
    add("--json", metavar="FILE", help="all results; written anew after each case")
    add("--svg", metavar="FILE", help="a chart")
    add(
        "--quick",
        action="store_true",
        help="a short look, unless told otherwise: D 128, lengths 1024 and 8192, some bursts",
    )
    add("--results", metavar="FILE", help="tables and chart of an earlier --json; runs nothing")
    return result


def parse(arguments=None):
    options = parser().parse_args(arguments)
    quick = options.quick
    shapes = options.shapes or ["peers"]
    options.shapes = list(SHAPES) if "all" in shapes else shapes
    options.dims = options.dims or ([(128, 128)] if quick else [(64, 64), (128, 128), (256, 256)])
    options.lengths = options.lengths or ([1024, 8192] if quick else None)
    mode = options.mode or ("bursts" if quick else "both")
    options.modes = summary.MODES if mode == "both" else (mode,)
    options.repetitions = options.repetitions or (9 if quick else 21)
    options.rounds = options.rounds or (3 if quick else 5)
    return options


def library_path(given):
    """The library to load: what was given, that of a build in this tree, or the loader's."""
    if given:
        return given
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    built = os.path.join(root, "build", "release", "runtime", "libtesela.so")
    return built if os.path.exists(built) else "libtesela.so.0"


def chosen_cases(options):
    variants = {"no": [cases.FULL], "yes": [cases.CAUSAL], "both": [cases.FULL, cases.CAUSAL]}
    result = []
    if "peers" in options.shapes:
        chosen = variants[options.causal]
        result += cases.peer_cases(options.dims, options.lengths, chosen, options.dtype)
    if "gqa" in options.shapes:
        result += cases.gqa_cases(options.lengths, options.dtype)
    if "variants" in options.shapes:
        result += cases.variant_cases(options.dtype)
    return result
