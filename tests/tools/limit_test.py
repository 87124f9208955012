#!/usr/bin/env python3
"""memory.limit holds, and --max-batch is exact to the image, for random models and limits.

    limit_test.py TRAINER

The test measures, from outside, how far the resident memory of the process grows above that of the same
program when it only plans. The growth does not exceed the limit with the largest batch, and reaches it
with one image more and no limit: both up to 2 MiB of small objects. TESSERA_LONG_TESTS=1 tests fifty
cases instead of four.
"""

import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import cifar10_files
from data_test import png, png_of
from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
CONFIG = Path(__file__).resolve().parents[2] / "models" / "configs" / "quickstart.yaml"
PICTURES = CONFIG.with_name("image_folder.yaml")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "hdf5"
NO_MEMORY = 4  # runtime/error.h
MODELS = {"mlp": ["model.widths=[64,32]"], "lenet5": [], "cnn_bn": ["model.widths=[8,8,16,16]"],
          "resnet20": [], "resnet32": []}
MIB = 1 << 20
# Small objects of a process: graphs of its steps, stacks of threads, strings, the allocator's rest; and
# the parts of blocks that are never touched and thus not resident.
SMALL = 2 * MIB


def anonymous(pid):
    """Returns the resident bytes of the process's own pages, without those of files (the libraries of a GPU
    take far more than any model here); None before it is the trainer, and afterwards."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(fields["RssAnon"].split()[0]) * 1024 if fields["Name"].strip() == "trainer" else None
    except (KeyError, OSError):
        return None


def trainer(*words):
    """Returns exit code, both outputs and the peak of resident bytes, sampled every millisecond; a training
    frees nothing before its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([TRAINER, *map(str, words)], stdout=out, stderr=err)
        most = 0
        while process.poll() is None:
            most = max(most, anonymous(process.pid) or 0)
            time.sleep(0.001)
        out.seek(0), err.seek(0)
        return process.returncode, out.read().decode(), err.read().decode(), most


class Limit(ProgramTest):
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
        tried, wanted = 0, 50 if os.environ.get("TESSERA_LONG_TESTS") else 4
        while tried < wanted:
            model = draw.choice(sorted(MODELS))
            limit = draw.randrange(8 * MIB, 60 * MIB)
            batch = self.max_batch(model, limit)
            if batch == 0 or batch >= 600:  # nothing fits, or all images do
                continue
            tried += 1
            with self.subTest(case=tried, model=model, limit=limit, batch=batch):
                _, _, _, before = trainer("plan", *self.words(model, batch))
                code, out, err, most = self.run_training(model, batch, f"memory.limit={limit}B")
                self.assertEqual(code, 0, err)
                self.assertIn("of memory.limit", out)
                self.assertLessEqual(most - before, limit + SMALL)
                code, _, err, _ = self.run_training(model, batch + 1, f"memory.limit={limit}B")
                self.assertEqual(code, NO_MEMORY, err)
                self.assertIn(f"data.batch={batch} ", err)
                code, _, err, most = self.run_training(model, batch + 1)
                self.assertEqual(code, 0, err)
                self.assertGreater(most - before, limit - SMALL)
        print(tried, "limits tried")

    def test_a_budget_holds_from_outside(self):
        draw = random.Random(5)
        for case in range(50 if os.environ.get("TESSERA_LONG_TESTS") else 3):
            model, batch = draw.choice(sorted(MODELS)), draw.randrange(24, 97)
            code, out, err, before = trainer("plan", "--budgets", "--json", *self.words(model, batch))
            self.assertEqual(code, 0, err)
            points = json.loads(out)["points"]
            budget = draw.choice(points[:-1])["budget_bytes"]
            with self.subTest(case=case, model=model, batch=batch, budget=budget):
                _, _, _, before = trainer("plan", *self.words(model, batch, f"memory.budget={budget}B"))
                code, out, err, most = self.run_training(model, batch, f"memory.budget={budget}B")
                self.assertEqual(code, 0, err)
                self.assertIn("(memory.budget): ", out)
                self.assertLessEqual(self.held(), budget)
                self.assertLessEqual(most - before, budget + SMALL)

    def held(self):
        """Returns the bytes that the last training reported."""
        with open(self.folder / "run" / "memory.csv", newline="", encoding="utf-8") as file:
            return sum(int(row["bytes"]) for row in csv.DictReader(file))

    def pictures(self):
        root = self.folder / "pictures"
        for split, count in (("train", 23), ("test", 7)):
            for name in ("across", "down"):
                at = root / split / name
                at.mkdir(parents=True)
                for i in range(count):
                    (at / f"{i}.png").write_bytes(png(60 + i, 80, name == "down", i))
        return root

    def test_what_is_needed_is_what_is_held_whatever_the_data(self):
        root = self.pictures()
        packed = self.folder / "packed.h5"
        code, _, err, _ = trainer("data", "pack", "--out", packed, "--config", PICTURES, f"data.root={root}",
                                  "data.image_size=32")
        self.assertEqual(code, 0, err)
        gzipped = self.folder / "gzip.h5"
        code, _, err, _ = trainer("data", "pack", "--out", gzipped, "--compress", "gzip", "--config", PICTURES,
                                  f"data.root={root}", "data.image_size=32")
        self.assertEqual(code, 0, err)
        cifar10_files.write(self.folder)
        named = [f"data.root={GOLDEN / 'h5py.h5'}", "data.name=hdf5", "data.labels=y", "model.classes=3"]
        folder = ["data.name=image_folder", f"data.root={root}", "data.image_size=32"]
        small = ["data.train_count=45", "data.test_count=13"]
        cases = {
            "hdf5": ["data.name=hdf5", f"data.root={packed}", "data.image_size=0", *small],
            "hdf5_gzip": ["data.name=hdf5", f"data.root={gzipped}", "data.cache=64KiB", *small],
            "hdf5_cut": [*named, "data.images=chunked", "data.test_fraction=0.3", "data.train_count=0",
                         "data.test_count=0", "data.workers=3", "model.name=mlp", "model.widths=[8]"],
            "image_folder": [*folder, *small],
            "resize_crop": [*folder, "data.train_count=0", "data.test_count=0",
                            "data.augment=[{resize_crop: {}}, {mixup: {}}]"],
            "damaged_skipped": [*folder, *small, "data.damaged=skip"],
            "cifar10": ["data.name=cifar10", f"data.root={self.folder}", "data.workers=0"],
            "validation": [*folder, "data.train_count=40", "data.test_count=13", "data.validation=30%"],
            "synthetic_validation": ["data.validation=33"],
            "synthetic": ["data.augment=[{cutmix: {}}]", "checkpoint.keep=0"],
        }
        for name, words in cases.items():
            with self.subTest(name):
                broken = root / "train" / "down" / "broken.png"
                if name != "damaged_skipped":
                    broken.unlink(missing_ok=True)
                else:
                    broken.write_bytes(png(9, 9, 0, 0)[:60])
                # A checkpoint contains the configuration: limits with equally many digits need equal bytes.
                code, out, err, _ = self.run_training("lenet5", 16, *words)
                self.assertEqual(code, 0, err)
                code, out, err, _ = self.run_training("lenet5", 16, *words, f"memory.limit={self.held() + 999}B")
                self.assertEqual(code, 0, err)
                held = self.held()
                code, out, err, _ = self.run_training("lenet5", 16, *words, f"memory.limit={held}B")
                self.assertEqual((code, self.held()), (0, held), err)
                code, out, err, _ = self.run_training("lenet5", 16, *words, f"memory.limit={held - 1}B")
                self.assertEqual((code, out), (NO_MEMORY, ""), err)
                self.assertIn(f"({held} bytes), the limit is", err)
                self.assertIn("over by 1 B", err)
                self.assertIn("what would fit", err)
                # Another folder, without checkpoints, with an equally long name.
                whole = self.words("lenet5", 16, *words, f"run.dir={self.folder / 'nur'}", f"memory.limit={held}B")
                said = json.loads(trainer("plan", "--json", *whole)[1])
                self.assertEqual(said["need_is_complete"], "data.name=image_folder" not in words)
                (self.assertEqual if said["need_is_complete"] else self.assertLess)(said["need_bytes"], held)
                self.assertEqual(trainer("doctor", *whole)[0], 0)
                self.assertEqual(trainer("doctor", *whole, f"memory.limit={held - 1}B")[0], NO_MEMORY)

    def test_a_refusal_says_all_there_is_to_know(self):
        code, out, err, _ = self.run_training("lenet5", 64, "memory.limit=5MiB")
        self.assertEqual((code, out), (NO_MEMORY, ""))
        for part in ("this training needs", "the limit is 5.00 MiB", "over by", "activations",
                     "gradients", "data set", "loader of training", "the largest tensors at the peak",
                     "conv2d", "what would fit", "data.batch="):
            self.assertIn(part, err)
        self.assertFalse((self.folder / "run").exists())

    def needed(self, what, *words):
        """Returns the bytes that a refusal names."""
        code, out, err, _ = trainer(*words, "memory.limit=999999B")
        self.assertEqual((code, out), (NO_MEMORY, ""), err)
        self.assertIn(f"memory.limit: this {what} needs", err)
        self.assertIn("what would fit", err)
        return int(re.search(r"\((\d+) bytes\)", err).group(1))

    def test_a_benchmark_keeps_to_the_limit(self):
        words = ["bench", "--steps", 2, "--json", *self.words("cnn_bn", 20)]
        words = [word for word in words if not str(word).startswith("train.steps")]
        needed = self.needed("timing", *words)
        code, out, err, _ = trainer(*words, f"memory.limit={needed}B")
        self.assertEqual(code, 0, err)
        batches = 4 * 20 * (32 * 32 * 3 + 4)
        self.assertEqual(json.loads(out)["peak_bytes"] + batches, needed)
        self.assertEqual(trainer(*words, f"memory.limit={needed - 1}B")[0], NO_MEMORY)

    def test_an_evaluation_keeps_to_the_limit(self):
        code, _, err, _ = self.run_training("cnn_bn", 64, "data.test_count=600")
        self.assertEqual(code, 0, err)
        words = ["eval", "--run", self.folder / "run"]
        needed = self.needed("evaluation", *words)
        self.assertGreater(needed, 7 * MIB)  # training images are not read
        code, out, err, most = trainer(*words, f"memory.limit={needed}B")
        self.assertEqual(code, 0, err)
        _, _, _, before = trainer("plan", *self.words("cnn_bn", 64))
        self.assertLess(abs(most - before - needed), SMALL)
        self.assertEqual(trainer(*words, f"memory.limit={needed - 1}B")[0], NO_MEMORY)

    def test_a_dry_run_is_refused_as_the_training_is(self):
        words = ["train", "--dry-run", *self.words("cnn_bn", 16)]
        needed = self.needed("training", *words)
        self.assertEqual(trainer(*words, f"memory.limit={needed + 99}B")[0], 0)

    def test_a_verification_that_takes_more_is_refused_before_it_runs(self):
        words = ["train", "--verify-plan", *self.words("cnn_bn", 16)]
        needed = self.needed("training", *words)
        code, out, err, _ = trainer(*words, f"memory.limit={needed + 99}B")
        self.assertEqual((code, out), (NO_MEMORY, ""), err)
        self.assertIn("--verify-plan also runs the steps without a plan", err)
        self.assertIn("Leave out --verify-plan", err)
        self.assertFalse((self.folder / "run").exists())
        enough = int(re.search(r"\((\d+) bytes\)", err).group(1))
        code, out, err, _ = trainer(*words, f"memory.limit={enough}B")
        self.assertEqual(code, 0, err)
        self.assertIn("plan verified", out)

    def test_how_far_the_batch_could_grow(self):
        for model, limit in (("lenet5", 20 * MIB), ("cnn_bn", 9 * MIB)):
            most = self.max_batch(model, limit)
            for batch in (1, most - 1, most):
                code, out, err, _ = self.run_training(model, batch, f"memory.limit={limit}B")
                self.assertEqual(code, 0, err)
                said = re.search(r"of memory.limit; (.*)", out).group(1)
                self.assertEqual(said, "one more image in data.batch would not fit" if batch == most else
                                 f"data.batch could grow to {most}")

    def test_what_is_said_to_fit_fits(self):
        small = ["data.train_count=8", "data.test_count=8", "threads=1"]
        for limit, first in ((2400000, "data.batch="), (1300000, "checkpoint.keep=0"), (990000, "")):
            code, _, err, _ = self.run_training("lenet5", 8, *small, f"memory.limit={limit}B")
            self.assertEqual(code, NO_MEMORY, err)
            offers = re.findall(r"^  ((?:\S+=\S+ )+) +[\d.]+ \w+ .*$", err.split("what would fit:\n")[1], re.M)
            with self.subTest(limit=limit, offers=offers):
                self.assertEqual(first == "", "not even a batch of one image" in err, err)
                self.assertEqual(first == "", not offers, err)
                self.assertIn(first, " ".join(offers))
                for offer in offers:
                    code, _, err, _ = self.run_training("lenet5", 8, *small, f"memory.limit={limit}B", *offer.split())
                    self.assertEqual(code, 0, err)

    def test_loading_takes_what_its_report_says(self):
        code, out, err, _ = trainer("data", "bench", "--seconds", 1, "--config", PICTURES,
                                    f"data.root={self.pictures()}", "data.batch=16",
                                    "data.image_size=224")
        self.assertEqual(code, 0, err)
        said, took = map(float, re.search(r"calculated ([\d.]+) MiB.* by ([\d.]+) MiB", out).groups())
        self.assertGreater(said, 3 * 16 * 224 * 224 * 3 / MIB)
        self.assertLess(took - said, 0.05 * said)
        self.assertLess(said - took, 0.1 * said)  # seldom do all decoders reach their maximum

    # Noise cannot be compressed: each thread reads files of a megabyte while the folder is opened.
    def test_loading_large_pngs_takes_what_its_report_says(self):
        root = self.folder / "large"
        noise = random.Random(1)
        for split, count in (("train", 8), ("test", 4)):
            (root / split / "a").mkdir(parents=True, exist_ok=True)
            for i in range(count):
                (root / split / "a" / f"{i}.png").write_bytes(
                    png_of(600 + i, 600, [noise.randbytes(1800) for _ in range(600 + i)]))
        for workers in (2, 4):
            code, out, err, _ = trainer("data", "bench", "--seconds", 1, "--config", PICTURES, f"data.root={root}",
                                        "data.batch=8", "model.classes=1", f"data.workers={workers}")
            self.assertEqual(code, 0, err)
            said, took = map(float, re.search(r"calculated ([\d.]+) MiB.* by ([\d.]+) MiB", out).groups())
            self.assertGreater(said, 2)
            self.assertLess(abs(took - said), 0.1 * said + 0.25)

    def test_a_limit_holds_for_eager_steps(self):
        draw = random.Random(11)
        _, _, _, before = trainer("plan", *self.words("mlp", 1, "data.train_count=1"))
        codes, excess = [], []
        for case in range(50 if os.environ.get("TESSERA_LONG_TESTS") else 6):
            model, batch = draw.choice(sorted(MODELS)), draw.randrange(8, 65)
            limit = draw.randrange(6 * MIB, 60 * MIB)
            allocator = draw.choice(["caching", "caching", "direct"])
            with self.subTest(case=case, model=model, limit=limit, batch=batch, allocator=allocator):
                code, out, err, most = self.run_training(model, batch, "mode=eager", f"memory.limit={limit}B",
                                                         f"memory.allocator={allocator}")
                codes.append(code)
                excess.append(most - before - limit)
                self.assertLessEqual(most - before, limit + SMALL)
                if code == 0:
                    self.assertIn("of memory.limit; eager steps allocate more as they run", out)
                    continue
                self.assertEqual(code, NO_MEMORY, err)
                self.assertIn("what would fit", err)
                self.assertRegex(err, "\n  (mode=graph |nothing: not even a batch of one image)")
        self.assertEqual(set(codes), {0, NO_MEMORY})  # enough for some, not for others
        print(f"{len(codes)} eager limits tried, {codes.count(0)} with enough; at most "
              f"{max(excess) / MIB:.2f} MiB above the limit")

    def test_a_refusal_of_an_eager_step_names_op_place_and_holders(self):
        code, _, err, _ = self.run_training("cnn_bn", 64, "mode=eager", "memory.limit=12MiB")
        self.assertEqual(code, NO_MEMORY, err)
        self.assertRegex(err, r"trainer: \w+( at \w+[\w.]*)?: cpu:0: out of memory: \d+ bytes requested, \d+ live, ")
        self.assertRegex(err, r"at most [\d.]+ \w+ would fit; ")
        self.assertRegex(err, r"\nmemory of eager tensors, largest first:\n +[\d.]+ MiB  \w+ at \w+")
        offer = re.search(r"what would fit, as the limit is 12.00 MiB:\n  ((?:\S+=\S+ )+) +[\d.]+ ", err)
        self.assertTrue(offer, err)
        words = ["mode=graph", "memory.limit=12MiB", *offer[1].split()[1:]]
        code, _, err, _ = self.run_training("cnn_bn", 64, *words)
        self.assertEqual(code, 0, err)

    def test_what_is_left_for_eager_steps_is_checked_before_the_first(self):
        code, out, err, _ = self.run_training("resnet20", 16, "mode=eager", "memory.limit=3MiB")
        self.assertEqual((code, out), (NO_MEMORY, ""), err)
        self.assertIn("before its first eager step, the limit is 3.00 MiB, over by", err)
        self.assertFalse((self.folder / "run").exists())
        words = ["mode=eager", "memory.limit=40MiB", "memory.reserve=39MiB"]
        code, _, err, _ = self.run_training("lenet5", 8, *words)
        self.assertEqual(code, NO_MEMORY, err)
        self.assertIn("including 39.00 MiB of memory.reserve", err)
        code, _, err, most = self.run_training("lenet5", 8, "mode=eager", "memory.reserve=30MiB")
        self.assertEqual(code, 0, err)
        with open(self.folder / "run" / "memory.csv", newline="", encoding="utf-8") as file:
            rows = {row["name"]: int(row["bytes"]) for row in csv.DictReader(file)}
        self.assertEqual(rows["reserve"], 30 * MIB)

    def test_what_the_machine_does_not_have_is_refused_before_anything_is_taken(self):
        large = CONFIG.with_name("resnet50_224.yaml")
        _, _, _, before = trainer("plan", "--config", large, "data.batch=2")
        eager = trainer("train", "--config", large, "mode=eager", "data.batch=100000", "data.train_count=200000",
                        f"run.dir={self.folder / 'run'}")
        self.assertEqual(eager[0], NO_MEMORY, eager[2])
        self.assertRegex(eager[2], r"memory: this training needs [\d.]+ GiB .* before its first eager step, this computer "
                                   r"has [\d.]+ GiB free, over by")
        self.assertLess(eager[3] - before, 64 * MIB)
        for verb in (["bench", "--steps", 1], ["train", "--dry-run"], ["train"]):
            code, out, err, most = trainer(*verb, "--config", large, "data.batch=100000", "data.train_count=200000",
                                           "data.augment=[]", f"run.dir={self.folder / 'run'}")
            with self.subTest(verb=verb):
                self.assertEqual(code, NO_MEMORY, err)
                self.assertRegex(err, r"memory: this (training|timing) needs [\d.]+ TiB \(\d+ bytes\), "
                                      r"this computer has [\d.]+ GiB free, over by [\d.]+ TiB")
                self.assertIn("the largest tensors at the peak", err)
                self.assertRegex(err, r"what would fit:\n  data.batch=\d+")
                self.assertLess(most - before, 64 * MIB)
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
