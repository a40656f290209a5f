"""`tern launch` over three hosts, which are three sshd on ports of loopback.

  launch_ssh_test.py ROOT BUILD [-v] [TEST...]

Exits with 77 where sshd or ssh is missing.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import watched_job

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
PATIENCE_S = 300  # For a sanitizer build on a busy machine; a deadline here only ends a hang.
END_S = 10  # Within which nothing of a killed launcher is left.
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
HOSTS = ("node0", "node1", "node2")

SSHD_CONFIG = """ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
"""
SSH_CONFIG = """Host {name}
  HostName 127.0.0.1
  Port {port}
"""
SSH_CONFIG_OF_ALL = """Host *
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
"""
JOB = """name: hosts
seed: 1
output_dir: {folder}/{name}
servers: [{{address: "127.0.0.1:1"}}]
workers: {{count: 3, threads: 1}}
model: {{name: lenet}}
data: {{dir: {folder}}}
train: {{batch_total: 12, steps: {steps}}}
checkpoints: {{every_steps: 20}}
faults: {{on_worker_loss: wait, wait_timeout_s: 120, server_return_timeout_s: 120, start_timeout_s: 120}}
metrics: {{port: {metrics_port}, open: true}}
"""


def free_port():
    for port in range(20000 + os.getpid() * 7 % 10000, 32000):
        if watched_job.is_free(port):
            return port
    raise RuntimeError("no free port up to 32000")


def processes():
    """Yields pid, command line and folder of all processes that still run."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if ") Z " not in (folder / "stat").read_text():
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(folder.name), line, os.readlink(folder / "cwd")
        except OSError:
            pass  # It has ended.


def wait(what, condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        newest = condition()
        if newest:
            return newest
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


class Nodes:
    """Three sshd, and the folder of the test."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tern_ssh_")
        self.folder = pathlib.Path(self.temporary.name)
        watched_job.images.write_images(self.folder, "train", 240, 1)
        watched_job.images.write_images(self.folder, "t10k", 60, 2)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        self.daemons = []
        config = ""
        if os.getuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own folder
        for name in HOSTS:
            port = free_port()
            config += SSH_CONFIG.format(name=name, port=port)
            (self.folder / f"{name}.conf").write_text(SSHD_CONFIG.format(port=port, folder=self.folder))
            with (self.folder / f"{name}.log").open("w") as log:
                self.daemons.append(subprocess.Popen([SSHD, "-D", "-e", "-f", self.folder / f"{name}.conf"], stderr=log))
            wait(f"sshd at port {port}", lambda: "Server listening" in (self.folder / f"{name}.log").read_text())
        (self.folder / "ssh_config").write_text(config + SSH_CONFIG_OF_ALL.format(folder=self.folder))

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.temporary.cleanup()

    def job(self, name, steps, more=""):
        """Writes a job. Returns its file and the URL of its page."""
        port, metrics_port = watched_job.free_ports(3)
        path = self.folder / f"{name}.yaml"
        path.write_text(JOB.format(folder=self.folder, name=name, steps=steps, metrics_port=metrics_port) + more)
        return path, f"http://127.0.0.1:{metrics_port}/status.json"

    def launch(self, *words, hosts="node0,node1,node2"):
        command = [BUILD / "bin/tern", "launch", "-H", hosts, "--ssh", f"ssh -F {self.folder}/ssh_config", *words]
        return Launch(command, self.folder)


class Launch:
    """A running `tern launch`."""
    number = 0

    def __init__(self, command, folder):
        Launch.number += 1
        self.out_path, self.err_path = folder / f"launch.{Launch.number}.out", folder / f"launch.{Launch.number}.err"
        with self.out_path.open("w") as out, self.err_path.open("w") as err:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def out(self):
        return self.out_path.read_text() + self.err_path.read_text()

    def end(self):
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"does not end:\n{self.out()}") from None

    def pid_of(self, member):
        """The newest process of "worker 1 on node1"."""
        numbers = re.findall(rf"^{member} is process (\d+)", self.out(), re.MULTILINE)
        return int(numbers[-1]) if numbers else None

    def wait_for_step(self, url, step):
        def is_so():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.out()}")
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return json.loads(answer.read())["step"] >= step
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                return False  # not there yet
        wait(f"step {step}", is_so)


class LaunchSsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes()
        cls.addClassCleanup(cls.nodes.close)

    def hash_of(self, name):
        return json.loads((self.nodes.folder / name / "summary.json").read_text())["parameters_hash"]

    def nothing_is_left(self):
        """Whether no process but the listening sshd has the test's folder in its command line, or runs there."""
        own = {daemon.pid for daemon in self.nodes.daemons}
        return [line for pid, line, folder in processes() if str(self.nodes.folder) in line + folder and pid not in own] == []

    def tearDown(self):
        try:
            wait("everything of this test has ended", self.nothing_is_left, END_S + PATIENCE_S)
        finally:
            for name in HOSTS:
                (self.nodes.folder / f"{name}.log").write_text("")

    def test_it_trains_and_says_where_everything_is(self):
        job, _ = self.nodes.job("plain", 20)
        launch = self.nodes.launch(job, hosts="node0:2,node1")
        self.assertEqual(launch.end(), 0, launch.out())
        out = launch.out()
        for text in ("node0: server 0, worker 0, worker 1\n", "node1: server 1, worker 2\n", "servers, workers      2, 3\n",
                     "exit code             0", f"the weights are on node0, in {self.nodes.folder}/plain/weights.safetensors"):
            self.assertIn(text, out)
        self.assertRegex(out, r"(?m)^\[worker 2 on node1\] .*\S")
        self.assertTrue((self.nodes.folder / "plain/weights.safetensors").exists())
        hostfile = self.nodes.folder / "hostfile"
        hostfile.write_text("# the cluster\nnode0 slots=2\nnode1:1\n")
        again = Launch([BUILD / "bin/tern", "launch", "--hostfile", hostfile, "--ssh",
                        f"ssh -F {self.nodes.folder}/ssh_config", self.nodes.job("again", 20)[0], "--servers", "1"],
                       self.nodes.folder)
        self.assertEqual(again.end(), 0, again.out())
        self.assertIn("servers, workers      1, 3\n", again.out())
        self.assertEqual(self.hash_of("plain"), self.hash_of("again"))

    def test_what_is_lost_comes_back(self):
        steps = 1000
        undisturbed = self.nodes.launch(self.nodes.job("undisturbed", steps)[0])
        self.assertEqual(undisturbed.end(), 0, undisturbed.out())
        job, url = self.nodes.job("disturbed", steps)
        launch = self.nodes.launch(job, "--restarts", "20")
        launch.wait_for_step(url, 40)
        os.kill(launch.pid_of("worker 1 on node1"), signal.SIGKILL)
        wait("worker 1 is back", lambda: "worker 1 is back" in launch.out())
        for host in ("node2", "node0"):
            connection = [pid for pid, line, _ in processes() if f" {host} " in line and "/ssh_config" in line]
            self.assertEqual(len(connection), 1, launch.out())
            os.kill(connection[0], signal.SIGKILL)
            rank = host[-1]
            wait(f"worker {rank} is back", lambda: f"worker {rank} is back" in launch.out())
        self.assertEqual(launch.end(), 0, launch.out())
        self.assertEqual(self.hash_of("disturbed"), self.hash_of("undisturbed"))
        self.assertRegex(launch.out(), r"worker 2 on node2 \(process \d+\) was lost with the connection to its host: node2: ")
        self.assertRegex(launch.out(), r"worker 1 on node1 \(process \d+\) was killed by signal 9")

    def test_without_its_launcher_nothing_runs(self):
        job, url = self.nodes.job("killed", 1000000)
        launch = self.nodes.launch(job)
        launch.wait_for_step(url, 5)
        launch.process.kill()
        launch.process.wait()
        begin = time.monotonic()
        wait("everything has ended", self.nothing_is_left, END_S)
        print(f"nothing was left {time.monotonic() - begin:.2f} s after the launcher was killed")

    def test_the_first_failure_is_the_verdict(self):
        job, url = self.nodes.job("failed", 1000000)
        launch = self.nodes.launch(job, "--set", "faults.on_worker_loss=fail")
        launch.wait_for_step(url, 5)
        os.kill(launch.pid_of("worker 2 on node2"), signal.SIGKILL)
        self.assertEqual(launch.end(), 75, launch.out())
        self.assertRegex(launch.out(), r"root cause: worker 2 on node2 \(process \d+\) was killed by signal 9")
        self.assertIn("its output: node2:", launch.out())

    def test_a_signal_ends_the_job_in_order(self):
        job, url = self.nodes.job("stopped", 1000000)
        launch = self.nodes.launch(job)
        launch.wait_for_step(url, 5)
        launches = self.launches_of_members()
        self.assertEqual(len(launches), 1, launches)
        self.assertNotIn(None, launches)
        launch.process.send_signal(signal.SIGTERM)
        self.assertEqual(launch.end(), 143, launch.out())
        self.assertIn("stopping in order after this round", launch.out())

    def test_a_host_that_refuses_is_named(self):
        job, _ = self.nodes.job("refused", 10)
        (self.nodes.folder / "closed_config").write_text("Host closed\n  HostName 127.0.0.1\n  Port 1\n")
        for hosts, more, code, text in (
                ("node0,node1,none.invalid", (), 69, "none.invalid: "),
                ("closed", ("--ssh", f"ssh -F {self.nodes.folder}/closed_config"), 69, "closed: .*Connection refused"),
                ("node0,node1", ("--tern", "/nowhere/tern"), 69, "node[01]: .*give the other with --tern"),
                ("node0,node1", ("--workdir", "/nowhere"), 69, "node[01]: cannot enter the folder /nowhere"),
                ("node0,node1", ("-n", "3"), 64, "saw 2 slots on 2 hosts for 3 workers"),
                ("node0,-x", (), 64, "saw '-x'")):
            launch = self.nodes.launch(job, *more, hosts=hosts)
            self.assertEqual(launch.end(), code, launch.out())
            self.assertRegex(launch.out(), text)

    def test_secrets_are_nowhere_to_be_read(self):
        job, url = self.nodes.job("secret", 1000000, "security: curve\nkeys: {dir: keys, checkpoint: keys/checkpoint.secret}\n")
        keys = self.nodes.folder / "keys"
        subprocess.run([BUILD / "bin/tern", "keys", "make", keys, "--job", job, "--set", "workers.count=3", "--set",
                        'servers=[{address: "127.0.0.1:1"}, {address: "127.0.0.1:2"}, {address: "127.0.0.1:3"}]'],
                       check=True, stdout=subprocess.DEVNULL)
        secrets = [path.read_text().strip() for path in keys.glob("*.secret")]
        self.assertEqual(len(secrets), 7)
        launch = self.nodes.launch(job)
        launch.wait_for_step(url, 25)  # with a checkpoint
        self.assert_not_found(secrets, keys)
        launch.process.send_signal(signal.SIGINT)
        self.assertEqual(launch.end(), 130, launch.out())
        self.assert_not_found(secrets, keys)

    def assert_not_found(self, secrets, keys):
        places = [path for path in self.nodes.folder.rglob("*") if path.is_file() and keys not in path.parents]
        for pid, line, folder in processes():
            if str(self.nodes.folder) in line + folder or "tern" in line:
                places += [pathlib.Path(f"/proc/{pid}/cmdline"), pathlib.Path(f"/proc/{pid}/environ")]
        self.assertTrue(any(path.name == "environ" for path in places))
        for path in places:
            try:
                content = path.read_bytes()
            except OSError:
                continue  # ended, or of a process that nobody may look into
            for secret in secrets:
                self.assertNotIn(secret.encode(), content, path)

    def launches_of_members(self):
        """The values of TERN_LAUNCH, or None, that servers and workers on all hosts have."""
        launches = set()
        for pid, line, folder in processes():
            if "--rank" in line and str(self.nodes.folder) in line + folder:
                found = re.search(rb"\0TERN_LAUNCH=([^\0]+)", b"\0" + pathlib.Path(f"/proc/{pid}/environ").read_bytes())
                launches.add(found and found[1])
        return launches

    def test_keys_are_made_for_a_program_of_the_users(self):
        least_squares = BUILD / "examples/least_squares"
        if not least_squares.exists():
            self.skipTest(f"{least_squares} is not built")
        launch = self.nodes.launch("--set", "security=curve", "--", "sh", "-c", f'exec {least_squares} "$TERN_JOB" "$TERN_RANK"',
                                   hosts="node0,node1")
        self.assertEqual(launch.end(), 0, launch.out())
        self.assertIn("[worker 1 on node1] y = 3.0000 x + -1.0000", launch.out())


if __name__ == "__main__":
    if SSHD is None or not all(map(shutil.which, ("ssh", "ssh-keygen"))):
        print("skipped: sshd, ssh or ssh-keygen is not installed (Debian: openssh-server, openssh-client)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
