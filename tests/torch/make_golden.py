#!/usr/bin/env python3
"""Computes the golden values of the nets in golden_cases.py with PyTorch in double precision: losses, scores,
gradients, statistics.

    make_golden.py OUT.safetensors            writes the values, which tests/worker/engine/golden_test.cc uses
    make_golden.py --check GOLDEN.safetensors  checks that the file has the values of this script

Parameters and images are pseudo-random numbers from a hash that both sides compute. For a tensor of more than WHOLE
elements the file has PICKED evenly spaced elements, and the sums and norms of PARTS equal parts.
"""
import json
import math
import pathlib
import sys

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import golden_cases  # noqa: E402
import safetensors_to_torch  # noqa: E402
import torch_to_safetensors  # noqa: E402
from torch_net import TorchNet  # noqa: E402

WHOLE, PICKED, PARTS = 600, 256, 32
SHAKE, SHAKEN = 1e-5, 1e-4
ZERO = 1e-9


def draws(seed, tensor, count):
    """Returns uniform numbers in [-1, 1), multiples of 2^-23: splitmix64 of (seed, tensor, element)."""
    with numpy.errstate(over="ignore"):
        z = (numpy.uint64(seed) << numpy.uint64(40)) + (numpy.uint64(tensor) << numpy.uint64(32)) \
            + numpy.arange(count, dtype=numpy.uint64)
        z = z * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    return (z >> numpy.uint64(40)).astype(numpy.float64) * 2.0**-23 - 1


def fill_of(name, tensor, kinds):
    """Returns (centre, half width) of the random values of a parameter or statistic."""
    layer, which = name.rsplit(".", 1)
    if which == "running_var":
        return 1.0, 0.5
    if which in ("bias", "running_mean"):
        return 0.0, 0.3
    if "batchNorm" in kinds[layer]:
        return 1.0, 0.4
    return 0.0, 1.0 if layer == "image" else math.sqrt(3 / tensor[0].numel())


def filled(seed, place, fill, shape):
    centre, width = fill
    values = (centre + width * draws(seed, place, math.prod(shape))).astype(numpy.float32)
    return torch.from_numpy(values.astype(numpy.float64)).reshape(shape)


class Case:
    """A net with its parameters and a batch, which depend on the seed."""

    def __init__(self, net, seed):
        self.net, self.seed = net, seed
        self.torch_net = TorchNet(net).double()
        kinds = {layer["name"]: layer for layer in net["layers"]}
        self.named = {name: tensor for name, tensor in self.torch_net.named_by_layer() if not name.endswith("num_batches_tracked")}
        self.fills = {name: fill_of(name, tensor, kinds) for name, tensor in self.named.items()}
        self.one_hot = net["layers"][0]["name"] == "image"
        dims = [net["input"][axis] for axis in ("channels", "height", "width")]
        self.samples = dims[0] if self.one_hot else golden_cases.SAMPLES
        self.images = (torch.eye(dims[0], dtype=torch.float64).reshape(self.samples, dims[0], 1, 1) if self.one_hot
                       else filled(seed, 255, (0.0, 1.0), [self.samples, *dims]))
        self.labels = torch.tensor([(2 * n + 1) % net["classes"] for n in range(self.samples)])

    def fill(self, shake=0.0):
        generator = torch.Generator().manual_seed(self.seed)
        with torch.no_grad():
            for place, (name, tensor) in enumerate(self.named.items()):
                values = filled(self.seed, place, self.fills[name], tensor.shape)
                noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
                tensor.copy_(values + shake * self.fills[name][1] * noise)

    def figures(self, shake=0.0):
        """Returns {name: tensor} of an evaluation, then of a training step."""
        self.fill(shake)
        self.torch_net.eval()
        with torch.no_grad():
            out = {"scores": torch.log_softmax(self.torch_net(self.images), 1)}
        self.torch_net.train().zero_grad(set_to_none=True)
        loss = self.torch_net.loss(self.torch_net(self.images), self.labels)
        loss.backward()
        out["loss"] = loss.detach().reshape(1)
        for name, tensor in self.named.items():
            statistic = name.rsplit(".", 1)[-1].startswith("running_")
            out[name] = (tensor if statistic else tensor.grad).detach().clone()
        return out

    def is_steady(self):
        """Returns whether no ReLU and no maximum is so near its threshold that rounding could change the result."""
        plain, shaken = self.figures(), self.figures(SHAKE)
        return all((tensor - shaken[name]).abs().max() <= SHAKEN * scale_of(tensor, plain) for name, tensor in plain.items())


def scale_of(tensor, others):
    """Returns the scale of differences: the largest element of the tensor, or of the others if it is zero (the gradient
    of a bias before a norm)."""
    own = tensor.abs().max()
    return own if own > ZERO else max(other.abs().max() for other in others.values())


def stored(tensor):
    """Returns what the file stores of a tensor: {suffix: values}."""
    flat = tensor.flatten()
    if flat.numel() <= WHOLE:
        return {"": flat}
    bounds = [flat.numel() * part // PARTS for part in range(PARTS + 1)]
    parts = [flat[begin:end] for begin, end in zip(bounds, bounds[1:])]
    return {"#picked": flat[torch.arange(PICKED) * flat.numel() // PICKED],
            "#sums": torch.stack([part.sum() for part in parts]), "#norms": torch.stack([part.norm() for part in parts])}


def make():
    """Returns ({name in the file: values}, {name of a case: its JSON})."""
    tensors, described = {}, {}
    for name, net in golden_cases.all_cases().items():
        case = next((case for case in (Case(net, seed) for seed in range(1, 100)) if case.is_steady()), None)
        if case is None:
            sys.exit(f"make_golden: no seed makes {name} numerically stable")
        described[name] = json.dumps({"net": net, "seed": case.seed, "samples": case.samples, "one_hot": case.one_hot,
                                      "labels": case.labels.tolist(),
                                      "fills": [[key, *fill] for key, fill in case.fills.items()]}, separators=(",", ":"))
        for key, tensor in case.figures().items():
            for suffix, values in stored(tensor).items():
                tensors[f"{name}/{key}{suffix}"] = values
    return tensors, described


def check(path):
    kept, described = safetensors_to_torch.load(path)
    tensors, described_now = make()
    if described != described_now or kept.keys() != tensors.keys():
        sys.exit(f"make_golden: {path} has other cases than golden_cases.py; write it again")
    worst = max(float((kept[name] - values).abs().max() / scale_of(values, tensors)) for name, values in tensors.items())
    print(f"{len(described)} cases, {len(tensors)} tensors: largest relative difference to this PyTorch's {worst:.2g}")
    if not worst < 1e-6:
        sys.exit(f"make_golden: {path} differs by {worst:.3g}; write it again")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        check(sys.argv[2])
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        torch_to_safetensors.save(sys.argv[1], *make())
    else:
        sys.exit("usage: make_golden.py OUT.safetensors | --check GOLDEN.safetensors")


if __name__ == "__main__":
    main()
