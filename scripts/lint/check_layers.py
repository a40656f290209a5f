#!/usr/bin/env python3
"""Checks includes: the layers of our folders, and which folders may include external libraries.

A library may be included in a .cc file of its folders, or in a header there that no other folder includes.
"""
import collections
import pathlib
import re

import sources

LEAVES = ["proto", "kernels", "common/base"]
COMMON = ["common/" + name for name in ("algorithm", "base", "checkpoint", "codec", "config", "net", "protocol", "tensors", "update")]

# Folder: the folders or single files that it may include besides itself.
LAYERS = {
    "proto": [],
    "kernels": [],
    "common/base": [],
    "common/algorithm": ["common/base", "proto"],
    "common/config": ["common/algorithm", "common/base", "proto"],
    "common/net": ["common/base", "proto"],
    "common/tensors": ["common/base"],
    "common/codec": LEAVES,
    "common/update": LEAVES,
    "common/checkpoint": ["common/base", "common/tensors", "proto"],
    "common/protocol": ["common/algorithm", "common/base", "common/codec", "proto"],
    "models": ["proto", "common/base", "common/tensors", "kernels/codes/philox.h"],
    # What every program derives from a job first.
    "setup": COMMON + LEAVES + ["models"],
    "worker/data": LEAVES + ["common/algorithm", "models"],
    "client": COMMON + LEAVES + ["models", "setup"],
    # Implements client's interfaces for values in GPU memory.
    "worker/device": COMMON + LEAVES + ["client", "setup"],
    "worker/engine": LEAVES + ["models", "worker/device/cuda_model.h", "worker/device/device.h"],
    "worker/tensorboard": ["common/base", "proto"],
    "server": COMMON + ["models", "proto", "setup"],
    "worker": COMMON + LEAVES + ["client", "models", "setup", "worker/data", "worker/device", "worker/engine", "worker/tensorboard"],
    # `tern forecast` measures the code of workers.
    "tools": COMMON + LEAVES + ["client", "models", "setup", "worker", "worker/data", "worker/engine"],
}

# Library: the prefixes of its includes, and the folders that wrap it. Tests may use any library.
VENDORS = {
    "ZeroMQ": (("zmq",), ["common/net"]),
    "yaml-cpp": (("yaml-cpp/",), ["common/config"]),
    "oneDNN": (("dnnl", "oneapi/"), ["worker/engine"]),
    "CUDA": (("cuda", "cudnn", "cublas"), ["kernels", "worker/device", "worker/engine"]),
    "Highway": (("hwy/",), ["kernels"]),
    "libmicrohttpd": (("microhttpd",), ["common/net"]),
    "nlohmann-json": (("nlohmann/",), ["common/tensors", "server", "setup", "tools", "worker/engine"]),
    "ISA-L": (("isa-l",), ["common/base"]),
    "libsodium": (("sodium",), ["common/base", "common/net", "setup"]),
    "zlib": (("zlib",), ["worker/data"]),
    "libjpeg-turbo": (("jpeglib", "jerror"), ["worker/data"]),
    "libpng": (("png.h", "pngconf"), ["worker/data"]),
    "ncurses": (("curses", "ncurses"), ["tools"]),
    "Boost.Beast and Asio": (("boost/",), ["tools"]),
    "CLI11": (("CLI/",), ["setup"]),
    "gflags": (("gflags/",), ["setup", "tools"]),
    "glog": (("glog/",), ["common/base"]),
}
# Headers that are meant to expose a library.
OPEN_HEADERS = {"common/base/logging.h"}

UNBOUND = ("bench", "tests")  # they may include anything

INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")', re.MULTILINE)


def folder_of(path):
    """Returns the layer of a file: the longest folder in the table that contains it."""
    for parent in pathlib.PurePosixPath(path).parents:
        if str(parent) in LAYERS:
            return str(parent)
    return str(pathlib.PurePosixPath(path).parts[0])


def is_ours(include):
    return include.split("/")[0] in {folder.split("/")[0] for folder in LAYERS} | set(UNBOUND)


def exists(include):
    made = re.sub(r"\.pb\.h$", ".proto", include)  # it generates the header
    return (sources.ROOT / made).is_file()


def check_layer(path, include, where):
    own = folder_of(path)
    target = folder_of(include)
    if not exists(include):
        yield f'{where}: includes "{include}", which does not exist; paths are from the root'
    elif own in UNBOUND or target == own:
        return
    elif own not in LAYERS:
        yield f"{where}: folder {own} has no line in LAYERS of scripts/lint/check_layers.py"
    elif target not in LAYERS[own] and include not in LAYERS[own]:
        yield f'{where}: {own} may not include "{include}"; it may include {", ".join(LAYERS[own]) or "nothing"}'


def reached_folders(header, includers):
    """Returns the folders of all files that include a header, directly or indirectly."""
    seen, todo = {header}, [header]
    while todo:
        for path in includers[todo.pop()] - seen:
            seen.add(path)
            todo.append(path)
    return {folder_of(path) for path in seen}


def check_vendor(path, include, where, includers):
    for name, (prefixes, folders) in VENDORS.items():
        if not include.startswith(prefixes) or folder_of(path) in UNBOUND or path in OPEN_HEADERS:
            continue
        if folder_of(path) not in folders:
            yield f"{where}: <{include}> ({name}) belongs behind a wrapper in {' or '.join(folders)}"
        elif path.endswith(".h"):
            leaks = reached_folders(path, includers) - {folder_of(path)}
            if leaks:
                yield f"{where}: a header that {', '.join(sorted(leaks))} reaches shows <{include}> ({name})"


def main():
    found = []
    includers = collections.defaultdict(set)
    for path in sources.cpp_files():
        text = sources.text(path)
        for match in INCLUDE.finditer(text):
            quoted, include = match.group(1)[0] == '"', match.group(1)[1:-1]
            found.append((path, include, quoted, f"{path}:{sources.line_of(text, match.start(1))}"))
            includers[include].add(path)
    faults = []
    for path, include, quoted, where in found:
        if quoted and is_ours(include):
            faults += check_layer(path, include, where)
        elif quoted and not include.startswith(tuple(p for prefixes, _ in VENDORS.values() for p in prefixes)):
            faults.append(f'{where}: includes "{include}"; our files are named from the root, others go in <>')
        faults += check_vendor(path, include, where, includers)
    sources.finish(faults)


if __name__ == "__main__":
    main()
