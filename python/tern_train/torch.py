"""Tern for PyTorch: gradients travel over a Tern job's servers in place of an all-reduce.

    import tern_train as tern

    net = tern.torch.ddp(model, job="job.yaml")     # in place of DistributedDataParallel(model)
    for x, y in loader:                              # unchanged from here on
        loss_fn(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

Every worker runs the same script, with its rank in ``TERN_RANK`` (or RANK, SLURM_PROCID, ...). The job file
says how many workers there are, where the servers are and which codec is used.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tern_train._exchange import Exchange, describe, rank_of_environment, refuse_sync_batch_norm
from tern_train._local_steps import LocalSteps

__all__ = ["Exchange", "LocalSteps", "ddp", "describe", "hook", "rank_of_environment"]


# DistributedDataParallel looks at the annotations, and takes no others.
def hook(exchange: Exchange, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The communication hook: ``net.register_comm_hook(exchange, tern_train.torch.hook)``.

    For a DistributedDataParallel whose process group has one process, or is the default group of as many processes
    as the job has workers. In a group of one, with find_unused_parameters or static_graph, also set
    ``exchange.may_be_unused = True``.
    """
    return exchange.hook(bucket)


def ddp(
    module: torch.nn.Module,
    job: str | os.PathLike[str] | None = None,
    *,
    rank: int | None = None,
    overrides: Sequence[str] = (),
    state_dict: Callable[[], Any] | None = None,
    load_state_dict: Callable[[Any], Any] | None = None,
    **ddp_arguments: Any,
) -> DistributedDataParallel:
    """A DistributedDataParallel whose gradients travel over Tern.

    ``job``, ``rank``, ``overrides``, ``state_dict``, ``load_state_dict``: as for :class:`Exchange`, which becomes the attribute ``tern`` of what is
    returned. ``ddp_arguments``: for DistributedDataParallel. If the program has no process group, one of this
    process alone is made, so that nothing but Tern travels.

    What is as with DistributedDataParallel: first weights from rank 0, no_sync(), gradient clipping, frozen and tied
    parameters, static_graph, gradient_as_bucket_view, loss scaling, torch.compile. What is not:

    - Buffers, such as batch norm's statistics, stay each worker's own after the beginning.
    - With find_unused_parameters, parameters that no worker has used have gradients of zeros, not None.
    - A gradient that is not finite ends the job, so a loss scale must not overflow.
    - A worker with less data than others may end; the mean is that of those that go on.
    """
    refuse_sync_batch_norm(module)  # DistributedDataParallel would say something else.
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    exchange = Exchange(
        module, job, rank=rank, overrides=overrides, state_dict=state_dict, load_state_dict=load_state_dict
    )
    net = DistributedDataParallel(module, **ddp_arguments)
    exchange.may_be_unused = net.find_unused_parameters or net.static_graph
    net.register_comm_hook(exchange, hook)
    net.tern = exchange  # type: ignore[assignment]
    return net
