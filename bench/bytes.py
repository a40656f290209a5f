#!/usr/bin/env python3
"""Measures the bytes of a round by Tern's own counters: pushes and scalers up, sums and scalers down, including all
headers and framing. Each worker has 61.1 million independent Gaussian gradients, clipped at 2.5 sigma
(jobs/alexnet_shaped.yaml).

  bytes.py BIN_FOLDER [--rounds 2] [--json FILE]
"""
import argparse
import pathlib
import sys

import processes
import targets

JOB = pathlib.Path(__file__).resolve().parent / "jobs/alexnet_shaped.yaml"
CODECS = ("fp32", "ternary", "ternary_2bit", "ternary_trit5", "ternary_ans")


def measure_round(options, codec, workers):
    """Returns the bytes of one worker in a round, (up, down)."""
    counters, _, _ = processes.run_job(processes.Loopback(), options.bin, workers,
                                       [f"exchange.codec={codec}", f"train.steps={options.rounds}"], timeout_s=600,
                                       job=JOB)

    def sent(way, kinds):
        return sum(one["traffic"].get(kind, {}).get(way, 0) for one in counters for kind in kinds)

    each = workers * options.rounds
    return sent("bytes_out", ("push", "scale")) / each, sent("bytes_in", ("sum", "scaled")) / each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = targets.Figures()
    ratio = {}
    print("| workers | codec | up MB | own fp32 / it | down MB | own fp32 / it |\n|---|---|---|---|---|---|")
    for workers in (4, 8):
        own = measure_round(options, CODECS[0], workers)
        for codec in CODECS[1:]:
            up, down = measure_round(options, codec, workers)
            ratio[codec, workers] = own[0] / up, own[1] / down
            print(f"| {workers} | {codec} | {up / 1e6:.3f} | {own[0] / up:.2f} | {down / 1e6:.3f} | "
                  f"{own[1] / down:.2f} |", flush=True)
    figures.add("up_ternary", min(ratio["ternary", n][0] for n in (4, 8)))
    figures.add("up_ternary_ans", min(ratio["ternary_ans", n][0] for n in (4, 8)))
    for n in (4, 8):
        figures.add(f"down_planes_{n}", ratio["ternary", n][1])
        figures.add(f"down_ans_{n}", ratio["ternary_ans", n][1])
    figures.write(options.json)
    print("\n" + figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
