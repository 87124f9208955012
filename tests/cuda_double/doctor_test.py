#!/usr/bin/env python3
"""Parts of cuDNN that are damaged, missing or of two versions: doctor names the part, and no other plan is made.

    doctor_test.py TRAINER
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRAINER = str(Path(sys.argv[1]).resolve())
NO_DEVICE = 4  # runtime/error.h
NEEDED = ("graph", "heuristic", "engines_precompiled", "engines_runtime_compiled")
CONFIG = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 64, batch: 16, workers: 0}
run: {dir: run}
"""


class Parts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
        self.double = Path(self.doctor()["figures"]["cudnn"]["file"]).parent
        for file in self.double.glob("libcudnn*.so.*"):
            (self.folder / file.name).symlink_to(file)

    def run_it(self, *words):
        return subprocess.run([TRAINER, *words], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=os.environ | {"LD_LIBRARY_PATH": str(self.folder), "TESSERA_CACHE": "off"})

    def doctor(self):
        done = self.run_it("doctor", "--json")
        self.assertIn(done.returncode, (0, NO_DEVICE), done.stderr)
        return json.loads(done.stdout)

    def found(self):
        """The state and text of the finding, and the faults by part."""
        report = self.doctor()
        finding = next(found for found in report["findings"] if found["what"] == "cuDNN parts")
        return finding["state"], finding["text"], {part["name"].split(".")[0]: part["fault"]
                                                   for part in report["figures"]["cudnn_parts"] if part["fault"]}

    def plan(self):
        return self.run_it("plan", "--config", "c.yaml", "device=gpu:H100")

    def part(self, name):
        return next(self.folder.glob(f"libcudnn_{name}.so.*"))

    def replaced(self, name, how):
        file = self.part(name)
        whole = file.read_bytes()
        file.unlink()
        if how == "before":
            file.symlink_to(self.double / "before" / file.name)
        else:
            file.write_bytes(whole[:len(whole) // 3] if how == "cut off" else b"not a library" * 100)
        return file

    def restore(self, file):
        file.unlink()
        file.symlink_to(self.double / file.name)

    def test_all_is_well(self):
        self.assertEqual(self.found()[::2], ("ok", {}))
        report = self.doctor()
        for part in report["figures"]["cudnn_parts"]:
            first = part["copies"][0]
            self.assertEqual(first["file"], str(self.folder / part["name"]))
            tells = any(word in part["name"] for word in ("graph", "ops", "adv"))
            self.assertEqual(first["version"], report["figures"]["cudnn"]["running"] if tells else "")
        self.assertEqual(self.plan().returncode, 0)

    def test_a_part_that_plans_need(self):
        for name in NEEDED:
            for how in ("cut off", "no library", "before"):
                with self.subTest(name=name, how=how):
                    file = self.replaced(name, how)
                    state, text, faults = self.found()
                    self.assertEqual(state, "problem", text)
                    self.assertEqual(list(faults), ["libcudnn_" + name])
                    self.assertIn(str(file), text)
                    self.assertIn("reinstall cuDNN", text)
                    done = self.plan()
                    if (name, how) != ("graph", "no library"):  # then one elsewhere is taken, if there is one
                        self.assertEqual(done.returncode, NO_DEVICE, done.stdout + done.stderr)
                        self.assertIn(str(file), done.stderr)
                        self.assertEqual(done.stdout, "")
                    self.assertIn(done.returncode, (0, NO_DEVICE))
                    self.restore(file)

    def test_the_odd_one_is_named_with_both_versions(self):
        for name in ("graph", "ops", "adv"):
            with self.subTest(name=name):
                file = self.replaced(name, "before")
                _, text, faults = self.found()
                self.assertEqual(list(faults), ["libcudnn_" + name])
                self.assertRegex(text, rf"{file.name}: {file} \((\d+\.\d+\.98)\).*; is version \1, but the other "
                                       r"parts are version \d+\.\d+\.99")
                self.restore(file)

    def test_a_part_that_plans_do_not_need_is_a_warning(self):
        for how in ("cut off", "no library", "before"):
            with self.subTest(how=how):
                file = self.replaced("adv", how)
                state, text, faults = self.found()
                self.assertEqual((state, list(faults)), ("warning", ["libcudnn_adv"]), text)
                self.assertEqual(self.plan().returncode, 0)
                self.restore(file)

    def test_every_copy_is_listed(self):
        second = self.folder / "second"
        second.mkdir()
        name = self.part("ops").name
        (second / name).symlink_to(self.double / "before" / name)
        done = subprocess.run([TRAINER, "doctor"], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=os.environ | {"LD_LIBRARY_PATH": f"{self.folder}:{second}"})
        self.assertRegex(done.stdout, rf"{name}: {self.folder}/{name} \(\S+99\), {second}/{name} \(\S+98\).*; the "
                                      "first is used")

    def test_the_library_itself_cut_off(self):
        file = next(self.folder.glob("libcudnn.so.*"))
        whole = file.read_bytes()
        file.unlink()
        file.write_bytes(whole[:len(whole) // 3])
        report = self.doctor()
        finding = next(found for found in report["findings"] if found["what"] == "cuDNN")
        self.assertEqual(finding["state"], "problem")
        self.assertRegex(finding["text"], rf"'{file}' ends after [\d.]+ KiB of [\d.]+ KiB")
        self.assertEqual(self.plan().returncode, NO_DEVICE)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
