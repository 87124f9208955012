#!/usr/bin/env python3
"""The first commands of a newcomer, before compilation: the Makefile and tools/setup.sh, run with
substitutes for the package manager, sudo and the machine's memory.

  first_minutes_test.py SOURCE_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))


class FirstMinutes(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, context):  # part of unittest from Python 3.11 on
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def stand_in(self, name, script):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def setup(self, user_id, sudo=None, apt_get="exit 0"):
        """Runs setup.sh as if no package were installed; returns status, stderr and the calls of apt-get."""
        for tool in ("bash", "cat", "env", "mktemp", "rm", "sh"):
            if not (self.folder / tool).exists():
                (self.folder / tool).symlink_to(shutil.which(tool))
        self.stand_in("dpkg-query", "exit 1\n")
        self.stand_in("id", f"echo {user_id}\n")
        self.stand_in("apt-get", f'echo "$@" >> {self.folder}/calls\n{apt_get}\n')
        if sudo:
            self.stand_in("sudo", sudo)
        run = subprocess.run([SOURCE / "tools/setup.sh"], capture_output=True, text=True,
                             env={"PATH": str(self.folder)})
        calls = self.folder / "calls"
        return run.returncode, run.stderr, calls.read_text() if calls.exists() else ""

    def test_without_sudo_the_line_for_root_works_on_an_image_with_empty_lists(self):
        status, words, calls = self.setup(1000)
        self.assertEqual((status, calls), (1, ""))
        self.assertIn("no sudo", words)
        self.assertIn("apt-get update && apt-get install -y build-essential", words)

    def test_a_sudo_that_refuses_is_not_taken_for_apt_get(self):
        status, words, calls = self.setup(1000, sudo="echo 'ada is not in the sudoers file' >&2; exit 1\n")
        self.assertEqual((status, calls), (1, ""))
        self.assertIn("ada is not in the sudoers file", words)
        self.assertIn("sudo refused", words)
        self.assertNotIn("apt-get could not", words)

    def test_a_sudo_that_works_installs(self):
        status, words, calls = self.setup(1000, sudo='exec "$@"\n')
        self.assertEqual(status, 0, words)
        self.assertIn("update", calls)
        self.assertIn("install -qq -y", calls)

    def test_a_failing_apt_get_is_told_in_its_own_words(self):
        status, words, _ = self.setup(0, apt_get="echo 'E: no such package' >&2; exit 100")
        self.assertEqual(status, 1)
        self.assertIn("E: no such package", words)
        self.assertIn("apt-get could not install", words)

    def make(self, *arguments):
        return subprocess.run(["make", "-s", "-C", SOURCE, *arguments], capture_output=True, text=True)

    def test_another_build_folder_holds_all_that_is_written(self):
        build = "/elsewhere/with blanks and ä"
        run = self.make("-n", "train", f"BUILD={build}")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"-B '{build}'", run.stdout)
        self.assertIn(f"'{build}/bin/trainer'", run.stdout)
        self.assertIn(f"run.dir='{build}/runs/quickstart'", run.stdout)
        self.assertNotIn("build/release", run.stdout)

    def test_a_folder_that_cannot_be_written_names_the_remedy(self):
        run = self.make("configure", "BUILD=/proc/tessera")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("/proc/tessera cannot be written", run.stderr)
        self.assertIn("make BUILD=/elsewhere", run.stderr)

    def jobs(self, free_kib):
        memory = self.folder / "meminfo"
        memory.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {free_kib} kB\n")
        run = self.make("-n", "train", f"MEMINFO={memory}")
        line = next(l for l in run.stdout.splitlines() if l.startswith("cmake --build"))
        return int(line.split(" -j ")[1])

    def test_compilers_at_once_follow_free_memory(self):
        self.assertEqual(self.jobs(100 << 10), 1)
        self.assertEqual(self.jobs(600 << 10), 1)
        self.assertEqual(self.jobs(64 << 20), len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    unittest.main()
