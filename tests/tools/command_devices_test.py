# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela devices` end to end: `command_devices_test.py PATH-OF-TESELA [unittest options]`.

import json
import os

from command_case import ENVIRONMENT, SMALL, CommandTest, main


class Devices(CommandTest):
    def test_the_host_is_always_there(self):
        self.assertIn("host", self.output("devices"))
        devices = json.loads(self.output("devices", "--json"))
        self.assertEqual(devices[0]["kind"], "host")
        self.assertGreater(devices[0]["processors"], 0)
        self.assertGreater(devices[0]["memory_bytes"], 0)

    def test_what_assembles_is_named(self):
        version = "release 99.1, V99.1.5"
        program = self.file(
            "ptxas", f"#!/bin/sh\necho 'Cuda compilation tools, {version}'\necho 'Build of_a_test'\n"
        )
        os.chmod(program, 0o755)
        self.environment["PATH"] = os.path.dirname(program) + ":" + self.environment["PATH"]
        line = self.output("devices").splitlines()[-1]
        self.assertIn(f"assembled by {program} ({version}, Build of_a_test)", line)
        self.assertIn("the driver would", line)
        self.file("ptxas", "#!/bin/sh\n")
        self.assertIn("does not tell its version", self.output("devices").splitlines()[-1])
        self.environment["PATH"] = "/nowhere"
        self.environment["CUDA_HOME"] = "/nowhere"
        line = self.output("devices").splitlines()[-1]
        if "assembled by /usr/local/cuda" not in line:
            self.assertIn("assembled by the driver: no ptxas was found", line)
            self.assertIn("nvidia-cuda-nvcc", line)

    def test_a_gpu_that_is_not_there(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        message = self.error("run", "causal", "--target", "sm_80", expect=ENVIRONMENT)
        self.assertIn("tesela: error: ", message)
        self.assertIn("--target host", message)
        # An unknown target is an error of the user, not of the machine.
        for command in ["run", "tune"]:
            self.assertIn("'sm_75' is not known", self.error(command, "causal", "--target", "sm_75"))
        # auto takes the host.
        report = self.run_json("causal", *SMALL[2:])
        self.assertEqual(report["device"]["target"], "host")


if __name__ == "__main__":
    main()
