#!/usr/bin/env python3
"""No kernel has more static shared memory than CUDA allows, 48 KiB. Reads the objects of the kernels that are compiled for the
CPU, where shared memory is a function's static variables (tests/kernels/cuda_on_host).
   shared_memory_test.py OBJECT..."""
import collections
import re
import subprocess
import sys

MOST_BYTES = 48 << 10
# address, size, type, and the variable's name after its function's
SYMBOL = re.compile(r"^[0-9a-f]+ ([0-9a-f]+) [bBdDuV] (.*[)>\]])::\w+$", re.MULTILINE)


def bytes_of_functions(objects):
    """Returns for each function the bytes of its static variables."""
    sizes = collections.defaultdict(int)
    for path in objects:
        symbols = subprocess.run(["nm", "-C", "-S", path], check=True, capture_output=True, text=True).stdout
        for size, function in SYMBOL.findall(symbols):
            sizes[path, function] += int(size, 16)
    return sizes


def functions_beyond(sizes, most):
    return sorted(f"{function}: {size} bytes of shared memory; at most {most}"
                  for (_, function), size in sizes.items() if size > most)


def main():
    sizes = bytes_of_functions(sys.argv[1:])
    largest = max(sizes.values(), default=0)
    print(f"{len(sizes)} functions with shared memory, at most {largest} bytes")
    if len(sizes) < 20 or not functions_beyond(sizes, largest - 1):
        sys.exit("the functions with shared memory are not found")
    sys.exit("\n".join(functions_beyond(sizes, MOST_BYTES)) or 0)


if __name__ == "__main__":
    main()
