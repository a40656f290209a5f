"""The units of deploy/systemd in a whole systemd, booted in a container.

  systemd_test.py ROOT BUILD [-v] [TEST...]      needs root, systemd-nspawn, and BUILD/debian
  systemd_test.py ROOT BUILD --make_debian       makes BUILD/debian, a root of Debian, with mmdebstrap

Exits with 77 where that is missing.
"""
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/drill"))
import images  # noqa: E402

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
DEBIAN = BUILD / "debian"
SKIPPED = 77
PATIENCE_S = 300  # to end a hang, not to measure
STEPS = 300
DAEMONS = ("tern-server@0", "tern-worker@0", "tern-worker@1")
BOX = None  # the Container

JOB = """name: systemd
seed: 1
output_dir: out
servers: [{{address: "127.0.0.1:7500"}}]
workers: {{count: 2, threads: 1}}
model: {{name: lenet}}
data: {{dir: /opt/data}}
train: {{batch_total: 8, steps: {steps}}}
faults: {{on_worker_loss: wait, start_timeout_s: {start_timeout_s}, server_return_timeout_s: 200, wait_timeout_s: 200}}
security: curve
"""
# With failpoints, because a job of 300 steps would be over before it is disturbed.
SLOW = """[Service]
Environment="TERN_OPTIONS=--fail thread.compute=delay:0.05"
"""
# Short, but a data thread that has nothing to do moves once a second.
WATCHDOG = "[Service]\nWatchdogSec=6\n"


def skip(why):
    print(f"systemd_test: skipped: {why}")
    sys.exit(SKIPPED)


def make_debian():
    """A root that boots, of 205 MB."""
    if DEBIAN.exists():
        return
    partial = BUILD / "debian.partial"
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm",
                    partial], check=True)
    partial.rename(DEBIAN)


def wait(what, condition):
    """Calls condition() until it returns something true, and returns that."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s\n{BOX.journal()}")


def descendants(pid):
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from descendants(int(child))


class Container:
    """A booted copy of DEBIAN with the programs, units and keys; `with` ends it."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.root = self.folder / "root"
        subprocess.run(["cp", "-a", DEBIAN, self.root], check=True)
        self.data = self.root / "opt/data"
        self.data.mkdir()
        images.write_images(self.data, "train", 240, 1)
        images.write_images(self.data, "t10k", 60, 2)
        self.install()
        self.log = (self.folder / "boot.log").open("wb")
        self.nspawn = subprocess.Popen(["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
                                        "-D", self.root], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.leader = None
        end = time.monotonic() + PATIENCE_S
        while self.leader is None or self.systemctl("is-system-running").stdout.strip() not in ("running", "degraded"):
            if self.nspawn.poll() is not None or time.monotonic() > end:
                text = (self.folder / "boot.log").read_text(errors="replace")[-1000:]
                self.__exit__()
                skip(f"systemd does not boot in a container here: {text}")
            self.leader = self.find_leader()
            time.sleep(0.1)
        return self

    def __exit__(self, *unused):
        if self.nspawn.poll() is None and self.leader is not None:
            os.kill(self.leader, signal.SIGKILL)  # the container's first process takes all others along
        try:
            self.nspawn.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()
        self.log.close()
        self.temporary.cleanup()

    def find_leader(self):
        """The process that is number 1 in the container, once it is systemd."""
        for pid in descendants(self.nspawn.pid):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            if re.search(r"^NSpid:\t\d+\t1$", status, re.MULTILINE) and status.startswith("Name:\tsystemd\n"):
                return pid
        return None

    def install(self):
        """The programs with the libraries that the root lacks, the keys, and the units."""
        for program in ("tern_server", "tern_worker"):
            shutil.copy(BUILD / "bin" / program, self.root / "usr/bin")
            needed = subprocess.run(["ldd", BUILD / "bin" / program], check=True, capture_output=True, text=True).stdout
            for library in map(pathlib.Path, re.findall(r"=> (/\S+)", needed)):
                if not list(self.root.glob(f"usr/lib/**/{library.name}")):
                    shutil.copy(library, self.root / "usr/lib/x86_64-linux-gnu")
        etc = self.root / "etc/tern"
        etc.mkdir()
        self.write_job()
        subprocess.run([BUILD / "bin/tern", "keys", "make", etc / "keys", "--job", etc / "job.yaml"], check=True, stdout=subprocess.DEVNULL)
        units = self.root / "etc/systemd/system"
        for role in ("server", "worker"):
            shutil.copy(ROOT / f"deploy/systemd/tern-{role}@.service", units)
            self.drop_in(role, "keys.conf", (ROOT / f"deploy/systemd/keys/{role}.conf").read_text())
            self.drop_in(role, "watchdog.conf", WATCHDOG)
        self.drop_in("worker", "slow.conf", SLOW)

    def drop_in(self, role, name, text):
        folder = self.root / f"etc/systemd/system/tern-{role}@.service.d"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def write_job(self, start_timeout_s=200, more=""):
        (self.root / "etc/tern/job.yaml").write_text(JOB.format(steps=STEPS, start_timeout_s=start_timeout_s) + more)

    def run(self, *words):
        return subprocess.run(["nsenter", "-t", str(self.leader), "-m", "-p", "-u", "-i", "-n", *words], capture_output=True, text=True)

    def systemctl(self, *words):
        return self.run("systemctl", *words)

    def show(self, unit, name):
        return self.systemctl("show", unit, "--value", "-p", name).stdout.strip()

    def journal(self):
        return self.run("journalctl", "--no-pager", "-n", "60", "-u", "tern-*").stdout

    def reset(self):
        self.systemctl("stop", *DAEMONS)
        self.systemctl("reset-failed", *DAEMONS)
        shutil.rmtree(self.root / "var/lib/private/tern", ignore_errors=True)


class Units(unittest.TestCase):
    def setUp(self):
        BOX.write_job()

    def tearDown(self):
        BOX.reset()

    def undisturbed_weights(self):
        """Of the same job outside, by `tern run`, which makes its own keys."""
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.yaml"
            job.write_text(JOB.format(steps=STEPS, start_timeout_s=200))
            done = subprocess.run([BUILD / "bin/tern", "run", job, "--free_ports", "--set", f"data.dir={BOX.data}"], cwd=folder,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return (pathlib.Path(folder) / "out/weights.safetensors").read_bytes()

    def test_code_78_is_final(self):
        BOX.write_job(more="no_such_key: 1\n")
        BOX.systemctl("start", "--no-block", "tern-server@0")
        wait("the server has failed", lambda: BOX.show("tern-server@0", "ActiveState") == "failed")
        self.assertEqual(BOX.show("tern-server@0", "ExecMainStatus"), "78", BOX.journal())
        self.assertEqual(BOX.show("tern-server@0", "NRestarts"), "0")

    def test_code_75_is_tried_again(self):
        BOX.write_job(start_timeout_s=1)  # no worker comes in this time
        BOX.systemctl("start", "--no-block", "tern-server@0")
        wait("the server was started again twice", lambda: int(BOX.show("tern-server@0", "NRestarts")) >= 2)
        self.assertIn("status=75", BOX.journal())

    def test_sigint_to_one_daemon_ends_all_for_good(self):
        BOX.systemctl("start", "--no-block", *DAEMONS)
        wait("the job trains", lambda: BOX.show("tern-worker@1", "StatusText").startswith("step "))
        self.assertEqual(BOX.systemctl("kill", "--signal=SIGINT", "tern-worker@1").returncode, 0)
        for unit in DAEMONS:
            # One that is to be started again is "activating".
            wait(f"{unit} has ended", lambda unit=unit: BOX.show(unit, "ActiveState") == "inactive")
        self.assertIn("the job was stopped in order by a signal", BOX.journal())

    def test_the_workers_add_up_their_pushes(self):
        BOX.write_job(more="exchange: {codec: ternary_ans, host_sum: true}\n")
        BOX.systemctl("start", "--no-block", *DAEMONS)
        wait("the job has ended", lambda: all(BOX.show(unit, "ActiveState") == "inactive" for unit in DAEMONS[1:]))
        logs = "".join(path.read_text(errors="replace") for path in (BOX.root / "var/lib/private/tern/out").rglob("*worker*")
                       if path.is_file() and "checkpoints" not in str(path))
        self.assertEqual(logs.count("adds up the pushes of its host"), 1)

    def test_the_watchdog_ends_a_hung_shard_and_the_job_goes_on(self):
        BOX.systemctl("start", "--no-block", *DAEMONS)
        def shown_step():
            return re.match(rf"step (\d+) of {STEPS}, 2 of 2 workers$", BOX.show("tern-server@0", "StatusText"))
        wait("systemctl shows that the job trains", lambda: (found := shown_step()) and int(found.group(1)) >= 20)
        self.assertRegex(BOX.show("tern-worker@1", "StatusText"), rf"^step \d+ of {STEPS}$")
        for unit in DAEMONS:
            self.assertEqual(BOX.show(unit, "ActiveState"), "active")
        self.assertEqual(BOX.systemctl("kill", "--signal=SIGSTOP", "tern-server@0").returncode, 0)
        wait("the server was started again", lambda: BOX.show("tern-server@0", "NRestarts") == "1")
        self.assertIn("Watchdog timeout", BOX.journal())
        for unit in DAEMONS:
            wait(f"{unit} has ended", lambda unit=unit: BOX.show(unit, "ActiveState") in ("inactive", "failed"))
            self.assertEqual((BOX.show(unit, "ExecMainStatus"), BOX.show(unit, "Result")), ("0", "success"), BOX.journal())
        weights = (BOX.root / "var/lib/private/tern/out/weights.safetensors").read_bytes()
        self.assertEqual(weights, self.undisturbed_weights())

    def test_systemd_finds_nothing_to_change_in_the_units(self):
        for role in ("server", "worker"):
            done = BOX.run("systemd-analyze", "verify", "--man=no", f"tern-{role}@0.service")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = BOX.run("systemd-analyze", "security", "--threshold=20", f"tern-{role}@0.service")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            print([line for line in done.stdout.splitlines() if "Overall exposure" in line])


if __name__ == "__main__":
    if "--make_debian" in sys.argv:
        make_debian()
        sys.exit(0)
    if os.geteuid() != 0 or not shutil.which("systemd-nspawn") or not DEBIAN.exists():
        skip(f"it needs root, Debian's systemd-container, and {DEBIAN}, which scripts/release_check.sh systemd makes")
    with Container() as BOX:
        program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
