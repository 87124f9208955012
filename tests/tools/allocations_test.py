#!/usr/bin/env python3
"""Counts the memory requests of trainings and benchmarks, over the whole process.

    allocations_test.py TRAINER LIBRARY

LIBRARY is count_allocations.cc, which intercepts malloc, free, mmap and related functions. Steps must
request nothing, and every request of 64 KiB or more must be listed in memory.csv.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import cifar10_files

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "models" / "configs" / "resnet.yaml"
LARGE = 64 * 1024
TRAINER, LIBRARY = (str(Path(word).resolve()) for word in sys.argv[1:3])
# A path in LD_PRELOAD ends at a blank, in LD_LIBRARY_PATH it does not.
PRELOADED = {"LD_PRELOAD": os.path.basename(LIBRARY), "LD_LIBRARY_PATH": os.path.dirname(LIBRARY)}


class Counted:
    """A run of the trainer under the library."""

    def __init__(self, folder, *words):
        counts = Path(folder) / "counts.txt"
        environment = {**os.environ, **PRELOADED, "TESSERA_ALLOCATIONS": str(counts)}
        done = subprocess.run([TRAINER, *map(str, words)], env=environment, cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        text = counts.read_text()
        for name in ("steps", "inside", "between"):
            setattr(self, name, int(re.search(rf"{name}=(\d+)", text).group(1)))
        found = re.findall(r"^request (\d+) step (\d+)$", text, re.M)
        self.requests = [(int(size), int(step)) for size, step in found]

    def until_the_end_of_training(self):
        return Counter(size for size, step in self.requests if step < self.steps)

    def large_and_listed(self):
        return Counter(size for _, size in self.listed if size >= LARGE)

    def afterwards(self):
        return [size for size, step in self.requests if step == self.steps]


class Allocations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        cifar10_files.write(cls.folder)
        # ResNet-20 on CIFAR-10 with crops and flips, two loader workers and a smaller last batch;
        # three epochs.
        cls.settings = [f"data.root={cls.folder}", "data.batch=16", "data.train_count=88",
                        "data.test_count=40", "threads=2", "data.workers=2", "train.epochs=3"]
        cls.graph = cls.train("graph")

    @classmethod
    def train(cls, mode):
        run = Counted(cls.folder, "train", "--config", CONFIG, *cls.settings, f"mode={mode}",
                      f"run.dir={cls.folder / mode}")
        with open(cls.folder / mode / "memory.csv", newline="", encoding="utf-8") as file:
            run.listed = [(row["name"], int(row["bytes"])) for row in csv.DictReader(file)]
        return run

    def test_a_thousand_steps_ask_for_nothing(self):
        for kernels, steps in (("auto", 1000), ("eigen", 100)):
            run = Counted(self.folder, "bench", "--config", CONFIG, "--steps", steps,
                          "data.batch=2", "threads=2", f"cpu.kernels={kernels}")
            self.assertEqual((run.steps, run.inside, run.between), (steps, 0, 0), kernels)

    def test_steps_of_other_ways_to_train_ask_for_nothing(self):
        common = ["ema.decay=0.99", "optimizer.clip_norm=1", "optimizer.clip_value=0.1",
                  "train.accumulate=2", "train.freeze=[conv1, bn1]", "~optimizer", "~schedule"]
        for way in (["optimizer.name=muon", "loss.name=bce"], ["optimizer.name=lamb"],
                    ["optimizer.name=rmsprop", "train.non_finite=skip"],
                    ["optimizer.name=lion"], ["optimizer.name=lars"],
                    ["precision=f16", "optimizer.name=adamw"],
                    ["precision=bf16", "model.name=mobilenet_v2", "train.freeze=[]"]):
            run = Counted(self.folder, "bench", "--config", CONFIG, "--steps", 50, "data.batch=4",
                          "threads=2", *sorted(common, key=lambda word: word[0] != "~"), *way)
            self.assertEqual((run.steps, run.inside, run.between), (50, 0, 0), way)

    def test_taking_the_time_of_every_op_asks_for_nothing(self):
        words = ("profile", "--config", CONFIG, "--steps", 10, "data.batch=2", "threads=2", "--warmup")
        run = Counted(self.folder, *words, 0)
        self.assertEqual((run.steps, run.inside, run.between), (20, 0, 0))
        run = Counted(self.folder, *words, 5)
        self.assertGreaterEqual(run.steps, 25)  # more warmup if steps are short
        self.assertEqual((run.inside, run.between), (0, 0))

    def test_steps_of_a_training_ask_for_nothing_across_the_ends_of_epochs(self):
        self.assertEqual((self.graph.steps, self.graph.inside), (18, 0))

    def test_every_large_request_of_a_training_is_listed(self):
        run = self.graph
        self.assertEqual(run.until_the_end_of_training(), run.large_and_listed())
        listed = dict(run.listed)
        for name, size in (("cifar10 train images", 88 * 3072),  # only the used images
                           ("cifar10 train labels", 88 * 4)):
            self.assertEqual(listed[name], size)

    def test_what_is_listed_is_what_is_planned(self):
        words = [TRAINER, "plan", "--json", "--config", str(CONFIG), *self.settings]
        plan = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        listed = dict(reversed(self.graph.listed))  # the first slots are those of training
        for name, key in (("arena", "arena_bytes"), ("persistent", "persistent_bytes"),
                          ("slots", "slot_bytes")):
            self.assertEqual(listed[name], plan[key], name)

    def test_when_training_is_over_the_weights_file_is_written_from_where_they_are(self):
        self.assertEqual(self.graph.afterwards(), [])
        self.assertGreater((self.folder / "graph" / "weights.safetensors").stat().st_size, LARGE)

    def test_eager_steps_are_caught(self):
        run = self.train("eager")
        self.assertGreater(run.inside, 0)
        self.assertNotEqual(run.until_the_end_of_training(), run.large_and_listed())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
