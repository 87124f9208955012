#!/usr/bin/env python3
"""trainer profile and trainer bench: output, comparisons, refusals.

    profile_cli_test.py TRAINER
"""

import json
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

QUICKSTART = Path(__file__).resolve().parents[2] / "models" / "configs" / "quickstart.yaml"
TRAINER = str(Path(sys.argv[1]).resolve())
MISUSE, NO_DEVICE, BAD_CHECKPOINT = 2, 4, 5  # runtime/error.h


class Profile(ProgramTest):
    program = TRAINER

    def test_profile(self):
        words = ("profile", "--config", QUICKSTART, "--steps", 2, "--warmup", 1, "data.batch=4", "threads=2")
        profile = json.loads(self.succeed(*words, "--json", "--trace", "trace.json"))
        self.assertEqual((profile["device"], profile["threads"], profile["batch"], profile["steps"]),
                         ("cpu:0", 2, 4, 2))
        self.assertGreater(min(profile["peak_gflops"], profile["peak_copy_gbytes"]), 0)
        ops = profile["ops"]
        self.assertAlmostEqual(sum(op["share"] for op in ops), 1, delta=1e-3)
        self.assertAlmostEqual(sum(op["us"]["median"] for op in ops), profile["ops_us"],
                               delta=1e-3 * profile["ops_us"])
        self.assertEqual(sum(kind["ops"] for kind in profile["kinds"]), len(ops))
        conv = next(op for op in ops if op["op"] == "conv2d")
        self.assertIn(conv["algorithm"], ("winograd2", "winograd4", "depthwise3x3", "image_lanes", "column_lanes",
                                          "direct", "eigen"))
        self.assertEqual(conv["phase"], "forward")
        self.assertRegex(conv["shape"], r"^\[4x.*\] -> \[4x")
        self.assertLessEqual(conv["us"]["min"], conv["us"]["median"])
        self.assertLessEqual(conv["us"]["median"], conv["us"]["max"])
        trace = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        self.assertEqual(sum(e["ph"] == "X" and e["cat"] != "step" for e in trace), 2 * len(ops))
        lines = self.succeed(*words, "--ops", 3).splitlines()
        self.assertRegex(lines[0], r"^device: cpu:0, .*; set by device: cpu")
        self.assertEqual(lines[-1], f"and {len(ops) - 3} ops more; --ops 0 shows all")
        eigen = json.loads(self.succeed(*words, "--json", "cpu.kernels=eigen"))
        self.assertEqual({op["algorithm"] for op in eigen["ops"] if op["flops"] and "conv2d" in op["op"]},
                         {"eigen"})
        # Prologues are off, because a value that several ops recompute counts for each of them.
        once = ["--disable-pass", "fuse_prologues", "--disable-pass", "fuse_late_prologues"]
        together = json.loads(self.succeed(*words, "--json", *once))["ops"]
        apart = json.loads(self.succeed(*words, "--json", *once, "--disable-pass", "fuse_epilogues"))["ops"]
        self.assertGreater(len(apart), len(together))
        self.assertEqual(sum(op["flops"] for op in apart), sum(op["flops"] for op in together))

    def test_algorithms_of_ops(self):
        words = ("profile", "--config", QUICKSTART, "--algorithms", "--steps", 1, "data.batch=4")
        ops = json.loads(self.succeed(*words, "--json"))["ops"]
        self.assertIn("conv2d", {op["op"] for op in ops})
        for op in ops:
            self.assertGreaterEqual(len(op["algorithms"]), 2)
        self.assertIn("ms per MiB", self.succeed(*words))
        self.fail_with(MISUSE, ["mode: eager"], *words, "mode=eager")

    def test_what_the_machine_takes_needs_no_configuration(self):
        for other in (("--config", QUICKSTART), ("--json",), ("--algorithms",)):
            self.fail_with(MISUSE, ["excludes"], "profile", "--machine", *other)
        self.fail_with(MISUSE, ["unknown key 'threds'"], "profile", "--machine", "threds=2")

    def test_profiles_are_compared(self):
        words = ("profile", "--config", QUICKSTART, "--steps", 1, "data.batch=4", "threads=1", "--json")
        (self.folder / "a.json").write_text(self.succeed(*words))
        (self.folder / "b.json").write_text(self.succeed(*words, "data.batch=5"))
        text = self.succeed("profile", "--diff", "a.json", "b.json", "--ops", 2)
        self.assertIn("batch: 4 => 5", text)
        self.assertNotIn("only in", text)
        self.assertRegex(text, r"and \d+ more; --ops 0 shows all\n$")
        differences = [float(line.split()[3]) for line in text.splitlines()[-3:-1]]
        self.assertEqual(differences, sorted(differences, key=abs, reverse=True))

    def test_what_is_no_profile_is_refused(self):
        (self.folder / "plan.json").write_text(self.succeed("plan", "--json", "--config", QUICKSTART))
        (self.folder / "other.json").write_text('{"format": "tessera profile 0"}')
        self.fail_with(MISUSE, ["none.json", "cannot be read"], "profile", "--diff", "none.json", "plan.json")
        self.fail_with(MISUSE, ["plan.json: is not a profile"], "profile", "--diff", "plan.json", "plan.json")
        self.fail_with(MISUSE, ["other.json", "'tessera profile 0', but must be 'tessera profile 2'"],
                       "profile", "--diff", "other.json", "other.json")
        self.fail_with(MISUSE, ["--diff", "--json"], "profile", "--diff", "a", "b", "--json")
        words = ("profile", "--config", QUICKSTART, "model.widths=[4,4,8,8]", "data.batch=16", "threads=2", "--steps")
        self.fail_with(MISUSE, ["--steps"], *words, 0)
        self.fail_with(MISUSE, ["mode=graph"], *words, 1, "mode=eager")
        self.fail_with(MISUSE, ["'speedup'", "fuse_pointwise"], *words, 1, "--disable-pass", "speedup")
        self.fail_with(MISUSE, ["no/where", "cannot be written"], *words, 1, "--trace", "no/where")
        self.fail_with(NO_DEVICE, ["gpu:77", "cpu:0"], *words, 1, "device=gpu:77")


class Bench(ProgramTest):
    program = TRAINER

    def test_bench(self):
        words = ("bench", "--config", QUICKSTART, "--steps", 3, "data.batch=4", "threads=2")
        bench = json.loads(self.succeed(*words, "--json"))
        self.assertEqual(sorted(bench), sorted(
            "images_per_second step_ms_p50 step_ms_p95 step_us first_step_ms compile_ms loss losses parameters "
            "peak_bytes arena_bytes total_bytes threads kernels device processes waited".split()))
        self.assertEqual(bench.pop("device"), "cpu:0")
        self.assertEqual(bench.pop("waited"), 0)
        self.assertEqual(bench["threads"], 2)
        self.assertIn(bench.pop("kernels"), ("native", "eigen"))
        losses = bench.pop("losses")
        self.assertEqual(len(losses), 3)
        self.assertEqual(losses[-1], bench["loss"])
        self.assertGreater(min(bench.values()), 0)
        bench = json.loads(self.succeed(*words, "--json", "cpu.kernels=eigen"))
        self.assertEqual(bench["kernels"], "eigen")
        plan = json.loads(self.succeed("plan", "--json", "cpu.kernels=eigen", *words[1:3], *words[5:]))
        self.assertGreaterEqual(bench["peak_bytes"], plan["arena_bytes"])
        self.assertLessEqual(bench["peak_bytes"], plan["total_bytes"])
        lines = self.succeed(*words).splitlines()
        self.assertRegex(lines[0], r"^device: cpu:0, .*; set by device: cpu")
        self.assertIn("images/s", lines[1])

    def test_bench_repeats(self):
        words = ("bench", "--config", QUICKSTART, "--steps", 3, "--repeat", 5, "data.batch=4", "threads=2")
        bench = json.loads(self.succeed(*words, "--json"))
        steps = sorted(bench["step_ms"])
        self.assertEqual(len(steps), 5)
        self.assertEqual(steps[2], bench["step_ms_median"])
        self.assertAlmostEqual(bench["spread"], steps[-1] / steps[0] - 1, delta=1e-2)
        ranges = [op["us_max"] - op["us_min"] for op in bench["varying_ops"]]
        for one, next_one in zip(ranges, ranges[1:]):
            self.assertGreaterEqual(one, next_one - 0.01)
        for op in bench["varying_ops"]:
            self.assertLessEqual(op["us_min"], op["us_median"])
            self.assertGreaterEqual(op["us_max"] - op["us_min"], 0.099 * op["us_median"])
        self.assertEqual(bench["last"]["threads"], 2)
        out = self.succeed(*words)
        self.assertRegex(out, r"step +[\d.]+ ms +median of 5; [\d.]+ to [\d.]+ ms\nspread +[\d.]+ %")
        eager = json.loads(self.succeed(*words, "--json", "mode=eager"))
        self.assertEqual(eager["varying_ops"], [])
        self.fail_with(MISUSE, ["--repeat"], *words, "--infer")

    def test_bench_of_inference_reads_weights(self):
        self.fail_with(BAD_CHECKPOINT, ["none.safetensors"], "bench", "--infer", "--config", QUICKSTART, "--steps", 1,
                       "model.weights=none.safetensors")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
