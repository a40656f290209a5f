#!/usr/bin/env python3
"""Measures every target that this machine can measure, in one run. Prints the tables of each benchmark, then one table
of all targets with the required value, the goal, the theoretical limit and a verdict; writes the same as JSON.

  all.py BUILD_FOLDER [--only kernels,bytes,link,...] [--quick] [--out FOLDER]

A benchmark that fails does not stop the others. Exit code 1 if one has failed, or a target is missed.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import processes
import targets

HERE = pathlib.Path(__file__).resolve().parent


def machine():
    words = {line.split(":")[0].strip(): line.split(":", 1)[1].strip()
             for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line}
    flags = words.get("flags", "").split()
    return {"cpu": words.get("model name", platform.machine()), "cores": os.cpu_count(),
            "avx512": "avx512f" in flags, "kernel": platform.release()}


def parts(build, quick):
    """(name, command) of each benchmark; all take --json FILE."""
    bench, programs = build / "bench", build / "bin"
    fewer = {"link": ["--repeats", "1", "--rounds", "4", "--codecs", "fp32,fp16,ternary,ternary_ans"],
             "keys": ["--repeats", "1", "--rounds", "4"], "server_cpu": ["--repeats", "2"], "odsgd": ["--repeats", "1"],
             "networks": ["--rounds", "1"], "latency": ["--only", "lenet", "--rounds", "10"], "attacks": ["--securities", "loopback", "--seconds", "5"]} if quick else {}
    whole = [("kernels", [sys.executable, "-B", HERE / "kernels.py", bench]),
             ("bytes", [sys.executable, "-B", HERE / "bytes.py", programs]),
             ("server_cpu", [sys.executable, "-B", HERE / "server_cpu.py", programs, bench / "echo"]),
             ("link", [sys.executable, "-B", HERE / "link.py", programs]),
             ("keys", [sys.executable, "-B", HERE / "keys.py", programs]),
             ("latency", [sys.executable, "-B", HERE / "latency.py", programs, bench / "far_link", "--congestion", "cubic", "--idle", "1"]),
             ("odsgd", [sys.executable, "-B", HERE / "odsgd_overlap.py", programs]),
             ("stragglers", [sys.executable, "-B", HERE / "stragglers.py", programs]),
             ("networks", [sys.executable, "-B", HERE / "networks.py", programs, bench]),
             ("predict", [sys.executable, "-B", HERE / "predict_check.py", programs]),
             ("attacks", [sys.executable, "-B", HERE / "attacks.py", programs, bench / "attacker"]),
             ("simulator", [sys.executable, "-B", HERE / "simulator.py", bench])]
    return [(name, [*command, *fewer.get(name, [])]) for name, command in whole]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names of benchmarks, by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--out", type=pathlib.Path, default=processes.ROOT / "out/bench")
    options = parser.parse_args()
    chosen = parts(options.build, options.quick)
    unknown = set(filter(None, options.only.split(","))) - {name for name, _ in chosen}
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are "
                     f"{', '.join(name for name, _ in chosen)}")
    figures = targets.Figures()
    here = machine()
    print(f"{here['cores']} cores of {here['cpu']}{', AVX-512' if here['avx512'] else ''}; run alone on the machine\n")
    failed = []
    with tempfile.TemporaryDirectory(prefix="tern_bench.") as folder:
        for name, command in chosen:
            if options.only and name not in options.only.split(","):
                continue
            print(f"# {name}\n", flush=True)
            path = pathlib.Path(folder) / f"{name}.json"
            code = subprocess.run([*map(str, command), "--json", str(path)]).returncode
            print(flush=True)
            if path.exists():
                figures.rows.update(json.loads(path.read_text()))
            if code != 0:
                failed.append(f"{name} (exit code {code})")
    for key in targets.TARGETS if not options.only else ():
        if key not in figures.rows:
            figures.add_missing(key, "its benchmark could not run here, or ended before it")
    print("# All targets\n\n" + figures.table())
    if failed:
        print(f"\nbenchmarks that failed or missed a target: {', '.join(failed)}; what they printed above says why")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps({"machine": here, "targets": figures.rows}, indent=1) + "\n")
    print(f"\nwritten to {options.out / 'bench.json'}")
    return 1 if figures.missed() or failed else 0


if __name__ == "__main__":
    sys.exit(main())
