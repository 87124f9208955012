"""Runs the programs that tools/gpu_check.sh prepared, on the computer with the GPU, and writes the results.

    gpu_check.py run [--out FOLDER] PART..    correctness, sanitizer, bench, tune
    gpu_check.py table FOLDER..               one Markdown page of the results in these folders

A part keeps to a budget of time: what does not fit any more is named as not run. It leaves PART.json
and PART.log in the folder, and table.md of all parts there. Exits with 1 where something failed, with
3 where there is no GPU.
"""

import argparse
import concurrent.futures
import glob
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gpu_report

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUDGET = {"correctness": 380, "sanitizer": 420, "bench": 540, "tune": 150}  # seconds: 25 minutes
CONFIG = ROOT / "models/configs/resnet50_224.yaml"
PRECISIONS = {"tf32": ["gpu.tf32=true"], "bf16": ["precision=bf16"],
              "f16": ["precision=f16"], "float32": ["gpu.tf32=false"]}
NETWORKS = {  # for bench: the trainer's settings, the peer's name for it, the batch
    "ResNet-50 224": (["data.batch=128"], "resnet50", 128),
    "ResNet-18-CIFAR": (["model.name=resnet18_cifar", "model.classes=10", "data.image_size=32",
                         "data.batch=512"], "resnet18_cifar", 512),
    "ResNet-20": (["model.name=resnet20", "model.classes=10", "data.image_size=32",
                   "data.batch=128"], "resnet20", 128)}
PROCESSES = 8  # of a test program at a time
# Our small kernels; NVIDIA checks those of cuDNN.
SANITIZED = ("CudaRows.*:CudaNorms.*:CudaPool2d.*:CudaOptimizer.*:CudaSlice.*:CudaIndexing.*:"
             "CudaElementwise.*:CudaStructural.*:CudaInputLayers.*:CudaKnown*")
# Tests that need files of the computer on which they were built.
ELSEWHERE = "-CudaConvPlans.*:OldDriver.*"


class Machine:
    """The programs' folder and the environment in which they start."""

    def __init__(self, folder, out):
        self.folder, self.out = pathlib.Path(folder).resolve(), out
        if not (self.folder / "bin").exists():
            shutil.unpack_archive(self.folder / "packed.tar.gz", self.folder)
        self.log = None
        self.end = 0.0
        libraries = [str(self.folder / "lib"), *pytorch_libraries()]
        inherited = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": ":".join(libraries + [inherited] * bool(inherited))}

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        return str(self.folder / "bin" / name)

    def run(self, *command, seconds=600, ours=True, **more):
        """Returns (exit code, output, seconds); 124 if time was up and all its processes killed."""
        seconds, start = min(seconds, self.left()), time.monotonic()
        if seconds < 2:
            return 124, "no time was left", 0.0
        environment = (self.environment if ours else os.environ) | more
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            try:
                child = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=said,
                                         stderr=subprocess.STDOUT, env=environment,
                                         start_new_session=True)
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                code = 124
            except OSError as error:
                code = 127
                said.write(str(error))
            said.seek(0)
            output = said.read()
        took = time.monotonic() - start
        self.log.write(f"$ {' '.join(map(str, command))}\n{output}\n[{code}, {took:.1f} s]\n\n")
        self.log.flush()
        return code, output, took

    def json_of(self, *command, **more):
        """Returns the JSON that a command prints; {"fault": ..} if it prints none."""
        code, output, _ = self.run(*command, **more)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            last = output.strip().splitlines()[-1:] or [""]
            return {"fault": f"exit {code}: {last[0][:200]}"}


def pytorch_libraries():
    """Returns the folders in which PyTorch's wheels have cuDNN and cuBLAS."""
    return sorted({folder for site in sys.path
                   for folder in glob.glob(os.path.join(site, "nvidia", "*", "lib"))})


def suites(machine, name, accepted):
    """Returns the names of a test program's suites."""
    _, output, _ = machine.run(machine.program(name), "--gtest_list_tests",
                               f"--gtest_filter={accepted}", seconds=30)
    return [line.split(".")[0] for line in output.splitlines()
            if line.partition("  #")[0].rstrip().endswith(".") and not line.startswith(" ")]


def suite(machine, name, accepted, seconds, **more):
    """Runs the tests of a filter in one process. Returns their counts, the names of the failed ones, and
    recorded properties."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tests.json"
        code, output, _ = machine.run(machine.program(name), f"--gtest_output=json:{path}",
                                      "--gtest_brief=1", f"--gtest_filter={accepted}",
                                      seconds=seconds, TESSERA_CACHE="off", **more)
        try:
            written = json.loads(path.read_text())
        except (OSError, ValueError):
            last = output.strip()[-200:]
            return {"code": code, "passed": 0, "skipped": 0,
                    "failed": [f"{accepted}: ended before its report, exit {code}: {last}"]}
    found = {"code": code, "passed": 0, "skipped": 0, "failed": []}
    for part in written["testsuites"]:
        for test in part["testsuite"]:
            if "failures" in test:
                found["failed"].append(f"{part['name']}.{test['name']}")
            elif test["result"] == "SKIPPED":
                found["skipped"] += 1
            else:
                found["passed"] += 1
            found |= {key: test[key] for key in ("description",) if key in test}
    return found


def tests(machine, name, left_out, seconds):
    """Runs each suite in a process of its own, several at a time: an error that a context does not
    survive ends one suite. A suite that fails runs again alone, with synchronous launches, so that the
    log names the kernel."""
    start = time.monotonic()
    names = suites(machine, name, left_out or "*")
    # A filter of gtest: accepted patterns, then excluded ones after a minus.
    filters = [f"{word}.*{left_out}" for word in names]
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        results = list(pool.map(lambda accepted: suite(
            machine, name, accepted, seconds - (time.monotonic() - start)), filters))
    for number, accepted in enumerate(filters):
        left = seconds - (time.monotonic() - start)
        if results[number]["code"] != 0 and left > 10:
            results[number] = suite(machine, name, accepted, min(left, 60), CUDA_LAUNCH_BLOCKING="1")
    found = {"name": name, "code": max((r["code"] for r in results), key=abs, default=1),
             "seconds": time.monotonic() - start,
             "passed": sum(r["passed"] for r in results),
             "skipped": sum(r["skipped"] for r in results),
             "failed": [test for r in results for test in r["failed"]]}
    return found | {key: r[key] for r in results for key in ("description",) if key in r}


def same_bits(machine, runs, steps):
    """Returns the number of different weights with which `runs` equal trainings end."""
    digests, code, start = [], 0, time.monotonic()
    for _ in range(runs):
        if machine.left() < 1.5 * (time.monotonic() - start) / max(1, len(digests)):
            break
        with tempfile.TemporaryDirectory() as folder:
            code, _, _ = machine.run(
                machine.program("trainer"), "train", "--config",
                ROOT / "models/configs/cifar10_resnet20.yaml", "data.name=synthetic",
                "data.image_size=32", "data.batch=64", f"train.steps={steps}", "device=gpu",
                f"run.dir={folder}/run", "checkpoint.keep=0")
            if code != 0:
                break
            weights = pathlib.Path(folder, "run", "weights.safetensors").read_bytes()
        digests.append(hashlib.sha256(weights).hexdigest())
    return {"runs": len(digests), "wanted": runs, "steps": steps, "different": len(set(digests)),
            "code": code}


def correctness(machine, options):
    trainer = machine.program("trainer")
    code, doctor, _ = machine.run(trainer, "doctor", seconds=60)
    found = {"doctor": {"code": code, "text": doctor.strip()},
             "devices": machine.json_of(trainer, "devices", "--json", seconds=30),
             "tests": [tests(machine, "promise_tests", "", seconds=60),
                       tests(machine, "gpu_tests", ELSEWHERE, seconds=240)]}
    description = found["tests"][1].pop("description", None)
    if description:
        profile = {"profile": "NAME", "origin": "read off a card by cuDNN",
                   "description": json.loads(description)}
        (machine.out / "device.json").write_text(json.dumps(profile, indent=2) + "\n")
        found["description"] = profile["description"]
        found["nearest"] = nearest_profile(profile["description"])
    found["same_bits"] = same_bits(machine, options.runs, options.steps)
    return found


def nearest_profile(description):
    """Returns the committed profile of the same architecture, and its differences."""
    for path in sorted((ROOT / "runtime/cuda/profiles").glob("*.json")):
        known = json.loads(path.read_text())["description"]
        if known.get("deviceVer") == description.get("deviceVer"):
            keys = sorted(known.keys() | description.keys())
            return {"name": path.stem, "differs": {
                key: [known.get(key), description.get(key)] for key in keys
                if known.get(key) != description.get(key)}}
    return None


def sanitizer(machine, options):
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    found = []
    tools = ("memcheck", "racecheck", "synccheck", "initcheck")
    for number, tool in enumerate(tools):
        seconds = machine.left() / (len(tools) - number)
        code, output, took = machine.run(
            program, "--tool", tool, "--error-exitcode", "9",
            machine.program("gpu_tests"), f"--gtest_filter={options.sanitized}",
            "--gtest_brief=1", seconds=seconds, TESSERA_CACHE="off")
        said = [line.strip("= ") for line in output.splitlines() if "SUMMARY" in line]
        found.append({"tool": tool, "code": code, "seconds": took,
                      "summary": said[-1] if said else output.strip()[-200:]})
    return {"tools": found}


def settings_of(network, precision):
    return ["device=gpu", *PRECISIONS[precision], *NETWORKS[network][0]]


def bench_ours(machine, network, precision, steps, *settings, **environment):
    return machine.json_of(machine.program("trainer"), "bench", "--config", CONFIG, "--json",
                           "--steps", steps, *settings_of(network, precision), *settings, **environment)


def bench_peer(machine, network, precision, options, variant):
    _, name, batch = NETWORKS[network]
    return machine.json_of(sys.executable, options.peer, "--model", name, "--batch", batch,
                           "--variant", variant, "--steps", options.bench_steps, "--json",
                           "--precision", precision, ours=False)


def pairs(options):
    return list(itertools.product(options.precisions, options.networks))


def tune_plans(machine, network, precision, seconds, cache):
    """Measures the plans of the convolutions and keeps them in the folder `cache`."""
    return machine.run(machine.program("trainer"), "tune", "--config", CONFIG,
                       *settings_of(network, precision), seconds=seconds, TESSERA_CACHE=cache)


def bench(machine, options):
    """Alternates ours, with measured plans if options.tuned, with PyTorch: the first round runs every
    variant, later ones the fastest."""
    cases, settings, cache = [], [], tempfile.TemporaryDirectory()
    for number, (precision, network) in enumerate(pairs(options)):
        case = {"network": network, "precision": precision, "ours": [], "peers": {}}
        cases.append(case)
        share, start = machine.left() / (len(pairs(options)) - number), time.monotonic()
        variants, longest = list(options.variants), 0.0
        if options.tuned:
            settings = ["gpu.plans=autotuned"]
            code = tune_plans(machine, network, precision, share / 2, cache.name)[0]
            if code != 0:
                case["ours"].append({"fault": f"trainer tune: exit {code}"})
                continue
        for _ in range(options.rounds):
            begun = time.monotonic()
            if case["ours"] and begun - start + longest > share:
                break
            case["ours"].append(bench_ours(machine, network, precision, options.bench_steps,
                                           *settings, TESSERA_CACHE=cache.name))
            for variant in variants:
                case["peers"].setdefault(variant, []).append(
                    bench_peer(machine, network, precision, options, variant))
            longest = max(longest if len(variants) == 1 else 0, time.monotonic() - begun)
            variants = gpu_report.fastest(case["peers"])[:1]
    return {"cases": cases}


def tune_case(machine, network, precision, options, share, cache):
    """Measures the plans, in half of the case's share of the time; then alternates both settings."""
    start = time.monotonic()
    code, said, took = tune_plans(machine, network, precision, share / 2, cache)
    last = said.strip().splitlines()[-1:] or [""]
    case = {"network": network, "precision": precision, "code": code, "seconds": took, "said": last[0],
            "settings": {"gpu.plans=heuristic": [], "gpu.plans=autotuned": []}}
    longest = 0.0
    for number in range(options.rounds):
        begun = time.monotonic()
        if number > 0 and begun - start + longest > share:
            break
        for setting, results in case["settings"].items():
            results.append(bench_ours(machine, network, precision, options.tune_steps, setting,
                                      TESSERA_CACHE=cache))
        longest = max(longest, time.monotonic() - begun)
    case["longest"] = longest / 2
    return case


def tune(machine, options):
    """Measures the benefit of trainer tune; then, in the time that is left, that of other settings,
    such as limits of cuDNN's workspace."""
    others = ("gpu.cuda_graph=false", "gpu.workspace=32MiB", "gpu.workspace=256MiB")
    cases = []
    with tempfile.TemporaryDirectory() as cache:
        for number, (precision, network) in enumerate(pairs(options)):
            share = machine.left() / (len(pairs(options)) - number)
            cases.append(tune_case(machine, network, precision, options, share, cache))
        for setting in others:
            for case in cases:
                fits = machine.left() > 1.5 * case["longest"]
                case["settings"][setting] = [
                    bench_ours(machine, case["network"], case["precision"], options.tune_steps, setting,
                               TESSERA_CACHE=cache)] if fits else []
    return {"cases": cases}


PARTS = {"correctness": correctness, "sanitizer": sanitizer, "bench": bench, "tune": tune}


def has_gpu(machine):
    machine.end = time.monotonic() + 60
    with open(os.devnull, "w") as machine.log:
        devices = machine.json_of(machine.program("trainer"), "devices", "--json")
    if any(device["name"].startswith("gpu") for device in devices.get("devices", ())):
        return True
    print(f"gpu_check: no GPU: {devices.get('no_gpu') or devices.get('fault')}", file=sys.stderr)
    return False


def run(options):
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    machine = Machine(options.folder, out)
    if not has_gpu(machine):
        return 3
    for part in options.parts:
        start = time.monotonic()
        machine.end = start + (options.seconds or BUDGET[part])
        with open(out / f"{part}.log", "w") as machine.log:
            found = PARTS[part](machine, options)
        found["seconds"] = time.monotonic() - start
        (out / f"{part}.json").write_text(json.dumps(found, indent=1) + "\n")
    return table([out], out / "table.md")


def table(folders, to=None):
    parts = {}
    for folder in folders:
        for part in PARTS:
            path = pathlib.Path(folder) / f"{part}.json"
            if path.exists():
                parts[part] = json.loads(path.read_text())
    text, good = gpu_report.page(parts)
    if to:
        to.write_text(text)
    print(text, end="")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("parts", nargs="+", choices=PARTS)
    runner.add_argument("--out", default=os.environ.get("OUT", "gpu_check_out"))
    runner.add_argument("--folder", default=ROOT / "build/gpu_check", help="the prepared folder")
    runner.add_argument("--seconds", type=int, help="time for each part, instead of its own")
    runner.add_argument("--runs", type=int, default=20, help="number of runs, which must end with the same bits")
    runner.add_argument("--steps", type=int, default=100, help="steps of each run")
    runner.add_argument("--sanitized", default=SANITIZED, help="tests under the sanitizer")
    runner.add_argument("--peer", default=ROOT / "tools/bench/gpu_peer.py", help="the peer program of the bench")
    runner.add_argument("--rounds", type=int, default=3, help="limit of rounds of bench and of tune")
    runner.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS),
                        help="of bench and tune")
    runner.add_argument("--precisions", type=lambda text: text.split(","),
                        default=list(PRECISIONS), help="of bench and tune")
    runner.add_argument("--bench-steps", type=int, default=100)
    runner.add_argument("--tune-steps", type=int, default=40, help="steps of each bench in tune")
    runner.add_argument("--variants", type=lambda text: text.split(","),
                        default=["compile", "graph", "eager"], help="variants of PyTorch")
    runner.add_argument("--tuned", action="store_true", help="bench runs trainer tune before")
    reader = verbs.add_parser("table")
    reader.add_argument("folders", nargs="+")
    options = parser.parse_args()
    sys.exit(run(options) if options.verb == "run" else table(options.folders))


if __name__ == "__main__":
    main()
