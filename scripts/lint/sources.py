"""Shared by the lint checks: the files of the tree, source text without comments and strings, and reporting."""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


@functools.cache
def files():
    """Returns tracked files, and new files that git does not ignore, as paths from the root."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                         cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return sorted(path for path in out.split("\0") if path and (ROOT / path).is_file())


def cpp_files():
    return [path for path in files() if path.endswith((".cc", ".h", ".cu", ".cuh"))]


@functools.cache
def text(path):
    return (ROOT / path).read_bytes().decode("utf-8", errors="replace")


def code(path):
    """Returns the text with comments and the contents of strings blanked; line numbers do not change."""
    def blank(match):
        token = match.group(0)
        kept = "\n" * token.count("\n")
        return kept if token.startswith(("//", "/*")) else '""' + kept
    return _TOKENS.sub(blank, text(path))


def uncommented(path):
    """Returns the text with comments blanked; line numbers do not change."""
    def blank(match):
        token = match.group(0)
        return "\n" * token.count("\n") if token.startswith(("//", "/*")) else token
    return _TOKENS.sub(blank, text(path))


def comments_of(source):
    """Yields the comments of C++ text as (position, text without the marker)."""
    for match in _TOKENS.finditer(source):
        token = match.group(0)
        if token.startswith("//"):
            yield match.start(), token[2:]
        elif token.startswith("/*"):
            yield match.start(), token[2:-2]


def line_of(source, position):
    return source.count("\n", 0, position) + 1


def finish(faults):
    """Prints the faults and exits: with 0 if there are none, else with 1."""
    for fault in sorted(faults):
        print(fault)
    sys.exit(1 if faults else 0)
