#!/usr/bin/env python3
"""Measures the error of memory.cost_model: the step times of networks of the zoo, estimated and measured.

    trainer profile --machine > costs.json
    tools/bench/estimates.py --trainer build/release/bin/trainer --costs costs.json

Each network is profiled on generated images: `trainer profile memory.cost_model=...` has the estimate and what
the steps took, of which the median of all rounds counts.
"""

import argparse
import json
import statistics
import subprocess
import sys

NETWORKS = [  # name, side of the images, images
    ("lenet5", 28, 128), ("cnn_bn", 32, 128), ("resnet20", 32, 128), ("resnet56", 32, 128),
    ("resnet18_cifar", 32, 128), ("wide_resnet", 32, 32), ("densenet_bc", 32, 64),
    ("mobilenet_v2", 32, 128), ("vgg16_bn", 32, 64), ("alexnet", 224, 16), ("resnet18", 224, 16),
    ("resnet34", 224, 16), ("resnet50", 224, 16), ("resnet101", 224, 8), ("seresnet18", 224, 16),
    ("seresnet50", 224, 16), ("vgg11_bn", 224, 8), ("vgg16_bn", 224, 8), ("densenet121", 224, 16),
    ("googlenet", 224, 16), ("mobilenet_v2", 224, 16), ("mobilenet_v3_small", 224, 16),
    ("mobilenet_v3_large", 224, 16), ("shufflenet_v2_x0_5", 224, 16),
    ("shufflenet_v2_x1_0", 224, 16), ("shufflenet_v2_x2_0", 224, 8), ("regnet_y_400mf", 224, 16),
    ("regnet_y_800mf", 224, 16), ("regnet_y_3_2gf", 224, 8), ("efficientnet_b0", 224, 16),
    ("efficientnet_b1", 240, 8), ("efficientnet_b4", 224, 8), ("convnext_atto", 224, 16),
    ("convnext_nano", 224, 8), ("convnext_tiny", 224, 8)]


def profile(trainer, name, size, batch, costs, steps):
    keys = [f"model.name={name}", "data.name=synthetic", f"data.image_size={size}",
            f"data.batch={batch}", f"memory.cost_model={costs}"]
    done = subprocess.run([trainer, "profile", "--config", "/dev/null", "--json", "--steps",
                           str(steps), *keys], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--costs", required=True, help="a file written by trainer profile --machine")
    parser.add_argument("--steps", type=int, default=5, help="steps of each network in each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over all networks")
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    chosen = [n for n in NETWORKS if not arguments.only or n[0] in arguments.only]
    steps = {network: [] for network in chosen}
    estimates = {}
    for _ in range(arguments.rounds):
        for network in chosen:
            found = profile(arguments.trainer, *network, arguments.costs, arguments.steps)
            steps[network].append(found["step_ms"]["median"])
            estimates[network] = found["estimate_ms"]
    off = []
    print("| network | images | measured, ms | estimated, ms | error |\n|---|---|---|---|---|")
    for network in chosen:
        name, size, batch = network
        step = statistics.median(steps[network])
        off.append(estimates[network] / step - 1)
        print(f"| `{name}` | {batch} of {size}x{size} | {step:.1f} | {estimates[network]:.1f} | "
              f"{100 * off[-1]:+.0f} % |")
    print(f"\nmedian {100 * statistics.median(map(abs, off)):.0f} %, largest "
          f"{100 * max(map(abs, off)):.0f} %; {sum(abs(x) <= 0.15 for x in off)} of {len(off)} "
          "within 15 %")


if __name__ == "__main__":
    main()
