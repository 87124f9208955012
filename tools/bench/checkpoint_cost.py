#!/usr/bin/env python3
"""Measures the cost of checkpoints: runs the same training with a checkpoint every 100 steps and without,
in turn, and prints the medians of the time by the clock, which other work disturbs, and of the processor
time, which includes work in the background.

    checkpoint_cost.py TRAINER CONFIG [--steps N] [--rounds N] [key=value...]
"""

import argparse
import re
import resource
import statistics
import subprocess
import tempfile


def train(arguments, every):
    """Returns the seconds of training by the clock, without opening data, and the processor time."""
    with tempfile.TemporaryDirectory() as folder:
        words = [arguments.trainer, "--config", arguments.config, "~train.epochs",
                 f"train.steps={arguments.steps}", "train.evaluate_every=0", "checkpoint.best=none",
                 f"checkpoint.every={every}", "checkpoint.keep=2", f"run.dir={folder}/run",
                 *arguments.overrides]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (float(re.search(r"epochs, ([\d.]+) s\)", done.stdout).group(1)),
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer")
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_intermixed_args()
    without, with_them = [], []
    for round_ in range(arguments.rounds):
        for every, times in ((0, without), ("100st", with_them))[::1 if round_ % 2 else -1]:
            times.append(train(arguments, every))
    for i, kind in enumerate(("by the clock", "processor time")):
        none, some = [t[i] for t in without], [t[i] for t in with_them]
        pairs = sorted(b / a - 1 for a, b in zip(none, some))
        cost = statistics.median(some) / statistics.median(none) - 1
        print(f"{kind}: {statistics.median(none):.2f} s without, checkpoints cost {100 * cost:.2f} % "
              f"(pairs {100 * pairs[0]:.2f} to {100 * pairs[-1]:.2f} %)")


if __name__ == "__main__":
    main()
