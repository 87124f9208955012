"""The networks in PyTorch, for peer.py and gpu_peer.py."""

import torch
from torch import nn

import our_numbers
from networks import NETWORKS


def named(name, layer):
    layer.our_name = name
    return layer


class OptionA(nn.Module):
    """Takes every second pixel; the new channels are zero, half on either side."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.before = stride, (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x):
        x = x[:, :, ::self.stride, ::self.stride]
        return nn.functional.pad(x, (0, 0, 0, 0, self.before, self.after))


class Residual(nn.Module):
    def __init__(self, body, shortcut, act):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()
        self.act = act or nn.Identity()

    def forward(self, x):
        return self.act(self.body(x) + self.shortcut(x))


class ActivatedFirst(nn.Module):
    def __init__(self, act, body, shortcut):
        super().__init__()
        self.act, self.body, self.shortcut = act, body, shortcut

    def forward(self, x):
        o = self.act(x)
        return self.body(o) + (x if self.shortcut is None else self.shortcut(o))


class Widened(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return torch.cat((x, self.body(x)), 1)


class ScaledBy(nn.Module):
    def __init__(self, scales):
        super().__init__()
        self.scales = scales

    def forward(self, x):
        return x * self.scales(x)


class TorchKit:
    """Layers as PyTorch users make them; those with parameters store our names."""

    option_a, residual, activated_first, widened = OptionA, Residual, ActivatedFirst, Widened
    scaled_by = ScaledBy
    sequence = nn.Sequential

    def conv(self, name, inputs, outputs, kernel, stride=1, groups=1, padding=None, bias=False):
        padding = kernel // 2 if padding is None else padding
        return named(name, nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups,
                                     bias=bias))

    def norm(self, name, channels):
        return named(name, nn.BatchNorm2d(channels))

    def linear(self, name, inputs, outputs):
        return named(name, nn.Linear(inputs, outputs))

    def relu(self):
        return nn.ReLU(True)

    def relu6(self):
        return nn.ReLU6(True)

    def silu(self):
        return nn.SiLU(True)

    def sigmoid(self):
        return nn.Sigmoid()

    def mean_image(self):
        return nn.AdaptiveAvgPool2d(1)

    def max_pool(self, kernel, stride=None, padding=0):
        return nn.MaxPool2d(kernel, stride, padding)

    def average_pool(self, kernel):
        return nn.AvgPool2d(kernel)

    def global_pool(self):
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def flatten(self, channels, side):
        layer = nn.Flatten()
        layer.image = (channels, side)
        return layer


def build(name, classes):
    """Returns (module, (channels, height, width)) of a network."""
    make, (channels, side), _ = NETWORKS[name]
    return make(TorchKit(), classes), (channels, side, side)


def start_from_ours(model, seed):
    """Gives every layer the initial weights of ours."""
    flattened = None
    with torch.no_grad():
        for layer in model.modules():
            flattened = getattr(layer, "image", flattened)
            if isinstance(layer, torch.nn.Conv2d):
                outputs, inputs, kernel, _ = layer.weight.shape
                weight = our_numbers.conv_weight(seed, layer.our_name, outputs, kernel, inputs)
                layer.weight.copy_(torch.from_numpy(weight).permute(0, 3, 1, 2))
                if layer.bias is not None:
                    layer.bias.zero_()
            elif isinstance(layer, torch.nn.Linear):
                weight, bias = our_numbers.linear_weights(seed, layer.our_name, *layer.weight.shape)
                weight = torch.from_numpy(weight)
                if flattened:  # ours flattens pixels, then channels
                    channels, side = flattened
                    weight = weight.reshape(-1, side * side, channels).transpose(1, 2).flatten(1)
                layer.weight.copy_(weight)
                layer.bias.copy_(torch.from_numpy(bias))
                flattened = None
