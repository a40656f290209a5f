#!/usr/bin/env python3
"""Compares the CPU time of a server with that of a plain ZeroMQ echo (echo.cc) that receives and sends as many messages
of the same sizes, on loopback. Subtracts a short run from a long one to exclude the start.

  server_cpu.py BIN_FOLDER ECHO [--codecs ternary_2bit,ternary] [--workers 2] [--rounds 20] [--repeats 5] [--json FILE]
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

import processes
import targets

JOB = pathlib.Path(__file__).resolve().parent / "jobs/alexnet_shaped.yaml"
PORT = 7690


def measure_server(options, codec, rounds):
    """Returns (CPU seconds of a server in a job of `rounds` rounds, its traffic as counted by the workers)."""
    counters, _, server = processes.run_job(
        processes.Loopback(), options.bin, options.workers,
        [f"exchange.codec={codec}", f"train.steps={rounds}"], timeout_s=600, job=JOB)
    traffic = [one["traffic"] for one in counters]
    return server["cpu_s"], {
        "messages": sum(one["push"]["messages_out"] for one in traffic),
        "push": sum(one["push"]["bytes_out"] for one in traffic),
        "sum": sum(one["sum"]["bytes_in"] for one in traffic)}


def measure_echo(options, traffic, workers):
    """Returns the CPU seconds of the echo for that traffic from `workers` clients."""
    each = traffic["messages"] // workers
    push, answer = (round(traffic[way] / traffic["messages"]) for way in ("push", "sum"))
    running = [subprocess.Popen([options.echo, "server", str(PORT), str(each * workers), str(answer)])]
    running += [subprocess.Popen([options.echo, "client", str(PORT), str(each), str(push), "64"])
                for _ in range(workers)]
    ends = processes.ends_of(running, 600)
    if any(code for code, _ in ends):
        raise RuntimeError("the echo failed")
    return ends[0][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("echo", type=pathlib.Path)
    parser.add_argument("--codecs", default="ternary_2bit,ternary")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = targets.Figures()
    print("| codec | MB in | MB out | server, CPU s | echo, CPU s | ratio | (all) |\n|---|---|---|---|---|---|---|")
    ratios = {}
    for codec in options.codecs.split(","):
        runs = []
        for _ in range(options.repeats):
            short, few = measure_server(options, codec, 1)
            long, many = measure_server(options, codec, 1 + options.rounds)
            traffic = {key: many[key] - few[key] for key in many}
            runs.append((long - short, measure_echo(options, traffic, options.workers), traffic))
        ratios[codec] = [server / echo for server, echo, _ in runs]
        server, echo = (statistics.median(run[i] for run in runs) for i in range(2))
        every = " ".join(f"{ratio:.3f}" for ratio in ratios[codec])
        print(f"| {codec} | {traffic['push'] / 1e6:.0f} | {traffic['sum'] / 1e6:.0f} | {server:.3f} | {echo:.3f} | "
              f"{statistics.median(ratios[codec]):.3f} | {every} |", flush=True)
    best = min(ratios, key=lambda codec: statistics.median(ratios[codec]))
    figures.add("server_cpu", statistics.median(ratios[best]), ratios[best],
                "; ".join(f"{codec} {statistics.median(every):.2f}" for codec, every in ratios.items()))
    figures.write(options.json)
    print("\n" + figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
