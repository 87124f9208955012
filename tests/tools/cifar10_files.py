"""CIFAR-10 files in the published format, with pictures from a formula."""

from pathlib import Path

RECORDS = 10000  # per file
PIXELS = 3 * 32 * 32
NAMES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def record(n):
    """Returns a label and a picture that depends on it."""
    label = n % 10
    return bytes([label]) + bytes((17 * n + i * (1 + label)) % 256 for i in range(PIXELS))


def write(folder):
    """Writes one file under six names: 30 MB instead of 180."""
    folder = Path(folder)
    first = folder / NAMES[0]
    first.write_bytes(b"".join(map(record, range(100))) * (RECORDS // 100))
    for name in NAMES[1:]:
        (folder / name).symlink_to(first)
