# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A folder that can be read but not written: its kernels are used, others are compiled, with one
# warning. A folder that cannot be read: everything is compiled, with one warning. root ignores
# permissions; for root the first folder is mounted read-only, and the second belongs to another
# user.

import os
import stat
import subprocess

from faults import Faults, in_mount_namespace, mounted

root = os.geteuid() == 0
mounts = in_mount_namespace() if root else False
faults = Faults("a read-only folder")


def expect_use(folder):
    lines, warnings = faults.work("compile", 0, 10, folder=folder)
    found = [line["kernel"] for line in lines[:-1] if not line["compiled"]]
    faults.expect(found == [0, 1, 2], f"kernels that were there: {found}")
    faults.expect(lines[-1] == {"compiled": 7, "warnings": 1}, f"the others: {lines[-1]}")
    faults.expect("not kept on disk" in warnings, warnings.strip())
    lines, warnings = faults.work("compile", 0, 3, folder=folder)
    faults.expect(lines[-1] == {"compiled": 0, "warnings": 0},
                  f"who needs nothing new is told nothing: {lines[-1]}")
    faults.expect_whole(3, folder)
    faults.expect(faults.tesela_cache("clear", folder=folder)[0] == 3, "`tesela cache clear` fails")


faults.work("compile", 0, 3)

# There is no folder for locks either.
options = {"environment": {"XDG_RUNTIME_DIR": "", "TMPDIR": "/dev/null"}}
reachable = True
if root:
    options.update(user=65534, group=65534, extra_groups=[])
    reachable = subprocess.run([faults.worker], capture_output=True, user=65534).returncode == 2
os.chmod(faults.temporary.name, stat.S_IRWXU if root else 0)
if reachable:
    lines, warnings = faults.work("compile", 0, 10, **options)
    faults.expect(lines[-1] == {"compiled": 10, "warnings": 1}, f"another's folder: {lines[-1]}")
    faults.expect("Permission denied" in warnings, warnings.strip())
else:
    faults.skip("another user cannot start the build's programs: no folder that is not ours")
os.chmod(faults.temporary.name, stat.S_IRWXU)

if not root:
    modes = stat.S_IRUSR | stat.S_IXUSR
    for path, _, _ in os.walk(faults.cache):
        os.chmod(path, modes)
    expect_use(faults.cache)
    for path, _, _ in os.walk(faults.cache):
        os.chmod(path, modes | stat.S_IWUSR)
elif mounts:
    folder = os.path.join(faults.temporary.name, "read-only")
    with mounted("--bind", "-o", "ro", faults.cache, folder):
        expect_use(folder)
else:
    faults.skip("root may write everywhere, and mounts are not allowed here: no read-only folder")
faults.end()
