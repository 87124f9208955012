#!/usr/bin/env python3
"""Programs start without a CUDA library, and commands that need no GPU load none, according to the
loader's log. No program loads a library from the current directory.

    start_test.py TRAINER PLANNER WITH_CUDA BUILD CXX
"""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

TRAINER, PLANNER = (str(Path(word).resolve()) for word in sys.argv[1:3])
WITH_CUDA = sys.argv[3] not in ("0", "OFF")
BUILD, CXX = sys.argv[4:6]
CONFIGS = Path(__file__).resolve().parents[2] / "models" / "configs"
LENET = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 64, batch: 16}
train: {steps: 2}
"""
OF_GPUS = ("cuda", "cudart", "cublas", "cublasLt", "nvidia-ml", "nvrtc", "cudnn", "cudnn_graph", "cudnn_ops",
           "cudnn_cnn", "cudnn_adv", "cudnn_heuristic", "cudnn_engines_precompiled",
           "cudnn_engines_runtime_compiled")
STAND_IN = """#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void say() { fclose(fopen(getenv("STAND_IN_MARK"), "w")); }
"""
OF_A_GPU = re.compile(r"lib(cuda|cudart|cublas|cublasLt|cudnn|nv\w*|nvidia-ml)\b[^/]*\.so")


class Start(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "c.yaml").write_text(LENET, encoding="utf-8")

    def looked_for(self, *words, code=0):
        """Returns the GPU's libraries that the loader searched for or initialised."""
        done = self.run_program(*words[1:], program=words[0], env=os.environ | {"LD_DEBUG": "libs"})
        self.assertEqual(done.returncode, code, done.stderr[-500:])
        lines = [line for line in done.stderr.splitlines()
                 if "find library=" in line or "calling init:" in line]
        self.assertTrue(any("libc.so" in line or "libstdc++" in line for line in lines), "a loader that tells")
        return sorted({OF_A_GPU.search(line)[0] for line in lines if OF_A_GPU.search(line)})

    def test_what_needs_no_gpu_loads_nothing_of_one(self):
        for words in ([TRAINER, "--version"], [PLANNER, "--version"], [TRAINER, "--help"],
                      [TRAINER, "config", "schema"], [TRAINER, "plan", "--config", "c.yaml"],
                      [TRAINER, "plan", "--config", "c.yaml", "device=gpu"],
                      [TRAINER, "plan", "--config", "c.yaml", "--max-batch", "--limit", "64MiB"],
                      [TRAINER, "data", "inspect", "--config", "c.yaml"]):
            with self.subTest(words=words):
                self.assertEqual(self.looked_for(*words), [])

    @unittest.skipUnless(WITH_CUDA, "a build without CUDA")
    def test_what_asks_for_gpus_does_look_for_their_driver(self):
        self.assertIn("libcuda.so", [name[:10] for name in self.looked_for(TRAINER, "devices")])

    def test_no_program_is_linked_with_one(self):
        for program in (TRAINER, PLANNER):
            listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(listed, OF_A_GPU)

    def test_no_run_path_leads_to_the_current_directory(self):
        installed = self.folder / "installed"
        self.run_program("--install", BUILD, "--prefix", installed, program="cmake", code=0)
        for folder, least in ((Path(TRAINER).parent, 2), (installed, 2)):
            paths = dict(run_paths(folder))
            self.assertGreaterEqual(len(paths), least, folder)
            self.assertIn("trainer", {program.name for program in paths})
            for program, path in paths.items():
                for element in path.split(":") if path else []:
                    self.assertRegex(element, r"^(/|\$ORIGIN/)", f"{program}: '{path}'")

    def test_a_folder_full_of_libraries_is_not_loaded_from(self):
        listed = "".join(subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
                         for program in (TRAINER, PLANNER))
        names = set(re.findall(r"(\S+) => /", listed)) - {"libc.so.6"}
        names |= {f"lib{name}.so{end}" for name in OF_GPUS for end in ("", ".1", ".9", ".11", ".12", ".13")}
        self.assertIn("libstdc++.so.6", names)
        (self.folder / "stand_in.cc").write_text(STAND_IN, encoding="utf-8")
        self.run_program("-shared", "-fPIC", "-Wl,--as-needed", "stand_in.cc", "-o", "stand_in", program=CXX, code=0)
        for name in names:
            (self.folder / name).symlink_to("stand_in")
        mark = self.folder / "loaded"
        around = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        around["STAND_IN_MARK"] = str(mark)
        for words in ([TRAINER, "--version"], [PLANNER, "--version"], [TRAINER, "devices"], [TRAINER, "doctor"],
                      [TRAINER, "plan", "--config", "c.yaml"], [TRAINER, "--config", "c.yaml"]):
            with self.subTest(words=words):
                self.run_program(*words[1:], program=words[0], env=around, code=0)
                self.assertFalse(mark.exists(), words)
        # AddressSanitizer refuses to start after another library unless told not to check.
        around |= {"LD_PRELOAD": "./stand_in", "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.run_program("--version", program=TRAINER, env=around, code=0)
        self.assertTrue(mark.exists(), "a stand-in that is loaded says so")


def run_paths(folder):
    """Yields each program under the folder and its run path."""
    for program in sorted(folder.rglob("*")):
        if program.is_file() and os.access(program, os.X_OK) and program.read_bytes()[:4] == b"\x7fELF":
            table = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            yield program, "".join(re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", table))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
