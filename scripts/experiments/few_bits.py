"""How many bits a gradient needs (the low-precision study, section 5.1, figure 5), and in which layers: the study has 4 bits within 0.1
points of fp32, 8 within 0.5, 1bitSGD within 0.3, 2 bits at least 1 below, and convolutions more sensitive than dense layers."""
import pathlib
import sys

import claims
import gaps
import student

# All of this was fixed before the first run.
SEEDS = (1, 2, 3)
STEPS, SPAN = 3910, 782  # ten epochs; the steps whose training loss is compared
QSGD = "exchange.codec=qsgd exchange.qsgd.bits={} exchange.qsgd.bucket_elements={}"
ONLY = "exchange.codec=fp32 exchange.qsgd.bits=2 exchange.qsgd.bucket_elements=128 exchange.rules=[{}]"
CONVOLUTIONS = '{"tensors":"*conv*","codec":"qsgd"},{"tensors":"*downsample.0*","codec":"qsgd"}'
BASE, FAULTY = "fp32", "ternary"
CONV_ONLY, DENSE_ONLY = "qsgd, 2 bits, 128, convolutions only", "qsgd, 2 bits, 128, dense layer only"
CASES = {
    BASE: "exchange.codec=fp32",
    "bf16": "exchange.codec=bf16",
    FAULTY: "exchange.codec=ternary",
    "ternary, no clip, 4096": "exchange.codec=ternary exchange.clip=none exchange.scaler_elements=4096",
    "qsgd, 2 bits, 128": QSGD.format(2, 128),
    "qsgd, 2 bits, 32": QSGD.format(2, 32),
    "qsgd, 4 bits, 512": QSGD.format(4, 512),
    "qsgd, 4 bits, 8192": QSGD.format(4, 8192),
    "qsgd, 8 bits, 512": QSGD.format(8, 512),
    "onebit, 64": "exchange.codec=onebit exchange.onebit.bucket_elements=64",
    "onebit, 512": "exchange.codec=onebit exchange.onebit.bucket_elements=512",
    "topk, 0.01": "exchange.codec=topk exchange.topk.ratio=0.01 exchange.topk.momentum=0.9 exchange.topk.warmup_rounds=391 "
                  "train.optimizer.name=sgd",
    "adacomp, 500": "exchange.codec=adacomp exchange.adacomp.bin_elements=500",
    CONV_ONLY: ONLY.format(CONVOLUTIONS),
    DENSE_ONLY: ONLY.format('{"tensors":"fc.*","codec":"qsgd"}'),
}
COMMON = ("workers.count=4", f"train.steps={STEPS}", "train.epochs=", "evaluation.every_steps=0", f"faults.compare_every_steps={SPAN}")
MARGIN = 0.5  # points, of the table's column; the claims below have the study's own margins
WITHIN = {"qsgd, 4 bits, 512": 0.1, "qsgd, 8 bits, 512": 0.5, "onebit, 64": 0.3}
LOSES = 1.0  # points of 2 bits


def rows(_):
    made = [claims.Row(name, (*settings.split(), *COMMON), SEEDS) for name, settings in CASES.items()]
    return [*made, *(fault for row in made if row.name == FAULTY for fault in claims.mutants(row))]


def judge(found):
    table, _ = gaps.table(found, BASE, [name for name in CASES if name != BASE], MARGIN)
    told, mutants = claims.judge_mutants(found, FAULTY, lambda figures: figures["train_loss"], 4)
    two_bits = gaps.accuracy_gaps(found, "qsgd, 2 bits, 128", BASE)
    layers = gaps.accuracy_gaps(found, CONV_ONLY, DENSE_ONLY)
    stated = [(f"{name} is at most {most} points below {BASE}", values, student.p_below(values, most), student.p_above(values, most))
              for name, most in WITHIN.items() for values in [gaps.accuracy_gaps(found, name, BASE)]]
    stated += [(f"2 bits are at least {LOSES} points below {BASE}", two_bits, student.p_above(two_bits, LOSES), student.p_below(two_bits, LOSES)),
               ("2 bits of the convolutions cost more than 2 bits of the dense layer", layers, student.p_above(layers, 0),
                student.p_below(layers, 0))]
    verdict, statements = claims.judge_statements(told, stated)
    return verdict, "\n\n".join([
        __doc__, f"ResNet-20 on CIFAR-10, 4 workers, {STEPS} steps of 128 samples. Its dense layer has 650 of 272,474 parameters. "
        + gaps.EXPLAINED.format(base=BASE, span=SPAN, margin=MARGIN), table,
        "What the study says, and by how many points the first is below the second:", statements, "Planted faults, by the training loss:", mutants])


CLAIM = claims.Claim("few_bits", "How many bits a gradient needs", pathlib.Path("configs/cifar10_resnet20.yaml"), rows, judge)

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
