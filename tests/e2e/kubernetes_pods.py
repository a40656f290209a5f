"""The pods that the objects of deploy/kubernetes stand for, as controllers and the kubelet make them."""
import copy
import re

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


def expand(text, variables):
    """Replaces $(NAME) as the kubelet does: what it does not know stays, $$ is a $."""
    def value(match):
        if match.group(0) == "$$":
            return "$"
        return variables.get(match.group(1), match.group(0))
    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", value, text)


class Pod:
    """One container with its name, labels and variables."""

    def __init__(self, name, host, subdomain, template, labels, index):
        self.name, self.index = name, index
        # The name that other pods know it by; only of pods with a Service.
        self.address_name = f"{host}.{subdomain}" if subdomain else None
        self.labels = {**template["metadata"].get("labels", {}), **labels}
        self.spec = template["spec"]
        [self.container] = self.spec["containers"]
        self.role = self.labels["app.kubernetes.io/component"]

    def environment(self):
        variables = {}
        for entry in self.container.get("env", []):
            if "value" in entry:
                variables[entry["name"]] = expand(entry["value"], variables)
            else:
                path = entry["valueFrom"]["fieldRef"]["fieldPath"]
                variables[entry["name"]] = self.labels[re.fullmatch(r"metadata\.labels\['(.*)'\]", path).group(1)]
        if INDEX_LABEL in self.labels:  # The Job's controller adds it behind the others.
            variables["JOB_COMPLETION_INDEX"] = self.labels[INDEX_LABEL]
        return variables

    def command(self):
        variables = self.environment()
        return [expand(word, variables) for word in self.container["command"] + self.container.get("args", [])]

    def mounts(self):
        """Pairs of a mount and its volume; `subPath` is set where it has one."""
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in self.container["volumeMounts"]:
            mount = dict(mount)
            if "subPathExpr" in mount:
                mount["subPath"] = expand(mount["subPathExpr"], self.environment())
            yield mount, volumes[mount["name"]]


def pods_of_stateful_set(document):
    name, spec = document["metadata"]["name"], document["spec"]
    for index in range(spec["replicas"]):
        pod = f"{name}-{index}"
        labels = {"apps.kubernetes.io/pod-index": str(index), "statefulset.kubernetes.io/pod-name": pod}
        yield Pod(pod, pod, spec["serviceName"], spec["template"], labels, index)


def pods_of_job(name, spec, subdomain=None, more_labels=None):
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"], name
    for index in range(spec["completions"]):
        labels = {INDEX_LABEL: str(index), "job-name": name, **(more_labels or {})}
        yield Pod(f"{name}-{index}", f"{name}-{index}", subdomain, spec["template"], labels, index)


def pods_of_job_set(document):
    name, spec = document["metadata"]["name"], document["spec"]
    for job in spec["replicatedJobs"]:
        yield from pods_of_job(f"{name}-{job['name']}-0", job["template"]["spec"], spec["network"].get("subdomain", name),
                               {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": job["name"]})


def job_set_of_train_job(document, runtimes):
    """Kubeflow's trainer gives the Job that is marked as the trainer's as many pods as there are nodes."""
    runtime = runtimes[document["spec"]["runtimeRef"]["name"]]["spec"]
    spec = copy.deepcopy(runtime["template"]["spec"])
    nodes = document["spec"].get("trainer", {}).get("numNodes", runtime["mlPolicy"]["numNodes"])
    for job in spec["replicatedJobs"]:
        labels = job["template"].get("metadata", {}).get("labels", {})
        if labels.get("trainer.kubeflow.org/trainjob-ancestor-step") == "trainer":
            assert [each["name"] for each in job["template"]["spec"]["template"]["spec"]["containers"]] == ["node"]
            job["template"]["spec"] |= {"completions": nodes, "parallelism": nodes}
    return {"metadata": document["metadata"], "spec": spec}


def pods_of(documents):
    """All pods of a file, servers first."""
    runtimes = {each["metadata"]["name"]: each for each in documents if each["kind"] == "TrainingRuntime"}
    services = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Service"}
    pods = []
    for document in documents:
        kind = document["kind"]
        if kind == "StatefulSet":
            pods += pods_of_stateful_set(document)
            selector = services[document["spec"]["serviceName"]]["selector"]
            assert selector.items() <= pods[-1].labels.items(), "the Service selects the pods of its StatefulSet"
        elif kind == "Job":
            pods += pods_of_job(document["metadata"]["name"], document["spec"])
        elif kind == "JobSet":
            pods += pods_of_job_set(document)
        elif kind == "TrainJob":
            pods += pods_of_job_set(job_set_of_train_job(document, runtimes))
    return sorted(pods, key=lambda pod: (pod.role, pod.index))
