#!/usr/bin/env python3
"""The trainer's commands for configurations: show, check, write.

    config_cli_test.py TRAINER
"""

import json
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "models" / "configs" / "quickstart.yaml"
TRAINER = str(Path(sys.argv[1]).resolve())
SMALL = ["data.batch=8", "data.train_count=16", "data.test_count=8", "model.widths=[4, 4, 4, 4]"]


class Test(ProgramTest):
    program = TRAINER

    def test_errors_begin_with_their_place(self):
        (self.folder / "c.yaml").write_text("data:\n  bacth: 3\nseed: 010\n", encoding="utf-8")
        for verb in ([], ["train"], ["plan"], ["bench"]):
            done = self.run_program(*verb, "--config", "c.yaml", "train.stesp=5")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(
                done.stderr,
                "c.yaml:2:3: error: unknown key 'bacth' in data\n"
                "    bacth: 3\n"
                "    ^~~~~ did you mean 'batch'?\n"
                "c.yaml:3:7: error: seed: must be an integer from 0 on, but is '010'; some "
                "YAML parsers read a leading 0 as octal, others as decimal\n"
                "  seed: 010\n"
                "        ^~~ did you mean '10'?\n"
                "command line:1:7: error: unknown key 'stesp' in train\n"
                "  train.stesp=5\n"
                "        ^~~~~ did you mean 'steps'?\n")
        self.assertEqual([file.name for file in self.folder.iterdir()], ["c.yaml"])

    def test_print_config_tells_where_values_come_from(self):
        (self.folder / "c.yaml").write_text("seed: 7\ndata: {batch: 4,\n  workers: 1}\n",
                                            encoding="utf-8")
        said = self.succeed("--config", "c.yaml", "--print-config", "data.batch=9", "~seed")
        origins = {line.split(":")[0].strip(): line.split("  # ")[1]
                   for line in reversed(said.splitlines()) if "  # " in line}  # the first per name
        self.assertEqual(origins["seed"], "default")
        self.assertEqual(origins["batch"], "command line")
        self.assertEqual(origins["workers"], "c.yaml:3")
        self.assertEqual(origins["planner"], "default")
        (self.folder / "again.yaml").write_text(said, encoding="utf-8")
        again = self.succeed("--config", "again.yaml", "--print-config")
        self.assertEqual([line.split("#")[0].rstrip() for line in again.splitlines()],
                         [line.split("#")[0].rstrip() for line in said.splitlines()])

    def test_dry_run_checks_and_writes_nothing(self):
        said = self.succeed("--config", QUICKSTART, "--dry-run", *SMALL)
        self.assertIn("2 steps per epoch, 8 steps in total", said)
        self.assertIn("the lower bound", said)
        self.assertIn("nothing was written; training would write to runs/quickstart", said)
        self.assertEqual(list(self.folder.iterdir()), [])
        done = self.run_program("--config", QUICKSTART, "--dry-run", "data.name=cifar10",
                                "data.root=nowhere")
        self.assertEqual(done.returncode, 3)
        self.assertIn("nowhere", done.stderr)
        done = self.run_program("--config", QUICKSTART, "--dry-run", "model.classes=3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("model.classes", done.stderr)

    def test_schema_and_reference(self):
        schema = json.loads(self.succeed("config", "schema"))
        self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
        self.assertIn("batch", schema["properties"]["data"]["properties"])
        self.assertEqual(self.succeed("config", "reference"),
                         (ROOT / "docs" / "config.md").read_text(encoding="utf-8"))

    def test_init_writes_a_configuration_that_trains(self):
        self.assertEqual(self.succeed("config", "init", "--model", "cnn_bn", "-o", "my.yaml"), "")
        self.assertIn("  name: cnn_bn", (self.folder / "my.yaml").read_text(encoding="utf-8"))
        self.succeed("--config", "my.yaml", "--dry-run", *SMALL)
        done = self.run_program("config", "init", "-o", "my.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("my.yaml already exists", done.stderr)
        done = self.run_program("config", "init", "--model", "resnet21")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'resnet20'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
