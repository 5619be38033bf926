# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The benchmark: `python3 tools/bench --help`.

import argparse
import json
import os
import sys
from typing import Any

import c_api
import chart
import options as command_line
import tables
from summary import MODES, OURS

DONE, BAD_RESULT, ENVIRONMENT = 0, 1, 3


def say(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr, flush=True)


def write(path: str, content: str) -> None:
    """Writes the whole file or nothing, so that an interrupted run leaves the results up to the
    last case."""
    with open(path + ".part", "w") as file:
        file.write(content)
    os.replace(path + ".part", path)


def save(results: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        write(options.json, json.dumps(results, indent=1) + "\n")
    if options.svg:
        write(options.svg, chart.svg(results))


def status(results: dict[str, Any]) -> int:
    entries = [entry for case in results["cases"] for entry in case["engines"].values()]
    bad = [entry for entry in entries if entry["status"] in ("wrong", "failed")]
    if bad:
        say(f"{len(bad)} of {len(entries)} results were wrong or failed; they were not timed")
    ours = [case["engines"].get(name, {}) for case in results["cases"] for name in OURS]
    if not any(mode in entry for entry in ours for mode in MODES):
        say("Tesela was timed in no case")
        return BAD_RESULT
    return BAD_RESULT if bad or "stopped" in results else DONE


def chosen_engines(library: c_api.Library, options: argparse.Namespace) -> list[Any]:
    # These modules import PyTorch.
    import backward
    import engines
    import prototypes

    if options.pass_name == "backward":
        schedules = (options.schedule, options.deterministic_schedule)
        ours = backward.tesela(library, *schedules, device="cuda")
        return [*ours, *backward.peers(options.peers, options.fa3)]
    tesela = engines.Tesela(library, options.schedule)
    result = [tesela, engines.Classified(tesela), *engines.peers(options.peers, options.fa3)]
    return result + (prototypes.prototypes(options.prototypes) if options.prototypes else [])


def run(options: argparse.Namespace) -> int:
    try:
        import torch
    except ImportError:
        say("PyTorch is not installed: `pip install torch`, or redraw a result by --results FILE")
        return ENVIRONMENT
    if not torch.cuda.is_available():
        say("PyTorch finds no CUDA device: the benchmark needs one")
        return ENVIRONMENT
    torch.set_grad_enabled(False)
    torch.cuda.init()
    import bench  # imports PyTorch

    path = command_line.library_path(options.library)
    try:
        library = c_api.Library(path)
        chosen = chosen_engines(library, options)
    except (OSError, AttributeError, c_api.Error) as error:
        say(
            f"{error}: name the library by --library, FlashAttention-3's folder by --fa3, the "
            "prototypes' folder by --prototypes"
        )
        return ENVIRONMENT
    cases = command_line.chosen_cases(options)
    results = bench.run(cases, library, chosen, options, lambda each: save(each, options))
    print(tables.markdown(results))
    return status(results)


def redraw(options: argparse.Namespace) -> int:
    try:
        with open(options.results) as file:
            results = json.load(file)
    except (OSError, ValueError) as error:
        say(f"{options.results} is not a result of --json: {error}")
        return ENVIRONMENT
    save(results, options)
    print(tables.markdown(results))
    return status(results)


def main() -> int:
    options = command_line.parse()
    return redraw(options) if options.results else run(options)


if __name__ == "__main__":
    sys.exit(main())
