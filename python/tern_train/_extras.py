"""Numbers that travel beside the gradients, as they are: whether a gradient has overflowed, running statistics, and what the
workers' weights are compared by."""

import hashlib
import math
from collections.abc import Sequence

import torch

from tern_train._client import Tensor, TernError
from tern_train._memory import bytes_of

#: How far a worker's norm may be from the mean of all, relative to it.
_NORM_TOLERANCE = 1e-3
_NUM_HASH_PARTS = 4


class Extras:
    """Tensors of numbers whose means over the workers the end of each step needs.

    ``statistics``    running means and variances, which become the means over the workers
    ``compare``    "off", "hash" or "norm": how the workers' ``parameters`` are compared
    """

    def __init__(
        self,
        skips_overflow: bool,
        statistics: Sequence[tuple[str, torch.Tensor]],
        compare: str,
        compare_every: int,
        parameters: Sequence[torch.Tensor],
    ):
        if compare not in ("off", "hash", "norm") or compare_every < 1:
            raise TernError(
                64,
                f'compare: saw "{compare}" every {compare_every} steps; allowed: "hash", "norm" or "off", every 1 step or more',
            )
        self.skips_overflow = skips_overflow
        self.has_overflowed = False  # whether a gradient of this step that was pushed has
        self._statistics = [tensor for _, tensor in statistics]
        self._compare = compare
        self._compare_every = compare_every
        self._parameters = parameters
        self._own: list[float] = []
        self.table: list[Tensor] = []
        if skips_overflow:
            self.table.append(Tensor("tern.overflow", (1,)))
        if compare != "off":
            self.table.append(Tensor("tern.compare", (_NUM_HASH_PARTS,)))
        self.table += [Tensor(f"tern.{name}", tuple(tensor.shape)) for name, tensor in statistics]

    def tensors(self, step: int) -> list[torch.Tensor]:
        """What this worker pushes at the end of step `step`, from 0, before its optimizer changes the weights."""
        tensors = []
        if self.skips_overflow:
            tensors.append(torch.full((1,), float(self.has_overflowed), device="cpu"))
            self.has_overflowed = False
        if self._compare != "off":
            is_due = step > 0 and step % self._compare_every == 0
            self._own = self._numbers() if is_due else []
            tensors.append(torch.tensor(self._own or [0.0] * _NUM_HASH_PARTS, dtype=torch.float32, device="cpu"))
        return tensors + self._statistics

    def _numbers(self) -> list[float]:
        """The parts of a SHA-256 of all weights, or their norm. Each is exact in fp32."""
        if self._compare == "norm":
            squares = sum(float(p.detach().double().square().sum()) for p in self._parameters)
            return [float(torch.tensor(math.sqrt(squares), dtype=torch.float32))] * _NUM_HASH_PARTS
        digest = hashlib.sha256()
        for p in self._parameters:
            digest.update(bytes_of(p))
        return [float(int.from_bytes(digest.digest()[2 * i : 2 * i + 2], "little") & 0x3FFF) for i in range(_NUM_HASH_PARTS)]

    def _tolerance(self, mean: float) -> float:
        # Parts of a hash are whole numbers of 14 bits, so their sum over up to 1,024 workers is exact in fp32.
        return _NORM_TOLERANCE * abs(mean) if self._compare == "norm" else 0.25

    def check(self, means: Sequence[torch.Tensor], step: int) -> bool:
        """Looks at the means of what was pushed. Returns whether a gradient of the step overflowed on some worker.

        Raises ``TernError`` (76) if the weights are not the same on all workers."""
        means = list(means)
        overflowed = self.skips_overflow and means.pop(0).item() > 0
        if self._compare != "off" and self._own:
            mean = means.pop(0).tolist()
            was_dropped = not any(mean)  # The step in which a job goes back ends with zeros.
            if not was_dropped and any(abs(m - own) > self._tolerance(m) for m, own in zip(mean, self._own)):
                raise TernError(
                    76,
                    f"the replicas differ after step {step}: the {self._compare} of this worker's weights is not the mean of all; "
                    "update weights by nothing but the gradients that come back, and begin with the same; or compare by "
                    '"norm" where hosts compute differently',
                )
        return bool(overflowed)
