"""Fine-tuning: a ResNet-18 that knows CIFAR-10's ten classes learns to tell animals from vehicles.

  TERN_RANK=0 python fine_tuning.py --data cifar-10-batches-bin --weights resnet18.pt

`--weights` is what `resnet18_cifar10.py --save resnet18.pt` has written. All its layers are frozen but the last, which
begins anew; only the gradients of that one travel. README.md says how a job is started.
"""
import argparse
import os
import pathlib

import torch
from resnet18_cifar10 import accuracy, batches, cifar10, resnet18, train
from torch import nn

import tern_train as tern

VEHICLES = torch.tensor([0, 1, 8, 9])  # airplane, automobile, ship, truck


class FineTuned(nn.Module):
    """A trained network without its last layer, frozen, and a new last layer."""

    def __init__(self, trained, classes):
        super().__init__()
        self.base, self.head = trained[:-1], nn.Linear(trained[-1].in_features, classes)
        self.base.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.base.eval()  # Its statistics are frozen, too.
        return self

    def forward(self, x):
        return self.head(self.base(x))


def animals_and_vehicles(files):
    """Images, and 1 for each vehicle, 0 for each animal."""
    images, labels = cifar10(files)
    return images, torch.isin(labels, VEHICLES).long()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of data_batch_1.bin and so on")
    parser.add_argument("--weights", required=True, help="what resnet18_cifar10.py has saved")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=64, help="images of one worker in a step")
    parser.add_argument("--width", type=int, default=64, help="as in the trained network")
    parser.add_argument("--learning_rate", type=float, default=0.02)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    trained = resnet18(options.width)
    trained.load_state_dict(torch.load(options.weights, weights_only=True))
    model = FineTuned(trained, classes=2)
    rank = tern.torch.rank_of_environment()
    net = tern.torch.ddp(model, job=options.job)
    images, labels = animals_and_vehicles(sorted(options.data.glob("data_batch_*.bin")))
    train(net, batches(images, labels, options.batch, seed=rank), options)
    if rank == 0:
        print(f"accuracy {accuracy(model, *animals_and_vehicles([options.data / 'test_batch.bin'])):.4f}")


if __name__ == "__main__":
    main()
