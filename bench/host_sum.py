#!/usr/bin/env python3
"""Measures what exchange.host_sum saves: four workers on two hosts (network namespaces) and a server on a third one,
with and without it. Counts the bytes of each host's link, with all headers, as its network device does, and compares the
hashes of the final weights.

  host_sum.py BIN_FOLDER [--codecs fp32,ternary,...] [--compute wait|net] [--rounds 100]

wait: Gaussian gradients (of LeNet's size); net: LeNet on Fashion-MNIST.
"""
import argparse
import pathlib
import re
import sys

import processes

WORKERS, HOSTS = 4, 2
# By codec: which share of the bytes that a host sends without host_sum it may send with it, with Gaussian gradients.
EXPECTED = {"fp32": 0.52, "ternary": 1.3, "ternary_ans": 0.75, "qsgd_shared": 0.7, "qsgd_shared_ans": 0.75}


class Hosts(processes.Namespaces):
    """Namespace 0 is the server's; the workers are on the others, in order."""

    def __init__(self):
        super().__init__(HOSTS, 10000)

    def prefix(self, number):
        return super().prefix(0 if number == 0 else 1 + (number - 1) * HOSTS // WORKERS)

    def link_bytes(self):
        """The bytes that each host has received, and sent, so far. The outer end of a link sends what the host receives."""
        def count(name, what):
            return int(pathlib.Path(f"/sys/class/net/{name}o/statistics/{what}_bytes").read_text())
        return [(count(name, "tx"), count(name, "rx")) for name in self.names[1:]]


def measure(options, codec, host_sum):
    """Returns the bytes a round that a host receives and sends, and the hash of the weights."""
    place = Hosts()
    try:
        settings = [f"exchange.codec={codec}", f"exchange.host_sum={str(host_sum).lower()}", f"train.compute={options.compute}", "train.compute_wait_ms=5",
                    f"train.steps={options.rounds}", "workers.threads=1", "train.optimizer.name=sgd"]
        _, logs, _ = processes.run_job(place, options.bin, WORKERS, settings)
        links = place.link_bytes()
    finally:
        place.close()
    received, sent = (max(one[i] for one in links) / options.rounds for i in range(2))
    return received, sent, re.search(r"replicas agree on hash (\w+)", logs).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--codecs", default=",".join(EXPECTED))
    parser.add_argument("--compute", choices=("wait", "net"), default="wait")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    print("| codec | a host receives, bytes a round | with host_sum | ratio | sends | with host_sum | ratio | same weights |")
    print("|---|---|---|---|---|---|---|---|")
    missed = []
    for codec in options.codecs.split(","):
        plain, summed = (measure(options, codec, host_sum) for host_sum in (False, True))
        ratios = [summed[i] / plain[i] for i in range(2)]
        same = plain[2] == summed[2]
        print(f"| {codec} | {plain[0]:.0f} | {summed[0]:.0f} | {ratios[0]:.3f} | {plain[1]:.0f} | {summed[1]:.0f} | "
              f"{ratios[1]:.3f} | {'yes' if same else 'no'} |", flush=True)
        sends_too_much = options.compute == "wait" and ratios[1] > EXPECTED[codec]
        if ratios[0] > 0.52 or sends_too_much or (codec != "fp32" and not same):
            missed.append(codec)
    if missed:
        print(f"missed: {', '.join(missed)}; expected of bytes received at most 0.52, of bytes sent {EXPECTED}, and the same "
              "weights except with fp32")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
