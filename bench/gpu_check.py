#!/usr/bin/env python3
"""Checks Tern on this machine's GPU within a time limit: runs its tests, trains with server and workers on the one GPU,
measures the limits of the device, and compares every target with PyTorch. Writes a table as Markdown and JSON.

  gpu_check.py [--data FOLDER] [--out FOLDER] [--seconds 460] [--only STEP,...] [--quick] [--list]

If a step fails, lacks something or has no time left, its row says so and the other steps continue. --data is a folder
with fashion-mnist or mnist, and cifar-10-batches-bin. Exits with 1 if a target is missed or a step fails, with 78 if
there is no GPU. scripts/gpu_check.sh runs this script.
"""
import argparse
import concurrent.futures
import dataclasses
import datetime
import functools
import glob
import json
import os
import pathlib
import platform
import shutil
import signal
import sys
import tempfile
import threading

import gpu_budget
import gpu_measure
import gpu_place
import gpu_targets
import gpu_train
import processes
import targets

NO_GPU, USAGE = 78, 64
MAX_S = 460


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    keys: tuple  # in gpu_targets.GPU_TARGETS
    work: object  # a function of the Check
    least_s: float = 10  # does not begin with less time left


def tests(name):
    return Step(name, (name,), functools.partial(gpu_train.unit_tests, f"gpu_{name.removeprefix('tests_')}_test", key=name))


def sanitized(name, filter_):
    return Step(f"sanitizer_{name}", (f"sanitizer_{name}",),
                lambda check: gpu_train.sanitizer(check, f"sanitizer_{name}", f"gpu_{name}_test", filter_))


def mixed(name):
    return Step(f"mixed_{name}", (f"mixed_{name}",), functools.partial(gpu_train.mixed, name))


def eager(model):
    return Step(f"step_{model}", tuple(gpu_measure.step_keys(model)), functools.partial(gpu_measure.eager, model), 20)


def compiled(model):
    return Step(f"compile_{model}", (f"compile_{model}",), functools.partial(gpu_measure.compiled, model), 40)


BENCH = ("copy", "to_device", "from_device", "launch", "ternarize", "codes", "ternarize_one", "resnet50_us", "resnet50_launches",
         "decode_momentum", "decode_adam")
TORCH = ("product_bf16", "product_tf32", "ternarize_vs_eager", "ternarize_vs_compiled", "resnet50_vs_eager", "decode_vs_torch")


def in_pairs(steps):
    return [steps[i:i + 2] for i in range(0, len(steps), 2)]


def stages(quick):
    """Yields lists of steps in order. The steps of a list run in parallel; such lists measure no times that matter. What
    must be quiet comes first, because a step that hangs or fails then costs it nothing."""
    yield [tests("tests_kernels")]
    yield [Step("bench", BENCH, gpu_measure.bench)]
    for model in ("resnet20", "lenet"):
        yield [eager(model)]
    yield [tests("tests_engine")]
    yield [eager("resnet50")]
    yield [Step("torch", TORCH, gpu_measure.torch_device, 20)]
    yield [Step("train_lenet", ("train_lenet",), gpu_train.lenet)]
    yield from in_pairs([mixed(name) for name in gpu_train.MIXED])
    # compute-sanitizer slows programs down ten times and more, so of the nets' tests only those of each kind of layer
    # run.
    yield [Step("train_resnet20", ("train_resnet20",), gpu_train.resnet20, 20), sanitized("kernels", None),
           sanitized("engine", "Net.*:Nets/Reference.LossAndGradientsAgree/*")]
    if quick:
        return
    yield [compiled("resnet20")]
    yield [compiled("resnet50")]
    for model in ("alexnet", "vgg16", "mobilenet", "googlenet"):
        yield [eager(model)]
    for model in ("lenet", "alexnet", "mobilenet", "vgg16", "googlenet"):
        yield [compiled(model)]


class Check:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.place = gpu_place.find_place()
        self.environment = gpu_place.environment_of_programs()
        # Later steps, and later runs of the check, reuse the cuDNN plans that a step has timed.
        self.environment["XDG_CACHE_HOME"] = str(options.out.resolve() / "cache")
        self.budget = gpu_budget.Budget(options.seconds, options.out / "gpu_check.log")
        self.figures = targets.Figures(gpu_targets.GPU_TARGETS)
        self.cores = os.cpu_count() or 1
        self.begun = datetime.datetime.now(datetime.timezone.utc)
        self.about = {"host": platform.machine(), "cores": self.cores, "kernel": platform.release()}
        self.bench, self.steps = {}, {}
        self.python, self.torch_version = None, ""
        self.lock = threading.Lock()

    def tern_run(self, words, limit_s):
        return self.budget.run(words, limit_s, self.environment)

    def torch_run(self, words, limit_s):
        if not self.torch_version:
            self.find_torch()
        if self.python is None:
            raise gpu_measure.NotMeasured(self.torch_version)
        return self.budget.run([self.python, *words], limit_s)

    def find_torch(self):
        """Finds the Python that measures PyTorch, or the reason why there is none."""
        python = processes.python_with_torch()
        if python is None:
            self.torch_version = "PyTorch is not installed for python3"
            return
        ask = "import torch; print(torch.__version__, torch.backends.cudnn.version()); print(torch.cuda.is_available())"
        ended = self.budget.run([python, "-c", ask], 60)
        words = ended.out.split()
        if not ended or words[-1] != "True":
            self.torch_version = f"PyTorch does not find the GPU: {ended.error or 'torch.cuda.is_available() is False'}"
            return
        self.python, self.torch_version = python, words[0]
        self.about["torch"] = f"{words[0]}, cuDNN {words[1]}"

    def find_device(self):
        """Returns (exit code, message); 0 if there is a GPU and gpu_bench can use it."""
        bench = self.place.program("gpu_bench")
        if not bench.exists():
            if not (glob.glob("/dev/nvidia[0-9]*") or shutil.which("nvidia-smi")):
                return NO_GPU, "gpu_check: there is no GPU here: nothing to check"
            return USAGE, (f"gpu_check: there is no {bench}: build it (cmake --preset cuda && cmake --build --preset cuda), "
                           "or make the folder of such a build (TERN_BUILD_DIR=build/cuda scripts/package.sh)")
        ended = self.tern_run([bench, "--device_only"], 60)
        if ended.code == NO_GPU:
            return NO_GPU, f"gpu_check: {gpu_budget.last_line(ended.error).split(': ', 2)[-1]}: nothing to check"
        device = gpu_measure.parse_json_lines(ended.out).get("device")
        if device is None:
            self.figures.add_outcome("device", False, ended.error or "gpu_bench does not describe the device")
        else:
            self.about.update({key: value for key, value in device.items() if key != "name"})
        self.about["nvidia_smi_before"] = self.nvidia_smi()
        return 0, ""

    def nvidia_smi(self):
        if shutil.which("nvidia-smi") is None:
            return "no nvidia-smi here"
        ask = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
        ended = self.budget.run(["nvidia-smi", ask, "--format=csv,noheader"], 15)
        return ended.out.strip() or ended.error

    def run_step(self, step):
        """Runs a step, and adds a row for each of its keys in any case."""
        why = "the step ended without a result"
        begin = self.budget.seconds_left()
        if begin < step.least_s:
            why = "no time was left"
        else:
            try:
                step.work(self)
            except gpu_measure.NotMeasured as reason:
                why = str(reason)
            except gpu_budget.DeadlineReached:
                why = "no time was left"
            except Exception as error:  # a bug in one step must not stop the others
                why = f"{type(error).__name__}: {error}"
        with self.lock:
            for key in step.keys:
                if key not in self.figures.rows:
                    self.figures.add_missing(key, why)
            print(f"{step.name}: {begin - self.budget.seconds_left():.0f} s, {self.budget.seconds_left():.0f} s left", flush=True)
            self.write()

    def ordered_figures(self):
        ordered = targets.Figures(gpu_targets.GPU_TARGETS)
        ordered.rows = {key: self.figures.rows[key] for key in gpu_targets.GPU_TARGETS if key in self.figures.rows}
        return ordered

    def report(self):
        lines = [f"Measured {self.begun:%Y-%m-%d %H:%M} UTC by `scripts/gpu_check.sh`.", ""]
        lines += [f"- {key}: {value}" for key, value in self.about.items()]
        return "\n".join(lines) + "\n\n" + self.ordered_figures().table() + "\n"

    def write(self):
        """Writes the table after every step, so that it is complete so far if this process is killed."""
        rows = self.ordered_figures().rows
        text = json.dumps({"begun": self.begun.isoformat(), "about": self.about, "targets": rows,
                           "gpu_bench": self.bench}, indent=1, default=str)
        (self.options.out / "gpu_check.json").write_text(text + "\n")
        (self.options.out / "gpu_check.md").write_text(self.report())


def run_stages(check, chosen):
    for stage in chosen:
        with concurrent.futures.ThreadPoolExecutor(len(stage)) as pool:
            list(pool.map(check.run_step, stage))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/gpu_check"))
    parser.add_argument("--seconds", type=float, default=MAX_S, help=f"time limit of the whole check ({MAX_S})")
    parser.add_argument("--only", default="", help="names of steps, separated by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, shorter trainings, no torch.compile")
    parser.add_argument("--list", action="store_true", help="print the names of all steps, and exit")
    options = parser.parse_args()
    whole = list(stages(options.quick))
    names = [step.name for stage in whole for step in stage]
    wanted = [name for name in options.only.split(",") if name] or names
    if set(wanted) - set(names):
        parser.exit(USAGE, f"gpu_check: unknown step {', '.join(sorted(set(wanted) - set(names)))}; known:  "
                           f"{', '.join(names)}\n")
    if options.list:
        parser.exit(0, "\n".join(names) + "\n")
    chosen = [[step for step in stage if step.name in wanted] for stage in whole]
    return options, [stage for stage in chosen if stage]


def main():
    options, chosen = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tern_gpu.", ignore_cleanup_errors=True) as folder:
        check = Check(options, pathlib.Path(folder))
        for ends in (signal.SIGTERM, signal.SIGINT):  # the table then has the results so far
            signal.signal(ends, lambda *_: check.budget.end())
        code, sentence = check.find_device()
        if code:
            print(sentence, file=sys.stderr)
            return code
        print(f"{check.about.get('device', 'a GPU')}; at most {options.seconds:.0f} s\n", flush=True)
        run_stages(check, chosen)
        check.about["nvidia_smi_after"] = check.nvidia_smi() if check.budget.seconds_left() > 1 else "no time was left"
    if "device" not in check.figures.rows:
        check.figures.add_outcome("device", True, str(check.about.get("device")))
    for key in set(gpu_targets.GPU_TARGETS) - set(check.figures.rows) if not options.only else ():
        check.figures.add_missing(key, gpu_targets.NOT_MEASURED.get(key, "not with --quick"))
    check.about["seconds"] = round(options.seconds - check.budget.seconds_left())
    check.write()
    print("\n" + check.report() + f"\nwritten to {options.out}/gpu_check.md, .json, .log")
    return 1 if check.figures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
