# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every byte of an entry is flipped in turn. The entry must never be loaded. For some bytes (with
# --long for each) a context then compiles the kernel again and replaces the entry, and the next
# context must find it.

from faults import Faults

faults = Faults("every byte of an entry flipped in turn")
lines, warnings = faults.work("flip", 1 if faults.long else 100)
report = lines[-1]
faults.expect(report.get("bytes", 0) > 1000, f"{report}")
faults.expect(report.get("warnings") == report.get("whole_way"), "a warning for each that was asked for")
faults.expect_whole(1)
faults.end()
