#!/usr/bin/env python3
"""Checks that a change changes no result: runs two trainers with the same arguments and compares them:

    tools/same.py OLD/trainer NEW/trainer              everything, about half an hour on two cores
    tools/same.py OLD/trainer NEW/trainer --only plans words

words: helps, schema, reference, resolved configurations, errors and exit codes; plans: `plan --json` of
every network and optimizer; figures: what every other verb, and the planner beside the trainer, prints with
--json, without times, the numbers in which two runs of one trainer differ; weights: the weights of every network after 20 steps at a small size, and of
a small network with every optimizer and schedule."""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SMALL = ["data.name=synthetic", "data.train_count=96", "data.test_count=8", "data.batch=4", "threads=1",
         "data.workers=0"]
# These networks halve their images five times or more.
LARGER = ("alexnet", "vgg", "googlenet", "shufflenet", "efficientnet", "regnet", "convnext", "mobilenet_v3")
REFUSED = [  # and settings that nothing reads
    "schedule.gamma=0.5", "model.widths=[3]", "model.name=mlp model.growth=3", "optimizer.trust_coefficient=0.5",
    "optimizer.name=lars optimizer.nesterov=true optimizer.momentum=0", "optimizer.name=foo",
    "model.name=foo", "model.name=convnext_tiny model.dropout=0.1", "data.labels=coarse", "data.images=x",
    "gpu.tf32=true", "schedule.name=cosine schedule.every=3ep", "memory.reserve=1GiB", "ema.warmup=true",
    "data.test_fraction=0.2", "optimizer.beta1=3", "model.name=wide_resnet model.depth=11",
    "model.name=densenet_bc model.depth=11", "memory.planner=foo", "memory.recompute=foo",
    "memory.limit=1MiB", "mode=eager memory.limit=1MiB", "memory.budget=1MiB", "memory.cost_model=/none",
    "device=gpu", "device=cpu:3", "data.mean=[1,2] data.std=[1]", "data.name=cifar10 data.root=/none",
    "data.name=image_folder data.root=/none", "train.accumulate=3", "eval.batch=512 memory.limit=4MiB"]


class Pair:
    """The two trainers, each in a separate folder; they read and print relative paths."""

    def __init__(self, trainers, folder):
        self.trainers = [str(pathlib.Path(t).resolve()) for t in trainers]
        self.folders = [pathlib.Path(folder, side, "work") for side in ("old", "new")]
        for here in self.folders:
            here.mkdir(parents=True)
            (here / "c.yaml").write_text("seed: 1\n")

    def run(self, *arguments, program="trainer"):
        """Returns (exit code, standard output, errors) of both."""
        found = []
        for trainer, here in zip(self.trainers, self.folders):
            binary = trainer if program == "trainer" else pathlib.Path(trainer).with_name(program)
            done = subprocess.run([binary, *arguments], cwd=here, capture_output=True, text=True)
            found.append((done.returncode, done.stdout, done.stderr))
        return found

    def names(self, section):
        schema = json.loads(self.run("config", "schema")[0][1])
        return schema["properties"][section]["properties"]["name"]["enum"]


def words(pair):
    top = pair.run("--help")
    yield "help", top
    verbs = [line.split()[0] for line in top[0][1].split("Subcommands:")[1].splitlines()
             if line.startswith("  ") and line[2].isalpha()]
    for verb in verbs:
        yield f"help of {verb}", pair.run(verb, "--help")
    for what in ("schema", "reference"):
        yield f"config {what}", pair.run("config", what)
    for section in ("model", "optimizer", "schedule"):
        for name in pair.names(section):
            one = f"{section}.name={name}"
            yield one, pair.run("--config", "c.yaml", "--print-config", *SMALL, one)
    for text in REFUSED:
        yield text, pair.run("--config", "c.yaml", "--dry-run", "model.name=lenet5", *SMALL, *text.split())


def size_of(network):
    return [f"model.name={network}", f"data.image_size={96 if network.startswith(LARGER) else 32}"]


def plans(pair):
    for network in pair.names("model"):
        yield network, pair.run("plan", "--config", "c.yaml", "--json", *SMALL, *size_of(network))
    for optimizer in pair.names("optimizer"):
        yield optimizer, pair.run("plan", "--config", "c.yaml", "--json", *SMALL, *size_of("resnet20"),
                                  f"optimizer.name={optimizer}")


FIGURES = [words.split() for words in (
    "plan --budgets", "plan --max-batch --limit 128MiB", "plan --ablation", "bench --steps 5",
    "bench --steps 5 --repeat 2", "bench --steps 5 --infer", "bench --steps 5 --repeat 1 --ablation",
    "profile --steps 2", "profile --steps 2 --algorithms", "doctor")]
TIMED = ("profile", "doctor", "compare")  # their order or most of their numbers depend on the time
NUMBER = re.compile(r"(-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b)")
# The ops whose time happened to vary, and the identity of the build.
VARYING = re.compile(r'"varying_ops":\s*\[.*?\]|"build":\s*"\w*"', re.S)


def without_times(first, second, every):
    """Returns the results of two pairs of runs as one pair; `every`: without any number. The order
    of lines does not count, because a profile begins with the slowest kind of op."""
    texts = [NUMBER.split(VARYING.sub("", done[1])) for done in (*first, *second)]
    for at in range(1, min(map(len, texts)), 2):
        if every or texts[0][at] != texts[2][at] or texts[1][at] != texts[3][at]:
            for text in texts:
                text[at] = "~"
    return [(done[0], sorted("".join(text).splitlines()), done[2]) for done, text in zip(first, texts)]


def figures(pair):
    small = ["--config", "c.yaml", *SMALL, *size_of("resnet20")]
    done = pair.run("--quiet", *small, "train.steps=5", "run.dir=run")
    yield "training", [code for code, _, _ in done]
    pair.run("plan", *small, "--csv", "step.csv")
    asked = [("trainer", [words[0], *small, *words[1:]]) for words in FIGURES]
    asked += [("trainer", words) for words in (["doctor"], ["devices"], ["compare", "run"],
                                               ["eval", "--run", "run"])]
    asked += [("planner", ["bench", "step.csv", *more]) for more in ([], ["--ablation", "--nodes", "100"])]
    for program, words in asked:
        runs = [pair.run(*words, "--json", program=program) for _ in range(2)]
        yield f"{program} {' '.join(words)}", without_times(*runs, words[0] in TIMED)


def tensors(path):
    """Returns {name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    return {name: (one["dtype"], one["shape"], body[slice(*one["data_offsets"])])
            for name, one in header.items() if name != "__metadata__"}


def trained(pair, number, settings):
    run, out = f"run.dir=r{number}", f"r{number}.safetensors"
    done = pair.run("--quiet", "--config", "c.yaml", *SMALL, run, "train.steps=20", "train.evaluate_every=0",
                    "checkpoint.best=none", "optimizer.lr=0.001", *settings)
    if any(code != 0 for code, _, _ in done):
        return done
    pair.run("export", "--run", f"r{number}", "-o", out)
    return [tensors(here / out) for here in pair.folders]


def failure(result):
    """Returns the exit code and the last line of errors of a run that failed, or None."""
    if isinstance(result, tuple) and result[0] != 0:
        return f"exit {result[0]}: {(result[2].strip().splitlines() or ['no error text'])[-1]}"
    return None


def weights(pair):
    asked = {name: size_of(name) for name in pair.names("model")}
    for section in ("optimizer", "schedule"):
        for name in pair.names(section):
            asked[f"lenet5, {name}"] = [*size_of("lenet5"), f"{section}.name={name}"]
    asked["lenet5, multistep"].append("schedule.milestones=[10st]")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(trained, pair, number, settings)
                for number, (name, settings) in enumerate(asked.items())}
        for name, job in jobs.items():
            yield name, job.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    kinds = ("words", "plans", "figures", "weights")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parsed = parser.parse_args()
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair((parsed.old, parsed.new), folder)
        for kind in parsed.only:
            count = 0
            for name, (old, new) in globals()[kind](pair):
                count += 1
                failed = kind != "words" and (failure(old) or failure(new))
                if old != new or failed:
                    differ += 1
                    print(f"{kind}: {name} {f'fails, {failed}' if failed else 'differs'}", flush=True)
            print(f"{kind}: {count} compared", flush=True)
    print("the same" if differ == 0 else f"{differ} differ")
    return differ != 0


if __name__ == "__main__":
    sys.exit(main())
