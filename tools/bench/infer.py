"""Compares the inference of our frozen network with PyTorch's, ONNX Runtime's and OpenVINO's, in turn.

    python infer.py --trainer build/release/bin/trainer --network resnet18

Needs torch, torchvision, onnx, onnxscript, onnxruntime and openvino. One image at a time, on two
threads. A run folder is made with one training step, and its weights go to the peers through
`trainer export`: all must produce the logits of `trainer predict` for one picture, those in bf16
nearly. ONNX Runtime and OpenVINO read the file that PyTorch exports; "our export" is ours. Each
round then runs one process of ours and some calls of every peer; the result is peer / ours of the
medians over the rounds.
"""

import argparse
import copy
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
import openvino
import torch
import torch._inductor.config
import torchvision

SIDE, THREADS = 224, 2
SAME, SAME_BF16 = 1e-4, 5e-2  # relative to the largest logit


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def picture(path):
    rows = torch.randint(0, 256, (3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    torchvision.io.write_png(rows, str(path))
    return rows


def make_run(trainer, network, folder):
    config = folder / "c.yaml"
    config.write_text(f"model: {{name: {network}, classes: 1000}}\n"
                      f"data: {{name: synthetic, image_size: {SIDE}, batch: 4, train_count: 64, test_count: 8,\n"
                      "  mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}\n"
                      f"optimizer: {{name: sgd, lr: 0.001}}\ntrain: {{steps: 1}}\n"
                      f"threads: {THREADS}\nrun: {{dir: {folder / 'run'}}}\n", encoding="utf-8")
    run(trainer, "--config", config)
    run(trainer, "export", "--run", folder / "run", "-o", folder / "m.safetensors")
    run(trainer, "export", "--run", folder / "run", "-o", folder / "m.onnx", "--batch", 1)
    return config


def torch_network(network, path):
    from safetensors.torch import load_file
    model = torchvision.models.get_model(network)
    model.load_state_dict(load_file(path))
    return model.eval()


def peers(network, folder, x):
    """Returns {name: function that computes the logits of x}."""
    model = torch_network(network, folder / "m.safetensors")
    last = copy.deepcopy(model).to(memory_format=torch.channels_last)
    x_last = x.contiguous(memory_format=torch.channels_last)
    torch._inductor.config.freezing = True
    compiled, compiled_last = torch.compile(model), torch.compile(last)
    torch.onnx.export(model, (x,), str(folder / "torch.onnx"), dynamo=True, verbose=False)
    values = x.numpy()
    return {"eager": lambda: model(x), "channels_last": lambda: last(x_last), "compile": lambda: compiled(x),
            "compile_channels_last": lambda: compiled_last(x_last),
            "onnxruntime": onnx_runtime(folder / "torch.onnx", values),
            "onnxruntime, our export": onnx_runtime(folder / "m.onnx", values),
            "openvino": open_vino(folder / "torch.onnx", values, "f32"),
            "openvino bf16": open_vino(folder / "torch.onnx", values, "bf16")}


def onnx_runtime(path, values):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(path), options)
    name = session.get_inputs()[0].name
    return lambda: torch.from_numpy(session.run(None, {name: values})[0])


def open_vino(path, values, precision):
    model = openvino.compile_model(str(path), "CPU", {
        "INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"})
    request = model.create_infer_request()
    return lambda: torch.from_numpy(request.infer([values])[0].copy())


def check(all_peers, wanted):
    for name, peer in list(all_peers.items()):
        error = float((peer()[0] - wanted).abs().max() / wanted.abs().max())
        print(f"{name}: logits differ by {error:.1e} of the largest")
        if error > (SAME_BF16 if "bf16" in name else SAME):
            print(f"{name} is left out: its logits differ too much")
            del all_peers[name]


def milliseconds(call, calls):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, required=True)
    parser.add_argument("--network", default="resnet18", help="a network that torchvision has too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20)
    arguments = parser.parse_args()
    trainer = arguments.trainer.resolve()
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        folder = pathlib.Path(name)
        config = make_run(trainer, arguments.network, folder)
        pixels = picture(folder / "p.png")
        x = ((pixels.float() / 255 - 0.5) / 0.25)[None]
        told = json.loads(run(trainer, "predict", "--run", folder / "run", "--json", folder / "p.png"))
        all_peers = peers(arguments.network, folder, x)
        check(all_peers, torch.from_numpy(numpy.array(told["images"][0]["logits"], dtype=numpy.float32)))
        found = {name: [] for name in ("ours", *all_peers)}
        for _ in range(arguments.rounds):
            ours = json.loads(run(trainer, "bench", "--infer", "--json", "--config", config, "--steps",
                                  arguments.calls, "data.batch=1"))
            found["ours"].append(ours["p50_ms"])
            for name, peer in all_peers.items():
                milliseconds(peer, 3)
                found[name].append(milliseconds(peer, arguments.calls))
        own = statistics.median(found["ours"])
        for name, times in found.items():
            middle = statistics.median(times)
            print(f"{name:24}{middle:8.2f} ms  (lowest {min(times):.2f}, highest {max(times):.2f})  {middle / own:.2f}x")


if __name__ == "__main__":
    main()
