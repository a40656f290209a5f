#!/usr/bin/env python3
"""Times training steps of one network in PyTorch: forward, backward, SGD with momentum. Prints the same JSON as
net_steps: {"seconds": [per step, one value per region], "cpu_seconds": CPU time per step, "steps": number of measured
steps}.

  torch_steps.py NET.json BATCH THREADS REGIONS plain|channels_last
                 [--device cuda] [--precision fp32|tf32|bf16] [--compile] [--seconds S]

bf16 is automatic mixed precision, in its usual form. --compile: torch.compile(mode="max-autotune"). On the CPU a region
is one step, on a GPU as many steps as take 50 ms. --seconds limits the time after compilation.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/torch"))
import torch_net  # noqa: E402

WARM_UP = {"cpu": 1, "cuda": 5}  # steps
REGION_S = {"cpu": 0.0, "cuda": 0.05}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", type=pathlib.Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("regions", type=int)
    parser.add_argument("layout", choices=("plain", "channels_last"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    return parser.parse_args()


class Training:
    def __init__(self, options):
        net_def = json.loads(options.net.read_text())
        shape = net_def["input"]
        layout = torch.channels_last if options.layout == "channels_last" else torch.contiguous_format
        self.device = options.device
        self.net = torch_net.TorchNet(net_def).to(self.device, memory_format=layout)
        images = torch.rand(options.batch, shape["channels"], shape["height"], shape["width"])
        self.images = images.to(self.device, memory_format=layout)
        self.labels = torch.randint(net_def["classes"], (options.batch,)).to(self.device)
        # PyTorch's default on a GPU: one kernel for the parameters of all layers.
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.precision = options.precision
        self.loss = torch.compile(self.plain_loss, mode="max-autotune") if options.compile else self.plain_loss

    def plain_loss(self, images, labels):
        return self.net.loss(self.net(images), labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        mixed = torch.autocast(self.device, torch.bfloat16) if self.precision == "bf16" else contextlib.nullcontext()
        with mixed:
            loss = self.loss(self.images, self.labels)
        loss.backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def steps(self, count):
        """Returns the seconds of `count` steps, including the work on the device."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            self.step()
        self.wait()
        return time.perf_counter() - begin


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"
    training = Training(options)
    training.steps(WARM_UP[options.device])
    count, took = 1, training.steps(1) if options.device == "cuda" else 0
    while took < REGION_S[options.device]:
        count *= 2
        took = training.steps(count)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    seconds = []
    while len(seconds) < options.regions and (not seconds or time.perf_counter() - begin < options.seconds):
        seconds.append(training.steps(count) / count)
    done = count * len(seconds)
    print(json.dumps({"seconds": seconds, "cpu_seconds": (time.process_time() - cpu_begin) / done, "steps": done}))


if __name__ == "__main__":
    main()
