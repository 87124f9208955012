#!/usr/bin/env python3
"""trainer plan and its options: each does its work or is refused by name.

    plan_cli_test.py TRAINER PLANNER
"""

import json
import re
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

TRAINER, PLANNER = (str(Path(word).resolve()) for word in sys.argv[1:3])
MISUSE, NO_MEMORY = 2, 4  # runtime/error.h
SMALL = """model: {name: lenet5}
data: {name: synthetic, train_count: 512, test_count: 128, batch: 64, workers: 1}
threads: 1
train: {steps: 6}
"""


class Test(ProgramTest):
    program = TRAINER

    def setUp(self):
        super().setUp()
        (self.folder / "s.yaml").write_text(SMALL, encoding="utf-8")

    def run_it(self, *words, code=0, program=TRAINER):
        done = self.run_program(*words, code=code, program=program)
        return done.stdout, done.stderr

    def plan(self, *words, code=0):
        return self.run_it("plan", "--config", "s.yaml", *words, code=code)

    def refused(self, words, *texts):
        out, err = self.run_it(*words, code=MISUSE)
        self.assertEqual(out, "")
        for text in texts:
            self.assertIn(text, err)


class Plan(Test):
    def test_max_bytes_gates_whatever_is_asked_for(self):
        for words in ([], ["--json"], ["--why", "conv1"], ["--csv", "x.csv"], ["--html", "x.html"],
                      ["--svg", "x.svg"], ["--draw"], ["--dump-after", "capture"]):
            with self.subTest(words=words):
                out, err = self.plan(*words, "--max-bytes", 0, code=NO_MEMORY)
                self.assertIn("of --max-bytes", err)
                if len(words) < 2 or words[0] in ("--why", "--dump-after"):
                    self.assertGreater(len(out), 100)
        self.assertTrue(all((self.folder / name).stat().st_size for name in ("x.csv", "x.html", "x.svg")))

    def test_what_can_be_had_together_is_all_done(self):
        out, _ = self.plan("--html", "a.html", "--csv", "a.csv", "--svg", "a.svg", "--why", "conv1")
        self.assertIn("kept until", out)
        for name in ("a.html", "a.csv", "a.svg"):
            self.assertGreater((self.folder / name).stat().st_size, 100)

    def test_what_cannot_is_refused(self):
        plan = ["plan", "--config", "s.yaml"]
        for words, *names in ((["--max-batch", "--limit", "1GiB", "--max-bytes", 0], "--max-bytes", "--max-batch"),
                              (["--limit", "1GiB"], "--limit", "--max-batch"),
                              (["--json", "--why", "conv1"], "--json", "--why"),
                              (["--json", "--html", "a.html"], "--json", "--html"),
                              (["--draw", "--svg", "a.svg"], "--draw", "--svg"),
                              (["--dump-after", "capture", "--csv", "a.csv"], "--dump-after", "--csv"),
                              (["--csv", "-", "--why", "conv1"], "--csv -", "--why")):
            self.refused(plan + words, *names)
        self.refused(["plan", "--diff", "a", "b", "--why", "x"], "--diff", "--why")
        self.refused(["plan", "--diff", "a", "b", "data.batch=zz"], "--diff")
        self.refused(["--config", "s.yaml", "--print-config", "--verify-plan"], "--print-config", "--verify-plan")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["s.yaml"])

    def test_memory_limit_is_heeded(self):
        out, err = self.plan("memory.limit=1MiB", code=NO_MEMORY)
        self.assertRegex(out, r"memory.limit is 1.00 MiB: exceeded by [\d.]+ MiB \([\d.]+ MiB needed\)")
        self.assertIn("of memory.limit", err)
        out, err = self.plan("memory.limit=1GiB")
        self.assertIn("memory.limit is 1.00 GiB: sufficient", out)
        out, _ = self.plan("memory.limit=1MiB", "--json", code=NO_MEMORY)
        json.loads(out)

    def test_budgets_from_the_smallest_to_none(self):
        points = json.loads(self.plan("--budgets", "--json")[0])["points"]
        out, _ = self.plan("--budgets", "--svg", "b.svg", "--html", "b.html")
        self.assertEqual(len(out.splitlines()), 22)  # a title, the points, the configuration
        self.assertEqual(len(points), 20)
        for one, next_one in zip(points, points[1:]):
            self.assertLess(one["budget_bytes"], next_one["budget_bytes"])
            self.assertGreaterEqual(one["overhead"], next_one["overhead"])
        for point in points:
            self.assertLessEqual(point["need_bytes"], point["budget_bytes"])
            self.assertLessEqual(point["min_overhead"], point["overhead"])
        self.assertEqual(points[-1]["overhead"], 0)
        self.assertTrue((self.folder / "b.svg").read_text(encoding="utf-8").startswith("<svg xmlns"))
        self.assertIn("<svg", (self.folder / "b.html").read_text(encoding="utf-8"))
        # A budget of this size gives what the point promises.
        for point in (points[0], points[7]):
            need = json.loads(self.plan("--json", f"memory.budget={point['budget_bytes']}B")[0])
            self.assertLessEqual(need["need_bytes"], point["budget_bytes"])
            self.assertLessEqual(need["budget"]["overhead"], point["overhead"] + 1e-6)

    def test_a_budget_below_what_is_reachable_names_the_one_to_write(self):
        _, err = self.plan("memory.budget=1MiB", code=NO_MEMORY)
        self.assertRegex(err, r"memory.budget: this training needs at least .*; set memory.budget=\S+")
        budget = re.search(r"set memory.budget=(\S+)", err).group(1)
        out, _ = self.plan(f"memory.budget={budget}")
        self.assertRegex(out, r"budget .* nodes recomputed, [\d.]+ % of a step by estimate")

    def test_a_larger_batch_for_a_slower_step(self):
        plain = json.loads(self.plan("--max-batch", "--limit", "6MiB", "--json", "data.batch=8")[0])
        slower = json.loads(self.plan("--max-batch", "--limit", "6MiB", "--slowdown", "20%", "--json",
                                      "data.batch=8")[0])
        self.assertGreater(slower["max_batch"], plain["max_batch"])
        self.assertLessEqual(slower["overhead"], 0.2)
        self.assertLessEqual(slower[f"bytes_at_batch_{slower['max_batch']}"], 6 << 20)
        self.refused(["plan", "--config", "s.yaml", "--max-batch", "--limit", "6MiB", "--slowdown", "0.2"],
                     "--slowdown", "write 5%")
        self.refused(["plan", "--config", "s.yaml", "--slowdown", "5%"], "--slowdown", "--max-batch")

    def test_what_could_be_computed_again_as_a_file(self):
        self.refused(["plan", "--config", "s.yaml", "--export-recompute", "r.txt", "--disable-pass", "foo"], "foo")
        self.plan("--export-recompute", "r.txt")
        out, _ = self.run_it("recompute", "r.txt", "--curve", 3, program=PLANNER)
        self.assertIn("best", out)

    def test_the_plan_is_of_the_batch_that_runs(self):
        large, whole = (self.plan(f"data.batch={batch}")[0] for batch in (1000, 512))
        self.assertIn("data.batch is cut from 1000 to the 512 training images", large)
        self.assertNotIn("is cut", whole)
        self.assertEqual(large.splitlines()[0], whole.splitlines()[0])

    def test_the_largest_batch_trains_within_the_limit(self):
        wanted, _ = self.plan("--json", "data.batch=64", "memory.limit=9999999B", "run.dir=run", code=NO_MEMORY)
        need = json.loads(wanted)["need_bytes"]
        for limit in range(need + 4, need + 20, 2):
            said = json.loads(self.plan("--max-batch", "--json", "--limit", limit, "run.dir=run")[0])
            self.assertLessEqual(said["bytes_at_batch_%d" % said["max_batch"]], limit)
            self.assertTrue(said["complete"])
            self.plan(f"memory.limit={limit}B", f"data.batch={said['max_batch']}", "run.dir=run")

    def test_the_largest_batch_within_a_budget_runs(self):
        budget = ["memory.budget=5MiB", "run.dir=run"]
        said = json.loads(self.plan("--max-batch", "--json", "--limit", "1GiB", *budget)[0])
        self.assertEqual(said, json.loads(self.plan("--max-batch", "--json", "--limit", "5MiB", *budget)[0])
                         | {"limit_bytes": 1 << 30})
        self.assertEqual(json.loads(self.plan("--max-batch", "--json", *budget)[0])["limit_bytes"], 5 << 20)
        most = said["max_batch"]
        self.assertGreater(most, 1)
        out, _ = self.run_it("train", "--config", "s.yaml", *budget, f"data.batch={most}", "train.steps=2")
        self.assertIn("one more image in data.batch would not fit within memory.budget", out)
        _, err = self.run_it("train", "--overwrite", "--config", "s.yaml", *budget, f"data.batch={most + 1}",
                             code=NO_MEMORY)
        self.assertIn("memory.budget: this training needs at least", err)
        said = self.plan("--max-batch", "memory.budget=1KiB", code=NO_MEMORY)[0]
        self.assertIn("largest batch 0", said)

    def test_a_limit_that_refuses_shows_what_would_fit(self):
        need = json.loads(self.plan("--json")[0])["need_bytes"]
        for words in (["--max-bytes", need * 7 // 10], [f"memory.limit={need * 7 // 10}B"]):
            _, err = self.plan(*words, code=NO_MEMORY)
            offers = re.findall(r"^  ((?:\S+=\S+ )+) +[\d.]+ \w+ +[-+][\d.]+ % time  (.*)$",
                                err.split("what would fit:\n")[1], re.M)
            self.assertEqual(len(offers), err.count("% time"), err)
            for key, changes in (("memory.budget", "same bits"), ("train.accumulate", "another sum"),
                                 ("data.batch", "another training")):
                self.assertTrue([1 for words, what in offers if key in words and what.startswith(changes)], err)
            for offer, _ in offers:
                self.plan(*words, *offer.split())

    def test_parameters_are_counted(self):
        out, _ = self.plan("train.freeze=[conv1]")
        counts = json.loads(self.plan("--json", "train.freeze=[conv1]")[0])["parameters"]
        self.assertGreater(min(counts.values()), 100)
        said = f"{counts['trainable']} trainable, {counts['frozen']} frozen"
        self.assertIn(said, out)
        self.assertIn(said, self.run_it("train", "--dry-run", "--config", "s.yaml", "train.freeze=[conv1]")[0])
        self.assertRegex(self.run_it("doctor", "--config", "s.yaml", "train.freeze=[conv1]")[0],
                         f"ok +model +lenet5: {sum(counts.values())} parameters, {said}")

    def test_a_network_of_the_zoo_needs_no_file(self):
        for name, count, size in (("resnet18", 11689512, 224), ("efficientnet_b1", 7794184, 240)):
            out, _ = self.run_it("plan", "--model", name, "data.batch=1", "--json")
            told = json.loads(out)
            self.assertEqual(sum(told["parameters"].values()), count)  # torchvision's
            self.assertIn(f"[1x{size}x{size}x3]", self.run_it("plan", "--model", name, "data.batch=1", "--dump-after",
                                                              "capture")[0])
        out, _ = self.run_it("bench", "--model", "lenet5", "data.batch=4", "--steps", 2)
        self.assertIn("images/s", out)
        self.refused(("plan", "--model", "resnt18"), "did you mean 'resnet18'?")
        self.refused(("plan",), "--config F, --model NAME or --diff")
        self.refused(("bench",), "--config F or --model NAME")

    def test_a_gpu_need_not_be_there(self):
        cpu, gpu = (json.loads(self.plan("--json", f"device={name}")[0]) for name in ("cpu", "gpu:3"))
        self.assertEqual((cpu["device"], cpu["alignment"]), ("cpu:0", 64))
        self.assertEqual((gpu["device"], gpu["alignment"]), ("gpu:3", 256))
        offsets = [block["offset"] for block in gpu["blocks"]]
        self.assertTrue(all(offset % 256 == 0 for offset in offsets))
        self.assertGreater(len(offsets), 20)
        self.assertNotEqual([block["spec"] for block in cpu["blocks"]], [block["spec"] for block in gpu["blocks"]])
        out, _ = self.plan("device=gpu")
        self.assertIn("planned for gpu:0 without using it: blocks at multiples of 256 bytes", out)
        out, _ = self.run_it("export", "--config", "s.yaml", "-o", "g.csv", "device=gpu", program=PLANNER)
        self.assertRegex((self.folder / "g.csv").read_text(), r"(?m),256$")

    def test_the_memory_of_a_gpu_that_is_not_there(self):
        report = json.loads(self.plan("--json", "device=gpu")[0])
        parts, there = report["gpu_parts"], report["gpu_need_bytes"]
        self.assertEqual(there, parts["persistent"] + parts["arena"] + parts["slots"])
        self.assertNotIn("arena", report["parts"])
        self.plan("device=gpu", "--device-memory", there)
        _, err = self.plan("device=gpu", "--device-memory", there - 1, code=NO_MEMORY)
        self.assertIn(f"({there} bytes) on gpu:0, 1 B more than the ", err)
        self.assertIn(" of --device-memory", err)
        _, err = self.plan("device=gpu", f"memory.gpu_limit={there - 1}B", code=NO_MEMORY)
        self.assertIn(" of memory.gpu_limit", err)
        found = json.loads(self.plan("device=gpu", "--max-batch", "--device-memory", there, "--json")[0])
        self.assertEqual(found["max_batch"], 64)
        self.assertEqual(found["bytes_at_batch_64"], there)
        found = json.loads(self.plan("device=gpu", "--max-batch", "--device-memory", there - 1, "--json")[0])
        self.assertLess(found["max_batch"], 64)
        self.assertGreater(found["max_batch"], 48)
        out, _ = self.plan("device=gpu:h100")
        self.assertRegex(out, r"memory needed [\d.]+ \w+ of 79\.")
        self.assertRegex(out, "H100|this build has no GPU back end")
        _, err = self.run_it("train", "--config", "s.yaml", "device=gpu:H100", code=NO_MEMORY)
        self.assertIn("is only a description, for trainer plan", err)
        self.refused(["plan", "--config", "s.yaml", "--device-memory", "1GiB"], "add device=gpu")
        self.refused(["plan", "--config", "s.yaml", "device=gpu", "mode=eager", "--html", "x.html"],
                     "a picture of mode: eager runs it on the device", "set device=cpu")

    def test_decoders_are_mentioned(self):
        for split in ("train", "test"):
            for name in ("a", "b"):
                at = self.folder / "pictures" / split / name
                at.mkdir(parents=True)
                (at / "0.png").write_bytes(b"only counted here")
        words = ("data.name=image_folder", "data.root=pictures", "data.image_size=32", "~data.train_count",
                 "~data.test_count")
        self.assertIn("decoders", self.plan(*words, "--max-batch", "--limit", "1GiB")[0])
        said = json.loads(self.plan(*words, "--max-batch", "--json", "--limit", "1GiB")[0])
        self.assertFalse(said["complete"])
        self.assertIn("decoders", self.plan(*words, "--max-bytes", 0, code=NO_MEMORY)[1])


class Words(Test):
    def test_wrong_words_are_named(self):
        self.refused(["--confg", "s.yaml"], "'--confg'", "did you mean '--config'")
        self.refused(["data", "foo"], "'foo'", "fetch")
        self.refused(["config", "foo"], "'foo'", "schema")
        self.refused(["--print-config", "s.yaml"], "--config is required", "did you mean '--config s.yaml'")
        self.refused(["config", "init", "--model", "foo"], "'foo' is not one of ")
        self.refused(["eval", "--run", "run", "train.steps=2"], "'train.steps=2' has no effect")

    def test_version(self):
        for program in (TRAINER, PLANNER):
            self.assertRegex(self.run_it("--version", program=program)[0], r"^\w+ of Tessera \d+\.\d+\.\d+\n$")

    def test_images_that_no_machine_holds(self):
        _, err = self.run_it("--config", "s.yaml", "data.train_count=4000000000", "run.dir=run", code=NO_MEMORY)
        self.assertIn("data.train_count", err)
        self.refused(["plan", "--config", "s.yaml", "data.train_count=9223372036854775807", "--max-bytes", "1GiB"],
                     "data.train_count: must be an integer from 0 to 4294967296")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
