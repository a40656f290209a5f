"""Whether the steps to a loss fall as 1 / N with N workers (PQASGD, theorems 1 to 3: O(1 / sqrt(m N T)))."""
import math
import pathlib
import statistics
import sys

import claims
import report
import student

# One run (fp32, one worker, seed 1) chose LOSS, IMAGES, STEPS and EVERY. All else was fixed before the first run, and these before the
# first of the table.
SEEDS = (1, 2, 3, 4, 5)
WORKERS = (1, 2, 4, 8, 16)
BATCH = 32  # m: samples a worker and step
RATE = 0.01  # with one worker
LOSS = 0.6  # eps: the test loss to reach, of IMAGES test images
IMAGES = 2500
SLOPE = -0.8  # the theory says -1
STEPS, EVERY = 1920, 96  # with one worker: the most steps, and those between evaluations
LAWS = {"N": lambda n: n, "sqrt N": math.sqrt}

CASES = {
    "fp32": "exchange.codec=fp32",
    "ternary": "exchange.codec=ternary",
    "qsgd sqrt_n, coded sums": "exchange.codec=qsgd exchange.qsgd.levels=sqrt_n exchange.qsgd.bucket_elements=0",
    "qsgd sqrt_n, exact sums": "exchange.codec=qsgd exchange.qsgd.levels=sqrt_n exchange.qsgd.bucket_elements=0 exchange.qsgd.sums=exact",
    "pqasgd p = 8, ternary": "train.algorithm=pqasgd train.pqasgd.p=8 exchange.codec=ternary",
}


def row(case, law, workers):
    factor = LAWS[law](workers)
    every = max(8, round(EVERY / factor / 8) * 8)  # a multiple of p
    return claims.Row(
        f"{case}, rate {law}, {workers} workers",
        (*CASES[case].split(), f"workers.count={workers}", f"train.batch_total={BATCH * workers}", "train.optimizer.name=sgd",
         "train.schedule.name=fixed", f"train.schedule.learning_rate={RATE * factor:.6g}", "train.weight_decay.rate=0",
         f"train.steps={math.ceil(STEPS / factor / every) * every}", f"evaluation.every_steps={every}", f"data.test_limit={IMAGES}"), SEEDS)


def rows(_):
    every = [row(case, law, workers) for case in CASES for law in LAWS for workers in WORKERS if workers > 1 or law == "N"]
    return every + [mutant for workers in WORKERS[1:] for mutant in claims.mutants(row("ternary", "N", workers))]


def steps_to_loss(figures):
    """Returns the step at which the test loss reaches LOSS, between two evaluations by its logarithm; None if it does not."""
    before = None
    for step, loss in figures["curve"]:
        if loss <= LOSS:
            if before is None:
                return float(step)
            share = math.log(before[1] / LOSS) / math.log(before[1] / loss)
            return before[0] + share * (step - before[0])
        before = (step, loss)
    return None


def name_of(case, law, workers, fault=""):
    return f"{case}, rate {law if workers > 1 else 'N'}, {workers} workers" + (f", {fault}" if fault else "")


def logs(found, case, law, fault="", workers=WORKERS):
    """Returns {seed: [(log N, log of the steps)]} of the seeds that have reached the loss with every number of workers."""
    all_of = {}
    for seed in SEEDS:
        steps = [steps_to_loss(found[name][seed]) if seed in found.get(name, {}) else None
                 for name in (name_of(case, law, n, fault) for n in workers)]
        if None not in steps:
            all_of[seed] = [(math.log(n), math.log(step)) for n, step in zip(workers, steps)]
    return all_of


def slope(points):
    x, y = zip(*points)
    return statistics.linear_regression(x, y).slope


def judge(found):
    keys = [(case, law) for law in LAWS for case in CASES]
    slopes = [[slope(points) for points in logs(found, *key).values()] for key in keys]
    below = student.holm([student.p_below(values, SLOPE) for values in slopes])
    above = student.holm([student.p_above(values, SLOPE) for values in slopes])
    verdicts = [claims.HOLDS if low < claims.LEVEL else claims.CONTRADICTED if high < claims.LEVEL else claims.UNDECIDED
                for low, high in zip(below, above)]
    cells = []
    for (case, law), values, verdict in zip(keys, slopes, verdicts):
        points = logs(found, case, law)
        means = [f"{statistics.fmean(math.exp(each[i][1]) for each in points.values()):.0f}" if points else "-"
                 for i in range(len(WORKERS))]
        cells.append((case, law, len(values), *means, claims.mean_text(values, 3), claims.interval_text(values, 3), verdict))
    told, mutants = judge_mutants(found)
    overall = claims.NO_POWER if not told else summary(dict(zip(keys, verdicts)))
    return overall, "\n\n".join([
        __doc__, f"LeNet on Fashion-MNIST, {BATCH} samples a worker and step, SGD without momentum, rate {RATE} N or {RATE} sqrt(N). Steps "
        f"until the test loss\nof {IMAGES:,} images is {LOSS}, interpolated between evaluations, and the slope of their logarithm over log N. "
        f"The theory says -1; above\n{SLOPE} (one-sided test, Holm over the rows) contradicts it.",
        report.table(("row", "rate", "seeds", *(f"N = {n}" for n in WORKERS), "slope", "95 % interval", "verdict"), cells),
        "Can the table tell a broken server from a correct one? log(steps) with a planted fault against ternary's, mean over N = "
        f"{', '.join(map(str, WORKERS[1:]))}, rate N:", mutants])


def summary(verdicts):
    """The theorems' rate is sqrt(m N / T): where T falls as 1 / N, it grows as N. Only those rows decide."""
    deciding = {verdict for (_, law), verdict in verdicts.items() if law == "N"}
    return claims.CONTRADICTED if claims.CONTRADICTED in deciding else claims.UNDECIDED if claims.UNDECIDED in deciding else claims.HOLDS


def judge_mutants(found):
    """As claims.judge_mutants, over the mean of all numbers of workers."""
    merged = {}
    for fault in ("", *claims.FAULTS.values()):
        means = {seed: {"value": statistics.fmean(y for _, y in points)}
                 for seed, points in logs(found, "ternary", "N", fault, WORKERS[1:]).items()}
        merged["ternary" + (f", {fault}" if fault else "")] = means
    return claims.judge_mutants(merged, "ternary", lambda figures: figures["value"], 3)


CLAIM = claims.Claim("linear_speedup", "Linear speed-up with the number of workers",
                     pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
