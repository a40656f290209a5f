#!/usr/bin/env python3
"""The throughput of each codec beside ternary's: LeNet on MNIST, 4 workers, total batch 64, as in every_codec.py. The rounds
go through all rows in turn, because other programs may share the machine. CPU seconds are those of all processes of a run,
with its start and its evaluation. Prints a table in Markdown (bench/results/codecs_speed.md).

  codecs_speed.py FOLDER_OF_PROGRAMS MNIST_DIR [--steps 600] [--rounds 5] [--only qsgd] [--other FOLDER_OF_OTHER_PROGRAMS]
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/experiments"))
import every_codec  # noqa: E402

BASE = ("ssgd", "ternary")
GOAL, JUDGED = 0.8, ("qsgd", "onebit", "topk")  # the least share of ternary's samples/s, and whose


def run(programs, key, options):
    """Runs a row's job once. Returns (samples/s, CPU seconds)."""
    with tempfile.TemporaryDirectory(prefix="tern_bench.") as folder:
        settings = [f"exchange.codec={key[1]}", *every_codec.CASES[key].split(), "workers.count=4",
                    f"data.dir={options.data.resolve()}", f"train.steps={options.steps}", f"output_dir={folder}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(programs.resolve() / "tern"), "run", str(ROOT / "configs/lenet_mnist.yaml"), "--free_ports",
                        *(word for setting in settings for word in ("--set", setting))],
                       check=True, capture_output=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        summary = json.loads((pathlib.Path(folder) / "server.0.json").read_text())
        return summary["samples_per_s"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--other", type=pathlib.Path, help="programs of another commit, measured beside these")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="only the rows of these codecs")
    options = parser.parse_args()
    wanted = options.only or JUDGED
    keys = [BASE, *(key for key in every_codec.CASES if key[0].startswith("ssgd") and key[1] in wanted and key != BASE)]
    folders = [folder for folder in (options.other, options.programs) if folder]
    results = {(key, folder): [] for key in keys for folder in folders}
    for _ in range(options.rounds):
        for key, folder in results:
            results[key, folder].append(run(folder, key, options))
            print(key, folder, results[key, folder][-1], file=sys.stderr, flush=True)
    print("| row | programs | samples/s | of ternary's | CPU s | of ternary's |\n|---|---|---|---|---|---|")
    missed = False
    for (key, folder), values in results.items():
        speed, cpu = (statistics.median(value[i] for value in values) for i in (0, 1))
        base_speed, base_cpu = (statistics.median(value[i] for value in results[BASE, folder]) for i in (0, 1))
        missed |= folder == options.programs and key[1] in JUDGED and speed < GOAL * base_speed
        print(f"| {':'.join(key)} | {folder} | {speed:.0f} | {speed / base_speed:.2f} | {cpu:.1f} | {cpu / base_cpu:.2f} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
