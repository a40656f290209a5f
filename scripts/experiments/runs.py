"""Runs of an experiment, each a process with a folder of its own, so that what is done is not done again."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

# The job or the machine is at fault: every other run would end so too.
HOPELESS = {64, 65, 78}
# A port that was taken meanwhile, a peer that was lost: worth one more try.
UNLUCKY = {69, 75}


class Failed(Exception):
    """A run ended with another code than 0."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@dataclasses.dataclass(frozen=True)
class Run:
    """One `tern run`. It is finished when result.json in its folder tells of the very same job and settings."""
    case: str
    seed: int
    codec: str
    job: pathlib.Path
    settings: tuple  # of key=value
    folder: pathlib.Path

    @property
    def name(self):
        return f"{self.case} seed {self.seed} {self.codec}"

    def identity(self):
        """The job without comments, and what is set on the command line."""
        lines = (re.sub(r"(^|\s)#.*", "", line).rstrip() for line in self.job.read_text().splitlines())
        return {"job": [line for line in lines if line], "settings": list(self.settings)}

    def command(self, tern):
        words = [str(tern), "run", str(self.job), "--free_ports"]
        for setting in (*self.settings, f"output_dir={self.folder}"):
            words += ["--set", setting]
        return words

    def told(self):
        """What the ended run says of itself; OSError or ValueError where it says nothing."""
        return json.loads((self.folder / "server.0.json").read_text())

    def result(self):
        """What the finished run told, or None."""
        try:
            found = json.loads((self.folder / "result.json").read_text())
            return found["summary"] if found["identity"] == self.identity() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Process:
    """A run under way."""

    def __init__(self, run, tern, jobs):
        self.run, self._jobs = run, jobs
        shutil.rmtree(run.folder, ignore_errors=True)
        run.folder.mkdir(parents=True)
        self._command = run.command(tern)
        self._begin = time.monotonic()
        with open(run.folder / "tern.log", "w") as log:
            # In a session of its own: Ctrl-C reaches this script alone, which then ends the run in order.
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT, start_new_session=True)

    def ended(self):
        return self._process.poll() is not None

    def finish(self):
        """Keeps and returns what the run told. REQUIRES ended."""
        wall_s = time.monotonic() - self._begin
        code = self._process.returncode
        try:
            summary = self.run.told()
        except (OSError, ValueError):
            summary = {}
        if code != 0 or summary.get("code") != 0 or "accuracy" not in summary:
            said = (self.run.folder / "tern.log").read_text(errors="replace").strip().splitlines()[-5:]
            sentence = summary.get("sentence") or "\n  ".join(said) or "it said nothing"
            raise Failed(f"{self.run.name}: exit code {code}: {sentence}\n  its folder is {self.run.folder}", code)
        summary |= {"wall_s": wall_s, "jobs_at_once": self._jobs}
        result = {"identity": self.run.identity(), "command": self._command, "summary": summary}
        made = self.run.folder / "result.json.new"
        made.write_text(json.dumps(result, indent=1))
        made.replace(self.run.folder / "result.json")
        return summary

    def stop(self, seconds):
        """Asks the run to end, and again, and then ends it."""
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


def run_all(waiting, tern, jobs, tell):
    """Runs all of them, `jobs` at once, and calls tell(run, result, how many are left). Returns the messages of those
    that failed; stops early where going on has no hope. Whatever ends it, no run is left behind."""
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
                    if failed.code in UNLUCKY and process.run not in repeated:
                        repeated.add(process.run)
                        waiting.insert(0, process.run)
                        continue
                    failures.append(str(failed))
                    tell(process.run, None, len(waiting) + len(running))
                    waiting = [] if failed.code in HOPELESS else waiting
                else:
                    tell(process.run, result, len(waiting) + len(running))
            time.sleep(0.05)
    finally:
        for process in running:
            process.stop(seconds=10)
    return failures


def stop(number, _):
    """Of SIGINT and SIGTERM, for an experiment that can go on later."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("\nstopping; start again to go on", flush=True)
    sys.exit(128 + number)
