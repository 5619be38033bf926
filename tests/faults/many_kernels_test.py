# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A folder with many kernels (300, with --long 10,000 as in docs/log/2026-11-22-cache-on-disk.md).
# All kernels must be found, and a limit must remove the least recently used ones. It prints the
# time of each operation beside that for a folder with few kernels.

import os
import subprocess
import time

from faults import Faults

faults = Faults("many kernels")
FEW, MANY = 10, 10_000 if faults.long else 300
ENTRY_BYTES = 25_000  # like a kernel of the host
REPEAT = 9 if faults.long else 1
few, many = (os.path.join(faults.temporary.name, name) for name in ["few", "many"])


def milliseconds(folder, *arguments):
    """The fastest time of the whole command. Other processes can only make it longer."""
    times = []
    for _ in range(REPEAT):
        begin = time.perf_counter()
        subprocess.run([faults.command, *arguments, "--cache-folder", folder], check=True,
                       env=faults.environment, stdout=subprocess.DEVNULL)
        times.append(1000 * (time.perf_counter() - begin))
    return min(times)


RUN = ["run", "causal", "--target", "host", "--repeat", "0", "--no-check", "--heads", "1",
       "--length", "16", "--head-dim", "64"]
rows = {}
for folder, count in [(few, FEW), (many, MANY)]:
    begin = time.perf_counter()
    faults.work("fill", count, ENTRY_BYTES, folder=folder)
    rows.setdefault("store, in a row (each)", []).append(
        1000 * (time.perf_counter() - begin) / count)
    for row in [["cache", "list"], ["cache", "stats"], ["cache", "verify"]]:
        rows.setdefault("tesela " + " ".join(row), []).append(milliseconds(folder, *row))
    milliseconds(folder, *RUN)  # after this run the folder has the kernel
    rows.setdefault("tesela run, warm", []).append(milliseconds(folder, *RUN))
    lines, _ = faults.work("time", 50 if faults.long else 3, folder=folder)
    for name, value in lines[-1].items():
        rows.setdefault(name.replace("_ms", "").replace("_", " "), []).append(value)

faults.say(f"{'milliseconds':28} {FEW:>10} {MANY:>10} kernels")
for name, values in rows.items():
    faults.say(f"{name:28} " + " ".join(f"{value:10.3f}" for value in values))

kernels = faults.tesela_cache("list", folder=many)[1]
faults.expect(len(kernels) > MANY and not any("damage" in kernel for kernel in kernels),
              f"{len(kernels)} kernels are listed, none of them damaged")
for age, kernel in enumerate(kernels):
    used = time.time() - 1000 * (age + 1)
    os.utime(kernel["path"], (used, used))
half = sum(kernel["bytes"] for kernel in kernels[: len(kernels) // 2])
begin = time.perf_counter()
report = faults.tesela_cache("prune", "--to", str(half), folder=many)[1]
faults.say(f"prune to half of it: {1000 * (time.perf_counter() - begin):.0f} ms")
left = faults.tesela_cache("list", folder=many)[1]
faults.expect([kernel["key"] for kernel in left]
              == [kernel["key"] for kernel in kernels[: len(kernels) // 2]]
              and report["bytes_left"] == half,
              f"{report['removed_kernels']} kernels removed, those used longest ago")
faults.end()
