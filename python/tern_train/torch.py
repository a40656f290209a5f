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

import atexit
import hashlib
import json
import logging
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tern_train._bucket import Bucket
from tern_train._client import Client, Ended, Event, EventType, Tensor, TernError

__all__ = ["Exchange", "LocalSteps", "ddp", "describe", "hook", "rank_of_environment"]

_log = logging.getLogger("tern_train")

_RANK_VARIABLES = (
    "TERN_RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "JOB_COMPLETION_INDEX",
    "RANK",
)


def rank_of_environment() -> int:
    """This worker's rank, from the first of TERN_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK,
    JOB_COMPLETION_INDEX and RANK that is set. ``TernError`` if none is, or it is no number."""
    for name in _RANK_VARIABLES:
        text = os.environ.get(name)
        if text is None:
            continue
        if not text.isdecimal():
            raise TernError(64, f"{name}: saw '{text}'; allowed: this worker's rank, a whole number from 0")
        _log.info("the rank is %s, from %s", text, name)
        return int(text)
    raise TernError(
        64, f"this worker's rank is not known: give rank=N, or set one of {', '.join(_RANK_VARIABLES)}"
    )


def _trained_parameters(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """The parameters that have gradients, each once, in the module's order."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def _table(parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> list[Tensor]:
    return [Tensor(name, tuple(parameter.shape)) for name, parameter in parameters]


def describe(module: torch.nn.Module) -> str:
    """The module's table of tensors as JSON, for ``tern check`` and ``tern forecast`` with ``--set tensors=FILE``."""
    rows = [{"name": tensor.name, "shape": list(tensor.shape)} for tensor in _table(_trained_parameters(module))]
    return json.dumps({"tensors": rows})


def _digest(parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> int:
    """A digest of the weights; never 0."""
    state = hashlib.blake2b(digest_size=8)
    for _, parameter in parameters:
        values = parameter.detach().contiguous().cpu()
        state.update(values.view(-1).view(torch.uint8).numpy().data)
    return int.from_bytes(state.digest(), "little") or 1


def _refuse_sync_batch_norm(module: torch.nn.Module) -> None:
    for name, submodule in module.named_modules():
        if isinstance(submodule, torch.nn.SyncBatchNorm):
            raise TernError(
                64,
                f"{name or 'the module'}: saw a SyncBatchNorm, whose statistics need an all-reduce in the forward pass, which "
                "Tern has not; use BatchNorm, whose statistics stay local",
            )


def _at_end_of_backward(function: Callable[[], None]) -> None:
    """Calls the function after this backward pass, in the order of these calls, before backward() returns."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


class Exchange:
    """A model's part in a job: takes gradients, and gives their mean over the workers.

    ``module``: its trained parameters (``requires_grad``), with their names and order, must be the same in
    all workers, and so must be their first values, which are compared by digest. ``job``: the path of the job
    file; None: that of the environment variable TERN_JOB. ``rank``: None: see :func:`rank_of_environment`.
    ``overrides``: "KEY=VALUE", as after ``--set``.

    At the end of the program, or of the ``with`` statement, it waits until all workers have finished. A program
    that ends with an exception ends the job.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        job: str | os.PathLike[str] | None = None,
        *,
        rank: int | None = None,
        overrides: Sequence[str] = (),
    ):
        if job is None:
            job = os.environ.get("TERN_JOB")
            if not job:
                raise TernError(64, "the job file is not known: give job=PATH, or set TERN_JOB")
        _refuse_sync_batch_norm(module)
        self.parameters = [parameter for _, parameter in _trained_parameters(module)]
        self._index = {id(parameter): t for t, parameter in enumerate(self.parameters)}
        self._lock = threading.Lock()
        #: Whether backward passes may leave parameters out (``find_unused_parameters`` or ``static_graph``).
        self.may_be_unused = False
        self._buckets: list[tuple[list[torch.Tensor], Bucket]] = []  # of the backward pass
        self._waiting: dict[int, Bucket] = {}  # by tensor
        self._failure: TernError | None = None
        self._has_ended = threading.Event()
        self._is_closed = False
        self._pid = os.getpid()
        named = _trained_parameters(module)
        self.client = Client(
            job,
            _table(named),
            rank_of_environment() if rank is None else rank,
            overrides,
            weights_digest=_digest(named),
        )
        self._thread = threading.Thread(target=self._poll, name="tern_train", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    # --- Gradients

    def hook(self, bucket: dist.GradBucket) -> "torch.futures.Future[torch.Tensor]":  # type: ignore[name-defined]
        """Exchanges a bucket of DistributedDataParallel; see :func:`hook`."""
        gradients = bucket.gradients()
        indices = [self._index[id(parameter)] for parameter in bucket.parameters()]
        devices: list[int | str | torch.device] | None = [bucket.buffer().device] if bucket.buffer().is_cuda else None
        pending = Bucket(gradients)
        pending.future = torch.futures.Future(devices=devices)
        pending.buffer = bucket.buffer()
        if bucket.index() == 0:  # The buckets of each backward pass come in order.
            self._buckets = []
            _at_end_of_backward(self._await_means)
        self._buckets.append((bucket.parameters(), pending))
        self._push(indices, pending)
        # In the callback, value() raises what set_exception was given. DistributedDataParallel itself would
        # take the exception for a tensor.
        return pending.future.then(lambda future: future.value())

    def _await_means(self) -> None:
        """Waits before DistributedDataParallel does, whose waiting Ctrl-C cannot end and which hides the error."""
        for _, bucket in self._buckets:
            bucket.wait()
        if dist.get_world_size() == 1:
            _at_end_of_backward(self._give_unused)

    @torch.no_grad()
    def _give_unused(self) -> None:
        """Gives their means to parameters that only other workers have used.

        A DistributedDataParallel of one process leaves the gradients alone of parameters that this process has not used,
        and then the replicas would part.
        """
        for parameters, bucket in self._buckets:
            for parameter, mean in zip(parameters, bucket.tensors):
                if parameter.grad is None:
                    parameter.grad = mean.to(parameter.dtype, copy=True)
                elif self.may_be_unused:
                    parameter.grad.copy_(mean)
        self._buckets = []

    def mean_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces tensors, one for each of ``parameters``, by their means over the workers. Waits for them."""
        pending = Bucket(tensors)
        self._push(list(range(len(tensors))), pending)
        pending.wait()

    def _push(self, indices: Sequence[int], pending: Bucket) -> None:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            for t in indices:
                self._waiting[t] = pending
        for t, address in zip(indices, pending.addresses):
            try:
                self.client.push(t, address, address)
            except TernError as error:
                raise (self._failure or error) from None

    # --- What comes back

    def _poll(self) -> None:
        while not self._has_ended.is_set():
            self._on_event(self.client.poll(0.5))

    def _on_event(self, event: Event) -> None:
        if event.type == EventType.TENSOR:
            with self._lock:
                bucket = self._waiting.pop(event.tensor)
                bucket.num_left -= 1
            if bucket.num_left == 0:
                bucket.complete()
        elif event.type == EventType.ENDED:
            with self._lock:
                if event.code != 0:
                    self._failure = Ended(event.code, event.text)
                lost = set(self._waiting.values())
                self._waiting.clear()
            for bucket in lost:
                bucket.fail(self._failure or Ended(70, "the job ended in the middle of a step"))
            self._has_ended.set()

    # --- The end

    def finish(self) -> None:
        """Says that this worker has no more gradients, and waits until all workers have finished.

        Raises ``Ended`` if the job failed."""
        if self._is_closed:
            return
        self.client.finish()
        while not self._has_ended.wait(0.1):
            pass
        self.close()
        if self._failure is not None:
            raise self._failure

    def close(self, code: int = 0, sentence: str = "") -> None:
        """Leaves the job. Before :meth:`finish`, the job fails with ``code`` and ``sentence``."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._at_exit)
        if not self._has_ended.is_set() and code == 0:
            code, sentence = 75, sentence or "the program has left the job"
        self._has_ended.set()
        self._thread.join()
        self.client.close(code, sentence)

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.close(70, f"{type(error).__name__}: {error}")

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child; the job is its parent's
        error = getattr(sys, "last_value", None)  # what ends the program
        if error is not None:
            self.close(70, f"{type(error).__name__}: {error}")
        else:
            try:
                self.finish()
            except TernError as failure:
                print(f"tern_train: {failure}", file=sys.stderr)
        if self._failure is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._failure.code)  # An exception cannot change the exit code any more.


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
    **ddp_arguments: Any,
) -> DistributedDataParallel:
    """A DistributedDataParallel whose gradients travel over Tern.

    ``job``, ``rank``, ``overrides``: as for :class:`Exchange`, which becomes the attribute ``tern`` of what is
    returned. ``ddp_arguments``: for DistributedDataParallel. If the program has no process group, one of this
    process alone is made, so that nothing but Tern travels.

    What is as with DistributedDataParallel: no_sync(), gradient clipping, frozen and tied parameters, static_graph,
    gradient_as_bucket_view, loss scaling, torch.compile. What is not:

    - First weights are compared and not broadcast: give all workers the same seed or the same file.
    - Buffers, such as batch norm's statistics, stay each worker's own.
    - With find_unused_parameters, parameters that no worker has used have gradients of zeros, not None.
    - A gradient that is not finite ends the job, so a loss scale must not overflow.
    - A worker with less data than others may end; the mean is that of those that go on.
    """
    _refuse_sync_batch_norm(module)  # DistributedDataParallel would say something else.
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    net = DistributedDataParallel(module, **ddp_arguments)
    exchange = Exchange(module, job, rank=rank, overrides=overrides)
    exchange.may_be_unused = net.find_unused_parameters or net.static_graph
    net.register_comm_hook(exchange, hook)
    net.tern = exchange  # type: ignore[assignment]
    return net


class LocalSteps:
    """Local steps between two exchanges: local SGD, and DiLoCo with an outer optimizer.

    The workers train on their own for ``every`` steps of the inner optimizer. Then the change of each weight since
    the last exchange is exchanged as a gradient is, by the job's codec, and ``outer`` takes its mean
    from the weights that all had then. ``outer``: an optimizer over the same parameters; None: plain
    averaging (SGD with rate 1, as in ``psgd``).

        local = LocalSteps(model, inner=AdamW(model.parameters()), outer=SGD(model.parameters(), lr=0.7,
                           momentum=0.9, nesterov=True), every=100, job="job.yaml")
        for x, y in loader:
            loss_fn(model(x), y).backward()
            local.step()
            local.zero_grad()
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inner: torch.optim.Optimizer,
        outer: torch.optim.Optimizer | None = None,
        *,
        every: int,
        job: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        overrides: Sequence[str] = (),
    ):
        if every < 1:
            raise TernError(64, f"every: saw {every}; allowed: a whole number, at least 1")
        self.exchange = Exchange(module, job, rank=rank, overrides=overrides)
        self.inner = inner
        self.outer = outer or torch.optim.SGD(self.exchange.parameters, lr=1.0)
        self.every = every
        self.steps = 0
        self._anchors = [parameter.detach().clone() for parameter in self.exchange.parameters]

    def step(self) -> None:
        """A step of the inner optimizer; after every ``every`` of them, an exchange and a step of the outer one."""
        self.inner.step()
        self.steps += 1
        if self.steps % self.every == 0:
            self.synchronize()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none)

    @torch.no_grad()
    def synchronize(self) -> None:
        """Exchanges the changes now. All workers must call it after as many steps."""
        parameters = self.exchange.parameters
        changes = [anchor - p for anchor, p in zip(self._anchors, parameters)]
        self.exchange.mean_(changes)
        gradients = [p.grad for p in parameters]
        for p, anchor, change in zip(parameters, self._anchors, changes):
            p.copy_(anchor)
            p.grad = change
        self.outer.step()
        for p, anchor, gradient in zip(parameters, self._anchors, gradients):
            anchor.copy_(p)
            p.grad = gradient

    def finish(self) -> None:
        """See :meth:`Exchange.finish`."""
        self.exchange.finish()
