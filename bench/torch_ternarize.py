#!/usr/bin/env python3
"""PyTorch's counterparts of ternarizing and momentum SGD: the same steps as tensor operations on one thread. Prints a
JSON list in the format of speed_targets.

  torch_ternarize.py [--elements 134217728] [--repetitions 5]

Ternarizing (TernGrad, equations 1, 2 and 9): sigma, clamping at 2.5 sigma, scaler, one uniform number per element,
codes of two bits, four per byte.
"""
import argparse
import json
import statistics
import time

import torch


def ternarize(g):
    limit = 2.5 * g.std(unbiased=False)
    clamped = g.clamp(-limit, limit)
    scaler = clamped.abs().max()
    fires = torch.rand_like(g) * scaler < clamped.abs()
    codes = (fires * torch.sign(clamped)).to(torch.int8) + 1
    fours = codes.view(-1, 4)
    return scaler, (fours[:, 0] | fours[:, 1] << 2 | fours[:, 2] << 4 | fours[:, 3] << 6).to(torch.uint8)


def seconds(work, repetitions):
    times = []
    for number in range(repetitions + 1):  # the first repetition only warms up
        begin = time.perf_counter()
        work()
        if number:
            times.append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=134217728)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    g = torch.randn(options.elements)
    w = torch.nn.Parameter(torch.randn(options.elements))
    w.grad = g
    optimizer = torch.optim.SGD([w], lr=1e-6, momentum=0.9)
    note = f"PyTorch {torch.__version__}, 1 thread, {options.elements} elements"
    rows = [("torch_ternarize_seconds", seconds(lambda: ternarize(g), options.repetitions)),
            ("torch_momentum_seconds", seconds(optimizer.step, options.repetitions))]
    print(json.dumps([{"target": name, "value": statistics.median(times), "samples": times, "unit": "s", "note": note}
                      for name, times in rows], indent=1))


if __name__ == "__main__":
    main()
