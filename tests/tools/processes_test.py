#!/usr/bin/env python3
"""Trainings that mpirun starts in several processes.

    processes_test.py TRAINER MPIRUN [LIBRARY]

LIBRARY is count_allocations.cc, unless sanitizers exclude it.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program_case import ProgramTest

ROOT = Path(__file__).resolve().parents[2]
TRAINER, MPIRUN = str(Path(sys.argv[1]).resolve()), sys.argv[2]
LIBRARY = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
MISUSE, DEVICE = 2, 4
TINY = ["--config", str(ROOT / "models" / "configs" / "quickstart.yaml"), "model.widths=[4,4,8,8]",
        "data.batch=8", "data.train_count=88", "data.test_count=24", "data.image_size=16",
        "schedule.warmup=0", "schedule.name=constant", "threads=1", "data.workers=0",
        "train.accumulate=4", "~train.epochs"]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")


class Processes(ProgramTest):
    program = TRAINER

    def command(self, count, *words):
        return [MPIRUN, "-n", str(count), TRAINER, *TINY, *words]

    def train(self, count, folder, *words, code=0):
        """Trains in `count` processes; 0: without mpirun."""
        command = self.command(count, *words) if count else [TRAINER, *TINY, *words]
        done = subprocess.run([*command, f"run.dir={folder}"], cwd=self.folder, env=ENVIRONMENT,
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def results(self, folder):
        """The weights, and all of the metrics that does not depend on time."""
        with open(self.folder / folder / "metrics.csv", encoding="utf-8") as lines:
            metrics = [line[:6] + line[8:] for line in csv.reader(lines)]
        return (self.folder / folder / "weights.safetensors").read_bytes(), metrics

    def begun(self, *words):
        """A long training in three processes, in its middle."""
        training = subprocess.Popen(self.command(3, "train.steps=1000000", "run.dir=run",
                                                 "train.log_every=1st", *words),
                                    cwd=self.folder, env=ENVIRONMENT, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        metrics = self.folder / "run" / "metrics.csv"
        while not metrics.exists() or len(metrics.read_bytes()) < 2000:
            self.assertIsNone(training.poll(), "it ended by itself")
            time.sleep(0.01)
        return training

    @staticmethod
    def ranks(training):
        """The trainers that mpirun started, by rank."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"trainer" not in (process / "cmdline").read_bytes().split(b"\0")[0]:
                    continue
                status = (process / "status").read_text()
                variables = (process / "environ").read_bytes()
            except OSError:
                continue
            if f"PPid:\t{training.pid}\n" in status:
                found[int(re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", variables)[1])] = int(process.name)
        return found

    def timed(self, count, *words):
        command = [MPIRUN, "-n", str(count), TRAINER, *words, *TINY, "--steps", "5", "--json"]
        done = subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                              check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)  # of one process

    def test_steps_are_timed_together(self):
        one, three = self.timed(1, "bench"), self.timed(3, "bench")
        self.assertEqual(one["losses"], three["losses"])
        self.assertEqual((one["processes"], three["processes"]), (1, 3))
        self.assertGreater(three["waited"], 0)
        ops = [op["op"] for op in self.timed(2, "profile")["ops"]]
        self.assertGreater(ops.count("exchange_start"), 1)
        self.assertEqual(ops.count("exchange_start"), ops.count("exchange_wait"))

    @unittest.skipUnless(LIBRARY, "sanitizers replace the functions that are counted")
    def test_steps_ask_for_no_memory(self):
        """But MPI does, a few times, for messages that come before they are expected."""
        counted = f'TESSERA_ALLOCATIONS=counts.$OMPI_COMM_WORLD_RANK LD_PRELOAD="{LIBRARY}" exec "$@"'
        done = subprocess.run([MPIRUN, "-n", "3", "sh", "-c", counted, "sh", TRAINER, "bench", *TINY,
                               "--steps", "500"], cwd=self.folder, env=ENVIRONMENT, capture_output=True,
                              text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(3):
            counts = (self.folder / f"counts.{rank}").read_text()
            self.assertLess(int(re.search(r"inside=(\d+)", counts)[1]), 50, counts)

    def test_the_same_results_for_any_number(self):
        words = ["train.steps=25", "train.evaluate_every=10st"]
        alone = self.train(0, "alone", *words)
        for count in 1, 2, 3, 4:
            done = self.train(count, f"by{count}", *words)
            self.assertEqual(self.results(f"by{count}"), self.results("alone"), count)
            self.assertEqual(done.stdout.count("final test accuracy"), 1)
            if count > 1:
                self.assertIn(f"processes: {count}, 1 threads each, 4 parts of a batch; on ", done.stdout)
                self.assertIn("the slowest", done.stdout)
        self.assertNotIn("processes", alone.stdout)

    def test_another_number_resumes(self):
        self.train(0, "alone", "train.steps=20")
        for count, steps in (4, 3), (3, 8), (1, 13), (0, 20):
            self.train(count, "run", f"train.steps={steps}", "--resume")
        self.assertEqual(self.results("run")[0], self.results("alone")[0])

    def test_a_signal_stops_all_after_the_same_step(self):
        training = self.begun()
        ranks = self.ranks(training)
        os.kill(ranks[1], signal.SIGTERM)
        out, err = training.communicate(timeout=60)
        self.assertIn("stopped by SIGTERM after step", out, err)
        steps = int(re.search(r"after step (\d+)", out)[1])
        self.train(0, "alone", f"train.steps={steps + 5}")
        self.train(2, "run", f"train.steps={steps + 5}", "--resume")
        self.assertEqual(self.results("run")[0], self.results("alone")[0])

    def test_a_process_that_hangs_is_named(self):
        training = self.begun("distributed.timeout=5")
        stopped = self.ranks(training)[2]
        os.kill(stopped, signal.SIGSTOP)
        try:
            out, err = training.communicate(timeout=60)
        finally:
            try:
                os.kill(stopped, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual(training.returncode, DEVICE, out + err)
        self.assertRegex(err, r"process 2 on \S+ of 3 has not answered for (5|6\.25) s \(distributed.timeout\)")
        self.assertIn("--resume", err)

    def test_a_process_that_is_killed_ends_the_others(self):
        training = self.begun("checkpoint.every=5st")
        os.kill(self.ranks(training)[1], signal.SIGKILL)
        training.communicate(timeout=60)
        self.assertNotEqual(training.returncode, 0)
        step = max(int(re.search(r"\d+", name.name)[0])
                   for name in (self.folder / "run" / "checkpoints").glob("step-*.safetensors"))
        self.train(0, "alone", f"train.steps={step + 5}")
        self.train(2, "run", f"train.steps={step + 5}", "--resume")
        self.assertEqual(self.results("run")[0], self.results("alone")[0])

    def test_refusals(self):
        done = self.train(3, "run", "train.accumulate=2", code=MISUSE)
        self.assertEqual(done.stderr.count("3 processes: train.accumulate is 2"), 1, done.stderr)
        self.assertIn("set train.accumulate=3 or more", done.stderr)
        done = self.train(3, "run", "data.batch=29", code=MISUSE)  # 88 = 3 * 29 + 1
        self.assertIn("the last batch of an epoch has 1 image(s)", done.stderr)
        other = [*self.command(1, "seed=1", "run.dir=run"), ":", "-n", "1", TRAINER, *TINY, "seed=2",
                 "run.dir=run"]
        done = subprocess.run(other, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, MISUSE, done.stderr)
        self.assertRegex(done.stderr, r"process 1 has line \d+ of the configuration seed: 2, process 0 seed: 1")
        self.assertFalse((self.folder / "run").exists())

    def test_a_build_without_mpi_is_refused(self):
        alone = self.folder / "trainer"
        shutil.copy(TRAINER, alone)  # without the module beside it
        done = self.run_program(*TINY, "run.dir=run", code=MISUSE, program=str(alone),
                                env=dict(ENVIRONMENT, OMPI_COMM_WORLD_SIZE="2"))
        self.assertIn("2 processes were started, but this build cannot join them", done.stderr)

    def test_the_plan_of_one_process(self):
        def arena(*words):
            return json.loads(self.succeed("plan", *TINY, "--json", *words))["arena_bytes"]
        self.assertLess(arena("--processes", "4"), arena())
        self.fail_with(MISUSE, ["5 processes: train.accumulate is 4"], "plan", *TINY, "--processes", "5")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
