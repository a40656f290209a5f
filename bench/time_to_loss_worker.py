#!/usr/bin/env python3
"""One process of time_to_loss.py: trains a Tern job in PyTorch with DistributedDataParallel on gloo. Rank 0 prints
[seconds since the first step, step, test loss] at each evaluation.

  time_to_loss_worker.py METHOD RANK MASTER_ADDRESS JOB TERN STEPS EVERY IMAGES [KEY=VALUE...]
      METHOD: gloo, gloo_fp16, powersgd        GLOO_SOCKET_IFNAME selects gloo's interface
"""
import json
import pathlib
import sys
import time

import torch
from any_model_worker import wrapped

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts/experiments"))
import torch_twin  # noqa: E402: found by the line above

WORKERS = 2


def loss_of_all(net, images, labels, augmentation, rank):
    """The loss on the test images, which the ranks divide among them as Tern's workers do, with rank 0's statistics of batch norms."""
    for buffer in net.buffers():
        torch.distributed.broadcast(buffer, 0)
    loss, _ = torch_twin.evaluate(net, images[rank::WORKERS], labels[rank::WORKERS], augmentation)
    total = torch.tensor(loss * len(images[rank::WORKERS]), dtype=torch.float64)
    torch.distributed.all_reduce(total)
    return total.item() / len(images)


def main():
    method, rank, master, job_file, tern, steps, every, num_images, *settings = sys.argv[1:]
    torch.set_num_threads(1)
    job = torch_twin.job_of(pathlib.Path(job_file), settings)
    net = torch_twin.net_of(job, tern)
    images, labels = torch_twin.cifar10(job["data"]["dir"], torch_twin.TRAINING_FILES)
    test_images, test_labels = (values[:int(num_images)] for values in torch_twin.cifar10(job["data"]["dir"], torch_twin.TEST_FILES))
    augmentation = torch_twin.Augmentation(job["data"])
    distributed = wrapped(net, method, int(rank), WORKERS, master, None)
    begin = time.monotonic()
    for step, _ in enumerate(torch_twin.train(net, job, images, labels, int(steps), int(rank), WORKERS, distributed), 1):
        if step % int(every) == 0:
            loss = loss_of_all(net, test_images, test_labels, augmentation, int(rank))
            if rank == "0":
                print(json.dumps([round(time.monotonic() - begin, 2), step, loss]), flush=True)
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
