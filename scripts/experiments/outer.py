"""Whether an outer optimizer makes long periods of local steps hold (SlowMo; DiLoCo): pqasgd with p = 32 and ternary changes, of which
both ways together take less than 0.3 % of the bytes of ssgd with fp32."""
import dataclasses
import pathlib
import statistics
import sys

import claims
import gaps
import report
import student

SHARE = 0.3  # percent of the bytes of ssgd with fp32
LOCAL = "train.algorithm=pqasgd train.pqasgd.p=32 exchange.codec=ternary exchange.rotate=4096 exchange.scaler_elements=4096"
OUTER = "train.pqasgd.outer.name=nesterov train.pqasgd.outer.learning_rate={rate} train.pqasgd.outer.momentum=0.9"
CLIPPED = f"{LOCAL} exchange.clip=paper exchange.clip_sigma=1 {OUTER}"
BASE, WITHOUT, WITH, UNCLIPPED = "ssgd, fp32", "p = 32", "p = 32, nesterov", "p = 32, nesterov, no clip"


def name_of(data, case):
    return f"{data}, {case}"


@dataclasses.dataclass(frozen=True)
class Design:
    """The experiment with one network: what is fixed before its first run."""
    job: str
    what: str  # the network, the data, the steps
    tried: str  # how the settings were chosen
    cases: dict  # {BASE, WITHOUT, WITH and others: settings}
    common: tuple  # settings of all rows
    seeds: tuple
    span: int  # steps whose training loss is compared; a multiple of p
    margins: dict  # {partition of the data: points that WITH may be below BASE}
    # The cases that also run with planted faults, with shared data. The first decides whether the table has power.
    faulty: tuple

    def rows(self, _):
        made = [claims.Row(name_of(data, case), (*settings.split(), *self.common, f"data.partition={data}"), self.seeds)
                for data in self.margins for case, settings in self.cases.items()]
        faulty = [name_of("shared", case) for case in self.faulty]
        return [*made, *(fault for row in made if row.name in faulty for fault in claims.mutants(row))]

    def judge(self, found):
        margin = self.margins["shared"]
        parts = [__doc__, self.tried, f"{self.what}. " + gaps.EXPLAINED.format(base=BASE, span=self.span, margin=margin)]
        lowers, shares, met = {}, {}, True
        for data, most in self.margins.items():
            base = name_of(data, BASE)
            table, judged = gaps.table(found, base, [name_of(data, case) for case in self.cases if case != BASE], margin)
            parts += [f"## Data: {data}", table]
            gap = judged.get(name_of(data, WITH), ([],))[0]
            lowers[data] = gaps.loss_gaps(found, name_of(data, WITH), name_of(data, WITHOUT))
            shares[data] = max(bytes_percent(found, data, WITH), default=float("inf"))
            met = met and len(gap) == len(self.seeds) and statistics.fmean(gap) <= most and shares[data] <= SHARE
        told = [claims.judge_mutants(found, name_of("shared", case), lambda figures: figures["train_loss"], 4) for case in self.faulty]
        parts += ["Training loss with the outer optimizer and the clip above that without both:",
                  report.table(("data", "above", "95 % interval", "p that it is lower"), [
                      (data, claims.mean_text(lower, 4), claims.interval_text(lower, 4), f"{student.p_below(lower, 0):.2g}")
                      for data, lower in lowers.items()]),
                  "Bytes a sample, both ways, in percent of ssgd with fp32: "
                  + ", ".join(f"{share:.3f} ({data})" for data, share in shares.items()) + f" (asked: at most {SHARE})",
                  "Planted faults, by the training loss. Of codes with so little noise as the clipped ones, 4 bits of a draw are enough:",
                  *(mutants for _, mutants in told)]
        lower = lowers["shared"]
        verdict = (claims.NO_POWER if not told[0][0] else claims.CONTRADICTED if not met or student.p_above(lower, 0) < claims.LEVEL
                   else claims.HOLDS if student.p_below(lower, 0) < claims.LEVEL else claims.UNDECIDED)
        return verdict, "\n\n".join(parts)

    def claim(self, name, title):
        return claims.Claim(name, title, pathlib.Path(self.job), self.rows, self.judge)


def bytes_percent(found, data, case):
    """Returns the bytes a sample, both ways, in percent of those of ssgd with fp32."""
    def a_sample(figures):
        return (figures["up_bytes"] + figures["down_bytes"]) / figures["samples"]
    mine, base = found.get(name_of(data, case), {}), found.get(name_of(data, BASE), {})
    return [100 * a_sample(mine[seed]) / a_sample(base[seed]) for seed in sorted(set(mine) & set(base))]


# Runs with seeds 101 to 104, and some with seed 1, chose what TRIED says. All else was fixed before the first run.
TRIED = """Runs with seeds 101 to 104, and some with seed 1, chose the outer rate, the rotation and the clip. Without a clip, DiLoCo's rate of 0.7 diverged with one scaler a
tensor, with scalers of 4,096 elements, and rotated; 0.3 gave 98.86 % and a loss of 0.0256 without rotation, 99.17 % and 0.0148 rotated, and
98.65 ± 0.09 % for data by class (seeds 1 to 5), where changes that were not coded gave 98.98 and 99.06 %. With a clip of
rotated values at one standard deviation, the codes have in proportion to the changes a quarter of the variance that they have at
2.5: with data by class, seeds 101 to 104, a rate of 0.5 then gave 98.92, 98.93, 98.98 and 98.83 %, 0.7 gave 98.89, 98.91 and 98.82 %, and
0.3 gave 98.89 and 98.69 %. A clip at 1.5 deviations (98.74, 98.91 %), the workers' momentum set to 0 at each exchange, and a smaller
rate of the last layer were no better."""
DESIGN = Design(
    job="configs/lenet_mnist.yaml", what="LeNet on MNIST, 4 workers, 3072 steps of 64 samples", tried=TRIED,
    cases={BASE: "exchange.codec=fp32", WITHOUT: LOCAL, UNCLIPPED: f"{LOCAL} {OUTER.format(rate=0.3)}", WITH: CLIPPED.format(rate=0.5)},
    common=("workers.count=4", "train.steps=3072", "faults.compare_every_steps=512"), seeds=(1, 2, 3, 4, 5), span=512,
    margins={"shared": 0.3, "by_class": 0.3}, faulty=(UNCLIPPED, WITH))
CLAIM = DESIGN.claim("outer", "An outer optimizer for periods of 32 local steps")

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
