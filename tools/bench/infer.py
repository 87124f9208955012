"""Compares the inference of our frozen network with PyTorch's, ONNX Runtime's, OpenVINO's and ncnn's, in turn.

    python infer.py --trainer build/release/bin/trainer --network resnet18

Needs torch, torchvision, onnx, onnxscript, onnxruntime and openvino; for the peer ncnn also ncnn and
pnnx. One image at a time or batches (not ncnn), on two threads. A run folder is made with one training step, and its weights go to the peers through
`trainer export`: all must produce the logits of `trainer predict` for one picture, those in bf16
nearly. ONNX Runtime and OpenVINO read the file that PyTorch exports; "our export" is ours. Peers
have a process each that lives through all rounds, so that rounds are short and many: other users of
a host come and go within seconds. Each round runs a process of ours in each precision and lets
every peer compute once; the result is the median over the rounds of peer / ours in the same round,
of bf16 peers over ours in bf16.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
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


def make_run(trainer, network, folder, batch):
    config = folder / "c.yaml"
    config.write_text(f"model: {{name: {network}, classes: 1000}}\n"
                      f"data: {{name: synthetic, image_size: {SIDE}, batch: 4, train_count: 64, test_count: 8,\n"
                      "  mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}\n"
                      f"optimizer: {{name: sgd, lr: 0.001}}\ntrain: {{steps: 1}}\n"
                      f"threads: {THREADS}\nrun: {{dir: {folder / 'run'}}}\n", encoding="utf-8")
    run(trainer, "--config", config)
    run(trainer, "export", "--run", folder / "run", "-o", folder / "m.safetensors")
    run(trainer, "export", "--run", folder / "run", "-o", folder / "m.onnx", "--batch", batch)
    return config


def torch_network(network, path):
    from safetensors.torch import load_file
    model = torchvision.models.get_model(network)
    model.load_state_dict(load_file(path))
    return model.eval()


PEERS = ("eager", "channels_last", "compile", "compile_channels_last", "onnxruntime",
         "onnxruntime, our export", "openvino", "openvino bf16", "ncnn")


def export_torch(network, folder, batch):
    torch.onnx.export(torch_network(network, folder / "m.safetensors"), (torch.zeros(batch, 3, SIDE, SIDE),),
                      str(folder / "torch.onnx"), dynamo=True, verbose=False)


def peer_of(name, network, folder, x):
    """Returns a function that computes the logits of x."""
    if name.startswith("onnxruntime"):
        return onnx_runtime(folder / ("m.onnx" if "our" in name else "torch.onnx"), x.numpy())
    if name.startswith("openvino"):
        return open_vino(folder / "torch.onnx", x.numpy(), "bf16" if "bf16" in name else "f32")
    model = torch_network(network, folder / "m.safetensors")
    if name == "ncnn":
        return ncnn_network(model, folder, x)
    if name.endswith("channels_last"):
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if name.startswith("compile"):
        torch._inductor.config.freezing = True
        model = torch.compile(model)
    return lambda: model(x)


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


def ncnn_network(model, folder, x):
    import ncnn
    import pnnx
    if len(x) != 1:
        sys.exit("ncnn computes one image at a time; leave it out of --peers")
    pnnx.export(model, str(folder / "model.pt"), x, fp16=False)
    network = ncnn.Net()
    options = network.opt
    options.num_threads = THREADS
    options.use_fp16_storage = options.use_fp16_packed = options.use_fp16_arithmetic = False
    network.load_param(str(folder / "model.ncnn.param"))
    network.load_model(str(folder / "model.ncnn.bin"))
    image = x[0].numpy().copy()

    def call():
        extractor = network.create_extractor()
        extractor.input(network.input_names()[0], ncnn.Mat(image))
        return torch.from_numpy(numpy.array(extractor.extract(network.output_names()[0])[1])).reshape(1, -1)

    return call


def milliseconds(call, calls):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def read_picture(path):
    return ((torchvision.io.read_image(str(path)).float() / 255 - 0.5) / 0.25)[None]


def measure_peer(arguments):
    """Prints the logits of one peer and, for each line of standard input, its time. It has a process of
    its own, as the threads of two libraries would wait for work on the same cores."""
    x = read_picture(arguments.folder / "p.png").repeat(arguments.batch, 1, 1, 1)
    call = peer_of(arguments.peer, arguments.network, arguments.folder, x)
    print(json.dumps(call()[0].tolist()), flush=True)
    milliseconds(call, 3)
    for _ in sys.stdin:
        print(milliseconds(call, arguments.calls), flush=True)


class Peer:
    def __init__(self, name, arguments, folder, wanted):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--network", arguments.network, "--calls", str(arguments.calls), "--batch",
             str(arguments.batch), "--peer", name, "--folder", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        while line and not line.startswith("["):  # what the libraries say
            line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{name}: the peer ended, as it says above")
        error = float((torch.tensor(json.loads(line)) - wanted).abs().max() / wanted.abs().max())
        if error > (SAME_BF16 if "bf16" in name else SAME):
            sys.exit(f"{name}: logits differ by {error:.1e} of the largest")

    def time(self):
        print(file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path)
    parser.add_argument("--network", default="resnet18", help="a network that torchvision has too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--peers", help="separated by ;")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)  # for its process
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peers is None:
        arguments.peers = ";".join(PEERS[:-1] if arguments.batch > 1 else PEERS)
    return arguments


def time_ours(arguments, trainer, config, precision):
    told = json.loads(run(trainer, "bench", "--infer", "--json", "--config", config, "--steps", arguments.calls,
                          f"data.batch={arguments.batch}", f"precision={precision}",
                          f"model.weights={config.parent / 'm.safetensors'}"))
    return told["p50_ms"] if arguments.batch == 1 else 1000 * arguments.batch / told["images_per_second"]


def compare(arguments, folder):
    trainer = arguments.trainer.resolve()
    config = make_run(trainer, arguments.network, folder, arguments.batch)
    picture(folder / "p.png")
    export_torch(arguments.network, folder, arguments.batch)
    told = json.loads(run(trainer, "predict", "--run", folder / "run", "--json", folder / "p.png"))
    wanted = torch.tensor(told["images"][0]["logits"])
    peers = {name: Peer(name, arguments, folder, wanted) for name in arguments.peers.split(";")}
    ours = {"ours": "float32", "ours bf16": "bf16"}
    found = {name: [] for name in (*ours, *peers)}
    for _ in range(arguments.rounds):
        for name, times in found.items():
            times.append(time_ours(arguments, trainer, config, ours[name]) if name in ours else peers[name].time())
    for peer in peers.values():
        peer.close()
    for name, times in found.items():
        own = found["ours bf16" if "bf16" in name else "ours"]
        ratios = sorted(peer / mine for peer, mine in zip(times, own))
        quarter = len(ratios) // 4
        print(f"{name:24}{statistics.median(times):8.2f} ms  (lowest {min(times):.2f}, highest {max(times):.2f})  "
              f"{statistics.median(ratios):.2f}x  (half of the rounds {ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})")


def main():
    arguments = parse()
    torch.set_num_threads(THREADS)
    with torch.inference_mode():
        if arguments.peer:
            return measure_peer(arguments)
        with tempfile.TemporaryDirectory() as name:
            compare(arguments, pathlib.Path(name))


if __name__ == "__main__":
    main()
