"""Measures the overhead of memory budgets and compares it with the estimates.

    python budgets.py --trainer build/release/bin/trainer --config models/configs/resnet50_224.yaml \\
        [--rounds 5] [--overheads 1,2,5,7,12] [KEY=VALUE ...]

Takes from `trainer plan --budgets` the budgets whose estimated overhead is nearest to each of --overheads,
and times the training step with each of them and without, in turn: a round is a `trainer bench` for
each. Prints the overhead by both estimates, a roofline and a profile of this computer (memory.cost_model), and
the measured one, from the medians over the rounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, required=True)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="steps of each timing")
    parser.add_argument("--overheads", default="1,2,5,7,12", help="estimated overheads, in percent")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    given = ["--json", "--config", arguments.config, *arguments.overrides]

    def plan(*more):
        return run(arguments.trainer, "plan", "--budgets", *given, *more)["points"]

    points = [point for point in plan() if point["overhead"] > 0]
    chosen = []
    for overhead in arguments.overheads.split(","):
        nearest = min(points, key=lambda point: abs(100 * point["overhead"] - float(overhead)))
        if nearest not in chosen:
            chosen.append(nearest)
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder) / "times.json"
        times.write_text(json.dumps(run(arguments.trainer, "profile", *given, "--steps", 5)), encoding="utf-8")
        measured = [run(arguments.trainer, "plan", "--json", "--config", arguments.config, *arguments.overrides,
                        f"memory.cost_model={times}", f"memory.budget={point['budget_bytes']}B") for point in chosen]
    kinds = [[], *([f"memory.budget={point['budget_bytes']}B"] for point in chosen)]
    took = [[] for _ in kinds]
    for _ in range(arguments.rounds):
        for budget, list_of in zip(kinds, took):
            list_of.append(run(arguments.trainer, "bench", "--steps", arguments.steps, *given, *budget)["step_ms_p50"])
    without = statistics.median(took[0])
    print(f"without a budget {without:.1f} ms ({min(took[0]):.1f} to {max(took[0]):.1f})")
    print(f"{'budget, MiB':>12}{'recomputed':>12}{'roofline':>10}{'profiled':>10}{'measured':>10}")
    for point, plan_of, times in zip(chosen, measured, took[1:]):
        real = statistics.median(times) / without - 1
        print(f"{point['budget_bytes'] / 2**20:12.1f}{point['recomputed_nodes']:12}{point['overhead']:10.2%}"
              f"{plan_of['budget']['overhead']:10.2%}{real:10.2%}", flush=True)


if __name__ == "__main__":
    main()
