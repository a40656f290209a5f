"""The steps of gpu_check.py that measure times: limits of the device, kernels, and training steps compared with PyTorch."""
import functools
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent

BATCHES = {"resnet20": 128, "resnet50": 256, "lenet": 64, "alexnet": 256, "vgg16": 64, "googlenet": 128, "mobilenet": 128}
STEP_S = 4  # duration of the steps in one process, after the warm-up


class NotMeasured(Exception):
    """A measurement is missing; the message says why."""


class TimedOut(NotMeasured):
    """The measurement took too long."""


def parse_json_lines(text):
    """Parses the output of a program that prints one JSON object per line, by their "name"; ignores other lines."""
    figures = {}
    for line in text.splitlines():
        try:
            figure = json.loads(line)
            figures[figure["name"]] = figure
        except (ValueError, TypeError, KeyError):
            continue
    return figures


def bench(check):
    """Runs gpu_bench: limits of the device, codes and updates."""
    quick = ["--regions", "3"] if check.options.quick else []
    ended = check.tern_run([check.place.program("gpu_bench"), *quick], 75)
    figures = check.report.bench = parse_json_lines(ended.out)
    rate = functools.partial(rate_of, figures)
    put = functools.partial(add_figure, check, ended.error or "gpu_bench does not print it")
    put("copy", lambda: rate("copy") / 1e12, "copy")
    put("to_device", lambda: rate("to_device") / 1e9, "to_device")
    put("from_device", lambda: rate("from_device") / 1e9, "from_device")
    put("launch", lambda: figures["launch"]["seconds"] * 1e6, "launch",
        lambda: f"with a wait after each: {figures['launch_and_wait']['seconds'] * 1e6:.3g} us")

    def add_share_of_copy(key, name):
        put(key, lambda: rate(name) / rate("copy"), name, lambda: describe(figures[name]))

    add_share_of_copy("ternarize", "alexnet_statistics_and_codes")
    add_share_of_copy("codes", "alexnet_codes")
    add_share_of_copy("ternarize_one", "one_tensor_statistics_and_codes")
    add_share_of_copy("rotation", "alexnet_rotation")
    put("resnet50_us", lambda: figures["resnet50_statistics_and_codes"]["seconds"] * 1e6,
        "resnet50_statistics_and_codes", lambda: describe(figures["resnet50_statistics_and_codes"])
        + f"; codes alone {figures['resnet50_codes']['seconds'] * 1e6:.3g} us")
    put("resnet50_launches", lambda: figures["resnet50_statistics_and_codes"]["launches"],
        "resnet50_statistics_and_codes",
        lambda: f"of the codes alone {figures['resnet50_codes']['launches']}")
    for rule in ("momentum", "adam"):
        names = [f"alexnet_decode_{rule}_{workers}" for workers in (2, 4, 8)]
        try:
            shares = [rate(name) / rate("copy") for name in names]
        except KeyError:
            check.figures.add_missing(f"decode_{rule}", ended.error or "gpu_bench does not print it")
        else:
            check.figures.add(f"decode_{rule}", min(shares), shares, describe(figures[names[1]]))


def rate_of(figures, name):
    return figures[name]["bytes"] / figures[name]["seconds"]


def describe(figure):
    note = f"{figure['seconds'] * 1e6:.4g} us, {figure['note']}"
    return note + (f"; {figure['bytes'] / figure['seconds'] / 1e12:.3g} TB/s" if figure.get("bytes") else "")


def add_figure(check, otherwise, key, value, name, note=None):
    try:
        figure = check.report.bench[name]
        check.figures.add(key, value(), figure["samples"], note() if note else figure["note"])
    except KeyError:
        check.figures.add_missing(key, otherwise)


def net_file(check, model):
    path = check.folder / f"{model}.json"
    if not path.exists():
        ended = check.tern_run([check.place.tern, "model", model, "--json"], 20)
        if not ended:
            raise NotMeasured(ended.error)
        path.write_text(ended.out)
    return path


def torch_device(check):
    """Measures matrix products and PyTorch's counterparts of the kernels."""
    nets = [net_file(check, "alexnet"), net_file(check, "resnet50")]
    words = ["-B", HERE / "torch_device.py", "--nets", ",".join(map(str, nets))]
    words += ["--regions", "3"] if check.options.quick else ["--compile"]
    ended = check.torch_run(words, 80)
    peers = parse_json_lines(ended.out)

    def peer(name):
        figure = peers.get(name, {})
        if "seconds" not in figure:
            raise NotMeasured(figure.get("failed") or ended.error or "not with --quick")
        return figure["seconds"]

    for key in ("product_bf16", "product_tf32"):
        add_or_explain(check, key, lambda: (peers[key]["operations"] / peer(key) / 1e12, peers[key]["note"]))
    pairs = {"ternarize_vs_eager": ("alexnet_eager", "alexnet_statistics_and_codes"),
             "ternarize_vs_compiled": ("alexnet_compiled", "alexnet_statistics_and_codes"),
             "resnet50_vs_eager": ("resnet50_eager", "resnet50_statistics_and_codes"),
             "decode_vs_torch": ("alexnet_momentum", "alexnet_decode_momentum_4")}
    for key, (theirs, ours) in pairs.items():
        add_or_explain(check, key, lambda: (peer(theirs) / check.report.bench[ours]["seconds"],
                                     f"PyTorch {check.torch_version}: {peer(theirs) * 1e6:.4g} us"))


def add_or_explain(check, key, measure):
    """Adds the value and the note that measure() returns, or the reason why there is none."""
    try:
        value, note = measure()
        check.figures.add(key, value, note=note)
    except NotMeasured as why:
        check.figures.add_missing(key, str(why))
    except KeyError as name:
        check.figures.add_missing(key, f"the measurement {name} to compare with is missing")


def steps_of(ended):
    """Returns (median seconds per step, all printed values)."""
    if ended.code is None:
        raise TimedOut(ended.error)
    if not ended:
        raise NotMeasured(ended.error)
    try:
        figures = json.loads(ended.out.strip().splitlines()[-1])
        return statistics.median(figures["seconds"]), figures
    except (ValueError, IndexError, KeyError, statistics.StatisticsError):
        raise NotMeasured("it printed no times") from None


def tern_steps(check, model, precision, *more):
    """Measures Tern's steps once, and caches them. The first run on a device also times cuDNN's plans, which takes
    longer than the steps."""
    key = (model, precision, *more)
    if key not in check.steps:
        words = [check.place.program("net_steps"), model, BATCHES[model], 1, 9, precision, "cuda",
                 STEP_S / 2 if check.options.quick else STEP_S, *more]
        try:
            check.steps[key] = steps_of(check.tern_run(words, 100))
        except NotMeasured as why:
            check.steps[key] = why
    steps = check.steps[key]
    if isinstance(steps, NotMeasured):
        raise steps
    return steps


def best_steps(check, model):
    """Returns (precision, seconds, values) of the first precision that the device and the build support."""
    whys = []
    for precision in ("bf16", "tf32", "fp32"):
        try:
            return precision, *tern_steps(check, model, precision)
        except TimedOut as why:  # another precision would not be faster
            raise TimedOut("; ".join([*whys, f"{precision}: {why}"])) from None
        except NotMeasured as why:
            whys.append(f"{precision}: {why}")
    raise NotMeasured("; ".join(whys))


def torch_steps(check, model, precision, *more, limit_s=60):
    words = ["-B", HERE / "torch_steps.py", net_file(check, model), BATCHES[model], check.cores, 9, "channels_last",
             "--device", "cuda", "--precision", precision, "--seconds", STEP_S / 2 if check.options.quick else STEP_S, *more]
    return steps_of(check.torch_run(words, limit_s))


def compare_steps(model, own, theirs, peer):
    """Returns the (value, note) of a row that compares two steps."""
    precision, seconds, figures = own
    other, _ = theirs
    batch = BATCHES[model]
    return other / seconds, (f"Tern {precision} {seconds * 1e3:.4g} ms, {batch / seconds:.4g} images/s, CPU "
                             f"{figures['cpu_seconds'] * 1e6:.4g} us a step; {peer} {other * 1e3:.4g} ms, {batch / other:.4g} images/s; "
                             f"{describe_planning(figures)}")


def describe_planning(figures):
    """Says what a step's time may come from: launches that no graph replays, own loops in place of cuDNN's engines."""
    planning = figures["planning"]
    loops = planning["own_loops"]
    return (f"{planning['graphs']} of {planning['segments']} graphs, {planning['graph_nodes']} nodes; {planning['plans_loaded']} plans loaded, "
            f"{planning['plans_chosen']} chosen in {planning['plan_seconds']:.3g} s; {planning['fused_norms']} norms fused before, "
            f"{planning['norms_in_readers']} and {planning['norm_gradients_in_readers']} gradients behind; "
            + (f"OWN LOOPS for {len(loops)} passes: {'; '.join(loops[:3])}" if loops else "no own loops"))


def add_step(check, key, own, value, note):
    """Adds a row of Tern's step, `own`. The row fails if launches of the step are not replayed as graphs: its time is then
    not that of the program."""
    planning = own[2]["planning"]
    if planning["graphs"] < planning["segments"]:
        check.figures.add_outcome(key, False, f"launches run one by one: {note}")
    else:
        check.figures.add(key, value, note=note)


def own(model, check):
    """Measures the steps of one network alone."""
    try:
        own = best_steps(check, model)
    except NotMeasured as why:
        for each in own_keys(model):
            check.figures.add_missing(each, str(why))
        return
    precision, seconds, figures = own
    rate = BATCHES[model] / seconds
    note = f"{precision}, {rate:.4g} images/s, CPU {figures['cpu_seconds'] * 1e6:.4g} us a step; {describe_planning(figures)}"
    add_step(check, f"own_{model}", own, seconds * 1e3, note)
    if model == "resnet20":
        add_step(check, "cpu_us", own, figures["cpu_seconds"] * 1e6, f"{precision}, over {figures['steps']} steps")
    if model == "resnet50":
        add_step(check, "rate_resnet50", own, rate, f"{precision}, {seconds * 1e3:.4g} ms a step")
        try:
            tf32 = ("tf32", *tern_steps(check, model, "tf32"))
        except NotMeasured as why:
            check.figures.add_missing("own_tf32_resnet50", str(why))
        else:
            add_step(check, "own_tf32_resnet50", tf32, tf32[1] * 1e3, describe_planning(tf32[2]))


def own_keys(model):
    more = {"resnet20": ["cpu_us"], "resnet50": ["rate_resnet50", "own_tf32_resnet50"]}
    return [f"own_{model}", *more.get(model, [])]


def norms(model, check):
    """Compares fp16 steps whose convolutions do a part of the work of batch norms with steps whose norms do all of it."""
    try:
        fused, alone = ("fp16", *tern_steps(check, model, "fp16")), ("fp16", *tern_steps(check, model, "fp16", "own_norms"))
    except NotMeasured as why:
        check.figures.add_missing(f"norms_{model}", str(why))
        return
    note = f"{fused[1] * 1e3:.4g} ms, {describe_planning(fused[2])}; norms alone: {alone[1] * 1e3:.4g} ms, {describe_planning(alone[2])}"
    if fused[2]["planning"]["fused_norms"] == 0:
        check.figures.add_outcome(f"norms_{model}", False, f"no norm was fused: {note}")
    else:
        add_step(check, f"norms_{model}", fused, alone[1] / fused[1], note)


def eager(model, check):
    """Compares the steps of one network with eager PyTorch."""
    compare(check, f"step_{model}", model, lambda: best_steps(check, model), lambda: torch_steps(check, model, "bf16"))
    if model == "resnet50":
        compare(check, "tf32_resnet50", model, lambda: ("tf32", *tern_steps(check, model, "tf32")),
                lambda: torch_steps(check, model, "tf32"))


def step_keys(model):
    return [f"step_{model}", *(["tf32_resnet50"] if model == "resnet50" else [])]


def compiled(model, check):
    """The same with torch.compile, which takes minutes to compile a large network."""
    compare(check, f"compile_{model}", model, lambda: best_steps(check, model),
            lambda: torch_steps(check, model, "bf16", "--compile", limit_s=300 if model == "resnet50" else 150), "torch.compile of ")


def compare(check, key, model, ours, theirs, way=""):
    """Adds a row that compares Tern's steps, ours(), with PyTorch's, theirs(). Without these it gives at least the time of
    Tern's step."""
    try:
        own = ours()
    except NotMeasured as why:
        check.figures.add_missing(key, f"Tern's step: {why}")
        return
    try:
        value, note = compare_steps(model, own, theirs(), f"{way}PyTorch {check.torch_version}")
    except NotMeasured as why:
        precision, seconds, figures = own
        check.figures.add_missing(key, f"Tern {precision} {seconds * 1e3:.4g} ms a step, {BATCHES[model] / seconds:.4g} images/s; "
                                       f"{describe_planning(figures)}; PyTorch: {why}")
    else:
        add_step(check, key, own, value, note)
