#!/usr/bin/env python3
"""Measures what a shard on every host gains: a step's exchange between hosts, each a network namespace with a link of the same
rate, over Tern with one server (on a host of its own), over Tern with a shard on every worker's host, and over PyTorch's
DistributedDataParallel on gloo. Each step's backward pass only fills gradients; samples/s are those of 64 samples a worker.

  shards.py BUILD_FOLDER [--hosts 4] [--rate_mbit 100] [--steps 5] [--repeats 2] [--shapes lenet,20m] [--congestion cubic]
      [--methods "gloo;fp32, one server;..."]

BUILD_FOLDER has bin/tern_server and lib/libtern.so. The Python that runs this needs PyTorch.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import processes

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 64
CODECS = ("fp32", "ternary", "ternary_ans")
METHODS = ("gloo", *(f"{codec}, {where}" for where in ("one server", "a shard a host") for codec in CODECS))


def job_text(place, options, folder, codec, server_hosts):
    servers = ", ".join(f'{{address: "{place.address(host)}:7655"}}' for host in server_hosts)
    return (f"name: shards\noutput_dir: {folder}\nsecurity: none\nservers: [{servers}]\n"
            f"workers: {{count: {options.hosts}}}\ntrain: {{compute: client}}\n"
            f"exchange: {{codec: {codec}}}\n")


def run(place, options, method, shapes, steps):
    """Returns the seconds of each step."""
    codec, _, where = method.partition(", ")
    hosts = range(1, options.hosts + 1)
    server_hosts = [] if codec == "gloo" else [0] if where == "one server" else list(hosts)
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(job_text(place, options, folder, codec, server_hosts))
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="eth0", TERN_LIBRARY=str(options.build / "lib/libtern.so"),
                           PYTHONPATH=str(HERE.parent / "python"))
        servers = [subprocess.Popen([*place.prefix(host), options.build / "bin/tern_server", "--job", job, "--rank", str(shard)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for shard, host in enumerate(server_hosts)]
        kind = ["gloo"] if codec == "gloo" else ["tern"]
        workers = [subprocess.Popen([*place.prefix(host), sys.executable, "-B", HERE / "any_model_worker.py", *kind, str(host - 1),
                                     place.address(1), str(steps), str(options.hosts), shapes, *([job] if server_hosts else [])],
                                    stdout=subprocess.PIPE, text=True, env=environment) for host in hosts]
        try:
            outputs = [worker.communicate(timeout=600)[0] for worker in workers]
            codes = [process.wait(timeout=60) for process in (*workers, *servers)]
        finally:
            for process in (*workers, *servers):
                process.kill()
                process.wait()
        if any(codes):
            raise RuntimeError(f"{method}: exit codes {codes}")
    return [float(word) for word in outputs[0].split()]


def table(place, options, shapes):
    seconds = {method: [] for method in options.methods}
    for _ in range(options.repeats):
        for method in options.methods:
            is_slow = shapes == "20m" and method.startswith(("gloo", "fp32"))
            seconds[method] += run(place, options, method, shapes, 1 if is_slow else options.steps)
    median = {method: statistics.median(times) for method, times in seconds.items()}
    print(f"\n## {shapes}, {options.hosts} hosts, {options.rate_mbit} Mbit/s each way\n\n"
          "| exchange | a step, s | (least to most) | samples/s | of gloo's |\n|---|---|---|---|---|")
    for method, times in seconds.items():
        print(f"| {method} | {median[method]:.3f} | {min(times):.3f} {max(times):.3f} | {BATCH * options.hosts / median[method]:.0f} "
              f"| {median['gloo'] / median[method]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate_mbit", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--shapes", default="lenet,20m")
    parser.add_argument("--congestion", default="", help="cubic, bbr, ...; empty: as installed")
    parser.add_argument("--methods", type=lambda text: text.split(";"), default=METHODS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    try:
        place = processes.Namespaces(options.hosts, options.rate_mbit, limits_all=True)
    except processes.Unavailable as why:
        return print(f"skipped: {why}")
    try:
        if options.congestion:
            place.set_congestion(options.congestion)
        print(f"congestion control: {options.congestion or place.congestion_control()}")
        for shapes in options.shapes.split(","):
            table(place, options, shapes)
    finally:
        place.close()


if __name__ == "__main__":
    main()
