"""A driver older than the toolkit is an error if a GPU was requested, and a warning if one was
optional; the GPU never stays unused without a message.

  old_driver_test.py TRAINER     (old_driver.cc's library precedes the machine's own)
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[2] / "models/configs/quickstart.yaml"
NO_DEVICE = 4


class OldDriver(unittest.TestCase):
    def train(self, device):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [TRAINER, "train", "--config", CONFIG, "--dry-run", f"device={device}",
                 "data.train_count=64", "data.test_count=64"],
                cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def check_reason(self, text):
        self.assertIn("driver for CUDA 11.0, built with CUDA", text)
        self.assertIn("install a newer NVIDIA driver", text)

    def test_asked_for(self):
        code, text = self.train("gpu")
        self.assertEqual(code, NO_DEVICE, text)
        self.check_reason(text)

    def test_hoped_for(self):
        code, text = self.train("auto")
        self.assertEqual(code, 0, text)
        lines = [line for line in text.splitlines() if "device: auto chose cpu:0" in line]
        self.assertEqual(len(lines), 1, text)
        self.assertIn("warning", lines[0])
        self.check_reason(lines[0])


if __name__ == "__main__":
    TRAINER = sys.argv.pop(1)
    unittest.main()
