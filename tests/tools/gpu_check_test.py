#!/usr/bin/env python3
"""tools/gpu_check.sh, as far as possible without a GPU: the collected programs start in an empty
environment, and recorded output becomes the correct page.

    gpu_check_test.py SOURCE_DIR BUILD_DIR
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(sys.argv[1]) / "tools/gpu_check.sh"
# Libraries of the C library, which the machine itself has.
OF_THE_MACHINE = re.compile(r"/(ld-linux-x86-64|lib(c|m|mvec|dl|pthread|rt|resolv))\.so")

# Prints the output of a machine with a GPU. The name of the program decides; BAD makes something fail.
PROGRAM = r'''#!/usr/bin/env python3
import json, os, pathlib, sys
name, arguments, bad = os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get("BAD")
if name == "compute-sanitizer":
    print("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: %d errors" % (bad == "race"))
    sys.exit(9 if bad == "race" and "racecheck" in arguments else 0)
if name == "peer.py":
    variant = arguments[arguments.index("--variant") + 1]
    if variant == "compile":
        sys.exit("RuntimeError: no compiler")
    print(json.dumps({"images_per_second": {"graph": 1000.0, "eager": 500.0}[variant],
                      "step_ms_p50": 4.0, "step_ms_p95": 5.0}))
elif "--gtest_list_tests" in arguments:
    print("Running main() from a file.cc\nCuda.\n  Right\n  Elsewhere")
elif name.endswith("_tests"):
    path = next(a for a in arguments if a.startswith("--gtest_output")).split(":", 1)[1]
    tests = [{"name": "Right", "result": "COMPLETED"}, {"name": "Elsewhere", "result": "SKIPPED"}]
    if name == "gpu_tests":
        tests[0]["description"] = json.dumps({"deviceVer": 900, "deviceName": "a card"})
    if bad == "test":
        tests.append({"name": "Wrong", "result": "COMPLETED", "failures": [{}]})
    pathlib.Path(path).write_text(json.dumps({"testsuites": [{"name": "Cuda", "testsuite": tests}]}))
    sys.exit(bad == "test")
elif arguments[0] == "doctor":
    print("ok  GPU")
elif arguments[0] == "devices":
    print(json.dumps({"devices": [{"name": "cpu:0", "description": "a processor"},
                                  {"name": "gpu:0", "description": "a card"}]}))
elif arguments[0] == "train":
    folder = pathlib.Path(next(a for a in arguments if a.startswith("run.dir=")).split("=")[1])
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(os.urandom(8) if bad == "bits" else b"weights")
elif arguments[0] == "tune":
    if bad == "tune":
        sys.exit("trainer: no memory")
    pathlib.Path(os.environ["TESSERA_CACHE"], "".join(arguments[3:]).replace("/", "")).touch()
    print("forward x 1x1: engine 1 2.0 us\nmeasured 33 convolutions, 70 plans; the convolutions of a training "
          "step take 9.5 ms with cuDNN's own choice, 9.1 ms with gpu.plans=autotuned; kept in a cache")
elif arguments[0] == "bench":
    speed = 1500.0 if "gpu.cuda_graph=false" not in arguments else 1200.0
    if "gpu.plans=autotuned" in arguments:  # of the same settings, in the same cache
        arguments.remove("gpu.plans=autotuned")
        kept = "".join(arguments[6:]).replace("/", "")
        speed = 1800.0 if pathlib.Path(os.environ["TESSERA_CACHE"], kept).exists() else 1.0
    print(json.dumps({"images_per_second": speed, "step_ms_p50": 2.0, "step_ms_p95": 2.1}))
'''

failures = []


def check(what, good, text=""):
    if not good:
        failures.append(f"{what}: {text}")


def run(*command, **environment):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=environment or None)


def check_collected(folder):
    done = run(SCRIPT, "collect", sys.argv[2], folder)
    check("collect", done.returncode == 0, done.stderr)
    # Without a GPU the script reports that and runs nothing else.
    done = run(SCRIPT, "run", "--folder", folder, "--out", folder / "out", "correctness",
               PATH=os.environ["PATH"], CUDA_VISIBLE_DEVICES="")
    check("without a GPU", done.returncode == 3 and "no GPU" in done.stderr, done.stderr)
    library_path = {"LD_LIBRARY_PATH": str(folder / "lib")}
    programs = sorted((folder / "bin").iterdir())
    check("programs", len(programs) == 3, programs)
    for program in programs:
        word = "--version" if program.name == "trainer" else "--gtest_list_tests"
        done = run(program, word, **library_path)
        check(program.name, done.returncode == 0 and done.stdout, done.stderr)
        for line in run("ldd", program, **library_path).stdout.splitlines():
            found = line.partition("=>")[2]
            check(f"{program.name} needs", "not found" not in line, line)
            check(f"{program.name} takes", not found or str(folder) in found or
                  OF_THE_MACHINE.search(found), line)


def page(folder, *parts, **environment):
    out = folder / "out"
    done = run(SCRIPT, "run", "--folder", folder, "--out", out, "--peer", folder / "bin/peer.py",
               "--runs", 3, *parts, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", **environment)
    again = run(SCRIPT, "table", out)
    check("table", again.stdout == done.stdout and done.stdout == (out / "table.md").read_text(),
          done.stderr + again.stderr)
    return done.returncode, done.stdout


def check_pages(folder):
    (folder / "bin").mkdir()
    for name in ("trainer", "gpu_tests", "promise_tests", "compute-sanitizer", "peer.py"):
        (folder / "bin" / name).write_text(PROGRAM)
        (folder / "bin" / name).chmod(0o755)
    code, text = page(folder, "correctness", "sanitizer", "bench", "tune")
    check("a good run", code == 0 and "NOT" not in text, text)
    for line in ("Devices: a processor, a card.",
                 "| `gpu_tests` | 1 passed, 1 skipped, 0 failed, exit 0, 0 s |",
                 "|  | deviceName: NVIDIA H100 80GB HBM3, here a card |",
                 "| 3 of 3 runs x 100 steps of ResNet-20 | 1 different weights, exit 0 |",
                 "| racecheck | exit 0 | ERROR SUMMARY: 0 errors | 0 s |",
                 "| ResNet-50 224, TF32 | ours | 3 | 1500 | 2.00 | 2.10 | 1.050 | 1.50 |",
                 "| ResNet-50 224, TF32 | PyTorch, graph | 3 | 1000 | 4.00 | 5.00 | 1.250 |  |",
                 "| ResNet-50 224, TF32 | PyTorch, eager | 1 | 500 | 4.00 | 5.00 | 1.250 |  |",
                 "- did not run: ResNet-50 224, float32, compile: exit 1: RuntimeError: no compiler",
                 "| ResNet-50 224, TF32 | measured 33 convolutions, 70 plans; the convolutions of a training step take "
                 "9.5 ms with cuDNN's own choice, 9.1 ms with gpu.plans=autotuned | 0 s |",
                 "| ResNet-50 224, float32 | `gpu.plans=heuristic` | 3 | 1500 | 1.000 |",
                 "| ResNet-18-CIFAR, TF32 | `gpu.plans=autotuned` | 3 | 1800 | 1.200 |",
                 "| ResNet-18-CIFAR, float32 | `gpu.cuda_graph=false` | 1 | 1200 | 0.800 |"):
        check("the page", line in text.splitlines(), f"{line!r} is not in\n{text}")
    profile = (folder / "out" / "device.json").read_text()
    check("the description", '"deviceName": "a card"' in profile, profile)
    code, text = page(folder, "bench", "--tuned", "--networks", "ResNet-20")
    check("tuned", code == 0 and "| ResNet-20, TF32 | ours | 3 | 1800 |" in text, text)
    code, text = page(folder, "bench", "--tuned", "--networks", "ResNet-20", BAD="tune")
    check("not tuned", code == 1 and "trainer tune: exit 1" in text, text)
    for bad, part, word in (("test", "correctness", "failed: Cuda.Wrong"),
                            ("bits", "correctness", "3 different weights"),
                            ("race", "sanitizer", "| racecheck | exit 9 |"),
                            ("tune", "tune", "| exit 1: trainer: no memory |")):
        code, text = page(folder, part, BAD=bad)
        check(bad, code == 1 and f"**{part}**: NOT" in text and word in text, text)


for part in (check_collected, check_pages):
    with tempfile.TemporaryDirectory() as name:
        part(pathlib.Path(name))
print("\n".join(failures) or "all as expected")
sys.exit(len(failures) > 0)
