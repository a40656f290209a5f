#!/usr/bin/env python3
"""Checks Tern on this machine's GPU within a time limit: runs its tests, trains with server and workers on the one GPU,
measures the limits of the device, and compares every target with PyTorch. Writes a table as Markdown and JSON.

  gpu_check.py [--part 1..4] [--earlier FOLDER] [--data FOLDER] [--out FOLDER] [--seconds S] [--only STEP,...] [--quick] [--list]

The steps have four parts, for a GPU that is there for a few minutes at a time: 1: is it right, and what needs a quiet
machine; 2: trainings and jobs of a CPU and a GPU; 3: the tests under compute-sanitizer; 4: PyTorch beside it. --part runs
one of them, in at most 540 s unless --seconds says otherwise; without it all run, in at most four times as long. A part keeps
the rows of the others that --earlier has (the --out of another part; without it, this --out), and the plans of cuDNN that
were chosen there.

If a step fails, lacks something or has no time left, its row says so and the other steps continue. --data is a folder
with fashion-mnist or mnist, and cifar-10-batches-bin. Exits with 1 if a target is missed or a step fails, with 78 if
there is no GPU. scripts/gpu_check.sh runs this script.
"""
import argparse
import concurrent.futures
import dataclasses
import functools
import glob
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
import gpu_report
import gpu_targets
import gpu_train
import processes

NO_GPU, USAGE = 78, 64
PART_S = 540


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    keys: tuple  # in gpu_targets.GPU_TARGETS
    work: object  # a function of the Check
    least_s: float = 10  # does not begin with less time left


def tests(name, limit_s):
    program = f"gpu_{name.removeprefix('tests_')}_test"
    return Step(name, (name,), functools.partial(gpu_train.unit_tests, program, limit_s=limit_s, key=name))


def sanitized(tool, name, filter_=None, shard=None):
    key = f"{tool}_{name}" + ("" if shard is None else f"_{shard + 1}")
    return Step(key, (key,), functools.partial(gpu_train.sanitizer, key, tool, f"gpu_{name}_test", filter_, shard))


def mixed(name):
    return Step(f"mixed_{name}", (f"mixed_{name}",), functools.partial(gpu_train.mixed, name))


def own(model):
    return Step(f"own_{model}", tuple(gpu_measure.own_keys(model)), functools.partial(gpu_measure.own, model), 20)


def norms(model):
    return Step(f"norms_{model}", (f"norms_{model}",), functools.partial(gpu_measure.norms, model), 20)


def eager(model):
    return Step(f"step_{model}", tuple(gpu_measure.step_keys(model)), functools.partial(gpu_measure.eager, model), 20)


def compiled(model):
    return Step(f"compile_{model}", (f"compile_{model}",), functools.partial(gpu_measure.compiled, model), 40)


BENCH = ("copy", "to_device", "from_device", "launch", "ternarize", "codes", "ternarize_one", "rotation", "resnet50_us",
         "resnet50_launches", "decode_momentum", "decode_adam")
TORCH = ("product_bf16", "product_tf32", "ternarize_vs_eager", "ternarize_vs_compiled", "resnet50_vs_eager", "decode_vs_torch")


FIRST_MODELS, MORE_MODELS = ("resnet20", "lenet", "resnet50"), ("alexnet", "vgg16", "mobilenet", "googlenet")


def in_pairs(steps):
    return [steps[i:i + 2] for i in range(0, len(steps), 2)]


def parts(quick):
    """Returns the four parts. A part is a list of stages, a stage a list of steps that run in parallel; a stage of several
    measures no times that matter. What must be quiet and what is most wanted come first, because a step that hangs or fails
    then costs them nothing."""
    more = () if quick else MORE_MODELS
    right = [[tests("tests_kernels", 60)], [Step("bench", BENCH, gpu_measure.bench)], *([own(model)] for model in FIRST_MODELS),
             [tests("tests_engine", 240)], *([norms(model)] for model in ("resnet20", "resnet50")), *([own(model)] for model in more)]
    training = [[Step("train_resnet20", ("train_resnet20",), gpu_train.resnet20, 20)],
                *in_pairs([mixed(name) for name in gpu_train.MIXED]),
                [Step("train_lenet", ("train_lenet",), gpu_train.lenet)]]
    # compute-sanitizer slows programs down ten times and more, so of the nets' tests only those of each kind of layer
    # run, in two halves.
    layers = "Net.*:Nets/Reference.LossAndGradientsMatch/*"
    sanitizers = [[sanitized("memcheck", "kernels"), sanitized("memcheck", "engine", layers, 0)],
                  [sanitized("racecheck", "kernels"), sanitized("synccheck", "kernels"), sanitized("memcheck", "engine", layers, 1)]]
    beside = [[Step("torch", TORCH, gpu_measure.torch_device, 20)], *([eager(model)] for model in (*FIRST_MODELS, *more))]
    if not quick:
        beside += [[compiled(model)] for model in (*FIRST_MODELS, *more)]
    return [right, training, sanitizers, beside]


def part_of_keys(quick):
    return {key: number for number, part in enumerate(parts(quick), 1) for stage in part for step in stage for key in step.keys}


class Check:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.place = gpu_place.find_place()
        self.environment = gpu_place.environment_of_programs()
        # Later steps, and later parts, reuse the cuDNN plans that a step has timed.
        self.environment["XDG_CACHE_HOME"] = str((options.out / gpu_report.PLANS).resolve().parents[1])
        self.budget = gpu_budget.Budget(options.seconds, options.out / f"gpu_check{options.part or ''}.log")
        self.report = gpu_report.Report(options.out, options.part)
        self.cores = os.cpu_count() or 1
        self.about.update({"host": platform.machine(), "cores": self.cores, "kernel": platform.release()})
        self.steps = {}
        self.python, self.torch_version = None, ""
        self.lock = threading.Lock()

    @property
    def figures(self):
        return self.report.figures

    @property
    def about(self):
        return self.report.about

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
            self.figures.add_outcome("device", True, str(device.get("device")))
        self.about["tern"] = self.version()
        self.about["nvidia_smi_before"] = self.nvidia_smi()
        return 0, ""

    def version(self):
        ended = self.tern_run([self.place.tern, "--version"], 20)
        return ended.error or ended.out.partition("\n")[0]

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
            self.report.write()
            print(f"{step.name}: {begin - self.budget.seconds_left():.0f} s, {self.budget.seconds_left():.0f} s left", flush=True)


def run_stages(check, chosen):
    for stage in chosen:
        with concurrent.futures.ThreadPoolExecutor(len(stage)) as pool:
            list(pool.map(check.run_step, stage))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, choices=(1, 2, 3, 4), help="only this part")
    parser.add_argument("--earlier", type=pathlib.Path, help="the --out of an earlier part, whose rows and plans stay")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/gpu_check"))
    parser.add_argument("--seconds", type=float, help=f"time limit of the whole check ({PART_S} for each part)")
    parser.add_argument("--only", default="", help="names of steps, separated by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, shorter trainings, no torch.compile")
    parser.add_argument("--list", action="store_true", help="print the names of all steps, and exit")
    options = parser.parse_args()
    whole = parts(options.quick)
    stages = whole[options.part - 1] if options.part else [stage for part in whole for stage in part]
    if options.seconds is None:
        options.seconds = PART_S * (1 if options.part else len(whole))
    names = [step.name for stage in stages for step in stage]
    wanted = [name for name in options.only.split(",") if name] or names
    if set(wanted) - set(names):
        parser.exit(USAGE, f"gpu_check: unknown step {', '.join(sorted(set(wanted) - set(names)))}; known:  "
                           f"{', '.join(names)}\n")
    if options.earlier and not (options.earlier / gpu_report.TABLE).exists():
        parser.exit(USAGE, f"gpu_check: there is no {options.earlier / gpu_report.TABLE}: --earlier is the --out of an earlier part\n")
    if options.list:
        parser.exit(0, "\n".join(names) + "\n")
    chosen = [[step for step in stage if step.name in wanted] for stage in stages]
    return options, [stage for stage in chosen if stage]


def add_rows_of_other_parts(check):
    """Says of each target without a row why it has none."""
    options, part_of = check.options, part_of_keys(check.options.quick)
    for key in gpu_targets.GPU_TARGETS if not options.only else ():
        if key not in check.figures.rows:
            part = part_of.get(key)
            other = f"part {part} measures it" if part else "not with --quick"
            check.figures.add_missing(key, gpu_targets.NOT_MEASURED.get(key, other))


def main():
    options, chosen = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tern_gpu.", ignore_cleanup_errors=True) as folder:
        check = Check(options, pathlib.Path(folder))
        if options.part or options.earlier or options.only:
            check.report.take_over(options.earlier or options.out)
        for ends in (signal.SIGTERM, signal.SIGINT):  # the table then has the results so far
            signal.signal(ends, lambda *_: check.budget.end())
        code, sentence = check.find_device()
        if code:
            print(sentence, file=sys.stderr)
            return code
        print(f"{check.about.get('device', 'a GPU')}; at most {options.seconds:.0f} s\n", flush=True)
        run_stages(check, chosen)
        check.about["nvidia_smi_after"] = check.nvidia_smi() if check.budget.seconds_left() > 1 else "no time was left"
    add_rows_of_other_parts(check)
    check.about["seconds"] = round(options.seconds - check.budget.seconds_left())
    check.report.write()
    print("\n" + check.report.text() + f"\nwritten to {options.out}/gpu_check.md and .json, the log and the plans beside it")
    return 1 if check.report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
