#!/usr/bin/env python3
"""Tests that the engine, with weights from PyTorch, has the same loss as PyTorch in every step, and returns its weights.

    follow.py BUILD_FOLDER [MODEL...]
"""
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import safetensors_to_torch  # noqa: E402
import torch_to_safetensors  # noqa: E402
from nets import NetFile  # noqa: E402

STEPS, BATCH, MOMENTUM = 20, 32, 0.9
BOUND = 1e-3  # relative difference of a loss
# Name, arguments of `tern model`, learning rate.
MODELS = {"lenet": ([], 0.003), "cifarnet": ([], 0.01), "resnet20": ([], 0.001),
          "mobilenet": (["--height", "32", "--width", "32", "--classes", "10"], 0.0005), "airbench94": ([], 0.001)}


def batches(shape, classes):
    """Yields images that a net can learn: one coarse pattern per class, with random brightness and noise."""
    generator = torch.Generator().manual_seed(7)
    channels, *size = shape
    patterns = functional.interpolate(torch.randn(classes, channels, 4, 4, generator=generator), size, mode="bilinear")
    labels = torch.randint(classes, (STEPS, BATCH), generator=generator)
    light = 1 + torch.rand(STEPS, BATCH, 1, 1, 1, generator=generator)
    return light * patterns[labels] + 0.3 * torch.randn(STEPS, BATCH, *shape, generator=generator), labels


def start(net):
    """Sets initial weights at which training is numerically stable. From a usual start, where half of all ReLUs are
    inactive, deep nets with batch norms amplify rounding errors: losses of PyTorch in single and double precision
    differ by 1 % after five steps."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d) and module.bias is None:
            outputs = module.out_channels * module.kernel_size[0] ** 2 / module.groups
            nn.init.normal_(module.weight, 0, math.sqrt((2 if module.groups == 1 else 0.08) / outputs))
            if module.groups > 1:
                module.weight.data[:, :, 1, 1] += 1
        if isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.bias, 2)


def train(net, images, labels, rate):
    optimizer = torch.optim.SGD(net.parameters(), rate, MOMENTUM)
    losses = []
    for batch, label in zip(images, labels):
        loss = net.loss(net(batch), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return torch.tensor(losses)


def follow(build, folder, model, words, rate):
    file = NetFile(build, folder, model, words)
    images, labels = batches(file.shape, file.classes)
    torch.manual_seed(4)
    net = file.torch_net().train()
    start(net)
    torch_to_safetensors.save(folder / "weights", file.weights(net))
    torch_to_safetensors.save(folder / "batches", {"images": images, "labels": labels})
    subprocess.run([build / "tests/torch/torch_probe", "follow", file.path, folder / "weights", folder / "batches",
                    folder / "out", str(rate), str(MOMENTUM)], check=True)
    theirs = train(net, images, labels, rate)
    out, _ = safetensors_to_torch.load(folder / "out")
    ours = out.pop("losses")
    error = float(((ours - theirs).abs() / theirs.abs()).max())
    apart = max(float((out[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-3))
                for name, tensor in file.weights(net).items())
    print(f"{model}: loss {theirs[0]:.3f} to {theirs[-1]:.3f} in {STEPS} steps, largest relative difference {error:.2g}; "
          f"of the weights after them {apart:.2g} of a tensor's largest", flush=True)
    return error <= BOUND and theirs[-1] < 0.7 * theirs[0]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    failed = []
    for model in sys.argv[2:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="tern_follow.") as folder:
            if not follow(build, pathlib.Path(folder), model, *MODELS[model]):
                failed.append(model)
    if failed:
        sys.exit(f"follow: over {BOUND}, or did not learn: {', '.join(failed)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
