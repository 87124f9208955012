"""The peer of `trainer bench device=gpu`: PyTorch's training step on a GPU, timed the same way.

    python gpu_peer.py --model resnet18_cifar --batch 512 --variant graph --precision tf32 --json

The networks and the step are those of peer.py, the data random, already on the GPU: PyTorch copies
no images. A step ends when its loss was read. Variants, all channels_last: eager, compile
(torch.compile), graph (the whole step captured by hand as one CUDA graph).
"""

import argparse
import json
import statistics
import time

import peer

VARIANTS = ("eager", "compile", "graph")
PRECISIONS = ("float32", "tf32", "bf16", "f16")


def step_of(torch, arguments):
    """Returns a function that trains one step and returns the loss on the GPU."""
    import torch_kit

    model, image = torch_kit.build(arguments.model, peer.MODELS[arguments.model])
    model = model.cuda().to(memory_format=torch.channels_last)
    x = torch.randn(arguments.batch, *image, device="cuda")
    x = x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(peer.MODELS[arguments.model], (arguments.batch,), device="cuda")
    step = peer.step_of(torch, model, x, y, arguments.variant, 0.01, "fused",
                        {"bf16": torch.bfloat16, "f16": torch.float16}.get(arguments.precision))
    if arguments.variant != "graph":
        return step
    beside = torch.cuda.Stream()  # warm-up before the capture, as in PyTorch's manual
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


def measure(arguments):
    import torch

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True  # PyTorch at its best
    torch.backends.cudnn.allow_tf32 = arguments.precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = arguments.precision != "float32"
    step = step_of(torch, arguments)
    for _ in range(arguments.warmup):
        step().item()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        loss = step().item()
        times.append(1e3 * (time.perf_counter() - start))
    middle = statistics.median(times)
    return {"model": arguments.model, "variant": arguments.variant, "batch": arguments.batch,
            "precision": arguments.precision, "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
            "images_per_second": 1e3 * arguments.batch / middle, "step_ms_p50": middle,
            "step_ms_p95": sorted(times)[min(len(times) - 1, int(0.95 * len(times)))],
            "peak_bytes": torch.cuda.max_memory_reserved(), "loss": loss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=peer.MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32",
                        help="bf16, f16: with autocast; otherwise of float32 products and convolutions")
    parser.add_argument("--steps", type=int, default=50, help="timed steps")
    parser.add_argument("--warmup", type=int, default=10, help="untimed steps before them")
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    arguments = parser.parse_args()
    result = measure(arguments)
    print(json.dumps(result) if arguments.json else result)


if __name__ == "__main__":
    main()
