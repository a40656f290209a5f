"""What the environment says of this worker: its rank, the number of workers, and the job."""

import logging
import os
from collections.abc import Sequence

import torch.distributed as dist

from tern_train._client import TernError

_log = logging.getLogger("tern_train")

_RANK_VARIABLES = (
    "TERN_RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "JOB_COMPLETION_INDEX",
    "RANK",
)
_SIZE_VARIABLES = ("TERN_WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE")


def _number_of_environment(names: Sequence[str], what: str, least: int, remedy: str) -> int:
    """The value of the first variable that is set. ``TernError`` if none is, or it is no number from ``least``."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # torchrun has started the process; what Slurm and Kubernetes say is then the node's.
        names = (names[0], names[-1])
    for name in names:
        text = os.environ.get(name)
        if text is None:
            continue
        if not text.isdecimal() or int(text) < least:
            raise TernError(64, f"{name}: saw '{text}'; allowed: {what}, a whole number from {least}")
        _log.info("%s is %s, from %s", what, text, name)
        return int(text)
    raise TernError(64, f"{what} is not known: {remedy} one of {', '.join(names)}")


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
    return _number_of_environment(_RANK_VARIABLES, "this worker's rank", 0, "give rank=N, or set")


def world_size_of_environment() -> int:
    """How many workers there are. If TERN_WORLD_SIZE is set, from there. If PyTorch's default process group has several
    processes, their number. Else from the first of SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE and WORLD_SIZE that is
    set; under torchrun, from WORLD_SIZE. ``TernError`` if none is, or it is no number. The job's ``workers.count`` must be
    the same."""
    if _has_group_of_workers() and "TERN_WORLD_SIZE" not in os.environ:
        return dist.get_world_size()
    return _number_of_environment(_SIZE_VARIABLES, "the number of workers", 1, "set")


def job_of_environment() -> str:
    """The path of the job file, from TERN_JOB. ``TernError`` if it is not set."""
    job = os.environ.get("TERN_JOB")
    if not job:
        raise TernError(64, "the job file is not known: give job=PATH, or set TERN_JOB")
    return job
