"""Every codec beside fp32 under synchronous SGD, and PQASGD with the paper's levels, over paired seeds."""
import pathlib
import sys

import compare

# Settings by codec. DGC applies its own momentum before it selects elements.
LEVELS = "train.algorithm=pqasgd train.pqasgd.p=8 exchange.qsgd.bucket_elements=0 exchange.qsgd.norm=two"
CASES = {
    ("ssgd", "fp32"): "",
    ("ssgd", "fp16"): "",
    ("ssgd", "bf16"): "",
    ("ssgd/feedback", "bf16"): "exchange.error_feedback=true",
    ("ssgd", "ternary"): "",
    ("ssgd", "ternary_2bit"): "",
    ("ssgd", "ternary_trit5"): "",
    ("ssgd", "ternary_ans"): "",
    ("ssgd/rotated", "ternary"): "exchange.rotate=4096 exchange.scaler_elements=4096",
    ("ssgd/2_128", "qsgd"): "exchange.qsgd.bits=2 exchange.qsgd.bucket_elements=128",
    ("ssgd/4_512", "qsgd"): "exchange.qsgd.bits=4 exchange.qsgd.bucket_elements=512",
    ("ssgd/8_512", "qsgd"): "exchange.qsgd.bits=8 exchange.qsgd.bucket_elements=512",
    ("ssgd/16_8192", "qsgd"): "exchange.qsgd.bits=16 exchange.qsgd.bucket_elements=8192",
    ("ssgd/exact", "qsgd"): "exchange.qsgd.bits=4 exchange.qsgd.sums=exact",
    ("ssgd/2", "qsgd_shared"): "exchange.qsgd_shared.bits=2 exchange.scaler_elements=512",
    ("ssgd/4", "qsgd_shared"): "exchange.qsgd_shared.bits=4 exchange.scaler_elements=512",
    ("ssgd/8", "qsgd_shared"): "exchange.qsgd_shared.bits=8 exchange.scaler_elements=512",
    ("ssgd/4", "qsgd_shared_ans"): "exchange.qsgd_shared.bits=4 exchange.scaler_elements=4096",
    ("ssgd/8", "qsgd_shared_ans"): "exchange.qsgd_shared.bits=8 exchange.scaler_elements=4096",
    ("ssgd", "onebit"): "exchange.onebit.bucket_elements=64",
    ("ssgd", "topk"): "exchange.topk.ratio=0.01 exchange.topk.momentum=0.9 train.optimizer.name=sgd "
                      "exchange.topk.warmup_rounds=500",
    ("ssgd", "threshold"): "exchange.threshold.value=0.003",
    ("ssgd/ratio", "threshold"): "exchange.threshold.ratio=0.01",
    ("ssgd", "adaptive"): "exchange.adaptive.share=0.01",
    ("ssgd", "adacomp"): "exchange.adacomp.bin_elements=500",
    ("pqasgd/shared", "qsgd"): f"{LEVELS} exchange.qsgd.levels=sqrt_n",
    ("pqasgd/partitioned", "qsgd"): f"{LEVELS} exchange.qsgd.levels=sqrt_mpn data.partition=by_sample",
}

TABLE = compare.Table(
    title="Every codec", folder=pathlib.Path("out/experiments/codecs_mnist"), base=("ssgd", "fp32"),
    rows={key: settings.split() for key, settings in CASES.items()},
    bars={
        ("ssgd/4_512", "qsgd"): {"gap": 0.2},
        ("ssgd/8_512", "qsgd"): {"gap": 0.2},
        ("ssgd", "onebit"): {"gap": 0.3},
    })

if __name__ == "__main__":
    sys.exit(compare.main(TABLE))
