#!/usr/bin/env python3
"""Programs start without a CUDA library, and what needs no GPU loads none: seen from outside, in what
the loader says it looks for.

    start_test.py TRAINER PLANNER WITH_CUDA
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
CONFIGS = Path(__file__).resolve().parents[2] / "models" / "configs"
LENET = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 64, batch: 16}
train: {steps: 2}
"""
OF_A_GPU = re.compile(r"lib(cuda|cudart|cublas|cublasLt|cudnn|nv\w*|nvidia-ml)\b[^/]*\.so")


class Start(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "c.yaml").write_text(LENET, encoding="utf-8")

    def looked_for(self, *words, code=0):
        """The GPU's libraries that the loader looked for or initialised."""
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
