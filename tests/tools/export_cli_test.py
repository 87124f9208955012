#!/usr/bin/env python3
"""Import (model.weights) and export (trainer export) of weights on the command line.

    export_cli_test.py TRAINER WITH_ONNX
"""

import json
import math
import struct
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
WITH_ONNX = sys.argv[2] == "1"
MISUSE, BAD_WEIGHTS = 2, 5  # runtime/error.h
SMALL = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 32, batch: 32, workers: 0}
train: {steps: 2}
threads: 1
"""


def tensors(path):
    """Returns name, shape and values of each float32 tensor, and the metadata."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    about = header.pop("__metadata__")
    found = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
    return found, about


class Weights(ProgramTest):
    program = TRAINER

    def setUp(self):
        super().setUp()
        (self.folder / "s.yaml").write_text(SMALL, encoding="utf-8")

    def run_it(self, *words, code=0):
        done = self.run_program(*words, code=code)
        return done.stdout if code == 0 else done.stderr

    def train(self, name, *words, code=0):
        return self.run_it("train", "--config", "s.yaml", f"run.dir={name}", *words, code=code)

    def test_weights_go_out_and_come_in(self):
        self.train("a")
        out = self.run_it("export", "--run", "a", "-o", "a.safetensors")
        self.assertEqual(out, "a.safetensors: lenet5 of 'a/weights.safetensors', with our own names\n")
        found, about = tensors(self.folder / "a.safetensors")
        self.assertEqual(found["conv1.weight"][0], [6, 3, 5, 5])
        self.assertEqual(about["format"], "pt")
        self.assertEqual(json.loads(about["inference"])["output"]["classes"], 10)
        self.run_it("export", "--run", "a", "--checkpoint", "latest", "-o", "b.safetensors")
        self.assertEqual(tensors(self.folder / "b.safetensors")[0], found)

        out = self.train("b", "model.weights=a.safetensors", "model.classes=12")
        self.assertIn("weights: a.safetensors: 8 of 10 tensors; fc3 is new: 12 classes, but the file "
                      "has 10", out)
        # Resuming does not need the file.
        (self.folder / "a.safetensors").unlink()
        self.train("b", "--resume", "model.weights=a.safetensors", "model.classes=12", "train.steps=3")
        self.run_it("eval", "--run", "b")

    def test_weights_go_to_keras_and_back(self):
        self.train("a")
        for name, form in (("a.weights.h5", "Keras 3"), ("a.h5", "Keras 2")):
            with self.subTest(name=name):
                self.assertIn(f"with the layer names of {form}", self.run_it("export", "--run", "a", "-o", name))
                out = self.train("b" + form[-1], f"model.weights={name}")
                self.assertIn(f"weights: {name}: 10 of 10 tensors", out)

    def test_what_does_not_fit_is_refused_before_anything_is_written(self):
        self.train("a")
        for words, texts in ((["model.weights=none.safetensors"], ["cannot be opened"]),
                             (["model.weights=s.yaml"], ["s.yaml': is not a safetensors file"]),
                             (["model.weights=a/weights.safetensors", "model.name=cnn_bn"],
                              ["does not fit cnn_bn", "missing: ", "unexpected: 'fc3.bias' [10]"])):
            for mode in ([], ["--dry-run"]):
                with self.subTest(words=words, mode=mode):
                    error = self.train("c", *mode, *words, code=BAD_WEIGHTS)
                    for text in texts:
                        self.assertIn(text, error)
                    self.assertFalse((self.folder / "c").exists())
        out = self.run_it("doctor", "--config", "s.yaml", "model.weights=a/weights.safetensors")
        self.assertIn("weights: a/weights.safetensors: 10 of 10 tensors", out)

    def test_values_that_training_refuses_are_refused_by_dry_run_and_doctor(self):
        self.train("a")
        self.run_it("export", "--run", "a", "-o", "a.safetensors")
        data = bytearray((self.folder / "a.safetensors").read_bytes())
        data[-4:] = struct.pack("<f", math.nan)
        (self.folder / "a.safetensors").write_bytes(data)
        for mode in [], ["--dry-run"]:
            self.assertIn("has the value nan at element",
                          self.train("b", *mode, "model.weights=a.safetensors", code=BAD_WEIGHTS))
            self.assertFalse((self.folder / "b").exists())
        done = self.run_program("doctor", "--config", "s.yaml", "model.weights=a.safetensors", code=BAD_WEIGHTS)
        self.assertIn("has the value nan at element", done.stdout + done.stderr)

    def test_what_cannot_be_exported_is_said(self):
        self.assertIn("'none/config.resolved.yaml' does not exist",
                      self.run_it("export", "--run", "none", "-o", "a.safetensors", code=MISUSE))
        self.train("a")
        self.assertIn("'a.pth' must end in .safetensors, .weights.h5, .h5 or .onnx",
                      self.run_it("export", "--run", "a", "-o", "a.pth", code=MISUSE))
        self.assertIn("--batch applies only to ONNX files", self.run_it(
            "export", "--run", "a", "-o", "a.safetensors", "--batch", 3, code=MISUSE))
        self.assertIn("cannot be written", self.run_it(
            "export", "--run", "a", "-o", "no/a.safetensors", code=BAD_WEIGHTS))

    def test_onnx_is_written_or_its_packages_are_named(self):
        self.train("a")
        if not WITH_ONNX:
            self.assertIn("apt-get install libonnx-dev",
                          self.run_it("export", "--run", "a", "-o", "a.onnx", code=MISUSE))
            return
        self.assertEqual(self.run_it("export", "--run", "a", "-o", "a.onnx"),
                         "a.onnx: lenet5 of 'a/weights.safetensors', ONNX for any batch size, in float32\n")
        self.assertIn(b"logits", (self.folder / "a.onnx").read_bytes())
        self.assertIn("ONNX for batches of 4",
                      self.run_it("export", "--run", "a", "-o", "a.onnx", "--batch", 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
