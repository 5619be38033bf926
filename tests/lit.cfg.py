# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# lit's configuration: IR tests, `// RUN: tesela-opt %s ... | FileCheck %s`.

import os
import lit.formats

config.name = "Tesela"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)

config.environment["PATH"] = os.path.pathsep.join(
    [config.tesela_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
)
config.substitutions.append(("%templates", config.tesela_templates_dir))
# Absent optional tools are features, so that a test can say `// REQUIRES: ptxas`.
if config.ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", config.ptxas))
