"""Tensors whose means come back together, and the memory that travels."""

import threading
from collections.abc import Sequence

import torch

from tern_train._client import TernError

FP32_BYTES = 4


class Bucket:
    """Tensors whose means come back together.

    The means are written into the tensors' own memory where that is contiguous fp32 memory of the host.
    Otherwise they are written into memory of the host (page-locked for tensors of a GPU), from where
    :meth:`complete` copies them; that memory first takes the gradients.

    ``streams``: a stream of each GPU for these copies; they run beside what the program computes.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], streams: "Streams"):
        self.tensors = tensors
        self.num_left = len(tensors)
        #: Of what travels: the tensors themselves, or ``staged`` memory.
        self.addresses: list[int] = []
        #: Whether it is the last of its step.
        self.ends_step = False
        #: A bucket of what ends the step beside the gradients; None: nothing.
        self.extras: "Bucket | None" = None
        #: What must be done before the gradients are in the memory of ``addresses``; None: nothing.
        self.arrived: torch.cuda.Event | None = None
        self.future: "torch.futures.Future[torch.Tensor] | None" = None
        self.buffer: torch.Tensor | None = None
        self._done = threading.Event()
        self._error: TernError | None = None
        self._sent: list[torch.Tensor] = []  # in memory of the host
        self._staged: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._stream: torch.cuda.Stream | None = None
        self._means_arrived: torch.cuda.Event | None = None
        with streams.of(tensors) as self._stream:
            for tensor in tensors:
                self.addresses.append(self._address(tensor))
            self._record_arrival()

    @classmethod
    def of_gradients(cls, buffer: torch.Tensor, gradients: Sequence[torch.Tensor], streams: "Streams") -> "Bucket":
        """The gradients of a bucket of DistributedDataParallel, which lie in its buffer. From a GPU, the buffer is copied as a whole."""
        if not buffer.is_cuda:
            return cls(gradients, streams)
        bucket = cls([buffer], streams)
        begin = bucket.addresses[0]
        offsets = [int(gradient.storage_offset() - buffer.storage_offset()) for gradient in gradients]
        bucket.tensors = gradients
        bucket.num_left = len(gradients)
        bucket.addresses = [begin + FP32_BYTES * offset for offset in offsets]
        return bucket

    def _address(self, tensor: torch.Tensor) -> int:
        if tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.is_contiguous():
            self._sent.append(tensor)
            return tensor.data_ptr()
        staged = torch.empty(tensor.shape, dtype=torch.float32, device="cpu", pin_memory=tensor.is_cuda)
        staged.copy_(tensor, non_blocking=self._stream is not None)
        self._staged.append((tensor, staged))
        self._sent.append(staged)
        return staged.data_ptr()

    def _record_arrival(self) -> None:
        if self._stream is not None:
            self.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.arrived.record(self._stream)

    def is_finite(self) -> bool:
        """Whether all gradients are. For gradients of a GPU, call it when they have ``arrived``."""
        return all(bool(torch.isfinite(sent).all()) for sent in self._sent)

    def overflow_everywhere(self) -> None:
        """Makes what came back infinite, as an all-reduce makes what overflowed on one worker."""
        for tensor in self.tensors:
            tensor.fill_(float("inf"))

    def wait(self) -> None:
        """Waits for the means. Raises ``Ended`` if they do not come."""
        while not self._done.wait(0.1):  # Wakes up for Ctrl-C.
            pass
        if self._error is not None:
            raise self._error
        if self._means_arrived is not None and self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._means_arrived)

    @torch.no_grad()
    def complete(self) -> None:
        # The future makes the streams of those who wait for it wait for this thread's current stream.
        with torch.cuda.stream(self._stream):  # None: of no GPU, and does nothing
            for tensor, staged in self._staged:
                tensor.copy_(staged, non_blocking=self._stream is not None)
            if self._stream is not None:
                self._means_arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._means_arrived.record(self._stream)
            if self.future is not None and self.buffer is not None:
                self.future.set_result(self.buffer)
        self._done.set()

    def fail(self, error: TernError) -> None:
        self._error = error
        if self.future is not None:
            self.future.set_exception(error)  # type: ignore[arg-type]
        self._done.set()


class Streams:
    """One stream for copies for each GPU."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def of(self, tensors: Sequence[torch.Tensor]) -> "_Copies":
        """For ``with``: what is launched runs on the stream of the tensors' GPU, after what this thread has launched before.

        None if they are not all on one GPU.
        """
        device = tensors[0].device
        if device.type != "cuda" or any(tensor.device != device for tensor in tensors):
            return _Copies(None)
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return _Copies(self._streams[device])


class _Copies:
    def __init__(self, stream: torch.cuda.Stream | None):
        self._stream = stream
        self._context = torch.cuda.stream(stream)

    def __enter__(self) -> torch.cuda.Stream | None:
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        self._context.__enter__()  # type: ignore[no-untyped-call]
        return self._stream

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)
