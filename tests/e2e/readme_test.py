"""Runs the commands of README.md's sh blocks in a copy of the tree's configs and scripts, with a build's programs.

  readme_test.py SOURCE_DIR BUILD_DIR

Two lines are not run as they stand: the test command (it would run this) is left out, and the quickstart is made
short. Ports become free ones, since another job may use README's on this machine; without IPv6 its loopback becomes
IPv4's.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TEST_COMMAND = "scripts/test.sh"
QUICKSTART = "scripts/quickstart.sh"
SHORT = " --set train.steps=30"
MUST_SHOW = (QUICKSTART, TEST_COMMAND, "tern check", "tern run", "tern_server", "tern_worker")
SECONDS_A_BLOCK = 200
PORT = re.compile(r"(?<![\w.])7[5-7]\d\d(?!\d)")  # the ports of README and configs: 7500 to 7799


def fail(sentence):
    print(f"FAILED: {sentence}")
    sys.exit(1)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def is_free(port):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        if family == socket.AF_INET6 and not has_ipv6():
            continue
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def shift_of_ports(texts):
    """What to add to the ports so that all are free; below those that the system hands out by itself."""
    used = sorted({int(port) for text in texts for port in PORT.findall(text)} | {7600, 7601, 7700, 7701})
    for shift in range(3000 + os.getpid() % 500 * 40, 23000, 17):
        if all(is_free(port + shift) for port in used):
            return shift
    fail(f"found no free ports in place of {used}")


def copy_tree(source, tree):
    for folder in ("configs", "scripts"):
        shutil.copytree(source / folder, tree / folder)
    if not has_ipv6():
        print("no IPv6 here: ::1 becomes 127.0.0.1")
        for path in (tree / "configs").iterdir():
            path.write_text(path.read_text().replace("[::1]", "127.0.0.1"))


def move_ports(tree, readme):
    """README's text with other ports, after the same in all configs."""
    configs = {path: path.read_text() for path in (tree / "configs").iterdir()}
    shift = shift_of_ports([readme, *configs.values()])

    def moved(text):
        return PORT.sub(lambda match: str(int(match.group()) + shift), text)

    for path, text in configs.items():
        path.write_text(moved(text))
    return moved(readme)


def blocks_of(readme):
    """Lists of lines."""
    found = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)]
    lines = [line for block in found for line in block]
    for command in MUST_SHOW:
        if not any(line.startswith(command) for line in lines):
            fail(f"no line of README.md's sh blocks begins with '{command}'")
    return found


def check_links(source, readme):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", readme):
        if not (source / target).exists():
            fail(f"README.md links to {target}, which does not exist")


def check_exit_codes(source, readme):
    """The table of exit codes and common/base/status.h have the same."""
    known = {int(code) for code in re.findall(r"^  k\w+ = (\d+),", (source / "common/base/status.h").read_text(), re.M)}
    table = readme.split("Exit codes of all three programs:")[1].split("\n\n")[1]
    told = {int(code) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in cell.split(",")}
    if not known or known != told:
        fail(f"README.md's table of exit codes has {sorted(told)}, common/base/status.h {sorted(known)}")


def jobs_that_train(block):
    """The job files of the runs that a block starts."""
    for line in block:
        words = line.split()
        if line.startswith(QUICKSTART):
            yield "configs/lenet_fashion.yaml"
        elif line.startswith("tern run"):
            yield words[2]
        elif line.startswith("tern_server"):
            yield words[words.index("--job") + 1]


def check_training(tree, job):
    """The job has to have left its figures, and they have to tell of a good end."""
    folder = re.search(r"^output_dir: (\S+)", (tree / job).read_text(), re.MULTILINE).group(1)
    try:
        figures = json.loads((tree / folder / "server.0.json").read_text())
    except (OSError, ValueError) as error:
        fail(f"{job} left no figures: {error}")
    if figures["code"] != 0 or not figures["replicas_agree"] or not 0 < figures["accuracy"] <= 1:
        fail(f"{job} ended with {figures}")


def run_block(tree, block, environment):
    script = "\n".join(line + SHORT if line == QUICKSTART else line for line in block)
    print(f"\n== {script}", flush=True)
    begin = time.monotonic()
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=tree, env=environment,
                               stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        code = process.wait(SECONDS_A_BLOCK)
    except subprocess.TimeoutExpired:
        code = f"none within {SECONDS_A_BLOCK} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # whatever a failed block left in the background
        except ProcessLookupError:
            pass
        process.wait()
    print(f"== exit code {code}, {time.monotonic() - begin:.1f} s", flush=True)
    if code != 0:
        fail(f"exit code {code} of:\n{script}")


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    readme = (source / "README.md").read_text()
    check_links(source, readme)
    check_exit_codes(source, readme)
    environment = dict(os.environ, TERN_BUILD_DIR=str(build), PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(prefix="tern_readme.") as folder:
        tree = pathlib.Path(folder)
        copy_tree(source, tree)
        for block in blocks_of(move_ports(tree, readme)):
            if [line.strip() for line in block] == [TEST_COMMAND]:
                continue
            shutil.rmtree(tree / "out", ignore_errors=True)
            run_block(tree, block, environment)
            for job in jobs_that_train(block):
                check_training(tree, job)
    print("README.md: all its commands run")


if __name__ == "__main__":
    main()
