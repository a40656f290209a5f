"""Holds this version to what docs/INSTALL.md promises: it resumes the jobs of earlier versions, from the checkpoints that these
wrote, and reads their weights.

  compat_test.py SOURCE_DIR BUILD_DIR

compat/VERSION has job files, data, and for each job a folder with checkpoints and weights, written by that version: 20 steps
with a checkpoint every 10. A release adds a folder, by running its jobs; none is ever written again.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

OLD_STEPS = 20
NEW_STEPS = 30


def run(arguments, folder, code=0):
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != code:
        sys.exit(f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(holds, sentence):
    if not holds:
        sys.exit(f"FAILED: {sentence}")


def check_job(programs, folder, job):
    """Resumes a job, and evaluates its old weights."""
    tern_run = [programs / "tern", "run", f"{job}.yaml", "--free_ports", "--set", f"train.steps={NEW_STEPS}"]
    said = run([*tern_run, "--set", "train.clip_norm=3"], folder, 65)
    expect("train.clip_norm was 0, is now 3" in said, f"the key that differs is named: {said}")
    said = run([programs / "tern_worker", "--job", f"{job}.yaml", "--evaluate", f"{job}/weights.safetensors"], folder)
    expect("top-1 1.0000" in said, f"the old weights classify all images as they did: {said}")
    said = run(tern_run, folder)
    expect(f"goes on from step {OLD_STEPS}" in said, f"resumes from the old checkpoints: {said}")
    summary = json.loads((folder / job / "summary.json").read_text())
    expect(summary["from_step"] == OLD_STEPS and summary["rounds"] == NEW_STEPS, f"the summary counts all steps: {summary}")
    expect(summary["replicas_agree"], "the replicas agree")


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    versions = sorted((source / "tests/e2e/compat").iterdir())
    expect(versions, "there are files of earlier versions")
    for version in versions:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "jobs"
            shutil.copytree(version, folder)
            jobs = sorted(path.stem for path in folder.glob("*.yaml"))
            expect(jobs, f"{version} has jobs")
            for job in jobs:
                check_job(build / "bin", folder, job)
            print(f"{version.name}: {', '.join(jobs)}")


main()
