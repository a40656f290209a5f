"""A job of foreign programs: servers and workers as processes, each with a deadline.

The environment says where the built files are: TERN_SERVER is the path of tern_server, TERN_LIBRARY that of libtern.so.
Without TERN_LIBRARY, an installed tern_train is tested, with its own library, and not that of the tree.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON_FOLDER = HERE.parents[1] / "python"
# For a busy machine; a test that goes well takes a few seconds.
PATIENCE_S = float(os.environ.get("TERN_TEST_PATIENCE_S", "90"))

# A shell starts background processes with SIGINT ignored, which programs inherit. With a handler here, they do not.
signal.signal(signal.SIGINT, signal.default_int_handler)

JOB = """name: python
output_dir: {folder}/out
servers: [{servers}]
workers: {{count: {workers}}}
train: {{compute: client}}
exchange: {{codec: {codec}, bucket_kib: {bucket_kib}}}
"""


def free_ports(count):
    """Returns ports that were free a moment ago. All are held until the last is found, so that they differ."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Process:
    """A started program. Its output, both streams, is read as it comes."""

    def __init__(self, name, words, environment):
        self.name = name
        self._lines = []
        self._changed = threading.Condition()
        self._is_over = False
        self._process = subprocess.Popen(
            [str(word) for word in words], env=environment, text=True, errors="replace", stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @property
    def output(self):
        with self._changed:
            return "".join(self._lines)

    def await_text(self, text):
        """Waits until the program has printed the text."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or any(text in line for line in self._lines), PATIENCE_S)
            if not any(text in line for line in self._lines):
                raise AssertionError(f"{self.name} did not print '{text}'; it printed:\n{''.join(self._lines)[-4000:]}")

    def say(self, line):
        """Writes a line to the program's input."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self, seconds=PATIENCE_S):
        """Returns the exit code; minus the signal that ended the program."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended in {seconds} s; it printed:\n{self.output[-4000:]}") from None
        self._reader.join(5)
        return code

    def has_ended_within(self, seconds):
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self):
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        self._process.stdin.close()
        self._process.stdout.close()


def environment_of_workers():
    """This process's environment, with what a worker's program needs."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    if "TERN_LIBRARY" in os.environ:
        environment["PYTHONPATH"] = str(PYTHON_FOLDER)
    return environment


def first_to_end(processes):
    """Waits until one of the processes has ended, and returns it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for process in processes:
            if process.has_ended_within(0.1):
                return process
    raise AssertionError("no process has ended: " + "\n".join(process.output[-2000:] for process in processes))


class Job:
    """Writes the job file in a temporary folder, and starts the servers. `with` ends whatever still runs.

    more: further lines of the job file. script: the file with the workers' programs.
    """

    def __init__(self, script, workers=2, servers=1, codec="fp32", bucket_kib=4096, more=""):
        self.script = script
        self.count = workers
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._temporary.name)
        self.path = self.folder / "job.yaml"
        addresses = ", ".join(f'{{address: "127.0.0.1:{port}"}}' for port in free_ports(servers))
        self.path.write_text(self.text(servers=addresses, workers=workers, codec=codec, bucket_kib=bucket_kib) + more)
        self.servers = [self.start_server(shard) for shard in range(servers)]
        self.workers = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in [*self.workers, *self.servers]:
            process.end()
        self._temporary.cleanup()

    def text(self, **values):
        """The job file without `more`."""
        return JOB.format(folder=self.folder, **values)

    def start_server(self, shard=0):
        words = [os.environ["TERN_SERVER"], "--job", self.path, "--rank", shard, "--log_dir", self.folder]
        return Process(f"server {shard}", words, os.environ)

    def restart_server(self, shard=0):
        self.servers[shard].signal(signal.SIGKILL)
        self.servers[shard].wait()
        self.servers[shard].end()
        self.servers[shard] = self.start_server(shard)

    def start_worker(self, rank, *words, **environment):
        """Starts a worker's program: `script WORDS...`."""
        return self.start(f"worker {rank}", self.script, *words, **{"TERN_RANK": str(rank), **environment})

    def start(self, name, *words, **environment):
        """Starts Python with the words as a worker, or as a program that starts workers."""
        environment = {**environment_of_workers(), "TERN_JOB": str(self.path), **environment}
        self.workers.append(Process(name, [sys.executable, *words], environment))
        return self.workers[-1]

    def start_workers(self, *words, **environment):
        return [self.start_worker(rank, *words, **environment) for rank in range(self.count)]

    def finish(self, seconds=PATIENCE_S):
        """Waits for all workers and servers. Raises AssertionError if one of them failed."""
        end = time.monotonic() + seconds
        for process in [*self.workers, *self.servers]:
            code = process.wait(max(0.1, end - time.monotonic()))
            if code != 0:
                raise AssertionError(f"{process.name} ended with {code}; it printed:\n{process.output[-4000:]}")

    def run(self, *words, **environment):
        """Starts all workers with the same words, and waits for the end of the job. Returns what each printed."""
        self.start_workers(*words, **environment)
        self.finish()
        return [worker.output for worker in self.workers]
