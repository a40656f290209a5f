"""deploy/slurm in a whole Slurm of two nodes on this machine: munged, slurmctld and two slurmd.

  slurm_test.py ROOT BUILD [-v] [TEST...]      needs root, and Debian's slurm-wlm and munge

Everything runs in namespaces of its own: the ports are free, and no process outlives this one. Exits with 77 where a program is
missing, namespaces are not allowed, or TERN_RELEASE_CHECK is not set.
"""
import os
import pathlib
import re
import secrets
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
SKIPPED = 77
PATIENCE_S = 300  # to end a hang, not to measure
STEPS = 300
INSIDE = "TERN_SLURM_TEST_INSIDE"
SLURM = None  # the Slurm

# Nodes are told apart by name, address and port. They may claim more cores than there are.
CONFIG = """ClusterName=tern_test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
InactiveLimit=0
KillWait=60
SlurmdTimeout=300
SlurmctldTimeout=300
ReturnToService=2
JobRequeue=1
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port=16818 CPUs=2 RealMemory=512 State=UNKNOWN
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=16819 CPUs=2 RealMemory=512 State=UNKNOWN
"""
HOSTS = "127.0.0.1 localhost n0 {host}\n127.0.0.2 n1\n"
JOB = """name: slurm
seed: 1
output_dir: {folder}/out
servers: [{{address: "127.0.0.1:7500"}}]
workers: {{count: {workers}, threads: 1}}
model: {{name: lenet}}
data: {{dir: {data}}}
train: {{batch_total: 12, steps: {steps}}}
checkpoints: {{every_steps: 20}}
faults: {{on_worker_loss: wait, start_timeout_s: 200, server_return_timeout_s: 200, wait_timeout_s: 200}}
security: curve
"""
LAUNCH = """#!/bin/sh
#SBATCH --nodes=2 --ntasks-per-node=1
exec tern launch --slurm --servers 1 --restarts 1 "$@"
"""
# In place of the program on PATH: lets the first start of a job take longer, so that it can be disturbed.
SLOW_WORKER = """#!/bin/sh
[ -n "$SLURM_RESTART_COUNT" ] || set -- "$@" --fail "thread.compute=delay:$TERN_TEST_DELAY_S"
exec {program} "$@"
"""


def skip(why):
    print(f"slurm_test: skipped: {why}")
    sys.exit(SKIPPED)


def enter_namespaces():
    """Starts this program again with processes, network and mounts of its own."""
    missing = [each for each in ("slurmctld", "slurmd", "munged", "sbatch", "unshare", "ip") if not shutil.which(each)]
    if os.geteuid() != 0 or missing:
        skip(f"it needs root, and these programs are missing: {missing}")
    if "TERN_RELEASE_CHECK" not in os.environ:
        skip("it takes minutes: scripts/release_check.sh slurm runs it, with TERN_RELEASE_CHECK=1")
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]
    if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        skip("namespaces are not allowed here")
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


def wait(what, condition):
    """Calls condition() until it returns something true, and returns that."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if result := condition():
            return result
        if any(process.poll() is not None for process in SLURM.processes):
            break
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s, or a daemon of Slurm has ended\n{SLURM.logs()}")


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def __enter__(self):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # With 127.0.0.1 alone, the C library takes this machine for one without a network, and finds no names.
        subprocess.run(["ip", "address", "add", "127.0.0.2/8", "dev", "lo"], check=True)
        host = os.uname().nodename.split(".")[0]
        (self.folder / "hosts").write_text(HOSTS.format(host=host))
        subprocess.run(["mount", "--bind", self.folder / "hosts", "/etc/hosts"], check=True)
        (self.folder / "ctld").mkdir()
        config = self.folder / "slurm.conf"
        config.write_text(CONFIG.format(folder=self.folder, host=host))
        os.environ["SLURM_CONF"] = str(config)
        # As of a user who came to the login node by ssh: sbatch hands it on to every node.
        os.environ["SSH_CONNECTION"] = "198.51.100.7 50000 198.51.100.20 22"
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed", "--num-threads=1")
        wait("munged has its socket", (self.folder / "munge.socket").exists)
        self.start("slurmctld", "-D", "-i", "-f", config)
        for node in ("n0", "n1"):
            (self.folder / f"spool.{node}").mkdir()
            self.start("slurmd", "-D", "-N", node, "-f", config)
        wait("both nodes are idle", lambda: self.ask("sinfo", "-h", "-o", "%T %D") == "idle 2")
        return self

    def __exit__(self, *unused):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        subprocess.run(["umount", "/etc/hosts"], check=True)

    def start(self, *words):
        log = (self.folder / f"{words[0]}.out").open("ab")
        self.processes.append(subprocess.Popen(words, stdout=log, stderr=log))

    def ask(self, *words):
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    def logs(self):
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("**/*.log")) +
                         sorted(self.folder.glob("**/*.out")) if "/out/" not in str(path))


class BatchJob:
    """A job of two workers, or more, and a shard in a folder of its own, submitted with deploy/slurm/NAME, or with the script at a path."""

    def __init__(self, name, delay_s, *options, workers=2, more="", settings=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=SLURM.folder, prefix="job."))
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(JOB.format(folder=self.folder, data=SLURM.folder, steps=STEPS, workers=workers))
        subprocess.run([BUILD / "bin/tern", "keys", "make", self.folder / "keys", "--job", self.job_file], check=True,
                       stdout=subprocess.DEVNULL)
        with self.job_file.open("a") as file:
            file.write(more)
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "tern_worker").write_text(SLOW_WORKER.format(program=BUILD / "bin/tern_worker"))
        (tools / "tern_worker").chmod(0o755)
        shutil.copy(BUILD / "bin/tern", tools)  # `tern member` starts the programs beside it
        (tools / "tern_server").symlink_to(BUILD / "bin/tern_server")
        environment = {**os.environ, "PATH": f"{tools}:{BUILD}/bin:{os.environ['PATH']}", "TERN_TEST_DELAY_S": str(delay_s)}
        settings = [f"--set={each}" for each in (f"keys.dir={self.folder}/keys", *settings)]
        done = subprocess.run(["sbatch", "--parsable", "--output=batch.out", *options, ROOT / "deploy/slurm" / name, self.job_file,
                               *settings], cwd=self.folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        self.number = done.stdout.strip()

    def output(self):
        path = self.folder / "batch.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def fact(self, name):
        return re.search(rf"\b{name}=(\S+)", SLURM.ask("scontrol", "show", "job", self.number)).group(1)

    def processes(self, *words):
        """The processes of this job in whose command line all of these words are."""
        files = {str(self.job_file), f"{self.folder}/out/launched_job.yaml"}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().decode().split("\0")
                if all(word in command or command[0].endswith(f"/{word}") for word in words) and files & set(command):
                    yield int(folder.name)
            except (FileNotFoundError, ProcessLookupError, UnicodeDecodeError):
                pass

    def wait_for_step(self, step):
        log = self.folder / "out"
        wait(f"step {step}", lambda: list(log.glob(f"checkpoints/worker.*/step.{step}.json")))

    def kill(self, *words):
        pids = wait(f"a process {words}", lambda: list(self.processes(*words)))
        os.kill(min(pids), signal.SIGKILL)

    def wait_for_end(self):
        """Returns the state and the exit code of the batch job."""
        states = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")
        state = wait("the job's end", lambda: (s := self.fact("JobState")) in states and s)
        return state, self.fact("ExitCode")

    def weights(self):
        return (self.folder / "out/weights.safetensors").read_bytes()


class Batch(unittest.TestCase):
    def expect_undisturbed_result(self, job):
        self.assertEqual(job.wait_for_end(), ("COMPLETED", "0:0"), job.output())
        self.assertEqual(job.weights(), SLURM.weights, "the weights of a run without Slurm")

    def test_a_killed_worker_is_started_again_alone(self):
        job = BatchJob("tern.sbatch", 0.05)
        job.wait_for_step(20)
        job.kill("tern_worker", "--rank", "1")
        self.expect_undisturbed_result(job)
        self.assertEqual(re.findall(r"tern.sbatch: (\S+) ended with (\d+)", job.output()), [("worker.1", "137")])

    def test_a_killed_shard_is_started_again_alone(self):
        job = BatchJob("tern.sbatch", 0.05)
        job.wait_for_step(20)
        job.kill("tern_server", "--rank", "0")
        self.expect_undisturbed_result(job)
        self.assertEqual(re.findall(r"tern.sbatch: (\S+) ended with (\d+)", job.output()), [("server.0", "137")])

    def test_the_step_of_a_killed_srun_is_ended_and_started_again(self):
        job = BatchJob("tern.sbatch", 0.05)
        job.wait_for_step(20)
        job.kill("srun", "--job-name=worker.0")
        self.expect_undisturbed_result(job)
        self.assertEqual(re.findall(r"tern.sbatch: (\S+) ended with (\d+)", job.output()), [("worker.0", "137")])

    def test_every_core_of_the_nodes_has_a_daemon(self):
        job = BatchJob("tern.sbatch", 0.01, "--nodes=2", "--ntasks=4", "--mem=400", workers=3)
        self.assertEqual(job.wait_for_end(), ("COMPLETED", "0:0"), job.output())
        self.assertNotIn("Requested nodes are busy", job.output())

    def test_memory_may_be_asked_for_each_core(self):
        self.expect_undisturbed_result(BatchJob("tern.sbatch", 0.01, "--mem-per-cpu=50"))

    def test_at_its_time_limit_the_job_goes_back_into_the_queue(self):
        # Slurm sends the signal 10 to 40 s before the limit.
        job = BatchJob("tern.sbatch", 0.3, "--time=1", "--signal=B:USR1@10")
        self.expect_undisturbed_result(job)
        self.assertEqual(job.fact("Restarts"), "1")
        self.assertIn("ended with 143; the job goes back into the queue", job.output())
        self.assertRegex(job.output(), r"resume|checkpoint")

    def test_a_bad_job_ends_with_its_code_at_once(self):
        job = BatchJob("tern.sbatch", 0.01, more="no_such_key: 1\n")
        self.assertEqual(job.wait_for_end(), ("FAILED", "78:0"), job.output())
        self.assertNotIn("started again", job.output())

    def test_a_worker_that_cannot_start_ends_the_job(self):
        job = BatchJob("tern.sbatch", "no number")
        self.assertEqual(job.wait_for_end(), ("FAILED", "64:0"), job.output())

    def test_one_step_has_the_servers_and_workers(self):
        job = BatchJob("tern_member.sbatch", 0.01)
        self.expect_undisturbed_result(job)
        self.assertRegex(job.output(), "task 2, from SLURM_PROCID, is worker 1")

    def test_one_step_goes_back_into_the_queue_at_its_time_limit(self):
        job = BatchJob("tern_member.sbatch", 0.3, "--time=1", "--signal=B:USR1@10")
        self.expect_undisturbed_result(job)
        self.assertEqual(job.fact("Restarts"), "1")
        self.assertIn("ended with 143; the job goes back into the queue", job.output())

    def test_one_step_with_a_killed_task_goes_back_into_the_queue(self):
        job = BatchJob("tern_member.sbatch", 0.05, settings=["faults.on_worker_loss=fail"])
        job.wait_for_step(20)
        job.kill("tern_worker", "--rank", "1")
        self.expect_undisturbed_result(job)
        self.assertEqual(job.fact("Restarts"), "1")

    def test_tern_launch_starts_a_lost_worker_again_inside_an_allocation(self):
        script = SLURM.folder / "launch.sbatch"
        script.write_text(LAUNCH)
        job = BatchJob(script, 0.05)
        job.wait_for_step(20)
        job.kill("tern_worker", "--rank", "1")
        self.expect_undisturbed_result(job)
        self.assertRegex(job.output(), "worker 0 on n0 is process .*(?s:.*)worker 1 on n1 is process ")


def undisturbed_weights(folder):
    """Of the same job without Slurm, by `tern run`, which makes its own keys."""
    folder = folder / "undisturbed"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB.format(folder=folder, data=folder.parent, steps=STEPS, workers=2))
    subprocess.run([BUILD / "bin/tern", "run", folder / "job.yaml"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (folder / "out/weights.safetensors").read_bytes()


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter_namespaces()
    with tempfile.TemporaryDirectory(prefix="tern_slurm.") as name:
        images.write_images(pathlib.Path(name), "train", 240, 1)
        images.write_images(pathlib.Path(name), "t10k", 60, 2)
        SLURM = Slurm(pathlib.Path(name))
        with SLURM:
            SLURM.weights = undisturbed_weights(pathlib.Path(name))
            program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
