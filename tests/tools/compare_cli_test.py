#!/usr/bin/env python3
"""trainer compare, several runs side by side, and trainer sweep, every combination of settings.

    compare_cli_test.py TRAINER [MOMENTS]

MOMENTS is the number of moments at which the sweep is killed (4).
"""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
MOMENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
MISUSE, BAD_DATA, DIVERGED = 2, 3, 6  # runtime/error.h
SMALL = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 32, batch: 16, workers: 0}
optimizer: {lr: 0.01}
train: {epochs: 2}
checkpoint: {every: 1st}
threads: 1
run: {dir: run}
"""
TIMED = ("images_per_second", "data_wait")


class Case(ProgramTest):
    program = TRAINER

    def setUp(self):
        super().setUp()
        (self.folder / "c.yaml").write_text(SMALL, encoding="utf-8")

    def run_it(self, *words, code=0):
        done = self.run_program(*words, code=code)
        return done.stdout if code == 0 else (done.stdout, done.stderr)

    def sweep(self, *words, code=0):
        return self.run_it("sweep", "--config", "c.yaml", *words, code=code)

    def table(self, *words):
        """Returns the table of a sweep without what differs between two equal trainings."""
        told = json.loads(self.sweep(*words, "--json"))
        for run in told["runs"]:
            for name in TIMED:
                run.pop(name)
        return told


class Compare(Case):
    def test_runs_side_by_side(self):
        for name, words in (("a", []), ("b", ["seed=2"]), ("c <3>", ["seed=2", "optimizer.lr=0.02", "train.epochs=1"])):
            self.run_it("train", "--config", "c.yaml", f"run.dir={name}", *words)
        told = json.loads(self.run_it("compare", "a", "b", "c <3>", "--json"))
        self.assertEqual(told["different"], ["optimizer.lr", "seed", "train.epochs"])
        self.assertEqual(told["different_data"], [])
        self.assertEqual([run["settings"]["seed"] for run in told["runs"]], ["1", "2", "2"])
        self.assertEqual([run["epochs"] for run in told["runs"]], [2, 2, 1])
        self.assertEqual([run["steps"] for run in told["runs"]], [8, 8, 4])
        for run in told["runs"]:
            lines = [json.loads(line) for line in (self.folder / run["run"] / "metrics.jsonl").read_text().splitlines()]
            tests = [line["accuracy"] for line in lines if line["phase"] == "test"]
            self.assertAlmostEqual(run["accuracy"], tests[-1], places=7)
            self.assertAlmostEqual(run["best_accuracy"], max(tests), places=7)
            self.assertGreater(run["memory"], 10000)
            self.assertTrue(run["ended"])
        seeds, = told["seeds"]
        self.assertEqual(seeds["runs"], ["a", "b"])
        first, second = (run["accuracy"] for run in told["runs"][:2])
        self.assertAlmostEqual(seeds["mean"], (first + second) / 2, places=7)
        self.assertAlmostEqual(seeds["standard_deviation"], abs(first - second) / 2**0.5, places=7)
        text = self.run_it("compare", "a", "b", "c <3>", "--html", "page.html")
        self.assertIn("runs 1, 2, equal but for the seed: test accuracy", text)
        self.assertRegex(text, r"(?m)^3  c <3> +0\.02 +2 +1 +1 ")
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertIn("c &lt;3&gt;", page)
        self.assertNotIn("<3>", page)
        self.assertEqual(page.count("<svg"), 5)

    def test_other_data_are_said(self):
        self.run_it("train", "--config", "c.yaml", "run.dir=a")
        self.run_it("train", "--config", "c.yaml", "run.dir=b", "data.train_count=48", "data.validation=16")
        text = self.run_it("compare", "a", "b")
        self.assertIn("the runs are on other data (data.train_count, data.validation), so their accuracies", text)
        self.assertIn(" test ", text)
        self.assertIn(" validation ", self.run_it("compare", "b").splitlines()[0])

    def test_wrong_folders_are_named(self):
        self.assertIn("'nothing' is no run folder", self.run_it("compare", "nothing", code=MISUSE)[1])
        self.run_it("train", "--config", "c.yaml", "run.dir=a")
        self.assertIn("'a' and './a' are the same folder", self.run_it("compare", "a", "./a/", code=MISUSE)[1])
        (self.folder / "a" / "metrics.csv").unlink()
        self.assertIn("metrics.csv: cannot be read", self.run_it("compare", "a", code=BAD_DATA)[1])


class Sweep(Case):
    def test_every_combination(self):
        told = self.table("optimizer.lr=0.01,0.02", "data.mean=[0.4, 0.4, 0.4],[0.5, 0.5, 0.5]",
                          "data.std=[0.2, 0.2, 0.2]", "run.dir=all")
        self.assertEqual([run["run"] for run in told["runs"]],
                         [f"all/optimizer.lr={lr},data.mean={mean}" for lr in ("0.01", "0.02")
                          for mean in ("[0.4, 0.4, 0.4]", "[0.5, 0.5, 0.5]")])

    def test_a_sweep_that_is_killed_goes_on(self):
        words = ["optimizer.lr=0.01,0.02,0.03", "seed=1,2"]
        began = time.monotonic()
        whole = self.table(*words, "run.dir=whole")
        lasted = time.monotonic() - began
        for moment in range(MOMENTS):
            name = f"kil{moment:02}"  # as long as "whole": a checkpoint holds it, so memory depends on it
            command = [TRAINER, "sweep", "--config", "c.yaml", *words, f"run.dir={name}"]
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sweep:
                time.sleep(lasted * (moment + 0.5) / MOMENTS)
                sweep.kill()
            again = json.loads(json.dumps(self.table(*words, f"run.dir={name}")).replace(name, "whole"))
            self.assertEqual(again, whole, f"moment {moment}")

    def test_a_run_whose_folder_is_removed_is_trained_again(self):
        whole = self.table("seed=1,2", "run.dir=two")
        shutil.rmtree(self.folder / "two" / "seed=2")
        with open(self.folder / "two" / "done.txt", "a", encoding="utf-8") as file:
            file.write("seed=")  # an incomplete line
        self.assertEqual(self.table("seed=1,2", "run.dir=two"), whole)
        self.assertEqual((self.folder / "two" / "done.txt").read_text(encoding="utf-8"), "seed=1\nseed=2\nseed=2\n")

    def test_a_run_that_fails_does_not_end_it(self):
        out, err = self.sweep("optimizer.lr=1e30,0.01", "optimizer.name=sgd", "run.dir=some", code=DIVERGED)
        self.assertIn("some/optimizer.lr=0.01", out)
        self.assertNotIn("some/optimizer.lr=1e30", out)
        self.assertIn("sweep: run 1 of 2: optimizer.lr=1e30", err)

    def test_what_is_wrong_is_told_before_any_training(self):
        for words, part in ((["seed=1"], "no key has several values"), (["run.dir=a,b"], "give it one value"),
                            (["seed=1,1"], "two runs are the same"), (["seed=1,x"], "seed: must be an integer"),
                            (["optimizer.lr=0.1,"], "optimizer.lr")):
            self.assertIn(part, self.sweep(*words, code=MISUSE)[1])
        with unittest.mock.patch.dict(os.environ, OMPI_COMM_WORLD_SIZE="2"):  # under mpirun -n 2
            self.assertIn("sweep: 2 processes were started", self.sweep("seed=1,2", code=MISUSE)[1])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["c.yaml"])
        self.sweep("seed=1,2", "run.dir=two")
        self.assertIn("'two' contains another sweep", self.sweep("seed=1,2,3", "run.dir=two", code=MISUSE)[1])
        self.assertIn("'two' contains another sweep",
                      self.sweep("seed=1,2", "optimizer.lr=0.5", "run.dir=two", code=MISUSE)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
