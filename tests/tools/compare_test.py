#!/usr/bin/env python3
"""tools/bench/compare.py, without a peer's library: the compared networks have the parameters of ours,
and the programs' output becomes the correct page, or the reason why there is none.

    compare_test.py TRAINER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRAINER = pathlib.Path(sys.argv[1]).resolve()
BENCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))
import compare  # noqa: E402
import networks  # noqa: E402

# Prints the output of ours (`trainer bench`) or of a Python with a peer.
PROGRAM = r'''#!/usr/bin/env python3
import json, os, pathlib, sys
if sys.argv[1] in ("--version", "-c"):
    sys.exit(print("trainer of Tessera 1.2.3"))
said = {"parameters": 61706, "losses": [2.5, 2.25], "images_per_second": 100.0}
if sys.argv[1] == "bench":
    config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text()
    assert "lenet5" in config and "threads=3" in sys.argv
else:
    variant = sys.argv[sys.argv.index("--variant") + 1]
    if variant == "compile":
        sys.exit("no compiler")
    said |= {"version": "Peer 4.5", "images_per_second": 50.0 if variant == "function" else 40.0,
             "losses": [2.5001, 2.2]}
    if variant == "bf16_channels_last":
        said |= {"images_per_second": 45.0 if "MALLOC_TOP_PAD_" in os.environ else 41.0, "losses": [2.53, 2.2]}
    if variant == "xla":
        said |= {"images_per_second": 1000.0, "losses": [2.6, 2.2]}
    if variant == "channels_last":
        said |= {"images_per_second": 1000.0, "parameters": 61707}
print(json.dumps(said))
'''


class Networks(unittest.TestCase):
    def test_every_case_has_the_parameters_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, case in compare.CASES.items():
                path = pathlib.Path(folder) / "c.yaml"
                path.write_text(case.config(), encoding="utf-8")
                bench = json.loads(subprocess.run(
                    [TRAINER, "bench", "--config", path, "--steps", "1", "--json", "data.batch=2"],
                    capture_output=True, check=True).stdout)
                self.assertEqual(bench["parameters"], networks.parameters_of(case.model), name)

    def test_every_network_is_compared(self):
        self.assertEqual({case.model for case in compare.CASES.values()}, set(networks.NETWORKS))


class Page(unittest.TestCase):
    def compare(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            done = subprocess.run(
                [sys.executable, BENCH / "compare.py", "--trainer", program, "--python", program,
                 "--tf-python", program, "--threads", "3", "--rounds", "2", "--case", "lenet5",
                 "--json", program.with_name("found.json"), *words],
                capture_output=True, text=True, check=False)
            found = json.loads(program.with_name("found.json").read_text())
        return done.returncode, done.stdout.splitlines(), found["cases"]["lenet5"]

    def test_the_fastest_of_those_that_train_the_same_is_the_peer(self):
        code, lines, found = self.compare("--peers", "torch,tensorflow")
        self.assertEqual(code, 0, lines)
        self.assertEqual(found["peer"], "tensorflow/function")
        self.assertEqual(found["ratio"], {"median": 2.0, "low": 2.0, "high": 2.0})
        self.assertEqual(len(found["rounds"]), 2)
        self.assertGreater(found["process_bytes"]["ours"], 1 << 20)
        page = "\n".join(lines)
        self.assertIn("| LeNet-5 | 64 | 2.00 (2.00 - 2.00) | tensorflow, function | 100.0 | 50.0 |", page)
        self.assertIn("| LeNet-5 | 64 | 61,706 | 2.5000, 2.2500 / 2.5001, 2.2000 | 2.2e-02 |", page)
        self.assertIn("| LeNet-5 | 64 | 50.0 | 45.0 |", lines)  # bf16, with the variables of malloc
        self.assertIn("tensorflow/xla: the first losses are 2.5 and 2.6", page)
        self.assertIn("torch/channels_last: ours has 61706 parameters, the peer 61707", page)
        self.assertRegex(page, r"torch/compile: .* no compiler")

    def test_without_a_peer_there_is_no_ratio(self):
        code, lines, found = self.compare("--peers", "tensorflow", "--variants", "xla")
        self.assertEqual(code, 1)
        self.assertNotIn("ratio", found)
        self.assertNotIn("| LeNet-5 | 64 | 2.00", "\n".join(lines))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
