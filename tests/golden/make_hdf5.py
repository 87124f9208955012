"""Makes hdf5/*.h5: data sets as h5py, PyTables, MATLAB and Keras write them, for the tests of the reader.

    python make_hdf5.py          write them; needs h5py, numpy and tables

Image i, row y, column x, channel c has the value pixel(i, y, x, c) wherever nothing else is said; its
label is i % 3. tests/models/data/sets/hdf5_set_test.cc has both formulas.
"""

import pathlib
import struct

import h5py
import numpy as np
import tables

HERE = pathlib.Path(__file__).parent / "hdf5"
N, H, W = 12, 6, 5
NAMES = ["ant", "bee", "Käfer"]


def pixels(channels=3, count=N, first=0):
    """Returns uint8 [count, H, W, channels]."""
    i, y, x, c = np.ogrid[first:first + count, :H, :W, :channels]
    return ((7 * i + 13 * y + 29 * x + 101 * c) % 256).astype(np.uint8)


def labels(count=N):
    return np.arange(count) % 3


def shapes_and_names(file):
    rgb, gray, names = pixels(), pixels(1)[..., 0], NAMES
    file["y"] = labels()
    chunked = {"chunks": (5, 4, 2, 2), "compression": "gzip", "shuffle": True, "fletcher32": True}
    file.create_dataset("plain", data=rgb)
    file.create_dataset("chunked", data=rgb, **chunked)
    file.create_dataset("unfiltered", data=rgb, chunks=(5, 6, 5, 3))
    file.create_dataset("gzip_of_int16", data=rgb.astype(">i2"), **chunked)
    file.create_dataset("deep/er/still/chw", data=rgb.transpose(0, 3, 1, 2), chunks=(4, 3, 6, 5), compression=9)
    file.create_dataset("gray", data=gray, chunks=(1, 6, 5), compression="gzip")
    file["names/variable"] = names
    file["names/fixed"] = np.array([name.encode() for name in names])
    file["names/lines"] = "\n".join(names)
    padded = h5py.h5t.C_S1.copy()
    padded.set_size(5)
    padded.set_strpad(h5py.h5t.STR_SPACEPAD)  # as Fortran writes them
    made = h5py.h5d.create(file.id, b"names/spaces", padded, h5py.h5s.create_simple((3,)))
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"ant  ", b"bee\x1b ", b"c    "]), padded)
    file["names/numbers"] = labels()[:3]
    file.create_dataset("names/gzip", data=[name.encode() for name in names], chunks=(3,), compression="gzip")
    file["names"].attrs["ascii"] = np.array([b"a", b"b", b"c"])
    file["names"].attrs["two"] = ["a", "b"]
    for split, count in (("train", N), ("test", 4)):
        file.create_dataset(f"sets/{split}/pictures", data=pixels(count=count), chunks=(4, 6, 5, 3), compression=4)
        file[f"sets/{split}/kind"] = labels(count).astype("uint8")
        file[f"{split}_x"] = pixels(count=count)
        file[f"{split}_y"] = labels(count)
    file["only/train/x"], file["only/train/y"] = pixels(), labels()
    file["only/val/x"], file["only/val/y"] = pixels(count=5), labels(5)
    file["narrow/train/x"], file["narrow/test/x"] = pixels(), pixels()[:, :, :4]
    file["narrow/train/y"], file["narrow/test/y"] = labels(), labels()


def types(file):
    rgb = pixels()
    for name in ("float16", ">f2", "float32", ">f4", "float64", ">f8"):
        made = (rgb / 255).astype(name)
        file.create_dataset("floats/" + name.replace(">", "big_"), data=made, chunks=(3, 6, 5, 3), shuffle=True,
                            compression="gzip")
    for name in ("int8", "uint16", ">u2", "int32", ">i4", "uint32", "int64", "uint64"):
        file.create_dataset("whole/" + name.replace(">", "big_"), data=(rgb // 2).astype(name), shuffle=True,
                            chunks=(5, 6, 5, 3), compression="gzip")
    file.create_dataset("uint16_full", data=rgb.astype("uint16") * 257, chunks=(6, 6, 5, 3), compression="gzip")
    file.create_dataset("signed_floats", data=(rgb / 127.5 - 1).astype("float32"))
    file.create_dataset("mask", data=rgb[..., 0] % 2 == 1)
    wrong = rgb.astype("int16")
    wrong[7, 2, 1, 0] = 300
    file.create_dataset("wrong", data=wrong, chunks=(4, 6, 5, 3))
    nan = (rgb / 255).astype("float32")
    nan[3, 0, 0, 1] = np.nan
    file.create_dataset("nan", data=nan)

    file["y/int64"] = labels()
    file["y/int64"].attrs["class_names"] = NAMES
    for name in ("uint8", "int8", ">i2", "uint16", ">u4", "int32", "uint64", "float32"):
        file["y/" + name.replace(">", "big_")] = labels().astype(name)
    file.create_dataset("y/column", data=labels()[:, None].astype("int32"), chunks=(5, 1), compression="gzip")
    file.create_dataset("y/row", data=labels()[None].astype("float64"), chunks=(1, 5), compression="gzip")
    file["y/negative"] = labels() - 1
    file["y/half"] = labels() / 2
    file["y/one_hot"] = np.eye(3, dtype="uint8")[labels()]
    file["y/too_few"] = labels()[:-1]
    file["y/bool"] = labels() == 1
    file["y/texts"] = np.array([b"ant", b"bee"])


def refused(file):
    rgb = pixels()
    file["inside"] = rgb
    file["y"] = labels()
    file["group/again"] = h5py.SoftLink("/inside")
    file["group/near"] = h5py.SoftLink("../group/./again")  # HDF5 has no '..': a group of that name
    file["circle"] = h5py.SoftLink("/circle")
    file["dangling"] = h5py.SoftLink("/nothing")
    file["external"] = h5py.ExternalLink("other.h5", "/x")
    file["by_way"] = h5py.SoftLink("/external")
    file["group/deep"] = h5py.ExternalLink("other.h5", "/")
    file.create_dataset("lzf", data=rgb, compression="lzf")
    file.create_dataset("scaleoffset", data=rgb.astype("int16"), scaleoffset=0)
    file.create_dataset("elsewhere", shape=rgb.shape, dtype="uint8", external=[("values.bin", 0, rgb.nbytes)])
    layout = h5py.VirtualLayout(shape=rgb.shape, dtype="uint8")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=rgb.shape)
    file.create_virtual_dataset("virtual", layout)
    file["complex"] = rgb.astype("complex64")
    file.create_dataset("table", data=np.zeros(N, dtype=[("a", "i4"), ("b", "f4")]))
    file["flat"] = rgb.reshape(N, -1)
    file["many"] = rgb.reshape(N, 2, 3, 5, 3)
    file["five_channels"] = np.zeros((N, 6, 5, 5), "uint8")
    file["scalar"] = 3
    file.create_dataset("empty", shape=(0, 6, 5, 3), dtype="uint8")
    file.create_dataset("null", dtype="uint8", data=h5py.Empty("uint8"))
    file.create_dataset("never_written", shape=(N, 6, 5, 3), dtype="uint8")
    part = file.create_dataset("part", shape=rgb.shape, dtype="uint8", chunks=(4, 6, 5, 3), compression="gzip")
    part[:4], part[8:] = rgb[:4], rgb[8:]
    file.create_dataset("huge", shape=(10**6, 224, 224, 3), dtype="uint8", chunks=(1, 224, 224, 3), compression=4)
    file.create_dataset("huge_chunk", shape=(10**6, 64, 64, 3), dtype="uint8", chunks=(10**5, 64, 64, 3), compression=4)


def newest(file):
    """Writes every kind of chunk index of the newest format."""
    rgb = pixels()
    file.create_dataset("single", data=rgb, chunks=rgb.shape, compression="gzip")
    file.create_dataset("fixed_array", data=rgb, chunks=(5, 4, 5, 3), shuffle=True, compression="gzip")
    file.create_dataset("extensible_array", data=rgb, chunks=(5, 6, 5, 3), maxshape=(None, 6, 5, 3), fletcher32=True)
    file.create_dataset("btree2", data=rgb, chunks=(5, 4, 2, 3), maxshape=(None, None, 5, 3), compression="gzip")
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((5, 6, 5, 3))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(rgb.shape)
    h5py.h5d.create(file.id, b"implicit", h5py.h5t.STD_U8LE, space, early).write(h5py.h5s.ALL, h5py.h5s.ALL, rgb)
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_U8LE, space, compact).write(h5py.h5s.ALL, h5py.h5s.ALL, rgb)
    file["y"] = labels()


def pytables(path):
    with tables.open_file(str(path), "w") as file:
        filters = tables.Filters(complevel=5, complib="zlib", shuffle=True, fletcher32=True)
        for split, count in (("train", N), ("test", 4)):
            group = file.create_group("/", split)
            file.create_carray(group, "images", obj=pixels(count=count), filters=filters)
            kind = file.create_earray(group, "labels", tables.Int16Atom(), (0,), filters=filters)
            kind.append(labels(count).astype("int16"))
            kind.attrs.class_names = np.array([b"ant", b"bee", b"wasp"])


def matlab(path):
    """Saves x (uint8 H x W x C x N) and y (double N x 1) like MATLAB with -v7.3: 512 bytes before the file,
    dimensions in reverse order, because MATLAB's first dimension is the fastest."""
    with h5py.File(path, "w", userblock_size=512, libver="earliest") as file:
        x = pixels().transpose(1, 2, 3, 0)  # the order that a user of MATLAB sees
        file.create_dataset("x", data=x.T, chunks=(4, 3, 5, 6), compression=3)
        file["x"].attrs["MATLAB_class"] = np.bytes_("uint8")
        file["y"] = labels()[None].astype("float64")
        file["y"].attrs["MATLAB_class"] = np.bytes_("double")
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + struct.pack("<H2s", 0x0200, b"IM")
    with open(path, "r+b") as file:
        file.write(head.ljust(512, b"\0"))


def keras(path):
    """Writes weights as Keras 3 does: groups five deep, names that are numbers."""
    with h5py.File(path, "w") as file:
        for layer, shapes in (("conv2d", [(3, 3, 3, 4), (4,)]), ("dense", [(8, 10), (10,)])):
            for i, shape in enumerate(shapes):
                values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
                file[f"model/layers/{layer}/vars/{i}"] = values
        file["model/layers"].attrs["backend"] = "tensorflow"


def main():
    HERE.mkdir(exist_ok=True)
    for name, write, version in (("h5py", shapes_and_names, "earliest"), ("refused", refused, "v110"),
                                 ("types", types, "v110"), ("newest", newest, "v110")):
        with h5py.File(HERE / f"{name}.h5", "w", libver=(version, "v110")) as file:
            write(file)
    pytables(HERE / "pytables.h5")
    matlab(HERE / "matlab.mat")
    keras(HERE / "keras.weights.h5")


if __name__ == "__main__":
    main()
