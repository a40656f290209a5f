"""Whether an outer optimizer makes long periods of local steps hold (SlowMo; DiLoCo): pqasgd with p = 32 and ternary changes, of which
both ways together take less than 0.3 % of the bytes of ssgd with fp32."""
import pathlib
import statistics
import sys

import claims
import gaps
import report
import student

# Single runs with seed 101, and one with seed 1, chose the rate and the rotation (TRIED). All else was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
STEPS, SPAN = 3072, 512  # steps, and those whose training loss is compared; multiples of p
MARGIN = 0.3  # points, for shared data
SHARE = 0.3  # percent of the bytes of ssgd with fp32
DATA = ("shared", "by_class")
LOCAL = "train.algorithm=pqasgd train.pqasgd.p=32 exchange.codec=ternary exchange.rotate=4096 exchange.scaler_elements=4096"
TRIED = """Single runs chose the rate and the rotation: with DiLoCo's rate of 0.7 ternary changes diverged with one scaler a tensor, with
scalers of 4,096 elements, and rotated; with 0.3, scalers of 4,096 and no rotation the accuracy was 98.86 % and the loss 0.0256, rotated
99.17 % and 0.0148."""
OUTER = f"{LOCAL} train.pqasgd.outer.name=nesterov train.pqasgd.outer.learning_rate=0.3 train.pqasgd.outer.momentum=0.9"
CASES = {"ssgd, fp32": "exchange.codec=fp32", "p = 32": LOCAL, "p = 32, nesterov": OUTER}
COMMON = ("workers.count=4", f"train.steps={STEPS}", f"faults.compare_every_steps={SPAN}")


def name_of(data, case):
    return f"{data}, {case}"


def rows(_):
    made = [claims.Row(name_of(data, case), (*settings.split(), *COMMON, f"data.partition={data}"), SEEDS)
            for data in DATA for case, settings in CASES.items()]
    return [*made, *(fault for row in made if row.name == name_of("shared", "p = 32, nesterov") for fault in claims.mutants(row))]


def bytes_percent(found, data, case):
    """Returns the bytes a sample, both ways, in percent of those of ssgd with fp32."""
    def a_sample(figures):
        return (figures["up_bytes"] + figures["down_bytes"]) / figures["samples"]
    mine, base = found.get(name_of(data, case), {}), found.get(name_of(data, "ssgd, fp32"), {})
    return [100 * a_sample(mine[seed]) / a_sample(base[seed]) for seed in sorted(set(mine) & set(base))]


def judge(found):
    parts = [__doc__, TRIED, f"LeNet on MNIST, 4 workers, {STEPS} steps of 64 samples. "
             + gaps.EXPLAINED.format(base="ssgd, fp32", span=SPAN, margin=MARGIN)]
    judged, lines = {}, []
    for data in DATA:
        base = name_of(data, "ssgd, fp32")
        table, of_data = gaps.table(found, base, [name_of(data, case) for case in CASES if name_of(data, case) != base], MARGIN)
        judged |= of_data
        parts += [f"## Data: {data}", table]
        lower = gaps.loss_gaps(found, name_of(data, "p = 32, nesterov"), name_of(data, "p = 32"))
        lines.append((data, claims.mean_text(lower, 4), claims.interval_text(lower, 4), f"{student.p_below(lower, 0):.2g}"))
    told, mutants = claims.judge_mutants(found, name_of("shared", "p = 32, nesterov"), lambda figures: figures["train_loss"], 4)
    shares = bytes_percent(found, "shared", "p = 32, nesterov")
    parts += ["Training loss with the outer optimizer above that without it:",
              report.table(("data", "above", "95 % interval", "p that it is lower"), lines),
              f"Bytes a sample, both ways, in percent of ssgd with fp32: {max(shares):.3f} (asked: at most {SHARE})" if shares else "",
              "Planted faults, by the training loss:", mutants]
    gap = judged.get(name_of("shared", "p = 32, nesterov"), ([], [], 1, 1))[0]
    met = bool(len(gap) == len(SEEDS) and statistics.fmean(gap) <= MARGIN and shares and max(shares) <= SHARE)
    lower = gaps.loss_gaps(found, name_of("shared", "p = 32, nesterov"), name_of("shared", "p = 32"))
    verdict = (claims.NO_POWER if not told else claims.CONTRADICTED if not met or student.p_above(lower, 0) < claims.LEVEL
               else claims.HOLDS if student.p_below(lower, 0) < claims.LEVEL else claims.UNDECIDED)
    return verdict, "\n\n".join(parts)


CLAIM = claims.Claim("outer", "An outer optimizer for periods of 32 local steps", pathlib.Path("configs/lenet_mnist.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
