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
    claimed = {("shared", "sqrt_n"): "sqrt_n suffices for shared data", ("by_class", "sqrt_mpn"): "sqrt_mpn suffices for data by class"}
    stated = []
    for (data, codec), statement in claimed.items():
        for p in PERIODS:
            points = gaps.accuracy_gaps(found, name_of(data, p, codec), name_of(data, p, "fp32"))
            stated.append((f"{statement}, p = {p}", points, student.p_below(points, MARGIN), student.p_above(points, MARGIN)))
    verdict, statements = claims.judge_statements(told, stated)
    parts += [f"## Points of accuracy below exact changes, with the same p and data; it holds below {MARGIN}", statements,
              "Planted faults, by the training loss:", mutants]
    return verdict, "\n\n".join(parts)


CLAIM = claims.Claim("local_steps", "Local steps with quantized changes", pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
