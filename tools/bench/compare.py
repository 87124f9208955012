"""Compares our training step with PyTorch's and TensorFlow's, in turn (ours, theirs, ours, theirs ...).

    python compare.py --trainer build/release/bin/trainer --python VENV/bin/python --all
    python compare.py --trainer build/release/bin/trainer --python VENV/bin/python \\
        --peers torch,tensorflow --tf-python VENV_TF/bin/python --case resnet20 --case lenet5

Every variant of the peers runs once; the fastest is the peer. Then come the rounds, each one process
of ours and one of the peer. The figure is the median over rounds of ours / theirs, both in images
per second of the median step, with its lowest and highest. Ours is float32; --variants without
those of bf16 compares float32 alone. "+malloc" keeps glibc from giving large blocks back to the
system in every step, which PyTorch would fault in again.

Both sides start from the same weights and read the same batches (our_numbers.py), so the losses of
the first steps must agree: a variant whose number of parameters or first loss is another is no
peer, and said to be none. Ours reads bytes and normalises them in every step; for the peer floats
stand ready. Dropout is off on both sides. Memory is the peak of the whole process, its libraries
and its batches with it, as the system counts it; what an empty process of each takes is told too.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import compare_page
from networks import NETWORKS, parameters_of

HERE = pathlib.Path(__file__).parent
PEERS = {"torch": ("peer.py", ("eager", "channels_last", "channels_last+malloc", "compile",
                               "compile_channels_last", "bf16_channels_last",
                               "bf16_channels_last+malloc", "bf16_compile_channels_last+malloc")),
         "tensorflow": ("tf_peer.py", ("function", "xla"))}
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
          "MALLOC_TOP_PAD_": str(1 << 28)}
WARMUP = 3  # steps before the timed ones, after the first
SAME_LOSS, SAME_LOSS_BF16 = 1e-3, 2e-2  # relative, for the first step


@dataclasses.dataclass
class Case:
    title: str
    model: str
    batch: int
    steps: int  # timed in one process
    image: int = 0  # side; 0: the network's own
    ours: str = ""  # further keys of the model's configuration

    @property
    def side(self):
        return self.image or NETWORKS[self.model][1][1]

    def config(self):
        _, (channels, _), classes = NETWORKS[self.model]
        data = "name: mnist" if channels == 1 else f"name: synthetic, image_size: {self.side}"
        values = ", ".join(["{}"] * channels)
        return (f"seed: 1\nmodel: {{name: {self.model}, classes: {classes}{self.ours}}}\n"
                f"data: {{{data}, batch: {self.batch}, mean: [{values.format(*[0.5] * channels)}], "
                f"std: [{values.format(*[0.25] * channels)}]}}\n"
                "optimizer: {name: sgd, lr: 0.1, momentum: 0.9, nesterov: true, "
                "weight_decay: 5e-4}\n")


NO_DROPOUT = ", dropout: 0"
CASES = {
    "lenet5": Case("LeNet-5", "lenet5", 64, 300),
    "lenet5_b1": Case("LeNet-5", "lenet5", 1, 1000),
    "resnet20": Case("ResNet-20", "resnet20", 128, 10),
    "resnet56": Case("ResNet-56", "resnet56", 128, 5),
    "resnet18_cifar": Case("ResNet-18 for 32x32", "resnet18_cifar", 128, 4),
    "wide_resnet": Case("Wide ResNet 28-10", "wide_resnet", 32, 4),
    "resnet50": Case("ResNet-50 at 224x224", "resnet50", 16, 4),
    "mobilenet_v2": Case("MobileNet v2 at 32x32", "mobilenet_v2", 128, 10, ours=NO_DROPOUT),
    "mobilenet_v2_64": Case("MobileNet v2 at 64x64", "mobilenet_v2", 64, 8, 64, NO_DROPOUT),
    "efficientnet_b0": Case("EfficientNet-B0 at 64x64", "efficientnet_b0", 32, 8, 64,
                            NO_DROPOUT + ", stochastic_depth: 0"),
    "densenet_bc": Case("DenseNet-BC-100", "densenet_bc", 64, 4),
    "vgg16_bn": Case("VGG-16-BN at 32x32", "vgg16_bn", 128, 4, ours=NO_DROPOUT),
}


class Failed(Exception):
    """A program did not print the expected result."""


def run(command, threads, malloc=False):
    """Returns (output of a command, its peak memory in bytes). The peak is never below the memory of
    this script, because a process begins as a copy of it."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)} | (MALLOC if malloc else {})
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen([str(c) for c in command], stdout=out, stderr=err,
                              env=environment) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said = out.read()
        if process.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}\nexit {process.returncode}\n"
                         f"{said[-2000:]}{err.read()[-2000:]}")
    return said, 1024 * used.ru_maxrss


def result_of(command, threads, malloc=False):
    """Returns the JSON object on the last line, with the peak memory."""
    said, memory = run(command, threads, malloc)
    try:
        return json.loads(said.strip().splitlines()[-1]) | {"process_bytes": memory}
    except (IndexError, ValueError) as error:
        raise Failed(f"{' '.join(map(str, command))}\nprinted no JSON\n{said[-2000:]}") from error


def machine():
    """Returns the processor's name and the load of the machine, as both affect times."""
    name = platform.processor() or platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def apart(ours, theirs):
    """Returns the largest relative difference of losses, step by step."""
    return max((abs(a - b) / max(abs(a), 1e-9) for a, b in zip(ours, theirs)), default=float("nan"))


def reason_against(ours, theirs, wanted, same_loss):
    """Returns why two results are not of the same network; "" if they are."""
    if {ours["parameters"], theirs["parameters"]} != {wanted}:
        return (f"ours has {ours['parameters']} parameters, the peer {theirs['parameters']}, "
                f"but both must have {wanted}")
    difference = apart(ours["losses"][:1], theirs["losses"][:1])
    if not difference <= same_loss:
        return f"the first losses are {ours['losses'][0]} and {theirs['losses'][0]}"
    return ""


class Comparison:
    """Runs ours and the peers for one case."""

    def __init__(self, case, arguments, folder):
        self.case, self.arguments = case, arguments
        self.steps = str(arguments.steps or case.steps)
        self.config = pathlib.Path(folder) / "config.yaml"
        self.config.write_text(case.config(), encoding="utf-8")

    def ours(self):
        a = self.arguments
        return result_of([a.trainer, "bench", "--config", self.config, "--steps",
                          int(self.steps) + WARMUP + 1, "--json", f"threads={a.threads}", *a.set],
                         a.threads)

    def theirs(self, who):
        a, (peer, variant) = self.arguments, who.split("/")
        python = a.tf_python if peer == "tensorflow" else a.python
        variant, _, malloc = variant.partition("+")
        return result_of([python, HERE / PEERS[peer][0], "--model", self.case.model, "--batch",
                          self.case.batch, "--image", self.case.side, "--steps", self.steps,
                          "--warmup", WARMUP, "--threads", a.threads, "--variant", variant,
                          "--json"], a.threads, bool(malloc))

    def tried(self, ours):
        """Returns the result of every variant, or the reason why it is no peer."""
        wanted, results = parameters_of(self.case.model), {}
        for who in self.arguments.variants:
            try:
                results[who] = self.theirs(who)
                half = "bf16" in who or "precision=bf16" in self.arguments.set
                fault = reason_against(ours, results[who], wanted,
                                       SAME_LOSS_BF16 if half else SAME_LOSS)
            except Failed as failure:
                fault = str(failure)
            if fault:
                results[who] = {"fault": fault}
            say(f"  {who:32} " + (fault or f"{results[who]['images_per_second']:10.1f} images/s"))
        return results

    def found(self):
        ours = self.ours()
        tried = self.tried(ours)
        speeds = {who: r["images_per_second"] for who, r in tried.items() if "fault" not in r}
        found = {"title": self.case.title, "model": self.case.model, "batch": self.case.batch,
                 "image": self.case.side, "steps": int(self.steps),
                 "parameters": ours["parameters"], "variants": tried, "rounds": []}
        if not speeds:
            return found
        best = max(speeds, key=speeds.get)
        for number in range(1, self.arguments.rounds + 1):
            found["rounds"].append({"ours": self.ours(), "theirs": self.theirs(best)})
            a, b = (found["rounds"][-1][who]["images_per_second"] for who in ("ours", "theirs"))
            say(f"  round {number}: ours {a:.1f}, {best} {b:.1f} images/s")
        return found | summary(best, found["rounds"])


def summary(best, rounds):
    speeds = [[r[who]["images_per_second"] for r in rounds] for who in ("ours", "theirs")]
    memory = [max(r[who]["process_bytes"] for r in rounds) for who in ("ours", "theirs")]
    last = rounds[-1]
    return {"peer": best, "version": last["theirs"]["version"],
            "ratio": spread([a / b for a, b in zip(*speeds)]),
            "images_per_second": {"ours": spread(speeds[0]), "theirs": spread(speeds[1])},
            "process_bytes": {"ours": memory[0], "theirs": memory[1]},
            "losses": {"ours": last["ours"]["losses"], "theirs": last["theirs"]["losses"],
                       "apart": apart(last["ours"]["losses"], last["theirs"]["losses"])}}


def say(text):
    print(text, file=sys.stderr, flush=True)


def empty_processes(arguments):
    """Returns the bytes that a process of each takes without training."""
    commands = {"ours": [arguments.trainer, "--version"],
                "torch": [arguments.python, "-c", "import numpy, torch"],
                "tensorflow": [arguments.tf_python, "-c", "import tensorflow"]}
    return {who: run(command, arguments.threads)[1] for who, command in commands.items()
            if who == "ours" or any(v.startswith(who + "/") for v in arguments.variants)}


def variants_of(arguments):
    everyone = [f"{peer}/{variant}" for peer in arguments.peers.split(",")
                for variant in PEERS[peer][1]]
    if not arguments.variants:
        return everyone
    chosen = arguments.variants.split(",")
    return [who for who in everyone if who in chosen or who.split("/")[1] in chosen]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="path of the trainer program")
    parser.add_argument("--all", action="store_true", help="every case, as one table")
    parser.add_argument("--case", action="append", choices=CASES, default=[])
    parser.add_argument("--peers", default="torch", help=",".join(PEERS))
    parser.add_argument("--variants", help="variants of the peers, such as eager,xla; default: all")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--tf-python", default=sys.executable, help="a Python with tensorflow")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="timed steps per process; default: as the case sets")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], help="more key=value for the trainer")
    parser.add_argument("--json", type=pathlib.Path, help="also write all results to this file")
    arguments = parser.parse_args()
    if not set(arguments.peers.split(",")) <= set(PEERS):
        parser.error(f"--peers: the peers are {', '.join(PEERS)}")
    arguments.variants = variants_of(arguments)
    if bool(arguments.case) == arguments.all or not arguments.variants or arguments.rounds < 1:
        parser.error("pass either --all or --case, a variant of the peers, and at least one round")
    return arguments


def main():
    arguments = parse()
    found = {"machine": machine(), "threads": arguments.threads,
             "rounds": arguments.rounds, "trainer": run([arguments.trainer, "--version"], 1)[0],
             "empty_process_bytes": empty_processes(arguments), "set": arguments.set, "cases": {}}
    for name in CASES if arguments.all else arguments.case:
        case = CASES[name]
        say(f"{name}, batch {case.batch}")
        with tempfile.TemporaryDirectory() as folder:
            found["cases"][name] = Comparison(case, arguments, folder).found()
        if arguments.json:  # after each, so that an interrupted run leaves its results
            arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(compare_page.page(found))
    return any("ratio" not in case for case in found["cases"].values())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(str(failure))
