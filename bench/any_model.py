#!/usr/bin/env python3
"""Measures what a step's exchange takes for a PyTorch module of 61.1 million parameters, over Tern (tern_train) and over
PyTorch's own DistributedDataParallel on gloo, between two processes in network namespaces. The server's link, for
gloo that of one of the processes, is limited in both directions. Each step's backward pass only fills gradients.

  any_model.py BUILD_FOLDER [--rates_mbit 100,1000] [--steps 3] [--repeats 2] [--methods ...]

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
METHODS = "tern:fp32,tern:ternary,tern:ternary_ans,gloo,gloo_fp16,powersgd"


def job_file(place, folder, codec):
    chunk, credit = {"fp32": (256, 4096)}.get(codec, (1024, 2048))
    path = pathlib.Path(folder) / "job.yaml"
    path.write_text(f"""name: any_model
output_dir: {folder}
security: none
servers: [{{address: "{place.server}:7655"}}]
workers: {{count: 2}}
train: {{compute: client}}
exchange: {{codec: {codec}, chunk_kib: {chunk}, bucket_kib: {chunk}, credit_kib: {credit}}}
""")
    return path


def run(place, options, method, steps):
    """Returns the seconds of each step."""
    name, _, codec = method.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        job = [job_file(place, folder, codec)] if codec else []
        server = None
        if codec:
            server = subprocess.Popen([*place.prefix(0), options.build / "bin/tern_server", "--job", *job, "--rank", "0"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="eth0", TERN_LIBRARY=str(options.build / "lib/libtern.so"),
                           PYTHONPATH=str(HERE.parent / "python"))
        first = 1 if codec else 0  # A Tern job's workers have links of their own; one of gloo's processes has the slow one.
        workers = [subprocess.Popen([*place.prefix(first + rank), sys.executable, "-B", HERE / "any_model_worker.py", name,
                                     str(rank), place.server, str(steps), "2", "alexnet", *job], stdout=subprocess.PIPE, text=True,
                                    env=environment) for rank in range(2)]
        outputs = [worker.communicate()[0] for worker in workers]
        errors = server.communicate()[1] if server else ""
        if any(worker.returncode for worker in workers):
            raise RuntimeError(f"{method} failed: {errors[-2000:]}")
    return [float(word) for word in outputs[0].split()]


def at_rate(rate, options):
    place = processes.Namespaces(2, rate)
    try:
        seconds = {method: [] for method in options.methods}
        for _ in range(options.repeats):
            for method in options.methods:
                slow = rate <= 200 and method in ("gloo", "gloo_fp16", "tern:fp32")
                seconds[method] += run(place, options, method, 1 if slow else options.steps)
    finally:
        place.close()
    median = {method: statistics.median(times) for method, times in seconds.items()}
    print(f"\n## {rate} Mbit/s each way\n\n| method | a step, s | (all) | gloo fp32 / it |\n|---|---|---|---|")
    for method, times in seconds.items():
        against = f"{median['gloo'] / median[method]:.2f}" if "gloo" in median else ""
        print(f"| {method} | {median[method]:.3f} | {' '.join(f'{one:.3f}' for one in times)} | {against} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rates_mbit", default="100,1000")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.methods = options.methods.split(",")
    try:
        for rate in map(int, options.rates_mbit.split(",")):
            at_rate(rate, options)
    except processes.Unavailable as why:
        print(f"skipped: {why}")


if __name__ == "__main__":
    main()
