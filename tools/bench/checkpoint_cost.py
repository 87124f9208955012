#!/usr/bin/env python3
"""What checkpoints cost a training: the same training with one every 100 steps and with none,
interleaved, and the medians of their times.

    checkpoint_cost.py TRAINER CONFIG [--steps N] [--rounds N] [key=value...]
"""

import argparse
import re
import statistics
import subprocess
import tempfile


def train(arguments, every):
    """Seconds of training as the trainer reports them, without opening data."""
    with tempfile.TemporaryDirectory() as folder:
        words = [arguments.trainer, "--config", arguments.config, "~train.epochs",
                 f"train.steps={arguments.steps}", "train.evaluate_every=0", "checkpoint.best=none",
                 f"checkpoint.every={every}", "checkpoint.keep=2", f"run.dir={folder}/run",
                 *arguments.overrides]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(re.search(r"epochs, ([\d.]+) s\)", done.stdout).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer")
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    without, with_them = [], []
    for round_ in range(arguments.rounds):
        for every, times in ((0, without), ("100st", with_them))[::1 if round_ % 2 else -1]:
            times.append(train(arguments, every))
        print(f"{round_ + 1}: none {without[-1]:.2f} s, every 100 steps {with_them[-1]:.2f} s")
    cost = statistics.median(with_them) / statistics.median(without) - 1
    pairs = sorted(b / a - 1 for a, b in zip(without, with_them))
    print(f"checkpoints cost {100 * cost:.2f} % (pairs {100 * pairs[0]:.2f} to {100 * pairs[-1]:.2f} %)")


if __name__ == "__main__":
    main()
