"""Changes of colour and warps of pictures, computed by Pillow and torchvision for pictures.h5."""

import colorsys
import math
import zlib

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms import functional as F

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


def torchvision_changes():
    """Yields name -> (setting of picture i, the change), as torchvision's augmentations make it."""
    def affine(image, translate=0, shear=(0.0, 0.0)):
        return F.affine(image, angle=0.0, translate=[translate, 0], scale=1.0,
                        shear=[math.degrees(math.atan(s)) for s in shear], center=[0, 0])

    yield "brightness", lambda i: i / 50, F.adjust_brightness
    yield "contrast", lambda i: i / 50, F.adjust_contrast
    yield "saturation", lambda i: i / 50, F.adjust_saturation
    yield "sharpness", lambda i: i / 50, F.adjust_sharpness
    yield "posterize", lambda i: i % 8 + 1, F.posterize
    yield "solarize", lambda i: i * 255 // 99, F.solarize
    yield "stretch_contrast", lambda i: 0, lambda image, _: F.autocontrast(image)
    yield "equalize", lambda i: 0, lambda image, _: F.equalize(image)
    yield "rotate", lambda i: i * 1.37 - 68, F.rotate
    yield "shear_x", lambda i: (i - 50) / 51, lambda image, s: affine(image, shear=(s, 0.0))
    yield "shear_y", lambda i: (i - 50) / 51, lambda image, s: affine(image, shear=(0.0, s))
    yield "move_x", lambda i: i % 13 - 6, lambda image, d: affine(image, translate=-d)


def turned(pixels, turn):
    planes = torch.from_numpy(pixels).permute(2, 0, 1)
    return F.adjust_hue(planes, turn).permute(1, 2, 0).numpy()


def write_torchvision(file, scene):
    """Writes CRC-32s of 100 pictures for each change, and the pixels where 1 of 255 may differ."""
    def picture(i):
        pixels = scene(9 + i % 17, 8 + 3 * i % 29).astype(np.int64)
        return np.minimum(pixels * (2 + i % 4) // 4 + i % 7, 255).astype(np.uint8)

    for name, setting, change in torchvision_changes():
        settings = [setting(i) for i in range(100)]
        changed = [np.asarray(change(Image.fromarray(picture(i)), s)) for i, s in enumerate(settings)]
        file[f"torchvision/{name}/settings"] = np.array(settings, np.float64)
        file[f"torchvision/{name}/crc32"] = np.array([zlib.crc32(out.tobytes()) for out in changed])
    parts, scaled = [], []
    for i in range(100):
        height, width = picture(i).shape[:2]
        top, left = i % 5, i % 3  # then height and width of the part, and of the result
        parts.append([top, left, height - top - i % 4, width - left - i % 2, 1 + 7 * i % 23, 1 + 3 * i % 17])
        part = F.resized_crop(Image.fromarray(picture(i)), *parts[-1][:4], parts[-1][4:])
        scaled.append(np.asarray(part).ravel())
    file["torchvision/resized_crop/settings"] = np.array(parts, np.float64)
    file["torchvision/resized_crop/out"] = np.concatenate(scaled)
    turns = [i / 100 - 0.5 for i in range(100)]
    file["torchvision/hue/settings"] = np.array(turns)
    file["torchvision/hue/out"] = np.concatenate([turned(picture(i), t).ravel() for i, t in enumerate(turns)])


def write(file, scene):
    write_torchvision(file, scene)
    pixels = (scene(23, 31).astype(np.int64) * 4 // 5 + 20).astype(np.uint8)
    image = Image.fromarray(pixels)
    file["colour/in"] = pixels
    for name, results in changes(image, pixels):
        file[f"colour/{name}/settings"] = np.array([s for s, _ in results], np.float64)
        file[f"colour/{name}/out"] = np.stack([np.asarray(r) for _, r in results])
