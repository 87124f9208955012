#!/usr/bin/env python3
"""trainer predict, and predict, a separate program that is linked statically.

    predict_cli_test.py TRAINER [PREDICT]
"""

import csv
import importlib.util
import io
import json
import math
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from pictures import odd_pictures, png_of, write_png as png
from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
ALONE = str(Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 and sys.argv[2] else None
MISUSE, NO_PICTURE, BAD_WEIGHTS = 2, 3, 5  # runtime/error.h


class Predict(unittest.TestCase):
    """A network that distinguishes red and blue pictures, trained on a folder of them."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        for split, count in (("train", 16), ("test", 4)):
            for name, colour in (("blue, dark", (10, 20, 200)), ("red", (220, 30, 10))):
                where = cls.folder / "data" / split / name
                where.mkdir(parents=True)
                for k in range(count):
                    png(where / f"{k}.png", 20 + k, 24, [min(255, c + 2 * k) for c in colour])
        (cls.folder / "c.yaml").write_text(
            "model: {layers: [{conv: {filters: 8, kernel: 3, padding: 1}}, batch_norm, relu,"
            " global_average_pool, {linear: {units: 2}}], classes: 2}\n"
            "data: {name: image_folder, root: data, image_size: 16, batch: 8, workers: 0}\n"
            "train: {epochs: 6}\nrun: {dir: run}\nthreads: 1\n", encoding="utf-8")
        cls.run_it("train", "--config", "c.yaml")
        new = cls.folder / "new"
        (new / "below").mkdir(parents=True)
        png(new / "a.png", 40, 30, (10, 20, 200))
        png(new / "below" / "b.PNG", 17, 90, (220, 30, 10))
        (new / "notes.txt").write_text("no picture", encoding="utf-8")
        png(new / "._a.png", 40, 30, (10, 20, 200))  # hidden, so never read
        (new / ".ipynb_checkpoints").mkdir()
        png(new / ".ipynb_checkpoints" / "a-checkpoint.png", 40, 30, (10, 20, 200))

    @classmethod
    def run_it(cls, *words, code=0, text=None):
        done = subprocess.run([TRAINER, *map(str, words)], cwd=cls.folder, capture_output=True, text=True,
                              check=False, input=text)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else (done.stdout, done.stderr)

    def predict(self, *words, code=0, text=None):
        return self.run_it("predict", "--run", "run", *words, code=code, text=text)

    def test_names_what_pictures_show(self):
        lines = self.predict("new").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^new/a.png: blue, dark \d+\.\d\d %, red \d+\.\d\d %$")
        self.assertRegex(lines[1], r"^new/below/b.PNG: red \d+\.\d\d %, blue, dark \d+\.\d\d %$")
        self.assertRegex(self.predict("--top", 1, "new/a.png"), r"^new/a.png: blue, dark \d+\.\d\d %$")

    def test_json_has_all_that_another_program_needs(self):
        told = json.loads(self.predict("--json", "new"))
        inference = json.loads((self.folder / "run" / "inference.json").read_text(encoding="utf-8"))
        self.assertEqual(told["classes"], ["blue, dark", "red"])
        for key in "mean", "std":
            for found, wanted in zip(told[key], inference["normalization"][key], strict=True):
                self.assertAlmostEqual(found, wanted, places=6)
        first = told["images"][0]
        self.assertEqual((first["file"], first["class"]), ("new/a.png", "blue, dark"))
        shares = [math.exp(logit) for logit in first["logits"]]
        for found, share in zip(first["probabilities"], shares, strict=True):
            self.assertAlmostEqual(found, share / sum(shares), places=5)

    def test_the_precision_is_the_runs_unless_told(self):
        told = {word: json.loads(self.predict("--json", *word.split(), "new"))
                for word in ("", "--precision float32", "--precision bf16", "--precision f16")}
        self.assertEqual([one["precision"] for one in told.values()], ["float32", "float32", "bf16", "f16"])
        logits = [[image["logits"] for image in one["images"]] for one in told.values()]
        self.assertEqual(logits[0], logits[1])
        for found in logits[2:]:
            self.assertNotEqual(found, logits[0])
            for a, b in zip(sum(found, []), sum(logits[0], [])):
                self.assertAlmostEqual(a, b, delta=0.05 * max(1, abs(b)))
        self.assertIn("--precision: ", self.predict("--precision", "bf17", "new", code=MISUSE)[1])

    def test_csv_is_quoted(self):
        rows = list(csv.reader(io.StringIO(self.predict("--csv", "new"))))
        self.assertEqual(rows[0], ["file", "class1", "probability1", "class2", "probability2"])
        self.assertEqual([row[1] for row in rows[1:]], ["blue, dark", "red"])

    def test_paths_come_on_standard_input(self):
        self.assertEqual(self.predict("-", text="new/a.png\n\nnew/below/b.PNG\n"), self.predict("new"))

    def test_batches_answer_as_single_pictures(self):
        one = json.loads(self.predict("--json", "data/test"))["images"]
        for batch in 3, 8:
            many = json.loads(self.predict("--json", "--batch", batch, "data/test"))["images"]
            for a, b in zip(one, many, strict=True):
                self.assertEqual(a["file"], b["file"])
                for x, y in zip(a["logits"], b["logits"], strict=True):
                    self.assertAlmostEqual(x, y, places=4)

    def test_what_is_no_picture_is_named_and_the_others_go_on(self):
        out, errors = self.predict("new/a.png", "new/notes.txt", "none.png", "new/below/b.PNG", code=NO_PICTURE)
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn("new/notes.txt", errors)
        self.assertIn("none.png", errors)
        told = json.loads(self.predict("--json", "none.png", "new/a.png", code=NO_PICTURE)[0])
        self.assertEqual([list(image) for image in told["images"]],
                         [["file", "error"], ["file", "class", "logits", "probabilities"]])

    # A file of our own tells its network, images and classes; one of another program needs them told.
    def test_a_file_of_weights_needs_no_run(self):
        self.run_it("train", "--config", "c.yaml", "~model.layers", "model.name=resnet18", "model.classes=2",
                    "run.dir=zoo", "train.epochs=1")
        self.run_it("export", "--run", "zoo", "-o", "own.safetensors")
        of_run = json.loads(self.run_it("predict", "--run", "zoo", "--json", "new"))
        for file in ("own.safetensors", "zoo/weights.safetensors"):
            self.assertEqual(json.loads(self.run_it("predict", "--weights", file, "--json", "new")), of_run)
        data = (self.folder / "own.safetensors").read_bytes()
        end = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:end])
        inference = json.loads(header.pop("__metadata__")["inference"])
        text = json.dumps(header).encode()
        (self.folder / "other.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[end:])
        self.assertIn("add --model", self.run_it("predict", "--weights", "other.safetensors", "new", code=MISUSE)[1])
        (self.folder / "names").write_text("blue, dark\nred\n", encoding="utf-8")
        words = ["--weights", "other.safetensors", "--model", "resnet18"]
        sets = ["--set", "data.image_size=16", *(f"--set=data.{key}={inference['normalization'][key]}" for key in ("mean", "std"))]
        told = json.loads(self.run_it("predict", *words, *sets, "--class-names", "names", "--json", "new"))
        self.assertEqual(told, of_run)
        plain = json.loads(self.run_it("predict", *words, "--json", "new"))
        slope = b"\0" + bytes(x * 5 % 256 for x in range(900))  # as published: the middle 224 of 256 pixels
        (self.folder / "slope.png").write_bytes(png_of(300, 280, 8, 2, slope * 280))
        sized = self.run_it("predict", *words, "--set=data.image_size=224", "--json", "slope.png")
        cut = self.run_it("predict", *words, "--set=data.image_size=224", "--set=data.resize=256", "--json", "slope.png")
        self.assertNotEqual(sized, cut)
        self.assertEqual(self.run_it("predict", *words, "--json", "slope.png"), cut)
        self.run_it("export", *words, "-o", "cut.safetensors")
        of_file = json.loads(self.run_it("predict", "--weights", "cut.safetensors", "--json", "slope.png"))
        self.assertEqual(of_file["images"][0]["logits"], json.loads(cut)["images"][0]["logits"])
        self.assertEqual(plain["classes"], ["0", "1"])
        for key, values in (("mean", (0.485, 0.456, 0.406)), ("std", (0.229, 0.224, 0.225))):
            for value, wanted in zip(plain[key], values, strict=True):
                self.assertAlmostEqual(value, wanted, places=6)
        self.run_it("export", *words, *sets, "-o", "again.safetensors")
        self.assertEqual(json.loads(self.run_it("predict", "--weights", "again.safetensors", "--json", "new"))["images"][0]["logits"],
                         of_run["images"][0]["logits"])
        of_run = json.loads(self.run_it("eval", "--run", "zoo", "--data", "data", "--json"))
        of_file = json.loads(self.run_it("eval", "--weights", "own.safetensors", "--data", "data", "--json"))
        for key in ("accuracy", "loss", "confusion", "classes"):
            self.assertEqual(of_file[key], of_run[key], key)
        for size in 320, 192:  # the published data.resize belongs to the published data.image_size
            self.run_it("eval", *words, "--data", "data", f"data.image_size={size}")
        self.assertIn("needs --data", self.run_it("eval", "--weights", "own.safetensors", code=MISUSE)[1])
        (self.folder / "names").write_text("red\n", encoding="utf-8")
        for code, more, part in (
                (NO_PICTURE, [*words, "--class-names", "names"], "has 1 lines, but the network has 2 classes"),
                (BAD_WEIGHTS, [*words[:2], "--model", "resnet50"], "It looks like torchvision's resnet18"),
                (MISUSE, [*words[:2], "--model", "resnt18"], "did you mean 'resnet18'?"),
                (MISUSE, [*words[:2], "--model", "resnet20"], "data.image_size: must be set"),
                (MISUSE, [*words[:2], "--model", "resnet20", "--set", "data.image_size=8"], "such as data.mean=imagenet"),
                (MISUSE, [], "use --run with the folder of a training, or --weights")):
            self.assertIn(part, self.run_it("predict", *more, "new", code=code)[1])

    @unittest.skipUnless(ALONE, "predict was not built: an archive of a library is missing")
    def test_the_program_of_its_own_answers_the_same_and_needs_no_library(self):
        def alone(*words):
            return subprocess.run([ALONE, "--run", "run", *words], cwd=self.folder, capture_output=True, text=True,
                                  check=False, env={})
        for words in ("--json", "new"), ("--csv", "data/test"):
            self.assertEqual(alone(*words).stdout, self.predict(*words))
        self.assertEqual(alone("new/notes.txt").returncode, NO_PICTURE)
        self.assertEqual(alone("--top", "none", "new").returncode, MISUSE)
        self.assertNotIn(b"ld-linux", Path(ALONE).read_bytes()[:4096])

    def test_faults_are_told(self):
        (self.folder / "empty").mkdir(exist_ok=True)
        self.assertIn("no .jpg, .jpeg, .png or .webp", self.predict("empty", code=NO_PICTURE)[1])
        self.assertIn("'nothing/config.resolved.yaml' does not exist", self.run_it("predict", "--run", "nothing", "x.png", code=MISUSE)[1])
        self.assertIn("--csv", self.predict("--json", "--csv", "new", code=MISUSE)[1])
        self.assertIn("no-such", self.predict("--checkpoint", "no-such", "new", code=BAD_WEIGHTS)[1])


@unittest.skipUnless(all(map(importlib.util.find_spec, ("PIL", "numpy", "h5py"))),
                     "no Pillow, numpy and h5py here (Debian: python3-pil python3-numpy python3-h5py)")
class Preparation(ProgramTest):
    """The file of weights has all that examples/prepare.py needs to compute the network's input."""

    program = TRAINER
    # image_size, channels, resize: an even size in colour, an odd size in gray, a centre of a larger picture.
    SIZES = ((32, 3, 0), (17, 1, 0), (28, 3, 33))

    def setUp(self):
        super().setUp()
        spec = importlib.util.spec_from_file_location("prepare", Path(__file__).parents[2] / "examples" / "prepare.py")
        self.prepare = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.prepare)
        self.files = []
        for name in "a", "b":
            (self.folder / "data" / "train" / name).mkdir(parents=True)
        for k, (suffix, data) in enumerate(odd_pictures(200)):
            self.files.append(self.folder / "data" / "train" / "ab"[k // 100] / f"{k:03}.{suffix}")
            self.files[-1].write_bytes(data)
        (self.folder / "data" / "test" / "a").mkdir(parents=True)
        (self.folder / "data" / "test" / "a" / "0.png").write_bytes(self.files[0].read_bytes())

    def write_config(self, size, channels, resize):
        (self.folder / "c.yaml").write_text(
            "model: {layers: [flatten, {linear: {units: 2}}], classes: 2}\n"
            f"data: {{name: image_folder, root: data, image_size: {size}, channels: {channels}, batch: 8,\n"
            f"  resize: {resize}, workers: 0}}\n"
            f"optimizer: {{name: sgd, lr: 0.001}}\ntrain: {{steps: 1}}\nrun: {{dir: run{size}}}\nthreads: 1\n",
            encoding="utf-8")

    def test_pillow_makes_the_same_pixels_and_logits(self):
        import h5py
        import numpy as np
        for size, channels, resize in self.SIZES:
            self.write_config(size, channels, resize)
            self.run_program("train", "--config", "c.yaml", code=0)
            self.run_program("data", "pack", "--config", "c.yaml", "-o", f"{size}.h5", code=0)
            self.run_program("export", "--run", f"run{size}", "-o", "m.safetensors", code=0)
            about = self.prepare.inference_of(str(self.folder / f"run{size}" / "inference.json"))
            self.assertEqual(self.prepare.inference_of(str(self.folder / "m.safetensors")), about)
            with h5py.File(self.folder / f"{size}.h5") as pack:
                packed = pack["train/images"][()].astype(int)
            data = (self.folder / "m.safetensors").read_bytes()
            start = 8 + int.from_bytes(data[:8], "little")
            weights = {name.rsplit(".", 1)[-1]: np.frombuffer(data[start:], "<f4")[at["data_offsets"][0] // 4:
                                                                                   at["data_offsets"][1] // 4]
                       for name, at in json.loads(data[8:start]).items() if name != "__metadata__"}
            told = json.loads(self.run_program("predict", "--run", f"run{size}", "--json", *self.files,
                                               code=0).stdout)["images"]
            for file, ours, answer in zip(self.files, packed, told, strict=True):
                with self.subTest(size=size, file=file.name):
                    theirs = self.prepare.pixels_of(file, about).astype(int)
                    self.assertEqual(theirs.shape, ours.shape)
                    self.assertLessEqual(np.abs(ours - theirs).max(), 1)
                    x = self.prepare.input_of(file, about).astype(float).reshape(-1)
                    logits = weights["weight"].astype(float).reshape(2, -1) @ x + weights["bias"]
                    if file.suffix == ".png":
                        self.assertLessEqual(np.abs(logits - answer["logits"]).max(), 1e-4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
