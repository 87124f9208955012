"""Logits of torchvision's and timm's networks for a small image, with weights from a formula.

Every tensor of the state is uniform:<model>/<name>, where <name> is Tessera's; its kind decides its
range (value()). tests/models/zoo/networks_golden_test.cc has the same rule.
"""

import math

import numpy as np
import timm
import torch
import torchvision.models as vision

import formula

CLASSES = 10
BATCH = 2


def of_vision(name, side, gain, **options):
    return name, side, gain, lambda: getattr(vision, name)(num_classes=CLASSES, **options)


def of_timm(name, side, gain):
    return name, side, gain, lambda: timm.create_model(name, num_classes=CLASSES)


# Name, side in pixels, gain of the weights, constructor. Sides are odd if padding and rounding
# could differ. The gains give images different logits and keep rounding errors from growing.
NETWORKS = [
    of_vision("googlenet", 75, 6, aux_logits=False, init_weights=False),
    *(of_timm(f"seresnet{depth}", 49, 3) for depth in (18, 50)),
    *(of_vision(f"shufflenet_v2_{width}", 75, 5) for width in ("x0_5", "x1_0", "x1_5", "x2_0")),
    *(of_vision(f"mobilenet_v3_{size}", 75, gain) for size, gain in (("small", 6), ("large", 5))),
    *(of_vision(f"efficientnet_b{size}", 75, gain) for size, gain in enumerate((7, 6, 6, 6, 5.5))),
    *(of_vision(f"regnet_y_{size}", 75, 3) for size in ("400mf", "800mf", "1_6gf", "3_2gf")),
    *(of_timm(f"convnext_{size}", 70, 3) for size in ("atto", "femto", "pico", "nano", "tiny")),
]


def value(model, gain, name, shape):
    """Returns the float32 array of one tensor, in our layout: filters OHWI."""
    kind = name.rsplit(".", 1)[1]
    if kind == "weight":
        scale, offset = math.sqrt(gain / math.prod(shape[1:])), 0.0
    else:
        scale, offset = {"gamma": (0.25, 1.0), "running_var": (0.25, 1.0)}.get(kind, (0.25, 0.0))
    return formula.uniform(f"{model}/{name}", shape, scale, offset)


def fill(model, gain, network):
    """Gives every tensor of the network its value."""
    norms = {name for name, module in network.named_modules()
             if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm))}
    state = network.state_dict()
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        if kind == "num_batches_tracked":
            continue
        if module in norms:
            kind = {"weight": "gamma", "bias": "beta"}.get(kind, kind)
        shape = tuple(tensor.shape)
        if len(shape) == 4:
            made = value(model, gain, f"{module}.{kind}", (shape[0], *shape[2:], shape[1]))
            made = made.transpose(0, 3, 1, 2)
        else:
            made = value(model, gain, f"{module}.{kind}", shape)
        state[name] = torch.tensor(np.ascontiguousarray(made)).to(tensor.dtype)
    network.load_state_dict(state)


def logits(model, side, gain, make, dtype):
    network = make().to(dtype).eval()
    fill(model, gain, network)
    x = formula.uniform(f"{model}/x", (BATCH, side, side, 3), 1.0)
    with torch.no_grad():
        return network(torch.tensor(x).to(dtype).permute(0, 3, 1, 2)).double().numpy()


def write(file):
    """Fills an open HDF5 file; returns the largest error of float32 and its network."""
    worst = (0.0, "")
    for model, side, gain, make in NETWORKS:
        double = logits(model, side, gain, make, torch.float64)
        single = logits(model, side, gain, make, torch.float32)
        apart = float(np.abs(single - double).max() / np.abs(double).max())
        worst = max(worst, (apart, model))
        group = file.create_group(model)
        group.attrs["side"] = side
        group.attrs["gain"] = gain
        group.create_dataset("logits", data=double)
        print(f"{model}: logits to {np.abs(double).max():.3g}, apart by "
              f"{np.ptp(double, axis=1).min():.3g} in a picture and "
              f"{np.abs(double[0] - double[1]).max():.3g} from picture to picture, "
              f"float32 within {apart:.1e}")
    return worst
