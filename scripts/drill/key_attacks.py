"""A job of two workers under attack by processes that have no key, or another one than they should."""
import dataclasses
import pathlib
import re
import signal
import socket
import struct
import time

import capture
import key_files
import key_secrets
import keyed_job
import soak

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRANGER_TIMEOUT_S = 4  # how long a stranger tries
NO_KEY_LINE = "the handshake of a connection from .*{ip} failed"
UNKNOWN_KEY_LINE = "denied a connection from .*{ip}: its key .* is not in the list"
BORROWED_LINE = "the key of worker/1 was used to speak for worker/0"
# By attacker: what it is told, and what the server logs. Each has a namespace of its own.
ATTACKERS = {
    "no key": ("ends every handshake", NO_KEY_LINE),
    "a wrong key": ("does not know the key", UNKNOWN_KEY_LINE),
    "the key of another rank": (BORROWED_LINE, BORROWED_LINE),
    "keys of another job": ("does not hold the pinned key", NO_KEY_LINE),
    "a worker at a false server": ("does not hold the pinned key", NO_KEY_LINE),
    "a revoked key": ("does not know the key", UNKNOWN_KEY_LINE),
}
FALSE_SERVER = "false server"
# What the capture of a job without keys has to show, so that the search is known to work.
READABLE = ("the job's name", "the magic of frames", "the first weights", "the last weights")


@dataclasses.dataclass
class Row:
    """How one attacker was refused. Times are in seconds since its first packet to the server."""
    name: str
    code: int
    told_s: float
    logged_s: float
    from_start_s: float  # from the start of its process until it was told
    told: str
    logged: str


def table(rows):
    lines = ["| attacker | exit code | told after, s | from its start, s | in the server's log after, s | it is told | the server logs |",
             "|---|---|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.code} | {row.told_s:.2f} | {row.from_start_s:.2f} | {row.logged_s:.2f} | `{row.told}` | `{row.logged}` |"
              for row in rows]
    return "\n".join(lines)


def texts_of(weights, all_keys):
    """Returns what nobody may read on the wire, by name. `weights`: the file of the final weights."""
    version = int(re.search(r"kWireVersion = (\d+);", (ROOT / "common/net/frame.h").read_text()).group(1))
    values = weights[8 + struct.unpack("<Q", weights[:8])[0]:]
    texts = {"the job's name": keyed_job.NAME.encode(), "a layer's name": keyed_job.LAYER.encode(),
             "the network's name": keyed_job.NET.encode(), "the host's name": socket.gethostname().encode(),
             "the word worker": b"worker", "the word server": b"server",
             "the magic of frames": b"TERN" + struct.pack("<H", version),
             "the first weights": values[:16], "the last weights": values[-16:]}
    for keys in all_keys:
        for name, text in [*keys.public().items(), *keys.secrets().items()]:
            texts[f"{keys.folder.name}: {name} as text"] = text.encode()
            texts[f"{keys.folder.name}: {name}"] = key_files.raw(text)
    return texts


class Attack:
    def __init__(self, bin_folder, job, folder, keys, steps, bar_s):
        self.bin_folder, self.job, self.folder, self.keys = bin_folder, job, folder, keys
        self.steps, self.bar_s = steps, bar_s
        self.other_keys = key_files.make(bin_folder, folder / "other_keys", job)
        self.next_keys = key_files.make(bin_folder, folder / "next_keys", job)
        self.stolen = keys.copy_for(folder / "stolen", "worker 1", "worker 1")
        self.secrets = key_files.all_secrets(folder)  # before any of them is replaced
        self.rows, self.wrong = [], []

    def run(self):
        """Returns the sentences of what is wrong; `rows` then says how each attacker was refused."""
        weights, summary = self._undisturbed("undisturbed", self.keys.settings(), {})[:2]
        print(f"undisturbed: {self.steps} steps, hash {summary['parameters_hash']}", flush=True)
        texts = texts_of(weights, [self.keys, self.other_keys, self.next_keys])
        plain, _, seen = self._undisturbed("plain", ["security=none"], texts)
        self._judge("without keys", seen)
        if plain != weights:
            self.wrong.append("the job has other weights without keys than with keys")
        if missing := [name for name in READABLE if name not in seen.found]:
            self.wrong.append(f"without keys, the search does not find {', '.join(missing)}, so it proves nothing")
        self._under_attack(texts, weights)
        return self.wrong

    def _job(self, name, settings, strangers=()):
        return keyed_job.KeyedJob(self.bin_folder, self.job, self.folder / name, 2, self.steps, settings, strangers)

    def _undisturbed(self, name, settings, texts):
        running = self._job(name, settings)
        try:
            seen = running.capture(["server.0"], texts)
            weights, summary, _ = soak.undisturbed(running)
            seen.close()
            return weights, summary, seen
        finally:
            running.close()

    def _judge(self, what, seen):
        print(f"{what}: captured {seen.packets} packets with {seen.bytes / 1e6:.1f} MB, {seen.dropped} lost; found in them: "
              f"{', '.join(sorted(seen.found)) or 'nothing'}", flush=True)
        if seen.dropped or not seen.packets:
            self.wrong.append(f"{what}: the capture has {seen.packets} packets and lost {seen.dropped}")

    def _under_attack(self, texts, weights):
        running = self._job("attacked", self.keys.settings(), [*ATTACKERS, FALSE_SERVER])
        try:
            seen = running.capture(["server.0", *ATTACKERS], texts)
            running.start_all()
            running.wait_for_round(20)
            self.wrong += key_secrets.check_running(running, self.secrets)
            self._attack(running, seen)
            codes = running.wait_for_end()
            seen.close()
            self._judge("with keys, under attack", seen)
            if any(codes.values()):
                self.wrong.append(f"the exit codes of the attacked job are {codes}")
            self.wrong += [f"{name} is readable on the wire from {where}" for name, where in seen.found.items()]
            attacked, summary = running.result()
            print(f"attacked: hash {(summary or {}).get('parameters_hash')}", flush=True)
            if attacked != weights:
                self.wrong.append("the attacked job has other weights than the undisturbed one")
        finally:
            running.close()

    def _attack(self, running, seen):
        wrong_key = self.keys.copy_for(self.folder / "wrong", "worker 1", "worker 1", self.other_keys)
        other_rank = self.keys.copy_for(self.folder / "borrowed", "worker 0", "worker 1")
        self._refuse(running, seen, "no key", 1, ["security=none"])
        self._refuse(running, seen, "a wrong key", 1, wrong_key.settings())
        self._refuse(running, seen, "the key of another rank", 0, other_rank.settings())
        self._refuse(running, seen, "keys of another job", 1, [*self.other_keys.settings(), "name=another_job"])
        server = running.start_stranger(FALSE_SERVER, FALSE_SERVER, "server", 0, self.other_keys.settings(), FALSE_SERVER)
        try:
            running.wait_for_port(FALSE_SERVER, keyed_job.SERVER_PORT)
            self._refuse(running, seen, "a worker at a false server", 1, self.stolen.settings(), FALSE_SERVER)
        finally:
            server.kill()
            server.wait()
        self._revoke(running)
        self._refuse(running, seen, "a revoked key", 1, self.stolen.settings())
        running.start("worker.1")  # with its new key

    def _revoke(self, running):
        """Takes worker 1's key from it, and lays the next one ready."""
        self.keys.replace("worker 1", self.next_keys)
        begin = time.time()
        running.daemons["server.0"].signal(signal.SIGUSR2)
        code = running.daemons["worker.1"].process.wait(60)
        said = running.wait_for_log("server.0", "revoked")
        print(f"revoked: the server says so after {said - begin:.2f} s; the worker ends after {time.time() - begin:.2f} s with "
              f"{code}: {running.last_sentence('worker.1')}", flush=True)
        if code != 77 or not said - begin <= self.bar_s:
            self.wrong.append(f"a worker whose key is revoked ends with {code}, expected 77, or too late")

    def _refuse(self, running, seen, name, rank, settings, server="server.0"):
        """Starts an attacker and waits for its end."""
        told, logged = ATTACKERS[name]
        logged = logged.format(ip=re.escape(running.hosts.ip(name)))
        begin = time.time()
        process = running.start_stranger(name, name, "worker", rank,
                                         [*settings, f"faults.start_timeout_s={STRANGER_TIMEOUT_S}"], server)
        code = process.wait(60)
        first = seen.first_at.get((running.hosts.ip(name), running.hosts.ip(server), keyed_job.SERVER_PORT), float("nan"))
        told_at, told_line = running.first_line(name, told)
        logged_at, logged_line = running.first_line(server, logged, begin)
        row = Row(name, code, told_at - first, logged_at - first, told_at - begin, told_line, logged_line)
        self.rows.append(row)
        if code != 77:
            self.wrong.append(f"{name}: exit code {code}, expected 77: {running.stderr(name).strip()}")
        if not (row.told_s <= self.bar_s and row.logged_s <= self.bar_s):
            self.wrong.append(f"{name}: told after {row.told_s:.2f} s, logged after {row.logged_s:.2f} s, "
                              f"expected at most {self.bar_s:.1f} s")
