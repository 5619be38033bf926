# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command: ``tesela``, or ``python -m tesela``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tesela import _ptxas


def main() -> None:
    """Replaces this process by the package's command, which finds the ptxas of the extra."""
    command = Path(__file__).parent / "bin" / "tesela"
    environment = dict(os.environ)
    program = _ptxas.find()
    if program is not None:
        folders = [str(Path(program).parent), environment.get("PATH", "")]
        environment["PATH"] = os.pathsep.join(folders)
    os.execve(command, [str(command), *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
