#!/usr/bin/env python3
"""Every public header compiles alone, and all of them compile together.

    public_headers.py COMPILER INCLUDE_DIR with_cuda|without_cuda
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_includes import public_headers  # noqa: E402


def compile_text(compiler, include_dir, text):
    """Returns the compiler's messages about a translation unit; "" if there are none."""
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
               "-I", include_dir, "-x", "c++", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    return done.stderr if done.returncode else ""


def main(compiler, include_dir, cuda):
    names = [n for n, needs_cuda in public_headers(ROOT).items() if not needs_cuda]
    names += [n for n, needs_cuda in public_headers(ROOT).items()
              if needs_cuda and cuda == "with_cuda"]
    lines = [f'#include "tessera/{name}"\n' for name in names]
    units = dict(zip(names, lines)) | {"all together": "".join(lines)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        words = pool.map(lambda text: compile_text(compiler, include_dir, text), units.values())
        faults = [f"{name}:\n{text}" for name, text in zip(units, words) if text]
    print("".join(faults) + f"{len(names)} public headers, {len(faults)} that do not compile")
    return 1 if faults or not names else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
