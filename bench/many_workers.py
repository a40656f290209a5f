#!/usr/bin/env python3
"""A job of many workers on one machine: how long its start takes, a round, and how much memory the server needs.

    bench/many_workers.py BUILD_FOLDER [--workers 256] [--rounds 50] [--codec ternary] [--data FOLDER]

The workers are processes of `train.compute: wait`, which push gradients of LeNet and compute nothing. Prints the time until the
last worker takes part, the seconds of a round, the server's largest resident memory beside what `tern check` says that the job
needs there, and whether all replicas ended with one hash. Exit code 1: they did not, or a daemon failed.
"""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

JOB = """name: many
output_dir: {folder}/out
servers: [{{address: "127.0.0.1:{port}"}}]
workers: {{count: {workers}}}
model: {{name: lenet}}
data: {{dir: {data}}}
train: {{batch_total: {workers}, steps: {rounds}, compute: wait, compute_wait_ms: 1}}
exchange: {{codec: {codec}}}
evaluation: {{every_steps: 0}}
faults: {{start_timeout_s: 600, suspect_after_s: 20, dead_after_s: 60, progress_timeout_s: 600, compare_every_steps: {rounds}}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peak_mb(pid):
    """The largest resident memory of a process so far, in MB; None once it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 / 1e6 if found else None


def memory_row(options, job):
    text = subprocess.run([options.bin / "tern", "check", job], capture_output=True, text=True).stdout
    section = re.search(r"memory of server.*?(?=\n\n|\Z)", text, re.DOTALL)
    return section[0] if section else text


def run(options, folder):
    job = folder / "job.yaml"
    job.write_text(JOB.format(folder=folder, port=free_port(), workers=options.workers, rounds=options.rounds, data=options.data,
                              codec=options.codec))
    log = open(folder / "output", "w")
    begin = time.monotonic()
    server = subprocess.Popen([options.bin / "tern_server", "--job", job, "--rank", "0"], stdout=log, stderr=log)
    workers = [subprocess.Popen([options.bin / "tern_worker", "--job", job, "--rank", str(rank)], stdout=log, stderr=log)
               for rank in range(options.workers)]
    started, peak, idle = None, 0, None
    while server.poll() is None:
        peak = peak_mb(server.pid) or peak
        idle = idle or peak
        if started is None and f"all {options.workers} workers are here" in (folder / "output").read_text():
            started = time.monotonic() - begin
        time.sleep(0.2)
    total = time.monotonic() - begin
    codes = {worker.wait() for worker in workers} | {server.returncode}
    summary = json.loads((folder / "out/server.0.json").read_text()) if (folder / "out/server.0.json").exists() else {}
    print(f"{options.workers} workers, {options.rounds} rounds, {options.codec}: exit codes {sorted(codes)}, "
          f"hash {summary.get('parameters_hash')}, replicas agree: {summary.get('replicas_agree')}")
    if codes != {0} or not summary.get("replicas_agree"):
        print((folder / "output").read_text()[-3000:])
        return 1
    print(f"start {started:.1f} s, a round {(total - started) / options.rounds:.2f} s; server: {idle:.1f} MB when it began, "
          f"{peak:.1f} MB at most")
    print(memory_row(options, job))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--codec", default="ternary")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()
    options.bin = options.build / "bin"
    with tempfile.TemporaryDirectory(prefix="many_workers") as folder:
        sys.exit(run(options, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
