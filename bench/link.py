#!/usr/bin/env python3
"""Measures rounds of 61.1 million parameters (jobs/alexnet_shaped.yaml) between two workers and a server in network
namespaces, where tc limits the server's link in both directions. Compares the codecs with iperf3 and with PyTorch's
gloo all-reduce on the same link.

  link.py BIN_FOLDER [--rates_mbit 100,1000] [--codecs fp32,fp16,ternary,...] [--rounds 5] [--repeats 3] [--json FILE]
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

import processes
import targets

HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE / "jobs/alexnet_shaped.yaml"
WORKERS = 2
FLOATS = ("fp32", "fp16")
PARAMETERS = 61_094_632


def iperf3(place, seconds):
    """Returns the simultaneous Mbit/s into and out of the server's namespace; None without iperf3."""
    if not shutil.which("iperf3"):
        return None
    with subprocess.Popen([*place.prefix(0), "iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if "listening" in line:
                break
        done = subprocess.run([*place.prefix(1), "iperf3", "-c", place.server, "--bidir", "-t", str(seconds), "-J"],
                              capture_output=True, text=True)
        server.communicate()
    end = json.loads(done.stdout)["end"]
    return end["sum_received"]["bits_per_second"] / 1e6, end["sum_received_bidir_reverse"]["bits_per_second"] / 1e6


def gloo(place, dtype, repeats):
    """Returns the seconds of one all-reduce with rank 0 behind the slow link; None without PyTorch."""
    if (python := processes.python_with_torch()) is None:
        return None
    running = [subprocess.Popen([*place.prefix(rank), "env", "GLOO_SOCKET_IFNAME=eth0", python, "-B",
                                 HERE / "gloo_all_reduce.py", str(rank), place.server, str(PARAMETERS), str(repeats),
                                 dtype], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    texts = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("gloo's all-reduce failed")
    return [float(word) for word in texts[0].split()]


def settings_of(codec, more):
    """Settings for messages of 100 to 250 KiB with 2 to 4 MiB in transit. So workers share a slow link evenly, and a
    server answers the first chunks while others still arrive."""
    chunk, credit = {"fp32": (256, 4096), "fp16": (512, 4096)}.get(codec, (1024, 2048))
    return [f"exchange.codec={codec}", f"exchange.chunk_kib={chunk}", f"exchange.bucket_kib={chunk}",
            f"exchange.credit_kib={credit}", *more]


def rounds(place, options, codec, count, more=()):
    """Runs `count` rounds. Returns seconds per round, Mbit/s of payload into and out of the server, and the longest
    control round trip in ms."""
    counters, _, server = processes.run_job(place, options.bin, WORKERS,
                                            settings_of(codec, [f"train.steps={count}", *more]), timeout_s=1200, job=JOB)
    seconds = max(one["train_s"] / one["rounds"] for one in counters)
    up = sum(one["traffic"]["push"]["bytes_out"] for one in counters) / count
    down = sum(one["traffic"]["sum"]["bytes_in"] for one in counters) / count
    return {"seconds": seconds, "in": 8e-6 * up / seconds, "out": 8e-6 * down / seconds,
            "control_ms": 1000 * max(one["control_round_trip_max_s"] for one in counters),
            "cpu_s": [word["cpu_s"] for word in (server, *counters)], "rounds": count,
            "shares": [{key: round(one[key] / count, 3) for key in ("encode_s", "decode_s", "wait_s", "exchange_s")}
                       for one in counters]}


def at_rate(rate, options, figures):
    place = processes.Namespaces(WORKERS, rate)
    try:
        print(f"\n## {rate} Mbit/s each way, congestion control {place.congestion_control()}\n")
        free = iperf3(place, 5)
        if free:
            print(f"iperf3 both ways: {free[0]:.1f} in, {free[1]:.1f} out Mbit/s of payload")
        results = {codec: [] for codec in options.codecs}
        ring = {}
        for _ in range(options.repeats):
            for codec in options.codecs:
                slow = rate <= 200 and codec in FLOATS
                results[codec].append(rounds(place, options, codec, 2 if slow else options.rounds))
            for dtype in ("float32", "float16"):
                if (seconds := gloo(place, dtype, 1 if rate <= 200 else 3)) is not None:
                    ring.setdefault(dtype, []).extend(seconds)
        if options.verbose:
            for codec, runs in results.items():
                print(codec, *runs, sep="\n  ")
        print_results(rate, options, figures, free, results, {d: statistics.median(s) for d, s in ring.items()})
    finally:
        place.close()


def cpu_text(runs):
    server, *workers = [statistics.median(one["cpu_s"][i] / one["rounds"] for one in runs) for i in range(1 + WORKERS)]
    return f"{server:.3f}; {' '.join(f'{worker:.3f}' for worker in workers)}"


def print_results(rate, options, figures, free, results, ring):
    median = {codec: statistics.median(one["seconds"] for one in runs) for codec, runs in results.items()}
    print("\n| wire | a round, s | (all) | own fp32 / it | gloo fp32 / it | in Mbit/s | out Mbit/s | control ms "
          "| CPU s a round: server; workers |")
    print("|---|---|---|---|---|---|---|---|---|")
    for codec, runs in results.items():
        every = " ".join(f"{one['seconds']:.3f}" for one in runs)
        against = f"{ring['float32'] / median[codec]:.2f}" if ring else ""
        print(f"| {codec} | {median[codec]:.3f} | {every} | {median['fp32'] / median[codec]:.2f} | {against} | "
              f"{statistics.median(one['in'] for one in runs):.1f} | {statistics.median(one['out'] for one in runs):.1f} | "
              f"{max(one['control_ms'] for one in runs):.1f} | {cpu_text(runs)} |")
    for dtype, seconds in ring.items():
        print(f"| gloo all-reduce, {dtype} | {seconds:.3f} | | {median['fp32'] / seconds:.2f} | | | | | |")
    best = min((codec for codec in results if codec not in FLOATS), key=median.get)
    note = f"{best}: {median[best]:.3f} s"
    figures.add(f"round_{rate}", median["fp32"] / median[best], [one["seconds"] for one in results[best]], note)
    if ring:
        figures.add(f"gloo_{rate}", ring["float32"] / median[best], note=note)
    else:
        figures.add_missing(f"gloo_{rate}", "PyTorch is not installed (Debian: python3-torch)")
    if free:
        shares = [min(one["in"] / free[0], one["out"] / free[1]) for one in results["fp32"]]
        figures.add(f"goodput_{rate}", statistics.median(shares), shares)
    else:
        figures.add_missing(f"goodput_{rate}", "iperf3 is not installed")
    figures.add(f"control_{rate}", max(one["control_ms"] for runs in results.values() for one in runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rates_mbit", default="100,1000")
    parser.add_argument("--codecs", default="fp32,fp16,ternary,ternary_2bit,ternary_trit5,ternary_ans")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", default="")
    parser.add_argument("--verbose", action="store_true", help="where the time of each run went")
    options = parser.parse_args()
    options.codecs = options.codecs.split(",")
    figures = targets.Figures()
    try:
        for rate in map(int, options.rates_mbit.split(",")):
            at_rate(rate, options, figures)
    except processes.Unavailable as why:
        print(f"skipped: {why}")
    figures.write(options.json)
    print("\n" + figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
