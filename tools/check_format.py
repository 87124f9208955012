#!/usr/bin/env python3
"""Compares every C++ and CUDA file with .clang-format. Prints those that differ; exits with 1 if one
does, and with 77 if clang-format 14 is not installed: every version formats differently.

    check_format.py [--fix] [ROOT]
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from check_sizes import measured_files

VERSION = 14
SKIPPED = 77


def clang_format():
    """Returns the program, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program is None:
            continue
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if f"version {VERSION}." in said:
            return program
    return None


def main(root, fix=False):
    program = clang_format()
    if program is None:
        print(f"skipped: clang-format {VERSION} is not installed, and other versions format differently; "
              f"install clang-format-{VERSION} (Debian)")
        return SKIPPED
    files = [str(p) for p in measured_files(root) if p.suffix in (".h", ".cc", ".cu")]
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    result = subprocess.run([program, *mode, *files], capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(.+?):\d+:\d+: error: ", result.stderr, re.M)))
    for path in wrong:
        print(f"{Path(path).relative_to(root)}: is not formatted; run tools/check_format.py --fix")
    if result.returncode != 0 and not wrong:
        print(result.stderr)
    print(f"{len(files)} files, {len(wrong)} violations")
    return 1 if result.returncode != 0 or not files else 0


if __name__ == "__main__":
    roots = [Path(word) for word in sys.argv[1:] if word != "--fix"]
    sys.exit(main(roots[0] if roots else Path(__file__).parent.parent, "--fix" in sys.argv))
