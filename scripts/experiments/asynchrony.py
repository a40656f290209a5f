"""Whether delay compensation (DC-ASGD, which OD-SGD builds on) helps when asynchronous workers have tuned rates: 16 workers, so that
gradients are about 15 updates old."""
import pathlib
import statistics
import sys

import claims
import gaps
import report

# All of this was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
GRID_SEEDS = SEEDS[:2]
RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
SPAN = 500  # steps whose training loss is compared
MARGIN = 0.3  # points
CASES = {
    "asgd": "train.algorithm=asgd",
    "dcasgd_c, 0.04": "train.algorithm=dcasgd_c train.dcasgd_c.lambda=0.04",
    "dcasgd_c, 0.5": "train.algorithm=dcasgd_c train.dcasgd_c.lambda=0.5",
    "dcasgd_a, 0.5": "train.algorithm=dcasgd_a train.dcasgd_a.lambda=0.5",
    "dcasgd_a, 2": "train.algorithm=dcasgd_a train.dcasgd_a.lambda=2",
    "softsync, 1": "train.algorithm=softsync train.softsync.n=1",
    "softsync, 4": "train.algorithm=softsync train.softsync.n=4",
    "softsync, 16": "train.algorithm=softsync train.softsync.n=16",
    "ssp, 3": "train.algorithm=ssp train.ssp.staleness=3",
    "ssp, 16": "train.algorithm=ssp train.ssp.staleness=16",
    "easgd_async": "train.algorithm=easgd_async",
}
COMMON = ("workers.count=16", "train.batch_total=256", "train.steps=500", "train.optimizer.name=sgd", "train.weight_decay.rate=0",
          "exchange.codec=fp32", f"faults.compare_every_steps={SPAN}")
BASE = "asgd"
FAULTY = "asgd, ternary"  # the planted faults are in codec ternary


def row(case, rate, seeds):
    return claims.Row(f"{case}, rate {rate}", (*COMMON, *CASES[case].split(), f"train.schedule.learning_rate={rate}"), seeds)


def best_rate(found, case):
    """Returns the rate with the lowest test loss over GRID_SEEDS, of those that did not diverge; None if there is none."""
    losses = {}
    for rate in RATES:
        mine = found.get(row(case, rate, ()).name, {})
        if all("test_loss" in mine.get(seed, {}) for seed in GRID_SEEDS):
            losses[rate] = statistics.fmean(mine[seed]["test_loss"] for seed in GRID_SEEDS)
    return min(losses, key=losses.get) if losses else None


def tuned_rate(ended, case):
    """Returns best_rate once the grid is whole, else None."""
    whole = all(seed in ended.get(row(case, rate, ()).name, {}) for rate in RATES for seed in GRID_SEEDS)
    return best_rate(ended, case) if whole else None


def edge_note(best):
    """Says of which cases the best rate is the first or the last one of the grid; takes {case: best rate}."""
    edges = {RATES[0]: "smallest", RATES[-1]: "largest"}
    notes = [f"* {case}: {rate} is the {edges[rate]} of the rates" for case, rate in best.items() if rate in edges]
    if not notes:
        return "Every best rate has a smaller and a larger one beside it in the grid."
    return "\n".join(["Not tuned, because the best rate lies at the edge of the grid and a better one may lie beyond:", *notes])


def rows(ended):
    made = []
    for case in CASES:
        best = tuned_rate(ended, case)
        made += [row(case, rate, SEEDS if rate == best else GRID_SEEDS) for rate in RATES]
    if (best := tuned_rate(ended, BASE)) is not None:
        ternary = claims.Row(FAULTY, (*row(BASE, best, SEEDS).settings, "exchange.codec=ternary", "exchange.scaler=per_worker"), SEEDS)
        made += [ternary, *claims.mutants(ternary)]
    return made


def judge(found):
    best = {case: best_rate(found, case) for case in CASES}
    named = {f"{case}, rate {rate}": found[row(case, rate, ()).name] for case, rate in best.items() if rate is not None}
    base = f"{BASE}, rate {best[BASE]}"
    table, judged = gaps.table(named, base, [name for name in named if name != base], MARGIN)
    told, mutants = claims.judge_mutants(found, FAULTY, lambda figures: figures["train_loss"], 4)
    staleness = report.table(("row", "mean staleness"), [
        (name, report.mean_text([value["mean_staleness"] for value in values.values() if value["mean_staleness"] is not None], 2))
        for name, values in named.items()])
    compensated = [claims.paired_values(named, name, base, lambda figures: figures["test_loss"]) for name in named if name.startswith("dcasgd")]
    return verdict_of(told, compensated), "\n\n".join([
        __doc__, "LeNet on Fashion-MNIST, 16 workers, 500 steps of 256 samples, SGD without momentum with the job's schedule, fp32. Each "
        f"algorithm has the\nbest of {len(RATES)} rates, by the test loss of two seeds. "
        + gaps.EXPLAINED.format(base=base, span=SPAN, margin=MARGIN), table, edge_note(best), staleness,
        "Test loss of compensated rows above asgd's:", "\n".join(
            f"* {claims.mean_text(each, 4)} ({claims.interval_text(each, 4)})" for each in compensated),
        "Planted faults, in ternary codes, by the training loss:", mutants])


def verdict_of(told, compensated):
    """The paper's claim holds if at least one form of compensation lowers the test loss, and is contradicted if none may: if every
    interval lies above 0."""
    if not told:
        return claims.NO_POWER
    below = claims.student.holm([claims.student.p_below(each, 0) for each in compensated])
    above = claims.student.holm([claims.student.p_above(each, 0) for each in compensated])
    if any(p < claims.LEVEL for p in below):
        return claims.HOLDS
    return claims.CONTRADICTED if above and all(p < claims.LEVEL for p in above) else claims.UNDECIDED


CLAIM = claims.Claim("asynchrony", "Delay compensation with tuned rates", pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
