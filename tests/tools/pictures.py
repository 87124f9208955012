"""Pictures for tests: of one colour, without a library, and odd ones of every kind, by Pillow."""

import struct
import zlib


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png_of(width, height, depth, colour, rows):
    """Returns a PNG of rows that each begin with their filter."""
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_png(path, width, height, colour):
    """Writes a picture of one colour."""
    path.write_bytes(png_of(width, height, 8, 2, (b"\0" + bytes(colour) * width) * height))


def odd_pictures(count, seed=1):
    """Yields suffix and bytes of pictures of all kinds, with sides of 1 to 500 pixels. Needs Pillow and numpy."""
    import io
    import numpy as np
    from PIL import Image
    numbers = np.random.default_rng(seed)

    def scene(size, mode):
        """Returns a picture of slopes, edges and noise."""
        y, x = np.mgrid[0:size[1], 0:size[0]]
        bands = []
        for _ in Image.new(mode, (1, 1)).getbands():
            slope = numbers.uniform(-1, 1) * x + numbers.uniform(-1, 1) * y
            blocks = 70 * ((x // numbers.integers(2, 40) + y // numbers.integers(2, 40)) % 2)
            pixels = np.clip(90 + slope + blocks + numbers.normal(0, 25, x.shape), 0, 255)
            bands.append(Image.fromarray(pixels.astype(np.uint8)))
        return bands[0] if len(bands) == 1 else Image.merge(mode, bands)

    def saved(image, kind, **how):
        exif = Image.Exif()
        exif[0x0112] = int(numbers.integers(1, 9))
        out = io.BytesIO()
        image.save(out, kind, exif=exif.tobytes(), **how)
        return {"PNG": "png", "JPEG": "jpg"}[kind], out.getvalue()

    def jpeg(image, **how):
        return saved(image, "JPEG", quality=int(numbers.integers(40, 98)), **how)

    kinds = [lambda size: saved(scene(size, "RGB"), "PNG"),
             lambda size: jpeg(scene(size, "RGB"), subsampling=int(numbers.integers(0, 3))),
             lambda size: saved(scene(size, "L"), "PNG"),
             lambda size: jpeg(scene(size, "L")),
             lambda size: saved(scene(size, "RGB").quantize(37), "PNG"),
             lambda size: saved(scene(size, "RGB").quantize(5), "PNG", transparency=3),
             lambda size: saved(scene(size, "RGBA"), "PNG"),
             lambda size: jpeg(scene(size, "RGB"), progressive=True),
             lambda size: saved(scene(size, "LA"), "PNG"),
             lambda size: saved(scene(size, "L").convert("1"), "PNG"),
             lambda size: jpeg(scene(size, "CMYK")),
             lambda size: saved(Image.fromarray(np.asarray(scene(size, "L")) * np.uint16(257) - np.uint16(99)), "PNG"),
             lambda size: ("png", png16(np.asarray(scene(size, "RGB"))))]
    extremes = [(1, 1), (1, 500), (500, 1), (2, 499), (500, 500), (33, 32), (35, 32), (32, 37), (32, 39)]
    for k in range(count):
        small = np.exp(numbers.uniform(0, np.log(500.99), 2)).astype(int)
        size = extremes[k] if k < len(extremes) else small if k % 2 else numbers.integers(1, 501, 2)
        yield kinds[k % len(kinds)](tuple(map(int, size)))


def png16(pixels):
    """Returns a PNG with 16 bits per channel, whose lower eight differ from the upper."""
    wide = (pixels.astype("u2") * 256 + (pixels.astype("u2") * 37 + 11) % 256).astype(">u2")
    return png_of(pixels.shape[1], pixels.shape[0], 16, 2, b"".join(b"\0" + row.tobytes() for row in wide))
