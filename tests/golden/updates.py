"""Parameters, averages and learning rates of PyTorch and timm, step by step, in float64.

A case has a matrix, filters and a vector, gradients for ten steps, and the values after each step.
Muon's reference is its published iteration, implemented below in float64, because PyTorch's rounds
to bfloat16. torch.optim.AdamW updates its vectors.
"""

import math

import numpy as np
import torch

SHAPES = ((6, 4), (3, 2, 1, 4), (5,))
STEPS = 10
LR = 0.02


def parameters_and_gradients(seed):
    generator = np.random.default_rng(seed)
    start = [generator.normal(size=shape) for shape in SHAPES]
    slopes = [generator.normal(size=(STEPS, *shape)) for shape in SHAPES]
    return start, slopes


def newton_schulz(matrix, steps):
    x = matrix / max(np.linalg.norm(matrix), 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class Muon:
    def __init__(self, parameters, lr, momentum, nesterov, steps, match_adamw, weight_decay):
        self.parameters = [p for p in parameters if p.dim() > 1]
        self.buffers = [np.zeros(p.shape) for p in self.parameters]
        self.adamw = torch.optim.AdamW([p for p in parameters if p.dim() <= 1], lr,
                                       weight_decay=weight_decay)
        self.settings = lr, momentum, nesterov, steps, match_adamw, weight_decay

    def step(self):
        lr, momentum, nesterov, steps, match_adamw, weight_decay = self.settings
        self.adamw.step()
        for p, buffer in zip(self.parameters, self.buffers):
            g = p.grad.numpy()
            buffer += (1 - momentum) * (g - buffer)
            u = g + momentum * (buffer - g) if nesterov else buffer
            rows, columns = p.shape[0], p.numel() // p.shape[0]
            x = newton_schulz(u.reshape(rows, columns), steps).reshape(p.shape)
            size = (0.2 * math.sqrt(max(rows, columns)) if match_adamw else
                    math.sqrt(max(1, rows / columns)))
            with torch.no_grad():
                p.mul_(1 - lr * weight_decay)
                p.sub_(lr * size * torch.tensor(x))


def optimizers():
    """Returns name -> function of parameters."""
    from timm.optim.lamb import Lamb
    from timm.optim.lars import Lars
    from timm.optim.lion import Lion
    from timm.optim.rmsprop_tf import RMSpropTF
    torch_optim = torch.optim
    return {
        "adam": lambda p: torch_optim.Adam(p, LR, (0.8, 0.95), 1e-6, weight_decay=0.1),
        "rmsprop": lambda p: torch_optim.RMSprop(p, LR, 0.9, 1e-4, weight_decay=0.1),
        "rmsprop_momentum": lambda p: torch_optim.RMSprop(p, LR, 0.9, 1e-4, weight_decay=0.1,
                                                          momentum=0.8),
        "rmsprop_tf": lambda p: RMSpropTF(p, LR, 0.9, 1e-3, weight_decay=0.1, momentum=0.8),
        "rmsprop_tf_plain": lambda p: RMSpropTF(p, LR, 0.9, 1e-3, weight_decay=0.1, momentum=0),
        "lion": lambda p: Lion(p, LR, (0.9, 0.99), weight_decay=0.1),
        "lamb": lambda p: Lamb(p, LR, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1,
                               max_grad_norm=None),
        "lamb_plain": lambda p: Lamb(p, LR, betas=(0.9, 0.999), eps=1e-6, weight_decay=0,
                                     max_grad_norm=None),
        "lars": lambda p: Lars(p, LR, momentum=0.9, weight_decay=0.1, trust_coeff=0.02),
        "lars_nesterov": lambda p: Lars(p, LR, momentum=0.9, weight_decay=0.1, trust_coeff=0.02,
                                        nesterov=True),
        "muon": lambda p: Muon(p, LR, 0.95, True, 5, False, 0.1),
        "muon_match": lambda p: Muon(p, LR, 0.9, False, 3, True, 0.1),
    }


def write_optimizers(file):
    for seed, (name, make) in enumerate(optimizers().items()):
        start, slopes = parameters_and_gradients(seed)
        tensors = [torch.nn.Parameter(torch.tensor(value)) for value in start]
        optimizer = make(tensors)
        group = file.create_group(f"optimizers/{name}")
        after = [np.empty_like(all_steps) for all_steps in slopes]
        for step in range(STEPS):
            for tensor, all_steps in zip(tensors, slopes):
                tensor.grad = torch.tensor(all_steps[step])
            optimizer.step()
            for tensor, values in zip(tensors, after):
                values[step] = tensor.detach().numpy()
        group.create_dataset("start", data=np.concatenate([v.ravel() for v in start]))
        for key, all_steps in (("gradients", slopes), ("after", after)):
            rows = [v.reshape(STEPS, -1) for v in all_steps]
            group.create_dataset(key, data=np.concatenate(rows, axis=1))


def write_averages(file):
    from timm.utils.model_ema import ModelEmaV3
    for name, decay, warmup in (("constant", 0.9, False), ("warmup", 0.75, True)):
        generator = np.random.default_rng(7)
        model = torch.nn.BatchNorm1d(5).double()
        ema = ModelEmaV3(model, decay=decay, use_warmup=warmup)
        values, averages = [], []
        for step in range(1, STEPS + 1):
            with torch.no_grad():
                for tensor in (model.weight, model.running_mean):
                    tensor.copy_(torch.tensor(generator.normal(size=5)))
            ema.update(model, step=step)
            values.append(np.stack([model.weight.detach(), model.running_mean]))
            averages.append(np.stack([ema.module.weight.detach(), ema.module.running_mean]))
        group = file.create_group(f"averages/{name}")
        group.attrs["decay"] = decay
        group.create_dataset("values", data=np.stack(values))
        group.create_dataset("averages", data=np.stack(averages))


def write_clipping(file):
    for name, most in (("shorter", 1.5), ("as_they_are", 100.0)):
        _, slopes = parameters_and_gradients(3)
        tensors = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in SHAPES]
        for tensor, all_steps in zip(tensors, slopes):
            tensor.grad = torch.tensor(all_steps[0])
        group = file.create_group(f"clipping/{name}")
        group.attrs["most"] = most
        for key in ("before", "after"):
            if key == "after":
                torch.nn.utils.clip_grad_norm_(tensors, most)
            group.create_dataset(key, data=np.concatenate([t.grad.numpy().ravel()
                                                           for t in tensors]))


LOSSES = [2.0, 1.5, 1.49999, 1.6, 1.4, 1.5, 1.5, 1.5, 1.5, 1.3, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4]


def wsd(step, warmup, decay, total, least):
    """Returns the factor of transformers' get_wsd_schedule with linear warm-up and decay, whose last
    step has `least`."""
    if step < warmup:
        return step / max(1, warmup)
    if step < total - decay:
        return 1.0
    return 1 - (1 - least) * (step - (total - decay)) / decay


def write_schedules(file):
    scheduler = torch.optim.lr_scheduler
    makers = {
        "polynomial": (lambda o: scheduler.PolynomialLR(o, 40, 2.5), 40),
        "exponential": (lambda o: scheduler.ExponentialLR(o, 0.9), 40),
        "cosine_restarts": (lambda o: scheduler.CosineAnnealingWarmRestarts(o, 6, 1, 0.01), 40),
        "cosine_restarts_twice": (lambda o: scheduler.CosineAnnealingWarmRestarts(o, 5, 2, 0.01), 40),
        "wsd": (lambda o: scheduler.LambdaLR(o, lambda s: wsd(s, 0, 10, 40, 0.1)), 40),
        "plateau": (lambda o: scheduler.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1,
                                                          min_lr=0.06), len(LOSSES)),
    }
    for name, (make, steps) in makers.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.2)
        schedule, rates = make(optimizer), []
        for step in range(steps):
            if name == "plateau":
                schedule.step(LOSSES[step])
            rates.append(optimizer.param_groups[0]["lr"])
            if name != "plateau":
                optimizer.step()
                schedule.step()
        file.create_dataset(f"schedules/{name}", data=np.array(rates))
    file.create_dataset("schedules/plateau_losses", data=np.array(LOSSES))


def write_losses(file):
    generator = np.random.default_rng(11)
    logits = torch.tensor(generator.normal(size=(6, 4)) * 2)
    labels = torch.tensor([0, 3, 1, 1, 2, 3])
    mixed = torch.tensor(generator.dirichlet(np.ones(4), size=6))
    weights = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)
    from timm.loss import BinaryCrossEntropy
    cross_entropy = torch.nn.functional.cross_entropy
    cases = {
        "weights": lambda x: cross_entropy(x, labels, weights),
        "weights_smoothed": lambda x: cross_entropy(x, labels, weights, label_smoothing=0.1),
        "weights_mixed": lambda x: cross_entropy(x, mixed, weights),
        "bce": lambda x: BinaryCrossEntropy(smoothing=0.1)(x, labels),
        "bce_threshold": lambda x: BinaryCrossEntropy(smoothing=0, target_threshold=0.2)(x, mixed),
        "mse": lambda x: torch.nn.functional.mse_loss(
            x, torch.nn.functional.one_hot(labels, 4).double()),
    }
    group = file.create_group("losses")
    group.create_dataset("logits", data=logits.numpy())
    group.create_dataset("labels", data=labels.numpy())
    group.create_dataset("mixed", data=mixed.numpy())
    for name, loss in cases.items():
        x = logits.clone().requires_grad_()
        value = loss(x)
        value.backward()
        group.create_dataset(f"{name}/loss", data=value.item())
        group.create_dataset(f"{name}/gradient", data=x.grad.numpy())


def write(file):
    write_optimizers(file)
    write_averages(file)
    write_clipping(file)
    write_schedules(file)
    write_losses(file)
    return sum(len(file[group]) for group in file)
