#!/usr/bin/env python3
"""Checkpoints on the command line: signals, resuming, refusals, exit codes.

    resume_cli_test.py TRAINER
"""

import csv
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

from program_case import ProgramTest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "models" / "configs" / "quickstart.yaml"
TRAINER = str(Path(sys.argv[1]).resolve())
MISUSE, BAD_CHECKPOINT = 2, 5

TINY = ["--config", str(QUICKSTART), "model.widths=[4,4,8,8]", "data.batch=8",
        "data.train_count=88", "data.test_count=24", "data.image_size=16", "schedule.warmup=0",
        "schedule.name=constant", "threads=1", "run.dir=run"]


class Resuming(ProgramTest):
    program = TRAINER

    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def trainer(self, *words, code=0):
        return self.trainer_plain(*TINY, *words, code=code)

    def trainer_plain(self, *words, code):
        done = self.run_program(*words, code=code)
        return done.stdout, done.stderr

    def interrupted(self, number, again=0):
        """Runs a long training that gets the signal after it has begun."""
        process = subprocess.Popen([TRAINER, *TINY, "train.steps=1000000", "--resume",
                                    "train.log_every=1st"], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        metrics = self.run_folder / "metrics.csv"
        before = len(metrics.read_bytes()) if metrics.exists() else 0
        while not metrics.exists() or len(metrics.read_bytes()) < max(400, before + 100):
            self.assertIsNone(process.poll(), "it ended by itself")
            time.sleep(0.005)
        for _ in range(1 + again):
            process.send_signal(number)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 128 + number, out + err)
        return out.splitlines()[-1]

    def test_signals(self):
        said = self.interrupted(signal.SIGTERM)
        self.assertRegex(said, r"^stopped by SIGTERM after step \d+; continue with --resume from run/ch")
        saved = self.run_folder / "checkpoints" / said.split("/")[-1]
        self.assertTrue(saved.exists())
        step = int(saved.stem.split("-")[1])
        self.assertIn(f"after step {step};", said)
        said = self.interrupted(signal.SIGINT, again=3)
        self.assertIn("stopped by SIGINT", said)
        self.assertIn("stopped by SIGHUP", self.interrupted(signal.SIGHUP))
        self.assertGreater(int(said.split(";")[0].split()[-1]), step)

    def test_sigusr1_writes_a_checkpoint_and_goes_on(self):
        words = ["train.steps=60", "train.log_every=1st", "checkpoint.every=0st", "checkpoint.best=none",
                 "checkpoint.keep=1000"]
        self.trainer(*words, "run.dir=whole")
        process = subprocess.Popen([TRAINER, *TINY, *words], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while "step 3 " not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, out + err)
        step = int(re.search(r"(?m)^checkpoint after step (\d+), requested by a signal$", out).group(1))
        self.assertIn(step, range(3, 60))
        saved = sorted(path.name for path in (self.run_folder / "checkpoints").glob("step-*.safetensors"))
        self.assertEqual(saved, [f"step-{step:09}.safetensors", "step-000000060.safetensors"])
        self.assertEqual((self.run_folder / "weights.safetensors").read_bytes(),
                         (self.folder / "whole" / "weights.safetensors").read_bytes())
        nothing = subprocess.Popen([TRAINER, *TINY, *words, "checkpoint.keep=0", "~checkpoint.best", "run.dir=none"],
                                   cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while "step 3 " not in nothing.stdout.readline():
            pass
        nothing.send_signal(signal.SIGUSR1)
        out, err = nothing.communicate()
        self.assertEqual(nothing.returncode, 0, out + err)
        self.assertIn("a signal requested a checkpoint, but checkpoint.keep is 0: none is written", out)

    def test_a_pipe_that_nobody_reads_any_more_is_a_signal_too(self):
        process = subprocess.Popen([TRAINER, *TINY, "train.steps=1000000", "train.log_every=1st"],
                                   cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        while "step 3 " not in process.stdout.readline():
            pass
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(), 128 + signal.SIGPIPE, err)
        self.assertTrue(list((self.run_folder / "checkpoints").glob("step-*.safetensors")))
        self.assertIn("Broken pipe", err)

    def test_nohup_is_heeded(self):
        process = subprocess.Popen([TRAINER, *TINY, "train.steps=200", "train.log_every=1st"],
                                   cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assertIn("final test accuracy", out)

    def test_avx2_continues_what_another_processor_began(self):
        self.trainer("train.steps=6")
        whole = (self.run_folder / "weights.safetensors").read_bytes()
        self.trainer("train.steps=3", "--overwrite")
        with unittest.mock.patch.dict(os.environ, TESSERA_MAX_ISA="avx2"):
            self.assertEqual(self.trainer("train.steps=6", "--resume", "resume.exact=true")[1], "")
        self.assertTrue(whole == (self.run_folder / "weights.safetensors").read_bytes())

    def test_another_machine_is_said_or_refused(self):
        elsewhere = r"instruction_set is .baseline. and was .avx2. or .avx512. or .avx512_bf16., kernels is .eigen. and was .native."
        self.trainer("train.steps=3")
        self.assertEqual(self.trainer("train.steps=3", "--resume", "resume.exact=true")[1], "")
        self.assertEqual(self.trainer_plain("eval", "--run", "run", code=0)[1], "")
        if json.loads((self.run_folder / "env.json").read_text(encoding="utf-8"))["kernels"] != "native":
            self.skipTest("there is no lesser instruction set than that of this machine")
        with unittest.mock.patch.dict(os.environ, TESSERA_MAX_ISA="baseline"):
            before = {path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}
            for words in ("--resume", "resume.exact=true"), ("--resume", "resume.exact=true", "--dry-run"):
                refused = self.trainer("train.steps=6", *words, code=BAD_CHECKPOINT)[1]
                self.assertRegex(refused, "resume.exact: the results would not have the same bits as those of "
                                          f"checkpoint .*{elsewhere}; resume where it was written, or set resume.exact=false")
            self.assertEqual(before, {path: path.read_bytes() for path in before}, "a refusal changes nothing")
            self.assertRegex(self.trainer_plain("eval", "--run", "run", code=0)[1], f"warning: evaluation: .*{elsewhere}")
            said = self.trainer("train.steps=6", "--resume")[1]
            self.assertRegex(said, "warning: resume: the same bits require the same computer and build, "
                                   f"but {elsewhere}; training continues; set resume.exact=true to refuse")
        self.assertIn("kernels is", self.trainer("train.steps=9", "--resume")[1])  # and back
        self.assertEqual(self.trainer("train.steps=12", "--resume")[1], "")
        said = self.trainer("train.steps=15", "--resume", "cpu.winograd=off")[1]
        self.assertIn('winograd is "off" and was "auto"', said)

    def test_what_no_cpu_reads_does_not_hold_a_run_to_its_machine(self):
        self.trainer("train.steps=3")
        self.trainer("train.steps=4", "--resume", "devices.cpu=[1GiB, 1GiB]")
        # An earlier version wrote settings of GPUs for a CPU.
        resolved = self.run_folder / "config.resolved.yaml"
        text = re.sub(r"(?m)^gpu:\n(  .*\n)+", "", resolved.read_text(encoding="utf-8"))
        resolved.write_text(text + "gpu:\n  tf32: true\n", encoding="utf-8")
        self.trainer_plain("eval", "--run", "run", code=0)
        # It also did not write the device of the run.
        env = self.run_folder / "env.json"
        old = {key: value for key, value in json.loads(env.read_text(encoding="utf-8")).items() if key != "device"}
        env.write_text(json.dumps(old), encoding="utf-8")
        self.assertEqual(self.trainer("train.steps=5", "--resume")[1], "")
        env.write_text(json.dumps(old), encoding="utf-8")
        refused = self.trainer("train.steps=6", "--resume", "resume.exact=true", code=BAD_CHECKPOINT)[1]
        self.assertIn('device is "cpu" and was not recorded', refused)

    def test_the_first_command_stays(self):
        self.trainer("train.steps=3")
        first = (self.run_folder / "command.txt").read_text(encoding="utf-8")
        self.assertIn("train.steps=3", first)
        self.trainer("train.steps=6", "--resume")
        lines = (self.run_folder / "command.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        self.assertEqual((len(lines), lines[0]), (2, first))
        self.assertIn("train.steps=6 --resume", lines[1])
        self.assertIn("train.steps=3", (self.run_folder / "report.html").read_text(encoding="utf-8"))
        self.trainer("train.steps=3", "--overwrite")
        self.assertIn("--overwrite", (self.run_folder / "command.txt").read_text(encoding="utf-8"))
        self.assertEqual((self.run_folder / "command.txt").read_text(encoding="utf-8").count("\n"), 1)

    def test_the_example_of_the_documentation_reads_a_checkpoint(self):
        text = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
        example = re.search(r"```python\n(.*?)```", text, re.S)[1]
        file = re.search(r'"(runs/.*?\.safetensors)"', example)[1]
        self.trainer("train.steps=2")
        (self.folder / file).parent.mkdir(parents=True)
        (self.run_folder / "checkpoints" / "step-000000002.safetensors").rename(self.folder / file)
        done = subprocess.run([sys.executable, "-c", example], cwd=self.folder, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_training_is_not_overwritten_by_accident(self):
        self.trainer("train.steps=5")
        weights = (self.run_folder / "weights.safetensors").read_bytes()
        _, err = self.trainer("train.steps=9", code=MISUSE)
        for word in ("'run' already contains a training", "--resume", "--overwrite", "run.dir"):
            self.assertIn(word, err)
        self.assertEqual((self.run_folder / "weights.safetensors").read_bytes(), weights)
        out, _ = self.trainer("--resume", "train.steps=9")
        self.assertIn("resumed after step 5 of 9", out)
        self.trainer("--overwrite", "train.steps=9")
        self.trainer("--overwrite", "--resume", code=MISUSE)

    def test_auto_and_paths(self):
        out, _ = self.trainer("--resume=auto", "train.steps=4")
        self.assertIn("nothing to resume in 'run/checkpoints': starting a new run", out)
        out, _ = self.trainer("--resume=run", "train.steps=6")
        self.assertIn("resumed after step 4 of 6", out)
        out, _ = self.trainer("--resume=run/checkpoints/step-000000004.safetensors", "train.steps=6")
        self.assertIn("resumed after step 4 of 6", out)
        self.trainer("--resume=nowhere", code=BAD_CHECKPOINT)
        _, err = self.trainer("--resume", "train.steps=6", "optimizer.lr=0.5", code=MISUSE)
        self.assertIn("optimizer.lr: 0.5, but the checkpoint was trained with 0.1", err)
        _, err = self.trainer("--resume", "train.steps=3", code=MISUSE)
        self.assertIn("is at step 6", err)
        for path in (self.run_folder / "checkpoints").glob("step-*"):
            path.write_bytes(path.read_bytes()[:-1])
        _, err = self.trainer("--resume", "train.steps=9", code=BAD_CHECKPOINT)
        self.assertIn("is damaged", err)

    def test_checkpoints_can_be_evaluated(self):
        said, _ = self.trainer("train.epochs=3", "checkpoint.every=1ep", "checkpoint.best=loss")
        final = re.search(r"\(loss [\d.]+", said.splitlines()[-1]).group()
        losses = {int(row["step"]): float(row["loss"]) for row in csv.DictReader(
            (self.run_folder / "metrics.csv").read_text().splitlines()) if row["phase"] == "test"}
        self.assertEqual(len(losses), 3)

        def loss(*words, code=0):
            out, err = self.trainer_plain("eval", "--run", "run", *words, code=code)
            return err if code else re.search(r"\(loss [\d.]+", out.splitlines()[-1]).group()
        self.assertEqual(loss(), final)
        self.assertEqual(loss("--checkpoint=latest"), final)
        self.assertEqual(loss("--checkpoint=best"), f"(loss {min(losses.values()):.4f}")
        first = sorted((self.run_folder / "checkpoints").glob("step-*"))[0]
        self.assertEqual(loss("--checkpoint", str(first)),
                         f"(loss {losses[int(first.stem[5:])]:.4f}")
        self.assertIn("no such file", loss("--checkpoint=other", code=BAD_CHECKPOINT).lower())
        (self.run_folder / "weights.safetensors").unlink()
        self.assertIn("--checkpoint=latest", loss(code=BAD_CHECKPOINT))

    def test_tensorboard_sees_every_step_once(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("the package tensorboard is not installed")

        def same_as_metrics():
            rows = [row for row in csv.DictReader(
                (self.run_folder / "metrics.csv").read_text().splitlines())]
            for phase in ("train", "test"):
                wanted = [(int(row["step"]), float(row["loss"])) for row in rows
                          if row["phase"] == phase]
                events = EventAccumulator(str(self.run_folder / phase))
                events.Reload()
                read = sorted((e.step, e.value) for tag in ("loss", "batches/loss")
                              if tag in events.Tags()["scalars"] for e in events.Scalars(tag))
                self.assertEqual([step for step, _ in read], [step for step, _ in wanted])
                for (_, a), (_, b) in zip(read, wanted):
                    self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))
        every = ["train.epochs=2", "train.log_every=1st", "checkpoint.every=5st", "checkpoint.keep=9"]
        self.trainer(*every)
        same_as_metrics()
        self.trainer(*every, "--resume=run/checkpoints/step-000000005.safetensors")
        same_as_metrics()
        self.trainer(*every, "--overwrite", "train.epochs=1", "seed=2")
        same_as_metrics()

    def test_one_training_a_folder(self):
        process = subprocess.Popen([TRAINER, *TINY, "train.steps=1000000"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
        while not (self.run_folder / "metrics.csv").exists():
            time.sleep(0.01)
        _, err = self.trainer("--resume", "train.steps=1000000", code=MISUSE)
        self.assertIn("another process is training", err)
        process.terminate()
        self.assertEqual(process.wait(), 143)

    def test_a_live_training_is_protected_whatever_it_keeps(self):
        process = subprocess.Popen([TRAINER, *TINY, "train.steps=1000000", "checkpoint.keep=0"],
                                   cwd=self.folder, stdout=subprocess.DEVNULL)
        while not (self.run_folder / "metrics.csv").exists():
            time.sleep(0.01)
        for words in ((), ("--overwrite",), ("--resume",)):
            _, err = self.trainer("checkpoint.keep=0", "train.steps=3", *words, code=MISUSE)
            self.assertIn("another process is training", err)
        process.terminate()
        self.assertEqual(process.wait(), 143)
        self.assertFalse((self.run_folder / "weights.safetensors").exists())

    def test_dry_run_refuses_what_the_training_refuses(self):
        self.trainer("train.steps=5")
        before = {path: path.read_bytes() for path in self.run_folder.rglob("*") if path.is_file()}
        for words, code in ((("train.steps=9",), MISUSE),
                            (("--resume", "train.steps=9", "optimizer.lr=0.5"), MISUSE),
                            (("--resume", "train.steps=3"), MISUSE),
                            (("--resume=nowhere",), BAD_CHECKPOINT)):
            _, training = self.trainer(*words, code=code)
            _, dry = self.trainer("--dry-run", *words, code=code)
            self.assertEqual(dry, training)
        for words in ("--overwrite", "--resume"):
            self.trainer("--dry-run", words, "train.steps=9")
        self.trainer("--dry-run", "run.dir=new")
        self.assertFalse((self.folder / "new").exists())
        self.assertEqual(before, {path: path.read_bytes() for path in self.run_folder.rglob("*")
                                  if path.is_file()})

    def test_a_full_disk_at_the_end_costs_no_result(self):
        # Space for the weights and the report, but not for a checkpoint, which has momenta too.
        words = ["model.widths=[64,64,96,96]", "train.steps=2", "train.log_every=1st"]
        self.trainer(*words)
        weights = (self.run_folder / "weights.safetensors").stat().st_size
        room = weights + 4096
        others = [path for path in self.run_folder.iterdir() if path.is_file()]
        self.assertLessEqual(max(path.stat().st_size for path in others), room)
        done = subprocess.run(
            [TRAINER, *TINY, "--overwrite", *words], cwd=self.folder, capture_output=True,
            text=True, check=False, restore_signals=False,  # SIGXFSZ stays ignored
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
        self.assertEqual(done.returncode, BAD_CHECKPOINT, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"final test accuracy [\d.]+ %")
        self.assertIn("the weights after step 2 are in 'run/weights.safetensors'", done.stderr)
        out, _ = self.trainer_plain("eval", "--run", "run", code=0)
        self.assertIn("evaluating run/weights.safetensors, after step 2\n", out)

    def test_a_place_that_cannot_be_used(self):
        (self.folder / "file").write_text("")
        _, err = self.trainer("run.dir=file/run", code=BAD_CHECKPOINT)
        self.assertIn("cannot create 'file/run'", err)

    def test_lengths_of_time(self):
        self.trainer("train.steps=3", "checkpoint.every=10min", "checkpoint.best=none")
        self.assertEqual([path.name for path in (self.run_folder / "checkpoints").glob("step-*")],
                         ["step-000000003.safetensors"])
        _, err = self.trainer("checkpoint.every=10parsecs", code=MISUSE)
        self.assertIn("500st, 10min or 1h", err)
        _, err = self.trainer("schedule.warmup=10min", code=MISUSE)
        self.assertIn("schedule.warmup", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
