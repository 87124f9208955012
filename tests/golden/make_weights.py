"""Makes weights.h5 and library.safetensors: what torchvision and timm call the weights of the networks
that Tessera has too, and the logits that they compute from weights made of a formula.

    python make_weights.py            write both files beside this script
    python make_weights.py --check    recompute and compare with the files; write nothing
    python make_weights.py --large F  all networks on images of 224 x 224, into F, which
                                      TESSERA_WEIGHTS_GOLDEN=F gives to the test of logits

Needs torch, torchvision, timm, safetensors, numpy and h5py. README.md says what is in the files.
"""

import argparse
import pathlib
import tempfile

import h5py
import numpy as np
import safetensors.torch
import timm
import torch
import torchvision

import formula

HERE = pathlib.Path(__file__).parent
RESNETS = [f"resnet{depth}" for depth in (18, 34, 50, 101, 152)]
VGGS = [f"vgg{depth}_bn" for depth in (11, 13, 16, 19)]

# Program, its name for the network, our name.
NETWORKS = [("torchvision", name, name)
            for name in RESNETS + VGGS + ["alexnet", "densenet121", "mobilenet_v2"]]
NETWORKS += [("timm", name, name) for name in RESNETS + VGGS + ["densenet121"]]
NETWORKS += [("timm", "mobilenetv2_100", "mobilenet_v2")]
NETWORKS += [("torchvision", name, name)
             for name in ["googlenet", "mobilenet_v3_small", "mobilenet_v3_large",
                          *(f"shufflenet_v2_x{width}" for width in ("0_5", "1_0", "1_5", "2_0")),
                          *(f"efficientnet_b{size}" for size in range(5)),
                          *(f"regnet_y_{size}" for size in ("400mf", "800mf", "1_6gf", "3_2gf"))]]
NETWORKS += [("timm", name, name)
             for name in [*(f"efficientnet_b{size}" for size in range(5)), "seresnet18", "seresnet50",
                          *(f"convnext_{size}" for size in ("atto", "femto", "pico", "nano", "tiny"))]]

# Networks whose logits are computed, and the side of their images in pixels.
COMPUTED = {("torchvision", "resnet18"): 64, ("torchvision", "resnet50"): 64,
            ("torchvision", "vgg11_bn"): 64, ("torchvision", "alexnet"): 96,
            ("torchvision", "densenet121"): 64, ("torchvision", "mobilenet_v2"): 64,
            ("timm", "vgg11_bn"): 64, ("timm", "mobilenetv2_100"): 64}
CLASSES, IMAGES = 10, 2


def make(program, name, classes):
    if program == "timm":
        return timm.create_model(name, pretrained=False, num_classes=classes)
    return torchvision.models.get_model(name, weights=None, num_classes=classes)


def without_averaging(program, network, size):
    """Removes the average pooling to 7x7 or 6x6 pixels; the first linear layer then fits the output for
    small images."""
    if program == "timm":
        old = network.pre_logits.fc1
        side = size // 32
        network.pre_logits.fc1 = torch.nn.Conv2d(old.in_channels, old.out_channels, side)
        network.pre_logits.input_kernel_size = side
        return
    with torch.no_grad():
        left = network.features(torch.zeros(1, 3, size, size)).shape[1:].numel()
    network.avgpool = torch.nn.Identity()
    place = next(i for i, m in enumerate(network.classifier) if isinstance(m, torch.nn.Linear))
    network.classifier[place] = torch.nn.Linear(left, network.classifier[place].out_features)


def spec_of(prefix, name, tensor, is_norm):
    """Returns a spec with a scale that keeps activations near 1 at any depth."""
    full = f"{prefix}/{name}"
    shape = tuple(tensor.shape)
    leaf = name.rsplit(".", 1)[1]
    if leaf == "running_var" or (is_norm and leaf == "weight"):
        return formula.uniform_spec(full, shape, 0.5, 1.0)
    if len(shape) < 2:
        return formula.uniform_spec(full, shape, 0.5)
    fan_in = int(np.prod(shape[1:]))
    return formula.uniform_spec(full, shape, (4 / fan_in) ** 0.5)


def specs_of(prefix, network):
    norms = {path for path, module in network.named_modules()
             if isinstance(module, torch.nn.BatchNorm2d)}
    return {name: spec_of(prefix, name, tensor, name.rsplit(".", 1)[0] in norms)
            for name, tensor in network.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def logits_of(network, specs, images):
    values = {name: torch.from_numpy(formula.make(spec).copy()) for name, spec in specs.items()}
    network.load_state_dict(values, strict=False)
    network.eval()
    x = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        single = network(x).numpy()
        double = network.double()(x.double()).numpy()
    apart = np.abs(single - double).max() / np.abs(double).max()
    if apart > 3e-6:
        raise SystemExit(f"float32 is {apart:.1e} from float64: the case says nothing")
    if np.abs(double[0] - double[1]).max() < 0.001 * np.abs(double).max():
        raise SystemExit("the logits hardly depend on the image: the case says nothing")
    return double.astype(np.float32), apart


def text(items):
    return np.array([np.bytes_(item) for item in items])


def write(file, computed):
    for program, name, ours in NETWORKS:
        group = file.create_group(f"{program}/{name}")
        group.attrs["model"] = np.bytes_(ours)
        published = make(program, name, 1000)
        names = [f"{key} {'x'.join(map(str, value.shape))}"
                 for key, value in published.state_dict().items()
                 if not key.endswith("num_batches_tracked")]
        group.create_dataset("names", data=text(names), compression="gzip", compression_opts=9)
        size = computed.get((program, name))
        if size is None:
            continue
        network = make(program, name, CLASSES)
        if size != 224 and name.startswith(("vgg", "alexnet")):
            without_averaging(program, network, size)
        specs = specs_of(f"{program}/{name}", network)
        images = formula.uniform_spec(f"{program}/{name}/images", (IMAGES, size, size, 3), 1.5)
        logits, apart = logits_of(network, specs, formula.make(images))
        group.create_dataset("specs", data=text(specs.values()), compression="gzip",
                             compression_opts=9)
        group.attrs["images"] = np.bytes_(images)
        group.create_dataset("logits", data=logits)
        print(f"{program} {name}: logits up to {np.abs(logits).max():.3g}, float32 within {apart:.1e}")


def library_file(path):
    """Writes every dtype of weights, and one that they do not have, with the format's library."""
    base = torch.from_numpy(formula.uniform("library", (2, 3), 4.0))
    safetensors.torch.save_file(
        {"double": base.double() / 3, "single": base, "half": base.half(),
         "brain": base.bfloat16(), "count": torch.tensor(7), "empty": torch.zeros(0, 3)},
        path, {"format": "pt"})


def compare(made, stored):
    names = [[], []]
    made.visit(names[0].append)
    stored.visit(names[1].append)
    if names[0] != names[1]:
        raise SystemExit("weights.h5: not the same groups and data sets")
    for name in names[0]:
        if not isinstance(made[name], h5py.Dataset):
            continue
        a, b = made[name][()], stored[name][()]
        same = (np.array_equal(a, b) if a.dtype.kind == "S" else
                np.abs(a - b).max() <= 1e-6 * np.abs(b).max())
        if not same:
            raise SystemExit(f"weights.h5: {name} differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--large", metavar="F")
    arguments = parser.parse_args()
    check = arguments.check
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}")
    if arguments.large:
        with h5py.File(arguments.large, "w", libver="earliest") as file:
            write(file, {(program, name): 224 for program, name, _ in NETWORKS})
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder) if check else HERE
        with h5py.File(at / "weights.h5", "w", libver="earliest") as file:
            write(file, COMPUTED)
        library_file(at / "library.safetensors")
        if check:
            with h5py.File(at / "weights.h5") as made, h5py.File(HERE / "weights.h5") as stored:
                compare(made, stored)
            if (at / "library.safetensors").read_bytes() != (HERE / "library.safetensors").read_bytes():
                raise SystemExit("library.safetensors differs")
        print(f"weights.h5: {(at / 'weights.h5').stat().st_size} bytes")


if __name__ == "__main__":
    main()
