"""OD-SGD (Xu et al., 2020) for a module of one's own: Tern trains, with its own optimizer, schedule and checkpoints.

  TERN_RANK=0 python od_sgd.py --data cifar-10-batches-bin

The algorithm, the optimizer and the number of steps are in module_job.yaml. README.md says how a job is started.
"""
import argparse
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern

RECORD_BYTES = 1 + 3 * 32 * 32


def network(width):
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*block(3, width), *block(width, 2 * width), *block(2 * width, 4 * width), nn.Flatten(),
                         nn.Linear(64 * width, 10))


def read_cifar10(folder, pattern):
    """All images of the files, as numbers around 0, and their labels."""
    files = sorted(folder.glob(pattern))
    if not files:
        raise SystemExit(f"{folder} has no {pattern}: give --data the folder of CIFAR-10's binary version")
    rows = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8) for file in files])
    rows = rows.view(-1, RECORD_BYTES)
    return rows[:, 1:].reshape(-1, 3, 32, 32).float() / 128 - 1, rows[:, 0].long()


def evaluate(model, images, labels):
    scores = model(images)
    correct = int((scores.argmax(1) == labels).sum())
    return functional.cross_entropy(scores, labels, reduction="sum").item(), len(labels), correct


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "module_job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--data", type=pathlib.Path, default="cifar-10-batches-bin", help="CIFAR-10's binary version")
    parser.add_argument("--batch", type=int, default=64, help="images of one worker in a step: train.batch_total / workers.count")
    parser.add_argument("--width", type=int, default=32)
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    model = network(options.width)
    images, labels = read_cifar10(options.data, "data_batch_*.bin")
    test_images, test_labels = read_cifar10(options.data, "test_batch.bin")

    def evaluate_part(part, parts):
        return evaluate(model, test_images[part::parts], test_labels[part::parts])

    rank = tern.torch.rank_of_environment()
    trainer = tern.torch.Trainer(model, options.job, rank=rank, evaluate=evaluate_part)
    for step in trainer.steps():
        # A function of step and rank, so that a worker that starts again goes on with the same images.
        chosen = torch.randint(len(images), (options.batch,), generator=torch.Generator().manual_seed(1000 * step + rank))
        trainer.backward(functional.cross_entropy(model(images[chosen]), labels[chosen]))


if __name__ == "__main__":
    main()
