"""The initial weights of our networks and the batches of `trainer bench`, number by number.

A peer that starts from them must have our losses, which shows that both train the same network.
runtime/random.h, engine/store.cc and models/training/generated_batches.cc define these numbers.
Needs NumPy, which comes with every peer.
"""

import math

import numpy as np

BATCHES = 4  # read in turn
MEAN, STD = 0.5, 0.25  # for pixels / 255, as compare.py configures ours
PIECE = 1 << 16  # counters at a time, so that the memory of a process is the peer's


def random_key(seed, name):
    mask = 0xFFFFFFFFFFFFFFFF
    value = 0xCBF29CE484222325 ^ seed
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & mask
    value ^= value >> 32
    return ((value * 0x9E3779B97F4A7C15) & mask) ^ seed


def philox(key, first, count):
    """Returns the words of counters [first, first + count): uint32 [count, 4]."""
    low = np.uint64(0xFFFFFFFF)
    counter = np.arange(first, first + count, dtype=np.uint64)
    c0, c1 = counter & low, counter >> np.uint64(32)
    c2 = c3 = np.zeros(count, np.uint64)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low,
                          (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3), axis=1)


def pieces(key, counters):
    for first in range(0, counters, PIECE):
        yield philox(key, first, min(PIECE, counters - first))


def uniforms(words):
    """Returns numbers in [0, 1), each from two words: float64 [count, 2]."""
    pairs = words.reshape(-1, 2, 2)
    bits = pairs[..., 0] << np.uint64(32) | pairs[..., 1]
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0 ** -53


def normal(seed, name, shape, deviation):
    def made(words):
        u = uniforms(words)
        return deviation * (np.sqrt(-2 * np.log(1 - u[:, 0])) * np.cos(2 * np.pi * u[:, 1]))

    return fill(random_key(seed, name), shape, 1, made)


def uniform(seed, name, shape, bound):
    return fill(random_key(seed, name), shape, 2,
                lambda words: (bound * (2 * uniforms(words) - 1)).ravel())


def fill(key, shape, each, made):
    """Returns float32 of a shape; `made` converts the words of a counter into `each` values."""
    values, at = np.empty(math.prod(shape), np.float32), 0
    for words in pieces(key, -(-values.size // each)):
        part = made(words)[:values.size - at]
        values[at:at + part.size] = part
        at += part.size
    return values.reshape(shape)


def conv_weight(seed, name, outputs, kernel, inputs):
    """[outputs, kernel, kernel, inputs of a group]."""
    return normal(seed, name + ".weight", (outputs, kernel, kernel, inputs),
                  math.sqrt(2 / (kernel * kernel * inputs)))


def linear_weights(seed, name, outputs, inputs):
    """([outputs, inputs], [outputs])."""
    bound = 1 / math.sqrt(inputs)
    return (uniform(seed, name + ".weight", (outputs, inputs), bound),
            uniform(seed, name + ".bias", (outputs,), bound))


def batches(seed, batch, image, classes):
    """Returns [(float32 images [n, h, w, c], int64 labels [n])] for images (h, w, c), by batch."""
    pixels, labels = BATCHES * batch * math.prod(image), BATCHES * batch
    flat, at = np.empty(pixels + 2 * labels, np.uint32), 0
    for words in pieces(seed, -(-flat.size // 4)):
        part = words.ravel()[:flat.size - at]
        flat[at:at + part.size] = part
        at += part.size
    x = (flat[:pixels] & 255).astype(np.float32).reshape(BATCHES, batch, *image)
    x = (x / np.float32(255) - np.float32(MEAN)) / np.float32(STD)
    pairs = flat[pixels:].reshape(-1, 2).astype(np.uint64)
    drawn = pairs[:, 0] << np.uint64(32) | pairs[:, 1]
    if (drawn >= np.uint64(2 ** 64 - 1 - (2 ** 64 - 1) % classes)).any():
        raise ValueError("a label was drawn again; choose another seed")
    y = (drawn % np.uint64(classes)).astype(np.int64).reshape(BATCHES, batch)
    return list(zip(x, y))
