"""A short soak of one kind of job: soak_test.py ROOT BUILD localized|central|odsgd|topk|shrink.

It asserts the bytes of the final weights and exit codes, and no times. The faults are a function of the seed."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/drill"))
import images  # noqa: E402

SECONDS, SEED = 12, 7
# keep: the fault full_disk lets two checkpoints of three fail, of which the default of 2 outlives one (docs/FAULTS.md).

JOB = """name: soak
seed: 1
output_dir: out
servers: [{servers}]
workers: {{count: 2}}
model: {{name: lenet}}
data: {{dir: {data}}}
checkpoints: {{every_steps: {every_steps}, keep: 4}}
faults: {{on_worker_loss: {policy}, progress_timeout_s: 20}}
{more}
"""

KINDS = {
    "localized": {"more": "train: {batch_total: 8, steps: 100}"},
    "central": {"servers": 2, "every_steps": 30,
                "more": "train: {batch_total: 8, steps: 100, parameters: central}\nexchange: {chunk_kib: 256}"},
    "odsgd": {"every_steps": 30, "more": "train: {batch_total: 8, steps: 100, algorithm: odsgd, odsgd: {warmup_steps: 5, local: {momentum: 0.9}}}"},
    "topk": {"every_steps": 30, "more": "train: {batch_total: 8, steps: 100, optimizer: {name: sgd}}\nexchange: {codec: topk, topk: {momentum: 0.9}}"},
    "shrink": {"policy": "shrink", "more": "train: {batch_total: 8, steps: 100}"},
}


def main():
    root, build, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    kind = {"servers": 1, "policy": "wait", "every_steps": 0, **KINDS[name]}
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        images.write_images(data, "train", 240, 1)
        images.write_images(data, "t10k", 60, 2)
        kind["servers"] = ", ".join(f'{{address: "127.0.0.1:{1 + n}"}}' for n in range(kind["servers"]))
        job = pathlib.Path(folder) / f"{name}.yaml"
        job.write_text(JOB.format(data=data, **kind))
        # A lost message is repeated only after 4 s, too long for a short soak.
        words = ["--job", job, "--seconds", str(SECONDS), "--every", "0.2,1.5", "--seed", str(SEED), "--no_times",
                 "--without", "drop"]
        return subprocess.run([sys.executable, "-B", root / "scripts/drill/drill.py", build / "bin", *words]).returncode


if __name__ == "__main__":
    sys.exit(main())
