"""Runs the daemons of a job for benchmarks, either on loopback or each in its own network namespace behind a link whose
rate tc limits."""
import contextlib
import functools
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
JOB = ROOT / "configs/lenet_fashion.yaml"
IMPORT_S = 90  # of a module such as PyTorch, from a cold disk


class Unavailable(Exception):
    """This machine or user cannot create network namespaces."""


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


class Namespaces:
    """A bridge with one namespace for the server and one per worker. The server's link has `rate_mbit` in each direction; with
    `limits_all`, so have all links."""

    numbers = itertools.count()

    def __init__(self, workers, rate_mbit, limits_all=False):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            raise Unavailable("network namespaces need root, ip and tc (Debian: iproute2)")
        # Use new names: the kernel frees the devices of a namespace only some time after its deletion.
        self.tag = f"tb{os.getpid() % 10000}x{next(self.numbers)}"
        self.names = [f"{self.tag}s", *(f"{self.tag}w{rank}" for rank in range(workers))]
        self.server = self.address(0)
        try:
            self._make()
            self._limit(rate_mbit, self.names if limits_all else self.names[:1])
        except Unavailable:
            self.close()
            raise

    def _make(self):
        call("ip", "link", "add", f"{self.tag}br", "type", "bridge")
        call("ip", "link", "set", f"{self.tag}br", "up")
        for number, name in enumerate(self.names):
            outside = f"{name}o"
            call("ip", "netns", "add", name)
            call("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
            call("ip", "link", "set", outside, "master", f"{self.tag}br", "up")
            call("ip", "-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            call("ip", "-n", name, "link", "set", "lo", "up")
            call("ip", "-n", name, "link", "set", "eth0", "up")

    def _limit(self, rate_mbit, names):
        shape = ("root", "tbf", "rate", f"{rate_mbit}mbit", "burst", "64kb" if rate_mbit < 1000 else "256kb", "latency", "50ms")
        for name in names:
            call("tc", "qdisc", "add", "dev", f"{name}o", *shape)  # towards it
            call("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", *shape)  # from it

    def congestion_control(self):
        return call(*self.prefix(0), "cat", "/proc/sys/net/ipv4/tcp_congestion_control")

    def set_congestion(self, name):
        # By the route: the kernel refuses the setting to namespaces, except for some names.
        for namespace in self.names:
            call("ip", "-n", namespace, "route", "replace", "10.77.0.0/24", "dev", "eth0", "scope", "link",
                           "congctl", name)

    def address(self, number):
        return f"10.77.0.{number + 1}"

    def prefix(self, number):
        """Returns the words to put before a command; 0 is the server, 1 and up are the workers."""
        return ["ip", "netns", "exec", self.names[number]]

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{self.tag}br"], capture_output=True)


class Loopback:
    def __init__(self, port=7655):
        self.server, self.port = "127.0.0.1", port

    def prefix(self, _):
        return []

    def close(self):
        pass


def run_job(place, bin_folder, workers, settings, own_settings=None, timeout_s=300, job=JOB):
    """Runs a job to its end. Returns ([counters of each worker], text of all logs, the server's summary).
    `own_settings`: additional KEY=VALUE settings of single ranks, for local keys."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tern_bench."))
    try:
        words = [f"servers.0.address={place.server}:7655", "security=none", f"workers.count={workers}",
                 "train.compute=wait", f"output_dir={folder}", "data.train_limit=2000", "data.test_limit=64",
                 "faults.compare_every_steps=1000000", *settings]

        def start(number, program, rank, more=()):
            sets = [word for setting in [*words, *more] for word in ("--set", setting)]
            return subprocess.Popen([*place.prefix(number), bin_folder / program, "--job", job, "--rank", str(rank),
                                     *sets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=dict(os.environ, OMP_WAIT_POLICY="passive"))

        running = [start(0, "tern_server", 0)]
        running += [start(1 + rank, "tern_worker", rank, (own_settings or {}).get(rank, ()))
                    for rank in range(workers)]
        try:
            ends = ends_of(running, timeout_s)
        finally:
            for process in running:
                process.kill()
        if any(code for code, _ in ends):
            raise RuntimeError(f"exit codes {[code for code, _ in ends]}: {logs_of(folder)[-2000:]}")
        words = [json.loads((folder / f"{name}.json").read_text())
                 for name in ["server.0", *(f"worker.{rank}" for rank in range(workers))]]
        for word, (_, cpu_s) in zip(words, ends):
            word["cpu_s"] = cpu_s
        return words[1:], logs_of(folder), words[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def python_with(*modules):
    """Returns a Python that imports these modules within IMPORT_S, this one or Debian's; None if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            if shutil.which(python) and subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True,
                                                       timeout=IMPORT_S).returncode == 0:
                return python
    return None


def python_with_torch():
    return python_with("torch")


def ends_of(running, timeout_s):
    """Waits for all processes. Returns (exit code, CPU seconds) of each, in order. Raises TimeoutError."""
    ends, deadline = {}, time.monotonic() + timeout_s
    while len(ends) < len(running):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job did not end within {timeout_s} s")
        for process in running:
            pid, status, usage = (0, 0, None) if process.pid in ends else os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                ends[pid] = (process.returncode, usage.ru_utime + usage.ru_stime)
        time.sleep(0.02)
    return [ends[process.pid] for process in running]


def logs_of(folder):
    return "\n".join(path.read_text(errors="replace") for path in sorted((folder / "logs").glob("*"))
                     if path.is_file() and not path.is_symlink())
