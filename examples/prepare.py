"""Prints what a network is given for a picture, made by Pillow from what travels with the weights:
`inference` in a run's inference.json or in the metadata of .safetensors and .onnx.

    python prepare.py runs/run/inference.json photo.jpg
"""
import json
import pathlib
import struct
import sys

import numpy as np
from PIL import Image


def inference_of(path):
    data = pathlib.Path(path).read_bytes()
    if path.endswith(".safetensors"):
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        return json.loads(header["__metadata__"]["inference"])
    if path.endswith(".onnx"):
        import onnx
        return json.loads({entry.key: entry.value for entry in onnx.load(path).metadata_props}["inference"])
    return json.loads(data)


def pixels_of(path, about):
    """uint8 [height, width, channels]"""
    how = about["input"]["picture"]
    assert how["resize"]["filter"] == "bilinear" and how["resize"]["antialias"] and how["jpeg_scale"] == 1
    image = Image.open(path)
    turn = image.getexif().get(0x0112, 1) if how["exif_orientation"] else 1
    if image.mode.startswith("I"):  # 16 bits: the upper eight
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    image = image.convert("RGB").convert("L" if about["input"]["channels"] == 1 else "RGB")
    shown = image.size[::-1] if turn >= 5 else image.size
    (rows, columns), (height, width) = how["resize"]["cover"], how["crop"]["size"]
    if shown[1] * columns <= shown[0] * rows:
        size = max(rows * shown[0] // shown[1], columns), rows
    else:
        size = columns, max(columns * shown[1] // shown[0], rows)
    stored = size[::-1] if turn >= 5 else size
    for step in (stored[0], image.height), stored:  # along rows first, which Pillow 13 decides by itself
        image = image.resize(step, Image.Resampling.BILINEAR)
    if turn in range(2, 9):  # FLIP_LEFT_RIGHT, ROTATE_180, ...
        image = image.transpose([0, 3, 1, 5, 4, 6, 2][turn - 2])
    left, top = round((size[0] - width) / 2), round((size[1] - height) / 2)
    return np.asarray(image.crop((left, top, left + width, top + height))).reshape(height, width, -1)


def input_of(path, about):
    """float32 [1, channels, height, width]"""
    mean, std = (np.array(about["normalization"][name], np.float32) for name in ("mean", "std"))
    return ((pixels_of(path, about) / np.float32(255) - mean) / std).transpose(2, 0, 1)[None]


if __name__ == "__main__":
    print(input_of(sys.argv[2], inference_of(sys.argv[1])))
