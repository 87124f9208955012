"""Plans every model at every batch with `best`: whether each plan is proved lowest, and how fast.

    python zoo_plans.py --bin build/release/bin --configs models/configs

Exports the training step of each configuration, and of each model by name at a customary size of
images, for each batch; has `planner compare` plan it; and prints a line for each model with the
buffers and, over the batches, the highest ratio to the lower bound and the longest processor time.
Exits with 1 when a plan is not proved lowest or takes more than --most-ms.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

CIFAR = [f"resnet{depth}" for depth in (20, 32, 44, 56, 110)]
IMAGENET = [f"resnet{depth}" for depth in (18, 34, 50, 101, 152)]
VGG = [f"vgg{depth}_bn" for depth in (11, 13, 16, 19)]
LATER = ["googlenet", "seresnet18", "seresnet50", "mobilenet_v3_small", "mobilenet_v3_large",
         *(f"shufflenet_v2_{width}" for width in ("x0_5", "x1_0", "x1_5", "x2_0")),
         *(f"efficientnet_b{size}" for size in range(5)),
         *(f"regnet_y_{size}" for size in ("400mf", "800mf", "1_6gf", "3_2gf")),
         *(f"convnext_{size}" for size in ("atto", "femto", "pico", "nano", "tiny"))]
SIDES = {"mlp": 28, "lenet5": 28, "cnn_bn": 28, "resnet18_cifar": 32, "wide_resnet": 32,
         "densenet_bc": 32, "alexnet": 224, "densenet121": 224, "mobilenet_v2": 224,
         **dict.fromkeys(CIFAR, 32), **dict.fromkeys(IMAGENET + VGG + LATER, 224)}


def best_of(options, words, file):
    """Returns buffers, ratio, milliseconds and proof of the default planner's plan."""
    planner = os.path.join(options.bin, "planner")
    subprocess.run([planner, "export", "-o", file, "--config", *words], check=True)
    table = subprocess.run([planner, "compare", file], check=True, text=True,
                           capture_output=True).stdout
    buffers = int(re.search(r": (\d+) buffers", table)[1])
    ratio, ms, proof = re.search(r"^  best +\d+ +(\S+) +(\S+)  (.*)$", table, re.MULTILINE).groups()
    return buffers, float(ratio), float(ms), proof


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="the folder of our programs")
    parser.add_argument("--configs", required=True, help="the folder of our configurations")
    parser.add_argument("--batches", default="1,2,8,32,64,128,256")
    parser.add_argument("--most-ms", type=float, default=20)
    options = parser.parse_args()
    cases = {os.path.basename(path): [path] for path in sorted(
        os.path.join(options.configs, name) for name in os.listdir(options.configs))}
    any_images = os.path.join(options.configs, "resnet50_224.yaml")
    cases.update({f"{name} at {side}": [any_images, f"model.name={name}", f"data.image_size={side}"]
                  for name, side in SIDES.items()})
    bad = 0
    print(f"{'model':28} {'buffers':>8} {'ratio':>8} {'most ms':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for case, words in cases.items():
            plans = {batch: best_of(options, [*words, f"data.batch={batch}"],
                                    os.path.join(folder, "step.csv"))
                     for batch in options.batches.split(",")}
            open_ones = [f"batch {batch}: {proof}, {ms} ms"
                         for batch, (_, _, ms, proof) in plans.items()
                         if proof != "lowest" or ms > options.most_ms]
            bad += len(open_ones)
            buffers, ratios, times, _ = zip(*plans.values())
            print(f"{case:28} {max(buffers):8} {max(ratios):8.4f} {max(times):8.2f}  "
                  + "; ".join(open_ones), flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
