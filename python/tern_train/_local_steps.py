"""Local steps between two exchanges."""

import os
from collections.abc import Sequence
from typing import Any

import torch

from tern_train._client import TernError
from tern_train._exchange import Exchange
from tern_train._module import ModuleState, trained_parameters


class LocalSteps:
    """Local steps between two exchanges: local SGD, and DiLoCo with an outer optimizer.

    Stands in place of the optimizer in the loop. A scheduler is of ``inner``: ``StepLR(inner, 30)``; with a GradScaler,
    ``local.step(scaler)`` stands in place of ``scaler.step(optimizer)``. The module is used as it is, without DistributedDataParallel:

        local = LocalSteps(model, inner=AdamW(model.parameters()), outer=SGD(model.parameters(), lr=0.7,
                           momentum=0.9, nesterov=True), every=100, job="job.yaml")
        for x, y in loader:
            loss_fn(model(x), y).backward()
            local.step()
            local.zero_grad()

    The workers train on their own for ``every`` steps of the inner optimizer. Then the change of each weight since
    the last exchange is exchanged as a gradient is, by the job's codec, and ``outer`` takes its mean
    from the weights that all had then. After an exchange all workers have the same weights; between two, each its own.

    By default ternary codecs clip what they code. Of changes that is a bias alike on all workers, which no mean takes away and
    ``outer``'s momentum multiplies. Give the job a rotation, as ``python/examples/local_job.yaml`` has it, or ``clip: none``:

        exchange: {codec: ternary_ans, rotate: 4096, scaler_elements: 4096, clip_sigma: 1}

    Arguments:

    ``module``     its trained parameters, with their names and order, must be the same in all workers; all begin with
                   rank 0's weights and buffers. Later, buffers and the inner optimizer's state stay each worker's own.
    ``inner``      an optimizer over the module's parameters
    ``outer``      another one over the same parameters; None: plain averaging (SGD with rate 1, as in ``psgd``)
    ``every``      steps between two exchanges, the same in all workers
    ``job``, ``rank``, ``overrides``    as for :class:`Exchange`

    With ``faults.on_worker_loss: wait`` a worker that was lost and starts again gets the weights and the outer optimizer of
    the last exchange, and goes on after as many steps as ``steps`` says; its inner optimizer begins anew. There is no
    ``tern_state``: a program that starts again from its own checkpoint begins a new job, and codecs forget earlier gradients.

    Raises :class:`~tern_train.TernError` (64 for a module with a SyncBatchNorm or complex parameters), and
    :class:`~tern_train.Ended` if the job fails.
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
        parameters = [parameter for _, parameter in trained_parameters(module)]
        self.inner = inner
        self.outer = outer or torch.optim.SGD(parameters, lr=1.0)
        self.every = every
        self._module = module
        self._module_state = ModuleState(module)
        self._anchors = [parameter.detach().clone() for parameter in parameters]
        self._parameters = parameters
        # The state between two exchanges is that of the last one, however far this worker has trained on.
        self.exchange = Exchange(
            module, job, rank=rank, overrides=overrides, state_dict=self._state, load_state_dict=self._load_state
        )
        #: How many local steps are done: more than 0 at the beginning of a worker that was lost and starts again.
        self.steps = self.exchange.steps * every

    def _state(self) -> dict[str, Any]:
        trained = {id(parameter) for parameter in self._parameters}
        # With the parameters themselves, which are then known by their ids, those of tied ones by several names.
        names = {name for name, value in self._module.state_dict(keep_vars=True).items() if id(value) in trained}
        others = {name: value for name, value in self._module_state.state_dict().items() if name not in names}
        return {"anchors": self._anchors, "others": others, "outer": self.outer.state_dict()}

    @torch.no_grad()
    def _load_state(self, state: dict[str, Any]) -> None:
        self._module_state.load_state_dict(state["others"], strict=False)
        for parameter, anchor, value in zip(self._parameters, self._anchors, state["anchors"]):
            parameter.copy_(value)
            anchor.copy_(value)
        self.outer.load_state_dict(state["outer"])

    def step(self, scaler: "torch.amp.GradScaler | None" = None) -> None:  # A text: PyTorch 2.2 has no such name.
        """A step of the inner optimizer; after every ``every`` of them, an exchange and a step of the outer one.

        ``scaler``: a GradScaler, which takes the inner step, or skips it: it counts all the same."""
        if scaler is None:
            self.inner.step()
        else:
            scaler.step(self.inner)
        self.steps += 1
        if self.steps % self.every == 0:
            self.synchronize()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients, as the inner optimizer does."""
        self.inner.zero_grad(set_to_none)

    @torch.no_grad()
    def synchronize(self) -> None:
        """Exchanges the changes now: at the end, if the number of steps is no multiple of ``every``. All workers
        must call it after as many steps."""
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
        """Says that this worker trains no more, and waits until all have finished. The end of the program does the same.

        Raises :class:`~tern_train.Ended` if the job failed."""
        self.exchange.finish()
