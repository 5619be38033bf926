# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks and times the engines, case by case. The result is what `--json` writes.

import argparse
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
import dataclasses
from typing import Any

import torch

import c_api

import backward
import engines
import gradients
import machine
import reference
import summary
import tiles
import timing
from cases import Case
from options import PEERS


@dataclasses.dataclass(frozen=True)
class Pass:
    """How one pass of attention (forward or backward) is checked and timed."""

    data: Callable[[Case, int], engines.Data]  # (case, seed) -> the inputs
    # -> (what is wrong with an engine's result, or None; the errors for the JSON)
    check: Callable[[Case, Any, engines.Prepared], tuple[str | None, dict[str, Any]]]
    flops_of: Callable[[Case, float], float]  # (case, number of pairs) -> floating-point operations


PASSES = {
    "forward": Pass(engines.Data, reference.check, Case.flops_of),
    "backward": Pass(backward.Data, gradients.check, Case.backward_flops_of),
}


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def versions(library: c_api.Library) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    uuid = getattr(properties, "uuid", None)
    return {
        "device": properties.name,
        "uuid": f"GPU-{uuid}" if uuid else None,
        "tesela": {
            "version": library.version,
            "library": library.path,
            "source": machine.source_version(),
        },
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "triton": triton_version(),
    }


def triton_version() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return triton.__version__


def prepare(
    engine: Any, case: Case, data: engines.Data, check: Callable
) -> tuple[engines.Prepared | None, dict[str, Any]]:
    """(a Prepared or None, its entry in the results). None unless the result is right."""
    where = f"{engine.name}, {case.group}, {case.label}"
    try:
        prepared = engine.prepare(case, data)
        fault, errors = check(case, data, prepared)
    except engines.Unavailable as reason:
        say(f"left out: {where}: {reason}")
        return None, {"status": "left out", "reason": str(reason)}
    except Exception as failure:  # a peer or its compiler may raise anything
        reason = f"{type(failure).__name__}: {failure}".strip()
        # A peer that refuses a shape is left out. If Tesela or a prototype refuses one, that is a
        # failure.
        status = "left out" if engine.name.split("_")[0] in PEERS else "failed"
        say(f"{status}: {where}: {reason.splitlines()[0]}")
        return None, {"status": status, "reason": reason[:2000]}
    entry = {"status": "ok", **errors, **prepared.notes}
    if fault:
        say(f"WRONG, not timed: {where}: {fault}")
        return None, {**entry, "status": "wrong", "reason": fault}
    return prepared, entry


def run_case(
    case: Case, all_engines: Sequence[Any], options: argparse.Namespace, order: random.Random
) -> dict[str, Any]:
    chosen = PASSES[options.pass_name]
    data = chosen.data(case, options.seed)
    entries, prepared = {}, {}
    for engine in all_engines:
        if not engine.applies(case):
            continue
        if engine.name not in summary.OURS and not summary.to_compare(entries):
            break
        ready, entries[engine.name] = prepare(engine, case, data, chosen.check)
        if ready:
            prepared[engine.name] = ready
    if summary.to_compare(entries):
        measured = {}
        if "bursts" in options.modes:
            measured["bursts"] = timing.bursts(prepared, data.count, options.repetitions, order)
        if "sustained" in options.modes:
            measured["sustained"] = timing.sustained(
                prepared, data.count, options.rounds, options.block_ms, order
            )
        for mode, times in measured.items():
            for name, values in times.items():
                entries[name][mode] = summary.spread(values)
    counted = case.variant.kept is None
    for name, ready in prepared.items():
        if ready.tile and not counted:
            entry = entries[name]
            entry["tiles"], pairs = tiles.needed(case, data.setting, *ready.tile, data.device)
            entry["tile_flops"] = chosen.flops_of(case, case.batch * case.heads * pairs)
    pairs = tiles.kept_pairs(case, data.setting, data.device) if counted else case.pairs
    return {
        "group": case.group,
        "label": case.label,
        "shape": case.describe(),
        "sets_of_inputs": data.count,
        "numbers": data.setting.numbers(),
        "flops": chosen.flops_of(case, pairs),
        "engines": entries,
    }


def run(
    cases: Sequence[Case],
    library: c_api.Library,
    all_engines: Sequence[Any],
    options: argparse.Namespace,
    save: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """The results of all cases. Calls `save(results)` after each case."""
    order = random.Random(options.seed)
    results = versions(library)
    results["settings"] = {
        "pass": options.pass_name,
        "modes": list(options.modes),
        "repetitions": options.repetitions,
        "rounds": options.rounds,
        "block_ms": options.block_ms,
        "seed": options.seed,
        "schedule": options.schedule,
        "deterministic_schedule": options.deterministic_schedule,
        "tolerance": reference.TOLERANCE[options.dtype],
    }
    results["state"] = {"start": machine.gpu_state(results["uuid"])}
    results["cases"] = []
    for index, case in enumerate(cases):
        start = time.perf_counter()
        try:
            results["cases"].append(run_case(case, all_engines, options, order))
        except RuntimeError as failure:  # no memory for the inputs, or a kernel broke the context
            results["stopped"] = f"{case.group}, {case.label}: {failure}"
            say(f"STOPPED at {results['stopped']}")
            break
        results["ratios"] = summary.geometric_means(results["cases"])
        save(results)
        torch.cuda.empty_cache()
        seconds = time.perf_counter() - start
        say(f"[{index + 1}/{len(cases)}] {case.group}, {case.label}: {seconds:.1f} s")
    results["state"]["end"] = machine.gpu_state(results["uuid"])
    save(results)
    return results
