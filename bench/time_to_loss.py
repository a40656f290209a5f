#!/usr/bin/env python3
"""How long training takes to a test loss, and how many bytes, between two workers in network namespaces whose links tc limits: Tern
(with a server in a third) beside PyTorch's DistributedDataParallel on gloo, with its hooks for fp16 and PowerSGD. The loss to reach
is 1.05 times that at the end of Tern's fp32 with seed 101. Times include the evaluations, which the workers divide among them on both
sides. Run it alone on the machine. Finished runs are kept in the record, so it may be stopped at any time, and continues later.

  time_to_loss.py FOLDER_OF_PROGRAMS CIFAR10_DIR --record FILE [--rate_mbit 100] [--nets resnet20,cifarnet] [--minutes 120] [--table_only]
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import processes

ROOT = processes.ROOT
WORKERS, SEEDS, PILOT_SEED, PILOT_MBIT, SHARE = 2, (1, 2, 3), 101, 10000, 1.05
EPOCH_STEPS, EVERY, IMAGES = 391, 96, 2000  # steps between evaluations (a multiple of p), and the test images of each
EPOCHS = {"resnet20": 4, "cifarnet": 6}
SETTINGS = {"resnet20": (), "cifarnet": ("train.schedule.learning_rate=0.002", "train.weight_decay=")}  # as in cifar10.py
BASE = "tern: ssgd, fp32"
TERN = {
    BASE: ("exchange.codec=fp32",),
    "tern: ssgd, ternary_ans": ("exchange.codec=ternary_ans",),
    "tern: odsgd, ternary": ("exchange.codec=ternary", "train.algorithm=odsgd"),
    "tern: pqasgd, p = 8, ternary": ("exchange.codec=ternary", "train.algorithm=pqasgd", "train.pqasgd.p=8"),
}
PYTORCH = {"pytorch: fp32": "gloo", "pytorch: fp16": "gloo_fp16", "pytorch: PowerSGD, rank 4": "powersgd"}
PEER = "pytorch: fp16"  # what a user of PyTorch would do first
FIRST = re.compile(r"^.(\d{8} [\d:.]+).*takes part in the job", re.M)
EVALUATED = re.compile(r"^.(\d{8} [\d:.]+).*after step (\d+): test accuracy \S+ of .* test loss ([^\s,]+)", re.M)


def moment(text):
    return datetime.datetime.strptime(text, "%Y%m%d %H:%M:%S.%f")


def job_of(net):
    return ROOT / f"configs/cifar10_{net}.yaml"


def settings_of(options, net, seed):
    return [*SETTINGS[net], f"train.epochs={EPOCHS[net]}", f"seed={seed}", f"data.dir={options.data.resolve()}"]


def tern(place, options, net, settings, seed):
    """Returns the curve [[seconds, step, test loss]]."""
    more = ["train.compute=net", "data.train_limit=0", f"data.test_limit={IMAGES}", f"evaluation.every_steps={EVERY}",
            "evaluation.ema_decay=0", *settings_of(options, net, seed), *settings]
    _, logs, _ = processes.run_job(place, options.programs, WORKERS, more, timeout_s=7200, job=job_of(net))
    begin = min(moment(text) for text in FIRST.findall(logs))
    points = {int(step): [(moment(text) - begin).total_seconds(), int(step), float(loss)] for text, step, loss in EVALUATED.findall(logs)}
    return [points[step] for step in sorted(points)]


def pytorch(place, options, net, method, seed):
    words = [method, "{rank}", place.address(0), job_of(net), options.programs / "tern", EPOCHS[net] * EPOCH_STEPS, EVERY, IMAGES,
             *settings_of(options, net, seed)]
    running = [subprocess.Popen([*place.prefix(rank), sys.executable, "-B", ROOT / "bench/time_to_loss_worker.py",
                                 *(str(rank) if word == "{rank}" else str(word) for word in words)], stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, GLOO_SOCKET_IFNAME="eth0")) for rank in range(WORKERS)]
    texts = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(f"{method} failed")
    return [json.loads(line) for line in texts[0].splitlines()]


def gigabytes(place):
    """Returns what has gone in and out of the first namespace: the server's, or that of PyTorch's rank 0."""
    names = ("rx_bytes", "tx_bytes")
    return [int(processes.call(*place.prefix(0), "cat", f"/sys/class/net/eth0/statistics/{name}")) / 1e9 for name in names]


def run(options, net, arm, seed):
    # The pilot's loss depends on no link.
    place = processes.Namespaces(WORKERS, PILOT_MBIT if seed == PILOT_SEED else options.rate_mbit, limits_all=True)
    try:
        curve = tern(place, options, net, TERN[arm], seed) if arm in TERN else pytorch(place, options, net, PYTORCH[arm], seed)
        in_gb, out_gb = gigabytes(place)
        return {"curve": curve, "in_gb": in_gb, "out_gb": out_gb}
    finally:
        place.close()


class Record:
    def __init__(self, options):
        self.options, self.path = options, options.record
        self.runs = json.loads(self.path.read_text()) if self.path.exists() else {}

    def key(self, net, arm, seed):
        return f"{net} | {self.options.rate_mbit} Mbit/s | {arm} | {seed}"

    def keep(self, key, figures):
        self.runs[key] = figures
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(self.runs.items()))
        whole = self.path.with_name(self.path.name + ".new")  # a run that is stopped here keeps the earlier record
        whole.write_text("{\n" + lines + "\n}\n")
        whole.replace(self.path)

    def todo(self):
        wanted = [(net, BASE, PILOT_SEED) for net in self.options.nets]
        wanted += [(net, arm, seed) for seed in SEEDS for net in self.options.nets for arm in (*TERN, *PYTORCH)]
        return [one for one in wanted if self.key(*one) not in self.runs]

    def target(self, net):
        """Returns the loss to reach; None before the pilot has run."""
        pilot = self.runs.get(self.key(net, BASE, PILOT_SEED))
        return SHARE * pilot["curve"][-1][2] if pilot else None

    def reached(self, net, arm, seed):
        """Returns (seconds, GB in, GB out) to the loss, between two evaluations by its logarithm; None if the run does not reach it."""
        figures = self.runs.get(self.key(net, arm, seed))
        before = None
        for point in figures["curve"] if figures else ():
            if point[2] <= self.target(net):
                share = math.log(before[2] / self.target(net)) / math.log(before[2] / point[2]) if before else 1
                seconds, step = (a + share * (b - a) for a, b in zip((before or point)[:2], point[:2]))
                return seconds, *(figures[way] * step / figures["curve"][-1][1] for way in ("in_gb", "out_gb"))
            before = point
        return None


def table(record, options):
    lines = []
    for net in options.nets:
        if record.target(net) is None:
            continue
        rows = {arm: [record.reached(net, arm, seed) for seed in SEEDS if record.key(net, arm, seed) in record.runs] for arm in (*TERN, *PYTORCH)}
        median = {arm: statistics.median(one[0] for one in found) for arm, found in rows.items() if found and None not in found}
        lines += [f"\n## {net} to a test loss of {record.target(net):.3f}, {options.rate_mbit} Mbit/s\n",
                  f"| arm | runs | s, median | all | {PEER} / it | GB in, out |\n|---|---|---|---|---|---|"]
        for arm, found in rows.items():
            hits = [one for one in found if one]
            every = " ".join(f"{one[0]:.0f}" if one else "-" for one in found)
            against = f"{median[PEER] / median[arm]:.2f}" if arm in median and PEER in median else "-"
            gb = ", ".join(f"{statistics.median(one[way] for one in hits):.3f}" for way in (1, 2)) if hits else "-"
            lines.append(f"| {arm} | {len(found)} | {f'{median[arm]:.0f}' if arm in median else '-'} | {every} | {against} | {gb} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path, required=True)
    parser.add_argument("--rate_mbit", type=int, default=100)
    parser.add_argument("--nets", type=lambda text: text.split(","), default=list(EPOCHS))
    parser.add_argument("--minutes", type=float, default=120, help="starts no run after this time")
    parser.add_argument("--table_only", action="store_true")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    record, end = Record(options), time.monotonic() + 60 * options.minutes
    try:
        while (todo := record.todo()) and not options.table_only and time.monotonic() < end:
            begin = time.monotonic()
            record.keep(record.key(*todo[0]), run(options, *todo[0]))
            print(f"{record.key(*todo[0])}: {time.monotonic() - begin:.0f} s, {len(todo) - 1} runs left", file=sys.stderr, flush=True)
    except processes.Unavailable as why:
        print(f"skipped: {why}")
    print(f"{len(record.todo())} runs left" + table(record, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
