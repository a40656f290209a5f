#!/usr/bin/env python3
"""Checks the include graph and the size of classes.

- Folders do not include each other in a circle.
- Units (a .h and its .cc) that include each other, directly or indirectly, form a knot. KNOTS lists the accepted ones, each with a
  reason. A knot that is not listed or has grown is a fault; so is an entry that is no longer needed.
- A class has at most MAX_METHODS methods. CLASSES lists larger ones with their number, which may only decrease.
- A kernel of a GPU is launched with as many threads as its __launch_bounds__ say, in the same words.
"""
import collections
import pathlib
import re

import sources

MAX_METHODS = 25
PRODUCT = ("client", "common", "kernels", "models", "proto", "server", "setup", "tools", "worker")

# Units without their ending, as lists of them. The list may only become shorter.
KNOTS = []
# Class: its methods today.
CLASSES = {}

ASKS_FOR_DEVICE = re.compile(r"\b\w*device\w*(?:\(\))?\s*[!=]=\s*nullptr|\bif \(!?\w*(?:on_)?device\w*\(?\)|\bkCuda\b|\bDeviceModel\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
BOUNDS = re.compile(r"__launch_bounds__\((\w+)[^()]*\)\s+(\w+)\(")
LAUNCH = re.compile(r"(?<!int )\bLaunch\(")
CLASS = re.compile(r"\b(?:class|struct)\s+(?:TERN_\w+\s+)?(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{")


def components(graph):
    """Returns the strongly connected components with more than one node (Tarjan's algorithm, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = set()
                    while node not in members:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.add(member)
                    if len(members) > 1:
                        found.append(members)
    return found


def is_product(path):
    return path.split("/")[0] in PRODUCT


def graph_of(node_of):
    graph = collections.defaultdict(set)
    for path in filter(is_product, sources.cpp_files()):
        own = node_of(path)
        graph[own]  # adds files without includes, too
        for include in INCLUDE.findall(sources.text(path)):
            if is_product(include) and (sources.ROOT / include).is_file() and node_of(include) != own:
                graph[own].add(node_of(include))
    for targets in list(graph.values()):
        for target in targets:
            graph.setdefault(target, set())
    return graph


def folder_of(path):
    return str(pathlib.PurePosixPath(path).parent)


def unit_of(path):
    """Returns a file name without extension; all forms of a kernel are one unit."""
    return re.sub(r"(_cpu|_hwy|_math|_ref)$", "", re.sub(r"\.\w+$", "", path))


def check_folders():
    for circle in components(graph_of(folder_of)):
        for path in filter(is_product, sources.cpp_files()):
            for include in INCLUDE.findall(sources.text(path)):
                target = folder_of(include)
                if folder_of(path) in circle and target in circle and target != folder_of(path):
                    yield f"{path}: includes {include}, in a circle of folders: {', '.join(sorted(circle))}"


def check_units():
    knots = components(graph_of(unit_of))
    for knot in knots:
        if not any(knot <= set(known) for known in KNOTS):
            yield f"{min(knot)}.h: includes itself through others: {', '.join(sorted(knot))}"
    for known in KNOTS:
        if (sources.ROOT / f"{known[0]}.h").is_file() and set(known) not in knots:
            yield f"scripts/lint/check_structure.py: this knot no longer exists or is smaller now: {', '.join(known)}"


def body_of(code, start):
    """Returns the text from `start`, after an opening brace, to the matching brace, without the contents of inner braces."""
    depth, out, at = 1, [], start
    while at < len(code) and depth > 0:
        char = code[at]
        depth += (char == "{") - (char == "}")
        if depth == 1 and char != "}":
            out.append(char)
        elif char == "{" and depth == 2:
            out.append(";")
        at += 1
    return "".join(out)


def methods_of(body):
    """Returns the names declared with parentheses, without constructors, destructors and uses of operators."""
    names = set()
    for statement in re.split(r"[;]|\b(?:public|private|protected)\s*:", body):
        statement = re.sub(r"<[^<>()]*>", "", statement)
        head = statement.split("=")[0] if "operator" not in statement else statement
        match = re.search(r"(~?\w+)\s*\(", head)
        if match and not re.match(r"\s*(using|friend|static_assert|typedef|return|if|for|while)\b", statement):
            names.add(match.group(1))
    return names


def arguments_of(code, start):
    """Returns the arguments of a call, as texts without white space. `start` is after the opening parenthesis."""
    depth, arguments = 1, [""]
    for char in code[start:]:
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            break
        if char == "," and depth == 1 and arguments[-1].count("<") <= arguments[-1].count(">"):
            arguments.append("")
        elif not char.isspace():
            arguments[-1] += char
    return arguments


def check_launches():
    for path in filter(is_product, sources.cpp_files()):
        code = sources.code(path)
        bounds = {match.group(2): match.group(1) for match in BOUNDS.finditer(code)}
        for match in LAUNCH.finditer(code) if bounds else ():
            arguments = arguments_of(code, match.end())
            named = set(re.findall(r"\w+", arguments[0])) & set(bounds)
            for kernel in sorted(named or bounds):  # all, if the kernel is a variable
                if arguments[2] != bounds[kernel]:
                    yield (f"{path}:{sources.line_of(code, match.start())}: {arguments[2]} threads; the bound of {kernel} is "
                           f"{bounds[kernel]}")


def check_classes():
    seen = {}
    for path in filter(is_product, sources.cpp_files()):
        code = sources.code(path)
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", code, flags=re.MULTILINE)
        for match in CLASS.finditer(code):
            name = match.group(1)
            count = len(methods_of(body_of(code, match.end())) - {name, "~" + name})
            key = f"{path}:{name}"
            if key in CLASSES:
                seen[key] = count
            if count > CLASSES.get(key, MAX_METHODS):
                yield f"{path}: class {name} has {count} methods; at most {CLASSES.get(key, MAX_METHODS)}"
    for key, most in CLASSES.items():
        if (sources.ROOT / key.split(":")[0]).is_file() and seen.get(key, 0) < most:
            yield f"scripts/lint/check_structure.py: {key} now has {seen.get(key, 0)} methods, not {most}"


def check_wall():
    """A step does not ask where values lie: that is what client::Arenas and client::GradientCoder are for."""
    for path in sources.cpp_files():
        if not path.startswith("client/"):
            continue
        code = sources.code(path)
        for match in ASKS_FOR_DEVICE.finditer(code):
            yield f"{path}:{sources.line_of(code, match.start())}: {match.group(0)}: a step asks where values lie"


if __name__ == "__main__":
    sources.finish([*check_folders(), *check_units(), *check_classes(), *check_launches(), *check_wall()])
