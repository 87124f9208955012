#!/usr/bin/env python3
"""trainer data: inspect, pack, bench; training from folders, packs and with mixed labels.

    data_test.py TRAINER
"""

import csv
import json
import os
import re
import resource
import shlex
import signal
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


def png_of(height, width, rows):
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def png(height, width, colour, shade):
    """Returns a striped picture; the direction of the stripes is the class."""
    return png_of(height, width, [b"".join(bytes((shade + (200 if (x if colour else y) % 4 < 2 else 0)) % 256
                                                 for _ in range(3)) for x in range(width))
                                  for y in range(height)])


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
        found = json.loads(self.configured("data", "inspect", "--json"))
        self.assertEqual(list(found), ["train", "test"])
        train = found["train"]
        self.assertEqual([train["smallest"], train["largest"]],
                         [{"height": 17, "width": 19}, {"height": 28, "width": 30}])
        self.assertEqual(train["classes"], [{"images": 12, "class": name} for name in ("across", "down")])
        self.assertIn(f"mean [{', '.join(format(m, '.4f') for m in train['mean'])}]", text)
        self.assertTrue(any("broken.png" in note for note in train["notes"]), train["notes"])

    def test_fewer_images_are_of_each_class(self):
        text = self.configured("data", "inspect", words=["data.train_count=10"])
        self.assertEqual(len(re.findall(r"^ +5  (across|down)$", text, re.M)), 2)
        self.assertIn("10 of 24 images are used, in proportion to the classes", text)

    def test_damaged_is_an_error_by_default(self):
        text = self.configured("data", "inspect", words=["data.damaged=error"], code=3)
        self.assertIn("broken.png", text)
        self.assertIn("data.damaged: skip", text)

    def test_a_pack_trains_like_the_folder(self):
        said = self.configured("data", "pack", "--out", "pack.h5")
        words = re.search("train with (.*)", said).group(1).split()
        self.assertEqual(words[2:], ["~data.image_size", "~data.damaged"])
        plain = ["data.augment=[{flip: horizontal}]"]
        self.configured("train", words=[*plain, "run.dir=folder"])
        self.configured("train", words=[*plain, *words, "run.dir=pack"])
        self.assertEqual(self.losses("folder"), self.losses("pack"))

    def resolved(self, run):
        text = (self.folder / run / "config.resolved.yaml").read_text()
        return {key: [float(v) for v in re.search(rf"^  {key}: \[(.*)\]$", text, re.M).group(1).split(",")]
                for key in ("mean", "std")}

    def test_mean_and_deviation_are_the_folders_own(self):
        said = self.configured("data", "inspect")
        real = {key: [float(v) for v in re.search(rf"{key} \[(.*?)\]", said).group(1).split(",")]
                for key in ("mean", "std")}
        self.assertEqual(len(real["mean"]), 3)
        for workers in (0, 1, 3):
            said = self.configured("train", words=[f"data.workers={workers}", f"run.dir=own{workers}"])
            self.assertIn("measured on 24 of 24 training images: mean [", said)
            self.assertEqual(self.resolved(f"own{workers}"), real)
        self.assertEqual(self.losses("own0"), self.losses("own3"))
        # A pack, which is measured while it is written, gives equal results.
        said = self.configured("data", "pack", "--out", "own.h5")
        words = re.search("train with (.*)", said).group(1).split()
        said = self.configured("train", words=[*words, "run.dir=own_pack"])
        self.assertNotIn("measured", said)
        self.assertEqual(self.resolved("own_pack"), real)
        self.assertEqual(self.losses("own0"), self.losses("own_pack"))
        # A normalization given by name.
        self.configured("train", words=["data.mean=imagenet", "run.dir=imagenet"])
        self.assertEqual(self.resolved("imagenet"), {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})
        self.assertNotEqual(self.losses("own0"), self.losses("imagenet"))
        self.assertIn("must be a list of numbers", self.configured("train", words=["data.mean=imagnet"], code=2))

    def test_what_was_measured_stays_with_the_run(self):
        same = ["schedule.name=constant"]
        self.configured("train", words=[*same, "run.dir=stays", "train.epochs=1"])
        own = self.resolved("stays")
        accuracy = re.search(r"test accuracy .*", self.trainer("eval", "--run", "stays")).group()
        more = self.root / "train" / "across" / "white.png"
        more.write_bytes(png(40, 40, 0, 255))
        try:
            other = self.configured("train", words=["run.dir=other_mean", "train.epochs=1"])
            self.assertIn("of 25 training images", other)
            self.assertNotEqual(self.resolved("other_mean"), own)
        finally:
            more.unlink()
        said = self.configured("train", "--resume", words=[*same, "run.dir=stays"])
        self.assertNotIn("measured", said)
        self.assertEqual(self.resolved("stays"), own)
        self.configured("train", words=[*same, "run.dir=whole"])
        self.assertEqual((self.folder / "stays" / "weights.safetensors").read_bytes(),
                         (self.folder / "whole" / "weights.safetensors").read_bytes())
        # The resolved configuration can resume this training.
        self.trainer("train", "--config", "stays/config.resolved.yaml", "--resume", "train.epochs=3")
        self.assertIn("data.mean: [0.1, 0.1, 0.1], but the checkpoint was trained with", self.trainer(
            "train", "--config", "stays/config.resolved.yaml", "--resume", "data.mean=[0.1,0.1,0.1]", code=2))
        self.assertIn("test accuracy", accuracy)

    def test_a_run_folder_tells_all_that_inference_needs(self):
        self.configured("train", words=["run.dir=tells", "train.epochs=1"])
        about = json.loads((self.folder / "tells" / "inference.json").read_text())
        own = self.resolved("tells")
        self.assertEqual(about["normalization"]["mean"], own["mean"])
        self.assertEqual(about["normalization"]["std"], own["std"])
        self.assertEqual(about["output"]["class_names"], ["across", "down"])
        self.assertEqual([about["input"][key] for key in ("height", "width", "channels", "layout")], [16, 16, 3, "NHWC"])
        self.assertIn("16 pixels", about["input"]["preparation"])
        self.assertEqual(about["weights"]["flatten"], "HWC")
        plan = json.loads((self.folder / "tells" / "plan.json").read_text())
        self.assertEqual(plan["inference"], about)
        line = json.dumps(json.dumps(about, separators=(",", ":")))[1:-1].encode()
        for name in ("weights.safetensors", "checkpoints/" + sorted(os.listdir(self.folder / "tells" / "checkpoints"))[-1]):
            self.assertIn(line, (self.folder / "tells" / name).read_bytes(), name)
        self.assertIn('"class_names":["across","down"]', (self.folder / "tells" / "config.resolved.yaml").read_text())
        planned = json.loads(self.configured("plan", "--json"))["inference"]
        self.assertIsNone(planned["normalization"]["mean"])
        self.assertEqual(planned["input"], about["input"])

    def test_a_compressed_pack_trains_like_a_plain_one(self):
        words = {}
        for name, more in (("plain.h5", ()), ("gzip.h5", ("--compress", "gzip"))):
            said = self.configured("data", "pack", "--out", name, *more)
            words[name] = re.search("train with (.*)", said).group(1).split()
            self.configured("train", words=["data.augment=[{crop: {padding: 2}}]", *words[name], f"run.dir={name[:-3]}"])
        self.assertEqual(self.losses("plain"), self.losses("gzip"))
        weights = [(self.folder / run / "weights.safetensors").read_bytes() for run in ("plain", "gzip")]
        self.assertEqual(*weights)
        self.assertLess((self.folder / "gzip.h5").stat().st_size, (self.folder / "plain.h5").stat().st_size)
        self.assertIn("gzip", self.configured("data", "pack", "--out", "x.h5", "--compress", "lzf", code=2))

    # Runs with a file of another program (tests/golden/make_hdf5.py).
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
        words = shlex.split(re.search("train with (.*)", said).group(1))
        self.assertEqual(words[2:], ["~data.images", "~data.labels"])
        self.named("train", words=[*words, "run.dir=named_pack"])
        self.assertEqual(self.losses("named"), self.losses("named_pack"))
        resumed = self.named("train", words=["--resume", "run.dir=named", "data.cache=1KiB", "train.steps=6"])
        self.assertIn("6", resumed)
        self.named("train", words=["run.dir=other", "data.name=synthetic", "model.classes=10"])  # resets the file's keys

    def test_what_is_wrong_with_a_file_of_another_program_is_named(self):
        wrong = ["data.images=wrong", "data.labels=y/int64", "data.test_fraction=0.25"]
        said = self.named("train", words=[*wrong, "run.dir=bad"], file="types.h5", code=3)
        self.assertIn("'wrong': image 7 has the value 300, outside [0, 255]", said)
        self.assertIn("data set does not exist", self.named("data", "inspect", words=["data.images=/{split}/none"], code=3))
        for words, text in ((["data.range=[1]"], "data.range: must be two numbers"),
                            (["data.labels=y"], "both or neither must contain {split}"),
                            (["data.layout=nchw"], "is not one of hwc, chw, cwh"),
                            (["data.test_fraction=0.2"], "it applies only to hdf5 with data.images without {split}"),
                            (["data.test_fraction=1"], "data.test_fraction: must be"),
                            (["~data.images"], "data.labels: "),
                            (["data.name=cifar100", "data.labels=corse", "model.classes=100"], "did you mean 'coarse'"),
                            (["data.name=synthetic", "data.layout=chw", "model.classes=10"], "data.layout: chw has no effect")):
            with self.subTest(words):
                self.assertIn(text, self.named("train", "--dry-run", words=words, code=2))

    def test_what_stands_at_the_target_is_kept(self):
        (self.folder / "old.h5").write_text("precious")
        os.mkfifo(self.folder / "pipe.h5")
        nowhere = "data.root=/nowhere"  # the target is checked before the data
        for out, text in (("old.h5", "--overwrite"), ("pipe.h5", "a pipe"), (".", "is a folder"),
                          ("none/new.h5", "folder 'none' does not exist")):
            self.assertIn(text, self.configured("data", "pack", "-o", out, words=[nowhere], code=2))
        self.assertEqual((self.folder / "old.h5").read_text(), "precious")
        self.assertTrue((self.folder / "pipe.h5").is_fifo())
        said = self.configured("data", "pack", "-o", "old.h5", "--overwrite")
        self.assertIn("data.root=old.h5", said)

    def test_a_path_with_blanks_can_be_pasted(self):
        said = self.configured("data", "pack", "-o", "my pack.h5")
        words = shlex.split(re.search("train with (.*)", said).group(1))
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
        self.assertRegex(text, r"memory: calculated [\d.]+ MiB")
        found = json.loads(self.configured("data", "bench", "--seconds", "0.2", "--json"))
        self.assertGreaterEqual(found["seconds"], 0.2)
        self.assertGreater(found["images_per_second"], 0)

    def test_all_damaged_pictures_are_named(self):
        broken = [self.root / "train" / "across" / f"late{i}.png" for i in range(12)]
        for path in broken:  # with an intact header
            path.write_bytes(png(9, 9, 0, 0)[:-30])
        try:
            said = self.configured("data", "inspect", words=["data.damaged=error"], code=3)
            self.assertIn("13 damaged pictures", said)
            for path in broken:
                self.assertIn(path.name, said)
            done = subprocess.run([TRAINER, "doctor", "--config", CONFIG, f"data.root={self.root}", *TINY,
                                   "data.damaged=error"], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertIn("13 damaged pictures", done.stdout)
            self.assertIn("late11.png", done.stdout)
            self.assertIn("13 damaged pictures were skipped", self.configured("doctor"))
        finally:
            for path in broken:
                path.unlink()

    def test_more_classes_than_the_data_have_are_said(self):
        for verb in (("train", "--dry-run"), ("train",)):
            done = subprocess.run([TRAINER, *verb, "--config", CONFIG, f"data.root={self.root}", *TINY, "model.classes=5",
                                   "run.dir=spare", "train.epochs=1"], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("model.classes: the model has 5 classes, but image_folder train has only 2", done.stderr)
            self.assertIn("model.classes=2", done.stderr)
        self.assertRegex(self.configured("doctor", words=["model.classes=5"]), r"(?m)^warning +data [^$]*\n +model.classes: the model has 5")
        self.assertRegex(self.configured("doctor"), r"(?m)^warning +data ")  # the damaged picture
        self.assertNotIn("model.classes", self.configured("doctor"))

    # The three commands of README: train on a folder of classes, look at each class, export.
    def test_a_folder_of_classes_needs_no_test_folder_and_no_number_of_classes(self):
        root = self.folder / "photos"
        for name in ("ants, red", "bees/north", "cats"):
            (root / name).mkdir(parents=True)
            for i in range(10):
                (root / name / f"{i}.png").write_bytes(png(16, 16, 0, i))
        said = self.trainer("train", "--config", CONFIG, f"data.root={root}", "train.epochs=1", "data.validation=3",
                            "run.dir=photos_run")
        self.assertIn("image_folder train: 24 images [64x64x3], 3 classes", said)
        self.assertIn("image_folder test: 3 images", said)
        self.assertIn("classes: 3\n", (self.folder / "photos_run" / "config.resolved.yaml").read_text())
        with open(self.folder / "photos_run" / "split.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["file"] for row in rows},
                         {str(path.relative_to(root)) for path in root.rglob("*.png")})
        for part, count in (("train", 8), ("validation", 1), ("test", 1)):
            for name in ("ants, red/", "bees/north/", "cats/"):
                self.assertEqual(sum(row["part"] == part and row["file"].startswith(name) for row in rows), count)
        said = self.trainer("eval", "--run", "photos_run", "--report", "photos.html")
        self.assertIn("image_folder test: 3 images", said)
        self.assertIn("ants, red", said)
        self.assertIn("image_folder test: 30 images", self.trainer("eval", "--run", "photos_run", "--data", root))
        for more in (["--data", root], ["data.test_fraction=0.5"]):
            done = subprocess.run([TRAINER, "eval", "--run", "photos_run", *map(str, more)], cwd=self.folder,
                                  capture_output=True, text=True, check=True)
            self.assertRegex(done.stderr, r"the run was trained on \d+ of these \d+ images \(split.csv")
        self.trainer("export", "--run", "photos_run", "-o", "photos.onnx")

    def test_folders_that_look_odd_are_named_where_classes_are_too_many(self):
        root = self.folder / "odd"
        for name, count in (("ants", 20), ("bees", 20), ("ants copy", 20), ("_old", 20), ("flies", 1), (".hidden", 3)):
            (root / "train" / name).mkdir(parents=True)
            for i in range(count):
                (root / "train" / name / f"{i}.png").write_bytes(png(16, 16, 0, i))
        (root / "train" / "cats").mkdir()
        (root / "test" / "ants").mkdir(parents=True)
        (root / "test" / "ants" / "1.png").write_bytes(png(16, 16, 0, 0))
        words = ["train", "--dry-run", "--config", CONFIG, *TINY, f"data.root={root}"]
        said = self.trainer(*words, "model.classes=2", code=2)
        self.assertIn("image_folder train has 5 classes, but the model has only 2; set model.classes=5; "
                      "these classes look odd: '_old' (20 images), 'ants copy' (20 images), 'flies' (1 images)\n", said)
        done = subprocess.run([TRAINER, *map(str, words), "model.classes=6"], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertIn("the others are never correct", done.stderr)
        self.assertIn("1 folder has no picture and was skipped: train/cats; these classes look odd: '_old'",
                      done.stderr)
        self.assertIn("2 files or folders were skipped: `trainer data inspect` names them", done.stdout)

    def test_training_that_waits_for_decoding_is_told_so(self):
        root = self.folder / "large"
        for split in "train", "test":
            (root / split / "a").mkdir(parents=True)
            for i in range(4):
                (root / split / "a" / f"{i}.png").write_bytes(png_of(400, 400, [bytes(1200)] * 400))
        words = ["--config", CONFIG, *TINY, f"data.root={root}", "data.batch=2", "data.workers=1", "run.dir=slow",
                 "train.epochs=50", "train.evaluate_every=0ep", "checkpoint.every=0ep"]
        said = self.trainer("train", *words)
        self.assertRegex(said, r"data: \d+ % of the time of the last 100 steps was spent waiting for data; "
                               r"the slowest stage is decoding \(reading \d+ %, decoding \d+ %, .* store the pictures decoded")
        self.assertRegex(self.trainer("data", "bench", "--seconds", "0.1", *words), r"reading 0\.\d s, decoding \d+\.\d s,")

    def test_gray_pictures_stay_gray(self):
        for channels in ("1", "auto"):
            said = self.configured("data", "inspect", words=[f"data.channels={channels}"])
            self.assertIn(f"24 images [16x16x{1 if channels == '1' else 3}]", said)
        said = self.configured("data", "pack", "--out", "gray.h5", words=["data.channels=1"])
        words = re.search("train with (.*)", said).group(1).split()
        self.assertIn("~data.channels", words)
        self.configured("train", words=["data.channels=1", "run.dir=gray"])
        self.configured("train", words=[*words, "run.dir=gray_pack"])
        self.assertEqual(self.losses("gray"), self.losses("gray_pack"))
        self.configured("data", "pack", "--out", "colour.h5")
        self.assertLess((self.folder / "gray.h5").stat().st_size, (self.folder / "colour.h5").stat().st_size)
        self.configured("plan", words=["data.channels=auto"])

    # A limit on the size of files fails a write, as a full disk does.
    def test_a_pack_that_does_not_fit_leaves_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        for more in ([], ["--compress", "gzip"]):
            done = subprocess.run([TRAINER, "data", "pack", "--out", "full.h5", "--config", CONFIG, f"data.root={self.root}",
                                   *TINY, *more], cwd=self.folder, capture_output=True, text=True, check=False,
                                  preexec_fn=limit)
            self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
            self.assertIn("full.h5.partial' cannot be written", done.stderr)
            self.assertEqual(list(self.folder.glob("full.h5*")), [])

    def test_json_is_a_configuration(self):
        config = {"model": {"name": "cnn_bn", "widths": [4, 4, 8, 8], "classes": 2}, "threads": 1, "device": "cpu",
                  "data": {"name": "image_folder", "root": str(self.root), "image_size": 16, "batch": 8,
                           "damaged": "skip", "augment": [{"flip": "horizontal"}]},
                  "schedule": {"name": "multistep", "milestones": ["1ep", "5st"], "warmup": "2st"},
                  "train": {"epochs": 2, "evaluate_every": "1ep", "log_every": 0}, "memory": {"limit": "1GiB"},
                  "checkpoint": {"every": "10min"}, "run": {"dir": "json"}}
        (self.folder / "config.json").write_text(json.dumps(config, indent=2))
        self.trainer("train", "--config", "config.json")
        self.assertIn("every: 10min", (self.folder / "json" / "config.resolved.yaml").read_text())

    def test_the_epochs_training_accuracy_is_of_all_of_it(self):
        words = ["train.epochs=1", "data.batch=5", "schedule.name=constant", "optimizer.lr=0.01"]
        said = self.configured("train", words=[*words, "train.log_every=2st", "run.dir=whole_epoch"])
        self.configured("train", words=[*words, "train.log_every=1st", "run.dir=each_batch"])
        lines = {run: [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
                 for run in ("whole_epoch", "each_batch")}
        each = [line for line in lines["each_batch"] if line["phase"] == "train"]
        whole = [line for line in lines["whole_epoch"] if line["phase"] == "train"][-1]
        self.assertEqual((whole["step"], whole["epoch"]), (5, 1))
        right = sum(line["accuracy"] * 5 for line in each[:4])  # 20 images; 4 are left
        self.assertIn(round(whole["accuracy"] * 24 - right, 4), (0, 1, 2, 3, 4))
        self.assertAlmostEqual(whole["accuracy"], each[-1]["accuracy"])
        self.assertIn(f"train loss {whole['loss']:.4f} acc {100 * whole['accuracy']:.2f} %", said)
        report = (self.folder / "whole_epoch" / "report.html").read_text()
        self.assertIn(f"<td>{whole['loss']:.4f}</td><td>{100 * whole['accuracy']:.2f} %</td>", report)

    def test_bad_settings_have_a_place(self):
        for word, text in (("data.augment=[{resize_crop: {scale: [0.5]}}]", "two numbers"),
                           ("data.augment=[{cutout: {}}]", "size"),
                           ("data.augment=[{mixup: {alfa: 1}}]", "alpha"),
                           ("data.image_size=0", "image_size")):
            self.assertIn(text, self.configured("data", "inspect", words=[word], code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
