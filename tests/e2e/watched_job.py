"""A job of real daemons with a metrics port, for tests of what people and machines see of it."""
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from urllib.parse import quote  # noqa: F401

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/drill"))
import images  # noqa: E402

# Enough for a sanitizer build on a busy machine.
PATIENCE_S = 90
# A worker that takes this long for a step leaves the machine to the others.
STEP_S = 0.03

JOB = """name: watched
seed: 1
output_dir: {folder}/out
servers: [{{address: "127.0.0.1:{port}"}}]
workers: {{count: {workers}, threads: 1}}
model: {{name: lenet}}
data: {{dir: {folder}}}
train: {{batch_total: 8, steps: 1000000}}
evaluation: {{every_steps: 10}}
checkpoints: {{every_steps: 10}}
faults: {{on_worker_loss: wait, wait_timeout_s: 600}}
metrics: {{port: {metrics_port}}}
"""
CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(workers):
    """Returns a port for the server, and a metrics.port such that those of the server and the workers are free, too."""
    for port in range(20000 + os.getpid() % 5000, 32000, 7):
        metrics = [port + 1, *range(port + 101, port + 101 + workers)]
        if is_free(port) and all(is_free(each) for each in metrics):
            return port, port + 1
    raise RuntimeError("no free ports from 20000 to 32000")


def set_host_name(name):
    """Gives this process, and those that it starts, a host name of their own. Raises OSError where it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUTS) != 0 and libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if libc.sethostname(name.encode(), len(name)) != 0:
        raise OSError(ctypes.get_errno(), "sethostname")


class WatchedJob:
    """Starts the daemons; `with` ends them. host_names: of workers, by rank; those that cannot be set are left out."""

    def __init__(self, build, workers=4, host_names=None):
        self.bin = pathlib.Path(build) / "bin"
        self.workers = workers
        self.host_names = dict(host_names or {})
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.job_file = self.folder / "job.yaml"
        port, self.metrics_port = free_ports(workers)
        self.url = f"http://127.0.0.1:{self.metrics_port}/"
        images.write_images(self.folder, "train", 240, 1)
        images.write_images(self.folder, "t10k", 60, 2)
        self.job_file.write_text(JOB.format(folder=self.folder, port=port, workers=workers, metrics_port=self.metrics_port))
        self.processes = {}

    def start(self, name, role, rank, more=(), host_name=None):
        words = [self.bin / f"tern_{role}", "--job", self.job_file, "--rank", str(rank), "--log_dir", self.folder, *more]
        prepare = (lambda: set_host_name(host_name)) if host_name else None
        output = (self.folder / f"{name}.out").open("wb")
        self.processes[name] = subprocess.Popen(words, stdout=output, stderr=output, preexec_fn=prepare)

    def __enter__(self):
        self.start("server", "server", 0)
        for rank in range(self.workers):
            more = ("--fail", f"thread.compute=delay:{STEP_S}")
            try:
                self.start(f"worker {rank}", "worker", rank, more, self.host_names.get(rank))
            except subprocess.SubprocessError:  # from set_host_name
                del self.host_names[rank]
                self.start(f"worker {rank}", "worker", rank, more)
        return self

    def __exit__(self, *unused):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.temporary.cleanup()

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def get(self, path, port=None):
        """Returns the HTTP status, the headers and the text of an answer."""
        request = f"http://127.0.0.1:{port or self.metrics_port}{path}"
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read().decode()

    def status(self):
        return json.loads(self.get("/status.json")[2])

    def wait(self, what, condition, seconds=PATIENCE_S):
        """Calls condition() until it returns something true, and returns that."""
        end = time.monotonic() + seconds
        newest = None
        while time.monotonic() < end:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended with {process.returncode}: {(self.folder / f'{name}.out').read_text()[-2000:]}")
            try:
                newest = condition()
            except (urllib.error.URLError, ConnectionError) as error:
                newest = error  # not there yet
            else:
                if newest:
                    return newest
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {seconds} s; the newest is {newest!r}")

    def wait_until_it_trains(self):
        """Until all workers train, the test set was evaluated and a checkpoint was written."""
        def is_so():
            status = self.status()
            return (all(worker["state"] == "training" and worker["step"] > 0 for worker in status["workers"])
                    and status["accuracy"] is not None and status["checkpoints"]["step"] is not None)
        return self.wait("the job trains", is_so)

    def seconds_until(self, what, condition):
        begin = time.monotonic()
        self.wait(what, condition)
        return time.monotonic() - begin


STOP, GO_ON = signal.SIGSTOP, signal.SIGCONT
