#!/usr/bin/env python3
"""Checks names against Google's style by patterns over formatted code. This is fast, but cannot see what needs a compiler.

scripts/lint.sh --tidy uses clang-tidy with the rules of .clang-tidy instead, which is exact and slow.
"""
import re

import check_layers
import sources

CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*")
CONSTANT = re.compile(r"k[A-Z0-9]\w*")
LOWER_CAMEL = re.compile(r"\b(?!k[A-Z0-9])[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\b")
# Functions and types of C libraries, which use other styles.
FOREIGN = re.compile(r"(inflate|deflate|cuda|cudnn|cublas)[A-Z]|uInt\b|aBcd16b\b|(thread|block)Idx\b|atomic(Add|Or|Inc)\b|(block|grid)Dim\b|workspaceSize\b")
# Files that replace a library's files and use its names (glog's macros), and the C interface with what implements it.
STAND_INS = {"tests/kernels/cuda_on_host/cuda_runtime.h", "common/base/logging.h", "client/tern.h", "client/guest/abi.cc"}
STANDARD_TYPES = {"value_type", "iterator", "is_transparent", "difference_type", "iterator_category"}

TYPE = re.compile(r"\b(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^:]|\{)")
ENUM = re.compile(r"\benum\b(?:\s+class)?\s*(\w*)\s*(?::\s*[\w:]+\s*)?\{([^}]*)\}")
ALIAS = re.compile(r"^\s*using\s+(\w+)\s*=", re.MULTILINE)
NAMESPACE_CONSTANT = re.compile(r"^(?:inline |static )*constexpr [^=({;\n]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{)", re.MULTILINE)
MEMBER_CONSTANT = re.compile(r"^\s+static constexpr [^=({;\n]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{)", re.MULTILINE)
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace (tern[\w:]*) \{", re.MULTILINE)
CLASS_BODY = re.compile(r"^class \w+[^;{]*\{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
PRIVATE_MEMBER = re.compile(r"^  (?!using|friend|static|return|struct|enum|class|typedef)[\w:][\w:<>,*&()\[\] ]*[\w>*&\]] "
                            r"[*&]?(\w+)(?: = [^;]*|\{[^;]*\})?;", re.MULTILINE)
# A function that a file of the tests defines at a namespace's level: whether it is inline, its name, its parameters.
FUNCTION = re.compile(r"^(?!return\b)(inline )?[\w:<>&*, ]+?[ *&](\w+)\(([^(){};]*)\)\s*\{", re.MULTILINE)


def functions(path):
    """Yields (namespaces, name, parameter types), whether it is inline, and the position of each function at a namespace's level."""
    source = sources.code(path)
    for match in FUNCTION.finditer(source):
        parameters = [re.sub(r"\bconst\b|&|\b(?:\w+::)+", "", each.split("=")[0]).strip()
                      for each in re.split(r",(?![^<]*>)", match.group(3)) if each.strip()]
        types = tuple(re.sub(r"(?<=[\s>*])\w+$", "", each).replace(" ", "") for each in parameters)
        yield (tuple(NAMESPACE.findall(source)), match.group(2), types), match.group(1), sources.line_of(source, match.start())


def check_hidden():
    """Yields functions of tests that hide an inline one of a header. Tests are compiled several files at a time, so that the next file
    of the same namespace would call the hiding one instead of the header's."""
    of_headers = {function: path for path in sources.cpp_files() if path.startswith("tests/") and path.endswith(".h")
                  for function, is_inline, _ in functions(path) if is_inline}
    for path in sources.cpp_files():
        if not path.startswith("tests/") or not path.endswith(".cc"):
            continue
        for function, _, line in functions(path):
            if function in of_headers:
                yield f"{path}:{line}: {function[1]}: hides the one of {of_headers[function]}"


def namespace_of(path):
    """Returns the namespace of a file: tern::<layer>, without subfolders; plain tern for common/base and for programs."""
    folder = check_layers.folder_of(path).split("/")[-1]
    return "tern" if folder == "base" else "tern::" + folder


def private_members(body):
    """Returns the names of data members after `private:`, without nested classes."""
    private = ("\n" + body).split("\n private:\n", 1)
    if len(private) == 2:
        for match in PRIVATE_MEMBER.finditer(private[1]):
            yield match.group(1)


def check(path):
    source = sources.code(path)

    def fault(match, group, rule):
        return f"{path}:{sources.line_of(source, match.start(group))}: {match.group(group)}: {rule}"

    for match in TYPE.finditer(source):
        if not CAMEL.fullmatch(match.group(1)):
            yield fault(match, 1, "types are CamelCase")
    for match in ALIAS.finditer(source):
        if not CAMEL.fullmatch(match.group(1)) and match.group(1) not in STANDARD_TYPES:
            yield fault(match, 1, "types are CamelCase")
    for match in ENUM.finditer(source):
        for value in re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\([^)]*\)", "", match.group(2))):
            if not CONSTANT.fullmatch(value):
                yield fault(match, 0, f"{value}: values are kCamelCase").replace("\n", " ")
    for pattern in (NAMESPACE_CONSTANT, MEMBER_CONSTANT):
        for match in pattern.finditer(source):
            if not CONSTANT.fullmatch(match.group(1)):
                yield fault(match, 1, "constants are kCamelCase")
    for match in MACRO.finditer(source):
        prefix = "" if path.startswith("tests/") and path.endswith(".cc") else "(TERN|HWY)_"
        if not re.fullmatch(prefix + r"[A-Z0-9_]+", match.group(1)):
            yield fault(match, 1, "macros are TERN_UPPER_CASE")
    for match in TEST.finditer(source):
        for group in (1, 2):
            if not CAMEL.fullmatch(match.group(group)):
                yield fault(match, group, "test names are CamelCase sentences")
    for match in LOWER_CAMEL.finditer(source):
        if not FOREIGN.match(match.group(0)):
            yield fault(match, 0, "functions are CamelCase or, as accessors, snake_case; variables are snake_case")
    for match in CLASS_BODY.finditer(source):
        for name in private_members(match.group(1)):
            if not name.endswith("_"):
                yield fault(match, 0, "").split("class")[0] + f"private member {name}: ends in an underscore"
    names = NAMESPACE.findall(source)
    if names and not path.startswith(check_layers.UNBOUND):
        own = namespace_of(path)
        if not any(name == own or name.startswith(own + "::") for name in names):
            yield f"{path}: {names[0]}: the namespace of this folder is {own}"


if __name__ == "__main__":
    sources.finish([fault for path in sources.cpp_files() if path not in STAND_INS
                    for fault in check(path)] + list(check_hidden()))
