"""The whole way of a user: weights of torchvision and timm come into a training, and `trainer predict`
answers for a picture; against what PyTorch computes with them in float64.

    python predict_peers.py build/release/bin/trainer [NETWORK ...]

The weights are random, statistics of batch norms included; all but the last layer is frozen and that
has a learning rate of 0, so that the training changes nothing. Needs torch, torchvision, timm and
safetensors. Ends with 1 where a logit is off by more than 1e-5 of the largest.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import torchvision
from safetensors.torch import save_file

SIDE, CLASSES, MOST = 96, 10, 1e-5
# Network, whose, and what its last part is called here.
NETWORKS = {"resnet18": ("torchvision", "fc"), "resnet50": ("torchvision", "fc"),
            "densenet121": ("torchvision", "classifier"), "mobilenet_v2": ("torchvision", "classifier"),
            "mobilenet_v3_small": ("torchvision", "classifier"),
            "mobilenet_v3_large": ("torchvision", "classifier"), "regnet_y_400mf": ("torchvision", "fc"),
            "regnet_y_3_2gf": ("torchvision", "fc"), "shufflenet_v2_x1_0": ("torchvision", "fc"),
            "googlenet": ("torchvision", "fc"), "efficientnet_b0": ("timm", "classifier"),
            "efficientnet_b2": ("timm", "classifier"), "efficientnet_b4": ("timm", "classifier"),
            "seresnet18": ("timm", "fc"), "seresnet50": ("timm", "fc"), "convnext_atto": ("timm", "head"),
            "convnext_tiny": ("timm", "head")}


def make(name):
    torch.manual_seed(1)
    if NETWORKS[name][0] == "timm":
        model = timm.create_model(name, num_classes=CLASSES)
    else:
        more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        model = torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **more)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.8, 1.2)
            module.bias.data.normal_(0, 0.1)
    return model.eval()


def run(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def answered(trainer, folder, name, model, picture):
    """Our logits."""
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "m.safetensors")
    torchvision.io.write_png(picture, str(folder / "p.png"))
    (folder / "c.yaml").write_text(
        f"model: {{name: {name}, weights: m.safetensors, classes: {CLASSES}}}\n"
        f"data: {{name: synthetic, image_size: {SIDE}, batch: 8, train_count: 8, test_count: 8,\n"
        "  mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}\n"
        f"optimizer: {{name: sgd, lr: 0}}\ntrain: {{steps: 1, freeze_all_but: [{NETWORKS[name][1]}]}}\n"
        "run: {dir: run}\n", encoding="utf-8")
    run(folder, trainer, "--config", "c.yaml")
    told = json.loads(run(folder, trainer, "predict", "--run", "run", "--json", "p.png"))
    return torch.tensor(told["images"][0]["logits"], dtype=torch.float64)


def main():
    trainer = str(pathlib.Path(sys.argv[1]).resolve())
    worst = 0.0
    for name in sys.argv[2:] or NETWORKS:
        model = make(name)
        picture = torch.randint(0, 256, (3, SIDE, SIDE), dtype=torch.uint8)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            ours = answered(trainer, pathlib.Path(folder), name, model, picture)
            x = ((picture.double() / 255 - 0.5) / 0.25)[None]
            theirs = model(x.float())[0].double()
            wanted = model.double()(x)[0]
        off = [float((logits - wanted).abs().max() / wanted.abs().max()) for logits in (ours, theirs)]
        print(f"{NETWORKS[name][0]} {name}: off by {off[0]:.1e} of the largest logit, PyTorch in float32 by "
              f"{off[1]:.1e}", flush=True)
        worst = max(worst, off[0])
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
