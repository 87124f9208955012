#!/usr/bin/env python3
"""trainer doctor without a configuration, trainer devices, and the device line of every start.

    machine_test.py TRAINER WITH_CUDA
"""

import json
import os
import re
import resource
import sys
import unittest
from pathlib import Path

from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
WITH_CUDA = sys.argv[2] not in ("0", "OFF")
MISUSE, NO_DEVICE = 2, 4  # runtime/error.h
SMALL = """model: {name: lenet5}
data: {name: synthetic, train_count: 64, test_count: 64, batch: 16, workers: 0}
train: {steps: 2}
threads: 1
run: {dir: run}
"""


class Machine(ProgramTest):
    program = TRAINER

    def setUp(self):
        super().setUp()
        (self.folder / "c.yaml").write_text(SMALL, encoding="utf-8")

    def run_it(self, *words, code=0, before=None, **environment):
        done = self.run_program(*words, code=code, env=os.environ | environment, preexec_fn=before)
        return done.stdout, done.stderr


class Doctor(Machine):
    def test_the_machine(self):
        out, err = self.run_it("doctor")
        self.assertEqual(err, "")
        lines = out.splitlines()
        whats = [line[9:20].strip() for line in lines if line.startswith(("ok ", "warning ", "problem "))]
        wanted = ["program", "libraries", "processor", "threads", "speed", "memory", "GPU"]
        if WITH_CUDA:
            wanted += ["CUDA", "cuBLASLt", "cuDNN", "cuDNN parts", "run path"]
        self.assertEqual(whats, wanted + ["smoke test"])
        self.assertRegex(out, r"smoke test  matrix product [\d.]+ ms, convolution [\d.]+ ms, convolution gradients "
                              r"[\d.]+ ms, copy of 32 MiB [\d.]+ ms\n")
        self.assertRegex(out, r"memory +[\d.]+ \w+ of [\d.]+ \w+ free; swap ")
        self.assertRegex(out, r"verdict  (good: )?this computer can train on the CPU")
        self.assertEqual(list(self.folder.iterdir()), [self.folder / "c.yaml"])

    def test_for_machines(self):
        report = json.loads(self.run_it("doctor", "--json")[0])
        self.assertEqual(report["exit_code"], 0)
        self.assertTrue(all(found["state"] in ("ok", "warning") for found in report["findings"]))
        figures = report["figures"]
        for library in figures["libraries"]:
            self.assertEqual(library["built"], library["running"], library)
        self.assertEqual({library["name"] for library in figures["libraries"]}, {"zlib", "libpng", "HDF5"})
        for smoke in figures["smoke_test"]:
            self.assertGreater(smoke["milliseconds"], 0)
            self.assertLess(smoke["error"], 1e-4)
        memory = figures["memory"]
        self.assertLessEqual(memory["free"], memory["total"])
        self.assertGreater(memory["libraries"], 1 << 20)
        self.assertGreaterEqual(figures["speed"]["bf16_gflops"], figures["speed"]["gflops"])
        self.assertEqual(figures["threads"]["cores"], len(os.sched_getaffinity(0)))
        self.assertEqual("cuda" in figures, WITH_CUDA)

    def test_a_configuration_as_json(self):
        report = json.loads(self.run_it("doctor", "--config", "c.yaml", "--json")[0])
        self.assertEqual([found["what"] for found in report["findings"]],
                         ["device", "memory", "model", "data", "run folder", "checkpoint"])
        report = json.loads(self.run_it("doctor", "--config", "c.yaml", "--json", "device=gpu:9", code=NO_DEVICE)[0])
        self.assertEqual(report["exit_code"], NO_DEVICE)
        self.assertEqual(report["findings"][0]["state"], "problem")

    def test_instruction_sets_are_told(self):
        for isa in ("baseline", "avx2"):
            processor = json.loads(self.run_it("doctor", "--json", TESSERA_MAX_ISA=isa)[0])["figures"]["processor"]
            self.assertEqual(processor["instruction_set"], isa if isa in processor["features"] else "baseline")

    def test_key_value_needs_a_configuration(self):
        _, err = self.run_it("doctor", "threads=2", code=MISUSE)
        self.assertIn("add --config FILE", err)

    def doctor_with(self, megabytes, code=0):
        """Returns what doctor reports where about so much memory is free, whatever its libraries take."""
        def limit_to(most):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))
        most = 900 << 20
        memory = json.loads(self.run_it("doctor", "--json", before=limit_to(most))[0])["figures"]["memory"]
        most += (megabytes << 20) - memory["free"]
        report = json.loads(self.run_it("doctor", "--json", before=limit_to(most), code=code)[0])
        return {one["what"]: one for one in report["findings"]}, report

    def test_little_memory_is_told_not_used_up(self):
        found, report = self.doctor_with(160)
        self.assertIn("not measured", found["speed"]["text"])
        self.assertEqual(found["memory"]["state"], "warning")
        self.assertNotIn("speed", report["figures"])

    def test_a_check_that_runs_out_of_memory_is_a_problem(self):
        found, _ = self.doctor_with(40, code=NO_DEVICE)
        self.assertEqual(found["smoke test"]["state"], "problem")
        self.assertIn("too little memory is free", found["smoke test"]["text"])

    def test_free_memory_is_never_said_to_be_more_than_there_is(self):
        most = 900 << 20

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        memory = json.loads(self.run_it("doctor", "--json", before=limit)[0])["figures"]["memory"]
        self.assertLess(memory["free"], most)
        self.assertGreater(memory["free"], 0)
        out, _ = self.run_it("doctor", "--config", "c.yaml", before=limit)
        said = re.search(r"memory +[\d.]+ \w+ of ([\d.]+) MiB free on this computer", out)
        self.assertLess(float(said[1]), most / (1 << 20))

    @unittest.skipUnless(WITH_CUDA, "a build without CUDA")
    def test_the_libraries_of_cuda(self):
        figures = json.loads(self.run_it("doctor", "--json")[0])["figures"]
        self.assertTrue(figures["cuda"]["run_path"])
        for name in ("cublaslt", "cudnn"):
            library = figures[name]
            self.assertEqual(library["running"], library["built"], library)
            self.assertFalse(library["is_foreign"])
            self.assertIn(str(Path(library["file"]).resolve()),
                          [str(Path(copy).resolve()) for copy in library["copies"]])

    @unittest.skipUnless(WITH_CUDA, "a build without CUDA")
    def test_a_foreign_library_is_told(self):
        for what, figure in (("cuBLASLt", "cublaslt"), ("cuDNN", "cudnn")):
            with self.subTest(what):
                self.check_foreign(what, figure)

    def check_foreign(self, what, figure):
        library = json.loads(self.run_it("doctor", "--json")[0])["figures"][figure]
        name = Path(library["file"]).name
        # Another library with this name is found first.
        other = next(copy for copy in ("/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib/libz.so.1")
                     if Path(copy).exists())
        (self.folder / name).symlink_to(other)
        report = json.loads(self.run_it("doctor", "--json", LD_LIBRARY_PATH=str(self.folder))[0])
        found = next(found for found in report["findings"] if found["what"] == what)
        self.assertEqual(found["state"], "warning")
        self.assertIn("so it is not the library that Tessera was built with", found["text"])
        self.assertIn("remove its folder from LD_LIBRARY_PATH", report["remedy"])
        self.assertEqual(report["figures"][figure]["running"], "")
        self.assertEqual(len(report["figures"][figure]["copies"]), len(library["copies"]) + 1)
        # The same file in another folder is another copy, which works.
        (self.folder / name).unlink()
        (self.folder / name).symlink_to(Path(library["file"]).resolve())
        report = json.loads(self.run_it("doctor", "--json", LD_LIBRARY_PATH=str(self.folder))[0])
        self.assertEqual(report["figures"][figure]["running"], library["running"])
        (self.folder / name).unlink()


class Devices(Machine):
    def test_the_list(self):
        out, _ = self.run_it("devices")
        self.assertRegex(out, r"(?m)^cpu:0  .+  [\d.]+ \wiB  [\d.]+ \wiB free$")
        self.assertRegex(out, r"\nlogical devices\ncpu:0  +[\d.]+ \wiB\n")
        devices = json.loads(self.run_it("devices", "--json")[0])
        cpu = devices["devices"][0]
        self.assertEqual(cpu["name"], "cpu:0")
        self.assertLessEqual(cpu["free_bytes"], cpu["total_bytes"])
        self.assertEqual([one["name"] for one in devices["logical"]], [one["name"] for one in devices["devices"]])
        if len(devices["devices"]) == 1:
            self.assertIn("no GPU: " + devices["no_gpu"], out)


class DeviceLine(Machine):
    def line_of(self, *words):
        out, _ = self.run_it(*words)
        lines = [n for n, line in enumerate(out.splitlines()) if line.startswith("device: ")]
        self.assertEqual(len(lines), 1, out)
        self.assertLess(lines[0], 3)
        return out.splitlines()[lines[0]]

    def test_every_start_names_the_device(self):
        config = ("--config", "c.yaml")
        for words in (("train", "--dry-run", *config), config, ("bench", "--steps", 2, *config),
                      ("eval", "--run", "run")):
            with self.subTest(words=words):
                self.assertRegex(self.line_of(*words), r"^device: cpu:0, .* kernels, 1 threads; set by device: cpu")
        self.assertRegex(self.line_of("bench", "--steps", 2, *config, "device=auto"),
                         r"^device: \w+:0, .*; auto chose it")

    def test_what_libraries_take_has_a_line_of_its_own(self):
        out, _ = self.run_it("--config", "c.yaml")
        self.assertRegex(out, r"(?m)^memory: programs and libraries use [\d.]+ MiB in addition$")
        self.assertRegex((self.folder / "run" / "model.txt").read_text(),
                         r"(?m)^memory: programs and libraries use [\d.]+ MiB in addition$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
