#!/usr/bin/env python3
"""Compares training steps of the papers' networks between Tern and PyTorch on the same cores, alternating, with one
thread and two. PyTorch runs with both memory formats, and the faster one counts. Times are medians of single steps.

  networks.py BIN_FOLDER BENCH_FOLDER [--models lenet,...] [--rounds N] [--json FILE]

Debian's python3-torch (1.13.1, with the same oneDNN; matrix products use OpenBLAS if libopenblas0 is installed) runs in
its own interpreter. TERN_NEWEST_TORCH names the interpreter of another PyTorch that is measured as well.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import processes
import targets

HERE = pathlib.Path(__file__).resolve().parent

# Model, samples per step of one worker, steps per run.
NETWORKS = [("lenet", 64, 40), ("resnet20", 128, 4), ("mobilenet", 16, 3), ("resnet50", 8, 2), ("alexnet", 32, 3), ("vgg16", 4, 2)]
LAYOUTS = ("plain", "channels_last")


class Bench:
    def __init__(self, programs, bench, folder, rounds):
        self.programs, self.bench, self.folder, self.rounds = programs, bench, folder, rounds
        self.has_bf16 = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()  # oneDNN needs it
        self.pythons = {"torch": processes.python_with_torch()}
        if os.environ.get("TERN_NEWEST_TORCH"):
            self.pythons["newest torch"] = os.environ["TERN_NEWEST_TORCH"]

    def output(self, *words, threads=1):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        environment.pop("OPENBLAS_CORETYPE", None)  # let OpenBLAS choose its kernels for this CPU
        return subprocess.run(list(map(str, words)), check=True, text=True, stdout=subprocess.PIPE, env=environment).stdout

    def versions(self):
        ask = "import torch; print(torch.__version__)"
        return {peer: self.output(python, "-c", ask).strip() for peer, python in self.pythons.items()}

    def peak(self, threads):
        return max(float(self.output(self.bench / "peak", threads)) for _ in range(3))

    def operations(self, model, batch):
        """Returns the operations of a training step: three times those of a direct forward pass. Winograd's algorithm
        needs fewer, so a step may seem to exceed the peak."""
        text = self.output(self.programs / "tern", "model", model)
        found = re.search(r"([\d.]+) million multiplications and additions", text)
        return 3 * batch * float(found[1]) * 1e6

    def steps(self, model, batch, steps, threads):
        """Returns the seconds of steps, by program."""
        net = self.folder / f"{model}.json"
        net.write_text(self.output(self.programs / "tern", "model", model, "--json"))
        ways = {("tern", "fp32"): (self.bench / "net_steps", model, batch, threads, steps, "fp32")}
        if self.has_bf16:
            ways["tern", "bf16"] = (self.bench / "net_steps", model, batch, threads, steps, "bf16")
        for peer, python in self.pythons.items():
            for layout in LAYOUTS:
                ways[peer, layout] = (python, "-B", HERE / "torch_steps.py", net, batch, threads, steps, layout)
        times = {way: [] for way in ways}
        for _ in range(self.rounds):
            for way, command in ways.items():
                times[way] += json.loads(self.output(*command, threads=threads))["seconds"]
        return {way: statistics.median(seconds) for way, seconds in times.items()}


def measure(bench, models, figures):
    peaks = {threads: bench.peak(threads) for threads in (1, 2)}
    for threads, peak in peaks.items():
        print(f"{threads} threads: {peak / 1e9:.0f} GFLOP/s at most")
    for peer, version in bench.versions().items():
        print(f"{peer}: {version}")
    print("GFLOP/s: three times the operations of a direct forward pass; Winograd's algorithm needs fewer")
    print("\n| network | batch | threads | Tern, ms | bf16 | GFLOP/s (of the peak) | peer | plain | channels last | peer / Tern |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    worst = {}
    for model, batch, steps in NETWORKS:
        if model not in models:
            continue
        for threads in (1, 2):
            times = bench.steps(model, batch, steps, threads)
            own = times["tern", "fp32"]
            bf16 = f"{times['tern', 'bf16'] * 1e3:.4g}" if bench.has_bf16 else "-"
            rate = bench.operations(model, batch) / own
            for peer in bench.pythons:
                both = [times[peer, layout] for layout in LAYOUTS]
                ratio = min(both) / own
                print(f"| {model} | {batch} | {threads} | {own * 1e3:.4g} | {bf16} | {rate / 1e9:.0f} "
                      f"({rate / peaks[threads]:.0%}) | {peer} | {both[0] * 1e3:.4g} | {both[1] * 1e3:.4g} | {ratio:.2f} |", flush=True)
                worst.setdefault((peer, model), []).append(ratio)
    for (peer, model), ratios in worst.items():
        key = f"step_{model}" if peer == "torch" else f"step_newest_{model}"
        figures.add(key, min(ratios), ratios, "the worse of one thread and two")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(model for model, _, _ in NETWORKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    figures = targets.Figures()
    if processes.python_with_torch() is None:
        print("PyTorch is not installed (Debian: python3-torch, libopenblas0-pthread): nothing to compare with")
        return
    with tempfile.TemporaryDirectory(prefix="tern_networks.") as folder:
        measure(Bench(options.programs, options.bench, pathlib.Path(folder), options.rounds), options.models.split(","), figures)
    figures.write(options.json)
    print("\n" + figures.table())


if __name__ == "__main__":
    main()
