"""A worker of a Tern job, without a framework."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from tern_train import _library
from tern_train._library import lib

_log = logging.getLogger("tern_train")
_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR)


class TernError(RuntimeError):
    """An error of Tern: one sentence, and the exit code that a daemon would end with.

    ``code``: 64 usage, 65 bad data, 69 address, 70 a bug of Tern's, 75 a peer was lost (another try may
    help), 76 the workers do not fit together, 77 not allowed, 78 bad job file, 79 diverged.
    """

    def __init__(self, code: int, sentence: str):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self) -> tuple[type[TernError], tuple[int, str]]:
        return type(self), (self.code, str(self))  # Ray and multiprocessing pickle what a worker raises.


class Ended(TernError):
    """The job has ended for this worker, and not as planned: the sentence says why, and names the rank that caused it."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor's name, unique in its model, and its shape."""

    name: str
    shape: tuple[int, ...]


class EventType(enum.IntEnum):
    """What has happened.

    ``NOTHING``     the time is up, or a line of the log came
    ``READY``       all workers are here; ``step`` steps are done
    ``TENSOR``      the mean of ``tensor`` in ``step`` is in place
    ``GIVE_STATE``  another worker needs this program's state: call :meth:`Client.give_state`
    ``STATE``       another worker's state has come, in ``state``; READY follows
    ``ENDED``       the last event; ``code`` is 0, or ``text`` says why
    """

    NOTHING = _library.NOTHING
    READY = _library.READY
    TENSOR = _library.TENSOR
    GIVE_STATE = _library.GIVE_STATE
    STATE = _library.STATE
    ENDED = _library.ENDED


@dataclasses.dataclass(frozen=True)
class Event:
    """What :meth:`Client.poll` returns. ``step`` counts from 1, ``tensor`` is a position in ``Client.tensors``."""

    type: EventType
    step: int = 0
    tensor: int = 0
    code: int = 0
    text: str = ""
    state: bytes = b""


@dataclasses.dataclass(frozen=True)
class ModulePart:
    """What a program brings along in a job with ``train: {compute: module}``, in which Tern has the weights.

    ``first_values``    the address of each tensor's fp32 numbers with which the job begins, if this worker has the first state
                   and the job no model.weights
    ``statistics``    running means and variances of batch norms, by turns, each of one dimension
    ``first_statistics``    the addresses of their numbers
    ``fixed_digest``    a number of at most 64 bits that must be the same in all workers: a digest of what else the program
                   computes with
    ``evaluates``      whether the program does the task EVALUATE
    """

    first_values: Sequence[int]
    statistics: Sequence[Tensor] = ()
    first_statistics: Sequence[int] = ()
    fixed_digest: int = 0
    evaluates: bool = False


class TaskType(enum.IntEnum):
    """What is to be done next, where the program asks for it: in a module's job, and with ``takes_tasks``.

    ``NOTHING``    nothing yet
    ``STEP``       compute the gradient of step ``step``, which counts from 1, and push every tensor once
    ``EVALUATE``   evaluate part ``part`` of ``num_parts`` of the test samples: then call :meth:`Client.score`
    ``SAVE``       call :meth:`Client.keep` with the program's state as it is now, for a checkpoint; not in a module's job
    ``LOAD``       go on from ``state``; not in a module's job
    ``OVER``       the job has ended
    """

    NOTHING = _library.NO_TASK
    STEP = _library.STEP
    EVALUATE = _library.EVALUATE
    SAVE = _library.SAVE
    LOAD = _library.LOAD
    OVER = _library.OVER


@dataclasses.dataclass(frozen=True)
class Task:
    """What :meth:`Client.next_task` returns."""

    type: TaskType
    step: int = 0
    part: int = 0
    num_parts: int = 0
    state: bytes = b""


class Memory(enum.IntEnum):
    """What :meth:`Client.memory` gives the address of: a tensor's numbers, its gradient, or a statistic."""

    VALUES = _library.VALUES
    GRADIENT = _library.GRADIENT
    STATISTIC = _library.STATISTIC


def _table(tensors: Sequence[Tensor]) -> ctypes.Array[_library.CTensor]:
    shapes = [(ctypes.c_uint32 * len(tensor.shape))(*tensor.shape) for tensor in tensors]
    return (_library.CTensor * len(tensors))(
        *(_library.CTensor(tensor.name.encode(), shape, len(shape)) for tensor, shape in zip(tensors, shapes))
    )


def _addresses(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def abi_version() -> int:
    """The version of the loaded library's C interface."""
    return int(lib.tern_abi_version())


def version() -> str:
    """The version of Tern."""
    return str(lib.tern_version().decode())


class Client:
    """Takes part in a job: pushes gradients, and gets their mean over the workers.

        client = Client("job.yaml", [Tensor("weights", (20, 10))], rank=0)
        client.push(0, address, address)      # of 200 fp32 numbers, which become their mean over the workers,
        event = client.poll(1.0)              # again until its type is TENSOR; ENDED: the job has failed
        client.finish()                       # then poll until ENDED, and close()

    One thread calls :meth:`poll` all the time; any thread may call the other methods. After a fork only
    the parent may use the client.

    Arguments:

    ``job``        the path of the job file, which has ``train: {compute: client}``; None: that of the environment variable TERN_JOB
    ``tensors``    in the same order, with the same names and shapes, in all workers
    ``rank``       of this worker: 0 to workers.count - 1
    ``overrides``  keys of the job file that have other values: "KEY=VALUE", as after ``--set``
    ``has_first_state``    true in one worker, rank 0 by custom: all others begin with its state, for which the event
                   GIVE_STATE asks. False in all: every program begins with what it has
    ``saved_state``    what :meth:`save` returned in an earlier start of all programs, each with its own
    ``saved_digest``   a number of at most 64 bits, which must be the same in all workers with ``saved_state``: a digest of the
                   weights with which they go on; 0: unknown, and like any
    ``takes_tasks``    the program calls :meth:`next_task` before each step; Tern then keeps its checkpoints, and can give it one
                   of them to go back to. The same in all workers
    ``module``     for a job with ``train: {compute: module}``; None: the job has ``client``

    Returns at once, and joins the job in the background. Raises :class:`TernError`: 64 or 78 for arguments or a job file
    that make no sense.
    """

    def __init__(
        self,
        job: str | os.PathLike[str] | None,
        tensors: Sequence[Tensor],
        rank: int,
        overrides: Sequence[str] = (),
        has_first_state: bool = False,
        saved_state: bytes = b"",
        saved_digest: int = 0,
        takes_tasks: bool = False,
        module: ModulePart | None = None,
    ):
        table = _table(tensors)
        texts = (ctypes.c_char_p * len(overrides))(*(text.encode() for text in overrides))
        options = _library.COptions(
            _library.ABI_VERSION,
            rank,
            None if job is None else os.fsencode(job),
            texts,
            len(texts),
            table,
            len(table),
            has_first_state,
            saved_state or None,
            len(saved_state),
            takes_tasks,
            fixed_digest=saved_digest,
        )
        if module is not None:
            if len(module.first_values) != len(tensors) or len(module.first_statistics) != len(module.statistics):
                raise TernError(64, "module: saw another number of addresses than of tensors or statistics")
            options.is_module = True
            options.first_values = _addresses(module.first_values)
            options.statistics = _table(module.statistics)
            options.num_statistics = len(module.statistics)
            options.first_statistics = _addresses(module.first_statistics)
            options.fixed_digest = module.fixed_digest
            options.evaluates = module.evaluates
        self._handle = ctypes.c_void_p()
        self._pid = os.getpid()
        self.tensors = tuple(tensors)
        error = _library.CError()
        if lib.tern_open(ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(error)) != 0:
            raise TernError(error.code, error.sentence.decode(errors="replace"))

    def _live_handle(self) -> ctypes.c_void_p:
        if self._pid != os.getpid():
            raise TernError(64, "a Tern client was used in a forked child; only the process that opened it may")
        if not self._handle:
            raise TernError(64, "a Tern client was used after close()")
        return self._handle

    def poll(self, timeout_s: float) -> Event:
        """Waits up to ``timeout_s`` seconds for the next event. Lines of the log go to the logger "tern_train"."""
        event = _library.CEvent()
        lib.tern_poll(self._live_handle(), timeout_s, ctypes.byref(event))
        text = event.text.decode(errors="replace")
        if event.type == _library.LOG:
            _log.log(_LEVELS[event.level], "%s", text)
            return Event(EventType.NOTHING)
        state = ctypes.string_at(event.state, event.num_state_bytes) if event.type == _library.STATE else b""
        return Event(EventType(event.type), event.step, event.tensor, event.code, text, state)

    def push(
        self, tensor: int, gradient: int | None, mean: int | None, gives_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Hands over the gradient of a tensor in the current step.

        ``gradient``: the address of the tensor's fp32 numbers, which are copied unless ``mean`` is the same; None: zeros.
        ``mean``: the address where their mean over the workers is to be written, valid, and left as it is, until the event
        TENSOR or ENDED; None: it is not wanted. In a module's job ``gradient`` is the tensor's memory, and ``mean`` None. A
        step ends when every tensor was pushed once. Waits for the step before to end, and for the job to begin, but no
        longer than ``gives_up`` returns False.
        """
        error = _library.CError()
        code = _library.AGAIN
        while code == _library.AGAIN:
            if gives_up():
                raise TernError(75, "the program has left the job")
            code = lib.tern_push(self._live_handle(), tensor, gradient, mean, ctypes.byref(error))
        if code != 0:
            raise TernError(code, error.sentence.decode(errors="replace"))

    def memory(self, kind: Memory, index: int) -> int:
        """The address of the fp32 numbers of a tensor, its gradient, or a statistic, in a module's job. Valid until
        :meth:`close`; to be read and written only between a task and the end of that task."""
        address = lib.tern_memory(self._live_handle(), kind, index)
        if address is None:
            raise TernError(64, f"memory: saw index {index}; there are {len(self.tensors)} tensors")
        return int(address)

    def next_task(self, timeout_s: float) -> Task:
        """Waits up to ``timeout_s`` seconds for what is to be done next.

        Raises :class:`TernError` if the job has failed, or if the task before was not done."""
        task, error = _library.CTask(), _library.CError()
        if lib.tern_next(self._live_handle(), timeout_s, ctypes.byref(task), ctypes.byref(error)) != 0:
            raise TernError(error.code, error.sentence.decode(errors="replace"))
        state = ctypes.string_at(task.state, task.num_state_bytes) if task.type == _library.LOAD else b""
        return Task(TaskType(task.type), task.step, task.part, task.num_parts, state)

    def score(self, loss: float, correct: int, among_five: int, samples: int) -> None:
        """The result of the task EVALUATE, as sums over its samples. ``correct``: how many have the largest score for
        their label; ``among_five``: one of the five largest."""
        lib.tern_score(self._live_handle(), loss, correct, among_five, samples)

    def report(self, loss: float, num_samples: int) -> None:
        """The mean loss and the number of samples of the step, for the log and the closing table."""
        lib.tern_report(self._live_handle(), loss, num_samples)

    def give_state(self, state: bytes) -> None:
        """Gives this program's state between two steps, in any format, to the worker that needs it."""
        lib.tern_give_state(self._live_handle(), state, len(state))

    def keep(self, state: bytes) -> None:
        """Gives this program's state, in any format, to Tern for a checkpoint: the answer to SAVE."""
        lib.tern_keep(self._live_handle(), state, len(state))

    def save(self, gives_up: Callable[[], bool] = lambda: False) -> bytes:
        """What Tern keeps of this program in a client's job, between two steps: what codecs remember of earlier gradients, and the
        number of the step, on which drawn codes depend. If all programs start again with what each saved after the same step,
        the job goes on as if nothing had happened."""
        state, size, error = ctypes.c_void_p(), ctypes.c_size_t(), _library.CError()
        code = _library.AGAIN
        while code == _library.AGAIN:
            if gives_up():
                raise TernError(75, "the program has left the job")
            code = lib.tern_save(self._live_handle(), ctypes.byref(state), ctypes.byref(size), ctypes.byref(error))
        if code != 0:
            raise TernError(code, error.sentence.decode(errors="replace"))
        return ctypes.string_at(state, size.value)

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return int(lib.tern_steps(self._live_handle()))

    def stats(self) -> dict[str, Any]:
        """This worker's counters, by name: steps, bytes, frames, seconds of waiting and others."""
        text = ctypes.create_string_buffer(lib.tern_stats(self._live_handle(), None, 0) + 4096)
        lib.tern_stats(self._live_handle(), text, len(text))
        return dict(json.loads(text.value))

    def finish(self) -> None:
        """Says that this worker pushes no more. The event ENDED comes when all have finished."""
        lib.tern_finish(self._live_handle())

    def close(self, code: int = 0, sentence: str = "") -> None:
        """Leaves the job. Before ENDED, the job fails with ``code`` and ``sentence`` of this worker."""
        if self._handle and self._pid == os.getpid():
            text = sentence.encode(errors="backslashreplace")  # The name of a file may be no text.
            handle, self._handle = self._handle, ctypes.c_void_p()
            lib.tern_close(handle, code, text)
