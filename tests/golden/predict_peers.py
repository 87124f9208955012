"""A whole workflow: a training loads weights of torchvision and timm, `trainer predict` computes logits
of a picture, and `trainer export` writes the weights and the network as ONNX. All are compared with
PyTorch's results in float64.

    python predict_peers.py build/release/bin/trainer [NETWORK ...]
    python predict_peers.py build/release/bin/trainer --times [NETWORK ...]    # of ONNX files, ours and PyTorch's

The weights and the statistics of batch norms are random. The training changes nothing, because all
layers but the last are frozen and the last has a learning rate of 0. PyTorch must load the exported
weights strictly and find its own; the ONNX file must pass the checker. Needs torch, torchvision, timm,
safetensors, onnx, onnxruntime and, for --times, onnxscript. Exits with 1 if a logit is off by more than
1e-5 of the largest, or if onnxruntime takes more than 1.03 of the processor time that it takes for
PyTorch's file: one image of 224 x 224 on one thread, the median of alternating runs.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import onnx
import onnxruntime
import timm
import torch
import torchvision
from safetensors.torch import load_file, save_file

CLASSES, MOST = 10, 1e-5
TIMED, MOST_TIME, RUNS = ["mobilenet_v2", "resnet18", "resnet50", "efficientnet_b0", "densenet121"], 1.03, 101
# Networks by the library whose weights they use and by our name of their last layer.
NETWORKS = {
    ("torchvision", "fc"): ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "googlenet",
                            *(f"shufflenet_v2_x{width}" for width in ("0_5", "1_0", "1_5", "2_0")),
                            *(f"regnet_y_{size}" for size in ("400mf", "800mf", "1_6gf", "3_2gf"))],
    ("torchvision", "classifier"): ["densenet121", "mobilenet_v2", "mobilenet_v3_small",
                                    "mobilenet_v3_large"],
    ("torchvision", "classifier.6"): ["alexnet", *(f"vgg{depth}_bn" for depth in (11, 13, 16, 19))],
    ("timm", "classifier"): [f"efficientnet_b{size}" for size in range(5)],
    ("timm", "fc"): ["seresnet18", "seresnet50"],
    ("timm", "head"): [f"convnext_{size}" for size in ("atto", "femto", "pico", "nano", "tiny")]}
PLACES = {name: place for place, names in NETWORKS.items() for name in names}


def side_of(name):
    """Returns the image side; networks that average to 7x7 or 6x6 pixels use their original size."""
    return 224 if name.startswith(("vgg", "alexnet")) else 96


def library_model(library, name):
    if library == "timm":
        return timm.create_model(name, num_classes=CLASSES)
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **more)


def make(name):
    torch.manual_seed(1)
    model = library_model(PLACES[name][0], name)
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


def take_weights(trainer, folder, name, model, side):
    """Makes the run folder `run` with the weights of the model."""
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "m.safetensors")
    (folder / "c.yaml").write_text(
        f"model: {{name: {name}, weights: m.safetensors, classes: {CLASSES}}}\n"
        f"data: {{name: synthetic, image_size: {side}, batch: 8, train_count: 8, test_count: 8,\n"
        "  mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}\n"
        f"optimizer: {{name: sgd, lr: 0}}\ntrain: {{steps: 1, freeze_all_but: [{PLACES[name][1]}]}}\n"
        "run: {dir: run}\n", encoding="utf-8")
    run(folder, trainer, "--config", "c.yaml")


def answered(trainer, folder, name, model, picture):
    """Returns our logits."""
    take_weights(trainer, folder, name, model, side_of(name))
    torchvision.io.write_png(picture, str(folder / "p.png"))
    told = json.loads(run(folder, trainer, "predict", "--run", "run", "--json", "p.png"))
    return torch.tensor(told["images"][0]["logits"], dtype=torch.float64)


def exported(trainer, folder, name, x):
    """Returns the ONNX file's logits, and those of torchvision's network, if any, in float64."""
    for file in ("out.safetensors", "out.onnx"):
        run(folder, trainer, "export", "--run", "run", "-o", file)
    known = name in torchvision.models.list_models() and not name.startswith("convnext")
    model = library_model("torchvision" if known else "timm", name)
    weights = load_file(folder / "out.safetensors")
    counts = {key: value for key, value in model.state_dict().items() if key.endswith("num_batches_tracked")}
    model.load_state_dict({**counts, **weights}, strict=True)
    onnx.checker.check_model(str(folder / "out.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "out.onnx"), providers=["CPUExecutionProvider"])
    told = torch.from_numpy(session.run(None, {"images": x.float().numpy()})[0][0]).double()
    return told, model.eval().double()(x)[0]


def compare_times(trainer, names):
    """Returns whether each takes at most MOST_TIME of the time of PyTorch's file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    image, fast = torch.randn(1, 3, 224, 224), True
    for name in names:
        model = make(name)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            folder = pathlib.Path(folder)
            take_weights(trainer, folder, name, model, 224)
            run(folder, trainer, "export", "--run", "run", "-o", "ours.onnx")
            torch.onnx.export(model, (image,), folder / "theirs.onnx", input_names=["images"], dynamo=True)
            sessions = [onnxruntime.InferenceSession(str(folder / file), options, providers=["CPUExecutionProvider"])
                        for file in ("ours.onnx", "theirs.onnx")]
        taken = [[], []]
        for k in range(5 + RUNS):
            for session, times in zip(sessions, taken):
                start = time.process_time()
                session.run(None, {"images": image.numpy()})
                if k >= 5:
                    times.append(time.process_time() - start)
        ours, theirs = (statistics.median(times) * 1000 for times in taken)
        print(f"{name}: {ours:.2f} ms, PyTorch's file {theirs:.2f} ms, {ours / theirs:.3f} of it", flush=True)
        fast = fast and ours <= MOST_TIME * theirs
    return fast


def main():
    trainer = str(pathlib.Path(sys.argv[1]).resolve())
    if "--times" in sys.argv:
        sys.exit(not compare_times(trainer, sys.argv[3:] or TIMED))
    worst = 0.0
    for name in sys.argv[2:] or PLACES:
        model = make(name)
        picture = torch.randint(0, 256, (3, side_of(name), side_of(name)), dtype=torch.uint8)
        x = ((picture.double() / 255 - 0.5) / 0.25)[None]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            folder = pathlib.Path(folder)
            ours = answered(trainer, folder, name, model, picture)
            onnx_file, again = exported(trainer, folder, name, x)
            theirs = model(x.float())[0].double()
            wanted = model.double()(x)[0]
        off = [float((logits - wanted).abs().max() / wanted.abs().max()) for logits in (ours, onnx_file, theirs)]
        print(f"{PLACES[name][0]} {name}: off by {off[0]:.1e} of the largest logit, its ONNX file by {off[1]:.1e}, "
              f"PyTorch in float32 by {off[2]:.1e}", flush=True)
        if (again - wanted).abs().max() > 1e-12 * wanted.abs().max():
            sys.exit(f"{name}: the exported weights are not those that were given")
        worst = max(worst, *off[:2])
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
