"""Compares our planner with MiniMalloc, in turn (ours, theirs, ours, theirs ...), on the same instances.

    python minimalloc.py --planner build/release/bin/planner --minimalloc minimalloc \\
        --capacity 1048576 --rounds 5 A.1048576.csv B.1048576.csv ...

Each run is a process of its own from its start to its end, output file included. The figure is the
processor time, user and system, which other work on the machine disturbs least; its median over
the rounds is printed with the ratio ours / theirs. `--name` chooses our planner, `--timeout` is the
limit in seconds for theirs. Exits with 1 when ours leaves an instance open, is slower on one, or
takes more than a tenth of the time in all.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile


def seconds_of(command):
    """Returns the exit status of a command and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--planner", required=True, help="our program")
    parser.add_argument("--minimalloc", required=True, help="their program")
    parser.add_argument("--name", default="best", help="name of our planner")
    parser.add_argument("--capacity", type=int, required=True, help="bytes available to a plan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=60, help="time limit of their program, in seconds")
    parser.add_argument("files", nargs="+", help="CSV files")
    return parser.parse_args()


def main():
    options = arguments()
    bad = False
    totals = [0.0, 0.0]
    print(f"{'instance':28} {'ours':>10} {'theirs':>10} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        plans = [os.path.join(folder, name) for name in ("ours.csv", "theirs.csv")]
        for file in options.files:
            task = ["--capacity", str(options.capacity), "--output"]
            commands = [
                [options.planner, "solve", file, "--planner", options.name, *task, plans[0]],
                [options.minimalloc, "--input", file, *task, plans[1], "--timeout",
                 f"{options.timeout}s"]]
            times = [[], []]
            statuses = [0, 0]
            for _ in range(options.rounds):
                for who, command in enumerate(commands):
                    statuses[who], seconds = seconds_of(command)
                    times[who].append(seconds)
            ours, theirs = (statistics.median(t) for t in times)
            totals = [totals[0] + ours, totals[1] + theirs]
            notes = [f"{who} exit {status}" for who, status in zip(("ours", "theirs"), statuses)
                     if status != 0]
            bad = bad or statuses[0] != 0 or ours > theirs
            print(f"{os.path.basename(file):28} {ours:9.4f}s {theirs:9.4f}s {ours / theirs:8.4f}"
                  f"  {', '.join(notes)}", flush=True)
    ratio = totals[0] / totals[1]
    print(f"{'all':28} {totals[0]:9.4f}s {totals[1]:9.4f}s {ratio:8.4f}")
    sys.exit(1 if bad or ratio > 0.1 else 0)


if __name__ == "__main__":
    main()
