#!/usr/bin/env python3
"""One process of any_model_step.py. Rank 0 prints a JSON object.

  any_model_step_worker.py PROGRAM METHOD RANK MASTER_ADDRESS JOB [ARGUMENT...]     METHOD: tern or gloo
"""
import datetime
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import any_model_worker

WARMING_UP = 3


def wrapped(module, **arguments):
    if METHOD == "tern":
        import tern_train.torch

        return tern_train.torch.ddp(module, JOB, rank=RANK, **arguments)
    dist.init_process_group("gloo", init_method=f"tcp://{MASTER}:29557", rank=RANK, world_size=2,
                            timeout=datetime.timedelta(seconds=600))
    return DistributedDataParallel(module, **arguments)


class Slow(torch.autograd.Function):
    """A layer whose backward pass waits, and gives a fixed gradient."""

    @staticmethod
    def forward(context, x, weight, gradient, seconds):
        context.gradient, context.seconds = gradient, seconds
        return x + 0 * weight.view(-1)[0]

    @staticmethod
    def backward(context, gradient_of_output):
        time.sleep(context.seconds)
        return gradient_of_output, context.gradient, None, None


class Layers(nn.Module):
    def __init__(self, count, elements, seconds):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(512, elements // 512)) for _ in range(count))
        generator = torch.Generator().manual_seed(RANK)
        self.gradients = [1e-3 * torch.randn(512, elements // 512, generator=generator) for _ in range(count)]
        self.seconds = seconds / count

    def forward(self):
        x = torch.zeros((), requires_grad=True)
        for weight, gradient in zip(self.weights, self.gradients):
            x = Slow.apply(x, weight, gradient, self.seconds)
        return x


def timed_steps(net, count, step):
    seconds = []
    for _ in range(count + WARMING_UP):
        begin = time.monotonic()
        step()
        seconds.append(time.monotonic() - begin)
        net.zero_grad()
    return seconds[WARMING_UP:]


def overlap(elements, seconds, count):
    net = wrapped(Layers(16, int(elements), float(seconds)), bucket_cap_mb=int(elements) >> 18)
    times = timed_steps(net, int(count), lambda: net().backward())
    return {"seconds": times, "waited": [float(seconds)] * len(times)}


def interface_counters():
    folder = pathlib.Path("/sys/class/net/eth0/statistics")
    return {f"{what}_{way}": int((folder / f"{prefix}_{what}").read_text())
            for what in ("bytes", "packets") for way, prefix in (("out", "tx"), ("in", "rx"))}


def own_bytes(stats):
    return {way: sum(kind.get(f"bytes_{way}", 0) for kind in stats["traffic"].values()) for way in ("out", "in")}


def count_bytes(steps):
    net = wrapped(Layers(16, 1 << 18, 0))
    for _ in range(WARMING_UP):
        net().backward()
    time.sleep(1)  # The counters are taken a few times a second.
    before, own_before = interface_counters(), own_bytes(net.tern.client.stats())
    for _ in range(int(steps)):
        net().backward()
    time.sleep(1)
    after, own = interface_counters(), own_bytes(net.tern.client.stats())
    return {**{name: after[name] - before[name] for name in after}, **{f"own_{way}": own[way] - own_before[way] for way in own}}


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    net = wrapped(module)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))

    def step():
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return {"seconds": timed_steps(net, 6, step)}


def large():
    net = wrapped(any_model_worker.Filled(RANK, any_model_worker.ALEXNET))
    return {"seconds": timed_steps(net, 4, lambda: net().backward())}


if __name__ == "__main__":
    program, METHOD, rank, MASTER, JOB, *words = sys.argv[1:]
    RANK = int(rank)
    torch.set_num_threads(1)
    result = {"overlap": overlap, "bytes": count_bytes, "resnet18": resnet18, "large": large}[program](*words)
    if RANK == 0:
        print(json.dumps(result), flush=True)
