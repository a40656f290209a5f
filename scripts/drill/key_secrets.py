"""Looks for secrets where nobody may find them: files, arguments, environments, metrics pages, memory, core dumps."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import hosts
import key_files

OTHER_USER = 65534  # nobody
PATIENCE_S = 30


def both_forms(secrets):
    """Returns the secrets by name, as text and raw."""
    return {**{name: text.encode() for name, text in secrets.items()},
            **{f"{name}, raw": key_files.raw(text) for name, text in secrets.items()}}


def found_in(data, secrets):
    return [name for name, secret in both_forms(secrets).items() if secret in data]


def check_running(running, secrets):
    """Looks into the arguments, environments and metrics pages of all daemons of a job. Returns what is wrong."""
    wrong, read_bytes = [], 0
    for name, daemon in running.daemons.items():
        role, rank = name.split(".")
        port = 7700 + int(rank) + (100 if role == "worker" else 0)
        page = subprocess.run([*running.hosts.prefix(name), sys.executable, "-c",
                               "import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())",
                               f"http://127.0.0.1:{port}/metrics"], capture_output=True)
        if page.returncode != 0 or not page.stdout:
            wrong.append(f"{name} has no metrics page: {page.stderr.decode()[-200:]}")
        places = {"metrics page": page.stdout}
        for place in ("cmdline", "environ"):
            places[place] = pathlib.Path(f"/proc/{daemon.process.pid}/{place}").read_bytes()
        for place, data in places.items():
            read_bytes += len(data)
            wrong += [f"{secret} is in the {place} of {name}" for secret in found_in(data, secrets)]
    print(f"arguments, environments and metrics pages of {len(running.daemons)} daemons: {read_bytes} bytes, "
          f"{len(wrong)} secrets", flush=True)
    return wrong


def search_files(folder, secrets):
    """Looks into all files of all runs but those with keys. Returns what is wrong."""
    wrong, files, read_bytes = [], 0, 0
    for path in folder.rglob("*"):
        if not path.is_file() or path.suffix == ".secret":
            continue
        data = path.read_bytes()
        files, read_bytes = files + 1, read_bytes + len(data)
        wrong += [f"{secret} is in {path}" for secret in found_in(data, secrets)]
    print(f"logs, outputs, checkpoints, summaries and lists of keys: {files} files with {read_bytes / 1e6:.0f} MB, "
          f"{len(wrong)} secrets", flush=True)
    return wrong


def check_memory(bin_folder, job, folder, keys):
    """Aborts a server that may write a core, and lets its own user look into another one. Returns what is wrong."""
    folder.mkdir()
    own = keys.copy_for(folder / "keys", "shard 0", "shard 0")
    for path in (folder.parent, folder, own.folder, *own.folder.iterdir()):
        os.chown(path, OTHER_USER, OTHER_USER)
    words = [bin_folder / "tern_server", "--job", job, "--rank", "0", "--log_dir", folder / "logs"]
    for setting in [f"servers.0.address=127.0.0.1:{hosts.free_port('127.0.0.1')}", f"output_dir={folder}/out",
                    "metrics.port=0", *own.settings()]:
        words += ["--set", setting]
    server, control = _start(words, folder), _start(["sleep", "600"], folder)
    try:
        return _judge_memory(server, control, folder, keys.secret("shard 0"))
    finally:
        for process in (server, control):
            process.kill()
            process.wait()


def _judge_memory(server, control, folder, secret):
    deadline = time.time() + PATIENCE_S
    while not any(re.match("Max core file size +0 +0 ", line) for line in _lines_of(f"/proc/{server.pid}/limits")):
        if time.time() > deadline or server.poll() is not None:
            return [f"the server may write cores: {(folder / 'stderr').read_text()}"]
        time.sleep(0.05)
    time.sleep(1)  # by then it has read its keys, and uses them
    wrong = [f"its own user can read {place} of a server with keys" for place in ("mem", "maps", "environ")
             if _may_read(f"/proc/{server.pid}/{place}")]
    as_text, as_bytes = _copies_in_memory(server.pid, secret)
    server.send_signal(signal.SIGABRT)
    code, cores = server.wait(PATIENCE_S), _cores(folder)
    if code != -signal.SIGABRT or cores:
        wrong.append(f"the server ended with {code} after SIGABRT, and left {cores}, expected {-signal.SIGABRT} and no core")
    if not _may_read(f"/proc/{control.pid}/environ"):
        wrong.append("the user can read the environment of no process, so that check proves nothing")
    control.send_signal(signal.SIGABRT)
    control.wait(PATIENCE_S)
    print(f"a server with keys: its own user cannot read its memory, and SIGABRT left {len(cores)} cores; another program that "
          f"aborted there left {len(_cores(folder))}. In its memory, which root may read, its secret is {as_text} times as "
          f"text and {as_bytes} times raw", flush=True)
    return wrong + (["the text of a secret stays in the memory of a server"] if as_text else [])


def _may_read(path):
    """Whether the other user may read this file."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            with open(path, "rb"):
                os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _start(words, folder):
    def allow_cores():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with open(folder / "stderr", "ab") as errors:
        return subprocess.Popen([str(word) for word in words], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors,
                                preexec_fn=allow_cores, user=OTHER_USER, group=OTHER_USER, extra_groups=[])


def _lines_of(path):
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def _cores(folder):
    return sorted(path.name for path in folder.glob("*core*"))


def _copies_in_memory(pid, secret):
    """Returns how often a secret is in the memory of a process, as text and raw."""
    copies = [0, 0]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in _lines_of(f"/proc/{pid}/maps"):
            begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(int(begin, 16))
                data = memory.read(int(end, 16) - int(begin, 16))
            except (OSError, ValueError, OverflowError):
                continue  # memory of the kernel, or of a device
            copies[0] += data.count(secret.encode())
            copies[1] += data.count(key_files.raw(secret))
    return copies
