"""The peer of `trainer bench`: PyTorch's training step on the CPU, timed the same way.

    python peer.py --model resnet20 --batch 128 --threads 2 --variant channels_last --json

A step is zero_grad, forward, cross-entropy, backward and SGD with momentum and Nesterov; the data
are random normal images with random labels, made once. Needs torch only. Variants: eager,
channels_last, compile, compile_channels_last. One process times one variant, because torch.compile
falls back to eager without a word after some recompilations in one process.
"""

import argparse
import json
import statistics
import time

VARIANTS = ("eager", "channels_last", "compile", "compile_channels_last")


def build(torch, name, classes):
    """(module, (channels, height, width)) of a model of the zoo, made as PyTorch users make it."""
    nn = torch.nn

    def conv(inputs, outputs, kernel, stride=1):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)

    class OptionA(nn.Module):
        """Every second pixel; the new channels are zero, half on either side."""

        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.stride, self.before = stride, (outputs - inputs) // 2
            self.after = outputs - inputs - self.before

        def forward(self, x):
            x = x[:, :, ::self.stride, ::self.stride]
            return nn.functional.pad(x, (0, 0, 0, 0, self.before, self.after))

    def projection(inputs, outputs, stride):
        return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, body, shortcut):
            super().__init__()
            self.body, self.shortcut, self.relu = nn.Sequential(*body), shortcut, nn.ReLU(True)

        def forward(self, x):
            return self.relu(self.body(x) + self.shortcut(x))

    def basic(inputs, width, stride, shortcut):
        body = [conv(inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(True),
                conv(width, width, 3), nn.BatchNorm2d(width)]
        keeps = stride == 1 and inputs == width
        return Block(body, nn.Identity() if keeps else shortcut(inputs, width, stride)), width

    def bottleneck(inputs, width, stride, shortcut):
        outputs = 4 * width
        body = [conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(True),
                conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(True),
                conv(width, outputs, 1), nn.BatchNorm2d(outputs)]
        keeps = stride == 1 and inputs == outputs
        return Block(body, nn.Identity() if keeps else shortcut(inputs, outputs, stride)), outputs

    def residual(stem, channels, make, widths, depths, shortcut):
        layers = list(stem)
        for stage, (width, depth) in enumerate(zip(widths, depths)):
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                layer, channels = make(channels, width, stride, shortcut)
                layers.append(layer)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(channels, classes))

    def stem(width):
        return [conv(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(True)]

    if name == "lenet5":
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(True), nn.Linear(120, 84), nn.ReLU(True),
            nn.Linear(84, classes)), (1, 28, 28)
    if name == "resnet20":
        return residual(stem(16), 16, basic, (16, 32, 64), (3, 3, 3), OptionA), (3, 32, 32)
    if name == "resnet18_cifar":
        return residual(stem(64), 64, basic, (64, 128, 256, 512), (2, 2, 2, 2),
                        projection), (3, 32, 32)
    large = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    return residual(large, 64, bottleneck, (64, 128, 256, 512), (3, 4, 6, 3),
                    projection), (3, 224, 224)


MODELS = {"lenet5": 10, "resnet20": 10, "resnet18_cifar": 10, "resnet50": 1000}  # name: classes


def step_of(torch, model, x, y, variant, lr, sgd):
    """A function that trains one step and returns the loss, where the model stands."""
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr, 0.9, nesterov=True, weight_decay=5e-4,
                                fused=sgd == "fused", foreach=sgd == "foreach")
    network = torch.compile(model) if variant.startswith("compile") else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def measure(arguments):
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    classes = arguments.classes or MODELS[arguments.model]
    model, image = build(torch, arguments.model, classes)
    if arguments.image:
        image = (image[0], arguments.image, arguments.image)
    parameters = sum(p.numel() for p in model.parameters())
    x = torch.randn(arguments.batch, *image)
    y = torch.randint(classes, (arguments.batch,))
    if arguments.variant.endswith("channels_last"):
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    train = step_of(torch, model, x, y, arguments.variant, arguments.lr, arguments.sgd)

    def step():
        return train().item()

    start = time.perf_counter()
    first_loss = step()
    first = time.perf_counter() - start
    for _ in range(arguments.warmup):
        step()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    middle = statistics.median(times)
    return {"model": arguments.model, "variant": arguments.variant, "batch": arguments.batch,
            "threads": arguments.threads, "steps": arguments.steps, "sgd": arguments.sgd,
            "torch": torch.__version__, "parameters": parameters,
            "images_per_second": arguments.batch / middle, "step_ms_p50": 1e3 * middle,
            "step_ms_p95": 1e3 * sorted(times)[min(len(times) - 1, int(0.95 * len(times)))],
            "first_step_ms": 1e3 * first, "first_loss": first_loss, "loss": loss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them, after the first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--sgd", choices=("fused", "foreach", "loop"), default="fused")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--classes", type=int, help="default: as the model is published")
    parser.add_argument("--image", type=int, help="side of the images, for models that allow it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    arguments = parser.parse_args()
    result = measure(arguments)
    if arguments.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:18} {value:.4g}" if isinstance(value, float) else f"{key:18} {value}")


if __name__ == "__main__":
    main()
