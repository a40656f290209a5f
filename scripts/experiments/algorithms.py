"""Every algorithm beside synchronous SGD with fp32: accuracy, loss, speed and bytes over paired seeds."""
import pathlib
import sys

import compare

# Workers cannot share scalers if pushes do not wait for each other, or if servers decode every push by itself.
OWN = "exchange.scaler=per_worker"
# No momentum with delayed gradients, and a learning rate per push; softsync applies means of pushes.
PLAIN = "train.optimizer.name=sgd train.schedule.learning_rate=0.02"
MEANS = "train.optimizer.name=sgd train.schedule.learning_rate=0.05"
# Name: settings for both codecs, settings for ternary (None: without ternary).
CASES = {
    "ssgd": ("train.algorithm=ssgd", ""),
    "ssgd/central": ("train.algorithm=ssgd train.parameters=central", OWN),
    "ssgd/backup": ("train.algorithm=ssgd train.ssgd.backup_workers=1", ""),
    "odsgd": ("train.algorithm=odsgd train.odsgd.warmup_steps=200", ""),
    "odsgd/dcasgd_c": ("train.algorithm=odsgd train.odsgd.local.name=dcasgd_c", ""),
    "odsgd/dcasgd_a": ("train.algorithm=odsgd train.odsgd.local.name=dcasgd_a train.odsgd.local.lambda=2", ""),
    "odsgd/central": ("train.algorithm=odsgd train.parameters=central", OWN),
    "asgd": (f"train.algorithm=asgd {PLAIN}", OWN),
    "dcasgd_c": (f"train.algorithm=dcasgd_c {PLAIN}", OWN),
    "dcasgd_a": (f"train.algorithm=dcasgd_a train.dcasgd_a.lambda=2 {PLAIN}", OWN),
    "ssp": (f"train.algorithm=ssp {PLAIN}", OWN),
    "softsync": (f"train.algorithm=softsync train.softsync.n=2 {MEANS}", OWN),
    "psgd": ("train.algorithm=psgd", None),
    "rsgd": ("train.algorithm=rsgd", None),
    "pqasgd": ("train.algorithm=pqasgd train.pqasgd.p=8", "exchange.clip=none"),
    "easgd": ("train.algorithm=easgd", None),
    "easgd_async": ("train.algorithm=easgd_async", None),
}


def rows():
    for name, (both, ternary) in CASES.items():
        yield (name, "fp32"), both.split()
        if ternary is not None:
            yield (name, "ternary"), both.split() + ternary.split()


TABLE = compare.Table(
    title="Every algorithm", folder=pathlib.Path("out/experiments/algorithms_mnist"), base=("ssgd", "fp32"),
    rows=dict(rows()),
    bars={
        ("odsgd", "ternary"): {"gap": 0.25},
        ("pqasgd", "ternary"): {"gap": 0.3, "bytes_percent": 1.6},
    })

if __name__ == "__main__":
    sys.exit(compare.main(TABLE))
