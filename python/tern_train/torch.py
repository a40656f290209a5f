"""Tern for PyTorch: gradients travel over a Tern job's servers in place of an all-reduce.

A script with DistributedDataParallel changes by two lines:

    import tern_train as tern

    net = tern.torch.ddp(model, job="job.yaml")     # in place of DistributedDataParallel(model)
    for x, y in loader:                              # the loop is as before
        loss_fn(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

If the script has no process group, ``ddp`` makes one of this process alone. ``torch.distributed`` then says rank 0 of 1 in every
worker: a DistributedSampler would give all workers the same samples, ``if dist.get_rank() == 0`` would hold in all, and
all_reduce would add nothing up. Ask Tern in their place:

    sampler = tern.torch.sampler(dataset)            # in place of DistributedSampler(dataset)
    if tern.torch.rank_of_environment() == 0:        # in place of dist.get_rank()
        save(model)

The job file, the same for all, says how many workers there are, where the servers are and which codec is used:

    name: first
    output_dir: out
    servers: [{address: "127.0.0.1:7500"}]
    workers: {count: 2}
    train: {compute: client}
    exchange: {codec: ternary_ans}

``tern launch -n 2 --job job.yaml -- python SCRIPT`` starts the server and both workers on one machine, and gives them
the job's path (``ddp`` without ``job``), their ranks and their number. Or start a server, and the script once for each
worker, with its rank in ``TERN_RANK`` (or see :func:`rank_of_environment`):

    tern_server --job job.yaml --rank 0 &
    TERN_RANK=0 python SCRIPT &
    TERN_RANK=1 python SCRIPT

or all workers of a machine by ``torchrun --nproc_per_node=2 SCRIPT``. ``ddp`` waits until all workers are here, and
gives rank 0's weights to all. The end of the script waits until all have ended. Scripts to copy from are in the folder
``python/examples`` of Tern's source.

What to use:

``ddp``            for a script with DistributedDataParallel, or with one process so far
``Exchange``       with ``hook``: for a DistributedDataParallel that the script makes itself; ``mean_``: without one
``Trainer``        for any of Tern's algorithms: Tern trains, and PyTorch differentiates
``LocalSteps``     for an exchange after every N steps instead of after each: local SGD, DiLoCo
``describe``       the table of a module's tensors as JSON
``save_weights``, ``load_weights``    files of weights, as Tern reads and writes them
``sampler``        a DistributedSampler of this worker's part of the data
``rank_of_environment``, ``world_size_of_environment``    this worker's rank and how many there are

Gradients may have any shape and real type; sparse ones travel as dense ones. Tern takes and gives fp32 numbers, row-major, and the mean over the workers comes
back in the parameters' type.

Errors are :class:`tern_train.TernError`, with a sentence and an exit code in ``code``. A job that fails for whatever
reason raises :class:`tern_train.Ended` in every worker, out of ``backward()``, ``step()`` or ``finish()``. If nobody
catches it, the script's exit code is Tern's; after a ``with`` statement it is Python's, 1.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tern_train._environment import rank_of_environment, sampler, world_size_of_environment
from tern_train._exchange import Exchange
from tern_train._local_steps import LocalSteps
from tern_train._module import describe, refuse_sync_batch_norm
from tern_train._trainer import Score, Trainer
from tern_train._weights import load_weights, save_weights

__all__ = [
    "Exchange",
    "LocalSteps",
    "Score",
    "Trainer",
    "ddp",
    "describe",
    "hook",
    "load_weights",
    "rank_of_environment",
    "sampler",
    "save_weights",
    "world_size_of_environment",
]


def _with_defaults(ddp_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for DistributedDataParallel, with what ``ddp`` sets by itself.

    New releases of PyTorch warn of broadcast_buffers and refuse it beside forward_sync_buffers, the new name of what it does in
    forward passes. That they still send rank 0's buffers once at the start does no harm: so does Tern.
    """
    names = ("forward_sync_buffers", "broadcast_buffers")
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    defaults = {"gradient_as_bucket_view": True}
    if not any(name in ddp_arguments for name in names):
        defaults[names[0] if names[0] in known else names[1]] = False
    return {**defaults, **ddp_arguments}


# DistributedDataParallel looks at the annotations, and takes no others.
def hook(exchange: Exchange, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The communication hook, for a DistributedDataParallel that the script makes itself:

        net = DistributedDataParallel(model)
        net.register_comm_hook(tern.torch.Exchange(model, job="job.yaml"), tern.torch.hook)

    For a DistributedDataParallel whose process group has one process, or is the default group of as many processes
    as the job has workers. In a group of one, with find_unused_parameters or static_graph, also set
    ``exchange.may_be_unused = True``. In a larger one, ``forward_sync_buffers=False`` (``broadcast_buffers=False`` where PyTorch
    has no such argument): otherwise rank 0's buffers go to all in
    each forward pass, in which all must then take part, equally often.
    """
    return exchange.hook(bucket)


def ddp(
    module: torch.nn.Module,
    job: str | os.PathLike[str] | None = None,
    *,
    rank: int | None = None,
    overrides: Sequence[str] = (),
    skips_overflow: bool = False,
    average_buffers: bool = False,
    compare: str = "off",
    compare_every: int = 100,
    state_dict: Callable[[], Any] | None = None,
    load_state_dict: Callable[[Any], Any] | None = None,
    goes_back: bool = False,
    tern_state: Mapping[str, torch.Tensor] | None = None,
    **ddp_arguments: Any,
) -> DistributedDataParallel:
    """A DistributedDataParallel whose gradients travel over Tern.

    Waits until all workers are here. Then all have rank 0's weights and buffers; with ``tern_state``, each its own, which must be
    the same.

    Arguments:

    ``module``     its trained parameters (``requires_grad``), their names and order must be the same in all workers
    ``job``        the path of the job file; None: that of the environment variable TERN_JOB
    ``rank``       of this worker, from 0; None: see :func:`rank_of_environment`
    ``overrides``  keys of the job file that have other values: "KEY=VALUE", as after ``--set``
    ``skips_overflow``    a gradient that is not finite makes all gradients of its step infinite on all workers, whose
                   GradScalers then skip it alike. A number more travels, and gradients are checked
    ``average_buffers``    the running means and variances of batch norms become their means over the workers after each step
    ``compare``    "hash": every ``compare_every`` steps, all workers' weights must be the same bit for bit; "norm": their norms must be
                   the same but for a thousandth, for hosts that compute differently. If not, the job ends, with 76
    ``state_dict``, ``load_state_dict``    functions that return and install what a worker must have that was lost and starts
                   again (``faults.on_worker_loss: wait``): the module's state and the optimizer's. None: the module's alone, with buffers that
                   are not in its state_dict(); what yours leaves out stays each worker's own, also at the beginning. They are
                   called while ``ddp`` runs and later, so what they use must exist before. The state has what torch.load takes with
                   weights_only=True: tensors, numbers, texts, lists, dicts
    ``goes_back``  the training loop is ``for step in net.tern.loop(steps)``. Tern then keeps checkpoints of the program, resumes from
                   them, and goes back to them by itself: see :class:`Exchange`
    ``tern_state``    what ``net.tern.state_dict()`` returned on this rank, from the program's own checkpoint: see :class:`Exchange`
    ``ddp_arguments``    for DistributedDataParallel. If they are not given, ``gradient_as_bucket_view`` is True, which saves a copy
                   of all gradients, and ``forward_sync_buffers`` is False (``broadcast_buffers`` where PyTorch has no such argument)

    Returns the DistributedDataParallel. Its attribute ``tern`` is the :class:`Exchange`. If the program has no process
    group, one of this process alone is made, so that nothing but Tern travels. Of what is returned, copy the ``module``:
    ``AveragedModel(net.module)``.

    What is as with DistributedDataParallel: first weights from rank 0, no_sync(), gradient clipping, frozen and tied
    parameters, static_graph, gradient_as_bucket_view, loss scaling, torch.compile. What is not:

    - Buffers, such as batch norm's statistics, stay each worker's own after the beginning, except with ``average_buffers=True``.
    - With find_unused_parameters, parameters that no worker has used have gradients of zeros, not None. Without it, a parameter
      without a gradient in a backward pass ends the job for all, with its name; where nothing of the step has been exchanged
      yet, DistributedDataParallel says so, in the next forward pass.
    - A gradient that is not finite ends the job, except with ``skips_overflow=True``, for GradScaler.
    - A worker with less data than others may end; the mean is that of those that go on. Not with find_unused_parameters in a
      process group of several, whose own all-reduce then waits for it.

    Raises :class:`tern_train.TernError`: 64 for a module with a SyncBatchNorm or complex parameters, an unknown rank or no job file, 76 if the
    workers' tables of tensors differ, 78 for a faulty job file.
    """
    refuse_sync_batch_norm(module)  # DistributedDataParallel would say something else.
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    exchange = Exchange(
        module,
        job,
        rank=rank,
        overrides=overrides,
        skips_overflow=skips_overflow,
        average_buffers=average_buffers,
        compare=compare,
        compare_every=compare_every,
        state_dict=state_dict,
        load_state_dict=load_state_dict,
        goes_back=goes_back,
        tern_state=tern_state,
    )
    net = DistributedDataParallel(module, **_with_defaults(ddp_arguments))
    exchange.may_be_unused = net.find_unused_parameters or net.static_graph
    net.register_comm_hook(exchange, hook)
    net.tern = exchange  # type: ignore[assignment]
    return net
