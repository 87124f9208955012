#!/usr/bin/env python3
"""Keeps comments and pages in plain words. Prints every comment that begins with a word that leaves its
subject out, and every word that was given up for the field's; ends with 1 when there is one.

    check_words.py [ROOT]
"""

import re
import sys
from pathlib import Path

from check_sizes import measured_files

CODE = (".h", ".cc", ".cu")
BEGINNING = re.compile(r"(?:Of|What|Where|As|With|The same)\b", re.I)
GIVEN_UP = {  # a pattern of what must not come back: the field's word
    r"\bAbsorbed\b|\babsorb_(?:producer|epilogue|prologue|reader)\b": "FusedOp, fuse_*",
    r"\bRunningOp\b|\blargest_holders\b": "CurrentOpScope, largest_allocations",
    r"\bPreparedKernels\b|\bprepared_kernels\b": "KernelCache",
    r"\bKnownPrograms?\b|\bkKnownPrograms\b": "PrecompiledProgram",
    r"\bTwins?\b": "HostStaging, staging buffers",
    r"(?<!pinned \()\bpage-locked\b": "pinned (page-locked)",
    r"\brefused_updates\b|\brefused updates?\b": "skipped_updates, skipped update",
    r"\bLanesAre\b": "VectorAxis",
    r"\bDeviceFacts\b": "DeviceProperties",
    r"\bHostBuffer\b": "MemoryItem",
    r"\bVerdict::|\bkNotFound\b": "SolveStatus",
    r"\b(?:computed|made) again\b": "recomputed",
    r"\b[Ww]hoever\b|\b[Ss]omebody\b|\b[Aa]nybody\b|\b[Nn]obody\b": "the actor by name",
    r"\b[Aa]new\b|\b[Aa]fresh\b": "again, from scratch",
    r"\bone door\b": "single entry point",
}


def comments(text):
    """Yields (line, text) of each comment: consecutive whole lines are one, a trailing comment is its own."""
    block = None
    for number, line in enumerate(text.split("\n"), 1):
        whole = re.match(r"\s*//\s?(.*)", line)
        trailing = None if whole else re.search(r"[;{},)\w]\s+//\s?([^\"]*)$", line)
        if whole and block:
            block[1] += " " + whole[1]
        elif whole:
            block = [number, whole[1]]
        if block and not whole:
            yield block
            block = None
        if trailing:
            yield [number, trailing[1]]
    if block:
        yield block


def violations(path, name):
    text = path.read_text(encoding="utf-8")
    if path.suffix in CODE:
        for line, comment in comments(text):
            if BEGINNING.match(comment):
                yield f"{name}:{line}: the comment begins with '{BEGINNING.match(comment)[0]}'; begin with a subject or verb"
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, word in GIVEN_UP.items():
            for found in re.finditer(pattern, line):
                yield f"{name}:{number}: '{found[0]}' was given up for: {word}"


def checked_files(root):
    yield from (p for p in measured_files(root) if p.suffix in CODE)
    yield from sorted([*root.glob("*.md"), *(root / "docs").glob("*.md")])


def main(root):
    files = list(checked_files(root))
    found = [text for path in files for text in violations(path, path.relative_to(root))]
    for text in found:
        print(text)
    print(f"{len(files)} files, {len(found)} violations")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent))
