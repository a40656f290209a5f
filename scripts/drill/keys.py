"""Attacks a job whose daemons have keys, and checks that strangers are refused within a second, that nothing of the job
is readable on the wire, that its result is that of an undisturbed run, and that no secret is anywhere but in its file."""
import argparse
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import hosts
import images
import key_attacks
import key_claims
import key_files
import key_secrets
import keyed_job
import soak


def parse(words):
    parser = argparse.ArgumentParser(prog="scripts/drill.sh --keys", description=__doc__)
    parser.add_argument("bin", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--keys", action="store_true", required=True, help="this drill")
    parser.add_argument("--steps", type=int, default=3000, help="train.steps of the job that is attacked (3000)")
    parser.add_argument("--ranks", type=int, default=16, help="how many workers claim the ranks of each other (16)")
    parser.add_argument("--bar_s", type=float, default=1, help="how soon a refusal has to be said, in seconds (1)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of all runs; else only of failed ones")
    return parser.parse_args(words)


def run(options, folder):
    """Returns the sentences of what is wrong."""
    data = folder / "data"
    data.mkdir()
    images.write_images(data, "train", 240, 1)
    images.write_images(data, "t10k", 60, 2)
    job = keyed_job.write_job(folder / "job.yaml", data, 2, options.steps)
    keys = key_files.make(options.bin, folder / "keys", job)
    attack = key_attacks.Attack(options.bin, job, folder, keys, options.steps, options.bar_s)
    wrong = attack.run()
    print("\n" + key_attacks.table(attack.rows) + "\n", flush=True)
    wrong += key_claims.run(options.bin, data, folder, options.ranks, options.bar_s)
    wrong += key_secrets.search_files(folder, {**attack.secrets, **key_files.all_secrets(folder)})
    return wrong + key_secrets.check_memory(options.bin, job, folder / "memory", keys)


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by which daemons and namespaces are removed
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tern_keys."))
    try:
        wrong = run(options, folder)
    except (hosts.Unavailable, soak.Failed, subprocess.TimeoutExpired) as error:
        wrong = [str(error)]
    for sentence in wrong:
        print(f"FAILED: {sentence}", flush=True)
    if wrong or options.keep:
        print(f"logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
