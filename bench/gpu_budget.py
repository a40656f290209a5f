"""Commands under a common deadline: each has a limit of its own, and none outlasts what is left of the whole."""
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

GRACE_S = 5  # between asking a process to end and ending it


@dataclasses.dataclass
class Ended:
    code: int | None  # None: it did not start, or was stopped
    out: str
    error: str  # what is said of it where it did not end well; "" where it did
    seconds: float

    def __bool__(self):
        return not self.error


class OutOfTime(Exception):
    """Nothing is left of the whole."""


def last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def stop(process):
    """In order, then at once, with whatever of its process group is left."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)


class Budget:
    def __init__(self, seconds, log):
        self.deadline = time.monotonic() + seconds
        self.log = pathlib.Path(log)
        self.log.write_text("")
        self.lock = threading.Lock()

    def left(self):
        return self.deadline - time.monotonic()

    def end(self):
        """Nothing is left from now on."""
        self.deadline = time.monotonic()

    def run(self, words, limit_s, environment=None):
        """Ended. OutOfTime where less than a second is left."""
        words = [str(word) for word in words]
        if self.left() < 1:
            raise OutOfTime
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment,
                                           start_new_session=True)
            except OSError as error:
                return Ended(None, "", f"{words[0]} does not start: {error.strerror}", 0)
            try:
                code = self._wait(process, begin + limit_s)
            finally:
                stop(process)
            seconds = time.monotonic() - begin
            said = []
            for file in (out, errors):
                file.seek(0)
                said.append(file.read().decode(errors="replace"))
        self._keep(words, code, seconds, said)
        why = ""
        if code is None:
            why = f"stopped after {seconds:.0f} s" + (": no more time was left" if self.left() <= 0 else "")
        elif code != 0:
            why = f"exit code {code}: {last_words(said[1] if said[1].strip() else said[0])}"
        return Ended(code, said[0], why, seconds)

    def _wait(self, process, until):
        """The exit code; None: it is not there by then, or by the deadline, which a signal may bring forward."""
        while time.monotonic() < min(until, self.deadline):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.2)
        return None

    def _keep(self, words, code, seconds, said):
        self.note(f"\n== {' '.join(words)}\n{said[0][-20000:]}{said[1][-20000:]}\n"
                  f"== {'stopped' if code is None else f'exit code {code}'}, {seconds:.1f} s\n")

    def note(self, text):
        with self.lock, self.log.open("a") as log:
            log.write(text)
