"""Compares the losses of twelve networks in bfloat16, ours and PyTorch's autocast, with those in float64.

    python losses.py --trainer build/release/bin/trainer

All start from the same weights and read the same batches, so that they differ by roundings alone.
The figure of a network is the root mean square, over the steps, of the relative difference from
PyTorch in float64. Needs torch and NumPy.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import torch

import networks
import our_numbers
import peer
import torch_kit

CLASSES, SEED = 10, 1
LR = 0.001  # low, so that roundings do not grow to chaos in 20 steps
EXTRA = {"resnet32": networks.resnet_cifar(32), "resnet44": networks.resnet_cifar(44),
         "resnet110": networks.resnet_cifar(110),
         "wide_resnet_16_4": lambda kit, classes: networks.wide_resnet(kit, classes, 16, 4)}
CASES = {  # name: (our model, side of the images, batch)
    "lenet5": ("name: lenet5", 28, 64),
    "resnet20": ("name: resnet20", 32, 32),
    "resnet32": ("name: resnet32", 32, 32),
    "resnet44": ("name: resnet44", 32, 32),
    "resnet56": ("name: resnet56", 32, 32),
    "resnet110": ("name: resnet110", 32, 16),
    "resnet18_cifar": ("name: resnet18_cifar", 32, 32),
    "resnet50": ("name: resnet50", 64, 16),
    "wide_resnet_16_4": ("name: wide_resnet, depth: 16, widen: 4", 32, 16),
    "mobilenet_v2": ("name: mobilenet_v2, dropout: 0", 64, 32),
    "densenet_bc": ("name: densenet_bc", 32, 16),
    "vgg16_bn": ("name: vgg16_bn, dropout: 0", 32, 32)}


def ours(arguments, name, channels, precision):
    model, side, batch = CASES[name]
    data = "name: mnist" if channels == 1 else f"name: synthetic, image_size: {side}"
    values = ", ".join(["{}"] * channels)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(
            f"seed: {SEED}\nmodel: {{{model}, classes: {CLASSES}}}\n"
            f"data: {{{data}, batch: {batch}, mean: [{values.format(*[0.5] * channels)}], "
            f"std: [{values.format(*[0.25] * channels)}]}}\n"
            f"optimizer: {{name: sgd, lr: {10 * LR}, momentum: 0.9, nesterov: true, weight_decay: 5e-4}}\n",
            encoding="utf-8")  # `trainer bench` trains with a tenth of the rate
        said = subprocess.run([arguments.trainer, "bench", "--config", config, "--json", "--steps",
                               str(arguments.steps), f"precision={precision}"],
                              check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])["losses"]


def theirs(arguments, name, dtype, half=None):
    _, side, batch = CASES[name]
    model, image = torch_kit.build(name, CLASSES)
    torch_kit.start_from_ours(model, SEED)
    model = model.to(dtype).to(memory_format=torch.channels_last)
    data = [(torch.from_numpy(x).to(dtype).permute(0, 3, 1, 2), torch.from_numpy(y))
            for x, y in our_numbers.batches(SEED, batch, (side, side, image[0]), CLASSES)]
    step = peer.step_of(torch, model, None, None, "channels_last", LR, "fused", half)
    return [step(*data[i % len(data)]).item() for i in range(arguments.steps)]


def apart(losses, exact):
    return math.sqrt(sum((a / b - 1) ** 2 for a, b in zip(losses, exact, strict=True)) / len(exact))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="path of the trainer program")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--steps", type=int, default=20, choices=range(1, 21), metavar="1..20")
    arguments = parser.parse_args()
    for name, make in EXTRA.items():
        networks.NETWORKS[name] = (make, (3, 32), CLASSES)
    print("| network | float32, ours | bf16, ours | bf16, autocast | ours / autocast |\n|---|---|---|---|---|")
    ratios = []
    for name in arguments.case or CASES:
        channels = networks.NETWORKS[name][1][0]
        exact = theirs(arguments, name, torch.float64)
        single, half = (apart(ours(arguments, name, channels, p), exact) for p in ("float32", "bf16"))
        autocast = apart(theirs(arguments, name, torch.float32, torch.bfloat16), exact)
        ratios.append(half / autocast)
        print(f"| {name} | {single:.1e} | {half:.1e} | {autocast:.1e} | {half / autocast:.2f} |", flush=True)
    print(f"\nGeometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
