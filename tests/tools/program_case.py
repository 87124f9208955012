"""What tests of command-line programs share: a folder of its own for each test, and the program run in it."""

import subprocess
import tempfile
import unittest
from pathlib import Path


class ProgramTest(unittest.TestCase):
    program = ""  # path, which a class of tests sets

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_program(self, *words, code=None, program=None, **how):
        """What subprocess.run() gives; with `code` it must end so."""
        done = subprocess.run([program or self.program, *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, check=False, **how)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def succeed(self, *words):
        """What it prints; it says nothing else."""
        done = self.run_program(*words, code=0)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def fail_with(self, code, texts, *words):
        """Its message has all of `texts`; it prints nothing."""
        done = self.run_program(*words, code=code)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("internal error", done.stderr)
