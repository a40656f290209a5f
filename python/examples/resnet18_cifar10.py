"""ResNet-18 on CIFAR-10.

  TERN_RANK=0 python resnet18_cifar10.py --data cifar-10-batches-bin

`--data` has the files of CIFAR-10's binary version. README.md says how a job is started.
"""
import argparse
import hashlib
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

import tern_train as tern


class Block(nn.Module):
    """Two convolutions, and a way past them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.past = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.past = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.past(x))


def resnet18(width=64, classes=10):
    """ResNet-18 for images of 32 x 32: the first convolution is 3 x 3, with no pooling behind it."""
    layers, inputs = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            layers.append(Block(inputs, width << stage, stride))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def cifar10(files):
    """Images (count x 3 x 32 x 32 bytes) and labels of binary files, whose records are a label and an image."""
    content = b"".join(path.read_bytes() for path in files)
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def normalized(images):
    return (images.float() / 255 - 0.47) / 0.25


def batches(images, labels, batch, seed):
    """Endless batches of random images, half of them mirrored."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = torch.randint(len(labels), (batch,), generator=generator)
        mirrored = torch.rand(batch, 1, 1, 1, generator=generator) < 0.5
        x = normalized(images[chosen])
        yield torch.where(mirrored, x.flip(3), x), labels[chosen]


def digest(module):
    """SHA-256 of all weights, which are the same in all workers."""
    return hashlib.sha256(nn.utils.parameters_to_vector(module.parameters()).detach().numpy()).hexdigest()


def train(net, data, options):
    optimizer = torch.optim.SGD(net.parameters(), lr=options.learning_rate, momentum=0.9, weight_decay=5e-4)
    for step, (x, y) in zip(range(1, options.steps + 1), data):
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % options.print_hash_every == 0 or step == options.steps:
            print(f"step {step}  loss {loss.item():.4f}  weights {digest(net)}", flush=True)


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(normalized(x)).argmax(1) == y).sum().item() for x, y in zip(images.split(250), labels.split(250)))
    return right / len(labels)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=os.environ.get("TERN_JOB", "job.yaml"), help="the job file; else TERN_JOB")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of data_batch_1.bin and so on")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=64, help="images of one worker in a step")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage; fewer for a quick trial")
    parser.add_argument("--learning_rate", type=float, default=0.02)
    parser.add_argument("--print_hash_every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--save", help="rank 0 writes the weights into this file at the end")
    return parser.parse_args()


def main():
    options = arguments()
    torch.manual_seed(1)
    model = resnet18(options.width)
    rank = tern.torch.rank_of_environment()
    net = tern.torch.ddp(model, job=options.job)
    images, labels = cifar10(sorted(options.data.glob("data_batch_*.bin")))
    train(net, batches(images, labels, options.batch, seed=rank), options)
    if rank == 0:
        print(f"accuracy {accuracy(model, *cifar10([options.data / 'test_batch.bin'])):.4f}")
        if options.save:
            torch.save(model.state_dict(), options.save)


if __name__ == "__main__":
    main()
