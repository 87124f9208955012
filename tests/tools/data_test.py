#!/usr/bin/env python3
"""trainer data: inspect, pack, bench; training from folders, packs and with mixed labels.

    data_test.py TRAINER
"""

import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

TRAINER = str(Path(sys.argv[1]).resolve())
CONFIG = Path(__file__).resolve().parents[2] / "models" / "configs" / "image_folder.yaml"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "hdf5"
TINY = ["model.name=cnn_bn", "model.widths=[4,4,8,8]", "data.image_size=16", "data.batch=8",
        "train.epochs=2", "train.evaluate_every=1ep", "schedule.warmup=0", "threads=1"]


def png(height, width, colour, shade):
    """A striped picture whose direction of stripes tells the class."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    rows = b""
    for y in range(height):
        row = b"".join(bytes((shade + (200 if (x if colour else y) % 4 < 2 else 0)) % 256
                             for _ in range(3)) for x in range(width))
        rows += b"\0" + row
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.root = cls.folder / "pictures"
        for split, count in (("train", 12), ("test", 4)):
            for label, name in enumerate(("across", "down")):
                at = cls.root / split / name
                at.mkdir(parents=True)
                for i in range(count):
                    (at / f"{i}.png").write_bytes(png(17 + i, 30 - i, label, i))
        (cls.root / "train" / "down" / "readme.txt").write_text("no picture")
        (cls.root / "train" / "down" / "broken.png").write_bytes(png(9, 9, 0, 0)[:60])

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def trainer(self, *words, code=0):
        done = subprocess.run([TRAINER, *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def configured(self, *verb, words=(), code=0):
        return self.trainer(*verb, "--config", CONFIG, f"data.root={self.root}", *TINY, *words,
                            code=code)

    def losses(self, run):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    def test_inspect(self):
        text = self.configured("data", "inspect")
        self.assertIn("24 images [16x16x3], 2 classes", text)
        self.assertIn("sizes: 17 to 28 high, 19 to 30 wide", text)
        self.assertEqual(len(re.findall(r"^ +12  (across|down)$", text, re.M)), 2)
        self.assertEqual(len(re.findall(r"^ +4  (across|down)$", text, re.M)), 2)
        self.assertIn("train/down/readme.txt", text)
        self.assertIn("1 damaged picture was skipped", text)
        self.assertIn("broken.png", text)
        self.assertIn("mean [0.", text)

    def test_fewer_images_are_of_each_class(self):
        text = self.configured("data", "inspect", words=["data.train_count=10"])
        self.assertEqual(len(re.findall(r"^ +5  (across|down)$", text, re.M)), 2)
        self.assertIn("10 of 24 images are used, of each class in proportion", text)

    def test_damaged_is_an_error_by_default(self):
        text = self.configured("data", "inspect", words=["data.damaged=error"], code=3)
        self.assertIn("broken.png", text)
        self.assertIn("data.damaged: skip", text)

    def test_a_pack_trains_like_the_folder(self):
        said = self.configured("data", "pack", "--out", "pack.h5")
        words = re.search("read it with (.*)", said).group(1).split()
        self.assertEqual(words[2:], ["~data.image_size", "~data.damaged"])
        plain = ["data.augment=[{flip: horizontal}]"]
        self.configured("train", words=[*plain, "run.dir=folder"])
        self.configured("train", words=[*plain, *words, "run.dir=pack"])
        self.assertEqual(self.losses("folder"), self.losses("pack"))

    def test_a_compressed_pack_trains_like_a_plain_one(self):
        words = {}
        for name, more in (("plain.h5", ()), ("gzip.h5", ("--compress", "gzip"))):
            said = self.configured("data", "pack", "--out", name, *more)
            words[name] = re.search("read it with (.*)", said).group(1).split()
            self.configured("train", words=["data.augment=[{crop: {padding: 2}}]", *words[name], f"run.dir={name[:-3]}"])
        self.assertEqual(self.losses("plain"), self.losses("gzip"))
        weights = [(self.folder / run / "weights.h5").read_bytes() for run in ("plain", "gzip")]
        self.assertEqual(*weights)
        self.assertLess((self.folder / "gzip.h5").stat().st_size, (self.folder / "plain.h5").stat().st_size)
        self.assertIn("gzip", self.configured("data", "pack", "--out", "x.h5", "--compress", "lzf", code=2))

    # The file of another program: tests/golden/make_hdf5.py.
    def named(self, *verb, words=(), code=0, file="h5py.h5"):
        (self.folder / "named.yaml").write_text(
            f"model: {{name: mlp, classes: 3, widths: [4]}}\n"
            f"data: {{name: hdf5, root: {GOLDEN / file}, images: '/sets/{{split}}/pictures', "
            f"labels: '/sets/{{split}}/kind', batch: 4}}\ntrain: {{steps: 4}}\nthreads: 1\n")
        return self.trainer(*verb, "--config", "named.yaml", *words, code=code)

    def test_a_file_of_another_program_trains_and_is_packed(self):
        said = self.named("data", "inspect")
        self.assertIn("hdf5 train: 12 images [6x5x3], 3 classes", said)
        self.assertIn("hdf5 test: 4 images", said)
        self.named("train", words=["run.dir=named"])
        said = self.named("data", "pack", "--out", "named.h5")
        words = shlex.split(re.search("read it with (.*)", said).group(1))
        self.assertEqual(words[2:], ["~data.images", "~data.labels"])
        self.named("train", words=[*words, "run.dir=named_pack"])
        self.assertEqual(self.losses("named"), self.losses("named_pack"))
        resumed = self.named("train", words=["--resume", "run.dir=named", "data.cache=1KiB", "train.steps=6"])
        self.assertIn("6", resumed)
        self.named("train", words=["run.dir=other", "data.name=synthetic", "model.classes=10"])  # the file's keys are put aside

    def test_what_is_wrong_with_a_file_of_another_program_is_named(self):
        wrong = ["data.images=wrong", "data.labels=y/int64", "data.test_part=0.25"]
        said = self.named("train", words=[*wrong, "run.dir=bad"], file="types.h5", code=3)
        self.assertIn("'wrong': image 7 has a value of 300, outside [0, 255]", said)
        self.assertIn("no such data set", self.named("data", "inspect", words=["data.images=/{split}/none"], code=3))
        for words, text in ((["data.range=[1]"], "data.range: two numbers are needed"),
                            (["data.labels=y"], "{split} stands in both or in none"),
                            (["data.layout=nchw"], "known: hwc, chw, cwh"),
                            (["data.test_part=0.2"], "it belongs to hdf5 with data.images without {split}"),
                            (["data.test_part=1"], "data.test_part: must be"),
                            (["~data.images"], "data.labels: "),
                            (["data.name=cifar100", "data.labels=corse", "model.classes=100"], "did you mean 'coarse'"),
                            (["data.name=synthetic", "data.layout=chw", "model.classes=10"], "data.layout: chw has no effect")):
            with self.subTest(words):
                self.assertIn(text, self.named("train", "--dry-run", words=words, code=2))

    def test_what_stands_at_the_target_is_kept(self):
        (self.folder / "old.h5").write_text("precious")
        os.mkfifo(self.folder / "pipe.h5")
        nowhere = "data.root=/nowhere"  # the target is looked at before the data
        for out, text in (("old.h5", "--overwrite"), ("pipe.h5", "a pipe"), (".", "is a folder"),
                          ("none/new.h5", "no folder 'none'")):
            self.assertIn(text, self.configured("data", "pack", "-o", out, words=[nowhere], code=2))
        self.assertEqual((self.folder / "old.h5").read_text(), "precious")
        self.assertTrue((self.folder / "pipe.h5").is_fifo())
        said = self.configured("data", "pack", "-o", "old.h5", "--overwrite")
        self.assertIn("data.root=old.h5", said)

    def test_a_path_with_blanks_can_be_pasted(self):
        said = self.configured("data", "pack", "-o", "my pack.h5")
        words = shlex.split(re.search("read it with (.*)", said).group(1))
        self.assertIn("data.root=my pack.h5", words)
        self.configured("data", "inspect", words=words)

    def test_workers_change_nothing(self):
        mixed = ["data.augment=[{resize_crop: {scale: [0.3, 1]}}, {color_jitter: {brightness: 0.4, "
                 "hue: 0.1}}, {rand_augment: {n: 2, magnitude: 9}}, {cutout: {size: 4}}, "
                 "{mixup: {alpha: 0.2}}, {cutmix: {}}]"]
        for workers in (0, 1, 3):
            self.configured("train", words=[*mixed, f"data.workers={workers}",
                                            f"run.dir=workers{workers}"])
        self.assertEqual(self.losses("workers0"), self.losses("workers1"))
        self.assertEqual(self.losses("workers0"), self.losses("workers3"))
        self.configured("train", words=[*mixed, "mode=eager", "run.dir=eager"])
        self.assertEqual(self.losses("workers0"), self.losses("eager"))
        self.configured("plan", words=mixed)
        self.configured("bench", "--steps", "2", words=mixed)

    def test_bench(self):
        text = self.configured("data", "bench", "--seconds", "0.2")
        self.assertRegex(text, r"[\d.]+ images/s with 2 workers")
        self.assertRegex(text, r"the report says [\d.]+ MiB")

    def test_bad_settings_have_a_place(self):
        for word, text in (("data.augment=[{resize_crop: {scale: [0.5]}}]", "two numbers"),
                           ("data.augment=[{cutout: {}}]", "size"),
                           ("data.augment=[{mixup: {alfa: 1}}]", "alpha"),
                           ("data.image_size=0", "image_size")):
            self.assertIn(text, self.configured("data", "inspect", words=[word], code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
