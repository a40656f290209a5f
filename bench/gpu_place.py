"""Finds the programs of the check, the libraries that they need, and data: in a folder that scripts/package.sh made, or
in a checkout with build/cuda."""
import dataclasses
import glob
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent

# The libraries that programs for a GPU open while they run.
CUDNN = "libcudnn.so.9"
LIBRARIES = ("libcublas.so.13", "libcublasLt.so.13", CUDNN, "libnvrtc.so.13")


@dataclasses.dataclass
class Place:
    root: pathlib.Path  # the folder with bin/, bench/gpu_bench and so on
    configs: pathlib.Path
    golden: pathlib.Path

    @property
    def tern(self):
        return self.root / "bin/tern"

    def program(self, name):
        folder = {"gpu_kernels_test": "tests/kernels", "gpu_engine_test": "tests/worker/engine"}.get(name, "bench")
        return self.root / folder / name


def find_place():
    golden = TREE / "tests/worker/engine/golden.safetensors"
    if (TREE / "bin/tern_worker").exists():
        return Place(TREE, TREE / "share/tern/configs", golden)
    return Place(pathlib.Path(os.environ.get("TERN_BUILD_DIR") or TREE / "build/cuda").resolve(), TREE / "configs", golden)


def find_tool(name):
    """Returns the path of a program of the toolkit: the one on PATH, else that of $CUDA_HOME or /usr/local; None if missing."""
    home = os.environ.get("CUDA_HOME")
    folders = [os.environ.get("PATH"), home and f"{home}/bin", *sorted(glob.glob("/usr/local/cuda*/bin"))]
    return shutil.which(name, path=os.pathsep.join(filter(None, folders)))


def on_loaders_path(environment):
    """Returns the names of the libraries that the loader finds by itself."""
    try:
        cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                               env=dict(environment, PATH=environment.get("PATH", "") + ":/sbin:/usr/sbin")).stdout
    except OSError:
        cache = ""
    names = {line.split()[0] for line in cache.splitlines() if "=>" in line}
    for folder in filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")):
        names.update(path.name for path in pathlib.Path(folder).glob("lib*"))
    return names


def candidate_folders():
    """Returns the folders where PyTorch's wheels (nvidia/*/lib) and toolkits install libraries."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from sorted(glob.glob(f"{folder}/*/lib"))
    for pattern in ("/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/local/cuda*/targets/*/lib"):
        yield from sorted(glob.glob(pattern))


def library_folders(names, known, candidates):
    """Returns the first folder of `candidates` for each name that is not in `known`."""
    folders = []
    for name in names:
        if name in known:
            continue
        folder = next((one for one in candidates if (pathlib.Path(one) / name).exists()), None)
        if folder is not None and folder not in folders:
            folders.append(folder)
    return folders


def cudnn_version(library, environment):
    """Returns the version of a cuDNN for CUDA 13, given by its path or as a name for the loader, or 0 if it is none. The
    library is asked, because the files of wheels have no version in their names."""
    ask = "import ctypes, sys; it = ctypes.CDLL(sys.argv[1]); print(it.cudnnGetCudartVersion() // 1000, it.cudnnGetVersion())"
    done = subprocess.run([sys.executable, "-c", ask, library], capture_output=True, text=True, env=environment)
    words = done.stdout.split()
    return int(words[1]) if done.returncode == 0 and words[0] == "13" else 0


def folder_of_newer_cudnn(candidates, environment, version=cudnn_version):
    """Returns the folder of `candidates` whose cuDNN is the newest, or None if the one that the loader finds is not older, or
    was chosen by LD_LIBRARY_PATH."""
    chosen = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    if any(pathlib.Path(folder, CUDNN).exists() for folder in chosen):
        return None
    versions = {folder: version(f"{folder}/{CUDNN}", environment) for folder in candidates if pathlib.Path(folder, CUDNN).exists()}
    newest = max(versions, key=versions.get, default=None)
    return newest if newest and versions[newest] > version(CUDNN, environment) else None


def environment_of_programs():
    """Returns the environment for Tern's programs. PyTorch finds its own libraries."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    candidates = list(candidate_folders())
    newer = folder_of_newer_cudnn(candidates, environment)
    folders = library_folders(LIBRARIES, on_loaders_path(environment) | ({CUDNN} if newer else set()), candidates)
    before = environment.get("LD_LIBRARY_PATH")
    searched = [*([newer] if newer else []), *([before] if before else []), *folders]
    if searched:
        environment["LD_LIBRARY_PATH"] = ":".join(searched)
    return environment


@dataclasses.dataclass
class Data:
    name: str
    settings: tuple  # KEY=VALUE settings of a job


IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def places_of_data(folder):
    if folder is not None:
        return [pathlib.Path(folder)]
    return [pathlib.Path("data"), TREE / "data", TREE.parent / "data", pathlib.Path("/usr/share/datasets")]


def find_digits(folder):
    """Finds Fashion-MNIST or MNIST as IDX files; None if missing."""
    for place in places_of_data(folder):
        for name in ("fashion-mnist", "fashion_mnist", "mnist", "."):
            files = place / name
            if all((files / one).exists() or (files / f"{one}.gz").exists() for one in IDX):
                return Data(files.resolve().name, (f"data.dir={files.resolve()}",))
    return None


def find_cifar10(folder):
    """Finds CIFAR-10 in its binary form, as a packed file or as images; None if missing."""
    forms = (("cifar10", "data_batch_5.bin"), ("packed", "train.tpk"), ("folder", "train/airplane"))
    for place in places_of_data(folder):
        for name in ("cifar-10-batches-bin", "cifar10", "cifar-10", "."):
            for form, file in forms:
                if (place / name / file).exists():
                    return Data(f"CIFAR-10 ({form})", (f"data.format={form}", f"data.dir={(place / name).resolve()}"))
    return None
