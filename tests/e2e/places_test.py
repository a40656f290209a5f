"""One job file in every place: ranks and addresses from the environment, mpirun, names that come late, vanish or never come.

  places_test.py ROOT BUILD [-v] [TEST...]

Names are those of a hosts file, which libnss-wrapper puts in the place of name servers. They stand for ::1, because that library
finds no IPv4 address where one for an IPv6 socket is asked for. Tests whose programs are not
installed are skipped.
"""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
sys.path.insert(0, str(ROOT / "scripts/drill"))
import images  # noqa: E402

PATIENCE_S = 300  # ends a hang
STEPS, WORKERS = 200, 2
NSS_WRAPPER = "libnss_wrapper.so"

JOB = """name: places
seed: 1
model: {{name: lenet}}
data: {{dir: {data}}}
train: {{batch_total: 8, steps: {steps}}}
workers: {{count: 1}}
faults: {{on_worker_loss: wait, start_timeout_s: 200, wait_timeout_s: 200, server_return_timeout_s: 200}}
security: none
{more}
"""


def has_nss_wrapper():
    try:
        ctypes.CDLL(NSS_WRAPPER)
    except OSError:
        return False
    return True


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    def __init__(self, folder, name, words, environment):
        self.name, self.path = name, folder / f"{name}.out"
        # Of the launchers that may have started this test, nothing is left.
        clean = {key: value for key, value in os.environ.items()
                 if not re.match("(TERN|SLURM|OMPI|PMI|PMIX|JOB_COMPLETION|RANK|WORLD_SIZE)", key)}
        with self.path.open("wb") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=output, cwd=folder, env={**clean, **environment})

    def output(self):
        return self.path.read_text(errors="replace")

    def await_text(self, text):
        end = time.monotonic() + PATIENCE_S
        while text not in self.output():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{self.name} has not said '{text}', but:\n{self.output()[-4000:]}")
            time.sleep(0.02)

    def wait(self):
        return self.process.wait(PATIENCE_S)


class Place:
    """A folder with a job file, whose processes end with it."""

    def __init__(self, more=""):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.job = self.folder / "job.yaml"
        self.job.write_text(JOB.format(data=DATA, steps=STEPS, more=more))
        self.port = free_port()
        self.hosts = self.folder / "hosts"
        self.mtime = 1000
        self.environment = {"TERN_JOB": str(self.job), "TERN_WORKERS": str(WORKERS), "TERN_OUTPUT_DIR": str(self.folder / "out"),
                            "TERN_SERVERS": f"127.0.0.1:{self.port}"}
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for each in self.processes:
            each.process.kill()
            each.process.wait()
        self.temporary.cleanup()

    def use_names(self, server):
        """The server has this name from now on, which nobody knows yet."""
        self.set_hosts("")
        self.environment |= {"LD_PRELOAD": NSS_WRAPPER, "NSS_WRAPPER_HOSTS": str(self.hosts),
                             "TERN_SERVERS": f"{server}:{self.port}"}

    def set_hosts(self, text):
        self.hosts.write_text(text)
        self.mtime += 10  # The wrapper reads the file again if its time in seconds has changed.
        os.utime(self.hosts, (self.mtime, self.mtime))

    def start(self, name, program, *words, **environment):
        self.processes.append(Process(self.folder, name, [BUILD / "bin" / program, *words], {**self.environment, **environment}))
        return self.processes[-1]

    def start_workers(self, *words):
        return [self.start(f"worker{rank}", "tern_worker", "--rank", str(rank), *words) for rank in range(WORKERS)]

    def expect_end(self, processes, code=0):
        for each in processes:
            ended = each.wait()
            if ended != code:
                raise AssertionError(f"{each.name} ended with {ended}:\n{each.output()[-4000:]}")

    def weights(self):
        return (self.folder / "out/weights.safetensors").read_bytes()

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in (self.folder / "out/logs").glob("*.log"))


class Ranks(unittest.TestCase):
    def test_each_daemon_takes_its_rank_from_another_launcher(self):
        with Place() as place:
            daemons = [place.start("server", "tern_server", JOB_COMPLETION_INDEX="0"),
                       place.start("worker0", "tern_worker", SLURM_PROCID="0", SLURM_STEP_ID="0", RANK="1"),
                       place.start("worker1", "tern_worker", OMPI_COMM_WORLD_RANK="1")]
            place.expect_end(daemons)
            self.assertEqual(place.weights(), UNDISTURBED)
            logs = place.logs()
            for line in ("rank 0 from JOB_COMPLETION_INDEX", "rank 0 from SLURM_PROCID", "rank 1 from OMPI_COMM_WORLD_RANK",
                         "2 workers from TERN_WORKERS", f"servers 127.0.0.1:{place.port} from TERN_SERVERS"):
                self.assertIn(line, logs)
            self.assertRegex(logs, r"the connection to server shard 0 is from 127\.0\.0\.1 \(lo\) to 127\.0\.0\.1:\d+")

    def test_what_cannot_be_is_refused_by_name(self):
        for code, text, environment in (
                (64, "TERN_RANK: saw 'first'", {"TERN_RANK": "first"}),
                (78, "SLURM_PROCID 2: the job has 2 workers", {"SLURM_PROCID": "2", "SLURM_STEP_ID": "0"}),
                (78, "TERN_WORKERS: workers.count: saw none", {"TERN_RANK": "0", "TERN_WORKERS": "none"}),
                (78, "TERN_SERVERS: servers[0].address: saw node7", {"TERN_RANK": "0", "TERN_SERVERS": "node7"}),
                (64, "start it with srun", {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "3"}),
                (64, "JOB_COMPLETION_INDEX", {})):
            with self.subTest(environment=environment), Place() as place:
                worker = place.start("worker", "tern_worker", **environment)
                self.assertEqual(worker.wait(), code, worker.output())
                self.assertIn(text, worker.output())


class Members(unittest.TestCase):
    def test_tasks_are_the_servers_and_then_the_workers(self):
        with Place() as place:
            tasks = [place.start(f"task{task}", "tern", "member", PMI_RANK=str(task), PMI_SIZE="3") for task in range(3)]
            place.expect_end(tasks)
            self.assertIn("task 2, from PMI_RANK, is worker 1", tasks[2].output())
            self.assertEqual(place.weights(), UNDISTURBED)

    def test_another_number_of_tasks_is_refused(self):
        for environment in ({"PMI_RANK": "3"}, {"PMI_RANK": "0", "PMI_SIZE": "4"}):
            with self.subTest(environment=environment), Place() as place:
                task = place.start("task", "tern", "member", place.job, **environment)
                self.assertEqual(task.wait(), 78, task.output())
                self.assertIn("3 tasks, 1 of them servers and 2 workers", task.output())

    def test_a_program_is_a_worker(self):
        with Place() as place:
            place.job.write_text("name: p\nsecurity: none\ntrain: {compute: client}\n")
            task = place.start("task", "tern", "member", place.job, "--", "sh", "-c",
                               "echo $TERN_RANK of $TERN_WORLD_SIZE in $TERN_JOB", TERN_RANK="2")
            self.assertEqual(task.wait(), 0, task.output())
            self.assertIn(f"1 of 2 in {place.job}", task.output())

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun_starts_a_job(self):
        with Place() as place:
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(1 + WORKERS), BUILD / "bin/tern", "member",
                     place.job]
            place.processes.append(Process(place.folder, "mpirun", words, place.environment))
            place.expect_end(place.processes)
            self.assertEqual(place.weights(), UNDISTURBED)
            self.assertIn("task 2, from OMPI_COMM_WORLD_RANK, is worker 1", place.processes[0].output())


@unittest.skipUnless(has_nss_wrapper() and has_ipv6(), "libnss-wrapper is not installed, or this machine has no IPv6")
class Names(unittest.TestCase):
    def test_a_name_that_comes_late_is_waited_for(self):
        with Place() as place:
            place.use_names("shard.tern.test")
            daemons = [place.start("server", "tern_server", "--rank", "0"), *place.start_workers()]
            daemons[0].await_text('cannot bind yet: the host "shard.tern.test" does not resolve')
            for worker in daemons[1:]:
                worker.await_text('has no address yet: the host "shard.tern.test" does not resolve')
            place.set_hosts("::1 shard.tern.test\n")
            place.expect_end(daemons)
            self.assertEqual(place.weights(), UNDISTURBED)
            self.assertIn("the host shard.tern.test resolves now", place.logs())
            for worker in daemons[1:]:
                self.assertEqual(worker.output().count("has no address yet"), 1, worker.output())

    def test_a_name_that_never_comes_ends_with_69(self):
        with Place() as place:
            place.use_names("shard.tern.test")
            for role in ("server", "worker"):
                daemon = place.start(role, f"tern_{role}", "--rank", "0", "--set", "faults.start_timeout_s=3")
                self.assertEqual(daemon.wait(), 69, daemon.output())
                last = daemon.output().splitlines()[-1]
                self.assertRegex(last, 'the host "shard.tern.test" does not resolve: Name or service not known')

    def test_a_name_that_vanishes_while_the_server_starts_again(self):
        with Place() as place:
            place.use_names("shard.tern.test")
            place.set_hosts("::1 shard.tern.test\n")
            bind = ("--rank", "0", "--set", "servers.0.bind_host=::1")
            server = place.start("server", "tern_server", *bind)
            workers = place.start_workers("--fail", "thread.compute=delay:0.03")
            for worker in workers:
                worker.await_text("takes part in the job")
            place.set_hosts("")
            server.process.send_signal(signal.SIGKILL)
            server.wait()
            for worker in workers:
                worker.await_text('has no address yet: the host "shard.tern.test" does not resolve')
            again = place.start("server_again", "tern_server", *bind)
            place.set_hosts("::1 shard.tern.test\n")
            place.expect_end([again, *workers])
            self.assertEqual(place.weights(), UNDISTURBED)


def undisturbed_weights():
    with Place() as place:
        place.expect_end([place.start("server", "tern_server", "--rank", "0"), *place.start_workers()])
        return place.weights()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as data_folder:
        DATA = pathlib.Path(data_folder)
        images.write_images(DATA, "train", 240, 1)
        images.write_images(DATA, "t10k", 60, 2)
        UNDISTURBED = undisturbed_weights()
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
