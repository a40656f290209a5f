"""What systemd's units and the installed tree need, and no systemd is asked about; and the batch script of Slurm, without Slurm.

  deploy_test.py ROOT BUILD
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])

# Slurm's programs, in place of which $0 is called. The time limit comes while the lost step of worker 0 is ended.
SLURM = """#!/bin/sh
cd "$FAKE" || exit 1
case ${0##*/} in
  scontrol) [ "$1" = show ] && echo n0; [ "$1" != requeue ] || { echo requeue >>calls; exit 1; } ;;
  squeue)
    [ ! -e asked ] || exit 0
    touch asked
    echo '1.1 worker.0'
    kill -USR1 "$(cat pid)"
    until [ -e term ]; do sleep 0.05; done ;;
  scancel) [ "$1" != --signal=TERM ] || touch term ;;
  srun)
    echo "$*" | grep -o 'job-name=[a-z.0-9]*' >>calls
    case $* in *job-name=worker.0*) exit 75 ;; esac
    until [ -e term ]; do sleep 0.05; done
    exit 143 ;;
esac
"""


def settings(role):
    """The keys of a unit with their last values, and its environment."""
    lines = [line.split("=", 1) for line in (ROOT / f"deploy/systemd/tern-{role}@.service").read_text().splitlines()
             if "=" in line and not line.startswith("#")]
    return dict(lines), dict(value.strip('"').split("=", 1) for key, value in lines if key == "Environment")


class Deploy(unittest.TestCase):
    def test_a_job_that_a_signal_has_stopped_is_not_started_again(self):
        codes = (ROOT / "common/base/status.h").read_text()
        stopped = set(re.findall(r"k(?:Interrupted|Terminated) = (\d+)", codes))
        self.assertEqual(len(stopped), 2)
        for role in ("server", "worker"):
            self.assertEqual(set(settings(role)[0]["SuccessExitStatus"].split()), stopped)

    def test_the_workers_of_a_host_meet_in_one_folder(self):
        keys, environment = settings("worker")
        self.assertEqual(keys["PrivateTmp"], "yes")
        self.assertEqual(environment["TMPDIR"], f"/run/{keys['RuntimeDirectory']}")
        # Else the first worker that ends takes the others' folder along.
        self.assertEqual(keys["RuntimeDirectoryPreserve"], "yes")

    def test_a_worker_that_comes_back_finds_the_plans_of_its_gpu(self):
        keys, environment = settings("worker")
        # The engine appends /tern, and nothing else of the file system can be written.
        self.assertEqual(f"{environment['XDG_CACHE_HOME']}/tern", f"/var/cache/{keys['CacheDirectory']}")

    def test_the_time_limit_of_slurm_finds_a_daemon_that_is_to_be_started_again(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("scontrol", "squeue", "scancel", "srun"):
                program = pathlib.Path(folder) / name
                program.write_text(SLURM)
                program.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FAKE": folder, "TMPDIR": folder, "SLURM_NTASKS": "2",
                           "SLURM_JOB_NODELIST": "n0", "SLURM_TASKS_PER_NODE": "2", "SLURM_JOB_ID": "1"}
            script = f'echo $$ >"$FAKE/pid"; exec bash {ROOT}/deploy/slurm/tern.sbatch job.yaml'
            run = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 143, run.stderr)
            calls = (pathlib.Path(folder) / "calls").read_text().split()
            self.assertEqual(sorted(calls), ["job-name=server.0", "job-name=worker.0", "requeue"])
            self.assertEqual([name for name in os.listdir(folder) if name.startswith("tmp.")], [])

    def test_the_job_that_the_documents_give_to_slurm_has_keys_and_runs_on_nodes(self):
        keys = re.search(r"^# Once; job.yaml has (.*)\n(tern keys make .*)$", (ROOT / "docs/CLUSTERS.md").read_text(), re.MULTILINE)
        lines = re.findall(r"\w+: (?:\{[^}]*\}|\w+)", keys[1])
        job = "\n".join([*lines, "name: on_nodes", "output_dir: out", "model: {name: lenet}", "data: {dir: data}",
                         "train: {batch_total: 70, steps: 20}"])
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "job.yaml").write_text(job)
            for words in (keys[2].split(), ["tern_server", "--job", "job.yaml", "--rank", "0", "--check"]):
                environment = {**os.environ, "TERN_SERVERS": "node0:7500", "TERN_WORKERS": "7"}
                run = subprocess.run([BUILD / "bin" / words[0], *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("security: curve", run.stdout)

    def test_what_the_documents_tell_to_copy_is_installed(self):
        files = set(re.findall(r"\((?:\.\./)?deploy/([^)]*\.\w+)\)", (ROOT / "docs/CLUSTERS.md").read_text()))
        self.assertIn("systemd/keys/server.conf", files)
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
            installed = pathlib.Path(prefix) / "share/tern/deploy"
            for file in files | {"systemd/keys/worker.conf"}:
                self.assertTrue((installed / file).is_file(), file)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
