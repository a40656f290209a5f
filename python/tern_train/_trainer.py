"""Tern trains a PyTorch module, and PyTorch differentiates."""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

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
)
from tern_train._environment import rank_of_environment
from tern_train._module import digest_of, refuse_sync_batch_norm, running_statistics, table_of, trained_parameters
from tern_train._session import Session


class Score(NamedTuple):
    """What a program's ``evaluate`` returns, as sums over the samples of its part: their losses, how many there are, how many
    have the largest score for their label, and how many one of the five largest."""

    loss: float
    samples: int
    correct: int = 0
    among_five: int = 0


def _view(address: int, shape: Sequence[int]) -> torch.Tensor:
    """The fp32 numbers at an address, without a copy."""
    count = 1
    for size in shape:
        count *= size
    numbers = (ctypes.c_float * count).from_address(address)
    return torch.frombuffer(numbers, dtype=torch.float32).view(tuple(shape))


class _Shared:
    """A tensor of the module, and the memory of Tern's that has its values.

    The tensor is that memory if it is fp32 on the CPU; otherwise values are copied.
    """

    def __init__(self, tensor: torch.Tensor, values: torch.Tensor):
        self.tensor = tensor
        self.values = values
        self.is_view = tensor.device.type == "cpu" and tensor.dtype == torch.float32
        if self.is_view:
            tensor.data = values

    def fetch(self) -> None:
        """Tern's values become the tensor's."""
        if not self.is_view:
            self.tensor.data.copy_(self.values)

    def put(self) -> None:
        """The tensor's values become Tern's."""
        if not self.is_view:
            self.values.copy_(self.tensor.detach())

    def release(self) -> None:
        """The tensor has memory of its own again."""
        if self.is_view:
            self.tensor.data = self.values.clone()
        else:
            self.fetch()


class Trainer(Session):
    """Trains a module by the job's algorithm. The program computes gradients; Tern has weights, optimizer and all else.

        trainer = tern.torch.Trainer(model, job="job.yaml")
        for step in trainer.steps():
            x, y = batches[step]
            trainer.backward(loss_fn(model(x), y))

    The job has ``train: {compute: module}`` with batch_total and steps, and whatever else a job of Tern's own networks may
    have: any algorithm, optimizer, schedule, moving average, checkpoints, what happens when a worker is lost. The
    module's parameters, their gradients, and the running statistics of its batch norms are Tern's memory: fp32 tensors on the
    CPU without a copy. Between ``backward`` and the next step Tern changes them.

    At the end the module has the result: the weights, or their moving average if the job has one, and the
    mean of the workers' running statistics. The same is in ``output_dir``; :func:`load_weights` reads it.

    Arguments:

    ``module``     its trained parameters (``requires_grad``), with their names and order, must be the same in all workers, and
                   so must be the values of those that are not trained (76 if not). Buffers other than running statistics stay
                   each worker's own, and are not compared: make them alike in all. All begin with rank 0's, or with model.weights, which
                   algorithms need whose weights are on the servers (:func:`save_weights`)
    ``job``        the path of the job file; None: that of the environment variable TERN_JOB
    ``rank``       of this worker, from 0; None: see :func:`rank_of_environment`
    ``overrides``  keys of the job file that have other values: "KEY=VALUE", as after ``--set``
    ``evaluate``   ``evaluate(part, parts)`` evaluates the module on part ``part`` (from 0) of ``parts`` nearly equal parts of
                   the test samples, and returns a :class:`Score`, or a tuple as it. It is called between two steps, as the job's ``evaluation``
                   says, and at the end, with the module in evaluation mode and without gradients. None: no evaluation. In all workers
                   or in none: the figures are the sums over all parts, and leave out that of a worker without ``evaluate``

    Raises :class:`~tern_train.TernError` (64 for a module with a SyncBatchNorm or complex parameters), and
    :class:`~tern_train.Ended` if the job fails.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        job: str | os.PathLike[str] | None = None,
        *,
        rank: int | None = None,
        overrides: Sequence[str] = (),
        evaluate: Callable[[int, int], Score | tuple[float, int] | tuple[float, int, int]] | None = None,
    ):
        refuse_sync_batch_norm(module)
        rank = rank_of_environment() if rank is None else rank
        self._module = module
        self._evaluate = evaluate
        self._is_over = False
        self._is_last_backward = False
        self._step: int | None = None  # while a step is under way
        self._loss = 0.0
        super().__init__(self._open(job, rank, overrides))
        parameters = [parameter for _, parameter in trained_parameters(module)]
        self._parameters = [
            _Shared(parameter, _view(self.client.memory(Memory.VALUES, t), parameter.shape))
            for t, parameter in enumerate(parameters)
        ]
        self._statistics = [
            _Shared(tensor, _view(self.client.memory(Memory.STATISTIC, i), tensor.shape))
            for i, (_, tensor) in enumerate(running_statistics(module))
        ]
        addresses = [self.client.memory(Memory.GRADIENT, t) for t in range(len(parameters))]
        self._gradients = [_view(address, p.shape) for address, p in zip(addresses, parameters)]
        self._gradient_addresses = addresses
        self._is_pushed = [False] * len(parameters)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, t=t: self._on_gradient(t))  # type: ignore[no-untyped-call]
            for t, parameter in enumerate(parameters)
        ]
        self._start()

    def _open(self, job: str | os.PathLike[str] | None, rank: int, overrides: Sequence[str]) -> Client:
        parameters = trained_parameters(self._module)
        table = table_of(parameters)
        statistics = running_statistics(self._module)
        first = [p.detach().to("cpu", torch.float32).contiguous() for _, p in parameters]
        first_statistics = [tensor.detach().to("cpu", torch.float32).contiguous() for _, tensor in statistics]
        part = ModulePart(
            first_values=[values.data_ptr() for values in first],
            statistics=[Tensor(name, tuple(tensor.shape)) for name, tensor in statistics],
            first_statistics=[values.data_ptr() for values in first_statistics],
            fixed_digest=digest_of((name, p) for name, p in self._module.named_parameters() if not p.requires_grad),
            evaluates=self._evaluate is not None,
        )
        return Client(job, table, rank, overrides, has_first_state=rank == 0, module=part)

    # --- Steps

    @property
    def steps_done(self) -> int:
        """How many of the job's steps are done."""
        return self.client.steps

    def steps(self) -> Iterator[int]:
        """The steps of the job, as they are to be computed: how many steps come before each, so the first is 0.

        A worker that resumes from a checkpoint begins with a later one, and a job that goes back repeats some: choose
        the batch by this number. Evaluates in between. Ends with the job; raises ``Ended`` if it failed.
        """
        while True:
            task = self._next_task()
            if task.type == TaskType.OVER:
                self._is_over = True
                self._release()
                return
            if task.type == TaskType.EVALUATE:
                self._do_evaluation(task)
            elif task.type == TaskType.STEP:
                self._begin_step()
                self._step = task.step - 1
                yield self._step
                if self._step is not None:
                    raise TernError(64, f"step {self._step} has no gradient: call backward(loss) once in each step")

    @torch.no_grad()
    def _begin_step(self) -> None:
        self._loss = 0.0
        self._is_pushed = [False] * len(self._parameters)
        for shared, gradient in zip(self._parameters, self._gradients):
            shared.fetch()
            shared.tensor.grad = gradient if shared.is_view else None  # zeros
        for statistic in self._statistics:
            statistic.fetch()

    def backward(self, loss: torch.Tensor, is_last: bool = True) -> None:
        """Computes the gradient of this step's loss, the mean over this worker's samples, and hands it over.

        ``is_last``: False for the first parts of a step whose gradient is accumulated over several losses, each divided by
        their number.
        """
        if self._step is None:
            raise TernError(64, "backward: called twice for one step, or outside of steps(); for parts of a step is_last=False")
        self._loss += float(loss.detach())
        if not is_last:
            loss.backward()  # type: ignore[no-untyped-call]
            return
        self.client.report(self._loss, 1)
        self._is_last_backward = True
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._is_last_backward = False
        for t, is_pushed in enumerate(self._is_pushed):  # what this loss did not use
            if not is_pushed:
                self._push(t)
        with torch.no_grad():
            for statistic in self._statistics:
                statistic.put()
        self._step = None

    def _on_gradient(self, t: int) -> None:
        if self._is_last_backward:
            self._push(t)

    @torch.no_grad()
    def _push(self, t: int) -> None:
        parameter, gradient = self._parameters[t].tensor, self._gradients[t]
        if parameter.grad is not None and parameter.grad.data_ptr() != gradient.data_ptr():
            gradient.copy_(parameter.grad)
        self._is_pushed[t] = True
        try:
            self.client.push(t, self._gradient_addresses[t], None, gives_up=self._has_ended.is_set)
        except TernError as error:
            raise self._reason(error) from None

    @torch.no_grad()
    def _do_evaluation(self, task: Task) -> None:
        assert self._evaluate is not None
        for shared in [*self._parameters, *self._statistics]:
            shared.fetch()
        modes = [(part, part.training) for part in self._module.modules()]  # Some may be frozen in eval().
        self._module.eval()
        score = Score(*self._evaluate(task.part, task.num_parts))
        for part, was_training in modes:
            part.training = was_training
        self.client.score(score.loss, score.correct, score.among_five, score.samples)

    # --- The end

    def _on_event(self, event: Event) -> None:
        if event.type == EventType.ENDED:
            self._fail(Ended(event.code, event.text) if event.code != 0 else None)

    def _say_finished(self) -> None:
        if not self._is_over and self._failure is None:
            sentence = f"the program has left the job after step {self.steps_done}, before its end"
            self.close(75, sentence)
            raise TernError(75, sentence)

    def _release(self) -> None:
        for hook in self._hooks:
            hook.remove()
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # of a GPU that has failed
            for shared in self._parameters:
                shared.release()
                shared.tensor.grad = None
            for statistic in self._statistics:
                statistic.release()
        self._parameters, self._statistics, self._gradients, self._hooks = [], [], [], []
