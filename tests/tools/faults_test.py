#!/usr/bin/env python3
"""Refusals and failures of trainings, remarks on configurations, metrics.

    faults_test.py TRAINER
"""

import json
import os
import re
import resource
import subprocess
import sys
import unittest

from cli_test import (BAD_DATA, BAD_WEIGHTS, DIVERGED, FASHION, MISUSE, NO_DEVICE, QUICKSTART, TINY,
                      TRAINER, Data, Test, metrics)


class Refusals(Test):
    def test_each_fault_is_found_once_and_is_what_training_ends_with(self):
        (self.folder / "file").touch()
        schedule = self.folder / "schedule.yaml"
        schedule.write_text("schedule:\n  name: multistep\n  milestones: [9st, 1ep]\n"
                            "data: {train_count: 64, test_count: 8, batch: 16}\nmodel: {name: lenet5}\n")
        cases = [  # words, exit code, message
            (QUICKSTART, ["run.dir=file"], BAD_WEIGHTS, "is not a folder; check run.dir"),
            (QUICKSTART, ["run.dir=file/run"], BAD_WEIGHTS, "is not a folder; check run.dir"),
            (QUICKSTART, ["run.dir=/proc/tessera"], BAD_WEIGHTS,
             "the disk has only 0 B free" if os.geteuid() == 0 else "is not writable: Permission denied"),
            (QUICKSTART, ["model.name=vgg19_bn", "data.image_size=512", "data.batch=16384",
                          "data.train_count=16384"], NO_DEVICE, "this computer has"),
            (QUICKSTART, ["memory.limit=1MiB"], NO_DEVICE, "memory.limit: this training needs"),
            (QUICKSTART, ["data.name=cifar10", "data.root=none", "data.test_count=0"], BAD_DATA,
             "there is no folder"),
            (QUICKSTART, ["data.name=hdf5", "data.root=none.h5"], BAD_DATA, "none.h5"),
            (QUICKSTART, ["device=gpu:77"], NO_DEVICE, "gpu:77"),
            (schedule, [], MISUSE, "schedule.yaml:3:3: error: schedule.milestones: must increase, but "
                                   "1ep is step 4 and follows step 9"),
        ]
        for config, words, code, text in cases:
            with self.subTest(words=words):
                common = ["--config", config, *(TINY[1:] if config == QUICKSTART else []), *words]
                for verb in (["train", "--dry-run"], ["train"]):
                    done = self.run_program(*verb, *common)
                    self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                    self.assertEqual(done.stderr.count(text), 1, done.stderr)
                done = self.run_program("doctor", *common)
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertEqual(len(re.findall("^problem ", done.stdout, re.M)), 1, done.stdout)
                self.assertEqual(done.stdout.count(text), 1, done.stdout)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["file", "schedule.yaml"])

    def test_a_step_that_the_machine_cannot_hold_takes_nothing(self):
        most = subprocess.run(
            [sys.executable, "-c", "import resource, subprocess, sys; "
             "print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stderr); "
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
             TRAINER, "train", "--config", QUICKSTART, *TINY[1:], "model.name=vgg19_bn", "data.batch=8192",
             "data.image_size=512", "data.train_count=8192"],
            capture_output=True, text=True, check=True, cwd=self.folder).stdout
        self.assertRegex(most, r"memory: this training needs [\d.]+ TiB|memory: this training needs \d{3}\.\d+ GiB")
        self.assertRegex(most, r"the largest tensors at the peak:\n +[\d.]+ GiB  %\d+ ")
        self.assertRegex(most, r"what would fit:\n  data.batch=\d+ ")
        self.assertLess(int(most.split()[-1]), 200 * 1024)  # KiB

    def test_what_an_override_makes_meaningless_is_said(self):
        words = ("--config", QUICKSTART, "data.batch=100", *TINY[2:], "model.name=lenet5",
                 "optimizer.name=adamw", "data.batch=100", "train.epochs=1")
        for verb in (["--dry-run"], ["--print-config"], []):
            said = self.succeed("train", *words, *verb, f"run.dir=run{len(verb)}")
            self.assertRegex(said, r"ignored.*: model.widths: \[.*\] \(.*quickstart.yaml:\d+\)")
            self.assertIn("optimizer.nesterov: true", said)
            if verb != ["--print-config"]:
                self.assertIn("data.batch is cut from 100 to the 88 training images", said)
        self.assertIn("ignored because of an override", self.succeed("plan", *words))

    def test_eval_as_json_and_quietly_and_without_training_files(self):
        run = self.folder / "run"
        said = self.succeed("--quiet", "--config", QUICKSTART, *TINY, f"run.dir={run}")
        self.assertRegex(said, r"^final test accuracy [\d.]+ %.*\n$")
        told = json.loads(self.succeed("eval", "--run", run, "--json"))
        self.assertEqual(told["images"], 40)
        self.assertEqual(f"{100 * told['accuracy']:.2f}", said.split()[3])
        self.assertEqual(sum(map(sum, told["confusion"])), 40)
        self.assertEqual(told["step"], 12)
        self.assertFalse(told["chosen_on_the_test_set"])
        self.assertTrue(json.loads(self.succeed("eval", "--run", run, "--json", "--checkpoint=best"))
                        ["chosen_on_the_test_set"])
        self.assertEqual(len(self.succeed("eval", "--run", run, "--quiet").splitlines()), 1)
        self.figures_of_classes(run, told)
        data = Data()
        data.folder = self.folder
        data.write_idx()
        run = self.folder / "fashion"
        self.succeed("train", "--config", FASHION, f"data.root={self.folder}", "train.steps=1",
                     "data.batch=5", "schedule.warmup=0", f"run.dir={run}")
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
            (self.folder / name).unlink()
        self.assertIn("test accuracy", self.succeed("eval", "--run", run))

    # Checks scikit-learn's metrics, computed from the confusion matrix.
    def figures_of_classes(self, run, told):
        confusion, by_label = told["confusion"], {row["label"]: row for row in told["classes"]}
        right = [row[label] for label, row in enumerate(confusion)]
        images, taken = [sum(row) for row in confusion], [sum(column) for column in zip(*confusion)]
        self.assertEqual(sorted(by_label), [c for c in range(10) if images[c] + taken[c] > 0])
        for label, row in by_label.items():
            self.assertEqual(row["images"], images[label])
            self.assertAlmostEqual(row["precision"], right[label] / max(taken[label], 1))
            self.assertAlmostEqual(row["recall"], right[label] / max(images[label], 1))
            self.assertAlmostEqual(row["f1"], 2 * right[label] / (images[label] + taken[label]))
        f1 = [row["f1"] for row in by_label.values()]
        self.assertAlmostEqual(told["macro_average"]["f1"], sum(f1) / len(f1))
        self.assertAlmostEqual(told["weighted_average"]["recall"], told["accuracy"])
        self.assertEqual(by_label[0]["name"], "disk")
        bins = told["calibration"]
        self.assertEqual((len(bins), sum(row["images"] for row in bins)), (15, 40))
        self.assertAlmostEqual(told["calibration_error"], sum(
            row["images"] * abs(row["accuracy"] - row["confidence"]) for row in bins if row["images"]) / 40)
        said = self.succeed("eval", "--run", run)
        self.assertRegex(said, r"\ndisk +\d+ +[\d.]+ % +[\d.]+ % +[\d.]+ %\n")
        self.assertRegex(said, r"\nmacro average +40 ")
        self.assertIn(f"expected calibration error {100 * told['calibration_error']:.2f} % (15 bins)", said)

    def test_eval_on_other_data(self):
        run, pack = self.folder / "run", self.folder / "pack.h5"
        self.succeed("--quiet", "--config", QUICKSTART, *TINY, f"run.dir={run}")
        self.succeed("data", "pack", "--config", QUICKSTART, *TINY, "--out", pack)
        own, other = (json.loads(self.succeed("eval", "--run", run, "--json", *words))
                      for words in ((), ("--data", pack, "--report", self.folder / "other.html")))
        for name in ("accuracy", "loss", "calibration_error", "confusion", "classes"):
            self.assertEqual(own[name], other[name])
        report = (self.folder / "other.html").read_text()
        for part in (f"on {pack}</title>", "confusion matrix", "reliability diagram", "macro average",
                     "Top errors"):
            self.assertIn(part, report)
        self.fail_with(BAD_DATA, ["--data: 'none' does not exist", "NAME=PATH"],
                       "eval", "--run", run, "--data", "none")
        self.fail_with(MISUSE, ["did you mean 'cifar10'?"], "eval", "--run", run, "--data", "cifra10=x")

    def test_log_level(self):
        words = ("--config", QUICKSTART, *TINY, "train.epochs=0.1", "--overwrite", "run.dir=run")
        self.assertIn("tessera info: checkpoint", self.run_program("--log-level", "info", *words).stderr)
        self.assertEqual(self.run_program("--log-level=warning", *words).stderr, "")
        self.fail_with(MISUSE, ["'loud' is not a level", "debug, info"], "--log-level", "loud", *words)

    def test_losses_that_diverge_can_be_read(self):
        done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e9", "train.epochs=0.5",
                                "train.log_every=1st", f"run.dir={self.folder / 'run'}", "model.name=mlp", "model.widths=[]")
        self.assertRegex(done.stdout, r"train loss [\d.]+e\+\d+ acc")
        for line in re.findall(r"train loss (\S+)", done.stdout):
            self.assertLess(len(line), 12)

    def test_bench_without_a_pass_and_what_each_technique_is_worth(self):
        words = ("--config", QUICKSTART, "data.batch=4", "threads=2", "model.widths=[4,4,8,8]")
        whole = json.loads(self.succeed("bench", *words, "--steps", 2, "--json"))
        off = [word for name in ("in_place", "fuse_pointwise", "fuse_epilogues", "order_updates")
               for word in ("--disable-pass", name)]
        less = json.loads(self.succeed("bench", *words, "--steps", 2, "--json", *off))
        self.assertLess(whole["arena_bytes"], less["arena_bytes"])
        self.assertEqual(whole["loss"], less["loss"])
        self.fail_with(MISUSE, ["'speedup'", "fuse_pointwise"], "bench", *words, "--disable-pass", "speedup")
        plans = json.loads(self.succeed("plan", *words, "--ablation", "--json"))
        times = json.loads(self.succeed("bench", *words, "--ablation", "--steps", 2, "--json"))
        names = ["simplify", "dead_code", "common_subexpressions", "fold_constants", "fuse_pointwise",
                 "fold_scales", "fuse_epilogues", "fuse_prologues", "fuse_consumers",
                 "fuse_late_prologues", "order_updates", "pack_constants", "fuse_chains", "in_place", "any pass",
                 "planner in_order", "planner none", "activations in bfloat16"]
        for rows in (plans, times):
            self.assertTrue(rows[0]["name"].startswith("as configured"))
            for name, row in zip(names, rows[1:]):
                self.assertIn(name, row["name"])
            by_name = {row["name"].split(" (")[0]: row for row in rows}
            self.assertGreater(by_name["without any pass"]["arena_bytes"], rows[0]["arena_bytes"])
            self.assertGreater(by_name["planner none: no byte shared"]["arena_bytes"],
                               1.3 * rows[0]["arena_bytes"])
        self.assertEqual(len(plans), 1 + len(names))
        self.assertIn("one thread", times[-1]["name"])
        self.assertTrue(any("instruction set baseline" in row["name"] for row in times) or
                        os.environ.get("TESSERA_MAX_ISA") == "baseline")
        self.assertTrue(all(row["step_ms"] > 0 for row in times))
        self.assertTrue(all(row["spread"] >= 0 for row in plans + times))
        self.assertTrue(any(row["spread"] > 0 for row in plans) and any(row["spread"] > 0 for row in times))
        once = json.loads(self.succeed("bench", *words, "--ablation", "--steps", 2, "--repeat", 1, "--json"))
        self.assertEqual({row["spread"] for row in once}, {0})
        self.assertRegex(self.succeed("plan", *words, "--ablation"),
                         r"plan ms +spread +ratio +arena +ratio +total\n"
                         r"as configured, planner best +[\d.]+ +[\d.]+ % +1\.00 ")
        self.fail_with(MISUSE, ["--ablation disables parts of a plan"], "plan", *words, "--ablation",
                       "mode=eager")


class Endings(Test):
    def test_batches_are_skipped_until_it_is_certain_that_the_weights_are_lost(self):
        run = self.folder / "run"
        done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e30", f"run.dir={run}",
                                "train.non_finite=skip", "train.epochs=5", code=DIVERGED)
        self.assertEqual(done.stderr.count("the batch is skipped"), 9)
        self.assertIn("the weights are unusable: 10 batches in a row were skipped, all of an epoch", done.stderr)
        self.assertNotIn("final test accuracy", done.stdout)
        self.assertFalse((run / "weights.safetensors").exists())
        nothing = [line for line in metrics(run) if line["phase"] == "train"][-1]
        self.assertEqual((nothing["loss"], nothing["accuracy"]), (None, None))

    def test_twenty_overflows_in_a_row_end_a_training_in_float16(self):
        run = self.folder / "run"
        done = self.run_program("--config", QUICKSTART, *TINY, "precision=f16", "train.loss_scaling=constant",
                                "train.loss_scale=4e9", f"run.dir={run}", "train.epochs=5", code=DIVERGED)
        self.assertIn("20 batches in a row were skipped, all of an epoch, so the overflow of float16 is not due",
                      done.stderr)
        self.assertNotIn("the batch is skipped", done.stderr)
        last = [line for line in metrics(run) if line["phase"] == "train"][-1]
        self.assertEqual((last["skipped"], last["loss_scale"]), (last["step"], None))

    def test_weights_that_are_no_numbers_end_it_at_once(self):
        done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e37", "optimizer.weight_decay=1e37",
                                f"run.dir={self.folder / 'run'}", "train.non_finite=skip", code=DIVERGED)
        self.assertRegex(done.stderr, r"the weights are unusable: \S+ is not finite at element \d+")
        self.assertNotIn("the batch is skipped", done.stderr)

    def test_a_training_does_not_end_well_with_a_loss_that_is_no_number(self):
        for mode in ("stop", "skip"):
            done = self.run_program("--config", QUICKSTART, *TINY, "optimizer.lr=1e30", "train.epochs=0.1",
                                    f"run.dir={self.folder / mode}", f"train.non_finite={mode}", code=DIVERGED)
            self.assertRegex(done.stderr, "training: the final test loss is -?(nan|inf): the weights are unusable")
            self.assertFalse((self.folder / mode / "weights.safetensors").exists())

    def test_a_file_larger_than_the_limit_is_like_a_full_disk(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        run = self.folder / "run"
        done = subprocess.run([TRAINER, "--config", QUICKSTART, *TINY, "model.widths=[64,64,64,64]",
                               f"run.dir={run}"], capture_output=True, text=True, preexec_fn=limited, check=False)
        self.assertEqual(done.returncode, BAD_WEIGHTS, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertIn("final test accuracy", done.stdout)

    def test_no_threads_to_be_had(self):
        def limited():
            # No thread can be made with a stack larger than the address space.
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 50, resource.RLIM_INFINITY))
        words = [TRAINER, "--config", QUICKSTART, *TINY, f"run.dir={self.folder / 'run'}"]
        for more, remedy in ((["threads=2"], "for the steps"),
                             (["threads=1"], "for the loader")):
            done = subprocess.run([*map(str, words), *more], capture_output=True, text=True,
                                  preexec_fn=limited, check=False)
            self.assertEqual(done.returncode, NO_DEVICE, done.stderr)
            self.assertRegex(done.stderr, f"^trainer: threads: the system cannot start a thread {remedy} .*; lower ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
