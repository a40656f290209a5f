#!/usr/bin/env python3
"""Plants one cause of slowness after the other, and reads whether the closing advice or `tern doctor` names it.

    scripts/drill/advice.py BUILD_FOLDER [--times 10] [--job configs/lenet_fashion.yaml]

Needs two quiet cores, and root for the slow link. Exit code 1 if a cause was not named in one of the trials, or if the
advice names one that was not planted.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import hosts

# What names each cause. None of it may be said where the cause was not planted.
SIGNS = {"slow link": r"waiting for sums, while a worker exchanged",
         "slow worker": r"worker 1 takes [\d.]+ times as long for a step",
         "slow disk": r"writing checkpoints took",
         "full core": r"warn  load: saw that .* most of all with (python3|spin)",
         "too many threads": r"the CPUs are oversubscribed"}


class Trial:
    def __init__(self, options, folder):
        self.bin, self.job, self.folder = options.bin, options.job, folder

    def settings(self, *more):
        words = [f"output_dir={self.folder}/out", "train.steps=250", "evaluation.every_steps=0", *more]
        return [word for setting in words for word in ("--set", setting)]

    def run(self, *more, flags=()):
        """Runs the job to its end; returns the closing table."""
        done = subprocess.run([self.bin / "tern", "run", self.job, "--free_ports", *flags, *self.settings(*more)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"advice: the job ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def undisturbed(self):
        return self.run()

    def too_many_threads(self):
        return self.run("workers.threads=16", "train.steps=100")

    def slow_disk(self):
        return self.run("checkpoints.every_steps=20", "checkpoints.keep=2",
                        flags=[word for rank in (0, 1) for word in ("--fail", f"worker.{rank}:disk.write=delay:0.05")])

    def full_core(self):
        """Another program keeps a core busy."""
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
            time.sleep(0.2)
            done = subprocess.run([self.bin / "tern", "doctor", self.job, *self.settings()], capture_output=True, text=True)
            spinner.kill()
        return done.stdout

    def slow_worker(self):
        """Worker 1 is stopped for two thirds of the time, as if its host gave it a third of a core."""
        run = subprocess.Popen([self.bin / "tern", "run", self.job, "--free_ports", *self.settings()],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ended = threading.Event()

        def slow_down():
            while not ended.is_set():
                for worker in children_of(run.pid, "tern_worker", "--rank 1"):
                    send(worker, signal.SIGSTOP)
                    time.sleep(0.02)
                    send(worker, signal.SIGCONT)
                ended.wait(0.01)

        thread = threading.Thread(target=slow_down)
        thread.start()
        out, errors = run.communicate()
        ended.set()
        thread.join()
        if run.returncode != 0:
            sys.exit(f"advice: the job ended with {run.returncode}: {errors}")
        return out

    def slow_link(self):
        """Each daemon has a network namespace of its own, and the server's link takes 20 Mbit/s."""
        names = ["server.0", "worker.0", "worker.1"]
        places = hosts.Namespaces(names)
        try:
            hosts.call("tc", "qdisc", "add", "dev", places.outside("server.0"), "root", "tbf", "rate", "20mbit", "burst",
                       "16kb", "latency", "50ms")
            settings = self.settings("exchange.codec=fp32", "train.steps=15", f"servers.0.address={places.address('server.0')}",
                                     *places.settings())
            daemons = [subprocess.Popen([*places.prefix(name), self.bin / f"tern_{name.split('.')[0]}", "--job", self.job,
                                         "--rank", name.split(".")[1], "--log_dir", f"{self.folder}/logs", *settings],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in names]
            outs = [daemon.communicate()[0] for daemon in daemons]
            if any(daemon.returncode != 0 for daemon in daemons):
                sys.exit(f"advice: the daemons ended with {[daemon.returncode for daemon in daemons]}")
            return outs[0]
        finally:
            places.close()


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def children_of(parent, *words):
    """The child processes whose command line has these words."""
    found = []
    for child in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            line = pathlib.Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(child))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text) / "bin")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--job", default="configs/lenet_fashion.yaml")
    parser.add_argument("--only", default="", help="one cause")
    options = parser.parse_args()
    causes = [cause for cause in ["undisturbed", *SIGNS] if options.only in ("", cause)]
    failures = 0
    for cause in causes:
        right = 0
        for _ in range(options.times):
            with tempfile.TemporaryDirectory(prefix="advice") as folder:
                text = getattr(Trial(options, folder), cause.replace(" ", "_"))()
            named = [sign for sign, pattern in SIGNS.items() if re.search(pattern, text)]
            is_right = named == ([] if cause == "undisturbed" else [cause])
            right += is_right
            if not is_right:
                print(f"{cause}: names {named}:\n{text}", file=sys.stderr)
        failures += options.times - right
        print(f"{cause:<18} {right} of {options.times}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
