#!/usr/bin/env python3
"""The trainer's command line: commands, messages, exit codes, run folders.

    cli_test.py TRAINER
"""

import base64
import csv
import gzip
import json
import os
import re
import struct
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

import cifar10_files
from program_case import ProgramTest

CONFIGS = Path(__file__).resolve().parents[2] / "models" / "configs"
QUICKSTART, RESNET = CONFIGS / "quickstart.yaml", CONFIGS / "resnet.yaml"
FASHION = CONFIGS / "fashion_mnist_cnn.yaml"
TRAINER = str(Path(sys.argv[1]).resolve())
MISUSE, BAD_DATA, NO_DEVICE, BAD_WEIGHTS, DIVERGED = 2, 3, 4, 5, 6  # runtime/error.h

TINY = ["model.widths=[4,4,8,8]", "data.batch=16", "data.train_count=88", "data.test_count=40",
        "train.epochs=2", "train.log_every=2st", "schedule.warmup=0", "threads=2"]


class Test(ProgramTest):
    program = TRAINER


class Usage(Test):
    def test_help_of_every_verb(self):
        self.assertIn("Subcommands", self.succeed("--help"))
        for verb in ("train", "eval", "plan", "bench", "profile", "tune", "export", "doctor", "devices"):
            self.assertIn("Usage: trainer " + verb, self.succeed(verb, "--help"))

    def test_verbs_and_options(self):
        self.fail_with(MISUSE, ["unknown command 'trian'", "the commands are train eval plan"], "trian")
        self.fail_with(MISUSE, ["subcommand is required"])
        self.fail_with(MISUSE, ["--config F or --model NAME is needed"], "bench")
        self.fail_with(MISUSE, ["--config F, --model NAME or --diff"], "plan")
        self.fail_with(MISUSE, ["--config F, --model NAME, --machine or --diff"], "profile")
        self.fail_with(MISUSE, ["--config F or --model NAME is needed"], "tune")
        self.fail_with(MISUSE, ["--model"], "profile", "--machine", "--model", "lenet5")
        self.fail_with(MISUSE, ["train: the option '--resum' is not one of --", "; did you mean '--resume'?"],
                       "train", "--config", RESNET, "--resum")
        self.fail_with(MISUSE, ["plan: the option '--jsn' is not one of --", "; did you mean '--json'?"],
                       "plan", "--config", RESNET, "--jsn", "data.batch=3")
        self.fail_with(MISUSE, ["--speed"], "bench", "--config", RESNET, "--speed", 3)
        # A first word that is an option of train means train.
        missing = self.folder / "none.yaml"
        for words in ([], ["--verify-plan"], ["--overwrite"], ["--dry-run"], ["--resume=x"],
                      ["--print-config"]):
            self.fail_with(MISUSE, ["none.yaml"], *words, f"--config={missing}")
        self.fail_with(MISUSE, ["the option '--json' is not one of --"], "--json", "--config", missing)
        self.fail_with(MISUSE, ["--steps"], "bench", "--config", RESNET, "--steps", 0)

    def test_where_a_relative_path_begins(self):
        told = f"relative paths begin at the current folder '{self.folder}'"
        for code, words in ((BAD_DATA, ["data.name=image_folder", "data.image_size=16", "data.root=nowhere/at"]),
                            (BAD_DATA, ["data.name=hdf5", "data.root=nowhere/a.h5"]),
                            (BAD_DATA, ["data.name=hdf5", "data.root=nowhere/a.h5", "data.images=x", "data.labels=y"]),
                            (BAD_DATA, ["memory.budget=50MiB", "memory.cost_model=nowhere/a.json"]),
                            (BAD_WEIGHTS, ["model.weights=nowhere/a.safetensors"])):
            self.fail_with(code, [told], "train", "--dry-run", "--config", QUICKSTART, *words)
            away = [word.replace("nowhere", "/nowhere") for word in words]
            done = self.run_program("train", "--dry-run", "--config", QUICKSTART, *away, code=code)
            self.assertNotIn("relative paths", done.stderr)

    def test_keys_and_names(self):
        plan = ("plan", "--config", RESNET)
        self.fail_with(MISUSE, ["unknown key", "'optimzer.lr'", "did you mean 'optimizer.lr'"],
                       *plan, "optimzer.lr=1")
        self.fail_with(MISUSE, ["'batc'", "did you mean 'batch'", "'epoch'"], *plan,
                       "data.batc=3", "train.epoch=2")  # reports all mistakes at once
        self.fail_with(MISUSE, ["data.batch", "an integer", "'many'"], *plan, "data.batch=many")
        self.fail_with(MISUSE, ["key=value"], *plan, "batch")
        self.fail_with(MISUSE, ["'resnet21'", "resnet20", "lenet5"], *plan, "model.name=resnet21")
        self.fail_with(MISUSE, ["'bets'", "best_fit", "in_order"], *plan, "memory.planner=bets")
        self.fail_with(MISUSE, ["'cifar11'", "did you mean 'cifar10'"], *plan, "data.name=cifar11")
        self.fail_with(MISUSE, ["'speedup'", "fuse_pointwise"], *plan, "--disable-pass", "speedup")
        self.fail_with(NO_DEVICE, ["tune: requires a GPU", "cpu:0"], "tune", "--config", QUICKSTART,
                       "device=cpu")
        self.fail_with(NO_DEVICE, ["gpu:77", "cpu:0"], "bench", "--config", QUICKSTART, *TINY,
                       "device=gpu:77")

    def test_configurations(self):
        def refused(text, *parts):
            (self.folder / "c.yaml").write_text(text, encoding="utf-8")
            self.fail_with(MISUSE, ["c.yaml", *parts], "plan", "--config", "c.yaml")
        refused("seed: [1\nmodel: {", "not YAML", "c.yaml:2:")
        refused("just words", "mapping of keys")
        refused("data:\n  batch: 3\n  btach: 4\n", "c.yaml:3:3", "did you mean 'batch'")
        self.fail_with(MISUSE, ["nowhere.yaml"], "plan", "--config", "nowhere.yaml")
        self.fail_with(MISUSE, ["nowhere"], "eval", "--run", "nowhere")


class Data(Test):
    """The trainer exits with 3 for a damaged file and names the file and the position in it."""

    def refused(self, config, *texts):
        self.fail_with(BAD_DATA, texts, "--config", config, f"data.root={self.folder}")
        self.assertFalse((self.folder / "runs").exists())

    def test_a_missing_folder(self):
        self.fail_with(BAD_DATA, ["there is no folder", "elsewhere", "data_batch_1.bin", "data.root"],
                       "--config", RESNET, "data.root=elsewhere")
        self.refused(RESNET, "a file is missing", "data_batch_1.bin")

    def test_cifar(self):
        cifar10_files.write(self.folder)
        second = self.folder / "data_batch_2.bin"
        second.unlink()
        second.write_bytes(bytes(3073))
        self.refused(RESNET, "data_batch_2.bin: byte 3073:", "truncated")
        with open(second, "r+b") as file:
            file.truncate(cifar10_files.RECORDS * 3073 + 1)
        self.refused(RESNET, "data_batch_2.bin: byte 30730000:", "oversized")
        with open(self.folder / "data_batch_1.bin", "r+b") as file:
            file.seek(7 * 3073)
            file.write(bytes([10]))
        second.unlink()
        second.symlink_to(self.folder / "data_batch_1.bin")
        self.refused(RESNET, "data_batch_1.bin: byte 21511:", "label 10 of record 7")

    def write_idx(self, **changed):
        """Writes five images of 28x28 and their labels, twice."""
        images = struct.pack(">IIII", 0x803, 5, 28, 28) + bytes(range(49)) * (5 * 16)
        labels = struct.pack(">II", 0x801, 5) + bytes(range(5))
        for split in ("train", "t10k"):
            (self.folder / f"{split}-images-idx3-ubyte").write_bytes(images)
            (self.folder / f"{split}-labels-idx1-ubyte").write_bytes(labels)
        return images, labels

    def test_idx(self):
        images, labels = self.write_idx()
        tests = self.folder / "t10k-images-idx3-ubyte"
        tests.write_bytes(images[:-9])
        self.refused(FASHION, f"t10k-images-idx3-ubyte: byte {len(images) - 9}:")
        tests.write_bytes(images + b"?")
        self.refused(FASHION, f"t10k-images-idx3-ubyte: byte {len(images)}:")
        tests.write_bytes(labels)
        self.refused(FASHION, "t10k-images-idx3-ubyte: byte 0:")
        tests.write_bytes(images)
        (self.folder / "t10k-labels-idx1-ubyte").write_bytes(labels[:-1] + bytes([10]))
        self.refused(FASHION, "t10k-labels-idx1-ubyte: byte 12:", "10")

    def test_gz(self):
        images, _ = self.write_idx()
        (self.folder / "train-images-idx3-ubyte").unlink()
        packed = self.folder / "train-images-idx3-ubyte.gz"
        packed.write_bytes(gzip.compress(images)[:-20])
        self.refused(FASHION, "train-images-idx3-ubyte.gz: byte ")
        packed.write_bytes(images)
        self.refused(FASHION, "train-images-idx3-ubyte.gz: byte 2 of the compressed")
        packed.write_bytes(gzip.compress(images))
        self.succeed("train", "--config", FASHION, f"data.root={self.folder}", "train.steps=1",
                     "data.batch=5", "schedule.warmup=0", f"run.dir={self.folder / 'run'}")


def metrics(run):
    """Returns the lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_speed(run):
    return [{key: line[key] for key in line if key not in ("images_per_second", "data_wait")} for line in metrics(run)]


class Training(Test):
    def train(self, name, *more):
        run = self.folder / name
        return run, self.succeed("--config", QUICKSTART, *TINY, *more, f"run.dir={run}")

    def test_the_run_folder(self):
        run, said = self.train("run", "seed=5")
        last = said.splitlines()[-1]
        self.assertRegex(last, r"^final test accuracy \d+\.\d\d % \(loss \d+\.\d+, 12 steps")
        lines = metrics(run)
        keys = ["epoch", "step", "phase", "loss", "accuracy", "lr", "images_per_second", "data_wait",
                "skipped", "loss_scale"]
        self.assertEqual([list(line) for line in lines], [keys] * len(lines))
        steps = [(line["step"], line["phase"]) for line in lines]
        self.assertEqual(steps, [(2, "train"), (4, "train"), (6, "train"), (6, "test"),
                                 (8, "train"), (10, "train"), (12, "train"), (12, "test")])
        self.assertEqual(f"{100 * lines[-1]['accuracy']:.2f}", last.split()[3])
        self.assertLess(lines[-2]["loss"], lines[0]["loss"])
        for line in lines:
            if line["phase"] == "train":
                self.assertTrue(0 <= line["data_wait"] <= 1, line)
            else:
                self.assertIsNone(line["data_wait"], line)
        self.assertRegex(said, r"(?m)^epoch 0.3333/2  step 2 .*\s+wait \d+ %  \d+ s$")
        self.assertEqual([line for line in said[said.index("epoch "):].splitlines()
                          if line.startswith(("epoch ", "    ")) and len(line) > 80], [])
        with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([list(row) for row in rows], [keys] * len(lines))
        for row, line in zip(rows, lines):
            self.assertEqual(float(row["loss"]), line["loss"])
        self.assertIn(b'"format":"tessera weights"', (run / "weights.safetensors").read_bytes())
        self.assertIn("seed: 5", (run / "config.resolved.yaml").read_text())
        self.assertIn("arena,", (run / "memory.csv").read_text())

        said = self.succeed("eval", "--run", run)
        self.assertEqual(said.splitlines()[-1].split()[2], last.split()[3])  # equal accuracies
        self.assertIn(re.search(r"\(loss (\d+\.\d+)", last).group(1), said)
        self.assertRegex(said, r"\ntest accuracy [\d.]+ %, top-5 [\d.]+ % \(loss")
        weights = bytearray((run / "weights.safetensors").read_bytes())
        weights[-1000] ^= 1
        (run / "weights.safetensors").write_bytes(weights)
        self.fail_with(BAD_WEIGHTS, ["weights.safetensors", "damaged"], "eval", "--run", run)

    def test_the_same_bits_in_every_way_to_run(self):
        first, _ = self.train("first")
        ways = {"again": [], "one_thread": ["threads=1"], "eager": ["mode=eager"],
                "other_plan": ["memory.planner=none"], "workers": ["data.workers=4"],
                "no_workers": ["data.workers=0"]}
        for name, words in ways.items():
            with self.subTest(name):
                run, _ = self.train(name, *words)
                self.assertEqual(without_speed(run), without_speed(first))
                self.assertEqual((run / "weights.safetensors").read_bytes(),
                                 (first / "weights.safetensors").read_bytes())
        other, _ = self.train("other", "seed=2")
        self.assertNotEqual(without_speed(other), without_speed(first))

    def test_a_person_reads_the_model_before_and_a_table_after(self):
        said = self.succeed("--config", RESNET, "data.name=synthetic", "data.train_count=16",
                            "data.test_count=8", "data.batch=8", "train.epochs=1", "schedule.warmup=0")
        before, after = said.split("epoch 1/1")
        self.assertRegex(before, r"\nlayer1 +conv2d, .* float32\[8x32x32x16\] +14016\n")
        self.assertRegex(before, r"\nfc +matmul +float32\[8x10\] +650\n")
        self.assertIn("269722 parameters in 59 tensors", before)
        self.assertRegex(after, r"\ntrain +\d+\.\d{4} +\d+\.\d\d %\n"
                                r"test +\d+\.\d{4} +\d+\.\d\d % +\d+\.\d\d %\n"
                                r"best +\d+\.\d\d % +on test, after step 2; chosen on the test set "
                                r"because data.validation is unset\nfinal test")
        self.assertRegex(after, r"\nmemory: [\d.]+ MiB as planned; the process uses [\d.]+ MiB")

    def test_validation_images_choose_and_the_test_set_is_seen_once(self):
        run, said = self.train("run", "data.validation=25%")
        self.assertRegex(said, r"\nvalidation(?:, last)? +\d+\.\d{4} +\d+\.\d\d %\n"
                               r"test +\d+\.\d{4} +\d+\.\d\d % +\d+\.\d\d %\n"
                               r"best +\d+\.\d\d % +on validation, after step \d+")
        self.assertEqual([line["step"] for line in metrics(run) if line["phase"] == "test"],
                         [metrics(run)[-1]["step"]])
        self.assertEqual(len([line for line in metrics(run) if line["phase"] == "validation"]), 2)
        report = (run / "report.html").read_text()
        self.assertIn(">validation<", report)
        self.assertIn("of the test images are correct", report)
        said = self.succeed("data", "inspect", "--config", QUICKSTART, *TINY, "data.validation=25%")
        self.assertIn("synthetic validation: 22 images", said)

    def test_nothing_is_promised_of_what_eager_steps_take(self):
        _, said = self.train("run", "mode=eager")
        self.assertRegex(said, r"\nmemory: [\d.]+ \w+ of .* free on this computer; "
                               "eager steps allocate more as they run")
        self.assertRegex(said, r"\nmemory: [\d.]+ \w+ plus the memory of eager steps; the process uses")

    def test_a_resolved_configuration_reproduces_its_run(self):
        run, _ = self.train("run", "seed=9", "data.augment=[{flip: horizontal},{cutout: {size: 4}}]", "optimizer.name=adamw", "~optimizer.nesterov")
        again = self.folder / "again"
        self.succeed("--config", run / "config.resolved.yaml", f"run.dir={again}")
        self.assertEqual(without_speed(again), without_speed(run))
        self.assertEqual((again / "weights.safetensors").read_bytes(), (run / "weights.safetensors").read_bytes())
        wanted = (run / "config.resolved.yaml").read_text().replace(str(run), str(again))
        self.assertEqual((again / "config.resolved.yaml").read_text(), wanted)

    def test_a_loss_that_is_not_finite_ends_with_a_word_about_the_learning_rate(self):
        done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e30",
                                f"run.dir={self.folder / 'run'}")
        self.assertEqual(done.returncode, DIVERGED, done.stderr)
        self.assertRegex(done.stderr, r"the loss is \S+ at step \d+ .*: node \d+ of the program, \w+ in \w+, "
                                      r"produced nan at element \d+ of %\d+ float32.*; lower optimizer.lr")

    def test_what_was_not_finite_first_is_the_same_in_eager_mode_and_with_mixed_images(self):
        said = {}
        for mix in ("[]", "[{mixup: {}}]"):
            for mode in ("graph", "eager"):
                done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e30", f"mode={mode}",
                                        f"data.augment={mix}", f"run.dir={self.folder / (mode + mix[:5])}")
                self.assertEqual(done.returncode, DIVERGED, done.stderr)
                self.assertRegex(done.stderr, "produced|before the first op")
                said[mix, mode] = re.sub(r"%\d+", "", done.stderr)
            self.assertEqual(said[mix, "eager"], said[mix, "graph"])

    def test_what_a_run_says_about_itself(self):
        run, _ = self.train("run")
        self.assertIn("'model.widths=[4,4,8,8]'", (run / "command.txt").read_text())
        self.assertEqual(json.loads((run / "env.json").read_text())["devices"][0]["name"], "cpu:0")
        plan = json.loads((run / "plan.json").read_text())
        self.assertIn(f"arena,{plan['arena_bytes']}\n", (run / "memory.csv").read_text())
        self.assertIn("conv2d conv1", (run / "plan.html").read_text())
        self.assertRegex((run / "model.txt").read_text(), r"conv1 +conv2d +float32\[16x32x32x4\] +108")
        report = (run / "report.html").read_text()
        for part in ("of the test images are correct", "Confusion", "triangle", 'aria-label="loss"',
                     "synthetic train: ", " images/s in training", "'model.widths=[4,4,8,8]'",
                     "<h2>Classes</h2>", "most often confused with", "Top errors", "predicted as ",
                     "<h2>Configuration</h2>", "epoch</text>", "(log scale)"):
            self.assertIn(part, report)
        pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', report)
        self.assertTrue(pictures)
        for picture in pictures:
            self.assertTrue(base64.b64decode(picture).startswith(b"\x89PNG"))

    def test_tensorboard_reads_the_events(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("the package tensorboard is not installed")
        run, _ = self.train("run")
        rows = list(csv.DictReader((run / "metrics.csv").read_text().splitlines()))
        for phase in ("train", "test"):  # one folder each: their curves share a chart
            events = EventAccumulator(str(run / phase))
            events.Reload()
            tags = events.Tags()["scalars"]
            host = ["host/free_bytes", "host/process_bytes"] if phase == "train" else []
            for tag in host:
                self.assertTrue(all(event.value > 1 << 20 for event in events.Scalars(tag)))
            names = ["loss", "accuracy", "images_per_second"] + (["lr", "data_wait"] if phase == "train" else [])
            self.assertEqual({tag.removeprefix("batches/") for tag in tags}, {*names, *host})
            for name in names:  # train lines within an epoch describe batches
                read = sorted((event.step, event.value) for tag in (name, "batches/" + name)
                              if tag in tags for event in events.Scalars(tag))
                wanted = [(int(row["step"]), float(row[name])) for row in rows
                          if row["phase"] == phase]
                self.assertEqual([step for step, _ in read], [step for step, _ in wanted])
                for (_, value), (_, figure) in zip(read, wanted):
                    self.assertAlmostEqual(value, figure, delta=1e-6 * abs(figure))


class Questions(Test):
    """plan and the commands that describe the machine: from any folder, without data."""

    def test_a_configuration_alone_is_told_where_it_belongs(self):
        for words in ("cfg.yaml",), ("cfg.yml", "train.epochs=1"):
            self.fail_with(MISUSE, [f"trainer: '{words[0]}' must follow --config; run "
                                    f"trainer --config {words[0]}\n"], *words)

    def test_help_says_how_to_begin(self):
        said = self.succeed("--help")
        self.assertRegex(said, r"\n +--config FILE ")
        self.assertRegex(said, r"\n +KEY=VALUE ")
        examples = re.findall(r"\n  trainer (.*)", said[said.index("Examples:"):])
        self.assertEqual(len(examples), 3)
        for words in examples:  # each must be valid
            verb = [] if words.startswith("plan") else ["--print-config"]
            done = subprocess.run([TRAINER, *words.split(), *verb], cwd=CONFIGS.parents[1], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(len(line) <= 80 for line in said[said.index("Without a command"):].splitlines()))
        self.assertNotIn("Examples:", self.succeed("plan", "--help"))

    def test_plan(self):
        plan = json.loads(self.succeed("plan", "--json", "--config", RESNET))
        keys = ("arena_bytes lower_bound_bytes unplanned_bytes persistent_bytes slot_bytes "
                "total_bytes classes tensors nodes planner format").split()
        self.assertEqual([key for key in keys if key not in plan], [])
        self.assertEqual(plan["total_bytes"],
                         plan["arena_bytes"] + plan["persistent_bytes"] + plan["slot_bytes"])
        self.assertLessEqual(plan["lower_bound_bytes"], plan["arena_bytes"])
        self.assertLess(plan["arena_bytes"], plan["unplanned_bytes"])
        self.assertEqual((plan["planner"], len(plan["top"])), ("best", 10))
        half = json.loads(self.succeed("plan", "--json", "--config", RESNET, "data.batch=64",
                                       "memory.planner=best_fit"))
        self.assertEqual(half["planner"], "best_fit")
        self.assertEqual(half["persistent_bytes"], plan["persistent_bytes"])
        self.assertLess(half["arena_bytes"], 0.6 * plan["arena_bytes"])
        self.assertIn("the lower bound", self.succeed("plan", "--config", RESNET))
        self.assertIn("time 0 to", self.succeed("plan", "--draw", "--config", RESNET))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_plan_as_a_file(self):
        for name, batch in (("a", 32), ("b", 16), ("c", 32)):
            text = self.succeed("plan", "--config", QUICKSTART, "--json", f"data.batch={batch}")
            (self.folder / name).write_text(text)
        blocks = json.loads((self.folder / "a").read_text())["blocks"]
        for a in blocks:  # the file suffices to prove the plan
            for b in blocks:
                apart = (a["upper"] <= b["lower"] or b["upper"] <= a["lower"] or
                         a["offset"] + a["bytes"] <= b["offset"] or
                         b["offset"] + b["bytes"] <= a["offset"])
                self.assertTrue(a is b or apart, (a, b))
        changes = self.succeed("plan", "--diff", "a", "b")
        self.assertRegex(changes, r"arena_bytes +\d+ -> +\d+  -\d+")
        self.assertRegex(changes, r"~ (\d+) -> \d+ bytes, (\d+) -> \2 nodes  conv2d conv1")
        self.assertIn("are the same plan", self.succeed("plan", "--diff", "a", "c"))
        (self.folder / "d").write_text("{]")
        self.fail_with(MISUSE, ["d: is not a plan"], "plan", "--diff", "a", "d")

    def test_the_plan_as_a_picture(self):
        self.succeed("plan", "--config", QUICKSTART, "--html", "p.html", "--beside",
                     "memory.planner=none")
        page = (self.folder / "p.html").read_text()
        self.assertIn("planner best", page)
        self.assertIn("planner none", page)
        self.assertIn("conv2d conv1", page)
        self.succeed("plan", "--config", QUICKSTART, "--svg", "p.svg")
        self.assertIn("conv2d", (self.folder / "p.svg").read_text())

    def test_a_picture_that_cannot_be_written_says_why(self):
        for option, file, why in (("--html", "/nonexistent/x.html", "No such file or directory"),
                                  ("--html", "/dev/full", "No space left on device"),
                                  ("--svg", "/dev/full", "No space left on device"),
                                  ("--csv", "/dev/full", "No space left on device")):
            self.fail_with(MISUSE, [f"{file}: cannot be written: {why}"], "plan", "--config",
                           QUICKSTART, option, file)

    def test_a_second_plan_stands_beside_in_html_alone(self):
        for words in ([], ["--draw"], ["--svg", "p.svg"], ["--html", "p.html", "--svg", "p.svg"]):
            self.fail_with(MISUSE, ["--beside", "--html F"], "plan", "--config", QUICKSTART, *words,
                           "--beside", "mode=eager")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_step_without_a_plan_as_a_picture(self):
        self.succeed("plan", "--config", QUICKSTART, "--html", "p.html", "--beside", "mode=eager",
                     "data.batch=8")
        page = (self.folder / "p.html").read_text()
        self.assertIn("batch 8, eager", page)
        self.assertIn("released after", page)

    def test_who_keeps_a_tensor_alive(self):
        text = self.succeed("plan", "--config", QUICKSTART, "--why", "conv2")
        self.assertRegex(text, r"computed by +\d+ conv2d conv2\n +kept until +\d+ \S+ \S+, \d+ nodes")
        self.fail_with(MISUSE, ["no tensor of the plan has 'conv99'"], "plan", "--config", QUICKSTART,
                       "--why", "conv99")

    def test_a_plan_above_what_is_allowed(self):
        # A checkpoint contains the configuration: limits with equally many digits need equal bytes.
        plan = json.loads(self.succeed("plan", "--config", QUICKSTART, *TINY, "--json", "memory.limit=9999999B",
                                       "run.dir=run"))
        need = plan["need_bytes"]
        words = ("plan", "--config", QUICKSTART, *TINY, f"memory.limit={need}B", "run.dir=run", "--max-bytes")
        self.succeed(*words, need)
        done = self.run_program(*words, need - 1)
        self.assertEqual(done.returncode, NO_DEVICE)
        self.assertIn(f"({need} bytes), 1 B more than", done.stderr)

        # The training takes these bytes, and memory.limit counts them.
        self.assertGreater(need, plan["total_bytes"])
        self.assertEqual(need, sum(plan["parts"].values()))
        self.succeed("--config", QUICKSTART, *TINY, "run.dir=run", f"memory.limit={need}B")
        with open(self.folder / "run" / "memory.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(need, sum(int(row["bytes"]) for row in csv.DictReader(file)))
        self.assertEqual(json.loads((self.folder / "run" / "plan.json").read_text())["need_bytes"], need)
        text = self.succeed("plan", "--config", QUICKSTART, *TINY)
        self.assertRegex(text, r"the whole training +[\d.]+ \w+  with loaders, data and checkpoints")
        for part in ("loader of training", "loader of evaluation", "data set", "checkpoint"):
            self.assertRegex(text, f"\n  {part} +[0-9.]+ \\w+\n")

    def test_the_classes_of_a_plan(self):
        def classes(*words):
            return json.loads(self.succeed("plan", "--config", QUICKSTART, *TINY, "--json", *words))["classes"]
        momentum, adamw = classes(), classes("optimizer.name=adamw", "~optimizer.nesterov")
        for name in ("parameters", "gradients", "optimizer", "statistics", "activations", "slots"):
            self.assertGreater(momentum[name], 0, name)
        self.assertEqual(momentum["statistics"], adamw["statistics"])
        self.assertEqual(momentum["optimizer"], momentum["parameters"])
        self.assertGreaterEqual(adamw["optimizer"], 2 * momentum["optimizer"])

    def test_bytes_by_type(self):
        def dtypes(*words):
            return json.loads(self.succeed("plan", "--config", QUICKSTART, *TINY, "--json", *words))["dtypes"]
        whole, half = dtypes(), dtypes("precision=bf16")
        self.assertNotIn("bfloat16", whole)
        self.assertLess(half["bfloat16"], whole["float32"])
        self.assertLess(sum(half.values()), 0.75 * sum(whole.values()))
        self.assertRegex(self.succeed("plan", "--config", QUICKSTART, *TINY, "precision=bf16"),
                         r"\n  in bfloat16 +[\d.]+ \w+  of activations and gradients; twice as much in float32\n")

    def test_the_graph_between_passes(self):
        def steps(name, *words):
            text = self.succeed("plan", "--config", RESNET, f"--dump-after={name}", *words)
            return sum(" = " in line and " = input" not in line for line in text.splitlines())
        recorded = steps("capture")
        self.assertEqual(steps("fuse_pointwise", "--disable-pass", "fuse_pointwise"), recorded)
        self.assertLess(steps("fuse_pointwise"), recorded)
        self.assertLess(steps("fuse_epilogues"), steps("fuse_pointwise"))

        def shared(*words):
            text = self.succeed("plan", "--config", RESNET, "--dump-after=in_place", *words)
            return text.count(" reuses the block of ")
        self.assertGreater(shared(), 0)
        self.assertEqual(shared("--disable-pass", "in_place"), 0)

    def test_the_plan_is_verified_before_training(self):
        words = ("train", "--verify-plan", "--config", QUICKSTART, "data.batch=8", "train.steps=2",
                 "run.dir=run", "model.widths=[8, 8, 8, 8]")
        line = self.succeed(*words).splitlines()[0]
        said = re.match(r"plan verified: 9 steps with the plan \(([\d.]+) MiB\), and with red zones \(([\d.]+) MiB\), "
                        r"produce the same bits as without a plan \(([\d.]+) MiB\)", line)
        planned, watched, unplanned = map(float, said.groups())
        self.assertLess(planned, unplanned)
        self.assertLessEqual(planned, watched)

    def findings(self, code, *words):
        done = self.run_program("doctor", "--config", QUICKSTART, *TINY, *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [line for line in done.stdout.splitlines()
                 if line.startswith(("ok ", "problem ", "warning "))]
        self.assertEqual([line[9:20].strip() for line in lines],
                         ["device", "memory", "model", "data", "run folder", "checkpoint"])
        return {line[9:20].strip(): (line.split()[0], line[21:]) for line in lines}

    def test_doctor(self):
        def check(found, what, state, text):
            self.assertEqual(found[what][0], state, found[what])
            self.assertIn(text, found[what][1])
        found = self.findings(0)
        for what, text in (("device", "cpu:0"), ("memory", "data.batch could grow"),
                           ("data", "synthetic train: 88 images"), ("run folder", "free"),
                           ("checkpoint", "a new training begins")):
            check(found, what, "ok", text)
        self.assertEqual(list(self.folder.iterdir()), [])
        check(self.findings(0, "cpu.kernels=eigen"), "device", "ok", "eigen kernels")
        with unittest.mock.patch.dict(os.environ, TESSERA_MAX_ISA="baseline"):
            check(self.findings(0), "device", "ok", "baseline, eigen kernels")
            check(self.findings(NO_DEVICE, "cpu.kernels=native"), "device", "problem",
                  "choose auto or eigen, or unset TESSERA_MAX_ISA")
        check(self.findings(NO_DEVICE, "memory.limit=1MiB"), "memory", "problem", "over by")
        (self.folder / "file").touch()
        found = self.findings(BAD_DATA, "data.name=cifar10", "data.root=none", "data.test_count=0",
                              "run.dir=file/run")
        check(found, "data", "problem", "none")
        check(found, "run folder", "problem", "check run.dir")
        self.succeed("--config", QUICKSTART, *TINY)
        run = self.folder / "runs" / "quickstart"
        check(self.findings(0), "checkpoint", "ok", "--resume continues after step 12")
        check(self.findings(MISUSE, "optimizer.lr=9"), "checkpoint", "problem", "differs")
        newest = sorted((run / "checkpoints").glob("step-*"))[-1]
        newest.write_bytes(newest.read_bytes()[:-1])
        check(self.findings(0), "checkpoint", "warning", "continues after step 6")

    def test_devices(self):
        self.assertIn("cpu:0", self.succeed("devices"))

    def test_a_configuration_cuts_the_cpu_into_logical_devices(self):
        words = ["--config", QUICKSTART, "devices.cpu=[64MiB, 512KiB, 1GiB]"]
        out = self.succeed("devices", *words)
        self.assertIn("logical devices\ncpu:0   64.0 MiB\ncpu:1  512.0 KiB\ncpu:2    1.0 GiB\n", out)
        logical = json.loads(self.succeed("devices", "--json", *words))["logical"]
        self.assertEqual([one["limit_bytes"] for one in logical if one["name"].startswith("cpu")],
                         [64 << 20, 512 << 10, 1 << 30])
        self.fail_with(2, ["devices.cpu: must be a list of sizes"], "devices", "--config", QUICKSTART,
                       "devices.cpu=[2GB]")
        self.fail_with(2, ["add --config FILE"], "devices", "devices.cpu=[2GiB]")
        self.fail_with(2, ["one of the logical devices of devices.cpu, cpu:0 to cpu:2, but is 'cpu:3'"],
                       "plan", *words, "device=cpu:3")
        # The limit of a part applies to a run on it.
        training = [*words, *TINY]
        bits = []
        for device in ("cpu:0", "cpu:2"):
            run = self.folder / device.replace(":", "")
            out = self.succeed("train", *training, f"device={device}", f"run.dir={run}")
            self.assertIn(f"device: {device}", out)
            self.assertIn(f"of devices.cpu, of {device}", out)
            bits.append((run / "weights.safetensors").read_bytes())
        whole = self.folder / "whole"
        self.succeed("train", *training, "~devices", f"run.dir={whole}")
        self.assertEqual(bits, [(whole / "weights.safetensors").read_bytes()] * 2)
        for verb in ("train", "plan"):
            words = [verb, *training, "device=cpu:1"] + ([f"run.dir={self.folder / 'none'}"] if verb == "train" else [])
            done = self.run_program(*words, code=4)
            self.assertIn("devices.cpu, of cpu:1", done.stderr)
        # The limit also applies to eager steps while they run.
        done = self.run_program("train", *training, "device=cpu:1", "mode=eager", f"run.dir={self.folder / 'none'}", code=4)
        self.assertIn("devices.cpu, of cpu:1", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
