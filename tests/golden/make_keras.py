"""Makes keras.weights.h5, as Keras 3 saves the weights of a small network, and keras_logits.h5, what the
network makes of two images. The same weights in the older form: keras_model.h5, as model.save("x.h5")
still writes it, with texts of variable length, and keras_2.h5, as Keras 2 saved weights, with texts of a
fixed length, ":0" behind each name, and the long list of layers in parts.

    python make_keras.py             write the files beside this script
    python make_keras.py --applications DIR    networks of keras.applications that we have too, with weights of
                                     formula.py, and their logits, for TESSERA_KERAS_APPLICATIONS=DIR
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
    """Returns the network of keras_layers() in tests/models/run/keras_test.cc."""
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


# Names of weights in Keras 2 that Keras 3 has changed.
OLDER_NAMES = {("DepthwiseConv2D", "kernel"): "depthwise_kernel"}


def save_as_keras_2(model, path):
    """Saves like save_weights_to_hdf5_group() of Keras 2.15, which however splits lists only above 64 KiB."""
    names = np.array([layer.name.encode() for layer in model.layers])
    with h5py.File(path, "w", libver="earliest") as file:
        for part, some in enumerate(np.array_split(names, 2)):
            file.attrs[f"layer_names{part}"] = some
        file.attrs["backend"] = b"tensorflow"
        file.attrs["keras_version"] = b"2.15.0"
        for layer in model.layers:
            group = file.create_group(layer.name)
            weights = {}
            for weight in layer.weights:
                leaf = OLDER_NAMES.get((type(layer).__name__, weight.name), weight.name)
                weights[f"{layer.name}/{leaf}:0".encode()] = np.asarray(weight)
            group.attrs["weight_names"] = np.array(list(weights)) if weights else []
            for name, value in weights.items():
                group.create_dataset(name, value.shape, value.dtype)[...] = value
        file.create_group("top_level_model_weights").attrs["weight_names"] = []


# Networks whose weights ours can read (models/zoo/names/name_tables.cc).
APPLICATIONS = {"DenseNet121": "densenet121"}


def write_application(name, folder):
    """Writes weights with small variances, so that another eps changes the logits."""
    side = 64
    images = formula.uniform_spec(f"{name}/images", (2, side, side, 3), 1.5)
    model = getattr(keras.applications, name)(weights=None)
    for layer in model.layers:
        values = []
        for weight in layer.weights:
            shape, spec = tuple(weight.shape), f"{name}/{layer.name}/{weight.name}"
            scale = {"gamma": 0.5, "moving_variance": 0.5}.get(weight.name, 0.1)
            if weight.name == "kernel":
                scale = (3 / np.prod(shape[:-1])) ** 0.5
            value = formula.uniform(spec, shape, scale, 1.0 if scale == 0.5 else 0.0)
            values.append(value * 1e-5 if weight.name == "moving_variance" and layer.name == "bn" else value)
        layer.set_weights(values)
    model.save(folder / f"{name}.h5")
    any_size = getattr(keras.applications, name)(weights=None, include_top=False, pooling="avg",
                                                 input_shape=(side, side, 3))
    any_size.set_weights(model.get_weights()[:-2])
    kernel, bias = model.get_weights()[-2:]
    expected = np.asarray(any_size.predict(formula.make(images), verbose=0), dtype=np.float64) @ kernel + bias
    with h5py.File(folder / f"{name}_logits.h5", "w", libver="earliest") as file:
        file.attrs["images"] = np.bytes_(images)
        file.attrs["model"] = np.bytes_(APPLICATIONS[name])
        file["logits"] = expected
    print(f"{name}: logits up to {np.abs(expected).max():.3g}")


def logits(model):
    return np.asarray(model.predict(formula.make(IMAGES), verbose=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load", metavar="F")
    parser.add_argument("--applications", metavar="DIR", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.applications:
        for name in APPLICATIONS:
            write_application(name, arguments.applications)
        return
    load = arguments.load
    model = network()
    set_weights(model)
    expected = logits(model)
    model.save_weights(HERE / "keras.weights.h5")
    model.save(HERE / "keras_model.h5")
    save_as_keras_2(model, HERE / "keras_2.h5")
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
