"""Runs the commands in the sh blocks of README.md and docs/*.md, in a copy of the tree's configs and scripts, with the
programs of a build. Also checks the pages' links and paths, the output that README shows, and that the lists of
messages and exit codes are complete.

  readme_test.py SOURCE_DIR BUILD_DIR

Two commands are changed: the test command is left out, because it would run this test, and the quickstart is shortened.
Ports are replaced by free ones, because another job on this machine may use those of the pages. Without IPv6, its loopback
address is replaced by IPv4's. A yaml block whose first line is "# NAME.yaml" is a complete job, which is written to that
file first. The folder of images that README's job reads is made with a few small images.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

TEST_COMMAND = "scripts/test.sh"
QUICKSTART = "scripts/quickstart.sh"
SHORT = " --set train.steps=30"
MUST_SHOW = (QUICKSTART, TEST_COMMAND, "tern check", "tern run", "tern_server", "tern_worker")
README_LINES = 150
SECONDS_A_BLOCK = 200
PORT = re.compile(r"(?<![\w.])7[5-7]\d\d(?!\d)")  # the ports of the pages and configs: 7500 to 7799


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
    """Returns an offset with which all ports are free and below the range of outgoing connections."""
    used = sorted({int(port) for text in texts for port in PORT.findall(text)} | {7600, 7601, 7700, 7701})
    for shift in range(3000 + os.getpid() % 500 * 40, 23000, 17):
        if all(is_free(port + shift) for port in used):
            return shift
    fail(f"found no free ports in place of {used}")


def write_png(path, side, color):
    """Writes an RGB image of one color."""
    rows = (b"\0" + bytes(color) * side) * side
    parts = (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts))


def make_images(folder):
    """Writes two classes, red and blue: 12 images of each for training, 4 for tests."""
    for split, count in (("train", 12), ("test", 4)):
        for i in range(count):
            write_png(folder / split / "red" / f"{i}.png", 40 + i, (200 + i, 40, 40))
            write_png(folder / split / "blue" / f"{i}.png", 40 + i, (40, 40, 200 + i))


def copy_tree(source, tree):
    for folder in ("configs", "scripts"):
        shutil.copytree(source / folder, tree / folder)
    if not has_ipv6():
        print("no IPv6 here: ::1 becomes 127.0.0.1")
        for path in (tree / "configs").rglob("*.yaml"):
            path.write_text(path.read_text().replace("[::1]", "127.0.0.1"))
    make_images(tree / "images")


def move_ports(tree, pages):
    """Replaces the ports in all configs, and returns the texts of the pages with replaced ports."""
    configs = {path: path.read_text() for path in (tree / "configs").rglob("*.yaml")}
    shift = shift_of_ports([*pages.values(), *configs.values()])

    def moved(text):
        return PORT.sub(lambda match: str(int(match.group()) + shift), text)

    for path, text in configs.items():
        path.write_text(moved(text))
    return {page: moved(text) for page, text in pages.items()}


def blocks_of(text, language):
    """Returns the blocks as lists of lines."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def check_commands(pages):
    lines = [line for text in pages.values() for block in blocks_of(text, "sh") for line in block]
    for command in MUST_SHOW:
        if not any(line.startswith(command) for line in lines):
            fail(f"no line of the pages' sh blocks begins with '{command}'")


def write_jobs(tree, text):
    for block in blocks_of(text, "yaml"):
        name = re.fullmatch(r"# (\w+\.yaml)", block[0])
        if name:
            (tree / name.group(1)).write_text("\n".join(block) + "\n")


def anchors_of(text):
    """Returns the anchors that GitHub makes from headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def check_links(page, text):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        linked = (page.parent / target).resolve() if target else page
        if not linked.exists():
            fail(f"{page} links to {target}, which does not exist")
        if anchor and anchor not in anchors_of(linked.read_text()):
            fail(f"{page} links to {target}#{anchor}; that page has no such heading")


def check_paths(source, page, text):
    """Checks that files exist that a page names; "foo" stands for a file that a reader will add."""
    folders = "common|configs|docs|kernels|models|proto|scripts|server|tests|tools|worker"
    for path in re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)`", text):
        if "foo" not in path and not (source / path).exists():
            fail(f"{page} names {path}, which does not exist")


def check_lists(source):
    """Checks that every message has a row in WIRE.md, and every exit code one in FAULTS.md."""
    wire, faults = ((source / "docs" / name).read_text() for name in ("WIRE.md", "FAULTS.md"))
    envelope = re.search(r"oneof body \{(.*?)\n  \}", (source / "proto/wire.proto").read_text(), re.DOTALL).group(1)
    for name, number in re.findall(r"^    \w+ (\w+) = (\d+);", envelope, re.MULTILINE):
        if not any(number in re.findall(r"\d+", row.split("|")[1]) and f"`{name}`" in row
                   for row in wire.splitlines() if row.startswith("| ")):
            fail(f"docs/WIRE.md has no row for message {number}, {name}")
    codes = re.search(r"enum class Code : int \{(.*?)\};", (source / "common/base/status.h").read_text(), re.DOTALL).group(1)
    for number in re.findall(r"= (\d+),", codes):
        if not any(number in re.findall(r"\d+", row.split("|")[1]) for row in faults.splitlines() if row.startswith("| ")):
            fail(f"docs/FAULTS.md has no row for exit code {number}")


def check_shown(readme, output):
    """Checks that each row of the closing table in README is a row of the output."""
    label = re.compile(r"^ +(\S.*?)(?:  |$)")
    said = {match.group(1) for match in map(label.match, output.splitlines()) if match}
    shown = [match.group(1) for block in blocks_of(readme, "text") if any(line.startswith("  job ") for line in block)
             for match in map(label.match, block) if match]
    if not shown:
        fail("README.md shows no closing table")
    for row in shown:
        if row not in said:
            fail(f"README.md shows a row '{row}' that the closing table does not have")


def jobs_that_train(block):
    """Returns the job file of each run that a block starts and does not stop, and the output_dir of its command line or
    None."""
    for line in map(str.rstrip, block):
        words = line.split()
        if line.startswith(QUICKSTART):
            yield "configs/lenet_fashion.yaml", None
        elif line.startswith("tern run") and not line.endswith("job=$!"):
            folders = [word.removeprefix("output_dir=") for word in words if word.startswith("output_dir=")]
            yield words[2], folders[-1] if folders else None
        elif line.startswith("tern_server"):
            yield words[words.index("--job") + 1], None


def check_training(tree, job, folder):
    """Checks that the job has written its figures, and that they report success."""
    folder = folder or re.search(r"^output_dir: (\S+)", (tree / job).read_text(), re.MULTILINE).group(1)
    try:
        figures = json.loads((tree / folder / "server.0.json").read_text())
    except (OSError, ValueError) as error:
        fail(f"{job} left no figures: {error}")
    if figures["code"] != 0 or not figures["replicas_agree"] or not 0 < figures["accuracy"] <= 1:
        fail(f"{job} ended with {figures}")


def run_block(tree, block, environment):
    """Runs the block and returns its output."""
    script = "\n".join(line + SHORT if line == QUICKSTART else line for line in block)
    print(f"\n== {script}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=tree, env=environment, stdout=printed,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(SECONDS_A_BLOCK)
        except subprocess.TimeoutExpired:
            code = f"none within {SECONDS_A_BLOCK} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # processes that a failed block left in the background
            except ProcessLookupError:
                pass
            process.wait()
        printed.seek(0)
        output = printed.read()
    print(output)
    print(f"== exit code {code}, {time.monotonic() - begin:.1f} s", flush=True)
    if code != 0:
        fail(f"exit code {code} of:\n{script}")
    return output


def run_page(tree, text, environment, readme):
    write_jobs(tree, text)
    for block in blocks_of(text, "sh"):
        if [line.strip() for line in block] == [TEST_COMMAND]:
            continue
        shutil.rmtree(tree / "out", ignore_errors=True)
        output = run_block(tree, block, environment)
        if QUICKSTART in block:
            check_shown(readme, output)
        for job, folder in jobs_that_train(block):
            check_training(tree, job, folder)


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    readme = source / "README.md"
    pages = {page: page.read_text() for page in [readme, *sorted((source / "docs").glob("*.md"))]}
    others = {page: page.read_text() for page in source.glob("*.md") if page != readme}
    for page, text in [*pages.items(), *others.items()]:
        check_links(page, text)
        check_paths(source, page, text)
    check_lists(source)
    if len(pages[readme].splitlines()) > README_LINES:
        fail(f"README.md has more than {README_LINES} lines: what users look up belongs into docs")
    check_commands(pages)
    environment = dict(os.environ, TERN_BUILD_DIR=str(build), PATH=f"{build / 'bin'}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(prefix="tern_readme.") as folder:
        tree = pathlib.Path(folder)
        copy_tree(source, tree)
        for page, text in move_ports(tree, pages).items():
            print(f"\n=== {page.relative_to(source)}", flush=True)
            run_page(tree, text, environment, pages[readme])
    print("README.md and docs: all their commands run")


if __name__ == "__main__":
    main()
