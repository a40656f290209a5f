#!/usr/bin/env python3
"""Measures what tern_train costs beside the wire and hides behind the backward pass, between two processes of PyTorch.

  overlap   16 equal tensors whose backward pass waits (no CPU) for as long as their exchange takes: a step against the longer
            of the two
  bytes     bytes by Tern's own counters and 66 for each packet, against those that the interface of worker 0 has counted
  resnet18  a step of ResNet-18 with 32 images a process, over Tern with fp32 and over gloo, on loopback
  fp32      the exchange of 61.1 million parameters, over Tern with fp32 and one server and over gloo, on loopback

  any_model_step.py BUILD_FOLDER [--parts overlap,bytes,resnet18,fp32] [--repeats 3]

BUILD_FOLDER has bin/tern_server and lib/libtern.so. The Python that runs this needs PyTorch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import processes

HERE = pathlib.Path(__file__).resolve().parent
PACKET_BYTES = 66  # the headers of Ethernet, IP and TCP
PARTS = "overlap,bytes,resnet18,fp32"


def job_file(place, folder, codec, chunk):
    path = pathlib.Path(folder) / "job.yaml"
    path.write_text(f"""name: any_model_step
output_dir: {folder}
security: none
servers: [{{address: "{place.server}:7656"}}]
workers: {{count: 2}}
train: {{compute: client}}
exchange: {{codec: {codec}, chunk_kib: {chunk}, bucket_kib: {chunk}, credit_kib: 4096}}
""")
    return path


def run(place, options, program, method, *words, codec="fp32", chunk=256):
    """Runs two processes of any_model_step_worker.py. Returns what the first printed, parsed."""
    interface = "lo" if isinstance(place, processes.Loopback) else "eth0"
    with tempfile.TemporaryDirectory() as folder:
        job, server = "", None
        if method == "tern":
            job = job_file(place, folder, codec, chunk)
            server = subprocess.Popen([*place.prefix(0), options.build / "bin/tern_server", "--job", job, "--rank", "0"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        environment = dict(os.environ, GLOO_SOCKET_IFNAME=interface, TERN_LIBRARY=str(options.build / "lib/libtern.so"),
                           PYTHONPATH=str(HERE.parent / "python"), OMP_NUM_THREADS="1")
        first = 1 if job else 0
        workers = [subprocess.Popen([*place.prefix(first + rank), sys.executable, "-B", HERE / "any_model_step_worker.py", program,
                                     method, str(rank), place.server, str(job), *map(str, words)], stdout=subprocess.PIPE, text=True,
                                    env=environment) for rank in range(2)]
        outputs = [worker.communicate()[0] for worker in workers]
        if server is not None:
            server.wait()
        if any(worker.returncode for worker in workers):
            raise RuntimeError(f"{program} over {method} failed")
    return json.loads(outputs[0])


# Codec, elements a tensor, chunk in KiB as configs/reference.yaml advises, Mbit/s each way. At the highest rate ternary_ans
# is limited by the cores, at the lowest by the link.
OVERLAPS = (("fp32", 1 << 18, 256, 200), ("ternary", 1 << 21, 1024, 50), ("ternary_ans", 1 << 21, 1024, 50),
            ("ternary_ans", 1 << 21, 1024, 200))


def overlap(options):
    print("\n## overlap: 16 tensors\n")
    print("| codec | Mbit/s each way | MB a tensor | exchange alone, s | backward alone, s | both, s | both / the longer |\n"
          "|---|---|---|---|---|---|---|")
    for codec, elements, chunk, rate_mbit in OVERLAPS:
        place = processes.Namespaces(2, rate_mbit)
        try:
            alone = statistics.median(run(place, options, "overlap", "tern", elements, 0, options.repeats, codec=codec,
                                          chunk=chunk)["seconds"])
            both = run(place, options, "overlap", "tern", elements, alone, options.repeats, codec=codec, chunk=chunk)
            step = statistics.median(both["seconds"])
            waited = statistics.median(both["waited"])
            print(f"| {codec} | {rate_mbit} | {4 * elements >> 20} | {alone:.3f} | {waited:.3f} | {step:.3f} | "
                  f"{step / max(alone, waited):.2f} |", flush=True)
        finally:
            place.close()


def count_bytes(options):
    print("\n## bytes of worker 0 in 10 steps of 4 million parameters\n")
    print("| codec | way | Tern's counters + 66 a packet | interface | ratio |\n|---|---|---|---|---|")
    place = processes.Namespaces(2, 1000)
    try:
        for codec in ("fp32", "ternary_ans"):
            seen = run(place, options, "bytes", "tern", 10, codec=codec)
            for way in ("out", "in"):
                own = seen[f"own_{way}"] + PACKET_BYTES * seen[f"packets_{way}"]
                print(f"| {codec} | {way} | {own} | {seen[f'bytes_{way}']} | {own / seen[f'bytes_{way}']:.4f} |", flush=True)
    finally:
        place.close()


def beside_gloo(options, program, title):
    print(f"\n## {title}\n\n| method | a step, s | (all) | it / gloo |\n|---|---|---|---|")
    seconds = {"gloo": [], "tern": []}
    for _ in range(options.repeats):
        for method, times in seconds.items():
            times += run(processes.Loopback(7656), options, program, method)["seconds"]
    gloo = statistics.median(seconds["gloo"])
    for method, times in seconds.items():
        one = statistics.median(times)
        print(f"| {method} | {one:.3f} | {' '.join(f'{each:.3f}' for each in times)} | {one / gloo:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.build = options.build.resolve()
    parts = {"overlap": overlap, "bytes": count_bytes,
             "resnet18": lambda o: beside_gloo(o, "resnet18", "ResNet-18, 32 images a process, fp32, loopback"),
             "fp32": lambda o: beside_gloo(o, "large", "61.1 million parameters, fp32, one server, loopback")}
    for part in options.parts.split(","):
        try:
            parts[part](options)
        except processes.Unavailable as why:
            print(f"{part} skipped: {why}")


if __name__ == "__main__":
    main()
