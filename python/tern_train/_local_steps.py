"""Local steps between two exchanges."""

import os
from collections.abc import Sequence
from typing import Any

import torch

from tern_train._client import TernError
from tern_train._exchange import Exchange


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
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.inner = inner
        self.outer = outer or torch.optim.SGD(parameters, lr=1.0)
        self.every = every
        self.steps = 0
        self._anchors = [parameter.detach().clone() for parameter in parameters]
        self._parameters = parameters
        # The state between two exchanges is that of the last one, however far this worker has trained on.
        self.exchange = Exchange(
            module, job, rank=rank, overrides=overrides, state_dict=self._state, load_state_dict=self._load_state
        )

    def _state(self) -> dict[str, Any]:
        return {"anchors": self._anchors, "outer": self.outer.state_dict()}

    @torch.no_grad()
    def _load_state(self, state: dict[str, Any]) -> None:
        for parameter, anchor, value in zip(self._parameters, self._anchors, state["anchors"]):
            parameter.copy_(value)
            anchor.copy_(value)
        self.outer.load_state_dict(state["outer"])

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
