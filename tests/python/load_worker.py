"""The worker of load_test.py:  load_worker.py LOAD..., with TERN_JOB and TERN_RANK.

Loads what the arguments name, in their order, and then takes part in a job, also by what was loaded beside Tern. LOAD is

  tern           tern_train with libtern.so
  torch          PyTorch
  libprotobuf    Debian's libprotobuf, whose symbols all libraries that come later may use
  google         Python's protobuf, whatever it is implemented in
"""
import ctypes
import importlib
import pathlib
import re
import sys

UNWANTED = ("dnnl", "mkldnn", "gomp", "omp", "iomp5", "cuda", "cudart", "cudnn", "cublas")


def load_libprotobuf():
    ctypes.CDLL("libprotobuf.so.32", mode=ctypes.RTLD_GLOBAL)


def load_google():
    importlib.import_module("google.protobuf.struct_pb2")


LOADS = {"tern": lambda: importlib.import_module("tern_train"), "torch": lambda: importlib.import_module("torch"),
         "libprotobuf": load_libprotobuf, "google": load_google}


def libraries():
    """The names of the libraries in this process, such as `tern` of libtern.so.2."""
    return set(re.findall(r"/lib([\w+-]+?)(?:-[0-9a-f]{8})?\.so[.\d]*$", pathlib.Path("/proc/self/maps").read_text(), re.MULTILINE))


def use_torch():
    torch = sys.modules["torch"]
    x = torch.ones(8, 3, requires_grad=True)
    torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3))  # by oneDNN, if PyTorch has it
    (x @ torch.ones(3, 5)).sum().backward()
    assert (x.grad == 5).all()


def use_google():
    from google.protobuf.internal import api_implementation
    struct = sys.modules["google.protobuf.struct_pb2"]
    message = struct.Struct()
    message["tern"] = [1, "two", {"three": True}]
    copy = struct.Struct.FromString(message.SerializeToString())
    assert copy == message and copy["tern"][1] == "two"
    print(f"protobuf is implemented in {api_implementation.Type()}")


USES = {"torch": use_torch, "google": use_google}


def main():
    for name in sys.argv[1:]:
        LOADS[name]()
    loaded = libraries()
    assert "tern" in loaded, loaded
    if sys.argv[1:] == ["tern"]:
        assert not loaded & set(UNWANTED), f"libtern.so brings {loaded & set(UNWANTED)}"
    from client_worker import Worker
    worker = Worker()
    for step in range(3):
        assert worker.exchange([step, 2, -3, 0.5]) == [step, 2, -3, 0.5]
        for name in USES.keys() & set(sys.argv[1:]):
            USES[name]()
    worker.finish()
    print("done")


main()
