#!/usr/bin/env python3
"""A training whose simulated GPU fails ends with the exit code of device errors and reports what failed;
resuming its last checkpoint gives the same bits.

    failures_test.py TRAINER
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRAINER = str(Path(sys.argv[1]).resolve())
DEVICE = 4  # runtime/error.h
SMALL = """model:
  layers:
    - {conv: {filters: 2, kernel: 3, stride: 4, bias: false}}
    - batch_norm
    - relu
    - flatten
    - {linear: {units: 10}}
data: {name: synthetic, image_size: 16, train_count: 6, test_count: 2, batch: 2, workers: 1}
train: {steps: 3, log_every: 1st}
checkpoint: {every: 1st, keep: 9}
device: gpu
threads: 1
run: {dir: run}
"""


class Failures(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "c.yaml").write_text(SMALL, encoding="utf-8")
        self.train("", "--overwrite")
        self.right = self.left()

    def train(self, fail, *words, code=0):
        """Gives its exit code and what it said; with `code`, it must end with that."""
        planted = {"TESSERA_DOUBLE_FAIL": fail} if fail else {}
        done = subprocess.run([TRAINER, "train", "--config", "c.yaml", *words], cwd=self.folder,
                              capture_output=True, text=True, check=False,
                              env=os.environ | planted | {"TESSERA_CACHE": "off"})
        if code is not None:
            self.assertEqual(done.returncode, code, f"{fail}: {done.stdout}{done.stderr}")
        return done.returncode, done.stderr

    def left(self):
        """Every byte that a training leaves and that has no time in it."""
        run = self.folder / "run"
        metrics = (run / "metrics.csv").read_text(encoding="utf-8").splitlines()
        return [(path.name, path.read_bytes()) for path in
                (run / "weights.safetensors", run / "checkpoints" / "step-000000003.safetensors")] + [
                    line.split(",")[:6] + line.split(",")[8:] for line in metrics]

    def fails(self, kind, numbers, *texts):
        """The n-th of a kind ends the training, or where nothing may end for it leaves it as it is;
        then it goes on from the last checkpoint. Gives how often it ended."""
        ended = 0
        for n in numbers:
            fail = f"{kind}:{n}"
            code, text = self.train(fail, "--overwrite", code=None)
            if code != 0:
                ended += 1
                self.assertEqual(code, DEVICE, f"{fail}: {text}")
                self.assertTrue(any(t in text for t in texts), f"{fail}: {text}")
                self.train("", "--resume")
            self.assertTrue(self.left() == self.right, fail)
        return ended

    def test_calls(self):
        self.assertGreaterEqual(self.fails("call", [*range(1, 16, 2), *range(20, 340, 21)], "cuda",
                                           "cublas", "cudnn", "launch of "), 18)

    def test_calls_after_which_the_gpu_is_lost(self):
        self.assertGreaterEqual(self.fails("sticky:call", [*range(2, 16, 2), *range(20, 340, 21)],
                                           "restart the process"), 18)

    def test_kernels_after_which_the_gpu_is_lost(self):
        self.assertEqual(self.fails("sticky:kernel", range(1, 64, 7),
                                    "restart the process"), 9)

    def test_memory(self):
        self.assertEqual(self.fails("malloc", range(1, 5), "what would fit, as the GPU has 1"), 4)
        self.assertEqual(self.fails("pinned", range(1, 5), "pinned host memory for gpu:0: out of memory"), 4)

    def test_convolutions_take_their_next_plan_in_their_first_run(self):
        self.assertEqual(self.fails("dnn:plan", range(1, 12)), 0)
        self.assertEqual(self.fails("dnn:run", range(1, 3)), 0)
        self.assertEqual(self.fails("dnn:run", [3, 4], "conv0: cudnnBackendExecute: "), 2)
        self.assertIn("conv0: cuDNN's engine", self.train("dnn:run:1", "--overwrite")[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
