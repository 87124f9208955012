"""A peer of `trainer bench`: PyTorch's training step on the CPU, timed the same way.

    python peer.py --model resnet20 --batch 128 --threads 2 --variant channels_last --json

A step is zero_grad, forward, cross-entropy, backward and SGD with momentum and Nesterov. It starts
from our weights and reads our batches (our_numbers.py), as floats that stand ready. Needs torch
and NumPy. Variants: eager, channels_last, compile, compile_channels_last, and the second and last
with "bf16_" before (autocast). One process times one variant, because torch.compile falls back to
eager without a word after some recompilations in one process.

    torchrun --nproc-per-node 2 peer.py --model resnet20 --batch 128 --threads 1 ...

shares each batch among processes: DistributedDataParallel over gloo.
"""

import argparse
import itertools
import json
import os
import statistics
import time

from networks import NETWORKS

VARIANTS = ("eager", "channels_last", "compile", "compile_channels_last", "bf16_channels_last",
            "bf16_compile_channels_last")
PROCESSES, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))  # torchrun's
MODELS = {name: classes for name, (_, _, classes) in NETWORKS.items()}
SHOWN = 4  # losses of the first steps


def step_of(torch, model, x, y, variant, lr, sgd, half=None):
    """Returns a function that trains one step and returns the loss on the model's device. Without
    arguments it trains on x and y. `half`: a dtype for autocast; float16 scales the loss."""
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr, 0.9, nesterov=True, weight_decay=5e-4,
                                fused=sgd == "fused", foreach=sgd == "foreach")
    network = torch.compile(model) if "compile" in variant else model
    device = next(model.parameters()).device.type
    scaler = torch.amp.GradScaler(device, enabled=half == torch.float16)

    def step(images=x, labels=y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, half, enabled=half is not None):
            loss = loss_of(network(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step


def timed(step, arguments):
    """Times `step`, which maps a batch's number to the loss; returns figures for compare.py."""
    numbers = itertools.count()
    losses, times = [], []
    for _ in range(1 + arguments.warmup + arguments.steps):
        start = time.perf_counter()
        losses.append(step(next(numbers)))
        times.append(1e3 * (time.perf_counter() - start))
    steady = sorted(times[1 + arguments.warmup:])
    middle = statistics.median(steady)
    return {"model": arguments.model, "variant": arguments.variant, "batch": arguments.batch,
            "threads": arguments.threads, "steps": arguments.steps,
            "images_per_second": 1e3 * arguments.batch / middle, "step_ms_p50": middle,
            "step_ms_p95": steady[min(len(steady) - 1, int(0.95 * len(steady)))],
            "first_step_ms": times[0], "losses": losses[:SHOWN], "loss": losses[-1]}


def measure(arguments):
    import torch

    import our_numbers
    import torch_kit

    torch.set_num_threads(arguments.threads)
    classes = arguments.classes or MODELS[arguments.model]
    model, image = torch_kit.build(arguments.model, classes)
    torch_kit.start_from_ours(model, arguments.seed)
    side = arguments.image or image[1]
    layout = torch.contiguous_format
    if arguments.variant.endswith("channels_last"):
        layout = torch.channels_last
        model = model.to(memory_format=layout)
    data = [(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(memory_format=layout),
             torch.from_numpy(y))
            for x, y in our_numbers.batches(arguments.seed, arguments.batch,
                                            (side, side, image[0]), classes)]
    if PROCESSES > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
        own = slice(arguments.batch * RANK // PROCESSES, arguments.batch * (RANK + 1) // PROCESSES)
        data = [(x[own], y[own]) for x, y in data]
    train = step_of(torch, model, None, None, arguments.variant, arguments.lr, arguments.sgd,
                    torch.bfloat16 if arguments.variant.startswith("bf16") else None)
    return timed(lambda number: train(*data[number % len(data)]).item(), arguments) | {
        "sgd": arguments.sgd, "processes": PROCESSES, "version": f"PyTorch {torch.__version__}",
        "parameters": sum(p.numel() for p in model.parameters())}


def argument_parser(description, variants):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3, help="untimed steps before them, after the first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--classes", type=int, help="default: as the model is published")
    parser.add_argument("--image", type=int, help="side of the images, for models that allow it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    return parser


def show(result, as_json):
    if as_json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:18} {value:.4g}" if isinstance(value, float) else f"{key:18} {value}")


def main():
    parser = argument_parser(__doc__.splitlines()[0], VARIANTS)
    parser.add_argument("--sgd", choices=("fused", "foreach", "loop"), default="fused")
    arguments = parser.parse_args()
    result = measure(arguments)
    if RANK == 0:
        show(result, arguments.json)
    if PROCESSES > 1:
        import torch

        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
