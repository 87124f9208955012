#!/usr/bin/env python3
"""memory.limit holds, and --max-batch is right to the image, for random models and limits.

    limit_test.py TRAINER

The process is looked at from outside: how far its resident memory grows above that of the same
program when it only plans. TESSERA_LONG_TESTS=1 tries fifty cases instead of four.
"""

import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from data_test import png

TRAINER = str(Path(sys.argv[1]).resolve())
CONFIG = Path(__file__).resolve().parents[2] / "models" / "configs" / "quickstart.yaml"
PICTURES = CONFIG.with_name("image_folder.yaml")
NO_MEMORY = 4  # runtime/error.h
MODELS = {"mlp": ["model.widths=[64,32]"], "lenet5": [], "cnn_bn": ["model.widths=[8,8,16,16]"],
          "resnet20": [], "resnet32": []}
MIB = 1 << 20


def trainer(*words):
    """Exit code, both outputs, and the most bytes that were resident."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([TRAINER, *map(str, words)], stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return child.returncode, out.read().decode(), err.read().decode(), usage.ru_maxrss * 1024


class Limit(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def words(self, model, batch, *more):
        return ["--config", CONFIG, f"model.name={model}", "~model.widths", *MODELS[model], f"data.batch={batch}",
                "data.train_count=600", "data.test_count=64", "schedule.warmup=0", "train.steps=2",
                "threads=2", f"run.dir={self.folder / 'run'}", *more]

    def max_batch(self, model, limit):
        code, out, err, _ = trainer("plan", "--max-batch", "--json", "--limit", limit,
                                    *self.words(model, 16))
        self.assertIn(code, (0, NO_MEMORY), err)
        return json.loads(out)["max_batch"]

    def run_training(self, model, batch, *more):
        return trainer("train", "--overwrite", *self.words(model, batch, *more))

    def test_the_largest_batch_is_right_to_the_image(self):
        draw = random.Random(4)
        for case in range(50 if os.environ.get("TESSERA_LONG_TESTS") else 4):
            model = draw.choice(sorted(MODELS))
            limit = draw.randrange(4 * MIB, 60 * MIB)
            with self.subTest(case=case, model=model, limit=limit):
                batch = self.max_batch(model, limit)
                if batch == 0 or batch >= 600:
                    continue
                _, _, _, before = trainer("plan", *self.words(model, batch))
                code, out, err, most = self.run_training(model, batch, f"memory.limit={limit}B")
                self.assertEqual(code, 0, err)
                self.assertIn("of memory.limit", out)
                self.assertLessEqual(most - before, limit)
                code, _, err, _ = self.run_training(model, batch + 1, f"memory.limit={limit}B")
                self.assertEqual(code, NO_MEMORY, err)
                self.assertIn(f"data.batch={batch} ", err)
                code, _, err, _ = self.run_training(model, batch + 1)
                self.assertEqual(code, 0, err)
                rows = csv.DictReader((self.folder / "run" / "memory.csv").read_text().splitlines())
                self.assertGreater(sum(int(row["bytes"]) for row in rows), limit)

    def test_a_refusal_says_all_there_is_to_know(self):
        code, out, err, _ = self.run_training("lenet5", 64, "memory.limit=5MiB")
        self.assertEqual((code, out), (NO_MEMORY, ""))
        for part in ("this training needs", "the limit is 5.00 MiB", "over by", "activations",
                     "gradients", "data set", "loader of training", "the largest tensors of that time",
                     "conv2d", "what would fit", "data.batch="):
            self.assertIn(part, err)
        self.assertFalse((self.folder / "run").exists())

    def test_loading_takes_what_its_report_says(self):
        for split in ("train", "test"):
            for name in ("across", "down"):
                at = self.folder / "pictures" / split / name
                at.mkdir(parents=True)
                for i in range(30):
                    (at / f"{i}.png").write_bytes(png(60 + i, 80, name == "down", i))
        code, out, err, _ = trainer("data", "bench", "--seconds", 1, "--config", PICTURES,
                                    f"data.root={self.folder / 'pictures'}", "data.batch=16",
                                    "data.image_size=224")
        self.assertEqual(code, 0, err)
        said, took = map(float, re.search(r"says ([\d.]+) MiB.* by ([\d.]+) MiB", out).groups())
        self.assertGreater(said, 3 * 16 * 224 * 224 * 3 / MIB)
        self.assertLess(abs(took - said), 0.05 * said)

    def test_eager_cannot_promise_a_limit(self):
        code, _, err, _ = self.run_training("lenet5", 8, "memory.limit=1GiB", "mode=eager")
        self.assertEqual(code, 2)
        self.assertIn("memory.limit: needs mode: graph", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
