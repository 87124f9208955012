"""Whole training runs computed by PyTorch: the loss of every step, and the final weights.

A run is a Recipe. Its weights and data come from formula.py under names that README.md lists, so a
run can be repeated anywhere from only the recipe's numbers.
"""

import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as F

import formula


@dataclasses.dataclass(frozen=True)
class Recipe:
    model: str
    image: tuple  # height, width, channels
    tile: tuple  # height, width of a class's pattern, which repeats over the image
    noise: float  # half-width of the noise; the pattern has half-width 1
    batch: int
    lr: float
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    batches: int = 8  # step t reads batch t mod batches
    classes: int = 10
    steps: int = 100


RECIPES = {
    "lenet5": Recipe("lenet5", image=(28, 28, 1), tile=(28, 28), noise=2.0, batch=32, lr=0.01),
    "resnet20": Recipe("resnet20", image=(32, 32, 3), tile=(4, 4), noise=2.0, batch=16, lr=0.1),
}


def parameter_specs(model):
    """Returns name -> spec in the order of the modules; filters are OHWI, linear weights [out, in].

    At a rate of 0.1 ResNet-20 with He's initialisation is chaotic: the rounding of float32 grows to
    some percent of the loss in ten steps, and two correct programs differ. Filters twice as large
    (batch norm cancels the factor, but they change direction more slowly) and a small gamma at the
    end of each block keep this network and rate in a range where a difference means an error.
    """
    specs = {}
    gain = 1.0 if model == "lenet5" else 2.0

    def add(name, shape, scale, offset=0.0):
        specs[name] = formula.uniform_spec(f"{model}/{name}", shape, scale, offset)

    def conv(name, out, kernel, channels, bias):
        fan_in = kernel * kernel * channels
        add(f"{name}.weight", (out, kernel, kernel, channels), gain * math.sqrt(6 / fan_in))
        if bias:
            add(f"{name}.bias", (out,), 1 / math.sqrt(fan_in))

    def linear(name, out, features):
        add(f"{name}.weight", (out, features), 1 / math.sqrt(features))
        add(f"{name}.bias", (out,), 1 / math.sqrt(features))

    def batch_norm(name, channels):
        add(f"{name}.gamma", (channels,), 0.0, 0.2 if name.endswith(".bn2") else 1.0)
        add(f"{name}.beta", (channels,), 0.0)

    if model == "lenet5":
        conv("conv1", 6, 5, 1, bias=True)
        conv("conv2", 16, 5, 6, bias=True)
        linear("fc1", 120, 5 * 5 * 16)
        linear("fc2", 84, 120)
        linear("fc3", 10, 84)
    else:
        conv("conv1", 16, 3, 3, bias=False)
        batch_norm("bn1", 16)
        channels = 16
        for stage, width in enumerate((16, 32, 64), 1):
            for block in range(3):
                at = f"layer{stage}.{block}"
                conv(f"{at}.conv1", width, 3, channels, bias=False)
                batch_norm(f"{at}.bn1", width)
                conv(f"{at}.conv2", width, 3, width, bias=False)
                batch_norm(f"{at}.bn2", width)
                channels = width
        linear("fc", 10, 64)
    return specs


class Network:
    """Parameters under our names, in PyTorch's layouts, and their running statistics."""

    def __init__(self, model, dtype, jitter=0.0):
        self.model = model
        self.parameters, self.statistics = {}, {}
        generator = np.random.default_rng(1)
        for name, spec in parameter_specs(model).items():
            value = torch.tensor(formula.make(spec), dtype=dtype)
            if jitter:
                value *= 1 + jitter * torch.tensor(generator.uniform(-1, 1, value.shape)).to(dtype)
            if value.dim() == 4:
                value = value.permute(0, 3, 1, 2).contiguous()
            self.parameters[name] = value.requires_grad_()
            if name.endswith(".gamma"):
                norm = name.removesuffix(".gamma")
                self.statistics[f"{norm}.running_mean"] = torch.zeros(value.shape, dtype=dtype)
                self.statistics[f"{norm}.running_var"] = torch.ones(value.shape, dtype=dtype)

    def conv(self, x, name, stride=1, padding=0):
        return F.conv2d(x, self.parameters[f"{name}.weight"],
                        self.parameters.get(f"{name}.bias"), stride, padding)

    def linear(self, x, name):
        return F.linear(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def batch_norm(self, x, name):
        return F.batch_norm(x, self.statistics[f"{name}.running_mean"],
                            self.statistics[f"{name}.running_var"],
                            self.parameters[f"{name}.gamma"], self.parameters[f"{name}.beta"],
                            training=True, momentum=0.1, eps=1e-5)

    def block(self, x, name, stride):
        y = self.batch_norm(self.conv(x, f"{name}.conv1", stride, 1), f"{name}.bn1").relu()
        y = self.batch_norm(self.conv(y, f"{name}.conv2", 1, 1), f"{name}.bn2")
        if stride != 1:  # option A: every second pixel, new channels are zero, half on either side
            missing = y.shape[1] - x.shape[1]
            before = missing // 2
            x = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, before, missing - before))
        return (x + y).relu()

    def forward(self, x):
        """x [n, h, w, c] -> logits [n, 10]."""
        x = x.permute(0, 3, 1, 2).contiguous()
        if self.model == "lenet5":
            x = F.max_pool2d(self.conv(x, "conv1", padding=2).relu(), 2)
            x = F.max_pool2d(self.conv(x, "conv2").relu(), 2)
            x = x.permute(0, 2, 3, 1).flatten(1)  # features in the order h, w, c
            return self.linear(self.linear(self.linear(x, "fc1").relu(), "fc2").relu(), "fc3")
        x = self.batch_norm(self.conv(x, "conv1", padding=1), "bn1").relu()
        for stage in (1, 2, 3):
            for block in range(3):
                x = self.block(x, f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1)
        return self.linear(x.mean((2, 3)), "fc")


def batches(recipe):
    """Returns [(float32 images [n, h, w, c], int64 labels [n])], one per batch of the recipe."""
    height, width, channels = recipe.image
    tiles = formula.uniform(f"{recipe.model}/patterns", (recipe.classes, *recipe.tile, channels), 1)
    patterns = np.tile(tiles, (1, height // recipe.tile[0], width // recipe.tile[1], 1))
    made = []
    for b in range(recipe.batches):
        labels = formula.integers(f"{recipe.model}/labels/{b}", (recipe.batch,), recipe.classes)
        noise = formula.uniform(f"{recipe.model}/noise/{b}", (recipe.batch, *recipe.image),
                                recipe.noise)
        made.append((patterns[labels] + noise, labels))
    return made


def ours(tensor):
    """Returns a float64 array in our layout."""
    tensor = tensor.detach()
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.contiguous().numpy().astype(np.float64)


def train(recipe, dtype, steps=None, jitter=0.0):
    """Returns the loss before each update, the gradients of step 0, and the final values."""
    network = Network(recipe.model, dtype, jitter)
    optimizer = torch.optim.SGD(network.parameters.values(), recipe.lr, recipe.momentum,
                                nesterov=recipe.nesterov, weight_decay=recipe.weight_decay)
    data = [(torch.tensor(x).to(dtype), torch.tensor(y)) for x, y in batches(recipe)]
    losses, first_gradients = [], {}
    for step in range(steps or recipe.steps):
        x, y = data[step % recipe.batches]
        optimizer.zero_grad()
        loss = F.cross_entropy(network.forward(x), y)
        loss.backward()
        if step == 0:
            first_gradients = {n: ours(p.grad) for n, p in network.parameters.items()}
        optimizer.step()
        losses.append(loss.item())
    final = {n: ours(p) for n, p in (network.parameters | network.statistics).items()}
    return np.array(losses, np.float64), first_gradients, final


def drift(losses, reference):
    """Returns the largest relative difference of the loss, step by step."""
    return np.abs(losses - reference) / np.abs(reference)
