"""Our training step against PyTorch's, in turn (ours, theirs, ours, theirs ...), as a ratio.

    python compare.py --trainer build/release/bin/trainer --config models/configs/resnet.yaml \\
        --model resnet20 --batch 128 --threads 2 --rounds 5

First every variant of the peer runs once; the fastest is the peer. Then come the rounds, each one a
process of ours and one of the peer. The figure is the median over rounds of ours / theirs, both in
images per second, with its lowest and highest. `--model` and `--batch` must be those of the config;
the batch and the threads are also passed to the trainer. The peer's Python is `--python`.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

PEER = pathlib.Path(__file__).with_name("peer.py")
VARIANTS = ("eager", "channels_last", "compile", "compile_channels_last")


def run(command, threads):
    """The JSON object that a command prints last; exits with its output when there is none."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env=environment)
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
    last_line = done.stdout.strip().splitlines()[-1]
    return json.loads(last_line if last_line.startswith("{") else done.stdout[start:])


def machine():
    """The processor's name and how busy the machine is, since both decide what a time means."""
    name = platform.processor() or platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def compare(arguments):
    def ours():
        return run([arguments.trainer, "bench", "--config", arguments.config, "--steps",
                    arguments.steps, "--json", f"threads={arguments.threads}",
                    f"data.batch={arguments.batch}", *arguments.set], arguments.threads)

    def theirs(variant):
        return run([arguments.python, PEER, "--model", arguments.model, "--batch", arguments.batch,
                    "--steps", arguments.steps, "--threads", arguments.threads, "--variant",
                    variant, "--sgd", arguments.sgd, "--json"], arguments.threads)

    variants = arguments.variants.split(",")
    tried = {variant: theirs(variant)["images_per_second"] for variant in variants}
    best = max(tried, key=tried.get)
    for variant, speed in tried.items():
        print(f"  {variant:24} {speed:10.1f} images/s{'  <- the peer' if variant == best else ''}",
              file=sys.stderr)
    a, b = [], []
    for number in range(1, arguments.rounds + 1):
        a.append(ours())
        b.append(theirs(best))
        print(f"  round {number}: ours {a[-1]['images_per_second']:.1f}, theirs "
              f"{b[-1]['images_per_second']:.1f} images/s", file=sys.stderr)
    return {"model": arguments.model, "batch": arguments.batch, "threads": arguments.threads,
            "rounds": arguments.rounds, "machine": machine(), "torch": b[0]["torch"],
            "variant": best, "variants": tried,
            "ratio": spread([x["images_per_second"] / y["images_per_second"]
                             for x, y in zip(a, b)]),
            "ours": spread([x["images_per_second"] for x in a]),
            "theirs": spread([y["images_per_second"] for y in b]),
            "loss": {"ours": a[-1].get("loss"), "theirs": b[-1]["loss"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="path of the trainer program")
    parser.add_argument("--config", required=True)
    parser.add_argument("--model", required=True, help="as peer.py names it")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="of the peer")
    parser.add_argument("--sgd", default="fused", help="the peer's update: fused, foreach, loop")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--set", nargs="*", default=[], help="more key=value for the trainer")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = compare(arguments)
    if arguments.json:
        print(json.dumps(result))
        return
    ratio = result["ratio"]
    print(f"{result['model']} b{result['batch']}, {result['threads']} threads: "
          f"{ratio['median']:.3f} x PyTorch {result['torch']} {result['variant']} "
          f"({ratio['low']:.3f} to {ratio['high']:.3f}, {result['rounds']} rounds); ours "
          f"{result['ours']['median']:.1f}, theirs {result['theirs']['median']:.1f} images/s; "
          f"{result['machine']}")


if __name__ == "__main__":
    main()
