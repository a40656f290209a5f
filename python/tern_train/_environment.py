"""What the environment says of this worker: its rank, and the number of workers."""

import ctypes
import logging
import os
from typing import Any

import torch.distributed as dist
from torch.utils.data import Dataset
from torch.utils.data.distributed import DistributedSampler

from tern_train import _library
from tern_train._client import TernError
from tern_train._library import lib

_log = logging.getLogger("tern_train")


def _number_of_environment(place: int, what: str) -> int:
    """The number that libtern finds in the environment. ``TernError`` if there is none."""
    number, variable, error = ctypes.c_uint32(), ctypes.c_char_p(), _library.CError()
    if lib.tern_environment(place, ctypes.byref(number), ctypes.byref(variable), ctypes.byref(error)) != 0:
        raise TernError(error.code, error.sentence.decode(errors="replace"))
    _log.info("%s is %s, from %s", what, number.value, (variable.value or b"").decode())
    return number.value


def _has_group_of_workers() -> bool:
    """Whether PyTorch's default process group has several processes, which are then the workers, as with Ray or Lightning."""
    return dist.is_initialized() and dist.get_world_size() > 1


def rank_of_environment() -> int:
    """This worker's rank. If TERN_RANK is set, from there. If PyTorch's default process group has several processes, the
    rank in it. Else from the first of SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX and RANK that
    is set; under torchrun, from RANK. ``TernError`` if none is, or it is no number."""
    if _has_group_of_workers() and "TERN_RANK" not in os.environ:
        _log.info("this worker's rank is %s, from the process group", dist.get_rank())
        return dist.get_rank()
    return _number_of_environment(_library.RANK, "this worker's rank")


def world_size_of_environment() -> int:
    """How many workers there are. If TERN_WORLD_SIZE is set, from there. If PyTorch's default process group has several
    processes, their number. Else from the first of SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE and WORLD_SIZE that is
    set; under torchrun, from WORLD_SIZE. ``TernError`` if none is, or it is no number. The job's ``workers.count`` must be
    the same."""
    if _has_group_of_workers() and "TERN_WORLD_SIZE" not in os.environ:
        return dist.get_world_size()
    return _number_of_environment(_library.WORLD_SIZE, "the number of workers")


def sampler(dataset: Dataset[Any], **arguments: Any) -> "DistributedSampler[Any]":
    """This worker's part of the data, each epoch: PyTorch's DistributedSampler, with this worker's rank and the number of workers.

    ``arguments``    the others of DistributedSampler: ``shuffle``, ``seed``, ``drop_last``. ``TernError`` as from
    :func:`rank_of_environment` and :func:`world_size_of_environment`."""
    return DistributedSampler(dataset, world_size_of_environment(), rank_of_environment(), **arguments)
