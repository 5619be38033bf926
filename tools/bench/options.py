# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The command line options of the benchmark.

import argparse
import os
import re
from collections.abc import Callable, Sequence

import cases
import fa3
import library
import sparsity
import summary

SHAPES = ("peers", "gqa", "shared", "decode", "variants", "sparsity", "forms", "library")
PEERS = ("cudnn", "fa3", "fa2", "flex")
PASSES = ("forward", "backward")


def whole_number(text: str) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to 999999999")
    return int(text)


def milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 10000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of milliseconds from 1 to 10000")
    return value


def output(text: str) -> str:
    """A path of a file to write. Its folder must exist, so that no GPU time is spent in vain."""
    folder = os.path.dirname(text) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(
            f"there is no folder '{folder}' for '{text}': make it first"
        )
    return text


def fa3_folder(text: str) -> str:
    if name := fa3.missing(text):
        raise argparse.ArgumentTypeError(f"'{text}' has no {name}: name {fa3.SOURCE}")
    return text


def dimensions(text: str) -> list[tuple[int, int]]:
    """[(D_qk, D_v)] of a text such as "64,128" or "192/128" (D_qk/D_v)."""
    result = []
    for item in text.split(","):
        parts = re.split("[/x]", item)
        if len(parts) > 2:
            raise argparse.ArgumentTypeError(
                f"'{item}' has {len(parts)} numbers: write D, or D_qk/D_v as in 192/128"
            )
        result.append((whole_number(parts[0]), whole_number(parts[-1])))
    return result


def lengths(text: str) -> list[int]:
    return [whole_number(item) for item in text.split(",")]


def names(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = [item for item in text.split(",") if item]
        if unknown := [item for item in chosen if item not in allowed]:
            raise argparse.ArgumentTypeError(
                f"'{unknown[0]}' is unknown: choose from {', '.join(allowed)}, joined by commas"
            )
        return chosen

    return parse


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python3 tools/bench",
        description="Times Tesela, forward or backward, beside cuDNN, FlashAttention-2 and "
        "FlexAttention, as PyTorch has them, and FlashAttention-3, in one process on the same "
        "numbers. Every result is checked before it is timed. The tables go to standard output as "
        "Markdown. docs/benchmark.md tells the method. Exit status: 0 done, 1 a result was wrong or Tesela was never timed, 2 bad "
        "usage, 3 PyTorch, a GPU or the library is missing.",
    )
    add = result.add_argument
    add("--library", default=None, help="libtesela.so; default: as the loader finds it")
    add(
        "--pass",
        dest="pass_name",
        choices=PASSES,
        default="forward",
        help="attention, or the gradients of q, k and v alone; default: forward",
    )
    add(
        "--shapes",
        type=names((*SHAPES, "all")),
        default=None,
        help=f"{', '.join(SHAPES)}, or all; default: peers",
    )
    add(
        "--variants",
        type=names(tuple(library.ENTRIES)),
        default=None,
        metavar="NAMES",
        help="of the library's shapes; default: all of templates/variants",
    )
    add(
        "--dims",
        type=dimensions,
        default=None,
        help="head dimensions of the peers' shapes, 192/128 or 192x128 for D_qk/D_v; default: "
        "64,128,256",
    )
    add(
        "--lengths",
        type=lengths,
        default=None,
        help="of the peers', gqa, shared, decode and library's shapes; default: 512 to 16384, 2048 "
        "to 65536, 2048 to 16384, 8192 and 8192",
    )
    add(
        "--causal",
        choices=("no", "yes", "both"),
        default="both",
        help="of the peers' shapes; both is yes where D_qk and D_v differ",
    )
    add("--dtype", choices=("bf16", "f16"), default="bf16")
    add(
        "--peers",
        type=names(PEERS),
        default=None,
        help=f"{','.join(PEERS)}; '' for none; default: all, fa3 only with --fa3",
    )
    add("--fa3", type=fa3_folder, metavar="DIR", help=f"what fa3 needs: {fa3.SOURCE}")
    add(
        "--schedule",
        metavar="TEXT",
        help="choices of Tesela's schedule for all cases, as tesela_compile takes them: "
        "'block_n = 64'; default: Tesela chooses",
    )
    add(
        "--deterministic-schedule",
        metavar="TEXT",
        help="the same for the deterministic gradients, whose kernels are others; default: that of "
        "--schedule",
    )
    add("--prototypes", metavar="DIR", help="a folder of cubins with its spec.json, timed as well")
    add(
        "--mode",
        choices=(*summary.MODES, "both"),
        default=None,
        help="single launches with rests between, blocks back to back, or both (the default)",
    )
    add("--repetitions", type=whole_number, default=None, help="bursts of each engine; default: 21")
    add(
        "--rounds",
        type=whole_number,
        default=None,
        help="sustained blocks of each engine; default: 5",
    )
    add(
        "--block-ms",
        type=milliseconds,
        default=80.0,
        help="length of a sustained block; default: 80",
    )
    add("--seed", type=int, default=1)
    add("--json", type=output, metavar="FILE", help="all results; written anew after each case")
    add("--svg", type=output, metavar="FILE", help="a chart")
    add(
        "--quick",
        action="store_true",
        help="a short look, unless told otherwise: D 128, lengths 1024 and 8192, some bursts",
    )
    add("--results", metavar="FILE", help="tables and chart of an earlier --json; runs nothing")
    return result


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    command_line = parser()
    options = command_line.parse_args(arguments)
    if options.peers is None:
        options.peers = [name for name in PEERS if name != "fa3" or options.fa3]
    elif "fa3" in options.peers and not options.fa3:
        command_line.error(f"argument --peers: 'fa3' needs --fa3: name {fa3.SOURCE}")
    if options.pass_name == "backward" and options.prototypes:
        command_line.error("argument --prototypes: they are of the forward pass; leave it out")
    if options.pass_name == "forward" and options.deterministic_schedule:
        command_line.error("argument --deterministic-schedule: it needs --pass backward")
    if options.deterministic_schedule is None:
        options.deterministic_schedule = options.schedule
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


def library_path(given: str | None) -> str:
    """The library to load: the given one, or one built in this tree, or the one that the loader
    finds."""
    if given:
        return given
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    built = os.path.join(root, "build", "release", "runtime", "libtesela.so")
    return built if os.path.exists(built) else "libtesela.so.0"


def chosen_cases(options: argparse.Namespace) -> list[cases.Case]:
    result: list[cases.Case] = []
    if "peers" in options.shapes:
        result += cases.peer_cases(options.dims, options.lengths, options.causal, options.dtype)
    if "gqa" in options.shapes:
        result += cases.gqa_cases(options.lengths, options.dtype)
    if "shared" in options.shapes:
        result += cases.shared_cases(options.lengths, options.dtype)
    if "decode" in options.shapes:
        result += cases.decode_cases(options.lengths, options.dtype)
    if "variants" in options.shapes:
        result += cases.variant_cases(options.dtype)
    if "sparsity" in options.shapes:
        result += sparsity.sparsity_cases(options.dtype)
    if "forms" in options.shapes:
        result += sparsity.form_cases(options.dtype)
    if "library" in options.shapes:
        result += library.library_cases(options.dtype, options.lengths, options.variants)
    return result
