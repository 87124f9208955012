"""ProgramTest: runs a command-line program in a separate folder for each test."""

import subprocess
import tempfile
import unittest
from pathlib import Path


class ProgramTest(unittest.TestCase):
    program = ""  # path, set by a class of tests

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_program(self, *words, code=None, program=None, **how):
        """Returns the result of subprocess.run(); the exit code must be `code` if given."""
        done = subprocess.run([program or self.program, *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, check=False, **how)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def succeed(self, *words):
        """Returns stdout; the exit code must be 0 and stderr empty."""
        done = self.run_program(*words, code=0)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def fail_with(self, code, texts, *words):
        """The exit code must be `code`, stderr contain all of `texts`, and stdout be empty."""
        done = self.run_program(*words, code=code)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("internal error", done.stderr)
