"""The daemons of one job, started by hand, and what shard 0 reports."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time


class BadJob(Exception):
    """The job file is refused."""


def facts_of(program, job, settings):
    """Returns what the drill needs to know of a job, read from the job with all its defaults."""
    words = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run([program, "--job", job, "--rank", "0", "--check", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise BadJob(done.stderr.strip())

    def value(section, key):
        found = re.search(rf"^{section}:\n(?:^ .*\n)*?^  {key}: (.*)$", done.stdout, re.MULTILINE)
        return found.group(1) if found else ""

    servers = re.search(r"^servers:\n((?:^ .*\n)*)", done.stdout, re.MULTILINE).group(1)
    return {"servers": servers.count("  - address:"), "workers": int(value("workers", "count")),
            "steps": int(value("train", "steps") or 0), "policy": value("faults", "on_worker_loss"),
            "checkpoints": int(value("checkpoints", "every_steps") or 0) > 0}


class Daemon:
    """A server or worker: its process, and those that it had before."""

    def __init__(self, name):
        self.name = name
        self.process = None
        self.starts = 0
        self.failpoints = []  # of its newest process, without those of every worker
        self.is_stopped = False  # by SIGSTOP
        self.is_expected_to_end = False

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.is_expected_to_end = True
        self.process.kill()
        self.process.wait()

    def signal(self, number):
        if self.runs():
            self.process.send_signal(number)

    def code(self):
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code


class Job:
    def __init__(self, hosts_type, bin_folder, job, settings, folder, facts, pace_s=0.0):
        self.bin_folder, self.job, self.folder, self.facts = pathlib.Path(bin_folder), job, pathlib.Path(folder), facts
        names = [f"server.{n}" for n in range(facts["servers"])] + [f"worker.{n}" for n in range(facts["workers"])]
        self.daemons = {name: Daemon(name) for name in names}
        self.hosts = hosts_type(names)
        self.folder.mkdir(parents=True)
        addresses = [f"servers.{n}.address={self.hosts.address(f'server.{n}')}" for n in range(facts["servers"])]
        self.settings = [*settings, *addresses, *self.hosts.settings(), f"output_dir={self.folder}/out"]
        # The failpoints of every worker. Of two that are due at a place, the first one fires, so those of faults come first.
        self.failpoints_of_workers = [f"thread.compute=delay:{pace_s}"] if pace_s else []
        self.progress_file = self.folder / "progress"
        self.progress_fd = os.open(self.progress_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.read_bytes = 0
        self.newest = {}       # the newest report of shard 0
        self.newest_at = 0.0   # when it was read
        self.history = []      # (time, rounds) each time that rounds grew

    def workers(self):
        return [name for name in self.daemons if name.startswith("worker")]

    def servers(self):
        return [name for name in self.daemons if name.startswith("server")]

    def start(self, name, failpoints=()):
        daemon = self.daemons[name]
        role, rank = name.split(".")
        words = [*self.hosts.prefix(name), self.bin_folder / f"tern_{role}", "--job", self.job, "--rank", rank,
                 "--log_dir", self.folder / "logs" / f"{name}.{daemon.starts}"]
        for setting in self.settings:
            words += ["--set", setting]
        for failpoint in [*failpoints, *(self.failpoints_of_workers if role == "worker" else [])]:
            words += ["--fail", failpoint]
        if name == "server.0":
            words += ["--progress_fd", str(self.progress_fd)]
        with open(self.folder / f"{name}.{daemon.starts}.stderr", "wb") as errors:
            daemon.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=errors,
                                              pass_fds=[self.progress_fd], env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        daemon.starts += 1
        daemon.failpoints = list(failpoints)
        daemon.is_stopped = daemon.is_expected_to_end = False

    def start_all(self):
        for name in self.daemons:
            self.start(name)

    def read_progress(self):
        """Reads the new reports of shard 0."""
        with open(self.progress_file, "rb") as file:
            file.seek(self.read_bytes)
            text = file.read()
        complete = text[:text.rfind(b"\n") + 1]
        self.read_bytes += len(complete)
        for line in complete.splitlines():
            try:
                report = json.loads(line)
            except ValueError:
                continue  # shard 0 was killed while it wrote
            self.newest, self.newest_at = report, time.time()
            if not self.history or report.get("rounds", 0) > self.history[-1][1]:
                self.history.append((self.newest_at, report.get("rounds", 0)))

    def rounds(self):
        return self.newest.get("rounds", 0)

    def checkpoints_of(self, name):
        """Returns the steps of which a worker has a whole checkpoint."""
        files = (self.folder / "out" / "checkpoints" / name).glob("step.*.json")
        return {int(path.name.split(".")[1]) for path in files}

    def newest_common_checkpoint(self):
        """Returns the newest step of which every worker has a whole checkpoint; 0 if there is none."""
        return max(set.intersection(*map(self.checkpoints_of, self.workers())), default=0)

    def loses_nothing(self):
        """Whether the job has begun and, if it writes checkpoints, each worker has the two that docs/FAULTS.md asks for."""
        has_two = all(len(self.checkpoints_of(name)) >= 2 for name in self.workers())
        return self.rounds() >= 3 and (has_two or not self.facts["checkpoints"])

    def has_state(self, name):
        """Whether the newest process of a worker has the state of the job: it began with the job, or has got it from another."""
        return self.daemons[name].starts == 1 or "installed the state" in self.errors_of(name)

    def errors_of(self, name):
        """Returns what the newest process of a daemon wrote to stderr."""
        return (self.folder / f"{name}.{self.daemons[name].starts - 1}.stderr").read_text(errors="replace")

    def last_sentence(self, name):
        """Returns the last line of it."""
        lines = self.errors_of(name).strip().splitlines()
        return lines[-1] if lines else ""

    def result(self):
        """Returns (bytes of the final weights, summary of shard 0); None for what is missing."""
        weights, summary = self.folder / "out" / "weights.safetensors", self.folder / "out" / "server.0.json"
        return (weights.read_bytes() if weights.exists() else None,
                json.loads(summary.read_text()) if summary.exists() else None)

    def close(self):
        for daemon in self.daemons.values():
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.process.send_signal(signal.SIGCONT)
                daemon.process.kill()
                daemon.process.wait()
        os.close(self.progress_fd)
        self.hosts.close()
