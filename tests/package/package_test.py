# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The package as users get it: `package_test.py BUILD-FOLDER CPACK CMAKE`. The test makes the
# package, unpacks it in another folder, inspects it and uses it there.

import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

BUILD = CPACK = CMAKE = ""
LARGEST_PACKAGE = 40_000_000
LARGEST_PACK = 12_000_000
NEWEST_GLIBC = (2, 36)  # that of Debian 12; Ubuntu 24.04 has 2.39
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def command(*arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        command(CPACK, "-G", "TXZ", "-B", cls.folder.name, cwd=BUILD)
        (cls.archive,) = glob.glob(os.path.join(cls.folder.name, "tesela-*-linux-x86_64.tar.xz"))
        with tarfile.open(cls.archive) as archive:
            archive.extractall(os.path.join(cls.folder.name, "elsewhere"))
        name = os.path.basename(cls.archive)[: -len(".tar.xz")]
        cls.root = os.path.join(cls.folder.name, "elsewhere", name)
        cls.tesela = os.path.join(cls.root, "bin", "tesela")
        cls.environment = {"PATH": "/usr/bin:/bin",
                           "TESELA_CACHE_DIR": os.path.join(cls.folder.name, "cache")}

    def inside(self, *parts):
        return os.path.join(self.root, *parts)

    def binaries(self):
        (library,) = glob.glob(self.inside("lib", "libtesela.so.*.*.*"))
        return [self.tesela, library]

    def test_size(self):
        pack = self.inside("share", "tesela", "kernels.pack")  # made by scripts/ship-kernels
        shipped = os.path.getsize(pack) if os.path.exists(pack) else 0
        self.assertLessEqual(shipped, LARGEST_PACK)
        self.assertLessEqual(os.path.getsize(self.archive) - shipped, LARGEST_PACKAGE)

    def test_contents(self):
        found = {
            os.path.relpath(os.path.join(folder, file), self.root)
            for folder, _, files in os.walk(self.root)
            for file in files
        }
        for file in [
            "bin/tesela",
            "include/tesela/Context.h",
            "include/tesela/Status.h",
            "include/tesela/c/kernel.h",
            "include/tesela/tesela.h",
            "lib/cmake/Tesela/TeselaConfig.cmake",
            "lib/libtesela.so",
            "lib/pkgconfig/tesela.pc",
            "share/doc/Tesela/LICENSE",
            "share/tesela/templates/forward.mlir",
            "share/tesela/variants/causal.attn",
        ]:
            self.assertIn(file, found)
        allowed = re.compile(
            r"bin/tesela|include/tesela/(c/)?\w+\.h|lib/libtesela\.so[.\d]*"
            r"|lib/cmake/Tesela/\w+(-\w+)?\.cmake|lib/pkgconfig/tesela\.pc"
            r"|share/doc/Tesela/[\w.-]+"
            r"|share/tesela/(templates/\w+\.mlir|variants/\w+\.attn|tuned/\w+\.json"
            r"|kernels\.pack)")
        self.assertEqual([file for file in sorted(found) if not allowed.fullmatch(file)], [])

    def test_the_system_needs_libc_alone(self):
        for binary in self.binaries():
            dynamic = command("readelf", "-d", binary)
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
            needed = {name for name in needed if not name.startswith("libtesela.so")}
            self.assertLessEqual(needed, SYSTEM_LIBRARIES, binary)
            for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                self.assertEqual(path, "$ORIGIN/../lib", binary)

    def test_the_newest_glibc_that_is_asked_for(self):
        for binary in self.binaries():
            versions = re.findall(r"GLIBC_(\d+)\.(\d+)", command("readelf", "-V", binary))
            self.assertTrue(versions)
            newest = max((int(major), int(minor)) for major, minor in versions)
            self.assertLessEqual(newest, NEWEST_GLIBC, binary)
            self.assertNotIn("GLIBCXX_", command("readelf", "-V", binary))

    def test_nothing_of_llvm_leaves_the_library(self):
        names = command("readelf", "--dyn-syms", "--wide", self.binaries()[1])
        defined = [line.split()[7] for line in names.splitlines()
                   if re.match(r"\s*\d+: [0-9a-f]+ ", line) and len(line.split()) > 7
                   and line.split()[6] != "UND"]
        self.assertGreater(len(defined), 10)
        self.assertEqual([name for name in defined if "tesela" not in name], [])

    def test_stripped_and_without_paths_of_the_build(self):
        for binary in self.binaries():
            self.assertNotIn(".debug_info", command("readelf", "-S", "--wide", binary))
            with open(binary, "rb") as file:
                self.assertNotIn(BUILD.encode(), file.read())

    def test_the_command_runs(self):
        self.assertRegex(command(self.tesela, "--version", env=self.environment), r"tesela \d")
        text = command(self.tesela, "run", "causal", "--target", "host", "--heads", "1", "--length",
                       "64", "--repeat", "1", env=self.environment)
        self.assertIn("passed", text)
        text = command(self.tesela, "compile", "causal", "--target", "sm_80", "--emit", "ptx",
                       env=self.environment)
        self.assertIn(".target sm_80", text)

    def configure(self, source, build):
        return subprocess.run([CMAKE, "-S", source, "-B", build, "-G", "Ninja",
                               f"-DCMAKE_PREFIX_PATH={self.root}"], capture_output=True, text=True)

    def test_a_project_with_cmake(self):
        build = os.path.join(self.folder.name, "embed_cmake")
        done = self.configure(os.path.join(EXAMPLES, "embed_cmake"), build)
        self.assertEqual(done.returncode, 0, done.stderr)
        command(CMAKE, "--build", build)
        self.assertEqual(command(os.path.join(build, "attention"), env=self.environment),
                         "causal on the host: right\n")
        self.assertEqual(command(os.path.join(build, "serve"), env=self.environment),
                         "decoding from pages: right\n")
        library = ctypes.CDLL(os.path.join(build, "libattend_dlpack.so"))
        invalid_argument = 1
        self.assertEqual(library.attend_dlpack(None, (ctypes.c_void_p * 5)(), None),
                         invalid_argument)

    def test_another_version_is_not_found(self):
        for version, found in [("0.1", True), ("0.1.0", True), ("0.0.9", False), ("0.2", False),
                               ("1.0", False)]:
            source = os.path.join(self.folder.name, "asks_" + version)
            os.mkdir(source)
            with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.25)\nproject(Asks LANGUAGES C)\n"
                           f"find_package(Tesela {version} REQUIRED CONFIG)\n")
            done = self.configure(source, os.path.join(source, "build"))
            self.assertEqual(done.returncode == 0, found, f"{version}: {done.stderr}")

    def test_a_project_with_pkg_config(self):
        source = os.path.join(self.folder.name, "embed_pkg_config")
        shutil.copytree(os.path.join(EXAMPLES, "embed_pkg_config"), source)
        environment = {**self.environment, "PKG_CONFIG_PATH": self.inside("lib", "pkgconfig")}
        version = command("pkg-config", "--modversion", "tesela", env=environment).strip()
        command("make", "-C", source, env={**environment, "CFLAGS": "-Werror -pedantic"})
        self.assertRegex(command(os.path.join(source, "attention"), env=self.environment),
                         rf"Tesela {version} on .*: the last query's lse is \d\.\d\d\d\n")


if __name__ == "__main__":
    BUILD, CPACK, CMAKE = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
