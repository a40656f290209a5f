"""Local steps and quantized changes (PQASGD, Algorithm 2): p steps between exchanges, the paper's numbers of levels, and whose data.

The paper: the variance of quantization is harmless if q, its ratio to the squared norm, is small enough: s = sqrt(n) levels suffice where
all workers draw from the same data, and s = sqrt(m p n) where each has its own.
"""
import itertools
import pathlib
import sys

import claims
import gaps
import student

# All of this was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
SPAN = 480  # steps whose training loss is compared; a multiple of every p
STEPS = 2400
MARGIN = 0.3  # points
WORKERS, SAMPLES = 8, 8  # m samples a worker and step
PERIODS = (1, 2, 4, 8, 16)
LEVELS = "exchange.codec=qsgd exchange.qsgd.bucket_elements=0 exchange.qsgd.norm=two exchange.qsgd.levels="
CODECS = {"fp32": "exchange.codec=fp32", "sqrt_n": LEVELS + "sqrt_n", "sqrt_mn": LEVELS + "sqrt_mn", "sqrt_mpn": LEVELS + "sqrt_mpn",
          "sqrt_n, exact sums": LEVELS + "sqrt_n exchange.qsgd.sums=exact", "ternary": "exchange.codec=ternary"}
DATA = ("shared", "by_sample", "by_class")
COMMON = (f"workers.count={WORKERS}", f"train.batch_total={WORKERS * SAMPLES}", f"train.steps={STEPS}", "train.optimizer.name=sgd",
          "train.schedule.learning_rate=0.05", "train.weight_decay.rate=0", f"faults.compare_every_steps={SPAN}")


def name_of(data, p, codec):
    codec = "sqrt_mn" if (p, codec) == (1, "sqrt_mpn") else codec  # the same number of levels
    return f"{data}, p = {p}, {codec}"


def cases_of(data):
    """Returns (p, codec) of the rows. Exact sums change only what servers do to sums, whatever the data are."""
    return [(p, codec) for p, codec in itertools.product(PERIODS, CODECS)
            if (p, codec) != (1, "sqrt_mpn") and (data == "shared" or "exact" not in codec)]


def base_of(data):
    """FULLSGD: exact gradients in every step."""
    return f"{data}, ssgd fp32"


def rows(_):
    made = [claims.Row(base_of(data), ("exchange.codec=fp32", f"data.partition={data}", *COMMON), SEEDS) for data in DATA]
    made += [claims.Row(name_of(data, p, codec), (*CODECS[codec].split(), "train.algorithm=pqasgd", f"train.pqasgd.p={p}",
                                                  f"data.partition={data}", *COMMON), SEEDS)
             for data in DATA for p, codec in cases_of(data)]
    return [*made, *(fault for row in made if row.name == name_of("shared", 8, "ternary") for fault in claims.mutants(row))]


def judge(found):
    parts = [__doc__, f"LeNet on Fashion-MNIST, {WORKERS} workers, {SAMPLES} samples a worker and step, {STEPS} steps, SGD without momentum, "
             "rate 0.05 with the job's\nschedule. " + gaps.EXPLAINED.format(base="ssgd with fp32", span=SPAN, margin=MARGIN)]
    for data in DATA:
        table, _ = gaps.table(found, base_of(data), [name_of(data, *key) for key in cases_of(data)], MARGIN)
        parts += [f"## Data: {data}", table]
    told, mutants = claims.judge_mutants(found, name_of("shared", 8, "ternary"), lambda figures: figures["train_loss"], 4)
    # Of each claim: the loss above that of fp32 with the same p and data.
    claimed = {("shared", "sqrt_n"): "sqrt_n suffices for shared data", ("by_class", "sqrt_mpn"): "sqrt_mpn suffices for data by class"}
    above = {key: [gaps.accuracy_gaps(found, name_of(key[0], p, key[1]), name_of(key[0], p, "fp32")) for p in PERIODS] for key in claimed}
    flat = [each for values in above.values() for each in values]
    worse = student.holm([student.p_above(each, MARGIN) for each in flat])
    equal = student.holm([student.p_below(each, MARGIN) for each in flat])
    labels = [f"* {claimed[key]}, p = {p}" for key in claimed for p in PERIODS]
    parts += ["## Quantized against exact changes, by points of accuracy, with the same p and data", "\n".join(
        f"{label}: {claims.mean_text(each, 2)} ({claims.interval_text(each, 2)})" for label, each in zip(labels, flat)),
        "Planted faults, by the training loss:", mutants]
    verdict = (claims.NO_POWER if not told else claims.CONTRADICTED if min(worse) < claims.LEVEL
               else claims.HOLDS if max(equal) < claims.LEVEL else claims.UNDECIDED)
    return verdict, "\n\n".join(parts)


CLAIM = claims.Claim("local_steps", "Local steps with quantized changes", pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
