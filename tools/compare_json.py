#!/usr/bin/env python3
"""Compares what two versions of trainer and planner print with --json. Prints every difference and
exits with 1 if there is one.

    compare_json.py OLD/bin NEW/bin [RUN...]     RUN: run folders, for compare, eval and predict

All bytes but those of numbers must be equal. Numbers must be equal too, unless two runs of one
version differ in them, as times do.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "models/configs/quickstart.yaml"
NETWORK = ["--config", str(CONFIG), "data.batch=8"]
COMMANDS = [
    ["trainer", "plan", *NETWORK, "--json"],
    ["trainer", "plan", *NETWORK, "--json", "memory.budget=40000KiB"],
    ["trainer", "plan", *NETWORK, "--budgets", "--json"],
    ["trainer", "plan", *NETWORK, "--max-batch", "--limit", "128MiB", "--json"],
    ["trainer", "plan", *NETWORK, "--ablation", "--json"],
    ["trainer", "bench", *NETWORK, "--steps", "5", "--json"],
    ["trainer", "bench", *NETWORK, "--steps", "5", "--repeat", "2", "--json"],
    ["trainer", "bench", *NETWORK, "--steps", "5", "--infer", "--json"],
    ["trainer", "bench", *NETWORK, "--steps", "5", "--repeat", "1", "--ablation", "--json"],
    ["trainer", "profile", *NETWORK, "--steps", "2", "--json"],
    ["trainer", "profile", *NETWORK, "--steps", "2", "--algorithms", "--json"],
    ["trainer", "doctor", "--json"],
    ["trainer", "doctor", *NETWORK, "--json"],
    ["trainer", "devices", "--json"],
    ["planner", "bench", "PROBLEM", "--json"],
    ["planner", "bench", "PROBLEM", "--ablation", "--nodes", "100", "--json"],
]
NUMBER = re.compile(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b")
# Lists that hold only the ops whose time happened to vary.
VARYING = re.compile(r'"varying_ops":\s*\[.*?\]', re.S)


def output(binary, words):
    done = subprocess.run([f"{binary}/{words[0]}", *words[1:]], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return VARYING.sub('"varying_ops":[]', done.stdout)


def difference(old, new):
    """Returns a text, "" if there is none. `old` and `new` have the outputs of two runs each."""
    a, b = (sorted(NUMBER.sub("0", texts[0]).splitlines()) for texts in (old, new))
    if a != b:  # sorted, because `profile` orders kinds of ops by their time
        return next((f"{x[:200]}\n   {y[:200]}" for x, y in zip(a, b) if x != y), "another length")
    json.loads(new[0])
    numbers = [NUMBER.finditer(text) for text in (*old, *new)]
    for a, a2, b, b2 in zip(*numbers):
        if a.group() == a2.group() != b.group() == b2.group():
            return f"{old[0][max(0, a.start() - 60):a.end()]!r}: {a.group()} {b.group()}"
    return ""


def main():
    old, new, *runs = sys.argv[1:]
    commands = list(COMMANDS)
    if runs:
        commands.append(["trainer", "compare", *runs, "--json"])
    for run in runs:
        commands.append(["trainer", "eval", "--run", run, "--json"])
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        problem = folder + "/step.csv"
        subprocess.run([f"{old}/trainer", "plan", *NETWORK, "--csv", problem], check=True)
        for command in commands:
            words = [problem if word == "PROBLEM" else word for word in command]
            found = difference(*([output(binary, words) for _ in range(2)]
                                 for binary in (old, new)))
            failed = failed or bool(found)
            print("different" if found else "equal    ", " ".join(command))
            if found:
                print("  ", found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
