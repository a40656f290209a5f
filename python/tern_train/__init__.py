"""Tern for Python: a program of yours takes part in a Tern job as a worker.

Tern exchanges gradients over a parameter server in ternary or quantized codes. Its own engine trains
convolutional networks; this package is for everybody else's models.

    import tern_train as tern
    net = tern.torch.ddp(model, job="job.yaml")       # in place of DistributedDataParallel(model)

``tern_train.torch``   for PyTorch: ``ddp``, the communication hook alone, and ``LocalSteps``. Imported when it is first
                       used; ``python -m pydoc tern_train.torch`` is its manual.
``tern_train.Client``  for everything else: arrays of fp32 numbers go in, their mean over the workers comes out.

The job file says ``train: {compute: client}``; the servers are ordinary ``tern_server`` processes.
"""

import importlib
import types
from typing import TYPE_CHECKING

from tern_train._client import (
    Client,
    Ended,
    Event,
    EventType,
    Memory,
    ModulePart,
    Task,
    TaskType,
    Tensor,
    TernError,
    abi_version,
    version,
)

__all__ = [
    "Client",
    "Ended",
    "Event",
    "EventType",
    "Memory",
    "ModulePart",
    "Task",
    "TaskType",
    "Tensor",
    "TernError",
    "abi_version",
    "version",
]

if TYPE_CHECKING:
    from tern_train import torch as torch


def __getattr__(name: str) -> types.ModuleType:
    if name == "torch":
        return importlib.import_module("tern_train.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
