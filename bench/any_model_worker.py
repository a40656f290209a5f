#!/usr/bin/env python3
"""One process of any_model.py or shards.py: a DistributedDataParallel whose backward pass only fills gradients. Rank 0 prints the
seconds of each step after the first two.

  any_model_worker.py METHOD RANK MASTER_ADDRESS STEPS WORKERS SHAPES [JOB]
      METHOD: tern (with JOB), gloo, gloo_fp16, powersgd        GLOO_SOCKET_IFNAME selects gloo's interface
      SHAPES: alexnet, lenet, 20m
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

ALEXNET = ((64, 1, 5, 5), (64,), (192, 64, 5, 5), (192,), (384, 192, 3, 3), (384,), (256, 384, 3, 3), (256,),
          (256, 256, 3, 3), (256,), (4096, 9216), (4096,), (4096, 4096), (4096,), (1000, 4096), (1000,))
SHAPES = {
    "alexnet": ALEXNET,
    "lenet": ((20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,)),
    "20m": 20 * ((1000, 1000), (1000,)),
}
WARMING_UP = 2  # DistributedDataParallel cuts its buckets anew after the first step, and PowerSGD starts in the second.


class Fill(torch.autograd.Function):
    """A loss of 0 whose gradients are fixed."""

    @staticmethod
    def forward(context, gradients, *parameters):
        context.gradients = gradients
        return torch.zeros((), requires_grad=True)

    @staticmethod
    def backward(context, _):
        return None, *context.gradients


class Filled(torch.nn.Module):
    def __init__(self, rank, shapes):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)
        generator = torch.Generator().manual_seed(rank)
        self.gradients = [1e-3 * torch.randn(shape, generator=generator) for shape in shapes]

    def forward(self):
        return Fill.apply(self.gradients, *self.weights)


def wrapped(module, method, rank, workers, master, job):
    if method == "tern":
        import tern_train.torch

        return tern_train.torch.ddp(module, job, rank=rank)
    dist.init_process_group("gloo", init_method=f"tcp://{master}:29556", rank=rank, world_size=workers,
                            timeout=datetime.timedelta(seconds=600))
    # PowerSGD in one bucket: with several, gloo's threads call its callbacks in another order on each process, and then the
    # collectives do not fit together.
    more = {"bucket_cap_mb": 1000} if method == "powersgd" else {}
    net = DistributedDataParallel(module, gradient_as_bucket_view=True, **more)  # as tern_train's ddp does
    if method == "gloo_fp16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if method == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=WARMING_UP)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return net


def main():
    method, rank, master, steps, workers, shapes, *job = sys.argv[1:]
    torch.set_num_threads(1)
    net = wrapped(Filled(int(rank), SHAPES[shapes]), method, int(rank), int(workers), master, *(job or [None]))
    seconds = []
    for _ in range(int(steps) + WARMING_UP):
        begin = time.monotonic()
        net().backward()
        net.zero_grad()
        seconds.append(time.monotonic() - begin)
    if rank == "0":
        print(" ".join(f"{one:.4f}" for one in seconds[WARMING_UP:]), flush=True)


if __name__ == "__main__":
    main()
