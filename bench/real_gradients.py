#!/usr/bin/env python3
"""Writes the gradients of eight workers: LeNet on Fashion-MNIST, trained for some steps, each worker with a batch of its own at the
same weights. As floats, one worker after the other, of the weights of one layer. Prints the mean correlation of two workers.

  real_gradients.py FILE [--layer 2] [--steps 200] [--batch 32] [--data /usr/share/datasets/fashion-mnist]

The Python that runs this needs PyTorch and NumPy.
"""
import argparse
import gzip
import itertools
import pathlib

import numpy
import torch
from torch import nn

WORKERS = 8
LAYERS = (0, 3, 7, 9)  # those with weights, below


def read_idx(path, header):
    return numpy.frombuffer(gzip.decompress(path.read_bytes()), numpy.uint8, offset=header)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--layer", type=int, default=2, help="0 to 3")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images = torch.tensor(read_idx(options.data / "train-images-idx3-ubyte.gz", 16).copy()).reshape(-1, 1, 28, 28) / 255
    labels = torch.tensor(read_idx(options.data / "train-labels-idx1-ubyte.gz", 8).astype(numpy.int64))
    net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))

    def differentiate():
        chosen = torch.randint(len(images), (options.batch,))
        net.zero_grad()
        nn.functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(options.steps):
        differentiate()
        optimizer.step()
    gradients = []
    for _ in range(WORKERS):
        differentiate()
        gradients.append(net[LAYERS[options.layer]].weight.grad.flatten().numpy().copy())
    options.file.write_bytes(b"".join(gradient.astype("<f4").tobytes() for gradient in gradients))
    correlations = [float(numpy.corrcoef(a, b)[0, 1]) for a, b in itertools.combinations(gradients, 2)]
    print(f"{len(gradients[0])} elements, correlation {sum(correlations) / len(correlations):.3f}")


if __name__ == "__main__":
    main()
