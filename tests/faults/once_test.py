# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# 16 processes with 8 threads, each thread with a context of its own, ask an empty folder for the same kernels at once.
# Each kernel must be compiled once on this machine, and once on each of two machines that share a folder. If the folder
# cannot be written, everybody compiles, and nobody waits for a kernel that never comes.

import json
import os
import subprocess
import time

from faults import Faults

faults = Faults("16 processes of 8 threads on one cold folder")
PROCESSES, THREADS = 16, 8
kernels, milliseconds = (64, 100) if faults.long else (4, 50)


def ask(folder, machines=1):
    """(compiled kernels, warnings, seconds). A "machine" is a separate folder for locks."""
    locks = [os.path.join(faults.environment["XDG_RUNTIME_DIR"], str(machine))
             for machine in range(machines)]
    for path in locks:
        os.makedirs(path, exist_ok=True)
    workers = [
        subprocess.Popen(
            [faults.worker, folder, "together", str(kernels), str(THREADS), str(milliseconds)],
            env=dict(faults.environment, XDG_RUNTIME_DIR=locks[process % machines]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for process in range(PROCESSES)
    ]
    for worker in workers:
        worker.stdout.readline()  # ready
    begin = time.monotonic()
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    compiled = warnings = 0
    for worker in workers:
        output, _ = worker.communicate()
        faults.expect(worker.returncode == 0, "a process got every kernel")
        report = json.loads(output.splitlines()[-1])
        compiled += report["compiled"]
        warnings += report["warnings"]
    return compiled, warnings, time.monotonic() - begin


compiled, warnings, seconds = ask(faults.cache)
faults.expect((compiled, warnings) == (kernels, 0),
              f"{PROCESSES * THREADS} requests each for {kernels} kernels: {compiled} compiled, "
              f"{warnings} warnings, {seconds:.2f} s")
faults.expect_whole(kernels)
faults.expect(os.listdir(os.path.join(faults.environment["XDG_RUNTIME_DIR"], "0", "tesela")) == [],
              "no lock's file is left")
compiled, _, seconds = ask(faults.cache)
faults.expect(compiled == 0, f"again, from a warm folder: {compiled} compiled, {seconds:.2f} s")

shared = os.path.join(faults.temporary.name, "shared")
compiled, warnings, seconds = ask(shared, machines=2)
faults.expect(kernels <= compiled <= 2 * kernels and warnings == 0,
              f"two machines, one cold folder: {compiled} compiled, {warnings} warnings, "
              f"{seconds:.2f} s")
faults.expect_whole(kernels, shared)

file = os.path.join(faults.temporary.name, "file")
with open(file, "w"):
    pass
compiled, warnings, seconds = ask(os.path.join(file, "cache"))
everybody = PROCESSES * THREADS
faults.expect(compiled == everybody * kernels and warnings == everybody,
              f"without a folder: {compiled} compiled, {warnings} warnings in {everybody} contexts, "
              f"{seconds:.2f} s")
faults.end()
