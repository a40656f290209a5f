"""ResNet-20, trained on five classes of CIFAR-10, learns the other five from few images: with the trained weights and a
new head, and from random weights."""
import argparse
import os
import pathlib
import statistics
import sys

import report
import runs
import student

RECORD_BYTES = 1 + 3072  # a label, and the pixels
CLASSES = 5
ARMS = ("fresh", "fine_tuned")
JOB = pathlib.Path("configs/cifar10_resnet20.yaml")


def write_half(source, folder, labels):
    """Writes the images of these classes as CIFAR-10 files. The files' format has ten classes, so the head keeps ten outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]:
        records = (source / name).read_bytes()
        kept = bytearray()
        for at in range(0, len(records), RECORD_BYTES):
            if records[at] in labels:
                kept += records[at:at + RECORD_BYTES]
        (folder / name).write_bytes(kept)


class Experiment:
    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.out)

    def run_of(self, case, seed, data, *settings, files=()):
        return runs.Run(case, seed, "ternary", JOB, (f"data.dir={self.folder}/data/{data}", f"seed={seed}",
                                                     "train.schedule.warmup_steps=50", *settings),
                        self.folder / case / f"seed_{seed}", files)

    def base(self):
        return self.run_of("base", 1, "first_five", f"train.epochs={self.options.base_epochs}", "evaluation.every_steps=0")

    def arm(self, arm, seed):
        settings = [f"data.train_limit={self.options.images}", f"train.epochs={self.options.epochs}", "evaluation.every_steps=0",
                    "train.batch_total=32", f"train.schedule.learning_rate={self.options.learning_rate}"]
        if arm != "fine_tuned":
            return self.run_of(arm, seed, "last_five", *settings)
        weights = self.base().folder / "weights.safetensors"
        # A list on the command line is JSON.
        settings += [f"model.weights={weights}", f'model.new_tensors=["{self.options.head}"]']
        return self.run_of(arm, seed, "last_five", *settings, files=(weights,))  # Runs from another base are not taken for these.

    def seeds(self):
        return range(1, self.options.seeds + 1)


def print_table(experiment):
    found = {arm: [experiment.arm(arm, seed).result() for seed in experiment.seeds()] for arm in ARMS}
    rows = [(arm, sum(result is not None for result in results),
             report.mean_text([result["accuracy"] for result in results if result], 2, 100)) for arm, results in found.items()]
    base = experiment.base().result()
    gains = [100 * (tuned["accuracy"] - fresh["accuracy"]) for tuned, fresh in zip(found["fine_tuned"], found["fresh"])
             if tuned and fresh]
    bounds = student.interval(gains)
    text = [f"# ResNet-20: {experiment.options.images} images of five classes, {experiment.options.epochs} epochs",
            f"Trained before on the other five classes: {100 * base['accuracy']:.2f} % of theirs." if base else "",
            report.table(("arm", "seeds", "accuracy % of 5,000 images"), rows)]
    if bounds:
        text.append(f"Fine-tuning gains {statistics.fmean(gains):.2f} points, 95 % interval {bounds[0]:.2f} to {bounds[1]:.2f} "
                    f"(Student's t, {len(gains)} paired seeds).")
    text = "\n\n".join(line for line in text if line) + "\n"
    (experiment.folder / "table.md").write_text(text)
    print("\n" + text)
    return bounds is not None and bounds[0] > 0


def main():
    parser = argparse.ArgumentParser(prog=os.environ.get("TERN_EXPERIMENT", "fine_tuning.py"),
                                     description="Finished runs are not repeated: stop at any time, and start again to continue.")
    parser.add_argument("--tern", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", type=int, default=1000, help="training images of the five new classes")
    parser.add_argument("--epochs", type=int, default=10, help="epochs over these images")
    parser.add_argument("--base_epochs", type=int, default=4, help="epochs over the 25,000 images of the first five classes")
    parser.add_argument("--learning_rate", type=float, default=0.05, help="of both arms")
    parser.add_argument("--head", default="fc.*", help="the tensors of the last layer")
    parser.add_argument("--out", default="out/experiments/fine_tuning", help="the folder of all results")
    options = parser.parse_args()
    experiment = Experiment(options)
    if not (experiment.folder / "data" / "last_five" / "test_batch.bin").exists():
        write_half(options.data, experiment.folder / "data" / "first_five", range(CLASSES))
        write_half(options.data, experiment.folder / "data" / "last_five", range(CLASSES, 2 * CLASSES))

    def report_run(run, result, num_left):
        print(f"{run.name}: {100 * result['accuracy']:.2f} %" if result else f"{run.name}: failed", f"({num_left} left)", flush=True)

    # The base comes first, because the others read its weights.
    for wave in ([experiment.base()], [experiment.arm(arm, seed) for seed in experiment.seeds() for arm in ARMS]):
        failures = runs.run_all([run for run in wave if run.result() is None], options.tern, 1, report_run)
        if failures:
            sys.exit("\n".join(failures))
    return 0 if print_table(experiment) else 1


if __name__ == "__main__":
    sys.exit(main())
