"""What runs pods in kubernetes_test.py: a network namespace, a root and volumes for each, and a name server.

The caller has namespaces for mounts, processes and the network, so nothing of this outlives it. No folder is removed, because
roots of pods have /usr and /dev of the machine in them.
"""
import os
import pathlib
import shlex
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request

import hosts  # scripts/drill

PATIENCE_S = 300  # to end a hang, not to measure
NAME_SERVER = "10.78.0.254"
DOMAIN = "default.svc.cluster.local"
RESOLV_CONF = f"search {DOMAIN} svc.cluster.local cluster.local\nnameserver {NAME_SERVER}\noptions ndots:5\n"
# In place of the program on PATH: steps take long enough for a job to be disturbed.
SLOW_WORKER = '#!/bin/sh\nexec /opt/tern/bin/tern_worker --fail thread.compute=delay:0.05 "$@"\n'


def wait(what, condition, is_over=lambda: False, explain=lambda: ""):
    """Calls condition() until it returns something true, and returns that; fails at once where is_over()."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        was_over = is_over()
        if result := condition():
            return result
        if was_over:
            break
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s, or something has ended\n{explain()}")


class NameServer(threading.Thread):
    """Answers for the names in `addresses`, and says of all others, or while `knows` is false, that they do not exist."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", 53))
        self.addresses, self.knows = {}, False

    def run(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            question, kind = query[12:at + 5], struct.unpack(">H", query[at + 1:at + 3])[0]
            address = self.addresses.get(".".join(labels).lower()) if self.knows else None
            answer = b""
            if address and kind == 1:
                answer = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 5, 4) + socket.inet_aton(address)
            flags = 0x8580 | (0 if address else 3)
            self.socket.sendto(query[:2] + struct.pack(">5H", flags, 1, 1 if answer else 0, 0, 0) + question + answer, peer)


def write_as_kubelet(folder, files, mode, group):
    """A volume of a ConfigMap or Secret: links to the files of a folder that changes as a whole."""
    stamp = folder / "..2026_01_01"
    stamp.mkdir(parents=True)
    (folder / "..data").symlink_to(stamp.name)
    for name, content in files.items():
        (stamp / name).write_bytes(content)
        os.chown(stamp / name, 0, group)
        (stamp / name).chmod(mode)
        (folder / name).symlink_to(f"..data/{name}")


class RunningPod:
    def __init__(self, pod, cluster):
        self.pod, self.cluster, self.times = pod, cluster, 0
        self.path = cluster.folder / f"{pod.name}.out"
        self.process = self.address = None

    def root(self):
        """A folder with what is in an image, and places for the volumes."""
        root = self.cluster.folder / f"root.{self.pod.name}.{self.times}"
        for name in ("usr", "proc", "dev", "etc", "tmp", "opt/tern/bin", "opt/slow"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        (root / "etc/nsswitch.conf").write_text("passwd: files\nhosts: files dns\n")
        (root / "etc/resolv.conf").write_text(RESOLV_CONF)
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.pod.name}\n")
        (root / "opt/slow/tern_worker").write_text(SLOW_WORKER)
        (root / "opt/slow/tern_worker").chmod(0o755)
        return root

    def start(self):
        """Starts the container's command in a root of its own, as the user of the pod. Each start has another address."""
        self.times += 1
        names = self.cluster.namespaces
        self.address = f"10.78.0.{names.hosts[self.pod.name] + 1 + 50 * self.times}"
        for words in (["flush", "dev", "eth0"], ["add", f"{self.address}/24", "dev", "eth0"]):
            hosts.call(*names.prefix(self.pod.name), "ip", "address", *words)
        if self.pod.address_name:
            self.cluster.name_server.addresses[f"{self.pod.address_name}.{DOMAIN}"] = self.address
        root = self.root()
        lines = [f"mount --bind {root} {root}", f"mount --rbind /usr {root}/usr", f"mount --rbind /dev {root}/dev",
                 f"mount -t proc proc {root}/proc", f"mount --bind {self.cluster.programs} {root}/opt/tern/bin"]
        for mount, volume in self.pod.mounts():
            # The kubelet mounts the file behind a link.
            source = (self.cluster.volume(volume) / mount.get("subPath", "")).resolve()
            target = root / mount["mountPath"].lstrip("/")
            (target if source.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
            if not source.is_dir():
                target.touch()
            lines.append(f"mount --bind {source} {target}")
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {target}")
        context, container = self.pod.spec["securityContext"], self.pod.container["securityContext"]
        assert context["runAsNonRoot"] and not container["allowPrivilegeEscalation"] and container["capabilities"]["drop"] == ["ALL"]
        if container["readOnlyRootFilesystem"]:
            lines.append(f"mount -o remount,bind,ro {root}")
        user = ["setpriv", f"--reuid={context['runAsUser']}", f"--regid={context['runAsGroup']}", f"--groups={context['fsGroup']}",
                "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        variables = [f"{name}={value}" for name, value in self.pod.environment().items()]
        words = ["chroot", str(root), "env", "-i", "PATH=/opt/slow:/opt/tern/bin:/usr/bin", *variables, *user, *self.pod.command()]
        lines.append(f"exec {shlex.join(words)}")
        with self.path.open("ab") as output:
            self.process = subprocess.Popen([*names.prefix(self.pod.name), "sh", "-euc", "\n".join(lines)], stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)

    def output(self):
        return self.path.read_text(errors="replace")

    def probe(self, name):
        """What the kubelet's probe sees: the status of HTTP, or None where nobody answers."""
        get = self.pod.container[name]["httpGet"]
        [port] = [each["containerPort"] for each in self.pod.container["ports"] if each["name"] == get["port"]]
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{get['path']}", timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


class Cluster:
    """The pods of a file; `volumes`: a folder by the name of each claim, ConfigMap and Secret."""

    def __init__(self, folder, programs, name_server, pods, volumes):
        self.folder, self.programs, self.name_server, self.volumes = folder, programs, name_server, volumes
        self.pods = [RunningPod(pod, self) for pod in pods]
        self.namespaces = None

    def __enter__(self):
        self.namespaces = hosts.Namespaces([each.pod.name for each in self.pods])
        hosts.call("ip", "address", "add", f"{NAME_SERVER}/24", "dev", f"{self.namespaces.tag}br")
        self.name_server.addresses, self.name_server.knows = {}, False
        return self

    def __exit__(self, *unused):
        for each in self.pods:
            if each.process:
                each.process.kill()
                each.process.wait()
        self.namespaces.close()

    def volume(self, volume):
        name = (volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName") or
                volume["persistentVolumeClaim"]["claimName"])
        return pathlib.Path(self.volumes[name])

    def of_role(self, role):
        return [each for each in self.pods if each.pod.role == role]

    def wait(self, what, condition):
        failed = lambda: any(each.process.poll() is not None for each in self.pods)  # noqa: E731
        return wait(what, condition, failed, self.outputs)

    def outputs(self):
        return "\n".join(f"== {each.pod.name}: {each.process.poll()}\n{each.output()[-2000:]}" for each in self.pods)
