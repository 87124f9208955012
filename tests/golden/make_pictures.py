"""Makes pictures.h5: small pictures of every kind as Pillow decodes them, resizes them and changes
their colours.

    python make_pictures.py               write the file beside this script
    python make_pictures.py --odd FOLDER  also note what Pillow makes of the pictures in FOLDER:
                                          only their names, sizes and check sums are kept

Needs pillow, numpy, h5py, torchvision. README.md says what is in the file.
"""

import argparse
import io
import pathlib
import zlib

import h5py
import numpy as np
from PIL import Image, ImageOps

import colour_changes

HERE = pathlib.Path(__file__).parent
ORIENTATION = 0x0112


def scene(height, width, channels=3):
    """Returns a picture with slopes, edges and some noise, equal on every machine."""
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        noise = (x * 7919 + y * 104729 + c * 1299709) * 2654435761 % 2**32 >> 27
        slope = 20 + 150 * x // width + 50 * y // height * (c + 1) // 2
        block = 60 * ((x // 5 + y // 7 + c) % 2)
        planes.append(np.clip(slope + block + noise, 0, 255))
    return np.stack(planes, -1).astype(np.uint8)


def encoded(image, kind, **settings):
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def orientation(value):
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return exif.tobytes()


def cases():
    """Returns name -> file bytes."""
    rgb = Image.fromarray(scene(21, 34))
    gray = Image.fromarray(scene(21, 34, 1)[:, :, 0])
    cmyk = Image.fromarray(scene(21, 34, 4), "CMYK")
    made = {
        "jpeg_rgb": encoded(rgb, "JPEG", quality=90),
        "jpeg_444": encoded(rgb, "JPEG", quality=90, subsampling=0),
        "jpeg_422": encoded(rgb, "JPEG", quality=90, subsampling=1),
        "jpeg_progressive": encoded(rgb, "JPEG", quality=80, progressive=True),
        "jpeg_gray": encoded(gray, "JPEG", quality=90),
        "jpeg_cmyk": encoded(cmyk, "JPEG", quality=95),
        "jpeg_one_pixel": encoded(rgb.crop((3, 3, 4, 4)), "JPEG"),
        "png_rgb": encoded(rgb, "PNG"),
        "png_gray": encoded(gray, "PNG"),
        "png_gray1": encoded(gray.convert("1"), "PNG"),
        "png_gray_alpha": encoded(Image.fromarray(scene(21, 34, 2), "LA"), "PNG"),
        "png_rgba": encoded(Image.fromarray(scene(21, 34, 4), "RGBA"), "PNG"),
        "png_palette": encoded(rgb.quantize(40), "PNG"),
        "png_palette4": encoded(rgb.quantize(11), "PNG", bits=4),
        "png_palette_clear": encoded(rgb.quantize(40), "PNG", transparency=3),
        "png_rgb16": png16(scene(21, 34)),
        "png_interlaced": interlaced(scene(21, 34)),
    }
    for value in range(1, 9):
        made[f"jpeg_turned{value}"] = encoded(rgb, "JPEG", quality=90, exif=orientation(value))
        made[f"png_turned{value}"] = encoded(rgb, "PNG", exif=orientation(value))
    ycck = bytearray(made["jpeg_cmyk"])
    at = ycck.index(b"Adobe")
    ycck[at + 11] = 2  # the transform: equal numbers, but now YCCK
    made["jpeg_ycck"] = bytes(ycck)
    return made


def chunk(kind, body):
    return (len(body).to_bytes(4, "big") + kind + body +
            zlib.crc32(kind + body).to_bytes(4, "big"))


def png(pixels, depth, colour, interlace, rows):
    height, width = pixels.shape[:2]
    header = (width.to_bytes(4, "big") + height.to_bytes(4, "big") +
              bytes([depth, colour, 0, 0, interlace]))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def png16(pixels):
    """Returns a PNG with 16 bits per channel, of which the lower eight are noise."""
    wide = pixels.astype(np.uint16) * 256 + (pixels.astype(np.uint16) * 37 + 11) % 256
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in wide)
    return png(pixels, 16, 2, 0, rows)


def interlaced(pixels):
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
              (1, 0, 2, 1)]
    rows = b"".join(b"\0" + row.tobytes() for y, x, dy, dx in passes
                    for row in pixels[y::dy, x::dx])
    return png(pixels, 8, 2, 1, rows)


def pixels_of(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def write_cases(file):
    for name, data in cases().items():
        group = file.create_group(f"decode/{name}")
        group["file"] = np.frombuffer(data, np.uint8)
        group["pixels"] = pixels_of(data)


def write_resizes(file):
    """Writes the part (y, x, height, width) of a scene, scaled to another size."""
    jobs = [((21, 34), (0, 0, 21, 34), (8, 8)), ((21, 34), (3, 5, 11, 20), (24, 24)),
            ((40, 30), (0, 0, 40, 30), (40, 30)), ((40, 30), (7, 1, 30, 28), (30, 14)),
            ((50, 60), (0, 0, 50, 60), (3, 5)), ((5, 6), (1, 2, 2, 3), (19, 17)),
            ((33, 47), (32, 46, 1, 1), (4, 4))]
    for channels in (1, 3):
        for i, ((height, width), (y, x, h, w), (out_h, out_w)) in enumerate(jobs):
            pixels = scene(height, width, channels)
            image = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
            part = image.crop((x, y, x + w, y + h)).resize((out_w, out_h), Image.BILINEAR)
            group = file.create_group(f"resize/{channels}_{i}")
            group["in"] = pixels
            group["part"] = np.array([y, x, h, w])
            group["out"] = np.asarray(part).reshape(out_h, out_w, channels)


def write_odd(file, folder):
    names, figures = [], []
    for path in sorted(folder.glob("*.jpg")):
        names.append(np.bytes_(path.name))
        try:
            pixels = pixels_of(path.read_bytes())
            figures.append([*pixels.shape[:2], zlib.crc32(pixels.tobytes())])
        except (OSError, SyntaxError) as error:
            print(f"{path.name}: {error}")
            figures.append([0, 0, 0])
    file["odd/names"] = np.array(names)
    file["odd/height_width_crc32"] = np.array(figures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--odd", type=pathlib.Path)
    arguments = parser.parse_args()
    kept = None
    target = HERE / "pictures.h5"
    if not arguments.odd and target.exists():
        with h5py.File(target) as file:
            kept = {name: data[()] for name, data in file["odd"].items()}
    with h5py.File(target, "w", libver=("earliest", "v108")) as file:
        write_cases(file)
        write_resizes(file)
        colour_changes.write(file, scene)
        if arguments.odd:
            write_odd(file, arguments.odd)
        elif kept:
            for name, data in kept.items():
                file[f"odd/{name}"] = data


if __name__ == "__main__":
    main()
