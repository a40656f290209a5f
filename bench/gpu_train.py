"""The steps of gpu_check.py that run tests and whole jobs; they may run in parallel."""
import json
import os
import pathlib
import re
import struct

import gpu_place
from gpu_measure import TimedOut, NotMeasured

LENET_EPOCHS = 2
# By number of epochs: the test accuracy of two CPU workers with configs/cifar10_resnet20.yaml, seed 1, a cosine
# schedule to zero and 40 warm-up steps per epoch (results/cifar10.md; the shorter ones were measured for this check).
RESNET20_ON_CPU = {1: 0.5707, 2: 0.6645, 10: 0.8092}
SHARDS = 2  # of a program that takes long under compute-sanitizer
MIXED_ROUNDS = 100
# Settings of jobs with one worker on the CPU and one on the GPU.
MIXED = {
    "momentum": ["train.optimizer.name=momentum"],
    "adam": ["train.optimizer.name=adam", "train.schedule.learning_rate=0.001"],
    "lars": ["train.optimizer.name=lars", "train.clip_norm=5", "evaluation.ema_decay=0.9"],
    "odsgd": ["train.algorithm=odsgd", "train.odsgd.warmup_steps=10", "train.odsgd.local.name=dcasgd_a",
              "train.odsgd.local.momentum=0.9"],
    "fp32": ["exchange.codec=fp32"],
    "qsgd": ["exchange.codec=qsgd"],
    "rotated": ["exchange.rotate=1024", "train.schedule.rules=[{tensors: '*.bias', times: 3, until_step: 50}]",
                "train.ssgd.lookahead.every_steps=5"],
    "onebit": ["exchange.codec=onebit"],
    "topk": ["exchange.codec=topk", "exchange.topk.momentum=0.9", "train.optimizer.name=sgd"],
}


def failed_tests(out):
    """Returns the names of the failed tests in the output of a GoogleTest program, the first failure first."""
    return list(dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", out)))


def unfinished_test(out):
    """Returns the name of the test that a GoogleTest program was in when it ended, or "" if it was in none."""
    begun = out.rpartition("[ RUN      ] ")[2]
    ended = re.search(r"\[       OK \]|\[  FAILED  \]|\[  SKIPPED \]", begun)
    return "" if ended or begun == out else begun.partition("\n")[0]


def unit_tests(name, check, limit_s, key, tool=(), filter_=None, shard=None):
    """Runs a GoogleTest program, or `shard` of its SHARDS; passes if tests ran and none failed."""
    environment = dict(check.environment, TERN_GOLDEN_FILE=str(check.place.golden))
    if shard is not None:
        environment.update(GTEST_TOTAL_SHARDS=str(SHARDS), GTEST_SHARD_INDEX=str(shard))
    filters = [f"--gtest_filter={filter_}"] if filter_ else []
    ended = check.budget.run([*tool, check.place.program(name), *filters], limit_s, environment)
    passed = re.search(r"\[  PASSED  \] (\d+) test", ended.out)
    failed, unfinished = failed_tests(ended.out), unfinished_test(ended.out)
    count = int(passed[1]) if passed else 0
    note = f"{count} passed in {ended.seconds:.0f} s" + (f", only {filter_}" if filter_ else "")
    skipped = "there is no GPU here" in ended.out  # GoogleTest counts skipped tests as passed
    why = ended.error or ("it found no GPU" if skipped else "" if count else "no test ran")
    if unfinished:
        why += f", in {unfinished}"
    if failed:
        why += f"; failed: {', '.join(failed[:6])}" + (f" and {len(failed) - 6} more" if failed[6:] else "")
    if ended.code is None and not failed:
        check.figures.add_missing(key, why)
    elif tool and "Device not supported" in ended.out:
        check.figures.add_missing(key, f"{pathlib.Path(tool[0]).name} does not support this device")
    else:
        check.figures.add_outcome(key, not why, why or note)


def sanitizer(key, tool, name, filter_, shard, check):
    """Runs a GoogleTest program, or a shard of it, under a tool of compute-sanitizer."""
    program = gpu_place.find_tool("compute-sanitizer")
    if program is None:
        raise NotMeasured("there is no compute-sanitizer on PATH, in $CUDA_HOME/bin or in /usr/local/cuda*/bin")
    # CUDA may refuse a call, such as page-locking memory twice; the programs go on then.
    reports = ("--report-api-errors", "no") if tool == "memcheck" else ()
    unit_tests(name, check, 250, key, (program, "--tool", tool, *reports, "--error-exitcode", "9"), filter_, shard)


def run_job(check, job, name, settings, limit_s):
    """Runs a job and returns its summary. Raises NotMeasured if it fails."""
    folder = check.folder / name
    words = [check.place.tern, "run", check.place.configs / job, "--free_ports"]
    for setting in [*settings, f"output_dir={folder}"]:
        words += ["--set", setting]
    ended = check.tern_run(words, limit_s)
    try:
        figures = json.loads((folder / "summary.json").read_text())
    except (OSError, ValueError):
        figures = {}
    if ended and figures.get("code") == 0:
        return figures
    for path in sorted((folder / "logs").glob("*.stderr")):  # the folder is deleted after the check
        check.budget.note(f"-- {name}, {path.name}\n{path.read_text(errors='replace')[-4000:]}\n")
    if ended.code is None:
        raise TimedOut(ended.error)
    raise NotMeasured(figures.get("sentence") or ended.error or "it wrote no summary")


def random_digits(folder, train=512, test=64):
    """Writes IDX files of random images, which are enough for a job to change its weights."""
    folder.mkdir(exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, 28, 28) + os.urandom(count * 28 * 28))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
    return folder


def mixed(name, check):
    """Trains with one worker on the CPU and one on the GPU; passes if their weights agree."""
    folder = random_digits(check.folder / f"noise_{name}")
    settings = [f"data.dir={folder}", f"train.steps={MIXED_ROUNDS}", "workers.overrides=[{rank: 1, device: cuda}]", *MIXED[name]]
    key = f"mixed_{name}"
    try:
        figures = run_job(check, "lenet_fashion.yaml", key, settings, 60)
    except TimedOut:
        raise
    except NotMeasured as why:
        check.figures.add_outcome(key, False, str(why))
        return
    check.figures.add_outcome(key, figures["replicas_agree"] and figures["rounds"] == MIXED_ROUNDS,
                              f"LeNet on noise, {figures['rounds']} rounds, hash {figures['parameters_hash']}")


def add_accuracy_gap(check, key, cpu, figures, note):
    if not figures["replicas_agree"]:
        check.figures.add_outcome(key, False, "the replicas differ")
        return
    rate = figures["rounds"] / figures["train_s"]
    check.figures.add(key, 100 * (cpu - figures["accuracy"]),
                      note=f"{100 * figures['accuracy']:.2f} % of {figures['test_samples']}, on the CPU {100 * cpu:.2f} %; "
                           f"{rate:.4g} steps/s, {figures['samples_per_s']:.4g} images/s; {note}")


def lenet(check):
    digits = gpu_place.find_digits(check.options.data)
    if digits is None:
        raise NotMeasured("no data here: --data FOLDER with fashion-mnist or mnist in it")
    steps = 100 if check.options.quick else LENET_EPOCHS * 60000 // 64
    settings = [*digits.settings, f"train.steps={steps}"]
    gpu = run_job(check, "lenet_fashion.yaml", "lenet_gpu", [*settings, "workers.device=cuda"], 80)
    cpu = run_job(check, "lenet_fashion.yaml", "lenet_cpu", settings, 110)
    add_accuracy_gap(check, "train_lenet", cpu["accuracy"], gpu,
          f"{digits.name}, {steps} steps of 64; the CPU {cpu['rounds'] / cpu['train_s']:.4g} steps/s")


def resnet20(check):
    """Trains for as many epochs as a fast GPU has time for; if that takes too long, for fewer."""
    cifar = gpu_place.find_cifar10(check.options.data)
    if cifar is None:
        raise NotMeasured("no data here: --data FOLDER with cifar-10-batches-bin in it (data_batch_1.bin ...)")
    settings = [*cifar.settings, "workers.device=cuda", f"data.threads={min(4, max(1, check.cores // 4))}",
                "evaluation.every_steps=0"]
    limit_s, tries = (30, (2, 1)) if check.options.quick else (130, (10, 2))
    for epochs in tries:
        try:
            figures = run_job(check, "cifar10_resnet20.yaml", f"resnet20_{epochs}",
                              [*settings, f"train.epochs={epochs}", f"train.schedule.warmup_steps={40 * epochs}"], limit_s)
            break
        except TimedOut as why:
            stopped = why
    else:
        raise stopped
    add_accuracy_gap(check, "train_resnet20", RESNET20_ON_CPU[epochs], figures, f"{cifar.name}, {epochs} epochs of batches of 128")
