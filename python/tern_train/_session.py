"""A client from the beginning of a job to its end, whose events a thread of its own fetches."""

import atexit
import os
import sys
import threading
import types
from typing import TypeVar

from tern_train._client import Client, Event, Task, TaskType, TernError

Self = TypeVar("Self", bound="Session")


class Session:
    """Joins a job when it is made. At the end of the program, or of the ``with`` statement, it waits until all workers have
    finished. A program that ends with an exception is a lost worker (``faults.on_worker_loss``).
    """

    def __init__(self, client: Client):
        self.client = client
        self._lock = threading.Lock()
        self._failure: TernError | None = None
        self._has_ended = threading.Event()
        self._is_closed = False
        self._pid = os.getpid()
        self._old_error: BaseException | None = None  # that the program has outlived
        self._thread = threading.Thread(target=self._poll, name="tern_train", daemon=True)

    def _start(self) -> None:
        """To be called when the object is ready for events."""
        self._thread.start()
        atexit.register(self._at_exit)

    def _poll(self) -> None:
        try:
            while not self._has_ended.is_set():
                self._on_event(self.client.poll(0.5))
        except Exception as error:  # Of the program's own functions.
            self._fail(TernError(70, f"{type(error).__name__}: {error}"))

    def _on_event(self, event: Event) -> None:
        raise NotImplementedError

    def _outlive_errors(self) -> None:
        """To be called while the program trains: an exception that Python has printed, at a prompt for instance, did not end it."""
        self._old_error = getattr(sys, "last_value", None)

    def _fail(self, failure: TernError | None) -> None:
        """Ends all waiting; None: the job has ended as planned."""
        with self._lock:
            self._failure = self._failure or failure
        self._has_ended.set()

    def _next_task(self) -> Task:
        """Waits for the next task. Raises what has ended the job."""
        self._outlive_errors()
        while True:
            try:
                task = self.client.next_task(0.1)  # Wakes up for Ctrl-C.
            except TernError as error:
                raise self._reason(error) from None
            if task.type != TaskType.NOTHING:
                return task
            if self._failure is not None:
                raise self._failure

    def _reason(self, error: TernError) -> TernError:
        """Why the job has ended, if it has, in place of the error that came of it."""
        self._has_ended.wait(1)
        return self._failure or error

    def _say_finished(self) -> None:
        """Says that this program does no more, if the job has not ended."""
        raise NotImplementedError

    def finish(self) -> None:
        """Says that this worker does no more, and waits until all workers have finished.

        Raises ``Ended`` if the job failed."""
        if self._is_closed:
            return
        self._say_finished()
        while not self._has_ended.wait(0.1):  # Wakes up for Ctrl-C.
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
        self._release()
        self.client.close(code, sentence)

    def _close_with(self, error: TernError) -> None:
        """Ends the job for all with ``error``; if it ends this program, too, that has its exit code."""
        self.close(error.code, str(error))

        def exit_with_its_code() -> None:
            if os.getpid() == self._pid and getattr(sys, "last_value", None) is error:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(error.code)

        atexit.register(exit_with_its_code)

    def __reduce__(self) -> str:
        raise TernError(
            64,
            "a worker's part in a job cannot be copied or pickled, and neither can what has it; of what ddp() returned, take "
            "the .module: AveragedModel(net.module), copy.deepcopy(net.module)",
        )

    def _release(self) -> None:
        """Stops the use of the client's memory, and other threads that use the client."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, SystemExit):  # As at the end of a program without `with`.
            self.finish()
        else:
            self.close(70, f"{type(error).__name__}: {error}")

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child; the job is its parent's
        failure = self._failure
        error = getattr(sys, "last_value", None)  # what ends the program, if it is not at a prompt
        is_prompt = hasattr(sys, "ps1") or sys.flags.interactive
        if error is not None and error is not self._old_error and not is_prompt:
            self.close(70, f"{type(error).__name__}: {error}")
            failure = failure or self._failure
        else:
            try:
                self.finish()
            except TernError as raised:
                print(f"tern_train: {raised}", file=sys.stderr)
                failure = raised
        if failure is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(failure.code)  # An exception cannot change the exit code any more.
