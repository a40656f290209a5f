"""A job whose daemons have keys, each in a network namespace, and processes that are not of the job."""
import math
import os
import re
import subprocess
import time

import capture
import daemons
import hosts
import logs

# Words of the job that nobody else may read.
SERVER_PORT = 7655  # of hosts.Namespaces
NAME, NET, LAYER = "a_job_with_a_name", "a_net_with_a_name", "a_layer_with_a_name"

JOB = """name: {name}
seed: 1
output_dir: out
servers: [{{address: "127.0.0.1:7655"}}]
workers: {{count: {workers}}}
model:
  net:
    name: {net}
    input: {{channels: 1, height: 28, width: 28}}
    classes: 10
    layers:
      - {{name: {layer}, dense: {{outputs: 8}}}}
      - {{name: act, relu: {{}}}}
      - {{name: ip, dense: {{outputs: 10}}}}
      - {{name: loss, inputs: [ip, label], softmax_loss: {{}}}}
data: {{dir: {data}}}
train: {{batch_total: {workers}, steps: {steps}, parameters: central, compute: wait, compute_wait_ms: 20}}
checkpoints: {{every_steps: 500}}
faults: {{on_worker_loss: wait, start_timeout_s: 900}}
metrics: {{port: 7700}}
"""


def write_job(path, data, workers, steps):
    path.write_text(JOB.format(name=NAME, net=NET, layer=LAYER, data=data, workers=workers, steps=steps))
    return path


class KeyedNamespaces(hosts.Namespaces):
    """The namespaces of the job's daemons, and one for each stranger."""

    def __init__(self, names, strangers, settings):
        self.own_settings = settings
        super().__init__([*names, *strangers])

    def settings(self):
        return self.own_settings

    def ip(self, name):
        return self.address(name).split(":")[0]


class KeyedJob(daemons.Job):
    def __init__(self, bin_folder, job, folder, workers, steps, settings, strangers=()):
        self.captures = []
        facts = {"servers": 1, "workers": workers, "steps": steps, "policy": "wait", "checkpoints": True}
        super().__init__(lambda names: KeyedNamespaces(names, strangers, settings), bin_folder, job, [], folder, facts)

    def log(self, name):
        """Returns (time, text) of the lines of a daemon's log, or of a stranger's."""
        return [(when, text) for when, daemon, text in logs.lines_of(self.folder, name) if daemon == name]

    def first_line(self, name, pattern, since=0):
        """Returns (time, text) of the first line of a log with this; (nan, "nothing") if there is none."""
        return next((line for line in self.log(name) if line[0] >= since and re.search(pattern, line[1])), (math.nan, "nothing"))

    def capture(self, names, texts):
        """Records what passes over these links, until it or the job is closed."""
        self.captures.append(capture.Capture([self.hosts.outside(name) for name in names], texts))
        return self.captures[-1]

    def close(self):
        for one in self.captures:
            one.close()
        super().close()

    def wait_for_port(self, name, port, seconds=30):
        """Waits until somebody listens on this port in a namespace."""
        deadline = time.time() + seconds
        words = [*self.hosts.prefix(name), "ss", "-Htln", f"sport = :{port}"]
        while not subprocess.run(words, capture_output=True).stdout:
            if time.time() > deadline:
                raise hosts.Unavailable(f"nobody listens on port {port} of {name}")
            time.sleep(0.05)

    def wait_for_log(self, name, text, seconds=60):
        """Returns when the daemon logged a line with this text; nan if it does not."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            for when, line in self.log(name):
                if text in line:
                    return when
            time.sleep(0.05)
        return math.nan

    def wait_for_round(self, rounds, seconds=120):
        deadline = time.time() + seconds
        while self.rounds() < rounds:
            if time.time() > deadline or not self.daemons["server.0"].runs():
                raise hosts.Unavailable(f"the job does not reach round {rounds}: {self.last_sentence('server.0')}")
            self.read_progress()
            time.sleep(0.05)

    def wait_for_end(self, seconds=600):
        """Returns the exit codes of all daemons, by name."""
        deadline = time.time() + seconds
        for daemon in self.daemons.values():
            daemon.process.wait(max(1, deadline - time.time()))
        return {name: daemon.code() for name, daemon in self.daemons.items()}

    def start_stranger(self, name, place, role, rank, settings, server="server.0"):
        """Starts a daemon that is not of the job in the namespace of `place`. It knows the namespace of `server` as that
        of shard 0."""
        words = [*self.hosts.prefix(place), self.bin_folder / f"tern_{role}", "--job", self.job, "--rank", rank,
                 "--log_dir", self.folder / "logs" / f"{name}.0"]
        for setting in [f"servers.0.address={self.hosts.address(server)}", f"output_dir={self.folder}/out.{name}",
                        *settings]:
            words += ["--set", setting]
        with open(self.folder / f"{name}.0.stderr", "wb") as errors:
            return subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=errors,
                                    env=dict(os.environ, OMP_WAIT_POLICY="passive"))

    def stderr(self, name):
        return (self.folder / f"{name}.0.stderr").read_text(errors="replace")
