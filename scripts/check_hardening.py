#!/usr/bin/env python3
"""Checks how the programs of a build are protected against faults in memory: check_hardening.py FOLDER

Checks every program below the folder: position-independent code, no executable stack, addresses of library functions
bound at the start and then read-only, no relocations in code, and search paths for libraries that are absolute or
relative to the program. The programs in FOLDER/bin (in a package, too) also need stack protectors and, where the
system's own start files have it, the note for control-flow protection (CET). In a build folder, two of our own
libraries show that stack protectors and _FORTIFY_SOURCE are on.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def readelf(arguments, path):
    """Returns what readelf prints."""
    command = ["readelf", "--wide", *arguments, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, LC_ALL="C")).stdout


def is_program(path):
    """Whether a file is an ELF file that can be started or loaded."""
    if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK):
        return False
    with path.open("rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\x02\x00", b"\x03\x00")


def wrong_search_paths(dynamic):
    """Returns the search paths with an element that is empty, which means the current folder, or relative to it."""
    paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    return [path for path in paths if not all(re.match(r"/|\$ORIGIN(/|$)", element) for element in path.split(":"))]


def faults_of_link(path):
    """Yields what is wrong with how a program was linked."""
    if "DYN" not in readelf(["-h"], path):
        yield "is not position-independent"
    segments = readelf(["-l"], path)
    stack = re.search(r"GNU_STACK.*", segments)
    if stack is None or "RWE" in stack.group():
        yield "has an executable stack"
    if "GNU_RELRO" not in segments:
        yield "has no RELRO"
    dynamic = readelf(["-d"], path)
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic):
        yield "binds functions lazily (no BIND_NOW)"
    if "TEXTREL" in dynamic:
        yield "has relocations in its code (TEXTREL)"
    for search_path in wrong_search_paths(dynamic):
        yield f"looks for libraries in '{search_path}', expected folders that are absolute or begin with $ORIGIN"


def faults_of_code(path, has_cet):
    """Yields what is wrong with how a program was compiled."""
    if "__stack_chk_fail" not in readelf(["--syms"], path):
        yield "has no stack protector"
    if has_cet and not re.search(r"x86 feature:.*IBT.*SHSTK", readelf(["-n"], path)):
        yield "has no note for control-flow protection (IBT, SHSTK)"


# Of two of our own libraries, a function that they call only if they were compiled with what tern_hardening says
# (cmake/TernOptions.cmake). A program may call it for a library of others.
SIGNS = {"common/net/libtern_net.a": ("__stack_chk_fail", "a stack protector"),
         "common/base/libtern_base.a": ("__snprintf_chk", "_FORTIFY_SOURCE")}


def start_files_have_cet():
    """Whether the file that is linked into every program has the note; if not, no program can have it."""
    path = subprocess.run(["cc", "-print-file-name=Scrt1.o"], capture_output=True, text=True, check=False).stdout.strip()
    return os.path.exists(path) and "IBT" in readelf(["-n"], path)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_hardening.py FOLDER, with programs in FOLDER/bin")
    folder = pathlib.Path(sys.argv[1]).resolve()
    # Below debian is a whole system, for tests/e2e/systemd_test.py.
    programs = sorted(path for path in folder.rglob("*")
                      if not {"CMakeFiles", "debian"} & set(path.relative_to(folder).parts) and is_program(path))
    shipped = [path for path in programs if path.parent == folder / "bin"]
    if not shipped:
        sys.exit(f"check_hardening: no programs in {folder}/bin")
    has_cet = start_files_have_cet()

    def faults(path):
        # Libraries of others are what Debian made of them.
        if path.parent == folder / "lib":
            return []
        return [*faults_of_link(path), *(faults_of_code(path, has_cet) if path in shipped else [])]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(zip(programs, pool.map(faults, programs)))
    for name, (function, what) in SIGNS.items():
        if (folder / name).exists() and function not in readelf(["--syms"], folder / name):
            found.append((folder / name, [f"was compiled without {what}"]))
    for path, lines in found:
        for line in lines:
            print(f"{path} {line}", file=sys.stderr)
    if any(lines for _, lines in found):
        sys.exit(1)
    cet = "with" if has_cet else "without (the C library's start files have none)"
    print(f"check_hardening: {len(programs)} programs, {len(shipped)} of them in bin; CET note: {cet}")


if __name__ == "__main__":
    main()
