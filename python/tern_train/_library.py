"""libtern.so and its functions, as tern.h declares them."""

import ctypes
import os
import pathlib

ABI_VERSION = 4
TEXT_BYTES = 2048
AGAIN = -1
NOTHING, LOG, READY, TENSOR, GIVE_STATE, STATE, ENDED = range(7)
NO_TASK, STEP, EVALUATE, OVER, SAVE, LOAD = range(6)
VALUES, GRADIENT, STATISTIC = range(3)
RANK, WORLD_SIZE = range(2)


class CError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("sentence", ctypes.c_char * TEXT_BYTES)]


class CTensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("num_dims", ctypes.c_uint32),
    ]


class COptions(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("job_path", ctypes.c_char_p),
        ("overrides", ctypes.POINTER(ctypes.c_char_p)),
        ("num_overrides", ctypes.c_size_t),
        ("tensors", ctypes.POINTER(CTensor)),
        ("num_tensors", ctypes.c_size_t),
        ("has_first_state", ctypes.c_int),
        ("saved_state", ctypes.c_char_p),
        ("num_saved_bytes", ctypes.c_size_t),
        ("takes_tasks", ctypes.c_int),
        ("is_module", ctypes.c_int),
        ("first_values", ctypes.POINTER(ctypes.c_void_p)),
        ("statistics", ctypes.POINTER(CTensor)),
        ("num_statistics", ctypes.c_size_t),
        ("first_statistics", ctypes.POINTER(ctypes.c_void_p)),
        ("fixed_digest", ctypes.c_uint64),
        ("evaluates", ctypes.c_int),
    ]


class CTask(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("part", ctypes.c_uint32),
        ("num_parts", ctypes.c_uint32),
        ("step", ctypes.c_uint64),
        ("state", ctypes.c_void_p),
        ("num_state_bytes", ctypes.c_size_t),
    ]


class CEvent(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("level", ctypes.c_int),
        ("code", ctypes.c_int),
        ("tensor", ctypes.c_uint32),
        ("step", ctypes.c_uint64),
        ("state", ctypes.c_void_p),
        ("num_state_bytes", ctypes.c_size_t),
        ("text", ctypes.c_char * TEXT_BYTES),
    ]


def _library_path() -> str:
    if path := os.environ.get("TERN_LIBRARY"):
        return path
    packaged = pathlib.Path(__file__).parent / "lib" / "libtern.so"
    if not packaged.exists():
        raise ImportError(
            f"{packaged} is missing; install the wheel, or set TERN_LIBRARY to the path of a libtern.so"
        )
    return str(packaged)


def _load() -> ctypes.CDLL:
    # Deep binding: the library keeps its own protobuf, whatever else this process has loaded.
    library = ctypes.CDLL(_library_path(), mode=os.RTLD_LOCAL | os.RTLD_NOW | os.RTLD_DEEPBIND)
    if library.tern_abi_version() != ABI_VERSION:
        raise ImportError(
            f"libtern.so has version {library.tern_abi_version()} of the C interface, and this package needs "
            f"version {ABI_VERSION}; install both from the same wheel"
        )
    client = ctypes.c_void_p
    signatures = {
        "tern_abi_version": ([], ctypes.c_uint32),
        "tern_version": ([], ctypes.c_char_p),
        "tern_environment": (
            [
                ctypes.c_int,
                ctypes.POINTER(ctypes.c_uint32),
                ctypes.POINTER(ctypes.c_char_p),
                ctypes.POINTER(CError),
            ],
            ctypes.c_int,
        ),
        "tern_open": (
            [ctypes.POINTER(COptions), ctypes.POINTER(client), ctypes.POINTER(CError)],
            ctypes.c_int,
        ),
        "tern_poll": ([client, ctypes.c_double, ctypes.POINTER(CEvent)], None),
        "tern_push": (
            [client, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(CError)],
            ctypes.c_int,
        ),
        "tern_memory": ([client, ctypes.c_int, ctypes.c_uint32], ctypes.c_void_p),
        "tern_next": (
            [client, ctypes.c_double, ctypes.POINTER(CTask), ctypes.POINTER(CError)],
            ctypes.c_int,
        ),
        "tern_score": (
            [client, ctypes.c_double, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64],
            None,
        ),
        "tern_report": ([client, ctypes.c_double, ctypes.c_uint32], None),
        "tern_give_state": ([client, ctypes.c_char_p, ctypes.c_size_t], None),
        "tern_keep": ([client, ctypes.c_char_p, ctypes.c_size_t], None),
        "tern_save": (
            [client, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(CError)],
            ctypes.c_int,
        ),
        "tern_steps": ([client], ctypes.c_uint64),
        "tern_stats": ([client, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t),
        "tern_finish": ([client], None),
        "tern_close": ([client, ctypes.c_int, ctypes.c_char_p], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


lib = _load()
