"""Tensors on their way through an exchange."""

import threading
from collections.abc import Sequence

import torch

from tern_train._client import TernError


class Bucket:
    """Tensors whose means come back together.

    The means are written into the tensors' own memory where that is contiguous fp32 memory of the host,
    otherwise into ``staged``, from where :meth:`complete` copies them.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self.tensors = tensors
        self.done = threading.Event()
        self.error: TernError | None = None
        self.num_left = len(tensors)
        self.future: "torch.futures.Future[torch.Tensor] | None" = None
        self.buffer: torch.Tensor | None = None
        self.addresses: list[int] = []
        self._staged: list[tuple[torch.Tensor, torch.Tensor]] = []
        for tensor in tensors:
            self.addresses.append(self._address(tensor))

    def _address(self, tensor: torch.Tensor) -> int:
        if tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.is_contiguous():
            return tensor.data_ptr()
        staged = torch.empty(
            tensor.shape, dtype=torch.float32, pin_memory=tensor.device.type == "cuda"
        )
        staged.copy_(tensor)  # From a GPU: waits for the gradient, and for the copy.
        self._staged.append((tensor, staged))
        return staged.data_ptr()

    def wait(self) -> None:
        """Waits for the means. Raises ``Ended`` if they do not come."""
        while not self.done.wait(0.1):  # Wakes up for Ctrl-C.
            pass
        if self.error is not None:
            raise self.error

    def complete(self) -> None:
        for tensor, staged in self._staged:
            tensor.copy_(staged, non_blocking=True)
        if self.future is not None and self.buffer is not None:
            self.future.set_result(self.buffer)
        self.done.set()

    def fail(self, error: TernError) -> None:
        self.error = error
        if self.future is not None:
            self.future.set_exception(error)  # type: ignore[arg-type]  # The annotation is wrong.
        self.done.set()
