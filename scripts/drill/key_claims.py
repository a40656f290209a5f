"""Every worker of a job claims the rank of every other one, with its own key."""
import concurrent.futures
import math
import statistics
import time

import key_files
import keyed_job

STEPS = 20
AT_ONCE = 4


def run(bin_folder, data, folder, ranks, bar_s):
    """Returns the sentences of what is wrong."""
    job = keyed_job.write_job(folder / "claims.yaml", data, ranks, STEPS)
    keys = key_files.make(bin_folder, folder / "claims_keys", job)
    running = keyed_job.KeyedJob(bin_folder, job, folder / "claims", ranks, STEPS, keys.settings())
    try:
        running.start("server.0")
        running.wait_for_port("server.0", keyed_job.SERVER_PORT)
        pairs = [(owner, claimed) for owner in range(ranks) for claimed in range(ranks) if owner != claimed]
        begin = time.time()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(lambda pair: _claim(running, keys, folder, *pair), pairs))
        seconds = time.time() - begin
        wrong = [sentence for sentence, _ in results if sentence]
        told = [told_s for _, told_s in results if not math.isnan(told_s)]
        print(f"{len(pairs)} claims by {ranks} workers in {seconds:.0f} s: {len(pairs) - len(wrong)} refused with 77 and both "
              f"names; told after {statistics.median(told or [math.nan]):.2f} s (median), {max(told, default=math.nan):.2f} s "
              "(longest), start included", flush=True)
        wrong += [f"claim {pair[0]} as {pair[1]}: told after {told_s:.2f} s" for pair, (_, told_s) in zip(pairs, results)
                  if not told_s <= bar_s]
        for name in running.workers():
            running.start(name)
        codes = running.wait_for_end()
        print(f"afterwards {ranks} workers, each with its own key: exit codes {sorted(set(codes.values()))}", flush=True)
        return wrong + ([f"exit codes of the job after the claims: {codes}"] if any(codes.values()) else [])
    finally:
        running.close()


def _claim(running, keys, folder, owner, claimed):
    """Returns (what is wrong or "", seconds from the first line of the worker's log until it was told)."""
    name = f"claim {owner} as {claimed}"
    own = keys.copy_for(folder / "claims_of_others" / name, f"worker {claimed}", f"worker {owner}")
    process = running.start_stranger(name, f"worker.{owner}", "worker", claimed, own.settings())
    code = process.wait(120)
    said = running.stderr(name)
    told_at, _ = running.first_line(name, f"the key of worker/{owner} was used to speak for worker/{claimed};")
    first_at = min((when for when, _ in running.log(name)), default=math.nan)
    is_right = code == 77 and f"worker/{owner} " in said and f"worker/{claimed};" in said
    return "" if is_right else f"{name}: exit code {code}: {said.strip()}", told_at - first_at
