#!/usr/bin/env python3
"""The peer of Tern's exchange: PyTorch's gloo all-reduce of one tensor by two processes. Rank 0 prints the seconds of
each repetition.

  gloo_all_reduce.py RANK MASTER_ADDRESS ELEMENTS REPEATS DTYPE        GLOO_SOCKET_IFNAME selects the interface
"""
import sys
import time

import torch
import torch.distributed as distributed


def main():
    rank, master, elements, repeats, dtype = sys.argv[1:]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{master}:29555", rank=int(rank), world_size=2)
    values = torch.randn(int(elements)).to(getattr(torch, dtype))
    seconds = []
    for _ in range(int(repeats)):
        distributed.barrier()
        begin = time.monotonic()
        distributed.all_reduce(values)
        distributed.barrier()
        seconds.append(time.monotonic() - begin)
    if rank == "0":
        print(" ".join(f"{one:.4f}" for one in seconds))


if __name__ == "__main__":
    main()
