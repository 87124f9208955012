#!/usr/bin/env python3
"""Checks the machine code of each of our kernels, read from the built objects.

    gpu_kernels_test.py SOURCE_DIR OBJECT...

On every GPU for which there is code, no kernel spills registers or has a stack frame, and no kernel
that is launched with 256 threads takes more than 64 registers. Memory-bound kernels load and store
16 bytes at a time. A kernel that is missing in the tables below fails: add it there.

The code for each GPU is an ELF file within the object, and the PTX a text packed with zstd, so CUDA's
own tools, which may be missing although nvcc is installed, are not needed. Exits with 77 if there is
no PTX or no libzstd to unpack it, after the rest was checked.
"""

import collections
import ctypes
import ctypes.util
import pathlib
import re
import struct
import subprocess
import sys

SKIPPED = 77

# Kernels with sequential accesses, and which of these must have 16 bytes; then a pattern of the template
# arguments of the exceptions: instances for rows that are no multiple of a pack, and for two types of
# different widths.
BOTH, LOADS, STORES = ("ld", "st"), ("ld",), ("st",)
ONE_AT_A_TIME = r"RowTeam<\d+, 1>|^1,"
SUMS = ONE_AT_A_TIME + r"|^4, b?float16"  # of 16 bits: 8 bytes, but of eight rows at once
OTHER_UNITS = r"^(?!Pack<)"
WIDE = {
    "average_images": (BOTH, SUMS),
    "average_images_grad": (BOTH, ONE_AT_A_TIME),
    "average_pixels": (BOTH, ONE_AT_A_TIME),
    "average_pixels_grad": (BOTH, ONE_AT_A_TIME),
    "convert": (BOTH, r"^(?!(double, (double|long)|long, (double|long)|float, (float|int)"
                      r"|int, (float|int)|unsigned char, unsigned char)$)"),
    "drop": (BOTH, r"false$"),
    "fill": (STORES, None),
    "flag_parts": (LOADS, None),
    "gradient_means_of_rows": (LOADS, ONE_AT_A_TIME),
    "gradient_sums_of_blocks": (LOADS, SUMS),
    "gradient_sums_of_rows": (LOADS, ONE_AT_A_TIME),
    "multi_tensor_update": (BOTH, None),
    "logits_grad_rows": (BOTH, ONE_AT_A_TIME),
    "loss_rows": (LOADS, ONE_AT_A_TIME),
    "make_strided": (BOTH, r"unsigned char|Relation"),
    "max_pixels": (BOTH, ONE_AT_A_TIME),
    "max_pixels_grad": (BOTH, ONE_AT_A_TIME),
    "moments_of_blocks": (LOADS, SUMS),
    "moments_of_rows": (LOADS, ONE_AT_A_TIME),
    "normalize": (STORES, r", 1$"),  # loads bytes
    "one_hot": (STORES, None),
    "put_side_by_side": (BOTH, OTHER_UNITS),
    "read_box": (BOTH, OTHER_UNITS),
    "run_precompiled": (BOTH, None),
    "run_regular": (BOTH, r", true$"),  # 8 bytes of numbers of 16 bits, several at once
    "scale_parts": (BOTH, None),
    "softmax_grad_rows": (BOTH, ONE_AT_A_TIME),
    "softmax_rows": (BOTH, ONE_AT_A_TIME),
    "sum_rows": (LOADS, r", 1$"),
    "targets_grad_rows": (BOTH, ONE_AT_A_TIME),
    "top_k_rows": (LOADS, ONE_AT_A_TIME),
    "write_box": (BOTH, OTHER_UNITS),
}

# All other kernels, and the reason.
FEW_BYTES = "as many values as channels, groups or rows"
ANYWHERE = "reads where indices say"
NARROW = {
    "conv_forward": "arithmetic", "conv_input_grad": "arithmetic", "conv_weight_parts": "arithmetic",
    "conv_weight_sums": "a few parts of the weights",
    "count_correct": FEW_BYTES, "increment_step": "one number", "finalise_channels": FEW_BYTES,
    "finalise_groups": FEW_BYTES, "reduce_columns": FEW_BYTES, "gather": ANYWHERE,
    "grad_finalise_channels": FEW_BYTES, "grad_means_of_groups": FEW_BYTES,
    "lr_if_finite": "one number", "max_grad_of_threads": ANYWHERE,
    "max_of_teams": "positions go with the values", "max_of_threads": "strides between the values",
    "mean_of_rows": FEW_BYTES, "flip_left_right": "pixels of a byte a channel", "run_program": "the interpreter, for programs not compiled",
    "scatter_add": ANYWHERE, "sum_short": "strides between the values",
    "update_gate": "one number", "update_running": FEW_BYTES,
}

# Stack frames: 32 values that are indexed at run time, and 32 or 48 bytes in which CUDA's sin and cos
# reduce large arguments. Nothing else is spilled.
STACK = {("run_program", "float"): 128 + 32, ("run_program", "double"): 256 + 48}
# Kernels whose blocks have another size than 256 threads, and that size.
THREADS = {"increment_step": 1, "run_precompiled": 128, "run_regular": 128}
POOLS = ("average_pixels", "average_pixels_grad", "max_pixels", "max_pixels_grad")
# Powers of doubles need more on GPUs of this generation; float64 is for checks. And what loads eight
# rows, of which fewer blocks run at once.
MORE_REGISTERS = {("multi_tensor_update", "double", 75): 80}
EIGHT_ROWS = r"^\d, b?float16"

Kernel = collections.namedtuple("Kernel", "name arguments code ptx")
Code = collections.namedtuple("Code", "gpu registers stack threads")

REGISTERS, STACK_FRAME, MOST_THREADS = 0x2f, 0x11, 0x05  # attributes of .nv.info
CUDA_MACHINE = 190  # in an ELF header


class Image:
    """The machine code for one GPU."""

    def __init__(self, data):
        self.data = data
        self.gpu = data[49]  # a byte of the header's flags
        table, = struct.unpack_from("<Q", data, 40)
        count, names = struct.unpack_from("<HH", data, 60)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
        self.sections = {self.text(headers[names][4] + h[0]): (h[4], h[5]) for h in headers}

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def symbols(self):
        start, size = self.sections[".symtab"]
        names = self.sections[".strtab"][0]
        return [self.text(names + struct.unpack_from("<I", self.data, at)[0])
                for at in range(start, start + size, 24)]

    def attributes(self, section):
        """Yields (number, value) of the attributes whose value has more than 2 bytes."""
        at, size = self.sections[section]
        end = at + size
        while at < end:
            form, number, length = struct.unpack_from("<BBH", self.data, at)
            at += 4
            if form == 4:
                yield number, self.data[at:at + length]
                at += length

    def kernels(self):
        """Yields the mangled name and the resources of each kernel."""
        symbols, found = self.symbols(), collections.defaultdict(dict)
        for number, value in self.attributes(".nv.info"):
            if number in (REGISTERS, STACK_FRAME):
                symbol, amount = struct.unpack("<II", value)
                found[symbols[symbol]][number] = amount
        for section in self.sections:
            if section.startswith(".nv.info."):
                name = section.removeprefix(".nv.info.")
                threads = [struct.unpack("<III", value)[0]
                           for number, value in self.attributes(section) if number == MOST_THREADS]
                yield name, Code(self.gpu, found[name][REGISTERS], found[name][STACK_FRAME],
                                 threads[0] if threads else None)


def images(data):
    at = data.find(b"\x7fELF", 1)  # the first is the object itself
    while at > 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield Image(data[at:])
        at = data.find(b"\x7fELF", at + 4)


class Zstd:
    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        for name in ("decompress", "findFrameCompressedSize", "isError"):
            getattr(self.library, f"ZSTD_{name}").restype = ctypes.c_size_t
        self.library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong

    def texts(self, data):
        at = data.find(b"\x28\xb5\x2f\xfd")
        while at > 0:
            rest = data[at:]
            size = self.library.ZSTD_findFrameCompressedSize(rest, ctypes.c_size_t(len(rest)))
            if not self.library.ZSTD_isError(ctypes.c_size_t(size)):
                length = self.library.ZSTD_getFrameContentSize(rest, ctypes.c_size_t(len(rest)))
                if length < 1 << 30:
                    text = ctypes.create_string_buffer(length)
                    self.library.ZSTD_decompress(text, ctypes.c_size_t(length), rest,
                                                 ctypes.c_size_t(size))
                    yield text.raw.decode("latin1")
            at = data.find(b"\x28\xb5\x2f\xfd", at + 4)


def ptx_of(data, zstd):
    """Returns the text of each kernel by its mangled name."""
    found = {}
    for text in zstd.texts(data) if zstd else ():
        for part in re.split(r"(?=\.entry )", text)[1:]:
            found[re.match(r"\.entry (\w+)", part)[1]] = part
    return found


def read(path, zstd):
    data = pathlib.Path(path).read_bytes()
    code, ptx = collections.defaultdict(list), ptx_of(data, zstd)
    for image in images(data):
        for name, one in image.kernels():
            code[name].append(one)
    plain = subprocess.run(["c++filt"], input="\n".join(code), text=True, capture_output=True,
                           check=True).stdout.split("\n")
    for mangled, text in zip(code, plain):
        text = re.sub(r"tessera::|\(anonymous namespace\)::", "", text).removeprefix("void ")
        name = re.match(r"\w+", text)[0]
        yield Kernel(name, template_arguments(text[len(name):]), code[mangled], ptx.get(mangled))


def template_arguments(text):
    """Returns `a, b<c>` for `<a, b<c> >(...)`."""
    depth = 0
    for at, letter in enumerate(text if text.startswith("<") else ""):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth == 0:
            return text[1:at].strip()
    return ""


def threads_of(kernel):
    wide = re.search(r"\b(long|double)\b", kernel.arguments)
    return 128 if kernel.name in POOLS and wide else THREADS.get(kernel.name, 256)


def faults_of_code(kernel):
    first = kernel.arguments.split(",")[0]
    for code in kernel.code:
        where = f"sm_{code.gpu}: "
        stack = STACK.get((kernel.name, first), 0)
        if code.stack != stack:
            yield where + f"{code.stack} bytes of stack frame, not {stack}"
        if code.threads != threads_of(kernel) and threads_of(kernel) != 1:
            yield where + f"{code.threads} threads by its launch bounds, not {threads_of(kernel)}"
        most = MORE_REGISTERS.get((kernel.name, first, code.gpu), 64)
        if kernel.name == "gradient_sums_of_blocks" and re.match(EIGHT_ROWS, kernel.arguments):
            most = 80
        if threads_of(kernel) == 256 and code.registers > most:
            yield where + f"{code.registers} registers, more than {most}"


def faults_of_ptx(kernel):
    accesses, narrow = WIDE[kernel.name]
    if not (narrow and re.search(narrow, kernel.arguments)):
        sizes = {(what, int(count) * int(bits) // 8) for what, count, bits in
                 re.findall(r"\b(ld|st)\.(?:[\w.]+\.)?v(\d)\.[a-z](\d+)", kernel.ptx)}
        for access in accesses:
            if (access, 16) not in sizes:
                yield f"no {access} of 16 bytes in its PTX"


def sources_of(path):
    """Returns the names of the .cu files in an object: kernels_5.cu in the build folder includes several."""
    name = path.name.removesuffix(".o")
    joined = path.parents[2] / name
    return re.findall(r'/([^/"]+)"', joined.read_text()) if joined.exists() else [name]


def main():
    folder, objects = pathlib.Path(sys.argv[1]), sys.argv[2:]
    try:
        zstd = Zstd()
    except OSError:
        zstd = None
    faults, seen, gpus, files, unread = [], collections.Counter(), set(), set(), 0
    for path in objects:
        files.update(sources_of(pathlib.Path(path)))
        for kernel in read(path, zstd):
            seen[kernel.name] += 1
            gpus |= {code.gpu for code in kernel.code}
            found = list(faults_of_code(kernel))
            if kernel.name in WIDE and kernel.ptx:
                found += faults_of_ptx(kernel)
            elif kernel.name in WIDE:
                unread += 1
            elif kernel.name not in NARROW:
                found.append("is in no table: which of its loads and stores have 16 bytes?")
            faults += [f"{kernel.name}<{kernel.arguments}>: {fault}" for fault in found]
    sources = {path.name for path in folder.rglob("*.cu")
               if not {"build", "tests"} & set(path.relative_to(folder).parts)}
    faults += [f"{name}: no object of it was read" for name in sorted(sources - files)]
    faults += [f"{name}: in a table, but there is no such kernel"
               for name in sorted((WIDE.keys() | NARROW.keys()) - seen.keys())]
    print("\n".join(sorted(faults)[:50] + ["..."] * (len(faults) > 50)))
    print(f"{sum(seen.values())} kernels of {len(seen)} kinds for sm_"
          f"{', sm_'.join(map(str, sorted(gpus)))}: {len(faults)} faults")
    if unread:
        print(f"no PTX of {unread} kernels{'' if zstd else ' (libzstd is missing)'}: 16-byte loads "
              "and stores were not looked for; TESSERA_CUDA_ALL builds PTX")
    return 1 if faults else SKIPPED if unread else 0


if __name__ == "__main__":
    sys.exit(main())
