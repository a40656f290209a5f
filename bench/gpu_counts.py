#!/usr/bin/env python3
"""Counts what a GPU would run, without one: registers, spills and static shared memory of every kernel compiled for Hopper,
instructions of each pipe in hot loops, and launches of a training step. Fails if a count is over its bar.

  gpu_counts.py [--build build/cuda_gate] [--write FILE]

Compiles the kernels with nvcc, as the build does. Instructions need nvdisasm (of the toolkit, or of the Python package
nvidia-cuda-nvdisasm); launches need net_steps_on_host and gpu_bench_on_host of --build, which run on the CPU. What is missing
is named, and its bars are not checked. Exits with 1 if a bar is exceeded, with 77 if there is no nvcc. --write also
writes the table.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NO_NVCC = 77
FLAGS = ("-arch=sm_90", "-std=c++20", "--fmad=false", "-O3", "-DNDEBUG", f"-I{ROOT}", "-cubin", "-Xptxas", "-v")


@dataclasses.dataclass(frozen=True)
class Bar:
    """The most that a kernel may take, the worst of its instantiations."""
    registers: int  # of a thread
    shared: int  # bytes of static shared memory
    spills: int = 0  # bytes


# The kernels that a training step spends its time in, with the registers at which as many thread blocks are resident on a
# multiprocessor as when they were measured (results/gpu_h200.md).
BARS = {
    "stats StatsOfTiles": Bar(72, 3328),
    "ternary CodeTiles": Bar(72, 5376),
    "rotate RotateTiles": Bar(64, 17936),
    "rotate CombineTiles": Bar(48, 0),
    "update DecodeAndUpdateTiles": Bar(64, 16384),
    "update UpdateTiles": Bar(64, 0),
    "batch_norm MapRows": Bar(64, 0),
    "batch_norm SumShares": Bar(128, 33024),
    "batch_norm_backward MapRows": Bar(96, 0),
    "batch_norm_backward SumShares": Bar(128, 33024),
    "weights ToKernels": Bar(32, 0),
    "weights FromKernels": Bar(40, 0),
    "pool CallForEachElement": Bar(56, 0),
    "depthwise ComputeStrips": Bar(96, 2304),
    "depthwise SumTaps": Bar(128, 16384),
    "elementwise CallForEachElement": Bar(24, 0),
    "lrn BackwardOfSlots": Bar(32, 8192),
    "onebit SignsOfTiles": Bar(40, 0),
    "onebit MeansOfGroups": Bar(72, 0),
    # ptxas keeps a word of these in local memory across a call; with bounds that give it more registers fewer blocks fit.
    "qsgd MeasureBuckets": Bar(48, 64, spills=4),
    "qsgd MeasureAndCode": Bar(80, 1552, spills=4),
    "qsgd CodeTiles": Bar(80, 1552),
    "topk SelectTiles": Bar(32, 8448),
}
REST = Bar(128, 33024)  # of every other kernel


@dataclasses.dataclass(frozen=True)
class Loop:
    """The hot loop of a kernel, and the most instructions of pipes that a warp may issue for 256 elements."""
    elements: int  # that a warp processes in a turn of the loop; with inner_turns, of the loop around it
    pipes: dict
    inner_turns: int = 0  # of the hot loop in a turn of the loop around it; 0: there is none


# A multiprocessor of Hopper issues four warp instructions a clock, of which two on the ALU pipe, two on either FMA pipe and
# two on FP64. At 132 multiprocessors, 1.98 GHz and 4.2 TB/s, 256 floats that are only read take 64 clocks of a
# multiprocessor, so that 125 ALU instructions leave little room.
LOOPS = {
    "ternary CodeTiles": Loop(1024, {"ALU": 95, "all": 175}, inner_turns=2),
    "stats StatsOfTiles": Loop(1024, {"FP64": 16, "ALU": 10, "all": 40}),
}
# The launches of a training step of ResNet-20 with batch norm in bf16, and those of the codes. On a GPU a pass of cuDNN may
# be several.
MOST_LAUNCHES = {"nodes of the graphs of ResNet-20's step": 170, "launches of statistics and codes": 2, "launches of codes alone": 1}

PIPES = {
    "ALU": "IADD3 LOP3 SHF ISETP FSETP SEL FSEL PRMT LEA FMNMX IMNMX VIMNMX VIADD VIADDMNMX PLOP3 SGXT BMSK IABS VABSDIFF FCHK FSET MOV "
           "P2R R2P I2FP VOTE",
    "FMA": "FFMA FADD FMUL IMAD IDP HFMA2 HADD2 HMUL2",
    "FP64": "DADD DMUL DFMA DSETP DMNMX",
    "XU": "MUFU F2I I2F F2F POPC FLO BREV",
    "LSU": "LDG STG LDS STS LDL STL LDC ATOMS ATOMG ATOM RED SHFL LD ST",
}
PIPE_OF = {name: pipe for pipe, names in PIPES.items() for name in names.split()}


def find_tool(name):
    """Returns the path of a tool of the toolkit, or None."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if path is None and (spec := importlib.util.find_spec("nvidia")):
        found = [one for folder in spec.submodule_search_locations or () for one in glob.glob(f"{folder}/*/bin/{name}")]
        path = next(iter(found), None)
    return path


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gpu_counts: {words[0]} fails: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout, done.stderr


def short_names(mangled):
    """Returns the names of kernels without namespaces, arguments and template arguments."""
    text, _ = run("c++filt", *mangled)
    names = []
    for line in text.splitlines():
        name = line.replace("(anonymous namespace)::", "").replace("tern::kernels::", "").removeprefix("void ")
        name = re.sub(r"_INTERNAL_\w+::", "", name)
        names.append(re.split(r"[<(]", name, maxsplit=1)[0])
    return dict(zip(mangled, names))


FUNCTION = re.compile(r"Function properties for (\S+)\n\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                      r"(?:\n.*?Used (\d+) registers(.*))?")


def resources(text):
    """Parses what ptxas says of each function: {mangled name: Bar}. A function that is called has no registers of its own."""
    found = {}
    for name, stores, loads, registers, rest in FUNCTION.findall(text):
        shared = re.search(r"(\d+) bytes smem", rest)
        found[name] = Bar(int(registers or 0), int(shared[1]) if shared else 0, max(int(stores), int(loads)))
    return found


INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)((?:\.\w+)*)\s?(.*?);")


def functions(sass):
    """Parses nvdisasm's text: {mangled name: [a label, or (opcode, suffixes, operands)]}."""
    found, body = {}, None
    for line in sass.splitlines():
        if line.startswith(".text."):
            body = found.setdefault(line[6:].rstrip(":"), [])
        elif body is not None and line.startswith(".L_x_"):
            body.append(line.rstrip(":"))
        elif body is not None and (match := INSTRUCTION.match(line)):
            body.append(match.groups())
    return found


def loops_of(body):
    """Returns the loops as (begin, end) positions in the body."""
    label_at = {one: at for at, one in enumerate(body) if isinstance(one, str)}
    for end, one in enumerate(body):
        target = re.search(r"\.L_x_\d+", one[2]) if not isinstance(one, str) and one[0] == "BRA" else None
        if target and label_at.get(target[0], end) < end:
            yield label_at[target[0]], end


def instructions(body, begin, end):
    return [one for one in body[begin:end + 1] if not isinstance(one, str)]


def vector_loads(loop):
    return sum(name == "LDG" and ".128" in suffix for name, suffix, _ in loop)


def hot_instructions(body, inner_turns):
    """Returns {position: how often it runs} of the hot loop, which is the innermost loop with the most vector loads from
    global memory. With inner_turns, of the loop around it, without its other loops, which are for rare cases."""
    loops = set(loops_of(body))

    def is_in(one, other):
        return other[0] <= one[0] and one[1] <= other[1] and one != other

    inner = [loop for loop in loops if not any(is_in(other, loop) for other in loops)]
    hot = max(inner, key=lambda loop: (vector_loads(instructions(body, *loop)), loop[0] - loop[1]))
    if not inner_turns:
        return dict.fromkeys(range(hot[0], hot[1] + 1), 1)
    around = min((loop for loop in loops if is_in(hot, loop)), key=lambda loop: loop[1] - loop[0])
    times = dict.fromkeys(range(around[0], around[1] + 1), 1)
    for loop in loops:
        if is_in(loop, around):
            times |= dict.fromkeys(range(loop[0], loop[1] + 1), 0)
    return times | dict.fromkeys(range(hot[0], hot[1] + 1), inner_turns)


def count_pipes(body, loop):
    """Returns the instructions of each pipe for 256 elements."""
    counts = collections.Counter()
    for at, times in hot_instructions(body, loop.inner_turns).items():
        if not isinstance(body[at], str):
            counts[PIPE_OF.get(body[at][0], "other")] += times
            counts["all"] += times
    return {pipe: count * 256 / loop.elements for pipe, count in counts.items()}


class Counts:
    """Kernels as (name, number of instantiations, worst count, Bar), and rows of (what, count, bar). What is above its bar is
    too much."""

    def __init__(self):
        self.kernels, self.rows, self.left_out = [], [], []

    def over(self):
        rows = [*self.rows]
        for name, _, got, bar in self.kernels:
            rows += [(f"{name}: {field}", getattr(got, field), getattr(bar, field)) for field in ("registers", "shared", "spills")]
        return [f"{what}: {count:g}, at most {bar:g}" for what, count, bar in rows if count > bar]


def add_kernels(counts, nvcc, folder):
    """Compiles all kernels, and adds their registers, shared memory and spills. Returns {file's name: its cubin}."""
    files = sorted((ROOT / "kernels").glob("*/*.cu"))

    def compile_one(path):
        cubin = folder / f"{path.stem}.cubin"
        return cubin, run(nvcc, *FLAGS, "-o", cubin, path)[1]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = dict(zip([path.stem for path in files], pool.map(compile_one, files)))
    worst, instances = {}, collections.Counter()
    for stem, (_, said) in compiled.items():
        found = resources(said)
        names = short_names(list(found))
        for mangled, bar in found.items():
            name = f"{stem} {names[mangled]}"
            before = worst.get(name, Bar(0, 0))
            worst[name] = Bar(*(max(pair) for pair in zip(dataclasses.astuple(before), dataclasses.astuple(bar))))
            instances[name] += 1
    missing = set(BARS) - set(worst)
    if missing:
        sys.exit(f"gpu_counts: no such kernel any more: {', '.join(sorted(missing))}")
    counts.kernels = [(name, instances[name], got, BARS.get(name, REST)) for name, got in sorted(worst.items())]
    return {stem: cubin for stem, (cubin, _) in compiled.items()}


def add_loops(counts, cubins):
    nvdisasm = find_tool("nvdisasm")
    if nvdisasm is None:
        counts.left_out.append("instructions of hot loops: there is no nvdisasm here (pip install nvidia-cuda-nvdisasm)")
        return
    for name, loop in LOOPS.items():
        stem, kernel = name.split()
        found = functions(run(nvdisasm, "-c", cubins[stem])[0])
        names = short_names(list(found))
        body = next(body for mangled, body in found.items() if names[mangled] == kernel)
        pipes = count_pipes(body, loop)
        for pipe, bar in loop.pipes.items():
            counts.rows.append((f"{name}, {pipe} instructions of a warp for 256 elements", pipes.get(pipe, 0), bar))


def add_launches(counts, build):
    steps, bench = (build / "bench" / name for name in ("net_steps_on_host", "gpu_bench_on_host"))
    if not steps.exists() or not bench.exists():
        counts.left_out.append(f"launches: there is no {steps} or no {bench}")
        return
    text, _ = run(steps, "resnet20", 1, 1, 1, "bf16", "cuda", 1)
    launches = {"nodes of the graphs of ResNet-20's step": json.loads(text)["planning"]["graph_nodes"]}
    text, _ = run(bench, "--elements", 9000, "--nets", "resnet20", "--regions", 1, "--region_ms", 0)
    for line in map(json.loads, text.splitlines()):
        name = {"resnet20_statistics_and_codes": "statistics and codes", "resnet20_codes": "codes alone"}.get(line["name"])
        if name:
            launches[f"launches of {name}"] = line["launches"]
    for name, most in MOST_LAUNCHES.items():
        counts.rows.append((name, launches[name], most))


def table(counts, nvcc):
    release = re.search(r"release [\w.]+", run(nvcc, "--version")[0])
    lines = ["# What a GPU runs, counted without one", "",
             "Written by `bench/gpu_counts.py --write`, which `scripts/build_cuda.sh` runs: it fails if a count is over its bar. Kernels",
             "are compiled for sm_90; a row is the worst of a kernel's instantiations. Launches are those of the stand-in for the CUDA",
             f"runtime, where a pass of a convolution is one. nvcc: {release[0] if release else 'unknown'}.", "",
             "| kernel | instantiations | registers | at most | static shared memory, bytes | at most | spills, bytes | at most |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    lines += [f"| {name} | {instances} | {got.registers} | {bar.registers} | {got.shared} | {bar.shared} | {got.spills} | {bar.spills} |"
              for name, instances, got, bar in counts.kernels]
    lines += ["", "| what | count | at most |", "|---|---:|---:|"]
    lines += [f"| {what} | {count:g} | {bar:g} |" for what, count, bar in counts.rows]
    lines += ["", *(f"Not counted: {what}." for what in counts.left_out)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda_gate")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    nvcc = find_tool("nvcc")
    if nvcc is None:
        print("gpu_counts: there is no nvcc here", file=sys.stderr)
        return NO_NVCC
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="tern_counts.") as folder:
        add_loops(counts, add_kernels(counts, nvcc, pathlib.Path(folder)))
    add_launches(counts, options.build)
    text = table(counts, nvcc)
    print(text)
    if options.write:
        options.write.write_text(text)
    for what in counts.over():
        print(f"gpu_counts: over its bar: {what}", file=sys.stderr)
    return 1 if counts.over() else 0


if __name__ == "__main__":
    sys.exit(main())
