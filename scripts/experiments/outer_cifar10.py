"""Whether periods of 32 local steps with an outer optimizer hold for a residual network, too, with the settings that LeNet had (outer.py)."""
import sys

import claims
from outer import BASE, CLIPPED, LOCAL, WITH, WITHOUT, Design

# All of this was fixed before the first run. 4,000 steps are 10.2 epochs, and a multiple of p. Data by class has no bar.
CLAIM = Design(
    job="configs/cifar10_resnet20.yaml", what="ResNet-20 on CIFAR-10, 4 workers, 4000 steps of 128 samples", tried=__doc__,
    cases={BASE: "exchange.codec=fp32", WITHOUT: LOCAL, WITH: CLIPPED.format(rate=0.5)},
    common=("workers.count=4", "train.steps=4000", "train.epochs=", "evaluation.every_steps=0", "faults.compare_every_steps=800"),
    seeds=(1, 2, 3), span=800, margins={"shared": 1.0, "by_class": float("inf")}, faulty=(WITH,),
).claim("outer_cifar10", "An outer optimizer for periods of 32 local steps, ResNet-20")

if __name__ == "__main__":
    sys.exit(claims.main(CLAIM))
