"""Local steps between two exchanges."""

import os
from collections.abc import Sequence

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
