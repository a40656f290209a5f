"""Runs commands with their own time limits under a common deadline."""
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

GRACE_S = 5  # from SIGTERM to SIGKILL
KEPT = 20000


@dataclasses.dataclass
class CommandResult:
    code: int | None  # None: the command did not start, or was stopped
    out: str
    error: str  # the reason of a failure; "" if the command succeeded
    seconds: float

    def __bool__(self):
        return not self.error


class DeadlineReached(Exception):
    """The common deadline has passed."""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def excerpt(text):
    """Returns what the log keeps of an output: the first and the last KEPT characters, without GoogleTest's passed tests."""
    text = re.sub(r"\[ RUN      \] (.+)\n\[       OK \] \1.*\n", "", text)
    if len(text) <= 2 * KEPT:
        return text
    return f"{text[:KEPT]}\n... {len(text) - 2 * KEPT} characters are left out ...\n{text[-KEPT:]}"


def stop(process):
    """Ends the process group: SIGTERM first, then SIGKILL."""
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

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def end(self):
        """Moves the deadline to now."""
        self.deadline = time.monotonic()

    def run(self, words, limit_s, environment=None):
        """Returns a CommandResult. Raises DeadlineReached if less than a second is left."""
        words = [str(word) for word in words]
        if self.seconds_left() < 1:
            raise DeadlineReached
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment,
                                           start_new_session=True)
            except OSError as error:
                return CommandResult(None, "", f"{words[0]} does not start: {error.strerror}", 0)
            try:
                code = self._wait(process, begin + limit_s)
            finally:
                stop(process)
            seconds = time.monotonic() - begin
            said = []
            for file in (out, errors):
                file.seek(0)
                said.append(file.read().decode(errors="replace"))
        self._log_command(words, code, seconds, said)
        why = ""
        if code is None:
            why = f"stopped after {seconds:.0f} s"
            if self.seconds_left() <= 0:
                why += ": the time limit of the whole check was reached"
        elif code != 0:
            why = f"exit code {code}: {last_line(said[1] if said[1].strip() else said[0])}"
        return CommandResult(code, said[0], why, seconds)

    def _wait(self, process, until):
        """Returns the exit code, or None if the process still runs at `until` or at the deadline. A signal may move the
        deadline."""
        while time.monotonic() < min(until, self.deadline):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.2)
        return None

    def _log_command(self, words, code, seconds, said):
        self.note(f"\n== {' '.join(words)}\n{''.join(map(excerpt, said))}\n"
                  f"== {'stopped' if code is None else f'exit code {code}'}, {seconds:.1f} s\n")

    def note(self, text):
        with self.lock, self.log.open("a") as log:
            log.write(text)
