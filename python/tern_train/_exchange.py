"""A PyTorch module's part in a job."""

import io
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from tern_train._bucket import Bucket, Streams
from tern_train._client import Client, Ended, Event, EventType, TaskType, TernError
from tern_train._environment import rank_of_environment
from tern_train._extras import Extras
from tern_train._memory import bytes_of, in_layout_of
from tern_train._module import (
    ModuleState,
    digest_of,
    no_gradients,
    parameters_of,
    refuse_sync_batch_norm,
    running_statistics,
    table_of,
    trained_parameters,
)
from tern_train._session import Session


def _at_end_of_backward(function: Callable[[], None]) -> None:
    """Calls the function after this backward pass, in the order of these calls, before backward() returns."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


class Exchange(Session):
    """A model's part in a job: takes gradients, and gives their mean over the workers.

    The constructor waits until all workers are here, and gives rank 0's state to all. At the end of the program, or of the
    ``with`` statement, it waits until all workers have finished. A program that ends with an exception is a lost worker.

    Arguments:

    ``module``     its trained parameters (``requires_grad``), with their names and order, must be the same in all workers
    ``job``        the path of the job file; None: that of the environment variable TERN_JOB
    ``rank``       of this worker, from 0; None: see :func:`rank_of_environment`
    ``overrides``  keys of the job file that have other values: "KEY=VALUE", as after ``--set``
    ``skips_overflow``    a gradient that is not finite does not end the job, but makes all gradients of its step infinite
                   on all workers, so that their GradScalers skip it alike. A number more travels, and gradients are checked
    ``average_buffers``    the running means and variances of batch norms become their means over the workers after each step
    ``compare``    "hash": every ``compare_every`` steps, all workers' weights must be the same bit for bit; "norm": their norms must be
                   the same but for a thousandth, for hosts that compute differently. If not, the job ends, with 76
    ``state_dict``, ``load_state_dict``    functions that return and install what a worker must have that was lost and
                   starts again (``faults.on_worker_loss: wait``); ``steps`` then says after how many steps it goes on.
                   Tensors come on the CPU. None: the module's with all its buffers, which is enough only if the optimizer keeps
                   nothing; what ``state_dict`` leaves out stays each worker's own, also at the beginning. Both are called
                   while the constructor runs and later, so what they use must exist before
    ``goes_back``  the training loop is that of :meth:`loop`. The job's ``checkpoints`` are then of the whole program, with what
                   ``state_dict`` returns: the job resumes from them, and goes back to them when a worker or a server has
                   lost what its codec remembers of earlier gradients. The same in all workers
    ``tern_state``    what :meth:`state_dict` returned on this rank, from the program's own checkpoint, if all programs start
                   again from checkpoints of the same step; on all ranks or on none. The program loads module and optimizer itself, before,
                   on every rank: nobody gets rank 0's. Weights that differ end the job, with 65, except with ``compare="norm"``

    Attributes: ``overflowed_steps``, how many steps ``skips_overflow`` has made infinite; ``parameters``, those that are
    trained, in the order of :meth:`mean_`; ``client``, the :class:`~tern_train.Client`.
    """

    def __init__(
        self,
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
    ):
        refuse_sync_batch_norm(module)
        self._names, self.parameters = [], []
        for name, parameter in trained_parameters(module):
            self._names.append(name)
            self.parameters.append(parameter)
        self._index = {id(parameter): t for t, parameter in enumerate(self.parameters)}
        #: Whether backward passes may leave parameters out (``find_unused_parameters`` or ``static_graph``).
        self.may_be_unused = False
        self._streams = Streams()
        self._buckets: list[tuple[list[torch.Tensor], Bucket]] = []  # of the backward pass
        self._waiting: dict[int, Bucket] = {}  # by tensor
        self._num_open_steps = 0  # begun by this program, and not waited for to their ends
        # Buckets whose gradients come from a GPU, and the thread that waits for them; it is started with the first.
        self._arriving: "queue.SimpleQueue[tuple[Sequence[int], Bucket]]" = queue.SimpleQueue()
        self._pusher: threading.Thread | None = None
        module_state = ModuleState(module)
        self._state_dict = state_dict or module_state.state_dict
        self._load_state_dict = load_state_dict or module_state.load_state_dict
        self._goes_back = goes_back
        self._is_over = False  # whether the tasks have ended
        self._is_ready = threading.Event()
        rank = rank_of_environment() if rank is None else rank
        statistics = running_statistics(module) if average_buffers else []
        self._extras = Extras(skips_overflow, statistics, compare, compare_every, self.parameters)
        self._step = 0
        #: How many steps ``skips_overflow`` has made infinite.
        self.overflowed_steps = 0
        tensors = table_of(trained_parameters(module)) + self._extras.table
        saved = bytes_of(tern_state["state"]) if tern_state is not None else b""
        # Then nobody gets rank 0's weights. Hosts that compute differently have weights that differ a little.
        digest = digest_of(parameters_of(module)) if saved and compare != "norm" else 0
        super().__init__(Client(job, tensors, rank, overrides, rank == 0, saved, digest, takes_tasks=goes_back))
        self._start()
        while not self._is_ready.wait(0.1):  # Wakes up for Ctrl-C.
            if self._failure is not None:
                raise self._failure
        self._step = self.client.steps

    # --- Gradients

    def hook(self, bucket: dist.GradBucket) -> "torch.futures.Future[torch.Tensor]":  # type: ignore[name-defined]
        """Exchanges a bucket of DistributedDataParallel; see :func:`hook`."""
        buffer, gradients = bucket.buffer(), bucket.gradients()
        sparse_dims = buffer.sparse_dim() if buffer.is_sparse else None  # Then it is the gradient of one parameter.
        if sparse_dims is not None:
            buffer = buffer.to_dense()
            gradients = [buffer]
        indices = [self._index[id(parameter)] for parameter in bucket.parameters()]
        devices: list[int | str | torch.device] | None = [buffer.device] if buffer.is_cuda else None
        pending = Bucket.of_gradients(buffer, gradients, self._streams)
        pending.future = torch.futures.Future(devices=devices)
        pending.buffer = buffer
        if bucket.index() == 0:  # The buckets of each backward pass come in order.
            self._buckets = []
            self._num_open_steps += 1
            _at_end_of_backward(self._await_means)
        self._buckets.append((bucket.parameters(), pending))
        self._push(indices, pending, ends_step=bucket.is_last())
        # In the callback, value() raises what set_exception was given. DistributedDataParallel itself would
        # take the exception for a tensor.
        if sparse_dims is not None:
            return pending.future.then(lambda future: future.value().to_sparse(sparse_dims))
        return pending.future.then(lambda future: future.value())

    def _await_means(self) -> None:
        """Waits before DistributedDataParallel does, whose waiting Ctrl-C cannot end and which hides the error."""
        self._refuse_missing()
        self._wait_for([bucket for _, bucket in self._buckets])
        if dist.get_world_size() == 1:
            _at_end_of_backward(self._give_unused)

    def _refuse_missing(self) -> None:
        """Ends the job if DistributedDataParallel holds a bucket back: all workers would wait for ever for the end of this step."""
        seen = {id(parameter) for parameters, _ in self._buckets for parameter in parameters}
        missing = [(name, p) for name, p in zip(self._names, self.parameters) if id(p) not in seen]
        if missing:
            error = no_gradients(missing)
            self._close_with(error)
            raise error

    @torch.no_grad()
    def _give_unused(self) -> None:
        """Gives their means to parameters that only other workers have used.

        A DistributedDataParallel of one process leaves the gradients alone of parameters that this process has not used,
        and then the replicas would part.
        """
        for parameters, bucket in self._buckets:
            for parameter, memory in zip(parameters, bucket.tensors):
                mean = in_layout_of(parameter, memory)
                if parameter.grad is None:
                    parameter.grad = mean.to(parameter.dtype, copy=True)
                elif self.may_be_unused and not parameter.grad.is_sparse and parameter.grad.data_ptr() != mean.data_ptr():
                    parameter.grad.copy_(mean)
        self._buckets = []

    def mean_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces tensors, of the shapes of ``parameters``, by their means over the workers. Waits for them.

        Each call is a step. Raises ``Ended`` if the job ends before, and ``TernError`` (64) for other tensors.
        """
        self._check_shapes(tensors)
        pending = Bucket(tensors, self._streams)
        self._num_open_steps += 1
        self._push(list(range(len(tensors))), pending, ends_step=True)
        self._wait_for([pending])

    def _check_shapes(self, tensors: Sequence[torch.Tensor]) -> None:
        if len(tensors) != len(self.parameters):
            raise TernError(64, f"mean_: saw {len(tensors)} tensors; expected {len(self.parameters)}, one for each trained parameter")
        for t, (tensor, parameter) in enumerate(zip(tensors, self.parameters)):
            if tensor is None or tensor.shape != parameter.shape:
                saw = "None" if tensor is None else tuple(tensor.shape)
                raise TernError(64, f"mean_: tensor {t}: saw the shape {saw}; expected {tuple(parameter.shape)}, that of parameter {t}")
            if tensor.is_complex():
                raise TernError(64, f"mean_: tensor {t}: saw complex numbers; expected real ones")

    @torch.no_grad()
    def _wait_for(self, step: Sequence[Bucket]) -> None:
        """Waits for all buckets of a step, and ends it."""
        for bucket in step:
            bucket.wait()
        self._step += 1
        extras = step[-1].extras
        if extras is not None:
            extras.wait()
            self._check_extras(step, extras)
        self._num_open_steps -= 1

    def _check_extras(self, step: Sequence[Bucket], extras: Bucket) -> None:
        try:
            has_overflowed = self._extras.check(extras.tensors, self._step - 1)
        except TernError as error:
            self._close_with(error)
            raise
        if has_overflowed:
            self.overflowed_steps += 1
            for bucket in step:
                bucket.overflow_everywhere()

    def _push(self, indices: Sequence[int], pending: Bucket, ends_step: bool) -> None:
        self._outlive_errors()
        pending.ends_step = ends_step
        self._await(indices, pending)
        if pending.arrived is None:
            self._push_now(indices, pending)
            return
        if self._pusher is None:
            self._pusher = threading.Thread(target=self._push_what_arrives, name="tern_train gpu", daemon=True)
            self._pusher.start()
        self._arriving.put((indices, pending))

    def _push_what_arrives(self) -> None:
        """Waits for gradients from a GPU, so that the backward pass need not."""
        try:
            while not self._has_ended.is_set():
                try:
                    indices, pending = self._arriving.get(timeout=0.5)
                except queue.Empty:
                    continue
                assert pending.arrived is not None
                pending.arrived.synchronize()
                self._push_now(indices, pending)
        except TernError as error:
            self._fail(error)
        except Exception as error:  # of the GPU
            self._fail(TernError(70, f"{type(error).__name__}: {error}"))

    def _await(self, indices: Iterable[int], pending: Bucket) -> None:
        """Says which bucket the means of these tensors belong to."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            for t in indices:
                self._waiting[t] = pending

    def _push_now(self, indices: Sequence[int], pending: Bucket) -> None:
        is_sent = not self._extras.skips_overflow or pending.is_finite()
        self._extras.has_overflowed |= not is_sent
        extra_indices = range(len(self.parameters), len(self.parameters) + len(self._extras.table))
        if pending.ends_step and extra_indices:
            pending.extras = Bucket(self._extras.tensors(self._step), self._streams)
            self._await(extra_indices, pending.extras)
            if pending.extras.arrived is not None:
                pending.extras.arrived.synchronize()
        try:
            for t, address in zip(indices, pending.addresses):
                self.client.push(t, address if is_sent else None, address, gives_up=self._has_ended.is_set)
            if pending.extras is not None:
                for t, address in zip(extra_indices, pending.extras.addresses):
                    self.client.push(t, address, address, gives_up=self._has_ended.is_set)
        except TernError as error:
            raise self._reason(error) from None

    # --- What comes back

    def _on_event(self, event: Event) -> None:
        if event.type == EventType.TENSOR:
            with self._lock:
                bucket = self._waiting.pop(event.tensor)
                bucket.num_left -= 1
            if bucket.num_left == 0:
                self._complete(bucket)
        elif event.type == EventType.STATE:
            self._load_state(event.state)
        elif event.type == EventType.GIVE_STATE:
            self.client.give_state(self._program_state())
        elif event.type == EventType.READY:
            self._is_ready.set()
        elif event.type == EventType.ENDED:
            self._fail(Ended(event.code, event.text) if event.code != 0 else None)

    def _complete(self, bucket: Bucket) -> None:
        try:
            bucket.complete()
        except Exception as error:  # of PyTorch: a tensor that cannot be written, a GPU
            bucket.fail(TernError(70, f"the means cannot be written back: {type(error).__name__}: {error}"))
            raise

    def _synchronize(self) -> None:
        """A thread's copies do not wait for the streams of other threads."""
        for device in {p.device for p in self.parameters if p.is_cuda}:
            torch.cuda.synchronize(device)

    def _program_state(self) -> bytes:
        self._synchronize()
        stream = io.BytesIO()
        torch.save(self._state_dict(), stream)
        return stream.getvalue()

    def _load_state(self, state: bytes) -> None:
        # The program's hooks put the values where they belong, which may be another GPU than the giver's.
        self._load_state_dict(torch.load(io.BytesIO(state), map_location="cpu", weights_only=True))
        self._num_open_steps = 0
        self._synchronize()

    def _fail(self, failure: TernError | None) -> None:
        super()._fail(failure)  # From here on, nothing waits any more.
        with self._lock:
            lost = set(self._waiting.values())
            self._waiting.clear()
        for bucket in lost:
            bucket.fail(failure or Ended(70, "the job ended in the middle of a step"))

    @property
    def steps(self) -> int:
        """How many steps are done: more than 0 at the beginning of a worker that was lost and starts again."""
        return self.client.steps

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What Tern keeps of this rank, for the program's own checkpoint beside module and optimizer: what codecs remember of earlier
        gradients, and the number of the step, on which drawn codes depend. To be called between two steps, on every rank.

        Raises ``TernError`` (64) if a step was broken off, as by Ctrl-C: Tern has done it, and the program has not."""
        if self._num_open_steps > 0:
            raise TernError(
                64,
                "state_dict: a backward pass was broken off, whose step Tern has done and this program has not: use the "
                "checkpoint before, and save between two steps",
            )
        return {"state": torch.frombuffer(bytearray(self.client.save(self._has_ended.is_set)), dtype=torch.uint8)}

    # --- A loop that can go back

    def loop(self, steps: int) -> Iterator[int]:
        """The numbers of the steps up to ``steps``, from 0, as they are to be computed::

            for step in net.tern.loop(1000):
                x, y = batch_of(step, rank)
                loss_fn(net(x), y).backward()
                ...

        A program that starts again begins with a later one. With ``goes_back``, a job that goes back repeats some, so the
        batch is a function of the number and the rank. The step in which that happens ends with means of zeros, and
        ``load_state_dict`` undoes it before the next. After the last step the loop waits until all workers have finished.

        Raises ``Ended`` if the job failed."""
        if not self._goes_back:
            yield from range(self.steps, steps)
            return
        for number in self._steps_to_compute(steps):
            self._step = number
            yield number

    def _steps_to_compute(self, steps: int) -> Iterator[int]:
        while (task := self._next_task()).type != TaskType.OVER:
            if task.type == TaskType.SAVE:
                self.client.keep(self._program_state())
            elif task.type == TaskType.LOAD:
                self._load_state(task.state)
            elif task.step > steps:
                self.client.finish()
            else:
                yield task.step - 1
        self._is_over = True

    # --- The end

    def _say_finished(self) -> None:
        self.client.finish()
        if not self._goes_back or self._is_over:
            return
        # The program has left its loop early, or is about to fail.
        last = self._step
        try:
            for _ in self._steps_to_compute(last):
                sentence = f"the job goes back to a step before {last}, but this program has left its loop"
                self._fail(TernError(75, sentence))
                self.close(75, sentence)
                return
        except TernError as error:
            self._fail(error)

    def _release(self) -> None:
        if self._pusher is not None:
            self._pusher.join()
