"""One soak: a job under faults, until its time is over; then to its end, without."""
import dataclasses
import re
import time

import faults
import logs

TICK_S = 0.02
# How long a job may take to move again after a fault was mended, and daemons to end. Long, because it is no target:
# beyond it the job counts as one that stands.
PATIENCE_S = 90.0
# A worker whose rank was given away ends by itself; it is started again.
GIVEN_AWAY = re.compile(r"another process had|is taken by")


class Failed(Exception):
    """The job did something that it must not do."""


class Soak:
    def __init__(self, job, plan, seconds, step_s, say):
        self.job, self.plan, self.seconds, self.step_s, self.say = job, plan, seconds, step_s, say
        self.events = []
        self.later = []  # (time, function)
        self.given_away = []
        self.begin = self.end = 0.0
        self.stopping = False

    def run(self):
        self.begin = time.time()
        self.job.start_all()
        self.wait(self.job.loses_nothing, "the job begins")
        while self.begin_next_fault():
            pass
        self.wait(lambda: not self.job.daemons["server.0"].runs(), "the job ends",
                  PATIENCE_S + 4 * self.step_s * self.job.facts["steps"])
        self.end = time.time()
        for daemon in self.job.daemons.values():
            self.wait(lambda daemon=daemon: not daemon.runs(), f"{daemon.name} ends")
        codes = {name: daemon.code() for name, daemon in self.job.daemons.items()}
        if any(codes.values()):
            raise Failed(f"exit codes {codes}: " + "; ".join(self.job.last_sentence(name) for name in codes if codes[name]))

    def left_s(self):
        """How long the job would take from here without faults."""
        return (self.job.facts["steps"] - self.job.rounds()) * self.step_s

    def begin_next_fault(self):
        """Waits for the time or step of the next fault, and carries it out if the job is long enough for it. Returns whether
        there is time for another one."""
        fault = next(self.plan)
        if self.job.facts["checkpoints"]:
            checkpoint = self.job.newest_common_checkpoint()
            self.wait(lambda: self.is_over(0) or self.job.newest_common_checkpoint() > checkpoint, "a new checkpoint")
        pause_ends = time.time() + fault.pause_s
        step = self.job.rounds() + fault.pause_s / self.step_s
        self.wait(lambda: self.is_over(0) or time.time() >= pause_ends or (fault.by_step and self.job.rounds() >= step), "")
        if self.is_over(0) or self.is_over(fault.seconds):
            return not self.is_over(0)
        event = self.begin_fault(fault)
        if fault.partner:
            self.begin_fault(dataclasses.replace(fault, kind=fault.partner, worker=fault.worker + 1), is_partner=True)
        if fault.kind == "sigterm_all":
            self.stop_and_start(event)
        if fault.kind == "die_at_step":
            num_events = len(self.events)
            self.wait(lambda: len(self.events) > num_events or not self.job.daemons["server.0"].runs(), "the worker dies")
            event = self.events[-1]
        self.wait(lambda: not self.later, "", PATIENCE_S)
        mended, rounds = time.time(), self.job.rounds()
        self.wait(lambda: self.is_whole(mended, rounds), f"the job moves after {fault.kind}")
        event["whole_s"] = time.time() - mended
        return True

    def is_over(self, fault_s):
        """Whether a fault of this length would be too late."""
        is_late = time.time() - self.begin > self.seconds or self.left_s() < fault_s + 3
        return is_late or not self.job.daemons["server.0"].runs()

    def is_whole(self, since, rounds):
        newest = self.job.newest
        has_all = newest.get("present", 0) == self.job.facts["workers"]
        # Under shrink the others go on while a worker still fetches the state. If the only one that has it is killed together
        # with the server, the state is lost, and the job ends.
        if self.job.facts["policy"] == "shrink":
            has_all = has_all and all(map(self.job.has_state, self.job.workers()))
        return self.job.newest_at > since and has_all and (self.job.rounds() > rounds + 2 or self.left_s() <= 0)

    def begin_fault(self, fault, is_partner=False):
        targets = faults.targets_of(fault, self.job)
        rounds = self.job.rounds()
        # A worker that will die at a step is first killed, and started with the failpoint.
        kind = "kill_worker" if fault.kind == "die_at_step" else fault.kind
        event = {"kind": kind, "targets": targets, "begin": time.time(), "rounds": rounds,
                 "partner": is_partner or bool(fault.partner), "restarts": fault.kind in faults.LETHAL}
        event["lasted_s"] = faults.begin(fault, self.job, lambda seconds, do: self.later.append((time.time() + seconds, do)))
        self.job.read_progress()  # what a killed shard 0 had still reported
        event["mended"] = max(time.time(), event["begin"] + event["lasted_s"])
        self.events.append(event)
        self.say(f"{event['begin'] - self.begin:6.1f} s, round {rounds}: {fault.kind} of {', '.join(targets)}"
                 f" for {event['lasted_s']:.1f} s{' (with the one before)' if is_partner else ''}"
                 f"{''.join(' --fail ' + failpoint for failpoint in faults.failpoints_of(fault, rounds))}")
        return event

    def stop_and_start(self, event):
        self.stopping = True
        for daemon in self.job.daemons.values():
            self.wait(lambda daemon=daemon: not daemon.runs(), f"{daemon.name} ends after SIGTERM")
        event["mended"] = time.time()
        event["ended_s"] = event["lasted_s"] = event["mended"] - event["begin"]
        codes = {name: daemon.code() for name, daemon in self.job.daemons.items()}
        # The checkpoint of the stop may be the write for which a failpoint was waiting.
        has_full_disk = any("=full@" in point for daemon in self.job.daemons.values() for point in daemon.failpoints)
        expected = (143, 74) if has_full_disk else (143,)
        if any(code not in expected for code in codes.values()):
            raise Failed(f"exit codes {codes} after SIGTERM to all, expected {' or '.join(map(str, expected))}: " +
                         "; ".join(self.job.last_sentence(name) for name in codes if codes[name] != 143))
        self.stopping = False
        self.job.start_all()

    def wait(self, is_done, what, patience_s=PATIENCE_S):
        """Waits, restarts what ended with a rank that was given away, and fails if anything else ended by itself."""
        deadline = time.time() + patience_s
        while True:
            self.job.read_progress()
            due = [do for when, do in self.later if when <= time.time()]
            self.later = [(when, do) for when, do in self.later if when > time.time()]
            for do in due:
                do()
            if is_done():
                return
            self.look_after_daemons()
            if time.time() > deadline:
                raise Failed(f"waited {patience_s:.0f} s in vain until {what}; shard 0 reports {self.job.newest}")
            time.sleep(TICK_S)

    def look_after_daemons(self):
        if self.stopping:
            return
        has_ended = self.job.newest.get("event") == "ended"
        for name, daemon in self.job.daemons.items():
            if daemon.process is None or daemon.runs() or daemon.is_expected_to_end:
                continue
            code, sentence = daemon.code(), self.job.last_sentence(name)
            if code == 137 and not sentence.startswith("tern_"):  # by a failpoint
                self.events.append({"kind": "die_at_step", "targets": [name], "begin": time.time(), "lasted_s": 0.0,
                                    "mended": time.time(), "rounds": self.job.rounds(), "partner": False, "restarts": True})
                self.say(f"{time.time() - self.begin:6.1f} s, round {self.job.rounds()}: {name} has died at its step")
                self.job.start(name)
            elif code in (75, 77) and GIVEN_AWAY.search(sentence) and self.job.facts["policy"] == "shrink":
                self.given_away.append((name, sentence))
                self.job.start(name)
            elif not (has_ended or code == 0):
                raise Failed(f"{name} left by itself with code {code}: {sentence}")
            else:
                daemon.is_expected_to_end = True


def undisturbed(job):
    """Runs a job without faults. Returns (weights, summary, seconds per step)."""
    job.start_all()
    deadline = time.time() + 3600
    while any(daemon.runs() for daemon in job.daemons.values()):
        job.read_progress()
        if time.time() > deadline or any(daemon.code() not in (None, 0) for daemon in job.daemons.values()):
            raise Failed("the undisturbed run failed: " + "; ".join(filter(None, map(job.last_sentence, job.daemons))))
        time.sleep(TICK_S)
    weights, summary = job.result()
    if weights is None or summary is None:
        raise Failed("the undisturbed run wrote no weights")
    return weights, summary, summary["train_s"] / max(1, summary["rounds"])


def judge(soak, weights):
    """Returns the sentences of everything that is wrong with the end of a soak."""
    wrong = []
    own_weights, summary = soak.job.result()
    if summary is None or own_weights is None:
        return ["the job wrote no weights, or shard 0 no summary"]
    if summary.get("replicas_agree") is not True:
        wrong.append("the replicas differ at the end, or were not compared")
    if soak.job.facts["policy"] != "shrink" and own_weights != weights:
        wrong.append("the final weights are not those of the undisturbed run")
    return wrong


def measured(soak):
    """Returns (events with their times, silences longer than 5 s)."""
    lines = logs.lines_of(soak.job.folder)
    begins = [event["begin"] for event in soak.events]
    for event in soak.events:
        until = min((begin for begin in begins if begin > event["begin"]), default=soak.end or time.time())
        logs.measure(event, lines, soak.job.history, max(until, event["begin"] + event["lasted_s"] + 1))
    first = soak.job.history[0][0] if soak.job.history else soak.begin
    return soak.events, logs.silences(lines, soak.job.history, first, soak.end or time.time(), 5.0)
