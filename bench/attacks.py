#!/usr/bin/env python3
"""Measures what attacks of strangers cost a running job of two servers and two workers, on loopback: the memory and the
log of the servers, the rate of rounds, exit codes and the final weights.

  attacks.py BIN_FOLDER ATTACKER [--securities loopback,none,curve] [--attacks NAME,...] [--seconds 30] [--json FILE]

Each attack gets a job of its own. The workers run on all cores but the last one; the servers share the last one with
the attacker. The rate of rounds under attack is divided by that beside a process that only spins in the attacker's
place, before and after the attack. Every job has the same number of steps as an undisturbed one, and has to end with the
same exit codes and the same hash of the weights. Takes about 20 minutes for each kind of security.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import keys
import processes
import targets

JOB = processes.ROOT / "bench/jobs/attacked.yaml"
NAMES = ("server.0", "server.1", "worker.0", "worker.1")
SERVERS = NAMES[:2]
SAMPLE_S = 0.1
MAX_GROWTH_MIB, MAX_LOG_BYTES_S, MIN_RATIO = (targets.TARGETS[f"attack_{key}"].bar for key in ("memory", "log", "rate"))


class Ended(Exception):
    """A daemon ended before the attack did."""


class TooShort(Exception):
    """The job had done all its steps before the attack ended."""


@dataclasses.dataclass
class Attack:
    name: str
    finding: str
    ports: str  # "control" or "metrics"
    what: str


@dataclasses.dataclass
class Phase:
    """What was seen while an attack, or the spinning process, ran."""
    rate: float  # rounds a second
    growth_mib: float  # of the server that grew most
    log_bytes_s: float  # of the server that wrote most
    cpu: float  # CPU seconds of both servers a second
    sent: dict  # what the attacker says of itself


def mean(one, other):
    keys_of = ("rate", "growth_mib", "log_bytes_s", "cpu")
    return Phase(*((getattr(one, key) + getattr(other, key)) / 2 for key in keys_of), {})


def list_attacks(attacker):
    lines = subprocess.run([attacker, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [Attack(*line.split("\t")) for line in lines]


def free_ports(count):
    """Returns ports of 127.0.0.1 on which nobody listens: `count` and, as the last one, one that is followed by another
    and that has two 100 further."""
    def is_free(port):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True

    found = []
    for port in range(20000 + os.getpid() % 5000, 30000):
        if len(found) < count:
            found += [port] * is_free(port)
        elif all(is_free(port + more) for more in (0, 1, 100, 101)):
            return [*found, port]
    raise RuntimeError("no free ports")


def pinned(cores):
    """Returns what a new process calls to stay on these cores; None: on any."""
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


class AttackedJob:
    """The daemons of one job, and what can be seen of them from outside."""

    def __init__(self, options, settings, steps):
        self.options, self.steps = options, steps
        self.holder = tempfile.TemporaryDirectory(prefix="tern_attacks.")
        self.folder = pathlib.Path(self.holder.name)
        self.out = self.folder / "out"
        *ports, self.metrics_port = free_ports(4)
        self.control_ports = ports
        self.settings = [
            f"servers.0.address=127.0.0.1:{ports[0]}", f"servers.0.data_ports=[{ports[1]}]",
            f"servers.1.address=127.0.0.1:{ports[2]}", f"servers.1.data_ports=[{ports[3]}]",
            f"metrics.port={self.metrics_port}", f"output_dir={self.out}", f"train.steps={steps}", *settings]
        self.progress = self.folder / "progress"
        self.history = []  # (time, rounds) of each report of shard 0
        self.running = {}
        for name in NAMES:
            self._start(name)

    def setting_words(self):
        return [word for setting in self.settings for word in ("--set", setting)]

    def _start(self, name):
        role, rank = name.split(".")
        words = [self.options.bin / f"tern_{role}", "--job", JOB, "--rank", rank, *self.setting_words()]
        cores = self.options.attacker_cores if role == "server" else self.options.worker_cores
        with open(self.progress, "ab") as progress, open(self.folder / f"{name}.stderr", "wb") as errors:
            if name == "server.0":
                words += ["--progress_fd", str(progress.fileno())]
            self.running[name] = subprocess.Popen(
                list(map(str, words)), stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[progress.fileno()],
                preexec_fn=pinned(cores), env=dict(os.environ, OMP_WAIT_POLICY="passive"))

    def look(self):
        """Reads the newest report of shard 0. Raises Ended if a daemon has ended."""
        text = self.progress.read_bytes()
        lines = text[:text.rfind(b"\n") + 1].splitlines()
        if lines and len(lines) > len(self.history):
            self.history += [None] * (len(lines) - len(self.history) - 1)
            self.history.append((self.progress.stat().st_mtime, json.loads(lines[-1]).get("rounds", 0)))
        for name, process in self.running.items():
            if process.poll() is not None:
                if process.returncode == 0 and self.rounds() == self.steps:
                    raise TooShort
                raise Ended(f"{name} ended with {process.returncode} at round {self.rounds()}: {self.last_line(name)}")

    def rate(self, begin):
        """Returns the rounds a second since `begin`."""
        seen = [one for one in self.history if one is not None and one[0] >= begin]
        if len(seen) < 2:
            return 0.0
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def rounds(self):
        return self.history[-1][1] if self.history else 0

    def wait_for_round(self, number, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while self.rounds() < number:
            if time.monotonic() > deadline:
                raise Ended(f"round {number} did not come within {timeout_s} s")
            time.sleep(SAMPLE_S)
            self.look()

    def memory_mib(self, name):
        status = pathlib.Path(f"/proc/{self.running[name].pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024 if "VmRSS:" in status else 0

    def log_bytes(self, name):
        """Returns how much a daemon has written, to its log or to stderr, whichever is more."""
        logs = sum(path.stat().st_size for path in (self.out / "logs").glob("*")
                   if name in path.name and path.is_file() and not path.is_symlink())
        return max(logs, (self.folder / f"{name}.stderr").stat().st_size)

    def cpu_s(self):
        """Returns the CPU seconds of both servers so far."""
        fields = [pathlib.Path(f"/proc/{self.running[name].pid}/stat").read_text().rsplit(")", 1)[1].split() for name in SERVERS]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def last_line(self, name):
        lines = (self.folder / f"{name}.stderr").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def attack(self, attack, seconds):
        """Runs an attack, and returns what was seen while it ran, as a Phase."""
        ports = self.control_ports if attack.ports == "control" else [self.metrics_port, self.metrics_port + 1]
        words = [self.options.attacker, attack.name, "--seconds", seconds, "--job", JOB, *self.setting_words(), *ports]
        before = {name: (self.memory_mib(name), self.log_bytes(name)) for name in SERVERS}
        begin, cpu_before, growth = time.time(), self.cpu_s(), 0.0
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True,
                                   preexec_fn=pinned(self.options.attacker_cores))
        try:
            while process.poll() is None:
                if time.time() > begin + seconds + 60:
                    raise RuntimeError(f"the attack {attack.name} does not end")
                time.sleep(SAMPLE_S)
                self.look()
                growth = max(growth, *(self.memory_mib(name) - before[name][0] for name in SERVERS))
        finally:
            process.kill()
            said = process.communicate()[0]
        if process.returncode != 0:
            raise RuntimeError(f"the attack {attack.name} failed")
        seconds = time.time() - begin
        log = max(self.log_bytes(name) - before[name][1] for name in SERVERS) / seconds
        return Phase(self.rate(begin), growth, log, (self.cpu_s() - cpu_before) / seconds, json.loads(said))

    def end(self, timeout_s):
        """Waits for the job's end. Returns (exit codes, hash of the weights)."""
        codes = [code for code, _ in processes.ends_of(list(self.running.values()), timeout_s)]
        summary = self.out / "server.0.json"
        found = json.loads(summary.read_text()) if summary.exists() else {}
        return codes, found.get("parameters_hash") if found.get("replicas_agree") else None

    def close(self):
        for process in self.running.values():
            if process.returncode is None:
                process.kill()
                process.wait()
        self.holder.cleanup()


def rate_without_attack(options, settings):
    """Returns how many rounds a second the job does if nobody uses the attacker's place."""
    job = AttackedJob(options, settings, 10**6)
    try:
        job.wait_for_round(20)
        begin = time.time()
        while time.time() < begin + 4:
            time.sleep(SAMPLE_S)
            job.look()
        return job.rate(begin)
    finally:
        job.close()


def undisturbed(options, settings, steps):
    job = AttackedJob(options, settings, steps)
    try:
        return job.end(600)
    finally:
        job.close()


def attack_job(options, settings, steps, spin, attack):
    """Returns (Phase of the attack, Phase beside the spinning process, (exit codes, hash))."""
    job = AttackedJob(options, settings, steps)
    try:
        job.wait_for_round(20)
        before = job.attack(spin, options.spin_seconds)
        under_attack = job.attack(attack, options.seconds)
        after = job.attack(spin, options.spin_seconds)
        return under_attack, mean(before, after), job.end(600)
    finally:
        job.close()


class Bench:
    """Measures attacks one by one, in jobs of as many steps as attacks need on this machine."""

    def __init__(self, options, spin):
        self.options, self.spin = options, spin
        seconds = options.seconds + 2 * options.spin_seconds + 2
        self._set_steps(round(1.15 * seconds * rate_without_attack(options, [])))

    def _set_steps(self, steps):
        self.steps, self.expected = steps, undisturbed(self.options, [], steps)
        print(f"{steps} steps; undisturbed: exit codes {self.expected[0]}, hash {self.expected[1]}", flush=True)
        if any(self.expected[0]) or self.expected[1] is None:
            raise RuntimeError("the undisturbed job failed")

    def measure(self, settings, attack):
        """Returns (Phase of the attack, Phase beside the spinning process, whether the end was as without attacks)."""
        for _ in range(4):
            try:
                under_attack, spinning, outcome = attack_job(self.options, settings, self.steps, self.spin, attack)
                return under_attack, spinning, outcome == self.expected
            except TooShort:
                self._set_steps(self.steps * 3 // 2)
        raise Ended(f"the job is faster and faster: {self.steps} steps are too few")


class Table:
    """Prints a row for each attack, and keeps the worst of all."""

    def __init__(self):
        self.worst = {"memory": (0.0, "none"), "log": (0.0, "none"), "rate": (float("inf"), "none")}
        self.failures, self.num_attacks = [], 0

    def begin(self, security):
        print(f"\n## security: {security}\n\n| attack | of | connections/s | sent, MB/s | memory, MiB | log, B/s | "
              "rounds/s: spinning | attacked | ratio | servers' CPU: spinning | attacked | codes, hash | verdict |\n" + "|---" * 13 + "|",
              flush=True)

    def add(self, security, attack, seconds, phase, spinning, is_same):
        ratio = phase.rate / spinning.rate if spinning.rate > 0 else 0.0
        where = f"{attack.name} under {security}"
        self.num_attacks += 1
        self.worst["memory"] = max(self.worst["memory"], (phase.growth_mib, where))
        self.worst["log"] = max(self.worst["log"], (phase.log_bytes_s, where))
        self.worst["rate"] = min(self.worst["rate"], (ratio, where))
        if not is_same:
            self.failures.append(where)
        is_met = phase.growth_mib <= MAX_GROWTH_MIB and phase.log_bytes_s <= MAX_LOG_BYTES_S and ratio >= MIN_RATIO and is_same
        print(f"| {attack.name} | {attack.finding} | {phase.sent['connections'] / seconds:.0f} | "
              f"{phase.sent['sent_bytes'] / seconds / 1e6:.2f} | {phase.growth_mib:.1f} | {phase.log_bytes_s:.0f} | "
              f"{spinning.rate:.1f} | {phase.rate:.1f} | {ratio:.3f} | {spinning.cpu:.0%} | {phase.cpu:.0%} | "
              f"{'same' if is_same else 'OTHER'} | {'met' if is_met else 'MISSED'} |", flush=True)

    def add_broken(self, security, attack, why):
        self.num_attacks += 1
        self.failures.append(f"{attack.name} under {security}")
        print(f"| {attack.name} | {attack.finding} | | | | | | | | | | {str(why).replace('|', '/')} | MISSED |", flush=True)

    def figures(self):
        figures = targets.Figures()
        for key, (value, where) in self.worst.items():
            if value != float("inf"):
                figures.add(f"attack_{key}", value, note=where)
        figures.add_outcome("attack_outcome", not self.failures, ", ".join(self.failures) or f"{self.num_attacks} attacks")
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("attacker", type=pathlib.Path)
    parser.add_argument("--securities", default="loopback,none,curve")
    parser.add_argument("--attacks", default="", help="names of attacks, by commas; default: all")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--spin_seconds", type=float, default=6, help="before and after each attack")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    options.worker_cores, options.attacker_cores = cores[:-1] or cores, cores[-1:]
    spin, *attacks = list_attacks(options.attacker)
    chosen = [attack for attack in attacks if not options.attacks or attack.name in options.attacks.split(",")]
    unknown = set(filter(None, options.attacks.split(","))) - {attack.name for attack in attacks}
    if unknown:
        parser.error(f"no attack is called {', '.join(sorted(unknown))}; {options.attacker} --list lists them")

    table = Table()
    with tempfile.TemporaryDirectory(prefix="tern_attacks.") as folder:
        keys.make_keys(options.bin, pathlib.Path(folder) / "keys", JOB)
        bench = Bench(options, spin)
        for security in options.securities.split(","):
            settings = [f"security={security}"] + [f"keys.dir={folder}/keys"] * (security == "curve")
            table.begin(security)
            for attack in chosen:
                try:
                    table.add(security, attack, options.seconds, *bench.measure(settings, attack))
                except (Ended, TimeoutError) as why:
                    table.add_broken(security, attack, why)
    figures = table.figures()
    figures.write(options.json)
    print("\n" + figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
