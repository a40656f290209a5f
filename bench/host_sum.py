#!/usr/bin/env python3
"""Measures what exchange.host_sum saves: four workers on two hosts (network namespaces) and a server on a third one,
with and without it. Counts the bytes of each host's link, with all headers, as its network device does, and compares the
hashes of the final weights.

  host_sum.py BIN_FOLDER [--codecs fp32,ternary,ternary_ans] [--rounds 40] [--json FILE]
"""
import argparse
import pathlib
import re
import sys

import processes
import targets

WORKERS, HOSTS = 4, 2


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
    """Returns the bytes a round that a host receives and sends, the hash of the weights, and the workers' counters."""
    place = Hosts()
    try:
        settings = [f"exchange.codec={codec}", f"exchange.host_sum={str(host_sum).lower()}", "train.compute=net",
                    f"train.steps={options.rounds}", "workers.threads=1", "train.optimizer.name=sgd"]
        counters, logs, _ = processes.run_job(place, options.bin, WORKERS, settings)
        links = place.link_bytes()
    finally:
        place.close()
    if options.verbose:
        print(logs)
    received, sent = (max(one[i] for one in links) / options.rounds for i in range(2))
    return received, sent, re.search(r"replicas agree on hash (\w+)", logs).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--codecs", default="fp32,ternary,ternary_ans")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    figures = targets.Figures()
    print("| codec | received, bytes a round | with host_sum | ratio | sent, bytes a round | with host_sum | ratio |")
    print("|---|---|---|---|---|---|---|")
    for codec in options.codecs.split(","):
        plain, summed = (measure(options, codec, host_sum) for host_sum in (False, True))
        ratios = [summed[i] / plain[i] for i in range(2)]
        print(f"| {codec} | {plain[0]:.0f} | {summed[0]:.0f} | {ratios[0]:.3f} | {plain[1]:.0f} | {summed[1]:.0f} | {ratios[1]:.3f} |")
        print(plain[2], summed[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
