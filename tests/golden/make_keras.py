"""Makes keras.weights.h5, as Keras 3 saves the weights of a small network, and keras_logits.h5, what the
network makes of two images.

    python make_keras.py             write both files beside this script
    python make_keras.py --load F    also: what the network computes with the weights of F

Needs keras 3 with torch, h5py and numpy. Weights and images are made by formula.py.
"""

import argparse
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"

import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

import formula  # noqa: E402

HERE = pathlib.Path(__file__).parent
IMAGES = formula.uniform_spec("keras/images", (2, 10, 8, 3), 1.5)


def network():
    """That of keras_layers() in tests/models/run/keras_test.cc."""
    return keras.Sequential([
        keras.Input((10, 8, 3)),
        layers.Conv2D(6, 3, padding="same", groups=3),
        layers.LayerNormalization(),
        layers.DepthwiseConv2D(3),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(4, (3, 3), use_bias=False),
        layers.Flatten(),
        layers.Dense(5, name="a_name_of_its_own"),
        layers.Dense(10),
    ])


def set_weights(model):
    for place, layer in enumerate(model.layers):
        values = []
        for weight in layer.weights:
            shape, name = tuple(weight.shape), f"keras/{place}/{weight.name}"
            positive = weight.name in ("gamma", "moving_variance")
            values.append(formula.uniform(name, shape, 0.5, 1.0 if positive else 0.0))
        layer.set_weights(values)


def logits(model):
    return np.asarray(model.predict(formula.make(IMAGES), verbose=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load", metavar="F")
    load = parser.parse_args().load
    model = network()
    set_weights(model)
    expected = logits(model)
    model.save_weights(HERE / "keras.weights.h5")
    with h5py.File(HERE / "keras_logits.h5", "w", libver="earliest") as file:
        file.attrs["images"] = np.bytes_(IMAGES)
        file["logits"] = expected
    print(f"keras {keras.__version__}: logits up to {np.abs(expected).max():.3g}")
    if load:
        other = network()
        other.load_weights(load)
        apart = np.abs(logits(other) - expected).max() / np.abs(expected).max()
        print(f"{load}: logits within {apart:.1e}")


if __name__ == "__main__":
    main()
