"""Whether clipping helps (TernGrad, section 3.3): without it, AlexNet lost 3 points of top-1 accuracy in the paper."""
import itertools
import pathlib
import sys

import claims
import gaps
import student

# All of this was fixed before the first run.
SEEDS = (1, 2, 3, 4, 5)
SPAN = 500  # steps whose training loss is compared
MARGIN = 0.3  # points
CLIPS = {"paper 2.5": "exchange.clip=paper", "none": "exchange.clip=none",
         "paper 1.5": "exchange.clip=paper exchange.clip_sigma=1.5", "paper 4": "exchange.clip=paper exchange.clip_sigma=4",
         "official 2.5": "exchange.clip=official", "official 4": "exchange.clip=official exchange.clip_sigma=4"}
SCALERS = {"tensor": "", "65536": "exchange.scaler_elements=65536", "4096": "exchange.scaler_elements=4096"}
LAST = {"ternary": "", "fp32": 'exchange.rules=[{"tensors":"logits.*","codec":"fp32"}]'}
COMMON = f"faults.compare_every_steps={SPAN}"
BASE = "fp32"


def name_of(clip, scaler, last):
    return f"clip {clip}, a scaler a {scaler}" + (", last layer fp32" if last == "fp32" else "")


def rows(_):
    base = claims.Row(BASE, ("exchange.codec=fp32", COMMON), SEEDS)
    ternary = [claims.Row(name_of(*key), (*f"{CLIPS[key[0]]} {SCALERS[key[1]]} {LAST[key[2]]}".split(), "exchange.codec=ternary", COMMON),
                          SEEDS) for key in itertools.product(CLIPS, SCALERS, LAST)]
    return [base, *ternary, *claims.mutants(ternary[0])]


def judge(found):
    names = [name_of(*key) for key in itertools.product(CLIPS, SCALERS, LAST)]
    table, _ = gaps.table(found, BASE, names, MARGIN)
    told, mutants = claims.judge_mutants(found, names[0], lambda figures: figures["train_loss"], 4)
    pairs = list(itertools.product(SCALERS, LAST))
    harm = [gaps.loss_gaps(found, name_of("paper 2.5", *pair), name_of("none", *pair)) for pair in pairs]
    harmful = student.holm([student.p_above(each, 0) for each in harm])
    helpful = student.holm([student.p_below(each, 0) for each in harm])
    lines = [f"* a scaler a {scaler}, last layer {last}: {claims.mean_text(each, 4)} ({claims.interval_text(each, 4)})"
             for (scaler, last), each in zip(pairs, harm)]
    verdict = (claims.NO_POWER if not told else claims.CONTRADICTED if harmful[0] < claims.LEVEL
               else claims.HOLDS if helpful[0] < claims.LEVEL else claims.UNDECIDED)
    return verdict, "\n\n".join([
        __doc__, "LeNet on Fashion-MNIST, 2 workers, 3,000 steps of 64 samples. " + gaps.EXPLAINED.format(base=BASE, span=SPAN, margin=MARGIN),
        table, "Training loss with the paper's clip (2.5 sigma) above that without a clip; the first decides, because one scaler a tensor is "
        "the paper's:", "\n".join(lines), "Planted faults, by the training loss:", mutants])


CLAIM = claims.Claim("clip", "Is TernGrad's clip good?", pathlib.Path("configs/lenet_fashion.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
