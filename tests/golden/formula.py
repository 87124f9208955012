"""Inputs of the golden cases, computed from a formula instead of stored: see formula.h.

Both files give the same bits; `python formula.py` proves it by building a small C++ program
(compiler: $CXX, else c++) and comparing a few thousand elements.
"""

import os
import pathlib
import subprocess
import tempfile

import numpy as np


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def hashes(name, count):
    """Returns uint64[count]: splitmix64(fnv1a64(name) + i)."""
    with np.errstate(over="ignore"):
        x = np.uint64(fnv1a64(name)) + np.arange(count, dtype=np.uint64)
        x += np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform(name, shape, scale, offset=0.0):
    """Returns a float32 array of `shape` in [offset - scale, offset + scale)."""
    u = (hashes(name, int(np.prod(shape, dtype=np.int64))) >> np.uint64(11)) * 2.0**-53
    values = (float(scale) * (2 * u - 1)).astype(np.float32) + np.float32(offset)
    return values.reshape(shape)


def integers(name, shape, bound):
    """Returns an int64 array of `shape` in [0, bound)."""
    values = hashes(name, int(np.prod(shape, dtype=np.int64))) % np.uint64(bound)
    return values.astype(np.int64).reshape(shape)


def _extents(shape):
    return "x".join(map(str, shape)) if len(shape) else "scalar"


def uniform_spec(name, shape, scale=1.0, offset=0.0):
    return f"uniform:{name}:{float(scale)!r}:{float(offset)!r}:{_extents(shape)}"


def integers_spec(name, shape, bound):
    return f"integers:{name}:{bound}:{_extents(shape)}"


def make(spec):
    """Returns the array that a spec names."""
    kind, name, *numbers, extents = spec.split(":")
    shape = () if extents == "scalar" else tuple(map(int, extents.split("x")))
    if kind == "uniform":
        return uniform(name, shape, float(numbers[0]), float(numbers[1]))
    if kind == "integers":
        return integers(name, shape, int(numbers[0]))
    raise ValueError(f"not a tensor spec: {spec}")


SAMPLES = {
    "plain": uniform_spec("formula/plain", (257,)),
    "shifted": uniform_spec("formula/shifted", (5, 7, 3), scale=0.30618621784789724, offset=1.5),
    "labels": integers_spec("formula/labels", (101,), 10),
    "bytes": integers_spec("formula/bytes", (3, 33), 256),
}

_PROGRAM = r"""
#include <cstdio>
#include "formula.h"
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const tessera::golden::Spec spec = tessera::golden::parse_spec(argv[i]);
    if (spec.is_integer)
      for (long long v : tessera::golden::integers(spec)) std::printf("%lld\n", v);
    else
      for (float v : tessera::golden::floats(spec)) std::printf("%a\n", static_cast<double>(v));
  }
}
"""


def compare_with_cpp():
    """Returns the number of elements compared; raises if Python and C++ differ in one bit."""
    specs = list(SAMPLES.values()) + [
        uniform_spec("a", (40, 50), scale=(6 / 27) ** 0.5, offset=-0.1),
        uniform_spec("long/name.with-marks_2", (), scale=1e-3),
        integers_spec("b", (1999,), 1000),
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "formula.cc"), pathlib.Path(folder, "formula")
        source.write_text(_PROGRAM)
        here = pathlib.Path(__file__).parent
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O3", "-march=native", "-Wall",
                        "-Wextra", "-Wpedantic", "-Werror", f"-I{here}", source, "-o", program],
                       check=True)
        lines = subprocess.run([program, *specs], check=True, capture_output=True, text=True)
    theirs = [float.fromhex(v) if "x" in v else float(v) for v in lines.stdout.split()]
    ours = np.concatenate([make(spec).ravel().astype(np.float64) for spec in specs])
    if not np.array_equal(ours, np.array(theirs)):
        raise SystemExit("formula.h and formula.py differ")
    return len(ours)


if __name__ == "__main__":
    print(f"formula.h == formula.py on {compare_with_cpp()} elements")
