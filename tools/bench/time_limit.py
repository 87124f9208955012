"""Checks that `planner solve --timeout` keeps its time limit, on problems that need longer.

    python time_limit.py --planner build/release/bin/planner [more.csv ...]

Makes problems of 4,000 and 20,000 buffers at random and solves these and the files given, each
without a capacity, at the lower bound and one byte below it, with limits from 0.1 to 10 seconds.
Prints the time from the start of the program to its end as a part of the limit, and exits with 1
when one is above 1.1. What ends before its limit says nothing and is printed in brackets.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

RANDOM = {
    "random_4000": ["--buffers", "4000", "--times", "2000", "--long-lived", "0.3"],
    "random_5000_aligned": ["--buffers", "5000", "--times", "1000", "--aligned", "0.5"],
    "random_20000": ["--buffers", "20000", "--times", "20000"],
    "random_20000_fixed": ["--buffers", "20000", "--times", "5000", "--fixed", "0.1"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--planner", required=True)
    parser.add_argument("--limits", default="0.1,0.3,1,3,10", help="seconds")
    parser.add_argument("--name", default="best", help="name of the planner")
    parser.add_argument("files", nargs="*", help="CSV files")
    options = parser.parse_args()
    limits = [float(limit) for limit in options.limits.split(",")]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, settings in RANDOM.items():
            files.append(os.path.join(folder, name + ".csv"))
            subprocess.run([options.planner, "random", "--seed", "1", *settings, "-o", files[-1]],
                           check=True)
        print(f"{'problem':32} {'capacity':>14} " + " ".join(f"{x:>7g}s" for x in limits))
        for file in files + options.files:
            bound = int(subprocess.run([options.planner, "solve", file, "--planner", "none"], check=True,
                                       text=True, capture_output=True).stdout.split()[4])
            for capacity in (None, bound, bound - 1):
                task = [] if capacity is None else ["--capacity", str(capacity)]
                cells = []
                for limit in limits:
                    start = time.monotonic()
                    subprocess.run([options.planner, "solve", "--planner", options.name, file,
                                    "--timeout", str(limit), *task], check=False,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    part = (time.monotonic() - start) / limit
                    worst = max(worst, part)
                    cells.append(f"{part:8.2f}" if part > 0.9 else f"{f'({part:.2f})':>8}")
                name = os.path.splitext(os.path.basename(file))[0]
                print(f"{name:32} {capacity or '-':>14} {' '.join(cells)}", flush=True)
    print(f"worst {worst:.2f}")
    sys.exit(1 if worst > 1.1 else 0)


if __name__ == "__main__":
    main()
