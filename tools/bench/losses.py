"""Compares the losses of twelve networks in bfloat16, ours and PyTorch's autocast, with those in float64.

    python losses.py --trainer build/release/bin/trainer

All start from the same weights and read the same batches, so that they differ by roundings alone.
The figure of a network is the root mean square, over the steps, of the relative difference from
PyTorch in float64. Needs torch and NumPy.
"""

import argparse
import math
import pathlib
import tempfile

import torch

import compare
import networks
import our_numbers
import peer
import torch_kit

CLASSES, SEED = 10, 1
LR = 0.001  # low, so that roundings do not grow to chaos in 20 steps
EXTRA = {"resnet32": networks.resnet_cifar(32), "resnet44": networks.resnet_cifar(44),
         "resnet110": networks.resnet_cifar(110),
         "wide_resnet": lambda kit, classes: networks.wide_resnet(kit, classes, 16, 4)}
CASES = {case.model: case for case in (
    compare.Case("LeNet-5", "lenet5", 64, 0),
    compare.Case("ResNet-20", "resnet20", 32, 0),
    compare.Case("ResNet-32", "resnet32", 32, 0),
    compare.Case("ResNet-44", "resnet44", 32, 0),
    compare.Case("ResNet-56", "resnet56", 32, 0),
    compare.Case("ResNet-110", "resnet110", 16, 0),
    compare.Case("ResNet-18 for 32x32", "resnet18_cifar", 32, 0),
    compare.Case("ResNet-50 at 64x64", "resnet50", 16, 0, 64),
    compare.Case("Wide ResNet 16-4", "wide_resnet", 16, 0, ours=", depth: 16, widen: 4"),
    compare.Case("MobileNet v2 at 64x64", "mobilenet_v2", 32, 0, 64, compare.NO_DROPOUT),
    compare.Case("DenseNet-BC-100", "densenet_bc", 16, 0),
    compare.Case("VGG-16-BN at 32x32", "vgg16_bn", 32, 0, ours=compare.NO_DROPOUT))}


def ours(arguments, case, precision):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(case.config(), encoding="utf-8")
        # `trainer bench` trains with a tenth of the rate.
        return compare.result_of([arguments.trainer, "bench", "--config", config, "--json", "--steps",
                                  arguments.steps, f"precision={precision}", f"optimizer.lr={10 * LR}",
                                  f"model.classes={CLASSES}"], 2)["losses"]


def theirs(arguments, case, dtype, half=None):
    model, image = torch_kit.build(case.model, CLASSES)
    torch_kit.start_from_ours(model, SEED)
    model = model.to(dtype).to(memory_format=torch.channels_last)
    data = [(torch.from_numpy(x).to(dtype).permute(0, 3, 1, 2), torch.from_numpy(y))
            for x, y in our_numbers.batches(SEED, case.batch, (case.side, case.side, image[0]), CLASSES)]
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
        case = CASES[name]
        exact = theirs(arguments, case, torch.float64)
        single, half = (apart(ours(arguments, case, p), exact) for p in ("float32", "bf16"))
        autocast = apart(theirs(arguments, case, torch.float32, torch.bfloat16), exact)
        ratios.append(half / autocast)
        print(f"| {case.title} | {single:.1e} | {half:.1e} | {autocast:.1e} | {half / autocast:.2f} |", flush=True)
    print(f"\nGeometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
