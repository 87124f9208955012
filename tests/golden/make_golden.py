"""Makes ops.h5, trajectories.h5, updates.h5 and networks.h5, the figures that PyTorch gives for what
Tessera computes.

    python make_golden.py                 write the files beside this script
    python make_golden.py --check         recompute and compare with the files; write nothing
    python make_golden.py --only ops      one of them: ops, trajectories, updates, networks
    python make_golden.py --drift         also rerun the trajectories from slightly moved weights

Needs torch, numpy, h5py, for the networks torchvision and timm, for updates timm, and, to compare
formula.h with formula.py, a C++20 compiler.
"""

import argparse
import pathlib
import shutil
import tempfile

import h5py
import numpy as np
import torch

import formula
import ops
import trajectories
import updates

HERE = pathlib.Path(__file__).parent


def write_ops(file, _):
    table = ops.write(file)
    print(f"ops: {table.cases} cases, float32 within {table.worst[0]:.1e} ({table.worst[1]})")


def write_networks(file, _):
    import networks
    apart, name = networks.write(file)
    print(f"networks: float32 within {apart:.1e} ({name})")


def write_updates(file, _):
    print(f"updates: {updates.write(file)} cases")


def statistics(values):
    """Returns float64[n, 2]: sum and sum of absolute values of each array."""
    return np.array([(v.sum(), np.abs(v).sum()) for v in values.values()])


def text(names):
    return np.array([np.bytes_(n) for n in names])


def write_trajectories(file, show_drift):
    for name, recipe in trajectories.RECIPES.items():
        double, gradients, final = trajectories.train(recipe, torch.float64)
        single, _, _ = trajectories.train(recipe, torch.float32)
        group = file.create_group(name)
        for key, value in vars(recipe).items():
            group.attrs[key] = (np.bytes_(value) if isinstance(value, str) else
                                int(value) if isinstance(value, bool) else value)
        specs = trajectories.parameter_specs(name)
        group.create_dataset("losses_f64", data=double)
        group.create_dataset("losses_f32", data=single)
        group.create_dataset("parameter_specs", data=text(specs.values()))
        group.create_dataset("gradient_names", data=text(gradients))
        group.create_dataset("gradient_sums", data=statistics(gradients))
        group.create_dataset("final_names", data=text(final))
        group.create_dataset("final_sums", data=statistics(final))
        between = trajectories.drift(single, double)
        print(f"{name}: loss {double[0]:.4f} -> {double[-recipe.batches:].mean():.4f} (mean of the "
              f"last {recipe.batches}); float32 against float64: {between[:10].max():.1e} in 10 "
              f"steps, {between.max():.1e} in {recipe.steps}")
        if show_drift:
            for dtype, jitter, reference in ((torch.float64, 1e-15, double),
                                             (torch.float32, 1e-7, single)):
                moved, _, _ = trajectories.train(recipe, dtype, jitter=jitter)
                apart = trajectories.drift(moved, reference)
                print(f"{name}: {dtype}, weights moved by {jitter:g}: loss moves "
                      f"{apart[:10].max():.1e} in 10 steps, {apart.max():.1e} in {recipe.steps}, "
                      f"{apart[-1]:.1e} at the last")


def compare(made, stored, path, tolerance):
    """Raises if two files differ in a name, an attribute, or a number beyond the tolerance."""
    def visit(name, item):
        twin = stored[name]
        if dict_of(item.attrs) != dict_of(twin.attrs):
            raise SystemExit(f"{path}: attributes of {name} differ")
        if isinstance(item, h5py.Dataset):
            a, b = item[()], twin[()]
            same = (np.array_equal(a, b) if a.dtype.kind in "Si" else
                    a.shape == b.shape and a.dtype == b.dtype and ops.distance(a, b) <= tolerance)
            if not same:
                raise SystemExit(f"{path}: {name} differs")

    def dict_of(attributes):
        return {k: np.asarray(v).tolist() for k, v in attributes.items()}

    names = [[], []]
    made.visit(names[0].append)
    stored.visit(names[1].append)
    if names[0] != names[1]:
        raise SystemExit(f"{path}: not the same groups and data sets")
    made.visititems(visit)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=("ops", "trajectories", "updates", "networks"))
    parser.add_argument("--drift", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums then do not depend on the number of cores
    print(f"torch {torch.__version__}; formula.h == formula.py on {formula.compare_with_cpp()} "
          "elements")
    for name, write, tolerance in (("ops", write_ops, 1e-6),
                                   ("trajectories", write_trajectories, 1e-4),
                                   ("updates", write_updates, 1e-12),
                                   ("networks", write_networks, 1e-10)):
        if arguments.only not in (None, name):
            continue
        path = HERE / f"{name}.h5"
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, path.name)
            with h5py.File(target, "w") as made:
                write(made, arguments.drift)
            if arguments.check:
                with h5py.File(target) as made, h5py.File(path) as stored:
                    compare(made, stored, path, tolerance)
            else:
                shutil.copyfile(target, path)
            print(f"{path.name}: {target.stat().st_size} bytes, "
                  f"{'as stored' if arguments.check else 'written'}")


if __name__ == "__main__":
    main()
