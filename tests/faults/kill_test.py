# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Processes are killed (kill -9) at random times while they compile and store kernels, two at a time on one folder, and
# in each system call that writes an entry. Afterwards every entry must verify, and a process that is not killed must
# get every kernel.

import json
import os
import random
import subprocess
import time

from faults import Faults

faults = Faults("kill -9 while kernels are compiled and published")
random.seed(0)
kernels = 4000 if faults.long else 200
kills = kernels // 4  # a fast machine needs more kernels for this many kills


def start(first):
    return subprocess.Popen(
        [faults.worker, faults.cache, "compile", str(first), "60000"],
        env=faults.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def reports(worker):
    """The lines that it printed before it was killed."""
    for line in worker.communicate()[0].splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            pass  # it was killed while it printed this line


# The longest time in seconds until a process is killed. A process starts in some 10 ms, and needs about 1 ms for each
# kernel, or 10 ms on a slow disk. After a round without progress the time is doubled, for busy machines.
SHORTEST = 0.02
patience = SHORTEST
done, killed, compiled = 0, 0, 0
while done < kernels or killed < kills:
    # Both begin at the first kernel that is not finished, so each waits for the other's locks.
    workers = [start(done) for _ in range(2)]
    before = done
    time.sleep(random.uniform(0, patience))
    for worker in workers:
        time.sleep(random.uniform(0, 0.003))
        killed += worker.poll() is None
        worker.kill()
    for worker in workers:
        for report in reports(worker):
            if "kernel" in report:
                done = max(done, report["kernel"] + 1)
                compiled += report["compiled"]
    patience = max(SHORTEST, patience / 2) if done > before else 2 * patience

faults.say(f"{killed} processes killed while they published {done} kernels and told of {compiled}; "
           f"{len(faults.temporaries())} unfinished files left behind")
faults.expect_whole(len(faults.tesela_cache("list")[1]))
lines, _ = faults.work("compile", 0, done)
faults.expect(lines[-1] == {"compiled": 0, "warnings": 0},
              f"a process left alone finds all kernels, each the right one: {lines[-1]}")

for call, environment in faults.calls_that_fail("kill"):
    folder = os.path.join(faults.temporary.name, call)
    if call != "mkdir":
        faults.work("compile", 0, 3, folder=folder)
    killed = subprocess.run([faults.worker, folder, "compile", "0", "10"],
                            env={**faults.environment, **environment}, capture_output=True)
    faults.expect(killed.returncode == -9,
                  f"killed in {call}: {len(faults.temporaries(folder))} unfinished files")
    lines, _ = faults.work("compile", 0, 10, folder=folder)
    expected = {"compiled": 10 if call == "mkdir" else 7, "warnings": 0}
    faults.expect(lines[-1] == expected, f"killed in {call}: the next process: {lines[-1]}")
    faults.expect_whole(10, folder)
faults.end()
