"""Whether deep gradient compression loses nothing at a ratio of 0.001 (survey, section 3.2), and which of its parts it needs."""
import itertools
import pathlib
import sys

import claims
import gaps

# All of this was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
SPAN = 500  # steps whose training loss is compared
MARGIN = 0.3  # points
WORKERS = 4
RATIOS = (0.1, 0.01, 0.001)
OWN = "exchange.topk.momentum=0.9 train.optimizer.name=sgd"
PARTS = {"correction, masking": f"{OWN} exchange.topk.masking=true", "correction": f"{OWN} exchange.topk.masking=false", "neither": ""}
CLIPS = {"": "", ", clip": f"exchange.topk.clip_norm={WORKERS ** -0.5}"}
OTHERS = {"threshold, ratio 0.01": "exchange.codec=threshold exchange.threshold.ratio=0.01",
          "adacomp, 500": "exchange.codec=adacomp exchange.adacomp.bin_elements=500", "ternary": "exchange.codec=ternary"}
COMMON = (f"workers.count={WORKERS}", f"faults.compare_every_steps={SPAN}")
BASE = "fp32"


def name_of(ratio, parts, clip):
    return f"topk {ratio}, {parts}{clip}"


def rows(_):
    cases = {BASE: "exchange.codec=fp32", **OTHERS}
    for ratio, parts, clip in itertools.product(RATIOS, PARTS, CLIPS):
        cases[name_of(ratio, parts, clip)] = (f"exchange.codec=topk exchange.topk.ratio={ratio} exchange.topk.warmup_rounds=500 "
                                              f"{PARTS[parts]} {CLIPS[clip]}")
    made = [claims.Row(name, (*settings.split(), *COMMON), SEEDS) for name, settings in cases.items()]
    return [*made, *(fault for row in made if row.name == "ternary" for fault in claims.mutants(row))]


def judge(found):
    names = [name_of(*key) for key in itertools.product(RATIOS, PARTS, CLIPS)]
    table, judged = gaps.table(found, BASE, [*names, *OTHERS], MARGIN)
    told, mutants = claims.judge_mutants(found, "ternary", lambda figures: figures["train_loss"], 4)
    whole = judged.get(name_of(0.001, "correction, masking", ", clip"), ([], [], 1, 1))  # as the paper has it
    verdict = (claims.NO_POWER if not told else claims.CONTRADICTED if whole[2] < claims.LEVEL
               else claims.HOLDS if whole[3] < claims.LEVEL else claims.UNDECIDED)
    return verdict, "\n\n".join([
        __doc__, f"LeNet on Fashion-MNIST, {WORKERS} workers, 3,000 steps of 64 samples, the ratio falling over 500 rounds as in the paper's "
        "warm-up.\nMomentum 0.9: of the workers before the selection (correction), or of the optimizer (neither); clip: the norm of each "
        "tensor's gradient to\nN^-1/2. The row of ratio 0.001 with all parts decides. " + gaps.EXPLAINED.format(base=BASE, span=SPAN,
                                                                                                          margin=MARGIN),
        table, "Planted faults, by the training loss:", mutants])


CLAIM = claims.Claim("dgc", "Deep gradient compression at a ratio of 0.001", pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
