"""The table of op cases of ops.h5: every op forward and backward, over odd shapes.

PyTorch computes a case in float64 from float32 inputs; the result is stored as float32. The result of
float32 must be near it. Every number is thus computed twice, and none is a difference of large
numbers that a correct kernel could miss.
"""

import numpy as np
import torch
import torch.nn.functional as F

import formula

TOLERANCE = 3e-6  # max |a - b| / max |b|; the tests ask for 1e-5


def uniform(shape, scale=1.0, offset=0.0):
    return lambda name: formula.uniform_spec(name, shape, scale, offset)


def integers(shape, bound):
    return lambda name: formula.integers_spec(name, shape, bound)


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def distance(a, b):
    largest = np.abs(b).max() if b.size else 0.0
    return float(np.abs(a - b).max() / largest) if largest else float(np.abs(a).max(initial=0))


class Table:
    """Writes cases into an HDF5 file; `worst` is the largest float32 error so far."""

    def __init__(self, file):
        self.file, self.worst, self.cases = file, (0.0, ""), 0

    def case(self, name, inputs, function, differentiable=(), **attributes):
        """Writes a case; `function` returns the outputs. Only out0 has an upstream gradient."""
        group = self.file.create_group(name)
        for key, value in attributes.items():
            group.attrs[key] = np.bytes_(value) if isinstance(value, str) else value
        arrays = []
        for i, made in enumerate(inputs):
            if callable(made):
                spec = made(f"{name}/in{i}")
                group.attrs[f"in{i}"] = np.bytes_(spec)
                arrays.append(formula.make(spec))
            else:
                group.create_dataset(f"in{i}", data=made)
                arrays.append(made)
        group.attrs["inputs"] = len(arrays)
        reference = self.compute(group, arrays, function, differentiable, torch.float64)
        single = self.compute(group, arrays, function, differentiable, torch.float32)
        for key, value in reference.items():
            self.worst = max(self.worst, (distance(single[key], value), f"{name}/{key}"))
            group.create_dataset(key, data=value.astype(np.float32))
        self.cases += 1

    @staticmethod
    def compute(group, arrays, function, differentiable, dtype):
        tensors = [torch.tensor(a) if a.dtype == np.int64 else torch.tensor(a).to(dtype)
                   for a in arrays]
        for i in differentiable:
            tensors[i].requires_grad_()
        outputs = function(*tensors)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        results = {f"out{i}": o.detach().double().numpy() for i, o in enumerate(outputs)}
        if differentiable:
            spec = formula.uniform_spec(f"{group.name[1:]}/up0", tuple(outputs[0].shape),
                                        offset=0.25)  # its sums must not cancel out
            group.attrs["up0"] = np.bytes_(spec)
            gradients = torch.autograd.grad(outputs[0], [tensors[i] for i in differentiable],
                                            torch.tensor(formula.make(spec)).to(dtype))
            for i, gradient in zip(differentiable, gradients):
                results[f"grad{i}"] = gradient.double().numpy()
        return results


def convolutions(table):
    def add(case, x, out, kernel, stride=1, padding=0, dilation=1, groups=1, bias=False):
        pair = lambda v: v if isinstance(v, tuple) else (v, v)
        kernel, stride, padding, dilation = map(pair, (kernel, stride, padding, dilation))

        def function(x, w, b=None):
            return channels_last(F.conv2d(channels_first(x), channels_first(w), b, stride, padding,
                                          dilation, groups)).contiguous()

        inputs = [uniform(x), uniform((out, *kernel, x[3] // groups))]
        inputs += [uniform((out,))] if bias else []
        settings = {f"{word}_{side}": value[i] for i, side in enumerate("hw")
                    for word, value in (("stride", stride), ("padding", padding),
                                        ("dilation", dilation))}
        table.case(f"conv2d/{case}", inputs, function, range(len(inputs)), groups=groups,
                   **settings)

    add("plain_3x3", (2, 7, 9, 3), 4, 3)
    add("same_3x3", (2, 9, 7, 33), 17, 3, padding=1)
    add("rows_of_16", (1, 32, 32, 16), 16, 3, padding=1)
    add("wide_24_to_40", (3, 8, 8, 24), 40, 3, padding=1)
    add("stride2", (2, 9, 11, 5), 6, 3, stride=2, padding=1)
    add("stride2_even", (2, 16, 16, 16), 32, 3, stride=2, padding=1)
    add("stride3", (1, 11, 10, 4), 7, 3, stride=3, padding=2)
    add("padding2_5x5", (2, 8, 7, 1), 6, 5, padding=2)
    add("dilation2", (2, 9, 9, 3), 5, 3, padding=2, dilation=2)
    add("dilation2_stride2", (1, 11, 9, 4), 3, 3, stride=2, padding=1, dilation=2)
    add("groups2", (2, 7, 6, 6), 8, 3, padding=1, groups=2)
    add("groups3_stride2", (1, 8, 9, 9), 6, 3, stride=2, padding=1, groups=3)
    add("depthwise", (2, 7, 7, 5), 5, 3, padding=1, groups=5)
    add("depthwise_times2_stride2", (1, 9, 8, 3), 6, 3, stride=2, padding=1, groups=3)
    add("pointwise_1x1", (2, 5, 6, 19), 13, 1)
    add("pointwise_1x1_stride2", (2, 7, 7, 8), 16, 1, stride=2)
    add("stem_7x7", (1, 15, 17, 3), 8, 7, stride=2, padding=3)
    add("kernel_as_large_as_image", (3, 4, 5, 2), 3, (4, 5))
    add("unequal_sides", (2, 9, 8, 3), 4, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(2, 1))
    add("one_pixel", (1, 1, 1, 1), 1, 3, padding=1)
    add("with_bias", (2, 6, 5, 3), 7, 3, padding=1, bias=True)


def products(table):
    for case, m, k, n in (("plain", 5, 7, 3), ("odd", 67, 45, 71), ("row", 1, 33, 9),
                          ("column", 19, 8, 1), ("inner1", 4, 1, 6)):
        table.case(f"matmul/{case}", [uniform((m, k)), uniform((k, n))], torch.matmul, (0, 1),
                   transpose_a=0, transpose_b=0)
    for a in (0, 1):
        for b in (0, 1):
            if a or b:
                table.case(f"matmul/transpose{a}{b}",
                           [uniform((11, 6) if a else (6, 11)), uniform((9, 11) if b else (11, 9))],
                           lambda x, y: (x.T if a else x) @ (y.T if b else y), (0, 1),
                           transpose_a=a, transpose_b=b)
    for case, a, b in (("pairs", (3, 5, 7), (3, 7, 4)), ("one", (2, 3, 5, 7), (7, 4)),
                       ("broadcast", (2, 1, 5, 7), (3, 7, 4))):
        table.case(f"matmul/{case}", [uniform(a), uniform(b)], torch.matmul, (0, 1), transpose_a=0,
                   transpose_b=0)
    for case, n, inputs, outputs in (("plain", 4, 6, 5), ("batch1", 1, 17, 10),
                                     ("odd", 13, 37, 21)):
        table.case(f"linear/{case}",
                   [uniform((n, inputs)), uniform((outputs, inputs)), uniform((outputs,))],
                   F.linear, (0, 1, 2))
    for case, shape in (("matrix", (6, 5)), ("image", (2, 3, 5, 7))):
        table.case(f"bias/{case}", [uniform(shape), uniform(shape[-1:])], torch.add, (0, 1))


def norms(table):
    def batch_norm(training):
        def function(x, gamma, beta, mean, var):
            mean, var = mean.clone(), var.clone()
            y = F.batch_norm(channels_first(x) if x.dim() == 4 else x, mean, var, gamma, beta,
                             training, 0.1, 1e-5)
            y = channels_last(y).contiguous() if x.dim() == 4 else y
            return (y, mean, var) if training else y
        return function

    for case, shape in (("image", (3, 5, 4, 7)), ("wide", (2, 6, 6, 33)), ("batch1", (1, 5, 3, 4)),
                        ("matrix", (9, 6)), ("one_channel", (4, 3, 3, 1))):
        channels = shape[-1:]
        inputs = [uniform(shape, 2.0, 0.5), uniform(channels, 0.5, 1.0), uniform(channels),
                  uniform(channels), uniform(channels, 0.5, 1.0)]
        for mode, training in (("training", True), ("evaluation", False)):
            table.case(f"batch_norm/{case}_{mode}", inputs, batch_norm(training), (0, 1, 2),
                       training=int(training), epsilon=1e-5, momentum=0.1)
    for case, shape in (("matrix", (5, 37)), ("row", (1, 8)), ("sequence", (2, 3, 19)),
                        ("image", (2, 3, 4, 6))):
        table.case(f"layer_norm/{case}",
                   [uniform(shape, 2.0, 0.5), uniform(shape[-1:], 0.5, 1.0), uniform(shape[-1:])],
                   lambda x, gamma, beta: F.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5),
                   (0, 1, 2), epsilon=1e-5)
    for case, shape, groups in (("groups2", (2, 5, 3, 6), 2), ("groups1", (3, 4, 4, 5), 1),
                                ("instance", (2, 5, 4, 3), 3), ("batch1", (1, 3, 7, 12), 4)):
        table.case(f"group_norm/{case}",
                   [uniform(shape, 2.0, 0.5), uniform(shape[-1:], 0.5, 1.0), uniform(shape[-1:])],
                   lambda x, gamma, beta: channels_last(
                       F.group_norm(channels_first(x), groups, gamma, beta, 1e-5)).contiguous(),
                   (0, 1, 2), epsilon=1e-5, groups=groups)


def pointwise(table):
    functions = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "sigmoid": torch.sigmoid,
                 "tanh": torch.tanh, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
                 "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish, "mish": F.mish}
    for op, function in functions.items():
        table.case(f"{op}/near", [uniform((7, 19), 3.0)], function, (0,))
        table.case(f"{op}/far", [uniform((2, 3, 5, 3), 30.0)], function, (0,))
    for case, slope in (("usual", 0.01), ("steep", 0.3)):
        table.case(f"leaky_relu/{case}", [uniform((7, 19), 3.0)], lambda x: F.leaky_relu(x, slope),
                   (0,), slope=slope)
    for case, alpha in (("usual", 1.0), ("steep", 1.7)):
        table.case(f"elu/{case}", [uniform((7, 19), 3.0)], lambda x: F.elu(x, alpha), (0,),
                   alpha=alpha)
    for case, channels in (("channels", 5), ("one_slope", 1)):
        table.case(f"prelu/{case}", [uniform((2, 3, 4, 5)), uniform((channels,), 0.25, 0.25)],
                   lambda x, a: channels_last(F.prelu(channels_first(x), a)).contiguous(), (0, 1))
    for case, shape in (("matrix", (5, 7)), ("image", (2, 3, 5, 9)), ("one", (1,))):
        table.case(f"add/{case}", [uniform(shape), uniform(shape)], torch.add, (0, 1))
        table.case(f"mul/{case}", [uniform(shape), uniform(shape)], torch.mul, (0, 1))
        table.case(f"scale/{case}", [uniform(shape)], lambda x: x * 0.375, (0,), factor=0.375)
    for case, exponent in (("square", 2.0), ("root", 0.5), ("inverse", -1.5)):
        table.case(f"pow/{case}", [uniform((5, 7), 0.5, 1.0)], lambda x: x ** exponent, (0,),
                   exponent=exponent)
    table.case("pow_of/matrix", [uniform((5, 7), 0.5, 1.0), uniform((5, 7), 2.0)], torch.pow, (0, 1))
    table.case("minimum/matrix", [uniform((5, 7)), uniform((5, 7))], torch.minimum, (0, 1))
    table.case("maximum/matrix", [uniform((5, 7)), uniform((5, 7))], torch.maximum, (0, 1))
    table.case("clamp/matrix", [uniform((5, 7))], lambda x: x.clamp(-0.3, 0.4), (0,), low=-0.3,
               high=0.4)
    table.case("where/broadcast", [uniform((3, 5)), uniform((5,)), uniform((3, 1))],
               lambda x, a, b: torch.where(x > 0.1, a, b), (1, 2), bound=0.1)
    for case, shape, axes in (("image", (2, 3, 4, 5), (0, 3, 1, 2)), ("matrix", (4, 7), (1, 0))):
        table.case(f"permute/{case}", [uniform(shape)], lambda x: x.permute(axes).contiguous(), (0,),
                   axes=np.array(axes))
    for case, shape, index, axis in (("last", (4, 7), (4, 3), 1), ("first", (6, 5), (8, 5), 0),
                                     ("middle", (2, 5, 3), (2, 4, 3), 1)):
        table.case(f"gather/{case}", [uniform(shape), integers(index, shape[axis])],
                   lambda x, i: torch.gather(x, axis, i), (0,), axis=axis)
    table.case("one_hot/labels", [integers((9,), 5)], lambda x: F.one_hot(x, 5).double(),
               classes=5)
    table.case("stack/last", [uniform((3, 4)) for _ in range(3)], lambda *x: torch.stack(x, -1),
               (0, 1, 2), axis=-1)
    table.case("reshape/flatten", [uniform((3, 4, 5, 2))], lambda x: x.flatten(1), (0,))
    table.case("reshape/split", [uniform((6, 10))], lambda x: x.reshape(3, 4, 5), (0,))
    table.case("concat/three", [uniform((2, 3, 4, c)) for c in (3, 5, 1)],
               lambda *x: torch.cat(x, -1), (0, 1, 2), axis=-1)
    table.case("concat/rows", [uniform((n, 6)) for n in (2, 5)],
               lambda *x: torch.cat(x, 0), (0, 1), axis=0)
    table.case("normalize/image", [integers((2, 5, 6, 3), 256)],
               lambda x: (x.double() / 255 - torch.tensor([0.4914, 0.4822, 0.4465]).double()) /
               torch.tensor([0.2470, 0.2435, 0.2616]).double(),
               mean=np.array([0.4914, 0.4822, 0.4465]), std=np.array([0.2470, 0.2435, 0.2616]),
               divisor=255.0)


def pools(table):
    def pool(op, case, shape, kernel, stride, padding, **attributes):
        round_up = "round_up" in attributes

        def function(x):
            x = channels_first(x)
            y = (F.max_pool2d(x, kernel, stride, padding, ceil_mode=round_up)
                 if op == "max_pool" else
                 F.avg_pool2d(x, kernel, stride, padding, ceil_mode=round_up,
                              count_include_pad=bool(attributes["count_include_pad"])))
            return channels_last(y).contiguous()
        table.case(f"{op}/{case}", [uniform(shape)], function, (0,), kernel=kernel, stride=stride,
                   padding=padding, **attributes)

    for case, shape, *settings in (("2x2", (2, 6, 8, 5), 2, 2, 0),
                                   ("2x2_odd_image", (2, 7, 9, 3), 2, 2, 0),
                                   ("3x3_stride2_padding1", (2, 9, 8, 7), 3, 2, 1),
                                   ("3x3_stride1_padding1", (1, 5, 5, 19), 3, 1, 1),
                                   ("3x3_stride3", (1, 10, 11, 2), 3, 3, 0)):
        pool("max_pool", case, shape, *settings)
        pool("avg_pool", f"{case}_with_padding", shape, *settings, count_include_pad=1)
        pool("avg_pool", f"{case}_without_padding", shape, *settings, count_include_pad=0)
    for case, shape, *settings in (("2x2_up", (2, 7, 9, 3), 2, 2, 0),
                                   ("3x3_stride2_up", (2, 8, 6, 7), 3, 2, 0),
                                   ("3x3_stride2_padding1_up", (2, 8, 9, 5), 3, 2, 1),
                                   ("2x2_stride3_padding1_up", (1, 5, 8, 2), 2, 3, 1)):
        pool("max_pool", case, shape, *settings, round_up=1)
        for padded in (0, 1):
            pool("avg_pool", f"{case}_{padded}", shape, *settings, count_include_pad=padded,
                 round_up=1)
    for op, function in (("adaptive_max_pool", F.adaptive_max_pool2d),
                         ("adaptive_avg_pool", F.adaptive_avg_pool2d)):
        for case, shape, out in (("divides", (2, 6, 8, 3), (3, 4)), ("overlaps", (2, 7, 9, 5), (3, 4)),
                                 ("grows", (1, 3, 4, 2), (7, 7)), ("one", (2, 5, 3, 4), (1, 1))):
            table.case(f"{op}/{case}", [uniform(shape)],
                       lambda x: channels_last(function(channels_first(x), out)).contiguous(), (0,),
                       out_h=out[0], out_w=out[1])
    for case, shape, groups in (("two", (2, 3, 4, 6), 2), ("three", (2, 1, 5, 12), 3)):
        table.case(f"channel_shuffle/{case}", [uniform(shape)],
                   lambda x: channels_last(F.channel_shuffle(channels_first(x), groups)).contiguous(),
                   (0,), groups=groups)
    for case, shape, size, alpha, beta, k in (("usual", (2, 3, 4, 7), 5, 1e-4, 0.75, 1.0),
                                              ("strong", (2, 3, 3, 8), 3, 0.5, 0.6, 2.0),
                                              ("even", (1, 4, 3, 6), 4, 0.5, 0.75, 1.0),
                                              ("wide", (2, 2, 2, 3), 7, 0.5, 0.75, 1.0)):
        table.case(f"local_response_norm/{case}", [uniform(shape, 3.0)],
                   lambda x: channels_last(F.local_response_norm(channels_first(x), size, alpha,
                                                                 beta, k)).contiguous(), (0,),
                   size=size, alpha=alpha, beta=beta, k=k)
    for case, shape in (("image", (3, 5, 7, 6)), ("batch1", (1, 2, 3, 19))):
        table.case(f"global_avg_pool/{case}", [uniform(shape)], lambda x: x.mean((1, 2)), (0,))


def losses(table):
    for case, shape, scale in (("matrix", (5, 10), 3.0), ("row", (1, 37), 3.0),
                               ("large", (4, 7), 100.0)):
        for op, function in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
            table.case(f"{op}/{case}", [uniform(shape, scale)],
                       lambda x: function(x, -1), (0,))
    for case, shape, scale in (("plain", (6, 10), 3.0), ("batch1", (1, 7), 3.0),
                               ("odd", (13, 37), 3.0), ("large", (5, 10), 80.0)):
        for smoothing in (0.0, 0.1):
            name = "smoothed_" if smoothing else ""
            function = lambda x, y: F.cross_entropy(x, y, label_smoothing=smoothing)
            table.case(f"cross_entropy/{name}{case}",
                       [uniform(shape, scale), integers(shape[:1], shape[1])], function, (0,),
                       label_smoothing=smoothing)
            target = formula.uniform(f"soft/{case}", shape, 0.5, 0.5)
            target = target / target.sum(-1, keepdims=True)
            table.case(f"cross_entropy_soft/{name}{case}", [uniform(shape, scale), target],
                       function, (0,), label_smoothing=smoothing)
    for case, shape in (("matrix", (5, 7)), ("image", (2, 3, 4, 3))):
        table.case(f"mse/{case}", [uniform(shape), uniform(shape)], F.mse_loss, (0, 1))
    for case, scale in (("near", 3.0), ("far", 80.0)):
        table.case(f"bce_with_logits/{case}", [uniform((5, 9), scale), uniform((5, 9), 0.5, 0.5)],
                   F.binary_cross_entropy_with_logits, (0,))
    for op, function in (("sum", torch.sum), ("mean", torch.mean)):
        for case, shape, axes in (("all", (3, 5, 7), (0, 1, 2)), ("last", (4, 37), (1,)),
                                  ("first", (6, 5), (0,)), ("middle", (2, 9, 4), (1,)),
                                  ("image", (3, 4, 5, 6), (0, 1, 2)), ("long", (5000,), (0,))):
            table.case(f"{op}/{case}", [uniform(shape, 1.0, 0.25)],
                       lambda x: function(x, axes), (0,), axes=np.array(axes))
    for case, shape, axis in (("last", (4, 37), 1), ("first", (6, 5), 0),
                              ("middle", (2, 9, 4), 1), ("batch1", (1, 1, 3), 2)):
        table.case(f"max/{case}", [uniform(shape)], lambda x: torch.max(x, axis), (0,), axis=axis)
        table.case(f"min/{case}", [uniform(shape)], lambda x: torch.min(x, axis), (0,), axis=axis)


def optimizers(table):
    """Writes three steps from in0 with the gradients in1, in2, in3; out0, out1, out2 are the parameter
    after each step, the further outputs the optimizer's state after the last."""

    def steps(make, states):
        def function(parameter, *gradients):
            parameter = parameter.clone()
            optimizer, values = make([parameter]), []
            for gradient in gradients:
                parameter.grad = gradient.clone()
                optimizer.step()
                values.append(parameter.clone())
            return values + [optimizer.state[parameter][s] for s in states]
        return function

    inputs = [uniform((5, 7)) for _ in range(4)]
    for case, momentum, nesterov, decay in (("plain", 0.0, 0, 0.0), ("decay", 0.0, 0, 0.05),
                                            ("momentum", 0.9, 0, 0.0),
                                            ("momentum_decay", 0.9, 0, 0.05),
                                            ("nesterov", 0.9, 1, 0.0),
                                            ("nesterov_decay", 0.9, 1, 0.05)):
        settings = dict(lr=0.1, momentum=momentum, weight_decay=decay)
        table.case(f"sgd/{case}", inputs,
                   steps(lambda p: torch.optim.SGD(p, nesterov=bool(nesterov), **settings),
                         ["momentum_buffer"] if momentum else []), nesterov=nesterov, **settings)
    for case, decay, beta1, beta2 in (("plain", 0.0, 0.9, 0.999), ("decay", 0.05, 0.9, 0.999),
                                      ("other_betas", 0.01, 0.8, 0.95)):
        settings = dict(lr=0.01, weight_decay=decay)
        table.case(f"adamw/{case}", inputs,
                   steps(lambda p: torch.optim.AdamW(p, betas=(beta1, beta2), eps=1e-8, **settings),
                         ["exp_avg", "exp_avg_sq"]), beta1=beta1, beta2=beta2, epsilon=1e-8,
                   **settings)


def write(file):
    """Fills an open HDF5 file and returns the Table; raises if float32 is too far from float64."""
    for name, spec in formula.SAMPLES.items():
        group = file.create_group(f"formula/{name}")
        group.attrs["in0"] = np.bytes_(spec)
        group.create_dataset("out0", data=formula.make(spec))
    table = Table(file)
    for section in (convolutions, products, norms, pointwise, pools, losses, optimizers):
        section(table)
    if table.worst[0] > TOLERANCE:
        raise SystemExit(f"float32 is {table.worst[0]:.1e} away from float64 in {table.worst[1]}")
    return table
