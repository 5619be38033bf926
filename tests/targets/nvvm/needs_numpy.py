# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Import this before NumPy. If this Python has no NumPy, it runs the script again with Debian's Python. If that has none
# either, the script ends with exit code 77: skipped.

import importlib.util
import os
import sys

if not importlib.util.find_spec("numpy"):
    debian = "/usr/bin/python3"
    if "TESELA_NO_NUMPY" not in os.environ and os.access(debian, os.X_OK):
        os.environ["TESELA_NO_NUMPY"] = "1"  # so that this is tried only once
        os.execv(debian, [debian, *sys.argv])
    print("skipped: no Python here has NumPy; install python3-numpy", file=sys.stderr)
    sys.exit(77)
