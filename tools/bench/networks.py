"""The networks of the zoo for comparisons, described once for every peer.

A kit makes layers of one library: `TorchKit` (peer.py), `TensorflowKit` (tf_peer.py), or `Count`,
which only counts. Layers with parameters have the names that the zoo gives them, so a peer can
start from our weights and its losses can be compared with ours.
"""


def lenet5(kit, classes):
    return kit.sequence(
        kit.conv("conv1", 1, 6, 5, bias=True), kit.relu(), kit.max_pool(2),
        kit.conv("conv2", 6, 16, 5, padding=0, bias=True), kit.relu(), kit.max_pool(2),
        kit.flatten(16, 5), kit.linear("fc1", 400, 120), kit.relu(),
        kit.linear("fc2", 120, 84), kit.relu(), kit.linear("fc3", 84, classes))


def projection(kit, name, inputs, outputs, stride):
    return kit.sequence(kit.conv(f"{name}.downsample.0", inputs, outputs, 1, stride),
                        kit.norm(f"{name}.downsample.1", outputs))


def option_a(kit, _, inputs, outputs, stride):
    return kit.option_a(inputs, outputs, stride)


def basic(kit, name, inputs, width, stride, shortcut):
    body = kit.sequence(
        kit.conv(f"{name}.conv1", inputs, width, 3, stride), kit.norm(f"{name}.bn1", width),
        kit.relu(), kit.conv(f"{name}.conv2", width, width, 3), kit.norm(f"{name}.bn2", width))
    keeps = stride == 1 and inputs == width
    bridge = None if keeps else shortcut(kit, name, inputs, width, stride)
    return kit.residual(body, bridge, kit.relu()), width


def bottleneck(kit, name, inputs, width, stride, shortcut):
    outputs = 4 * width
    body = kit.sequence(
        kit.conv(f"{name}.conv1", inputs, width, 1), kit.norm(f"{name}.bn1", width), kit.relu(),
        kit.conv(f"{name}.conv2", width, width, 3, stride), kit.norm(f"{name}.bn2", width),
        kit.relu(), kit.conv(f"{name}.conv3", width, outputs, 1),
        kit.norm(f"{name}.bn3", outputs))
    keeps = stride == 1 and inputs == outputs
    bridge = None if keeps else shortcut(kit, name, inputs, outputs, stride)
    return kit.residual(body, bridge, kit.relu()), outputs


def resnet(kit, classes, block, widths, depths, shortcut, large=False):
    layers = [kit.conv("conv1", 3, widths[0], 7 if large else 3, 2 if large else 1),
              kit.norm("bn1", widths[0]), kit.relu()]
    if large:
        layers.append(kit.max_pool(3, 2, 1))
    channels = widths[0]
    for stage, (width, depth) in enumerate(zip(widths, depths), 1):
        for i in range(depth):
            layer, channels = block(kit, f"layer{stage}.{i}", channels, width,
                                    2 if stage > 1 and i == 0 else 1, shortcut)
            layers.append(layer)
    return kit.sequence(*layers, kit.global_pool(), kit.linear("fc", channels, classes))


def resnet_cifar(depth):
    each = (depth - 2) // 6
    return lambda kit, classes: resnet(kit, classes, basic, (16, 32, 64), (each,) * 3, option_a)


def resnet18_cifar(kit, classes):
    return resnet(kit, classes, basic, (64, 128, 256, 512), (2,) * 4, projection)


def resnet50(kit, classes):
    return resnet(kit, classes, bottleneck, (64, 128, 256, 512), (3, 4, 6, 3), projection,
                  large=True)


def wide_resnet(kit, classes, depth=28, widen=10):
    layers, channels = [kit.conv("conv1", 3, 16, 3)], 16
    for stage in range(3):
        width = (16 << stage) * widen
        for i in range((depth - 4) // 6):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            act = kit.sequence(kit.norm(f"{name}.bn1", channels), kit.relu())
            body = kit.sequence(
                kit.conv(f"{name}.conv1", channels, width, 3, stride),
                kit.norm(f"{name}.bn2", width), kit.relu(),
                kit.conv(f"{name}.conv2", width, width, 3))
            keeps = stride == 1 and channels == width
            layers.append(kit.activated_first(
                act, body,
                None if keeps else kit.conv(f"{name}.shortcut", channels, width, 1, stride)))
            channels = width
    return kit.sequence(*layers, kit.norm("bn", channels), kit.relu(), kit.global_pool(),
                        kit.linear("fc", channels, classes))


def densenet_bc(kit, classes, depth=100, growth=12):
    channels, each = 2 * growth, (depth - 4) // 6
    layers = [kit.conv("features.conv0", 3, channels, 3)]
    for block in range(1, 4):
        for i in range(1, each + 1):
            name = f"features.denseblock{block}.denselayer{i}"
            layers.append(kit.widened(kit.sequence(
                kit.norm(f"{name}.norm1", channels), kit.relu(),
                kit.conv(f"{name}.conv1", channels, 4 * growth, 1),
                kit.norm(f"{name}.norm2", 4 * growth), kit.relu(),
                kit.conv(f"{name}.conv2", 4 * growth, growth, 3))))
            channels += growth
        if block < 3:
            name = f"features.transition{block}"
            layers += [kit.norm(f"{name}.norm", channels), kit.relu(),
                       kit.conv(f"{name}.conv", channels, channels // 2, 1), kit.average_pool(2)]
            channels //= 2
    return kit.sequence(*layers, kit.norm("features.norm4", channels), kit.relu(),
                        kit.global_pool(), kit.linear("classifier", channels, classes))


def mobilenet_v2(kit, classes):
    def unit(conv, norm, inputs, outputs, kernel, stride=1, groups=1):
        return [kit.conv(conv, inputs, outputs, kernel, stride, groups), kit.norm(norm, outputs)]

    layers = [*unit("features.0.0", "features.0.1", 3, 32, 3, 2), kit.relu6()]
    channels, place = 32, 1
    for expansion, width, blocks, first_stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            name, stride, wide = f"features.{place}.conv", 1 if i else first_stride, \
                channels * expansion
            body, part = [], 0
            if expansion > 1:
                body += [*unit(f"{name}.0.0", f"{name}.0.1", channels, wide, 1), kit.relu6()]
                part = 1
            body += [*unit(f"{name}.{part}.0", f"{name}.{part}.1", wide, wide, 3, stride, wide),
                     kit.relu6(),
                     *unit(f"{name}.{part + 1}", f"{name}.{part + 2}", wide, width, 1)]
            body = kit.sequence(*body)
            adds = stride == 1 and channels == width
            layers.append(kit.residual(body, None, None) if adds else body)
            channels, place = width, place + 1
    return kit.sequence(
        *layers, *unit("features.18.0", "features.18.1", channels, 1280, 1), kit.relu6(),
        kit.global_pool(), kit.linear("classifier.1", 1280, classes))


def efficientnet_b0(kit, classes):
    def unit(name, inputs, outputs, kernel, stride=1, groups=1):
        return [kit.conv(f"{name}.0", inputs, outputs, kernel, stride, groups),
                kit.norm(f"{name}.1", outputs)]

    layers, channels = [*unit("features.0", 3, 32, 3, 2), kit.silu()], 32
    for stage, (expansion, kernel, first_stride, width, blocks) in enumerate((
            (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
            (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)), 1):
        for i in range(blocks):
            name, stride, wide = f"features.{stage}.{i}.block", 1 if i else first_stride, \
                channels * expansion
            body, part = [], 0
            if expansion > 1:
                body += [*unit(f"{name}.0", channels, wide, 1), kit.silu()]
                part = 1
            squeeze, excitation = channels // 4, f"{name}.{part + 1}"
            body += [*unit(f"{name}.{part}", wide, wide, kernel, stride, wide), kit.silu(),
                     kit.scaled_by(kit.sequence(
                         kit.mean_image(),
                         kit.conv(f"{excitation}.fc1", wide, squeeze, 1, bias=True), kit.silu(),
                         kit.conv(f"{excitation}.fc2", squeeze, wide, 1, bias=True),
                         kit.sigmoid())),
                     *unit(f"{name}.{part + 2}", wide, width, 1)]
            body = kit.sequence(*body)
            adds = stride == 1 and channels == width
            layers.append(kit.residual(body, None, None) if adds else body)
            channels = width
    return kit.sequence(*layers, *unit("features.8", channels, 1280, 1), kit.silu(),
                        kit.global_pool(), kit.linear("classifier.1", 1280, classes))


def vgg16_bn(kit, classes):
    layers, channels, place = [], 3, 0
    for width, convs in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convs):
            layers += [kit.conv(f"features.{place}", channels, width, 3, bias=True),
                       kit.norm(f"features.{place + 1}", width), kit.relu()]
            channels, place = width, place + 3
        layers.append(kit.max_pool(2))
        place += 1
    return kit.sequence(
        *layers, kit.flatten(512, 1), kit.linear("classifier.0", 512, 4096), kit.relu(),
        kit.linear("classifier.3", 4096, 4096), kit.relu(),
        kit.linear("classifier.6", 4096, classes))


# name: (function of a kit and a number of classes, channels and side of the images, classes).
# None has dropout, because masks would differ.
NETWORKS = {
    "lenet5": (lenet5, (1, 28), 10),
    "resnet20": (resnet_cifar(20), (3, 32), 10),
    "resnet56": (resnet_cifar(56), (3, 32), 10),
    "resnet18_cifar": (resnet18_cifar, (3, 32), 10),
    "wide_resnet": (wide_resnet, (3, 32), 10),
    "resnet50": (resnet50, (3, 224), 1000),
    "mobilenet_v2": (mobilenet_v2, (3, 32), 10),
    "efficientnet_b0": (efficientnet_b0, (3, 224), 1000),
    "densenet_bc": (densenet_bc, (3, 32), 10),
    "vgg16_bn": (vgg16_bn, (3, 32), 10),
}


class Count:
    """A kit whose layers are their numbers of parameters."""

    def conv(self, _, inputs, outputs, kernel, stride=1, groups=1, padding=None, bias=False):
        return kernel * kernel * inputs // groups * outputs + (outputs if bias else 0)

    def norm(self, _, channels):
        return 2 * channels

    def linear(self, _, inputs, outputs):
        return inputs * outputs + outputs

    def sequence(self, *layers):
        return sum(layers)

    def residual(self, *parts):
        return sum(part or 0 for part in parts)

    widened = scaled_by = sequence
    activated_first = residual

    def __getattr__(self, layer):  # relu, max_pool, ...
        return lambda *settings: 0


def parameters_of(name, classes=None):
    make, _, published = NETWORKS[name]
    return make(Count(), classes or published)
