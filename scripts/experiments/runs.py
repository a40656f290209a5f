"""The runs of an experiment. Each is a process with its own folder, so that finished runs are not repeated."""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

# Exit codes of errors in the job or on the machine, with which all other runs would fail, too.
PERMANENT_ERRORS = {64, 65, 78}
# Exit codes of errors that a second attempt may avoid: a port in use, a lost peer.
TRANSIENT_ERRORS = {69, 75}
DIVERGED = 79  # the exit code of training whose numbers are no longer finite
# What a user may have exported for jobs of his own, and what would replace keys of these jobs without a trace in their records.
PLACE_VARIABLES = ("TERN_SERVERS", "TERN_WORKERS", "TERN_OUTPUT_DIR")


class Failed(Exception):
    """A run ended with an exit code other than 0."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@dataclasses.dataclass(frozen=True)
class Run:
    """One `tern run`. It is finished if result.json in its folder has the same job, settings and contents of `files`."""
    case: str
    seed: int
    codec: str
    job: pathlib.Path
    settings: tuple  # of key=value
    folder: pathlib.Path
    files: tuple = ()  # paths of what the run reads that other runs have made

    @property
    def name(self):
        return f"{self.case} seed {self.seed} {self.codec}"

    def identity(self):
        """Returns the job without comments, the settings of the command line, and digests of the files. Raises OSError if one of
        them is missing."""
        lines = (re.sub(r"(^|\s)#.*", "", line).rstrip() for line in self.job.read_text().splitlines())
        digests = {str(path): hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() for path in self.files}
        return {"job": [line for line in lines if line], "settings": list(self.settings), **({"files": digests} if digests else {})}

    def command(self, tern):
        words = [str(tern), "run", str(self.job), "--free_ports"]
        for setting in (*self.settings, f"output_dir={self.folder}"):
            words += ["--set", setting]
        return words

    def read_summary(self):
        """Returns the summary that the run wrote. Raises OSError or ValueError if it wrote none."""
        return json.loads((self.folder / "server.0.json").read_text())

    def result(self):
        """Returns the summary of a finished run, or None."""
        try:
            found = json.loads((self.folder / "result.json").read_text())
            return found["summary"] if found["identity"] == self.identity() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Process:
    """The process of a run."""

    def __init__(self, run, tern, jobs):
        self.run, self._jobs = run, jobs
        shutil.rmtree(run.folder, ignore_errors=True)
        run.folder.mkdir(parents=True)
        self._command = run.command(tern)
        self._begin = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if name not in PLACE_VARIABLES}
        with open(run.folder / "tern.log", "w") as log:
            # A new session, so that Ctrl-C reaches only this script, which then stops the run in order.
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT, start_new_session=True, env=environment)

    def ended(self):
        return self._process.poll() is not None

    def finish(self):
        """Stores and returns the summary of the run. REQUIRES that the process has ended."""
        wall_s = time.monotonic() - self._begin
        code = self._process.returncode
        try:
            summary = self.run.read_summary()
        except (OSError, ValueError):
            summary = {}
        if code != 0 or summary.get("code") != 0 or "accuracy" not in summary:
            last_lines = (self.run.folder / "tern.log").read_text(errors="replace").strip().splitlines()[-5:]
            sentence = summary.get("sentence") or "\n  ".join(last_lines) or "it printed nothing"
            raise Failed(f"{self.run.name}: exit code {code}: {sentence}\n  its folder is {self.run.folder}", code)
        summary |= {"wall_s": wall_s, "jobs_at_once": self._jobs}
        result = {"identity": self.run.identity(), "command": self._command, "summary": summary}
        temporary = self.run.folder / "result.json.new"
        temporary.write_text(json.dumps(result, indent=1))
        temporary.replace(self.run.folder / "result.json")
        return summary

    def stop(self, seconds):
        """Stops the run: sends SIGTERM twice, then SIGKILL."""
        for sign in (signal.SIGTERM, signal.SIGTERM):
            if not self.ended():
                self._process.send_signal(sign)
            try:
                self._process.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                pass
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def run_all(waiting, tern, jobs, report_run):
    """Runs all runs, `jobs` at once, and calls report_run(run, result, number of runs left) after each. Returns the
    messages of failed runs. Stops early after an error with which all runs would fail. Leaves no process behind."""
    waiting, running, failures, repeated = list(waiting), [], [], set()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Process(waiting.pop(0), tern, jobs))
            for process in [process for process in running if process.ended()]:
                running.remove(process)
                try:
                    result = process.finish()
                except Failed as failed:
                    if failed.code in TRANSIENT_ERRORS and process.run not in repeated:
                        repeated.add(process.run)
                        waiting.insert(0, process.run)
                        continue
                    failures.append(str(failed))
                    report_run(process.run, None, len(waiting) + len(running))
                    waiting = [] if failed.code in PERMANENT_ERRORS else waiting
                else:
                    report_run(process.run, result, len(waiting) + len(running))
            time.sleep(0.05)
    finally:
        for process in running:
            process.stop(seconds=10)
    return failures


def stop(number, _):
    """Signal handler for SIGINT and SIGTERM: stops an experiment that can continue later."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("\nstopping; start again to continue", flush=True)
    sys.exit(128 + number)
