#!/usr/bin/env python3
"""Trainings on the simulated GPU have the same bits in every schedule.

    schedules_test.py TRAINER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRAINER = str(Path(sys.argv[1]).resolve())
DIVERGED = 6  # runtime/error.h
SCHEDULES = ["eager", "lazy", *(f"random:{seed}" for seed in range(1, 17))]
SMALL = """model: {name: cnn_bn, widths: [4, 4, 8, 8], dropout: 0.25}
data: {name: synthetic, image_size: 16, train_count: 22, test_count: 10, batch: 4, workers: 1,
       augment: [{flip: horizontal}]}
train: {steps: 9, log_every: 4st}
checkpoint: {every: 4st}
optimizer: {lr: 0.02}
device: gpu
threads: 1
run: {dir: run}
"""


class Schedules(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "c.yaml").write_text(SMALL, encoding="utf-8")

    def train(self, schedule, *words, code=0):
        done = subprocess.run([TRAINER, "train", "--config", "c.yaml", "--overwrite", *words],
                              cwd=self.folder, capture_output=True, text=True, check=False,
                              env=os.environ | {"TESSERA_DOUBLE": schedule, "TESSERA_CACHE": "off"})
        self.assertEqual(done.returncode, code, f"{schedule}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def left(self):
        """Every byte that a training leaves and that has no time in it."""
        run = self.folder / "run"
        files = [run / "weights.safetensors", *sorted((run / "checkpoints").glob("*.safetensors"))]
        metrics = (run / "metrics.csv").read_text(encoding="utf-8").splitlines()
        return [(path.name, path.read_bytes()) for path in files] + [
            line.split(",")[:6] + line.split(",")[8:] for line in metrics]

    def same_under_all(self, *words, least=11):  # files and lines of metrics
        self.train("eager", *words)
        right = self.left()
        self.assertGreaterEqual(len(right), least)
        for schedule in SCHEDULES[1:]:
            self.train(schedule, *words)
            self.assertTrue(self.left() == right, schedule)

    def test_graph_mode(self):
        self.same_under_all()

    def test_eager_mode(self):
        self.same_under_all("mode=eager")

    def test_adamw_and_batches_that_are_skipped(self):
        self.same_under_all("optimizer.name=adamw", "optimizer.lr=0.001", "train.non_finite=skip")

    def test_float16_with_steps_that_overflow(self):
        self.same_under_all("precision=f16", "train.loss_scale=1048576", "train.loss_scale_interval=3",
                            least=10)  # the best checkpoint is one of the last two
        last = (self.folder / "run" / "metrics.csv").read_text(encoding="utf-8").splitlines()[-2].split(",")
        self.assertEqual(last[2], "train")
        self.assertGreater(int(last[8]), 0)

    def test_plans_are_verified(self):
        for schedule in ("eager", "lazy", "random:1"):
            self.assertIn("verif", self.train(schedule, "--verify-plan"))

    def test_what_is_not_finite_is_found(self):
        words = ["model.name=lenet5", "~model.widths", "~model.dropout", "data.image_size=28",
                 "optimizer.lr=1e15"]
        said = set()
        for schedule in ("eager", "lazy", "random:1", "random:2"):
            text = self.train(schedule, *words, code=DIVERGED)
            said.add(re.search(r"node \d+ of the program, matmul in fc1, produced [^;]*;", text).group())
        self.assertEqual(len(said), 1, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
