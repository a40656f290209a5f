"""deploy/kubernetes without a cluster: the objects against their schemas, and every container's command as a process.

  kubernetes_test.py ROOT BUILD [-v] [TEST...]
    needs root, and kubernetes-validate, kubeflow-trainer-api and cloudcoil-models-prometheus-operator of PyPI

Core objects are held against the schemas of Kubernetes, JobSet, TrainJob and TrainingRuntime against the models of Kubeflow
Trainer's API, PodMonitor against those of the Prometheus operator's; nothing here plays the controllers' webhooks. Pods run in
network namespaces, with the volumes, the user and the variables that the kubelet gives them. Exits with 77 where something is
missing, namespaces are not allowed, or TERN_RELEASE_CHECK is not set.
"""
import copy
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/drill"))
import images  # noqa: E402
import kubernetes_cluster as cluster  # noqa: E402
import kubernetes_pods as pods  # noqa: E402

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
FILES = ROOT / "deploy/kubernetes"
SKIPPED = 77
STEPS = 300
INSIDE = "TERN_KUBERNETES_TEST_INSIDE"
FOLDER = pathlib.Path("/run/tern_kubernetes")  # in a file system that ends with this test
NAMES_COME_AFTER_S, NAMES_ARE_AWAY_S = 20, 10
# Keys of users' own choice, under which no key is unknown.
FREE = ("labels", "matchLabels", "selector", "requests", "limits")


def skip(why):
    print(f"kubernetes_test: skipped: {why}")
    sys.exit(SKIPPED)


absent = [each for each in ("yaml", "kubernetes_validate", "kubeflow_trainer_api", "cloudcoil") if not importlib.util.find_spec(each)]
if absent:
    skip(f"Python has no {absent}: scripts/release_check.sh kubernetes gets them from PyPI")
import yaml  # noqa: E402


def enter_namespaces():
    """Starts this program again with processes, network and mounts of its own."""
    missing = [each for each in ("unshare", "ip", "setpriv") if not shutil.which(each)]
    if os.geteuid() != 0 or missing:
        skip(f"it needs root, and these programs are missing: {missing}")
    if "TERN_RELEASE_CHECK" not in os.environ:
        skip("it takes minutes: scripts/release_check.sh kubernetes runs it, with TERN_RELEASE_CHECK=1")
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]
    if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        skip("namespaces are not allowed here")
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


def documents(name):
    return list(yaml.safe_load_all((FILES / name).read_text()))


def lost_keys(seen, known, path=""):
    """What a model has not kept of an object, because it does not know it."""
    if isinstance(seen, dict) and isinstance(known, dict):
        for key, value in seen.items():
            yield from lost_keys(value, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}"]
    elif isinstance(seen, list) and isinstance(known, list) and len(seen) == len(known):
        for number, pair in enumerate(zip(seen, known)):
            yield from lost_keys(*pair, f"{path}[{number}]")
    elif seen != known:
        yield path


def check(document):
    """Raises if this is no object of its kind."""
    kind = document["kind"]
    # Imported here, because they take seconds.
    if document["apiVersion"] in ("v1", "apps/v1", "batch/v1"):
        import kubernetes_validate
        kubernetes_validate.validate(document, "1.37", strict=True)
        return
    if kind == "PodMonitor":
        from cloudcoil.models.prometheus_operator import v1 as prometheus_models
        known = prometheus_models.PodMonitor.model_validate(document).model_dump(by_alias=True, exclude_none=True)
    else:
        from kubeflow_trainer_api import models as trainer_models
        model = {"JobSet": trainer_models.JobsetV1alpha2JobSet, "TrainJob": trainer_models.TrainerV1alpha1TrainJob,
                 "TrainingRuntime": trainer_models.TrainerV1alpha1TrainingRuntime}[kind]
        known = model.from_dict(copy.deepcopy(document)).to_dict()
    if lost := list(lost_keys(document, known)):
        raise ValueError(f"{kind} has no {lost}")


def with_unknown_key(value):
    """Copies of an object, each with one key that does not exist."""
    if isinstance(value, dict):
        yield {**value, "noSuchKey": 1}
        for key, child in value.items():
            if key not in FREE:
                yield from ({**value, key: changed} for changed in with_unknown_key(child))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from (value[:number] + [changed] + value[number + 1:] for changed in with_unknown_key(child))


class Objects(unittest.TestCase):
    def all_documents(self):
        for name in ("native.yaml", "jobset.yaml", "kubeflow.yaml", "podmonitor.yaml"):
            for document in documents(name):
                yield name, document

    def test_each_is_what_its_schema_wants(self):
        for name, document in self.all_documents():
            with self.subTest(name=name, kind=document["kind"]):
                check(document)

    def test_no_key_is_unknown(self):
        for name, document in self.all_documents():
            mutants = list(with_unknown_key(document))
            self.assertGreater(len(mutants), 2)
            for mutant in mutants:
                with self.subTest(name=name, kind=document["kind"], mutant=mutant), self.assertRaises(Exception):
                    check(mutant)

    def test_values_of_another_type_are_refused(self):
        for name, document in self.all_documents():
            with self.subTest(name=name, kind=document["kind"]), self.assertRaises(Exception):
                check({**document, "spec": 7})

    def test_codes_that_another_try_would_repeat_are_those_of_systemd(self):
        unit = (ROOT / "deploy/systemd/tern-worker@.service").read_text()
        codes = [int(word) for word in re.search("RestartPreventExitStatus=(.*)", unit).group(1).split()]
        for name in ("native.yaml", "jobset.yaml", "kubeflow.yaml"):
            found = re.findall(r"action: FailJob\n\s*onExitCodes: \{containerName: (\w+), operator: In, values: (.*)\}",
                               (FILES / name).read_text())
            self.assertEqual([yaml.safe_load(values) for _, values in found], [codes] * len(found), name)
            self.assertGreaterEqual(len(found), 1, name)

    def test_the_same_job_has_as_many_daemons_as_there_are_pods(self):
        job = yaml.safe_load((FILES / "job.yaml").read_text())
        for name in ("native.yaml", "jobset.yaml", "kubeflow.yaml"):
            with self.subTest(name=name):
                all_pods = pods.pods_of(documents(name))
                servers = [pod for pod in all_pods if pod.role == "server"]
                workers = [pod for pod in all_pods if pod.role == "worker"]
                self.assertEqual((len(servers), len(workers)), (len(job["servers"]), job["workers"]["count"]))
                for pod in all_pods:
                    environment = pod.environment()
                    self.assertEqual(environment["TERN_SERVERS"].split(","), [f"{each.address_name}:7500" for each in servers])
                    self.assertEqual(environment.get("TERN_WORKERS", "4"), str(len(workers)))
                for pod in workers:  # A worker on a GPU that comes back needs the plans that it had.
                    written = [mount["mountPath"] for mount, _ in pod.mounts() if not mount.get("readOnly")]
                    self.assertIn(str(pathlib.Path(pod.environment()["XDG_CACHE_HOME"]).parent), written)


class Job:
    """deploy/kubernetes/FILE with the job of deploy/kubernetes/job.yaml, of fewer steps."""

    def __init__(self, file):
        self.folder = FOLDER / file
        self.folder.mkdir()
        text = (FILES / "job.yaml").read_text()
        for old, new in (("batch_total: 64, steps: 3000", f"batch_total: 8, steps: {STEPS}"), ("every_steps: 500", "every_steps: 20"),
                         ("threads: 2", "threads: 1")):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        self.file = self.folder / "job.yaml"
        self.file.write_text(text)
        self.out = self.folder / "out"

    def volumes(self, data, group):
        """As `kubectl create configmap tern-job --from-file=job.yaml`, and a secret of the folder that `tern keys make` has made."""
        keys = self.folder / "keys"
        subprocess.run([BUILD / "bin/tern", "keys", "make", keys, "--job", self.file], check=True, stdout=subprocess.DEVNULL)
        cluster.write_as_kubelet(self.folder / "configmap", {"job.yaml": self.file.read_bytes()}, 0o644, group)
        cluster.write_as_kubelet(self.folder / "secret", {each.name: each.read_bytes() for each in keys.iterdir()}, 0o440, group)
        self.out.mkdir()
        os.chown(self.out, 0, group)
        self.out.chmod(0o2775)
        return {"tern-job": self.folder / "configmap", "tern-keys": self.folder / "secret", "tern-data": data, "tern-out": self.out}

    def weights(self):
        return (self.out / "lenet/weights.safetensors").read_bytes()

    def hashes(self):
        """The hash of each worker's weights in the newest checkpoint that all have."""
        folders = list((self.out / "lenet/checkpoints").glob("worker.*"))
        step = max(set.intersection(*({path.name for path in folder.glob("step.*.json")} for folder in folders)),
                   key=lambda name: int(name.split(".")[1]))
        return [re.search(r'"weights": *"?(\w+)', (folder / step).read_text()).group(1) for folder in folders]


class Pods(unittest.TestCase):
    def run_job(self, file, lost_pod):
        """Names come late; in mid-run they vanish, and a pod is lost and has another address when it comes back."""
        job = Job(file)
        all_pods = pods.pods_of(documents(file))
        volumes = job.volumes(FOLDER / "data", all_pods[0].spec["securityContext"]["fsGroup"])
        with cluster.Cluster(job.folder, BUILD / "bin", NAME_SERVER, all_pods, volumes) as running:
            for each in running.pods:
                each.start()
            for each in running.pods:
                running.wait(f"{each.pod.name} is alive", lambda: each.probe("livenessProbe") == 200)
            for each in running.of_role("worker"):
                running.wait("a worker waits for names", lambda: "has no address yet" in each.output())
                self.assertNotEqual(each.probe("readinessProbe"), 200, each.pod.name)
            time.sleep(NAMES_COME_AFTER_S)
            NAME_SERVER.knows = True
            for each in running.pods:
                running.wait(f"{each.pod.name} is ready", lambda: each.probe("readinessProbe") == 200)
            running.wait("a checkpoint", lambda: list(job.out.glob("lenet/checkpoints/worker.*/step.*.json")))
            self.lose(running, lost_pod)
            for each in running.pods:
                self.assertEqual(each.process.wait(cluster.PATIENCE_S), 0, f"{each.pod.name}\n{running.outputs()}")
        self.assertEqual(job.weights(), WEIGHTS, "the weights of an undisturbed run")
        self.assertEqual(len(set(job.hashes())), 1, job.hashes())
        self.assertEqual(len(job.hashes()), len(running.of_role("worker")))

    def lose(self, running, name):
        NAME_SERVER.knows = False
        [pod] = [each for each in running.pods if each.pod.name == name]
        pod.process.kill()
        pod.process.wait()
        said = {each: each.output().count("has no address yet") for each in running.of_role("worker")}
        pod.start()
        waiting = running.of_role("worker") if pod.pod.role == "server" else [pod]
        for each in waiting:
            running.wait(f"{each.pod.name} waits for names", lambda: each.output().count("has no address yet") > said[each])
        time.sleep(NAMES_ARE_AWAY_S)
        NAME_SERVER.knows = True

    def test_a_stateful_set_and_a_job(self):
        self.run_job("native.yaml", "tern-server-0")

    def test_a_job_set(self):
        self.run_job("jobset.yaml", "tern-server-0-1")

    def test_a_train_job(self):
        self.run_job("kubeflow.yaml", "lenet-node-0-2")


def undisturbed_weights():
    """Of the same job by `tern run`, which makes its own keys."""
    job = Job("undisturbed")
    settings = ["keys=null", f"data.dir={FOLDER}/data", f"output_dir={job.out}/lenet", "metrics.port=0",
                *(f"servers.{s}.address=127.0.0.1:{7500 + 10 * s}" for s in (0, 1)),
                *(f"servers.{s}.data_ports=[{7501 + 10 * s}]" for s in (0, 1))]
    subprocess.run([BUILD / "bin/tern", "run", job.file, *(f"--set={each}" for each in settings)], check=True, stdout=subprocess.DEVNULL)
    return job.weights()


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter_namespaces()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (FOLDER / "data").mkdir(parents=True)
    images.write_images(FOLDER / "data", "train", 240, 1)
    images.write_images(FOLDER / "data", "t10k", 60, 2)
    WEIGHTS = undisturbed_weights()
    NAME_SERVER = cluster.NameServer()
    NAME_SERVER.start()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
