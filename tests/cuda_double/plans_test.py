#!/usr/bin/env python3
"""Trainings on the simulated GPU cache, share and measure plans of cuDNN, and detect damaged ones.

    plans_test.py TRAINER
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRAINER = str(Path(sys.argv[1]).resolve())
SMALL = """model: {name: cnn_bn, widths: [4, 4, 8, 8]}
data: {name: synthetic, image_size: 16, train_count: 22, test_count: 10, batch: 4, workers: 1}
train: {steps: 6}
optimizer: {lr: 0.02}
device: gpu
threads: 1
"""


class Plans(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.cache = self.folder / "cache"
        (self.folder / "c.yaml").write_text(SMALL, encoding="utf-8")

    def start(self, *words):
        return subprocess.Popen([TRAINER, *words], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=os.environ | {"TESSERA_CACHE": str(self.cache)})

    def finish(self, process):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, out + err)
        return out, err

    def start_training(self, run, *words):
        return self.start("train", "--config", "c.yaml", f"run.dir={run}", *words)

    def finish_training(self, process, run):
        """The weights, and what was written to stderr."""
        err = self.finish(process)[1]
        return (self.folder / run / "weights.safetensors").read_bytes(), err

    def train(self, run, *words):
        return self.finish_training(self.start_training(run, *words), run)

    def tune(self, *words):
        return self.finish(self.start("tune", "--config", "c.yaml", *words))[0]

    def entries(self):
        return {path: path.read_bytes() for path in self.cache.iterdir()}

    def workspace(self, run):
        """The scratch of all ops of the training step that ran there, in bytes."""
        plan = json.loads((self.folder / run / "plan.json").read_text(encoding="utf-8"))
        return sum(block["bytes"] for block in plan["blocks"] if block["class"] == "workspace")

    def test_what_is_kept_does_not_change_a_bit(self):
        right, err = self.train("first")
        self.assertEqual(err, "")
        kept = self.entries()
        self.assertGreaterEqual(len(kept), 12)
        self.assertEqual(self.train("second"), (right, ""))
        self.assertEqual(self.entries(), kept)

    def test_damaged_entries_are_one_warning_and_made_anew(self):
        right, _ = self.train("first")
        kept = self.entries()
        for damage in (lambda data: data[:-1], lambda data: b"",
                       lambda data: data[:200] + b"?" + data[201:]):
            for path, data in kept.items():
                path.write_bytes(damage(data))
            weights, err = self.train("again", "--overwrite")
            self.assertEqual(weights, right)
            self.assertEqual(err.count("is damaged or truncated"), 1, err)
            self.assertEqual(self.entries(), kept)
        self.assertEqual(self.train("mended"), (right, ""))

    def test_entries_of_others_are_one_warning_and_made_anew(self):
        right, _ = self.train("first")
        kept = self.entries()
        paths = sorted(kept)
        for path, other in zip(paths, paths[1:] + paths[:1]):
            path.write_bytes(kept[other])
        weights, err = self.train("again")
        self.assertEqual(weights, right)
        self.assertEqual(err.count("belongs to another plan"), 1, err)
        self.assertEqual(self.entries(), kept)

    def test_processes_at_once(self):
        names = [f"run{i}" for i in range(4)]
        running = [self.start_training(name) for name in names]
        results = {self.finish_training(one, name) for one, name in zip(running, names)}
        self.assertEqual(len(results), 1)
        self.assertEqual(results.pop()[1], "")
        self.assertFalse([path for path in self.cache.iterdir() if "." in path.name])

    def test_what_was_measured_is_taken_where_it_is_asked_for(self):
        right, _ = self.train("rule")
        weights, err = self.train("unmeasured", "gpu.plans=autotuned")
        self.assertEqual(weights, right)
        self.assertEqual(err.count("no plan was measured"), 1, err)
        self.assertEqual(self.workspace("unmeasured"), self.workspace("rule"))

        self.assertIn(" plans; the convolutions", self.tune())
        # What the double proposes first takes twice the time, and workspace.
        self.assertEqual(self.train("tuned", "gpu.plans=autotuned")[1], "")
        self.assertLess(self.workspace("tuned"), self.workspace("rule"))
        self.assertEqual(self.train("measured"), (right, ""), "the rule stays the rule")

    def test_measuring_keeps_to_the_limit(self):
        self.assertIn(" plans; the convolutions", self.tune("memory.gpu_limit=40MiB"))
        failed = self.start("tune", "--config", "c.yaml", "memory.gpu_limit=4KiB")
        self.assertIn("under a limit of 4096", failed.communicate()[1])
        self.assertEqual(failed.returncode, 4)

    def test_measuring_needs_a_gpu(self):
        failed = self.start("tune", "--config", "c.yaml", "device=cpu")
        self.assertIn("tune: requires a GPU", failed.communicate()[1])
        self.assertEqual(failed.returncode, 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
