"""Soaks jobs in faults: starts each job's servers and workers by hand, and breaks something every 1 to 5 s, as planned by a
seed. Compares the final weights with those of an undisturbed run, and prints how long recovery took, by kind of fault."""
import argparse
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile

import daemons
import faults
import hosts
import logs
import soak


def kinds_for(options, facts, has_links):
    """Returns the kinds of faults that fit the job and this machine."""
    given = [] if not facts["checkpoints"] else ["checkpoints"]
    given += ["links"] if has_links else []
    return [kind for kind in options.faults if faults.KINDS[kind][1] in ("", *given)]


def soak_job(job, options, hosts_type, folder):
    """Returns (sentences of what is wrong, a report)."""
    program = options.bin / "tern_server"
    facts = daemons.facts_of(program, job, options.set)
    print(f"\n## {job}\n", flush=True)
    steps, step_s = options.steps, None
    if not steps:
        # A short run measures how many steps fit. Faults take time, too, so the job outlasts them.
        weights, summary, step_s = run_undisturbed(job, [*options.set, "train.steps=100"], options, hosts_type, folder / "first")
        steps = max(100, int(options.seconds / (step_s + 1e-3 * options.pace_ms)))
    settings = [*options.set, f"train.steps={steps}"]
    weights, summary, step_s = run_undisturbed(job, settings, options, hosts_type, folder / "undisturbed")
    print(f"undisturbed: {steps} steps of {1000 * step_s:.1f} ms, hash {summary.get('parameters_hash')}", flush=True)
    facts["steps"] = steps
    kinds = kinds_for(options, facts, hosts_type.has_links)
    step_s += 1e-3 * options.pace_ms
    running = daemons.Job(hosts_type, options.bin, job, settings, folder / "disturbed", facts, 1e-3 * options.pace_ms)
    one = soak.Soak(running, faults.plan(random.Random(options.seed), kinds, options.every), options.seconds, step_s,
                    lambda line: print(line, flush=True))
    try:
        one.run()
        wrong = soak.judge(one, weights)
    except (soak.Failed, hosts.Unavailable) as error:
        wrong = [str(error)]
    finally:
        running.close()
    events, silences = soak.measured(one)
    report = {"job": str(job), "seed": options.seed, "steps": steps, "seconds": one.end - one.begin, "events": events,
              "silences": [[begin - one.begin, seconds] for begin, seconds in silences],
              "given_away": one.given_away, "wrong": wrong}
    if not options.no_times:
        for begin, seconds in silences:
            wrong.append(f"no line in any log, and no new round, for {seconds:.1f} s from {begin - one.begin:.1f} s on")
    return wrong, report


def run_undisturbed(job, settings, options, hosts_type, folder):
    facts = daemons.facts_of(options.bin / "tern_server", job, settings)
    running = daemons.Job(hosts_type, options.bin, job, settings, folder, facts)
    try:
        return soak.undisturbed(running)
    finally:
        running.close()


def hosts_of(options):
    if options.loopback:
        return hosts.Loopback
    try:
        hosts.Namespaces(["server.0"]).close()
        return hosts.Namespaces
    except hosts.Unavailable as error:
        without = ", ".join(kind for kind in options.faults if faults.KINDS[kind][1] == "links")
        print(f"all daemons are on loopback, without {without}: {error}", flush=True)
        return hosts.Loopback


def parse(words):
    parser = argparse.ArgumentParser(prog="scripts/drill.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="faults:\n" + "\n".join(f"  {kind:15} {meaning}{', needs ' + need if need else ''}"
                                                                    for kind, (meaning, need) in faults.KINDS.items()))
    parser.add_argument("bin", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--job", action="append", required=True, metavar="FILE", help="a job file that has train.steps; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides a key of every job")
    parser.add_argument("--seconds", type=float, default=60, help="how long each job gets faults (60)")
    parser.add_argument("--steps", type=int, default=0, help="train.steps; default: measured, to fit the seconds")
    parser.add_argument("--pace_ms", type=float, default=0, help="how long workers sleep before a step, so that long soaks use "
                        "little of the machine (0)")
    parser.add_argument("--every", default="1,5", metavar="A,B", help="seconds between two faults (1,5)")
    parser.add_argument("--seed", type=int, default=1, help="decides all faults (1)")
    parser.add_argument("--faults", default=",".join(faults.KINDS), metavar="KIND,...", help="the kinds of faults (all)")
    parser.add_argument("--without", default="", metavar="KIND,...", help="kinds that are left out")
    parser.add_argument("--loopback", action="store_true", help="no network namespaces")
    parser.add_argument("--no_times", action="store_true", help="silences are no failure, as on a machine under load")
    parser.add_argument("--json", default="", metavar="FILE", help="where to write all events")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all runs; else only of failed ones")
    options = parser.parse_args(words)
    options.every = tuple(float(word) for word in options.every.split(","))
    names, without = options.faults.split(","), list(filter(None, options.without.split(",")))
    if unknown := [name for name in [*names, *without] if name not in faults.KINDS]:
        parser.error(f"there is no fault {', '.join(unknown)}; known: {', '.join(faults.KINDS)}")
    options.faults = [kind for kind in names if kind not in without]
    return options


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by which daemons and namespaces are removed
    hosts_type = hosts_of(options)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tern_drill."))
    reports, failures = [], []
    for number, job in enumerate(options.job):
        own_folder = folder / str(number)
        own_folder.mkdir()
        try:
            wrong, report = soak_job(job, options, hosts_type, own_folder)
        except (daemons.BadJob, soak.Failed) as error:
            wrong, report = [str(error)], {"job": str(job), "events": [], "wrong": [str(error)]}
        reports.append(report)
        print("\n" + logs.table(report["events"], faults.KINDS))
        for sentence in wrong:
            failures.append(f"{job}: {sentence}")
            print(f"FAILED: {sentence}", flush=True)
        if not wrong and not options.keep:
            shutil.rmtree(own_folder)
    print("\n## all jobs: median / longest\n\n" + logs.table([e for report in reports for e in report["events"]], faults.KINDS))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(reports, indent=1) + "\n")
    if failures or options.keep:
        print("\n" + "\n".join([*failures, f"logs are in {folder}"]))
    else:
        shutil.rmtree(folder)
        print(f"\n{len(options.job)} jobs ended as without faults, after {sum(len(r['events']) for r in reports)} faults")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
