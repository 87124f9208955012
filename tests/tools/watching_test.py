#!/usr/bin/env python3
"""The output of a running training, on a terminal and without; the effects of a full disk.

    watching_test.py TRAINER
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest

from cli_test import BAD_WEIGHTS, DIVERGED, QUICKSTART, TINY, TRAINER, Test, metrics


def read_terminal(terminal):
    """Returns the next output; nothing if the program has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


class Watching(Test):
    def train(self, name, *more):
        run = self.folder / name
        return run, self.succeed("--config", QUICKSTART, *TINY, *more, f"run.dir={run}")

    def on_a_terminal(self, columns, *more, code=0, kind="xterm"):
        """Returns the lines on the screen and all progress bars."""
        words = ["--config", QUICKSTART, *TINY, "data.train_count=320", "train.epochs=3", *more,
                 f"run.dir={self.folder / 'run'}"]
        child, terminal = pty.fork()
        if child == 0:
            os.execve(TRAINER, [TRAINER, *map(str, words)], {**os.environ, "TERM": kind})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        said = b""
        while piece := read_terminal(terminal):
            said += piece
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), code, said)
        os.close(terminal)
        drawn = [line.split("\r\x1b[K") for line in said.decode().split("\r\n")]
        bars = [text for line in drawn for text in line
                if re.match("epoch .* loss .* acc ", text) and "step" not in text]
        return [line[-1] for line in drawn], bars

    def test_a_terminal_shows_progress(self):
        asked = r"[\d.]+k? img/s +loss [\d.]+ +acc [\d.]+ % +eta [\d:?]+ +wait \d+ % +\d+ MiB$"
        short = r"[\d.]+k?/s +loss [\d.]+ +acc [\d.]+% +eta [\d:?]+ +wait \d+% +\d+MiB$"
        lines, bars = self.on_a_terminal(110)
        self.assertTrue(bars)
        for bar in bars:
            self.assertLess(len(bar), 110)
            self.assertRegex(bar, r"^epoch [123]/3 \[=*>? *\] +\d+/20  " + asked)
        self.assertRegex(lines[-2], "^final test accuracy")
        self.assertLessEqual(max(map(len, lines)), 110)
        self.assertNotIn("img/s", "".join(lines))
        self.assertFalse([line for line in lines if re.search(r"step \d+  train loss \S+ acc \S+ %\s+lr", line)])
        _, bars = self.on_a_terminal(80, "--overwrite")
        for bar in bars:
            self.assertLess(len(bar), 80)
            self.assertRegex(bar, r"^epoch [123]/3 \[[=> ]{8,16}\] " + short)
        _, bars = self.on_a_terminal(60, "--overwrite")
        for bar in bars:
            self.assertLess(len(bar), 60)
            self.assertRegex(bar, r"^epoch [123]/3 \[[=> ]{8,16}\] \S+/s +loss [\d.]+ +acc [\d.]+% +eta")

    def test_lines_stand_above_the_progress_bar(self):
        lines, bars = self.on_a_terminal(80, "optimizer.lr=1e30", "train.non_finite=skip",
                                         code=DIVERGED)
        self.assertLessEqual(max(map(len, lines)), 80)
        said = re.sub("\n  +", " ", "\n".join(lines))  # undoes line breaks
        skipped = [line for line in said.split("\n") if "the batch is skipped" in line]
        self.assertGreater(len(skipped), 15)
        for line in skipped:
            self.assertRegex(line, "^tessera warning: training: ")
        self.assertGreater(len(bars), len(skipped) // 2)  # drawn again after them

    def test_a_dumb_terminal_has_plain_lines(self):
        lines, bars = self.on_a_terminal(80, "train.log_every=5st", kind="dumb")
        self.assertFalse(bars)
        self.assertNotIn("\x1b", "".join(lines))
        self.assertNotIn("\r", "".join(lines))
        said = re.sub("\n  +", " ", "\n".join(lines))
        self.assertRegex(said, r"\nepoch 0.25/3 +step 5 +train loss ")

    def test_without_a_terminal_lines_tell_how_it_goes(self):
        _, said = self.train("run", "train.log_every=2st", "train.evaluate_every=0")
        self.assertEqual(re.findall(r"^epoch [\d.]+/2  step (\d+)  train loss [\d.]+ acc "
                                    r"[\d.]+ %  lr [\d.]+  wait \d+ %  \d+ s$", said, re.M),
                         ["2", "4", "6", "8", "10"])
        self.assertRegex(said, r"\nepoch 2/2  step 12  train loss .*\s+test loss ")

    def test_a_run_of_many_lines_is_thinned(self):
        _, said = self.train("run", "train.log_every=1st", "train.evaluate_every=0",
                             "train.epochs=20")
        lines = re.findall(r"^epoch \S+  step \d+  train loss", said, re.M)
        self.assertGreater(len(lines), 50)   # the last belongs to the evaluation
        self.assertLess(len(lines), 120)
        self.assertEqual(len([line for line in metrics(self.folder / "run")
                              if line["phase"] == "train"]), 120)

    def test_a_full_disk_costs_metrics_but_not_the_training(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").symlink_to("/dev/full")
        done = self.run_program("--config", QUICKSTART, *TINY, f"run.dir={run}")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, last = done.stderr.splitlines()
        self.assertIn("metrics.jsonl' cannot be written: No space left on device", first)
        self.assertIn("metrics.jsonl' lacks 8 of 8 lines", last)
        self.assertTrue((run / "weights.safetensors").exists())
        self.assertIn("</html>", (run / "report.html").read_text())
        self.assertEqual(len((run / "metrics.csv").read_text().splitlines()), 9)

    def test_weights_that_cannot_be_written(self):
        run = self.folder / "run"
        (run / "weights.safetensors" / "in_the_way").mkdir(parents=True)
        done = self.run_program("--config", QUICKSTART, *TINY, f"run.dir={run}")
        self.assertEqual(done.returncode, BAD_WEIGHTS, done.stderr)
        self.assertRegex(done.stderr, r"weights.safetensors': cannot be written .*; the last checkpoint is "
                                      r"'.*/step-000000012.safetensors': fix the problem and continue .* --resume")
        (run / "weights.safetensors" / "in_the_way").rmdir()
        (run / "weights.safetensors").rmdir()
        self.succeed("--config", QUICKSTART, *TINY, f"run.dir={run}", "--resume")
        self.assertTrue((run / "weights.safetensors").is_file())


class LostOutput(Test):
    """A command's result is its standard output: if that is lost, the exit code reports it."""

    WHY = "cannot write to standard output: No space left on device"

    def into_a_full_disk(self, *words):
        with open("/dev/full", "w", encoding="utf-8") as full:
            return subprocess.run([TRAINER, *map(str, words)], cwd=self.folder, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)

    def test_is_an_error(self):
        self.succeed("--config", QUICKSTART, *TINY, "run.dir=run")
        plan = ("plan", "--config", QUICKSTART, *TINY)
        for words in (["eval", "--run", "run"], plan, [*plan, "--json"], [*plan, "--draw"],
                      [*plan, "--why", "conv2"], [*plan, "--csv", "-"], [*plan, "--html", "p.html"],
                      [*plan, "--dump-after=capture"],
                      [*plan, "--max-batch", "--limit", "1GiB"], ["devices"], ["config", "schema"],
                      ["config", "init"], ["data", "inspect", "--config", QUICKSTART, *TINY],
                      ["doctor", "--config", QUICKSTART, *TINY], ["--help"],
                      ["bench", "--config", QUICKSTART, *TINY, "--steps", 1],
                      ["train", "--config", QUICKSTART, "--print-config"],
                      ["train", "--config", QUICKSTART, *TINY, "--dry-run", "run.dir=other"]):
            done = self.into_a_full_disk(*words)
            self.assertEqual(done.stderr, f"trainer: {self.WHY}\n", words)
            self.assertEqual(done.returncode, 1, words)

    def test_does_not_end_a_training(self):
        done = self.into_a_full_disk("--config", QUICKSTART, *TINY, "run.dir=run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, f"tessera warning: training: {self.WHY}; the results are "
                                      "in 'run'\n")
        self.assertTrue((self.folder / "run" / "weights.safetensors").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
