"""Where the daemons of a drill run: all on loopback, or each in a network namespace of its own, whose link can fail."""
import itertools
import os
import random
import shutil
import socket
import subprocess


class Unavailable(Exception):
    """This machine or user cannot create network namespaces."""


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def works(*words):
    return subprocess.run([str(word) for word in words], capture_output=True).returncode == 0


def free_port(host):
    """Returns a port below the range of outgoing connections on which nobody listens."""
    numbers = random.Random(os.urandom(8))
    while True:
        port = numbers.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
                return port
            except OSError:
                continue


class Loopback:
    has_links = False

    def __init__(self, names):
        self.ports = {name: free_port("127.0.0.1") for name in names if name.startswith("server")}

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def settings(self):
        return []

    def prefix(self, _):
        return []

    def close(self):
        pass


class Namespaces:
    """A bridge, and a namespace for each daemon with one link to it."""

    has_links = True
    numbers = itertools.count()

    def __init__(self, names):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise Unavailable("network namespaces need root and ip (Debian: iproute2)")
        self.tag = f"td{os.getpid() % 100000}{chr(ord('a') + next(self.numbers) % 26)}"
        self.hosts = {name: number for number, name in enumerate(names)}
        try:
            self._make()
        except Unavailable:
            self.close()
            raise

    def _make(self):
        call("ip", "link", "add", f"{self.tag}br", "type", "bridge")
        call("ip", "link", "set", f"{self.tag}br", "up")
        for name, number in self.hosts.items():
            inside, outside = self._inside(name), self.outside(name)
            call("ip", "netns", "add", inside)
            call("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", inside)
            call("ip", "link", "set", outside, "master", f"{self.tag}br", "up")
            call("ip", "-n", inside, "addr", "add", f"10.78.0.{number + 1}/24", "dev", "eth0")
            call("ip", "-n", inside, "link", "set", "lo", "up")
            call("ip", "-n", inside, "link", "set", "eth0", "up")

    def _inside(self, name):
        return f"{self.tag}n{self.hosts[name]}"

    def outside(self, name):
        """The device on the bridge's side of a daemon's link."""
        return f"{self.tag}o{self.hosts[name]}"

    def address(self, name):
        return f"10.78.0.{self.hosts[name] + 1}:7655"

    def settings(self):
        return ["security=none"]

    def prefix(self, name):
        return ["ip", "netns", "exec", self._inside(name)]

    def close(self):
        for name in self.hosts:
            subprocess.run(["ip", "netns", "del", self._inside(name)], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{self.tag}br"], capture_output=True)

    # Faults of a daemon's link. Each has a function that mends it again.

    def cut_off(self, name):
        """Nothing passes in either direction. Neither side is told."""
        call("ip", "link", "set", self.outside(name), "nomaster")

    def plug_in(self, name):
        call("ip", "link", "set", self.outside(name), "master", f"{self.tag}br")

    def mute(self, name):
        """The daemon hears the others, and nothing that it sends arrives."""
        call("ip", "-n", self._inside(name), "route", "add", "blackhole", "10.78.0.0/25")

    def unmute(self, name):
        call("ip", "-n", self._inside(name), "route", "del", "blackhole", "10.78.0.0/25")

    def lose(self, name):
        """Packets to the daemon are lost: 15 % of them, or, without netem, those beyond a narrow queue."""
        add = ("tc", "qdisc", "add", "dev", self.outside(name), "root")
        if not works(*add, "netem", "loss", "15%"):
            call(*add, "tbf", "rate", "20mbit", "burst", "4kb", "limit", "12kb")

    def lose_no_more(self, name):
        call("tc", "qdisc", "del", "dev", self.outside(name), "root")

    def reset(self, name):
        """Resets all connections of the daemon. Returns how many."""
        done = subprocess.run([*self.prefix(name), "ss", "-K", "-H", "-t", "state", "established"],
                              capture_output=True, text=True)
        return len(done.stdout.splitlines())
