#!/usr/bin/env python3
"""Runs every command of the README, then every one of docs/troubleshooting.md, in order, unchanged.

    readme_commands.py TRAINER PLANNER

Only options that keep it short are added: a small batch, few steps, and a local data set instead of a
download.
"""

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import cifar10_files
import pictures

SOURCE = Path(__file__).resolve().parents[2]
PROGRAMS = {name: str(Path(path).resolve())
            for name, path in zip(("trainer", "planner"), sys.argv[1:], strict=True)}
SHORT = " data.batch=8 data.train_count=80 data.test_count=40 threads=2"
ADDED = {  # appended to commands with these beginnings
    "trainer data fetch": " --from usb --manifest manifest",
    "trainer data pack": SHORT,
    "trainer data bench": " --seconds 0.2" + SHORT,
    "trainer --config models/configs/image_folder.yaml": " train.epochs=2 threads=2",
    "trainer --config": SHORT,
    "trainer sweep --config": " train.epochs=1" + SHORT,
    "trainer train --config C.yaml --dry-run": " run.dir=runs/dry" + SHORT,
    "trainer train --config C.yaml --verify-plan seed": " train.epochs=1 run.dir=runs/seeded" + SHORT,
    "trainer train": " train.epochs=1 run.dir=runs/verified" + SHORT,
    "trainer bench": SHORT,
    "trainer profile --config": " --steps 2" + SHORT,
    "trainer doctor --config": SHORT,
    "planner export": SHORT,
}


def commands():
    """Yields (page, command): all commands in the README's `sh` blocks, and those in the last column of
    the table of docs/troubleshooting.md."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M):
        for line in block.splitlines():
            yield "README", line.split("#")[0].strip()
    page = (SOURCE / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (?!symptom|-)(.*) \|$", page, re.M):
        of_row = re.findall(r"`(.*?)`", row.split(" | ")[-1])
        if not of_row or not all(command.split()[0] in PROGRAMS for command in of_row):
            sys.exit(f"no command in the row: {row}")
        for command in of_row:
            yield "docs/troubleshooting.md", command


def prepare(folder):
    """Makes models/ as in the sources, the archive for `data fetch`, and a picture."""
    (folder / "models").symlink_to(SOURCE / "models")
    pictures.write_png(folder / "photo.jpg", 40, 30, (200, 120, 30))
    for name, color in (("cats", (200, 120, 30)), ("dogs", (20, 120, 230))):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(10):
            pictures.write_png(folder / "photos" / name / f"{i}.png", 40, 30, color)
    made, usb = folder / "made", folder / "usb"
    made.mkdir()
    usb.mkdir()
    cifar10_files.write(made)
    archive = usb / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.USTAR_FORMAT, dereference=True,
                      compresslevel=1) as tar:
        for name in cifar10_files.NAMES:
            tar.add(made / name, "cifar-10-batches-bin/" + name)
    body = archive.read_bytes()
    (folder / "manifest").write_text(
        f"{hashlib.sha256(body).hexdigest()} {len(body)} {archive.name}\n")


def main():
    run = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for page, command in commands():
            words, _, output = command.partition(" > ")
            words += next((more for start, more in ADDED.items() if command.startswith(start)), "")
            program, rest = words.split(" ", 1)
            done = subprocess.run([PROGRAMS[program], *rest.split()], cwd=folder,
                                  capture_output=True, text=True, check=False, timeout=600)
            print(f"$ {command}\n{done.stdout[-300:]}{done.stderr}")
            if done.returncode != 0 or done.stderr:
                sys.exit(f"`{command}` of {page} ended with {done.returncode}")
            if output:
                (folder / output).write_text(done.stdout)
            run[page] = run.get(page, 0) + 1
        for made in ("plan.html", "pack.h5", "C.yaml", "problem.csv", "runs/resnet/weights.safetensors"):
            if not (folder / made).exists():
                sys.exit(f"{made} was not made")
    if run["README"] < 20 or run["docs/troubleshooting.md"] < 20:
        sys.exit(f"too few commands were found: {run}")


if __name__ == "__main__":
    main()
