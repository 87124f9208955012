#!/usr/bin/env python3
"""Takes the first C++ program out of the README, and checks what it prints.

    readme_program.py extract README.md PROGRAM.cc
    readme_program.py run PROGRAM LEAST_ACCURACY
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_LINES = 40


def extract(readme, program):
    text = Path(readme).read_text(encoding="utf-8")
    block = re.search(r"^```cpp\n(.*?)^```$", text, re.S | re.M)
    if block is None:
        sys.exit(f"{readme}: there is no ```cpp block")
    code = block.group(1)
    lines = code.count("\n")
    if lines >= MAX_LINES:
        sys.exit(f"{readme}: the first program has {lines} lines, not under {MAX_LINES}")
    Path(program).write_text(code, encoding="utf-8")


def run(program, least):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="")
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}")
    said = re.findall(r"accuracy\D*(\d+(?:\.\d+)?) ?%", done.stdout)
    if not said:
        sys.exit(f'{program} printed no "accuracy ... %"')
    if float(said[-1]) < float(least):
        sys.exit(f"the accuracy is {said[-1]} %, under {least} %")


if __name__ == "__main__":
    {"extract": extract, "run": run}[sys.argv[1]](*sys.argv[2:])
