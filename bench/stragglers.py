#!/usr/bin/env python3
"""Measures how asynchronous algorithms and backup workers cope with a straggler: one of four workers is three times
slower. Compute is a calibrated wait. A rate is the steps per second over each worker's own training time; a worker's
own rate is that of its compute alone.

  stragglers.py BIN_FOLDER [--wait_ms 100] [--steps 100]
"""
import argparse
import pathlib
import re
import sys

import processes
import targets

WORKERS = 4
SLOW = 3  # rank of the slow worker
OWN = ["train.optimizer.name=sgd", "exchange.codec=ternary", "exchange.scaler=per_worker"]


def own_rate(counters):
    return counters["rounds"] / counters["compute_s"]


def measure(options, settings, slow):
    """Returns (rate of all workers together, own rates of the workers, log)."""
    counters, log, _ = processes.run_job(
        processes.Loopback(), options.bin, WORKERS,
        [*settings, f"train.steps={options.steps}", f"train.compute_wait_ms={options.wait_ms}"], {SLOW: slow},
        timeout_s=600)
    return sum(one["rounds"] / one["train_s"] for one in counters), [own_rate(one) for one in counters], log


def seconds_at(log, text):
    """Returns the time, in seconds of the day, of the first log line that contains the text."""
    found = re.search(rf"^\w\d{{8}} (\d+):(\d+):([\d.]+) .*{text}", log, re.M)
    return None if found is None else 3600 * int(found[1]) + 60 * int(found[2]) + float(found[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--wait_ms", type=float, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    for_good = [f"train.compute_wait_ms={3 * options.wait_ms}"]
    for_a_while = ["train.compute_slow_factor=3", "train.compute_slow_from=30", "train.compute_slow_steps=5"]
    rows, missed = [], False

    def add_row(name, rate, of, bar, what):
        nonlocal missed
        missed |= rate / of < bar
        rows.append(f"| {name} | {rate:.2f} | {of:.2f} ({what}) | {rate / of:.3f} | {bar} |")

    rate, own, _ = measure(options, ["train.algorithm=asgd", *OWN], for_good)
    add_row("asgd, slow for good", rate, sum(own), 0.95, "sum of the own rates")
    figures = targets.Figures()
    figures.add("asgd_straggler", rate / sum(own))
    rate, own, _ = measure(options, ["train.algorithm=ssp", *OWN], for_good)
    add_row("ssp, slow for good", rate, 4 * min(own), 0.95, "four times the slowest")
    rate, own, _ = measure(options, ["train.algorithm=ssp", "train.ssp.staleness=15", *OWN], for_a_while)
    add_row("ssp, slow for a while", rate, sum(own), 0.95, "sum of the own rates")
    rate, own, log = measure(options, ["train.ssgd.backup_workers=1", "exchange.codec=ternary"], for_good)
    fast = sorted(own)[1:]
    add_row("ssgd, 1 backup worker", rate * 3 / 4, 3 * min(fast), 0.9, "the three fast ones")
    named = re.search(r"worker 3 .*is slow.*", log)
    rounds = 0
    if named:
        seconds = seconds_at(log, "worker 3 .*is slow") - seconds_at(log, "all 4 workers are here")
        rounds = seconds * rate / WORKERS
    print(f"{WORKERS} workers, {options.wait_ms:.0f} ms a step, rank {SLOW} three times that\n")
    print("| case | steps/s | of | share | asked |\n|---|---|---|---|---|")
    print("\n".join(rows))
    print(f"\nthe log names it: {named.group(0) if named else 'NO'}, after {rounds:.1f} rounds (asked: 20)")
    figures.write(options.json)
    return 1 if missed or not named or rounds > 20 else 0


if __name__ == "__main__":
    sys.exit(main())
