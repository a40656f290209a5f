#!/usr/bin/env python3
"""Measures PyTorch's counterparts of gpu_bench on a GPU, and the rate of matrix products. Prints one line of JSON per
measurement, in the format of gpu_bench, or {"name", "failed": why}.

  torch_device.py --nets A.json,B.json [--side 8192] [--regions 7] [--region_ms 50] [--device cuda|cpu] [--compile]

NET_eager: ternarizing tensor by tensor as torch_ternarize.py does (TernGrad, equations 1, 2 and 9); with --compile,
NET_compiled too. NET_momentum: sums of one byte per element are converted to means, then fused SGD with momentum.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests/torch")]
import torch_net  # noqa: E402
from torch_ternarize import ternarize  # noqa: E402

SIGMA = 0.01


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default="", help="files of `tern model NAME --json`")
    parser.add_argument("--side", type=int, default=8192, help="of the matrices")
    parser.add_argument("--regions", type=int, default=7)
    parser.add_argument("--region_ms", type=float, default=50)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


class Bench:
    def __init__(self, options):
        self.options = options

    def wait(self):
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def region(self, work, calls):
        """Returns the seconds of `calls` calls by the host's clock, which is precise enough for regions of 50 ms."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        self.wait()
        return time.perf_counter() - begin

    def seconds_of(self, work):
        self.region(work, 3)
        calls, took = 1, self.region(work, 1)
        while took < self.options.region_ms / 1e3:
            calls *= 2
            took = self.region(work, calls)
        return [self.region(work, calls) / calls for _ in range(self.options.regions)]

    def figure(self, name, make, **more):
        """Times the function that make() returns, and prints the result."""
        try:
            samples = self.seconds_of(make())
            line = {"name": name, "seconds": statistics.median(samples), "samples": samples, **more}
        except Exception as error:  # the next measurement may still succeed
            line = {"name": name, "failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(line), flush=True)

    def normal(self, *shape, dtype=torch.float32):
        return (torch.randn(*shape, device=self.options.device) * SIGMA).to(dtype)

    def product(self, dtype):
        side = self.options.side
        a, b = self.normal(side, side, dtype=dtype), self.normal(side, side, dtype=dtype)
        return lambda: a @ b


def padded(count):
    """Rounds the number of elements up to a multiple of four, because a byte holds four codes."""
    return -(-count // 4) * 4


def ternarizing(bench, counts, function):
    tensors = [bench.normal(padded(count)) for count in counts]

    def work():
        for tensor in tensors:
            function(tensor)
    return work


def momentum(bench, counts):
    parameters = [torch.nn.Parameter(bench.normal(count)) for count in counts]
    sums = [torch.randint(-4, 5, (count,), device=bench.options.device, dtype=torch.int8) for count in counts]
    fused = {"fused": True} if bench.options.device == "cuda" else {}
    optimizer = torch.optim.SGD(parameters, lr=1e-6, momentum=0.9, weight_decay=1e-4, **fused)

    def work():
        for parameter, total in zip(parameters, sums):
            parameter.grad = total * (2.5 * SIGMA / 4)
        optimizer.step()
    return work


def of_net(bench, path, compiles):
    net = torch_net.TorchNet(json.loads(path.read_text()))
    counts = [math.prod(parameter.shape) for parameter in net.parameters()]
    note = f"{len(counts)} tensors of {sum(counts)} elements"
    name = path.stem
    if compiles:
        bench.figure(f"{name}_compiled", lambda: ternarizing(bench, counts, torch.compile(ternarize, dynamic=True)), note=note)
        return
    bench.figure(f"{name}_eager", lambda: ternarizing(bench, counts, ternarize), note=note)
    bench.figure(f"{name}_momentum", lambda: momentum(bench, counts), note=note)


def main():
    options = parse()
    torch.manual_seed(1)
    bench = Bench(options)
    operations = 2 * options.side ** 3
    for name, dtype, tf32 in (("product_bf16", torch.bfloat16, False), ("product_tf32", torch.float32, True)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        bench.figure(name, lambda: bench.product(dtype), operations=operations,
                     note=f"{options.side} x {options.side} matrices of random numbers")
    # What compiles comes last: it may take all the time that is left.
    for compiles in (False, True) if options.compile else (False,):
        for path in filter(None, options.nets.split(",")):
            of_net(bench, pathlib.Path(path), compiles)


if __name__ == "__main__":
    main()
