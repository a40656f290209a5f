#!/usr/bin/env python3
"""What watching costs the daemons of a job: CPU-seconds of daemons that nobody watches, and of daemons whose page, metrics
and `tern top` are in use, in pairs.

    bench/watching_cost.py BUILD_FOLDER [--pairs 10] [--steps 400] [--job configs/lenet_fashion.yaml] [--set KEY=VALUE]

The watchers are one reader of /status.json a second (as an open page reads it), one scrape of each daemon's metrics in five
seconds, and `tern top` on a terminal. Their own CPU-seconds do not count. Prints each pair, and the mean ratio and
the mean difference with their 95 % intervals. Where computing takes all CPUs, ratios are noisy; with --set train.compute=wait
the difference is exact.
"""
import argparse
import os
import pathlib
import pty
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts/experiments"))
import student  # noqa: E402

BASE_PORTS = range(20000, 32000, 200)


def free_base(number_of_ports):
    for base in BASE_PORTS:
        try:
            for port in range(base, base + number_of_ports):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    sys.exit("watching_cost: no free ports")


def read(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return len(answer.read())
    except (urllib.error.URLError, OSError):
        return 0  # the daemon does not listen yet, or no more


def watch(ended, port, counts):
    tick = 0
    while not ended.wait(1):
        counts["page"] += read(f"http://127.0.0.1:{port}/status.json") > 0
        tick += 1
        if tick % 5 == 0:
            for daemon in (port, port + 100, port + 101):
                counts["metrics"] += read(f"http://127.0.0.1:{daemon}/metrics") > 0


def run(options, watched):
    """Returns the CPU-seconds of `tern run` and its daemons, and what the watchers saw."""
    counts = {"page": 0, "metrics": 0}
    with tempfile.TemporaryDirectory(prefix="watching") as folder:
        words = [options.bin / "tern", "run", options.job, "--set", f"output_dir={folder}/out", "--set",
                 f"train.steps={options.steps}", "--set", "evaluation.every_steps=0"]
        ended, watchers, top = threading.Event(), [], None
        base = free_base(102)
        words += ["--set", f"servers.0.address=127.0.0.1:{base + 50}", "--set", f"metrics.port={base if watched else 0}"]
        for setting in options.set:
            words += ["--set", setting]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if watched:
            watchers = [threading.Thread(target=watch, args=(ended, base, counts))]
            main_side, terminal = pty.openpty()
            # A watcher of its own process group that is never waited for before the job's time is read.
            top = subprocess.Popen([options.bin / "tern", "top", f"http://127.0.0.1:{base}/"], stdin=terminal, stdout=terminal,
                                   stderr=terminal, env={"TERM": "xterm", "LINES": "24", "COLUMNS": "80"})
            watchers.append(threading.Thread(target=drain, args=(ended, main_side)))
            for watcher in watchers:
                watcher.start()
        code = job.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended.set()
        if top:
            top.kill()
            top.wait()
        for watcher in watchers:
            watcher.join()
        if code != 0:
            sys.exit(f"watching_cost: the job ended with {code}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, counts


def drain(ended, descriptor):
    while not ended.is_set():
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                os.read(descriptor, 65536)
            except OSError:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text) / "bin")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--job", default="configs/lenet_fashion.yaml")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    run(options, False)  # warms the files
    ratios, differences, seen = [], [], {}
    for pair in range(options.pairs):
        seconds = {}
        for watched in ((False, True) if pair % 2 else (True, False)):
            seconds[watched], counts = run(options, watched)
            seen = counts if watched else seen
        ratios.append(100 * (seconds[True] / seconds[False] - 1))
        differences.append(1000 * (seconds[True] - seconds[False]))
        print(f"pair {pair + 1}: {seconds[False]:.2f} s alone, {seconds[True]:.2f} s watched, {ratios[-1]:+.2f} %, {seen}", flush=True)
    print(f"watching costs {with_interval(ratios, '%')}, {with_interval(differences, 'ms of CPU a run')}")


def with_interval(values, unit):
    bounds = student.interval(values) or (float("nan"), float("nan"))
    return f"{statistics.fmean(values):+.2f} {unit}, 95 % interval {bounds[0]:+.2f} to {bounds[1]:+.2f}"


if __name__ == "__main__":
    main()
