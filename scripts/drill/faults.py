"""The faults of a drill. A fault is planned from a seed, and knows nothing of a running job before it begins."""
import dataclasses
import signal

# What a fault does, and what it needs: links (network namespaces), checkpoints.
KINDS = {
    "kill_worker": ("SIGKILL of a worker", ""),
    "kill_server": ("SIGKILL of a server shard", ""),
    "kill_both": ("SIGKILL of a worker and of shard 0", ""),
    "kill_all": ("SIGKILL of all daemons", "checkpoints"),
    "die_at_step": ("a worker dies at a step (failpoint)", ""),
    "stop_worker": ("SIGSTOP of a worker, then SIGCONT", ""),
    "stop_server": ("SIGSTOP of a server shard, then SIGCONT", ""),
    "hang": ("a thread of a worker hangs for a while (failpoint)", ""),
    "cut": ("all connections of a worker close, again and again (failpoint)", ""),
    "drop": ("messages of a worker are lost (failpoint)", ""),
    "flip": ("bits flip in what a worker receives (failpoint)", ""),
    "full_disk": ("a worker's disk is full for a while (failpoint)", "checkpoints"),
    "slow_disk": ("a worker's disk is slow (failpoint)", "checkpoints"),
    "clock": ("the clock of a worker or server jumps by an hour (failpoint)", ""),
    "sigterm_all": ("SIGTERM to all daemons, then a new start", "checkpoints"),
    "cut_off_worker": ("the link of a worker is down", "links"),
    "cut_off_server": ("the link of a server shard is down", "links"),
    "mute_worker": ("nothing that a worker sends arrives", "links"),
    "mute_server": ("nothing that a server shard sends arrives", "links"),
    "loss": ("packets to a worker or server are lost", "links"),
    "reset": ("all connections of a worker or server are reset", "links"),
}
# Faults after which the state that a process held is gone. Those by a failpoint begin with a kill: the process is started
# again with the failpoint.
LETHAL = {"kill_worker", "kill_server", "kill_both", "kill_all", "die_at_step", "hang", "cut", "drop", "flip", "full_disk",
          "slow_disk", "clock", "sigterm_all"}
HARMLESS_PARTNERS = {"stop_worker", "stop_server", "reset", "loss", "cut_off_worker", "cut_off_server"}


@dataclasses.dataclass
class Fault:
    kind: str
    worker: int      # the worker and the shard that it is about, modulo their numbers
    shard: int
    on_server: bool  # for kinds that hit either
    pause_s: float   # from the previous fault
    by_step: bool    # the pause ends at a step, not at a time
    seconds: float   # how long it lasts; kills: until the restart
    seed: int
    partner: str = ""  # a second fault that begins with it


def plan(random, kinds, every):
    """Yields faults for ever, as a function of the generator's seed. `every`: the shortest and longest pause, in seconds."""
    partners = [kind for kind in kinds if kind in HARMLESS_PARTNERS]
    while True:
        kind = random.choice(kinds)
        # Half of the partitions are short, so that there are many; the others last up to 20 s.
        longest = 2.0 if kind in LETHAL else random.choice([3.0, 20.0]) if "cut_off" in kind else 6.0
        fault = Fault(kind=kind, worker=random.randrange(64), shard=random.randrange(64),
                      on_server=random.random() < 0.5, pause_s=random.uniform(*every), by_step=random.random() < 0.5,
                      seconds=random.choice([0.0, random.uniform(0, longest)]) if kind in LETHAL
                      else random.uniform(0.5, longest), seed=random.randrange(1, 10**6))
        with_partner = random.random() < 0.25
        partner = random.choice(partners) if partners else ""
        if with_partner and kind not in ("kill_all", "sigterm_all") and partner != kind:
            fault.partner = partner
        yield fault


def failpoints_of(fault, rounds):
    """Returns the flags --fail of a worker that is started with this fault, in a job that is at round `rounds`."""
    return {
        "die_at_step": [f"thread.compute=die@step:{rounds + 10 + fault.seed % 30}"],
        "hang": [f"thread.{('compute', 'wait', 'coder', 'net')[fault.seed % 4]}=hang:{2 + fault.seed % 3}"
                 f"@{20 + fault.seed % 200}"],
        "cut": [f"net.{('send', 'receive')[fault.seed % 2]}=cut@every:{150 + fault.seed % 300}"],
        "drop": [f"net.{('send', 'receive')[fault.seed % 2]}=drop@chance:0.0003:{fault.seed}"],
        "flip": [f"net.receive=flip@chance:0.002:{fault.seed}"],
        "full_disk": ["disk.write=full@2", "disk.rename=full@4"],
        "slow_disk": ["disk.write=delay:0.3@every:2"],
        "clock": [f"clock=step:{('+3600', '-3600', '+5', '-1')[fault.seed % 4]}@{100 + fault.seed % 300}"],
    }.get(fault.kind, [])


def targets_of(fault, job):
    """Returns the names of the daemons that a fault hits."""
    worker = job.workers()[fault.worker % len(job.workers())]
    server = job.servers()[fault.shard % len(job.servers())]
    if fault.kind in ("kill_all", "sigterm_all"):
        return [*job.daemons]
    if fault.kind == "kill_both":
        return [worker, "server.0"]
    if fault.kind in ("clock", "loss", "reset"):
        return [server if fault.on_server else worker]
    return [server if fault.kind.endswith("_server") else worker]


def begin(fault, job, at):
    """Begins a fault. `at(seconds, function)` runs something later. Returns when, in seconds, it is mended."""
    targets = targets_of(fault, job)
    daemons = [job.daemons[name] for name in targets]
    if fault.kind in LETHAL:
        failpoints = failpoints_of(fault, job.rounds())
        if fault.kind == "sigterm_all":
            for daemon in daemons:
                daemon.is_expected_to_end = True
                daemon.signal(signal.SIGTERM)
            return 0.0  # the drill waits until all have ended, and starts them
        for daemon in daemons:
            daemon.kill()
        for name in targets:
            at(fault.seconds, lambda name=name: job.start(name, failpoints))
        return fault.seconds
    if fault.kind.startswith("stop_"):
        daemons[0].is_stopped = True
        daemons[0].signal(signal.SIGSTOP)
        at(fault.seconds, lambda: resume(daemons[0]))
    elif fault.kind == "reset":
        job.hosts.reset(targets[0])
        return 0.0
    else:
        break_link, mend_link = {"cut_off": (job.hosts.cut_off, job.hosts.plug_in), "mute": (job.hosts.mute, job.hosts.unmute),
                                 "loss": (job.hosts.lose, job.hosts.lose_no_more)}[fault.kind.rsplit("_", 1)[0]]
        break_link(targets[0])
        at(fault.seconds, lambda: mend_link(targets[0]))
    return fault.seconds


def resume(daemon):
    daemon.is_stopped = False
    daemon.signal(signal.SIGCONT)
