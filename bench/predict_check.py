#!/usr/bin/env python3
"""Compares forecasts of `tern forecast` with measured steps: three models, 100 Mbit/s and 1 Gbit/s, 1, 2 and 4 workers,
fp32 and ternary. The server and each worker have their own network namespace, tc limits the server's link in both
directions, and a calibrated wait replaces the compute.

  predict_check.py BIN_FOLDER [--models lenet,cifarnet,dense] [--rates 100,1000] [--workers 1,2,4] [--keep FILE]

Every forecast is made before its measurement, from a profile of this machine. --keep adds the cases to those in FILE
(JSON) and prints a table of all of them, so the check can be run in parts.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import processes
import targets

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
CODECS = ("fp32", "ternary")
BAR = 0.15
MEASURE_S = 10  # approximate duration of the training in a run


def list_of(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def tern(options, *words):
    done = subprocess.run([options.bin / "tern", "forecast", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"tern forecast ended with {done.returncode}: {done.stderr}")
    return done.stdout


def burst_kib(place):
    """Returns the burst size of the server's link, as tc has set it."""
    text = processes.call(*place.prefix(0), "tc", "qdisc", "show", "dev", "eth0")
    number, unit = re.search(r"burst (\d+)(b|Kb|Mb)", text).groups()
    return int(number) * {"b": 1 / 1024, "Kb": 1, "Mb": 1024}[unit]


def predicted(options, folder, model, profile, rate, workers, burst):
    """Returns the forecast as {codec: row}."""
    rows = pathlib.Path(folder) / "rows.csv"
    # A wait does not depend on the batch size; keep the job's batch per worker.
    tern(options, JOBS / f"predict_{model}.yaml", "--profile", profile, "--link_mbit", rate, "--worker_link_mbit", 0,
         "--burst_kib", burst, "--cores_shared", os.cpu_count(), "--workers", workers, "--codecs", ",".join(CODECS),
         "--csv", rows)
    with open(rows, encoding="utf-8") as file:
        return {row["codec"]: row for row in csv.DictReader(file) if row["scaling"] == "weak"}


def measured(options, place, model, workers, codec, expected_s):
    """Returns the median step in ms over the repetitions, and the counters of the last one."""
    steps = max(5 if expected_s > 3 else 12, min(100, round(MEASURE_S / expected_s)))
    times = []
    for _ in range(options.repeats):
        counters, _, _ = processes.run_job(
            place, options.bin, workers,
            [f"exchange.codec={codec}", f"train.steps={steps}", f"train.batch_total={64 * workers}",
             f"train.compute_wait_ms={options.wait_ms[model]}"], job=JOBS / f"predict_{model}.yaml")
        times.append(1000 * max(one["train_s"] / one["rounds"] for one in counters))
    return statistics.median(times), steps, counters


def wait_of(model):
    return float(re.search(r"compute_wait_ms: ([\d.]+)", (JOBS / f"predict_{model}.yaml").read_text()).group(1))


def run_cases(options, print_case):
    with tempfile.TemporaryDirectory(prefix="predict_check.") as folder:
        for model in options.models:
            profile = pathlib.Path(folder) / f"{model}.json"
            tern(options, JOBS / f"predict_{model}.yaml", "--codecs", ",".join(CODECS), "--workers", 1,
                 "--save_profile", profile)
            for rate in options.rates:
                for workers in options.workers:
                    place = processes.Namespaces(workers, rate)
                    try:
                        rows = predicted(options, folder, model, profile, rate, workers, burst_kib(place))
                        for codec in CODECS:
                            expected = float(rows[codec]["step_ms"])
                            step, steps, counters = measured(options, place, model, workers, codec, expected / 1000)
                            print_case({"model": model, "rate": rate, "workers": workers, "codec": codec,
                                  "wait_ms": options.wait_ms[model], "predicted_ms": expected, "measured_ms": step,
                                  "steps": steps, "predicted": rows[codec], "counters": counters[0]})
                    finally:
                        place.close()


def table(cases):
    lines = ["| model | wait ms | Mbit/s | workers | codec | measured ms | predicted ms | error |", "|" + "---|" * 8]
    for case in cases:
        error = case["predicted_ms"] / case["measured_ms"] - 1
        mark = "" if abs(error) <= BAR else " **over**"
        lines.append(f"| {case['model']} | {case['wait_ms']:g} | {case['rate']} | {case['workers']} | "
                     f"{case['codec']} | {case['measured_ms']:.1f} | {case['predicted_ms']:.1f} | "
                     f"{100 * error:+.1f} %{mark} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--models", type=list_of(str), default=["lenet", "cifarnet", "dense"])
    parser.add_argument("--rates", type=list_of(int), default=[100, 1000])
    parser.add_argument("--workers", type=list_of(int), default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    options.wait_ms = {model: wait_of(model) for model in options.models}
    cases = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else []

    def name_of(case):
        return case["model"], case["rate"], case["workers"], case["codec"]

    def print_case(case):
        print(f"{' '.join(map(str, name_of(case)))}: measured {case['measured_ms']:.1f} ms, "
              f"predicted {case['predicted_ms']:.1f} ms", file=sys.stderr, flush=True)
        cases[:] = [one for one in cases if name_of(one) != name_of(case)] + [case]
        if options.keep:
            options.keep.write_text(json.dumps(cases, indent=1))

    try:
        run_cases(options, print_case)
    except processes.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    order = ["lenet", "cifarnet", "dense"]
    cases.sort(key=lambda case: (order.index(case["model"]), case["rate"], case["workers"], case["codec"]))
    print(table(cases))
    errors = [abs(case["predicted_ms"] / case["measured_ms"] - 1) for case in cases]
    over = sum(error > BAR for error in errors)
    print(f"\n{len(cases)} cases; asked: each within {100 * BAR:.0f} %: "
          f"{'met' if over == 0 else f'NOT met in {over}'}; the largest {100 * max(errors):.1f} %, "
          f"the mean {100 * statistics.mean(errors):.1f} %")
    figures = targets.Figures()
    figures.add("predict_error", 100 * max(errors), [100 * error for error in errors], f"{len(cases)} cases")
    figures.write(options.json)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
