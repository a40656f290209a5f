"""Runs the example of the C interface, client/examples/least_squares.c, with a real server, and looks at libtern.so.

  least_squares_test.py SOURCE_DIR BUILD_DIR
"""
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

SECONDS = 60
FIT = "y = 3.0000 x + -1.0000\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def expect(is_true, sentence):
    if not is_true:
        print(f"FAILED: {sentence}")
        sys.exit(1)


def run_job(source, build, folder, text):
    """Runs the job of the file with this text; returns the completed programs: the server, and two workers."""
    job = folder / "job.yaml"
    job.write_text(text.replace("127.0.0.1:7500", f"127.0.0.1:{free_port()}"))
    commands = [[build / "bin/tern_server", "--job", job, "--rank", "0"]]
    commands += [[build / "examples/least_squares", job, str(rank)] for rank in range(2)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    programs = [subprocess.Popen(command, **pipes) for command in commands]
    try:
        outputs = [program.communicate(timeout=SECONDS) for program in programs]
    finally:
        for program in programs:
            program.kill()
    return [(program.returncode, *output) for program, output in zip(programs, outputs)]


def test_fits(source, build, folder):
    text = (source / "client/examples/least_squares.yaml").read_text()
    server, *workers = run_job(source, build, folder, text)
    expect(server[0] == 0 and "exit code             0" in server[2], f"the server ended with {server}")
    for worker in workers:
        # The library prints nothing itself, neither to stdout nor to stderr.
        expect(worker == (0, FIT, ""), f"a worker ended with {worker}, expected {(0, FIT, '')}")
    expect("samples               80000" in server[2], f"the samples are not in the table: {server[2]}")


def test_refusals(source, build, folder):
    job = folder / "net.yaml"
    job.write_text((source / "configs/lenet_fashion.yaml").read_text())
    for arguments, code, sentence in (
        ([job, "0"], 78, "train.compute: saw net; a program that updates its weights itself can take part only in a job "
                         "with client"),
        ([source / "client/examples/least_squares.yaml", "2"], 64, "saw rank 2; the job has 2 workers"),
        ([folder / "none.yaml", "0"], 65, "none.yaml"),
    ):
        run = subprocess.run([build / "examples/least_squares", *arguments], capture_output=True, text=True, timeout=SECONDS)
        expect(run.returncode == code and sentence in run.stderr, f"{arguments}: ended with {run}")
    worker = subprocess.run(
        [build / "bin/tern_worker", "--job", source / "client/examples/least_squares.yaml", "--rank", "0"],
        capture_output=True, text=True, timeout=SECONDS)
    expect(worker.returncode == 78 and "the workers are programs of yours" in worker.stderr, f"tern_worker: {worker}")


def test_library(build):
    library = build / "lib/libtern.so"
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in names.splitlines()}
    declared = set(re.findall(r"\b(tern_\w+)\(", (pathlib.Path(sys.argv[1]) / "client/tern.h").read_text()))
    expect(exported == declared, f"exports {sorted(exported ^ declared)} more or less than tern.h declares")
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    for unwanted in ("glog", "gflags", "dnnl", "cuda", "cudnn", "gomp", "omp.so"):
        expect(f"lib{unwanted}" not in needed, f"brings lib{unwanted} along")


def main():
    source, build = (pathlib.Path(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        test_fits(source, build, pathlib.Path(folder))
        test_refusals(source, build, pathlib.Path(folder))
    if "--sanitized" not in sys.argv:
        test_library(build)
    print("least_squares_test: passed")


main()
