#!/usr/bin/env python3
"""The planner's command line: commands, tables, files, messages, exit codes.

    planner_cli_test.py PLANNER TRAINER
"""

import json
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

from program_case import ProgramTest

PLANNER, TRAINER = (str(Path(word).resolve()) for word in sys.argv[1:3])
LENET = Path(__file__).resolve().parents[2] / "models" / "configs" / "fashion_mnist_cnn.yaml"
USAGE, INFEASIBLE, NOT_FOUND = 2, 4, 7

TINY = "id,lower,upper,size\na,0,2,8\nb,0,5,4\nc,2,5,8\nd,4,6,1\n"
# Ordering by size gives 14 bytes, by lifetime 11, the lower bound.
HOLES = "id,lower,upper,size\n0,2,4,3\n1,5,6,6\n2,3,9,5\n3,4,5,5\n4,2,3,4\n"


class Test(ProgramTest):
    program = PLANNER

    def setUp(self):
        super().setUp()
        self.write("tiny.csv", TINY)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")


class LostOutput(Test):
    def test_is_an_error(self):
        self.succeed("solve", "tiny.csv", "-o", "plan.csv")
        for words in (["solve", "tiny.csv"], ["check", "plan.csv"],
                      ["compare", "tiny.csv"], ["list"], ["draw", "tiny.csv"],
                      ["why", "plan.csv", "a"], ["random"], ["bench", "tiny.csv", "--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([PLANNER, *words], cwd=self.folder, stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.stderr, "planner: cannot write to standard output: "
                                          "No space left on device\n", words)
            self.assertEqual(done.returncode, 1, words)
        self.fail_with(USAGE, ["/dev/full: cannot be written: No space left on device"], "solve",
                       "tiny.csv", "-o", "/dev/full")


class Usage(Test):
    def test_help_of_every_verb(self):
        verbs = "solve check compare bench list draw why random export recompute".split()
        text = self.succeed("--help")
        for verb in verbs:
            self.assertIn(verb, text)
            self.assertIn("Usage: planner " + verb, self.succeed(verb, "--help"))

    def test_mistakes(self):
        self.fail_with(USAGE, ["subcommand is required"])
        self.fail_with(USAGE, ["unknown command 'slove'", "the commands are solve check"], "slove", "tiny.csv")
        for bytes in ("-5", "9223372036854775808", "18446744073709551616", "1.3", "8QiB", "x", "8EiB"):
            self.fail_with(USAGE, ["is not a number of bytes; write 4096", bytes], "solve", "tiny.csv",
                           "--capacity", bytes)
        for bytes, meant in (("1.5GB", "1.5GiB"), ("1k", "1KiB"), ("2 GiB", "2GiB"), ("3mib", "3MiB")):
            self.fail_with(USAGE, [f"'{bytes}' is not a number of bytes; write '{meant}'"], "solve",
                           "tiny.csv", "--capacity", bytes)
        for seconds in ("nan", "-1", "1e400", "60m"):
            self.fail_with(USAGE, ["is not a number of seconds", seconds], "solve", "tiny.csv",
                           "--timeout", seconds)
        self.fail_with(USAGE, ["from 1 to 64GiB"], "random", "--max-size", "0")
        self.fail_with(USAGE, ["must end in .svg"], "bench", "tiny.csv", "-o", "plot.png")
        self.fail_with(USAGE, ["file is required"], "solve")
        self.fail_with(USAGE, ["unknown planner 'bets'", "first_fit_area", "tflite"],
                       "solve", "tiny.csv", "--planner", "bets")
        self.fail_with(USAGE, ["none.csv", "cannot be read"], "check", "none.csv")
        self.write("bad.csv", TINY + "e,0,x3,4\n")
        for verb in ("solve", "check", "compare", "bench", "draw"):
            self.fail_with(USAGE, ["bad.csv:6:5: must be an integer, but is 'x3'"],
                           verb, "bad.csv")

    def test_list(self):
        lines = self.succeed("list").splitlines()
        names = [line.split()[0] for line in lines]
        for name in ("none", "first_fit_area", "first_fit_lifetime", "xla", "tflite",
                     "local_search", "optimal", "best"):
            self.assertIn(name, names)
        self.assertTrue(all(len(line.split()) > 4 for line in lines))


# a is read first and last in any case; evicting b costs 7 of 25.
AGAIN = """value a 10
value b 20
value c 30
value d 5
value r 1 result
step A 5 makes=a
step B 7 reads=a makes=b cheap
step C 3 makes=c
step D 4 reads=c makes=d
step E 6 reads=d,b,a makes=r
"""


class Recompute(Test):
    def setUp(self):
        super().setUp()
        self.write("again.txt", AGAIN)

    def test_table(self):
        said = self.succeed("recompute", "again.txt", "--budget", 45, "-o", "runs.txt")
        self.assertIn("again.txt: 5 steps, 5 values, peak 65 without recomputation, at least 36, "
                      "budget 45", said)
        self.assertRegex(said, r"best +45 +28.00 % +1 +[0-9.]+  optimal")
        self.assertEqual(self.read("runs.txt"), "A\nB\nC\nD\nB recomputed\nE\n")
        self.assertEqual(self.succeed("recompute", "again.txt", "--budget", 45, "-o", "-"),
                         self.read("runs.txt"))
        self.write("limited.txt", "budget 45\n" + AGAIN)
        self.assertIn("budget 45", self.succeed("recompute", "limited.txt"))
        self.assertRegex(self.succeed("recompute", "limited.txt", "--budget", "64B"), "budget 64")

    def test_compare(self):
        said = self.succeed("recompute", "again.txt", "--budget", 45, "--compare")
        self.assertRegex(said, r"none +65 +0.00 % +0 +[0-9.]+  none found, at least 36")
        for name in ("cheap", "greedy", "best", "exact"):
            self.assertRegex(said, name + r" +[0-9]+ +28.00 % +1 ")

    def test_curve(self):
        lines = self.succeed("recompute", "again.txt", "--curve", 3).splitlines()
        self.assertEqual(lines[1].split(), ["budget", "best", "bound"])
        self.assertEqual(lines[4].split(), ["65", "0.00", "%", "0.00", "%"])

    def test_refused(self):
        self.fail_with(INFEASIBLE, ["no sequence runs within 35 bytes; the lowest known peak is 36",
                                    "  b: 20 bytes"], "recompute", "again.txt", "--budget", 35)
        self.succeed("recompute", "again.txt", "--budget", 36)
        self.fail_with(NOT_FOUND, ["no sequence was found that runs within 45 bytes; the lowest known "
                                   "peak is 65"],
                       "recompute", "again.txt", "--budget", 45, "--strategy", "none")

    def test_mistakes(self):
        self.fail_with(USAGE, ["unknown strategy 'bets'", "none, cheap, segments"], "recompute",
                       "again.txt", "--strategy", "bets")
        self.fail_with(USAGE, ["excludes"], "recompute", "again.txt", "--strategy", "none",
                       "--compare")
        self.write("cycle.txt", "value a 1\nvalue b 1\nstep A 1 reads=b makes=a\n"
                                "step B 1 reads=a makes=b\n")
        self.fail_with(USAGE, ["cycle.txt:3:1: step 'A': it reads value 'b' before step 'B' makes it"],
                       "recompute", "cycle.txt")
        self.fail_with(USAGE, ["none.txt: cannot be read"], "recompute", "none.txt")
        self.fail_with(USAGE, ["is not a number of bytes"], "recompute", "again.txt", "--budget", "4GB")
        self.fail_with(USAGE, ["cannot be loaded"], "recompute", "again.txt", "--strategy-lib",
                       "none.so")

    def test_random(self):
        self.succeed("random", "--training", 2, "-o", "random.txt")
        self.assertIn("optimal", self.succeed("recompute", "random.txt"))


class Solve(Test):
    def test_placed(self):
        said = self.succeed("solve", "tiny.csv", "-o", "plan.csv")
        self.assertIn("bytes 13  lower bound 13  ratio 1.0000", said)
        self.assertIn("(proved lowest)", said)
        self.assertTrue(self.read("plan.csv").startswith("id,lower,upper,size,offset\na,0,2,8,"))
        self.assertEqual(self.succeed("check", "plan.csv", "--capacity", 13).split()[1], "13")
        self.assertIn("unplanned 21  buffers 4", said)
        done = self.run_program("solve", "tiny.csv", "--output", "-")
        self.assertEqual(done.stdout, self.read("plan.csv"))

    def test_wrong_plans(self):
        self.write("wrong.csv", TINY.replace("size", "size,offset").replace("\na,0,2,8", "\na,0,2,8,3")
                   .replace("b,0,5,4", "b,0,5,4,0").replace("c,2,5,8", "c,2,5,8,4")
                   .replace("d,4,6,1", "d,4,6,1,12"))
        self.fail_with(USAGE, ["share the bytes [3, 4)"], "check", "wrong.csv")
        self.fail_with(USAGE, ["has no offset"], "check", "tiny.csv")

    def test_infeasible_and_not_found_leave_no_file(self):
        self.fail_with(INFEASIBLE, ["no plan fits 12 bytes", "b: live in [0, 5), 4 bytes"],
                       "solve", "tiny.csv", "--capacity", 12, "-o", "plan.csv")
        self.write("clash.csv", "id,lower,upper,size,offset\na,0,4,8,0\nb,2,6,8,4\nc,0,1,1,\n")
        self.fail_with(INFEASIBLE, ["fixed buffers overlap"], "solve", "clash.csv", "-o", "plan.csv")
        self.fail_with(INFEASIBLE, ["fixed buffers overlap"], "draw", "clash.csv", "-o", "plan.svg")
        self.write("holes.csv", HOLES)
        self.fail_with(NOT_FOUND, ["first_fit found no plan within 11 bytes"], "solve", "holes.csv",
                       "--capacity", 11, "--planner", "first_fit", "-o", "plan.csv")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["clash.csv", "holes.csv", "tiny.csv"])

    def test_the_limit_of_a_user(self):
        done = self.run_program("solve", "tiny.csv", "--max-bytes", 12, "-o", "plan.csv")
        self.assertEqual(done.returncode, INFEASIBLE)
        self.assertIn("--max-bytes is 12", done.stderr)
        self.assertFalse((self.folder / "plan.csv").exists())

    def test_units(self):
        for capacity in ("13", "13B", "0.5KiB", "1KiB", "2GiB"):
            self.succeed("solve", "tiny.csv", "--capacity", capacity, "--timeout", "60s")

    def test_what_is_not_proved_says_how_far_it_may_be(self):
        said = self.succeed("solve", "tiny.csv", "--planner", "none")
        self.assertIn("(within 61.54 %)", said)  # 21 of 13 bytes


class Look(Test):
    def test_draw(self):
        self.assertIn("13 bytes, lower bound 13", self.succeed("draw", "tiny.csv"))
        self.assertEqual(len(self.succeed("draw", "tiny.csv", "--rows", 5).splitlines()), 7)
        self.succeed("draw", "tiny.csv", "-o", "plan.txt", "--rows", 5)
        self.assertEqual(self.read("plan.txt"), self.succeed("draw", "tiny.csv", "--rows", 5))
        self.succeed("draw", "tiny.csv", "-o", "plan.svg")
        titles = ElementTree.parse(self.folder / "plan.svg").findall(".//{*}title")
        self.assertEqual(len(titles), 4)
        self.succeed("draw", "tiny.csv", "-o", "plan.html")
        page = self.read("plan.html")
        self.assertIn("tiny.csv", page)
        self.assertNotRegex(page, r"(src|href)=.https?:")  # one file, nothing from elsewhere
        self.fail_with(USAGE, [".svg, .html or .txt"], "draw", "tiny.csv", "-o", "plan.png")

    def test_a_plan_is_drawn_as_it_stands(self):
        self.write("plan.csv", "id,lower,upper,size,offset\na,0,2,1,3\n")
        self.assertIn("4 bytes, lower bound 1", self.succeed("draw", "plan.csv"))

    def test_why(self):
        self.write("plan.csv", "id,lower,upper,size,offset\n"
                   "a,0,2,8,4\nb,0,5,4,0\nc,2,5,8,5\nd,4,6,1,14\n")
        said = self.succeed("why", "plan.csv", "c")
        for line in ("c: 8 bytes at [5, 13)", "live        in [2, 5)", "at time 4", "includes this buffer",
                     "live then   b (4), d (1)", "1 free bytes, then b (4)",
                     "best needs 12 bytes instead of 15"):
            self.assertIn(line, said)
        self.assertEqual(self.succeed("why", "plan.csv", "#2"), said)
        self.assertIn("13 bytes are live at another time", self.succeed("why", "tiny.csv", "a"))
        self.fail_with(USAGE, ["no buffer 'z' among its"], "why", "plan.csv", "z")
        self.write("twins.csv", "id,lower,upper,size\nx,0,1,1\nx,0,1,1\ny,1,1,1\n")
        self.fail_with(USAGE, ["several buffers are named 'x'; write one of #0, #1"], "why", "twins.csv", "x")
        self.fail_with(USAGE, ["needs no memory"], "why", "twins.csv", "y")


class Compare(Test):
    def test_compare(self):
        said = self.succeed("compare", "tiny.csv")
        self.assertRegex(said, r"(?m)^best +13 +1.0000 +[0-9.]+  lowest$")
        self.assertRegex(said, r"(?m)^none +21 +1.6154 ")

    def bench_folder(self):
        (self.folder / "corpus" / "deep").mkdir(parents=True)
        self.write("corpus/tiny.csv", TINY)
        self.write("corpus/deep/holes.csv", HOLES)

    def test_bench(self):
        self.bench_folder()
        said = self.succeed("bench", "corpus", "-o", "plot.svg")
        self.assertRegex(said, r"(?m)^ +1  holes +5 +11\n +2  tiny +4 ")
        self.assertRegex(said, r"(?m)^first_fit +1\.2727 +[0-9.]+ +1\.\d{4} ")
        self.assertRegex(said, r"(?m)^best +1\.0000 +[0-9.]+ +2 of 2$")
        plot = ElementTree.parse(self.folder / "plot.svg")
        planners = len(self.succeed("list").splitlines())
        self.assertEqual(len(plot.findall(".//{*}polyline")), 2 * planners)
        self.assertEqual(len(plot.findall(".//{*}circle")), 4 * planners)

    def test_bench_as_json(self):
        self.bench_folder()
        told = json.loads(self.succeed("bench", "--json", "corpus"))
        self.assertEqual([p["name"] for p in told["problems"]], ["holes", "tiny"])
        best = next(p for p in told["planners"] if p["name"] == "best")
        self.assertEqual([r["bytes"] for r in best["results"]], [11, 13])
        self.assertEqual([r["status"] for r in best["results"]], ["optimal"] * 2)
        none = next(p for p in told["planners"] if p["name"] == "none")
        product = none["results"][0]["ratio"] * none["results"][1]["ratio"]
        self.assertAlmostEqual(none["mean_ratio"], product ** 0.5, places=5)

    def test_ablation(self):
        self.succeed("random", "--buffers", 40, "--times", 30, "--max-size", 100, "-o", "r.csv")
        said = self.succeed("bench", "--ablation", "r.csv", "tiny.csv", "--nodes", 20000)
        rows = re.findall(r"(?m)^(\S+) +\d+ +\d+ +[0-9.]+ +[0-9.]+ +\d of 2$", said)
        self.assertEqual(rows[0], "(nothing)")
        self.assertGreaterEqual(len(rows), 5)
        self.assertEqual(len(set(rows)), len(rows))

    def test_mistakes(self):
        (self.folder / "empty").mkdir()
        self.fail_with(USAGE, ["empty: the folder has no .csv files"], "bench", "empty")


class Make(Test):
    def rows(self, *words):
        lines = self.succeed("random", *words).splitlines()
        names = lines[0].split(",")
        return [dict(zip(names, line.split(","))) for line in lines[1:]]

    def test_random(self):
        self.assertEqual(self.rows("--seed", 3), self.rows("--seed", 3))
        self.assertNotEqual(self.rows("--seed", 3), self.rows("--seed", 4))
        rows = self.rows("--buffers", 2000, "--max-size", "1KiB", "--times", 50, "--aligned", 0.5,
                         "--max-alignment", 16, "--fixed", 0.1, "--gaps", 0.3, "--hints", 1)
        self.assertEqual(len(rows), 2000)
        self.assertLessEqual(max(int(row["size"]) for row in rows), 1024)
        self.assertLess(max(int(row["lower"]) for row in rows), 50)
        self.assertEqual({int(row["alignment"]) for row in rows}, {1, 2, 4, 8, 16})

        def share(chosen):
            return sum(map(chosen, rows)) / len(rows)
        self.assertAlmostEqual(share(lambda row: int(row["offset"]) >= 0), 0.1, delta=0.03)
        self.assertAlmostEqual(share(lambda row: int(row["alignment"]) > 1), 0.4, delta=0.05)
        self.assertEqual(share(lambda row: int(row["hint"]) >= 0), 1)
        self.succeed("random", "--fixed", 0.3, "--aligned", 1, "--gaps", 0.5, "-o", "r.csv")
        self.succeed("solve", "r.csv", "-o", "p.csv")
        self.succeed("check", "p.csv")
        self.fail_with(USAGE, ["--gaps"], "random", "--gaps", 2)
        self.fail_with(USAGE, ["--buffers"], "random", "--buffers", 0)

    def test_export(self):
        overrides = ("data.batch=8", "memory.planner=best")
        self.succeed("export", "--config", LENET, *overrides, "-o", "lenet.csv")
        ids = [line.split(",")[0] for line in self.read("lenet.csv").splitlines()[1:]]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertTrue(any("conv2d" in name for name in ids), ids[:9])
        said = self.succeed("solve", "lenet.csv")
        plan = json.loads(subprocess.run(
            [TRAINER, "plan", "--json", "--config", LENET, *overrides], cwd=self.folder,
            capture_output=True, text=True, check=True).stdout)
        for figure in (f"bytes {plan['arena_bytes']}", f"lower bound {plan['lower_bound_bytes']}",
                       f"unplanned {plan['unplanned_bytes']}"):
            self.assertIn(figure + "  ", said)
        self.fail_with(USAGE, ["nowhere.yaml"], "export", "--config", "nowhere.yaml", "-o", "x.csv")
        self.assertFalse((self.folder / "x.csv").exists())
        # Without a file the problem is printed, by the planner and by the trainer.
        text = self.read("lenet.csv")
        self.assertEqual(self.succeed("export", "--config", LENET, *overrides), text)
        self.assertEqual(subprocess.run(
            [TRAINER, "plan", "--csv", "-", "--config", LENET, *overrides], cwd=self.folder,
            capture_output=True, text=True, check=True).stdout, text)

    def test_no_cuda_library_is_loaded(self):
        self.assertNotIn(b"libcublas", Path(PLANNER).read_bytes())

    def test_export_needs_the_trainer_beside_it(self):
        alone = shutil.copy(PLANNER, self.folder)
        done = subprocess.run([alone, "export", "--config", LENET], cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, USAGE)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"cannot run {self.folder / 'trainer'}: No such file", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
