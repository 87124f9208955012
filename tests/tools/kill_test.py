#!/usr/bin/env python3
"""kill -9 at random moments never loses a run: the resumed run ends with the bits of a run that was
never killed.

    kill_test.py TRAINER LIBRARY [KILLS [SEED]]

LIBRARY is checkpoint_window.cc: it reports whether a kill came between the opening of a checkpoint's
temporary file and the end of pruning, and prolongs that time. 60 % of the kills wait for it, the
others come at any time. TESSERA_LONG_TESTS=1: 1,000 kills.
"""

import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TRAINER, LIBRARY = (str(Path(word).resolve()) for word in sys.argv[1:3])
# A path in LD_PRELOAD ends at a blank, in LD_LIBRARY_PATH it does not.
PRELOADED = {"LD_PRELOAD": os.path.basename(LIBRARY), "LD_LIBRARY_PATH": os.path.dirname(LIBRARY)}
LONG = "TESSERA_LONG_TESTS" in os.environ
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000 if LONG else 20
LEAST_HITS = KILLS * 3 // 10
MOST_PER_RUN = 8  # then the run may end
DELAY = 1500  # microseconds

STEPS = 48
CONFIG = f"""
seed: 4
threads: 1
model: {{name: cnn_bn, widths: [4, 4, 8, 8], dropout: 0.2}}
data: {{name: synthetic, image_size: 16, batch: 8, train_count: 44, test_count: 16, workers: 1}}
optimizer: {{lr: 0.02}}
train: {{steps: {STEPS}, log_every: 4st, evaluate_every: 5st}}
checkpoint: {{every: 2st, keep: 2, best: accuracy}}
run: {{dir: run}}
"""


class Window:
    """The memory page that the trainer's process and this one share."""

    def __init__(self, path):
        path.write_bytes(bytes(8))
        self.path = path
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 8)

    def read(self):
        return struct.unpack("ii", self.page[:8])

    def clear(self):
        self.page[:8] = bytes(8)


def start(folder, window, *words):
    environment = {**os.environ, **PRELOADED, "TESSERA_WINDOW": str(window.path),
                   "TESSERA_WINDOW_DELAY": str(DELAY)}
    window.clear()
    return subprocess.Popen([TRAINER, "--config", "../config.yaml", *words], cwd=folder,
                            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def result_of(run):
    """Returns all that must be equal: weights, the last checkpoint, metrics without the speed."""
    lines = (run / "metrics.csv").read_text().splitlines()
    metrics = [line.split(",")[:6] + line.split(",")[8:] for line in lines]
    checkpoint = run / "checkpoints" / f"step-{STEPS:09d}.safetensors"
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    return (run / "weights.safetensors").read_bytes(), checkpoint.read_bytes(), metrics, kept


def wait_for_window(process, window):
    """Waits until a checkpoint, not always the first, is being written; False if the run ends."""
    wanted = random.randint(1, 6)
    while process.poll() is None:
        phase, begun = window.read()
        if begun >= wanted and phase not in (0, 5):
            time.sleep(random.random() ** 2 * DELAY * 8e-6)
            return True
        time.sleep(0)
    return False


def killed_phase(process, window, seconds):
    """Kills the process and returns its phase; None if it had ended."""
    if random.random() < 0.6:
        if not wait_for_window(process, window):
            return None
    else:
        time.sleep(random.random() * seconds)
    process.send_signal(signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        return None
    return window.read()[0]


def main():
    random.seed(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    phases, runs, kills = Counter(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "config.yaml").write_text(CONFIG, encoding="utf-8")
        window = Window(root / "window")
        (root / "whole").mkdir()
        began = time.monotonic()
        whole = start(root / "whole", window)
        errors = whole.communicate()[1].decode()
        assert whole.returncode == 0, errors
        seconds = time.monotonic() - began
        expected = result_of(root / "whole" / "run")
        while kills < KILLS:
            runs += 1
            folder = root / f"run{runs}"
            folder.mkdir()
            for left in range(MOST_PER_RUN, -1, -1):
                process = start(folder, window, "--resume")
                phase = killed_phase(process, window, seconds) if left > 0 and kills < KILLS else None
                errors = process.communicate()[1].decode()
                if phase is None:
                    assert process.returncode == 0, f"run {runs} is lost: {errors}"
                    break
                kills += 1
                phases[phase] += 1
            assert result_of(folder / "run") == expected, f"run {runs} has other bits"
            subprocess.run(["rm", "-r", str(folder)], check=True)
    hits = sum(count for phase, count in phases.items() if phase not in (0, 5))
    print(f"{kills} kills in {runs} runs, 0 lost; {hits} while a checkpoint was written: "
          f"{dict(sorted(phases.items()))}")
    assert hits >= LEAST_HITS, f"only {hits} of {kills} kills fell where they matter"


if __name__ == "__main__":
    main()
