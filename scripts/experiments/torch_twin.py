"""Trains a Tern job in PyTorch, in one process with the total batch. Reads network, initial distributions,
augmentation, optimizer, schedule and weight decay from the job file. OMP_NUM_THREADS sets the number of threads
(default: all cores).

  torch_twin.py JOB --tern TERN --set KEY=VALUE... --out FOLDER

Writes twin.json with the accuracy and the curve by epoch. Ignores servers and codecs of the job; an unknown key that
affects training is an error.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import torch
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/torch"))
import torch_net  # noqa: E402

KNOWN = {
    "model": {"name", "input_channels", "input_height", "input_width", "classes"},
    "data": {"format", "dir", "mean", "std", "standardize", "augmentation", "threads"},
    "augmentation": {"height", "width", "pad", "random_crop", "mirror", "brightness", "contrast_min", "contrast_max"},
    "train": {"batch_total", "epochs", "optimizer", "schedule", "weight_decay"},
    "optimizer": {"name", "momentum"},
    "schedule": {"name", "learning_rate", "warmup_steps"},
    "weight_decay": {"rate"},
}
TRAINING_FILES, TEST_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=pathlib.Path)
    parser.add_argument("--tern", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


def job_of(file, settings):
    job = yaml.safe_load(file.read_text())
    for setting in settings:
        path, _, value = setting.partition("=")
        *sections, key = path.split(".")
        at = job
        for section in sections:
            at = at.setdefault(section, {})
        at[key] = yaml.safe_load(value)
    sections = {**{name: job[name] for name in ("model", "data", "train")},
                "augmentation": job["data"].get("augmentation", {}), "optimizer": job["train"]["optimizer"],
                "schedule": job["train"]["schedule"], "weight_decay": job["train"].get("weight_decay") or {}}
    for name, section in sections.items():
        unknown = set(section) - KNOWN[name]
        if unknown:
            sys.exit(f"torch_twin: the job has {name}: {', '.join(sorted(unknown))}, which the twin does not know")
    return job


def cifar10(folder, names):
    """Returns the images as bytes [N, 3, 32, 32], and the labels."""
    records = np.concatenate([np.fromfile(pathlib.Path(folder) / name, np.uint8).reshape(-1, 3073) for name in names])
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)), torch.from_numpy(records[:, 0].astype(np.int64))


class Augmentation:
    """The augmentation of worker/data/augment.h for images of one size: padded crop, mirror, brightness, contrast,
    normalization."""

    def __init__(self, data):
        self.words = data.get("augmentation", {})
        self.standardize = data.get("standardize", False)
        self.mean, self.deviation = (torch.tensor(data[key]).view(1, -1, 1, 1) if key in data else None
                                     for key in ("mean", "std"))

    def training(self, images):
        pad = self.words.get("pad", 0)
        images = torch.nn.functional.pad(images, (pad,) * 4)
        n, channels, height, width = images.shape
        rows, columns = self.words.get("height", height), self.words.get("width", width)
        tops, lefts = ((torch.randint(room + 1, (n,)) if self.words.get("random_crop") else torch.full((n,), room // 2))
                       for room in (height - rows, width - columns))
        y = tops[:, None] + torch.arange(rows)
        x = lefts[:, None] + torch.arange(columns)
        if self.words.get("mirror"):
            x = torch.where(torch.rand(n, 1) < 0.5, x, x.flip(1))
        images = images[torch.arange(n)[:, None, None, None], torch.arange(channels)[:, None, None], y[:, None, :, None],
                        x[:, None, None, :]]
        return self.normalized(self.colored(images.float()))

    def colored(self, images):
        def drawn(low, high):
            return low + (high - low) * torch.rand(len(images), 1, 1, 1)
        if "brightness" in self.words:
            images = (images + drawn(-self.words["brightness"], self.words["brightness"])).clamp(0, 255)
        if "contrast_min" in self.words:
            mean = images.mean((2, 3), keepdim=True)
            images = (images - mean) * drawn(self.words["contrast_min"], self.words["contrast_max"]) + mean
        return images

    def evaluation(self, images):
        height, width = images.shape[2:]
        rows, columns = self.words.get("height", height), self.words.get("width", width)
        top, left = (height - rows) // 2, (width - columns) // 2
        return self.normalized(images[:, :, top:top + rows, left:left + columns].float())

    def normalized(self, images):
        images = images / 255
        if self.mean is not None:
            images = (images - self.mean) / self.deviation
        if self.standardize:
            flat = images.flatten(1)
            least = flat.shape[1] ** -0.5
            images = (images - flat.mean(1).view(-1, 1, 1, 1)) / flat.std(1, unbiased=False).clamp(min=least).view(-1, 1, 1, 1)
        return images


def fill(tensor, init):
    """Fills a tensor like models/graph/init.cc, as proto/net.proto's Init describes."""
    fan_in = tensor[0].numel()
    if "constant" in init:
        tensor.fill_(init["constant"])
    elif "normalStd" in init:
        tensor.normal_(0, init["normalStd"])
    elif "truncatedNormalStd" in init:
        std = init["truncatedNormalStd"]
        torch.nn.init.trunc_normal_(tensor, 0, std, -2 * std, 2 * std)
    elif "xavier" in init:
        tensor.uniform_(-math.sqrt(3 / fan_in), math.sqrt(3 / fan_in))
    elif "he" in init:
        fan = tensor.shape[0] * tensor[0, 0].numel() if init["he"].get("fanOut") else fan_in
        tensor.normal_(0, math.sqrt(2 / fan))
    else:
        sys.exit(f"torch_twin: the net has an initial value {init}, which the twin does not know")


def initialize(net, net_def):
    inits = {}
    for layer in net_def["layers"]:
        for kind in layer.values():
            if isinstance(kind, dict):
                inits |= {f"{layer['name']}.{what}": kind[f"{what}Init"] for what in ("weight", "bias")
                          if f"{what}Init" in kind}
    with torch.no_grad():
        parameters = {id(parameter) for parameter in net.parameters()}
        for name, tensor in net.named_by_layer():
            if id(tensor) in parameters:
                fill(tensor, inits[name])


def optimizer_of(net, train):
    rate = (train.get("weight_decay") or {}).get("rate", 0)
    weights = [parameter for parameter in net.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in net.parameters() if parameter.dim() == 1]
    groups = [{"params": weights, "weight_decay": rate}, {"params": others, "weight_decay": 0}]
    name = train["optimizer"]["name"]
    if name == "momentum":
        return torch.optim.SGD(groups, lr=1, momentum=train["optimizer"]["momentum"])
    if name == "adam":
        return torch.optim.Adam(groups, lr=1)
    sys.exit(f"torch_twin: the job has the optimizer {name}, which the twin does not know")


def rate_at(step, steps, schedule):
    """The learning rate as in common/update/schedule.h: linear warm-up, then half a cosine to zero."""
    if schedule["name"] != "cosine":
        sys.exit(f"torch_twin: the job has the schedule {schedule['name']}, which the twin does not know")
    warmup = schedule.get("warmup_steps", 0)
    done = max(0, step - warmup) / max(1, steps - warmup)
    rate = schedule["learning_rate"] * (1 + math.cos(math.pi * done)) / 2
    return rate * step / warmup if step < warmup else rate


@torch.no_grad()
def evaluate(net, images, labels, augmentation):
    net.eval()
    loss = correct = 0.0
    for first in range(0, len(images), 250):
        expected = labels[first:first + 250]
        scores = net(augmentation.evaluation(images[first:first + 250]))
        loss += float(torch.nn.functional.cross_entropy(scores, expected, reduction="sum"))
        correct += int((scores.argmax(1) == expected).sum())
    net.train()
    return loss / len(images), correct / len(images)


def epoch_of(job, images):
    """Returns the steps of an epoch; rounds up, because the last batch is smaller."""
    return -(-len(images) // job["train"]["batch_total"])


def train(net, job, images, labels, steps, rank=0, workers=1, forward=None):
    """Trains with the batches of a rank: equal parts of the job's batches, if all ranks have the same seed. Yields the loss of each
    step after it. `forward`: the net as it is called, if not itself."""
    augmentation, optimizer = Augmentation(job["data"]), optimizer_of(net, job["train"])
    size, epoch = job["train"]["batch_total"], epoch_of(job, images)
    for step in range(steps):
        if step % epoch == 0:
            order = torch.randperm(len(images))
        chosen = order[step % epoch * size:][:size]
        chosen = chosen[len(chosen) * rank // workers:len(chosen) * (rank + 1) // workers]
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, job["train"]["schedule"])
        batch = augmentation.training(images[chosen]).contiguous(memory_format=torch.channels_last)
        loss = net.loss((forward or net)(batch), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield float(loss.detach())


def curve_of(net, job):
    """Trains. Returns the curve: [{step, train_loss, test_loss, accuracy}]."""
    images, labels = cifar10(job["data"]["dir"], TRAINING_FILES)
    test_images, test_labels = cifar10(job["data"]["dir"], TEST_FILES)
    epoch, augmentation = epoch_of(job, images), Augmentation(job["data"])
    curve, losses = [], []
    for step, loss in enumerate(train(net, job, images, labels, job["train"]["epochs"] * epoch), 1):
        losses.append(loss)
        if step % epoch == 0:
            test_loss, accuracy = evaluate(net, test_images, test_labels, augmentation)
            curve.append({"step": step, "train_loss": sum(losses) / len(losses), "test_loss": test_loss, "accuracy": accuracy})
            losses = []
            print(json.dumps(curve[-1]), flush=True)
    return curve


def net_of(job, tern):
    """Returns the job's network with the job's initial distributions and seed."""
    model = job["model"]
    words = [f"--{key}={model[name]}" for key, name in (("channels", "input_channels"), ("height", "input_height"),
                                                        ("width", "input_width"), ("classes", "classes"))]
    net_def = json.loads(subprocess.run([tern, "model", model["name"], *words, "--json"], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout)
    torch.manual_seed(job["seed"])
    net = torch_net.TorchNet(net_def).to(memory_format=torch.channels_last)  # the faster format on CPUs
    initialize(net, net_def)
    return net


def main():
    options = parse()
    job = job_of(options.job, options.set)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
    net = net_of(job, options.tern)
    begin = time.monotonic()
    curve = curve_of(net, job)
    told = {"code": 0, "accuracy": curve[-1]["accuracy"], "curve": curve, "train_s": time.monotonic() - begin,
            "torch": torch.__version__, "threads": torch.get_num_threads()}
    (options.out / "twin.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
