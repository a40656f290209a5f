#!/usr/bin/env python3
"""Training steps of one network in PyTorch: forward, backward, SGD with momentum. Prints the seconds of each step as a JSON
list.

  torch_steps.py NET.json BATCH THREADS STEPS plain|channels_last
"""
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
import torch_net  # noqa: E402


def main():
    file, batch, threads, steps, layout = sys.argv[1:]
    net_def = json.loads(pathlib.Path(file).read_text())
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    net = torch_net.TorchNet(net_def)
    shape = net_def["input"]
    images = torch.rand(int(batch), shape["channels"], shape["height"], shape["width"])
    labels = torch.randint(net_def["classes"], (int(batch),))
    if layout == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    times = []
    for step in range(-1, int(steps)):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        net.loss(net(images), labels).backward()
        optimizer.step()
        if step >= 0:
            times.append(time.perf_counter() - begin)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
