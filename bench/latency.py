#!/usr/bin/env python3
"""Measures rounds between sites far apart: two workers and a server in network namespaces, and between them far_link, which
delays every packet and limits the rate, so that TCP itself sees the round trip. Compares a round of LeNet with the arithmetic
of its round trips and bytes, and rounds of 20 million parameters (jobs/far.yaml) with the rate of the link.

  latency.py BIN_FOLDER FAR_LINK [--rate_mbit 100] [--delay_ms 100] [--queue_ms 100] [--idle 0,1] [--json FILE]
"""
import argparse
import pathlib
import re
import subprocess
import sys

import processes
import targets

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = 2
LENET, FAR = 431_080, 20_037_642
# Ethernet carries 1448 bytes of a TCP stream in 1538.
PAYLOAD_SHARE = 1448 / 1538
# Switches the checksum and segmentation offload of eth0 off (ioctl SIOCETHTOOL), so that packets are those of a real link.
OFFLOAD_OFF = """
import ctypes, fcntl, socket, struct
for command in (0x15, 0x17, 0x1f, 0x24):
    value = ctypes.create_string_buffer(struct.pack("II", command, 0))
    fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sQ16x", b"eth0", ctypes.addressof(value)))
"""
SINK = """
import socket, time
listener = socket.create_server(("", 5001))
print("listens", flush=True)
stream = listener.accept()[0]
marks, total, buffer = [], 0, bytearray(1 << 20)
while size := stream.recv_into(buffer):
    total += size
    marks.append((time.monotonic(), total))
half = next(mark for mark in marks if mark[1] >= total / 2)
rate = lambda a, b: 8e-6 * (b[1] - a[1]) / (b[0] - a[0])
print(rate(marks[0], marks[-1]), rate(half, marks[-1]))
"""
SOURCE = """
import socket, sys
stream = socket.create_connection((sys.argv[1], 5001))
for _ in range(80): stream.sendall(bytes(1 << 20))
stream.shutdown(socket.SHUT_WR)
stream.recv(1)
"""


class FarSites(processes.Namespaces):
    """The server in one site, all workers in the other."""

    def __init__(self, options):
        self.options, self.link = options, None
        super().__init__(WORKERS, options.rate_mbit)

    def _limit(self, rate_mbit, _):
        near, far = f"{self.tag}n", f"{self.tag}f"
        processes.call("ip", "link", "set", f"{self.names[0]}o", "nomaster")
        processes.call("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        processes.call("ip", "link", "set", far, "master", f"{self.tag}br", "up")
        processes.call("ip", "link", "set", near, "up")
        for number in range(len(self.names)):
            processes.call(*self.prefix(number), sys.executable, "-c", OFFLOAD_OFF)
        words = [self.options.far_link, f"{self.names[0]}o", near, rate_mbit, self.options.delay_ms, self.options.queue_ms]
        self.link = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.link.stdout.readline() != "ready\n":
            raise processes.Unavailable("far_link did not start")

    def set(self, name, value):
        for number in range(len(self.names)):
            processes.call(*self.prefix(number), "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{name}")

    def close(self):
        if self.link:
            print("far_link:", self.link.communicate("")[0].replace("\n", "; "))
        super().close()
        subprocess.run(["ip", "link", "del", f"{self.tag}n"], capture_output=True)


def plain_tcp(place):
    """Returns the Mbit/s of 84 MB over one connection: in all, and of the second half."""
    with subprocess.Popen([*place.prefix(0), sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True) as sink:
        sink.stdout.readline()
        subprocess.run([*place.prefix(1), sys.executable, "-c", SOURCE, place.server], check=True)
        return [float(word) for word in sink.communicate()[0].split()]


def rounds(place, options, job, codec, count, more=()):
    settings = [f"exchange.codec={codec}", f"train.steps={count}", *more]
    counters, logs, _ = processes.run_job(place, options.bin, WORKERS, settings, timeout_s=900, job=job)
    alarms = [line for line in logs.splitlines() if re.search(r"is lost|silent for|was lost|answers nothing|no answer to", line)]
    traffic = [one["traffic"] for one in counters]
    return {"seconds": max(one["train_s"] / one["rounds"] for one in counters),
            "up": sum(one["push"]["bytes_out"] for one in traffic) / count,
            "down": sum(one["sum"]["bytes_in"] for one in traffic) / count,
            "control_ms": 1000 * max(one["control_round_trip_max_s"] for one in counters), "alarms": alarms}


def arithmetic(options, one, trips):
    """The seconds of a round: its round trips, and the bytes of the busier direction, since answers come while other pushes
    still travel."""
    link_bytes_per_s = options.rate_mbit * 1e6 / 8 * PAYLOAD_SHARE
    return trips * 2 * options.delay_ms / 1000 + max(one["up"], one["down"]) / link_bytes_per_s


def lenet(place, options, idle, figures):
    cases = [("fp32", 1, ()), ("ternary", 2, ()), ("ternary_ans", 2, ()),
             ("ternary_ans, scaler: previous", 1, ("exchange.scaler=previous",))]
    for name, trips, more in cases:
        one = rounds(place, options, processes.JOB, name.split(",")[0], options.rounds, more)
        asked = arithmetic(options, one, trips)
        ratio = one["seconds"] / asked
        print(f"| LeNet, {name} | {idle} | {one['seconds']:.3f} | {trips} | {asked:.3f} | {ratio:.2f} | "
              f"{one['up'] / 1e6:.2f} | {one['control_ms']:.0f} | {len(one['alarms'])} |", flush=True)
        print(*one["alarms"][:4], sep="\n", end="\n" if one["alarms"] else "")
        if idle == 1 and name == "ternary_ans":
            figures.add("far_round", ratio, note=f"{one['seconds']:.3f} s, arithmetic {asked:.3f} s")


def large(place, options, idle, figures):
    limits = (f"servers.0.send_mbit={options.rate_mbit}", f"workers.send_mbit={options.rate_mbit / WORKERS}")
    for name, more in (("fp32", ()), ("fp32, send_mbit", limits)):
        one = rounds(place, options, HERE / "jobs/far.yaml", "fp32", options.large_rounds, more)
        needed = 4 * FAR * WORKERS
        asked = arithmetic(options, one, 1)
        goodput = 8e-6 * needed / one["seconds"] / options.rate_mbit
        print(f"| 20 M parameters, {name} | {idle} | {one['seconds']:.3f} | 1 | {asked:.3f} | {one['seconds'] / asked:.2f} | "
              f"{one['up'] / 1e6:.1f} | {one['control_ms']:.0f} | {len(one['alarms'])} | goodput {goodput:.2f} of the link", flush=True)
        print(*one["alarms"][:4], sep="\n", end="\n" if one["alarms"] else "")
        if idle == 1 and more:
            figures.add("far_goodput", goodput, note=f"{one['seconds']:.2f} s a round")
            figures.add("far_bytes", one["up"] / needed, note=f"{one['up'] / 1e6:.1f} MB a round")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("far_link", type=pathlib.Path)
    parser.add_argument("--rate_mbit", type=float, default=100)
    parser.add_argument("--delay_ms", type=float, default=100)
    parser.add_argument("--queue_ms", type=float, default=100)
    parser.add_argument("--idle", default="0,1", help="values of net.ipv4.tcp_slow_start_after_idle")
    parser.add_argument("--congestion", default="", help="cubic, bbr, ...; empty: as installed")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--large_rounds", type=int, default=4)
    parser.add_argument("--only", default="", help="lenet or large")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = targets.Figures()
    try:
        place = FarSites(options)
    except processes.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    try:
        if options.congestion:
            place.set_congestion(options.congestion)
        whole, half = plain_tcp(place)
        print(f"Plain TCP, 84 MB, {options.congestion or place.congestion_control()}: {whole:.1f} Mbit/s, its second half {half:.1f} Mbit/s\n")
        print("| job | slow start after idle | a round, s | round trips | arithmetic, s | ratio | MB up | control ms | alarms |")
        print("|---|---|---|---|---|---|---|---|---|")
        for idle in map(int, options.idle.split(",")):
            place.set("tcp_slow_start_after_idle", idle)
            if options.only != "large":
                lenet(place, options, idle, figures)
            if options.only != "lenet":
                large(place, options, idle, figures)
    finally:
        place.close()
    figures.write(options.json)
    print(figures.table())
    return 1 if figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
