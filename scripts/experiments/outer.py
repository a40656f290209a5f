"""Whether an outer optimizer makes long periods of local steps hold (SlowMo; DiLoCo): pqasgd with p = 32 and ternary changes, of which
both ways together take less than 0.3 % of the bytes of ssgd with fp32."""
import pathlib
import statistics
import sys

import claims
import gaps
import report
import student

# Runs with seeds 101 to 104, and one with seed 1, chose what TRIED says. All else was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
STEPS, SPAN = 3072, 512  # steps, and those whose training loss is compared; multiples of p
MARGIN = 0.3  # points
SHARE = 0.3  # percent of the bytes of ssgd with fp32
DATA = ("shared", "by_class")
LOCAL = "train.algorithm=pqasgd train.pqasgd.p=32 exchange.codec=ternary exchange.rotate=4096 exchange.scaler_elements=4096"
TRIED = """Runs with other seeds chose the outer rate, the rotation and the clip. Without a clip, DiLoCo's rate of 0.7 diverged with one scaler a
tensor, with scalers of 4,096 elements, and rotated; 0.3 gave 98.86 % and a loss of 0.0256 without rotation, 99.17 % and 0.0148 rotated, and
98.65 ± 0.09 % for data by class (seeds 1 to 5), where changes that were not coded gave 98.98 and 99.06 %. With a clip of
rotated values at one standard deviation, the codes have in proportion to the changes a quarter of the variance that they have at
2.5: with data by class, seeds 101 to 104, a rate of 0.5 then gave 98.92, 98.93, 98.98 and 98.83 %, 0.7 gave 98.89, 98.91 and 98.82 %, and
0.3 gave 98.89 and 98.69 %. A clip at 1.5 deviations (98.74, 98.91 %), the workers' momentum set to 0 at each exchange, and a smaller
rate of the last layer were no better."""
OUTER = "train.pqasgd.outer.name=nesterov train.pqasgd.outer.learning_rate={rate} train.pqasgd.outer.momentum=0.9"
UNCLIPPED, CLIPPED = "p = 32, nesterov, no clip", "p = 32, nesterov"
CASES = {"ssgd, fp32": "exchange.codec=fp32", "p = 32": LOCAL, UNCLIPPED: f"{LOCAL} {OUTER.format(rate=0.3)}",
         CLIPPED: f"{LOCAL} exchange.clip=paper exchange.clip_sigma=1 {OUTER.format(rate=0.5)}"}
# The rows that also run with planted faults. The first decides whether the table has power, as it did before the second came.
FAULTY = [f"shared, {case}" for case in (UNCLIPPED, CLIPPED)]
COMMON = ("workers.count=4", f"train.steps={STEPS}", f"faults.compare_every_steps={SPAN}")


def name_of(data, case):
    return f"{data}, {case}"


def rows(_):
    made = [claims.Row(name_of(data, case), (*settings.split(), *COMMON, f"data.partition={data}"), SEEDS)
            for data in DATA for case, settings in CASES.items()]
    return [*made, *(fault for row in made if row.name in FAULTY for fault in claims.mutants(row))]


def bytes_percent(found, data, case):
    """Returns the bytes a sample, both ways, in percent of those of ssgd with fp32."""
    def a_sample(figures):
        return (figures["up_bytes"] + figures["down_bytes"]) / figures["samples"]
    mine, base = found.get(name_of(data, case), {}), found.get(name_of(data, "ssgd, fp32"), {})
    return [100 * a_sample(mine[seed]) / a_sample(base[seed]) for seed in sorted(set(mine) & set(base))]


def judge(found):
    parts = [__doc__, TRIED, f"LeNet on MNIST, 4 workers, {STEPS} steps of 64 samples. "
             + gaps.EXPLAINED.format(base="ssgd, fp32", span=SPAN, margin=MARGIN)]
    mean_gaps, lowers, shares = [], {}, {}
    for data in DATA:
        base = name_of(data, "ssgd, fp32")
        table, judged = gaps.table(found, base, [name_of(data, case) for case in CASES if name_of(data, case) != base], MARGIN)
        parts += [f"## Data: {data}", table]
        gap = judged.get(name_of(data, CLIPPED), ([],))[0]
        mean_gaps.append(statistics.fmean(gap) if len(gap) == len(SEEDS) else float("inf"))
        lowers[data] = gaps.loss_gaps(found, name_of(data, CLIPPED), name_of(data, "p = 32"))
        shares[data] = max(bytes_percent(found, data, CLIPPED), default=float("inf"))
    told = [claims.judge_mutants(found, row, lambda figures: figures["train_loss"], 4) for row in FAULTY]
    parts += ["Training loss with the outer optimizer and the clip above that without both:",
              report.table(("data", "above", "95 % interval", "p that it is lower"), [
                  (data, claims.mean_text(lower, 4), claims.interval_text(lower, 4), f"{student.p_below(lower, 0):.2g}")
                  for data, lower in lowers.items()]),
              "Bytes a sample, both ways, in percent of ssgd with fp32: "
              + ", ".join(f"{share:.3f} ({data})" for data, share in shares.items()) + f" (asked: at most {SHARE})",
              "Planted faults, by the training loss. Of codes with so little noise as the clipped ones, 4 bits of a draw are enough:",
              *(mutants for _, mutants in told)]
    met = max(mean_gaps) <= MARGIN and max(shares.values()) <= SHARE
    lower = lowers["shared"]
    verdict = (claims.NO_POWER if not told[0][0] else claims.CONTRADICTED if not met or student.p_above(lower, 0) < claims.LEVEL
               else claims.HOLDS if student.p_below(lower, 0) < claims.LEVEL else claims.UNDECIDED)
    return verdict, "\n\n".join(parts)


CLAIM = claims.Claim("outer", "An outer optimizer for periods of 32 local steps", pathlib.Path("configs/lenet_mnist.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
