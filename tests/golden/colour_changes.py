"""Changes of colour and warps of a picture, computed by Pillow for pictures.h5."""

import colorsys

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

FACTORS = (0.0, 0.1, 0.55, 1.0, 1.37, 1.9)


def hues(pixels, turn):
    """Changes the hue with Python's own colour arithmetic, in float64."""
    out = np.empty_like(pixels)
    for at in np.ndindex(pixels.shape[:2]):
        h, s, v = colorsys.rgb_to_hsv(*(pixels[at] / 255.0))
        out[at] = np.floor(np.array(colorsys.hsv_to_rgb((h + turn) % 1, s, v)) * 255 + 0.5)
    return out


def changes(image, pixels):
    """Yields name -> [(setting, result)]."""
    enhance = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast,
               "saturation": ImageEnhance.Color, "sharpness": ImageEnhance.Sharpness}
    for name, kind in enhance.items():
        yield name, [(f, kind(image).enhance(f)) for f in FACTORS]
    yield "posterize", [(b, ImageOps.posterize(image, b)) for b in (1, 4, 7, 8)]
    yield "solarize", [(t, ImageOps.solarize(image, t)) for t in (0, 77, 178, 255)]
    yield "stretch_contrast", [(0, ImageOps.autocontrast(image))]
    yield "equalize", [(0, ImageOps.equalize(image))]
    yield "hue", [(t, hues(pixels, t)) for t in (-0.5, -0.2, 0.0, 0.05, 0.3, 0.5)]
    size = image.size
    yield "rotate", [(d, image.rotate(d)) for d in (9, -17, 30)]
    yield "shear_x", [(s, image.transform(size, Image.AFFINE, (1, s, 0, 0, 1, 0)))
                      for s in (0.09, -0.3)]
    yield "shear_y", [(s, image.transform(size, Image.AFFINE, (1, 0, 0, s, 1, 0)))
                      for s in (0.09, -0.3)]
    yield "move_x", [(d, image.transform(size, Image.AFFINE, (1, 0, d, 0, 1, 0))) for d in (4, -7)]


def write(file, scene):
    pixels = (scene(23, 31).astype(np.int64) * 4 // 5 + 20).astype(np.uint8)
    image = Image.fromarray(pixels)
    file["colour/in"] = pixels
    for name, results in changes(image, pixels):
        file[f"colour/{name}/settings"] = np.array([s for s, _ in results], np.float64)
        file[f"colour/{name}/out"] = np.stack([np.asarray(r) for _, r in results])
