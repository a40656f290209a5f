"""Tests scripts/gpu_check.sh with fake programs that answer at once, fail or hang in place of those for a GPU.
gpu_bench is the build that runs on the CPU.

  gpu_check_test.py SOURCE_DIR GPU_BENCH_ON_HOST
"""
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE, ON_HOST = (pathlib.Path(word).resolve() for word in (sys.argv.pop(1), sys.argv.pop(1)))
sys.path.insert(0, str(SOURCE / "bench"))
import gpu_budget  # noqa: E402: found by the line above
import gpu_check  # noqa: E402
import gpu_measure  # noqa: E402
import gpu_place  # noqa: E402
import gpu_targets  # noqa: E402
import gpu_train  # noqa: E402
import targets  # noqa: E402

# The fake program; its name selects what it does. FAIL and HANG list the names that fail or hang, RED those with tests that fail.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, time
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
is_red = name in os.environ.get("RED", "").split(",")
if is_red:
    print("[ RUN      ] A.Passes\\n[       OK ] A.Passes (1 ms)\\n[ RUN      ] Z/B.Fails/0\\nthe cause\\n"
          "[  FAILED  ] Z/B.Fails/0, where GetParam() = 1.5 (1 ms)\\n[ RUN      ] A.FailsToo\\n[  FAILED  ] A.FailsToo (1 ms)")
if name in os.environ.get("HANG", "").split(","):
    print("[ RUN      ] A.Hangs", flush=True)
    check = os.getppid()
    while os.getppid() == check:
        time.sleep(0.1)
    sys.exit()
if name in os.environ.get("FAIL", "").split(","):
    sys.exit(f"{name}: out of memory")
if is_red:
    print("[  FAILED  ] 2 tests, listed below:\\n[  FAILED  ] A.FailsToo\\n[  FAILED  ] Z/B.Fails/0")
    sys.exit(1)
if name == "gpu_bench":
    if "NO_GPU" in os.environ:
        print("gpu_bench: there is no GPU here", file=sys.stderr)
        sys.exit(78)
    if "--device_only" in words:
        sys.exit(subprocess.run([os.environ["ON_HOST"], *words]).returncode)
    small = ["--elements", "9000", "--nets", "resnet20", "--regions", "1", "--region_ms", "0"]
    out = subprocess.run([os.environ["ON_HOST"], *small], capture_output=True, text=True, check=True).stdout
    print(out.replace("resnet20_", "alexnet_") + out.replace("resnet20_", "resnet50_"))
elif name.endswith("_test"):
    if name in os.environ.get("SKIP", ""):
        print("there is no GPU here: CUDA says no")
    print("[==========] 7 tests ran.\\n[  PASSED  ] 7 tests.")
elif name == "net_steps":
    if words[4] in ("bf16", "tf32"):
        sys.exit(f"net_steps: no {words[4]}")
    plans = pathlib.Path(os.environ["XDG_CACHE_HOME"], "tern/plans.json")
    known = json.loads(plans.read_text()) if plans.exists() else []
    plans.parent.mkdir(parents=True, exist_ok=True)
    plans.write_text(json.dumps(sorted({*known, words[0]})))
    loaded = int(words[0] in known)
    planning = {"segments": 2, "graphs": 2 - (words[0] == os.environ.get("NO_GRAPHS")), "graph_nodes": 99,
                "plans_loaded": loaded, "plans_chosen": 1 - loaded, "plan_seconds": 1.5, "fused_norms": 3 * (words[0] != os.environ.get("NO_NORMS")), "norms_in_readers": 2, "norm_gradients_in_readers": 1,
                "own_loops": ["forward of 3x3"] if words[0] == "lenet" else []}
    print(json.dumps({"seconds": [0.02, 0.01, 0.03], "cpu_seconds": 5e-5, "steps": 3, "planning": planning}))
elif words[0] == "--version":
    print("tern version 0.1.0, commit abc\\nlibraries")
elif words[0] == "model":
    print("{}")
else:
    settings = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--set")
    steps = int(settings.get("train.steps", 39))
    accuracy = 0.885 if settings.get("workers.device") == "cuda" else 0.88
    folder = pathlib.Path(settings["output_dir"])
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps({
        "code": 0, "accuracy": accuracy, "replicas_agree": settings.get("train.optimizer.name") != "adam", "rounds": steps,
        "train_s": 1.0, "samples_per_s": 1e4, "test_samples": 10000, "parameters_hash": "5eed", "train_loss": 1.0}))
"""
PROGRAMS = ("bin/tern", "bench/gpu_bench", "bench/net_steps", "tests/kernels/gpu_kernels_test",
            "tests/worker/engine/gpu_engine_test")


class GpuCheck(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="tern_gpu_check.")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        for name in PROGRAMS:
            path = self.folder / "build" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PROGRAM)
            path.chmod(0o755)
        self.data = self.folder / "data"
        (self.data / "mnist").mkdir(parents=True)
        for name in gpu_place.IDX:
            (self.data / "mnist" / name).touch()

    def words(self, *options):
        return [SOURCE / "scripts/gpu_check.sh", "--out", self.folder / "out", "--data", self.data, *options]

    def environment(self, **more):
        return {**os.environ, "TERN_BUILD_DIR": str(self.folder / "build"), "ON_HOST": str(ON_HOST), **more}

    def check(self, *options, code=0, **environment):
        done = subprocess.run(self.words(*options), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
                              env=self.environment(**environment))
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def rows(self):
        return json.loads((self.folder / "out/gpu_check.json").read_text())["targets"]

    def test_reports_that_there_is_no_gpu(self):
        for part in ([], ["--part", "1"]):
            self.assertEqual(self.check(*part, code=78, NO_GPU="1"), "gpu_check: there is no GPU here: nothing to check\n")
        self.assertFalse((self.folder / "out/gpu_check.json").exists())

    def test_adds_a_row_for_every_target(self):
        out = self.check("--quick", code=1)  # the CPU misses speed targets, and the fake job says that replicas differ with Adam
        rows = self.rows()
        self.assertEqual(set(rows), set(gpu_targets.GPU_TARGETS))
        self.assertEqual(rows["compile_resnet50"]["note"], "not with --quick")
        for key in ("device", "tests_kernels", "tests_engine", "mixed_momentum"):
            self.assertEqual(rows[key]["verdict"], "passed", key)
        self.assertEqual(rows["mixed_adam"]["verdict"], "FAILED")
        self.assertAlmostEqual(rows["train_lenet"]["value"], -0.5)
        self.assertEqual(rows["resnet50_launches"]["value"], 2)
        for key in ("copy", "ternarize", "codes", "ternarize_one", "resnet50_us", "decode_momentum", "decode_adam"):
            self.assertGreater(rows[key]["value"], 0, key)
        self.assertAlmostEqual(rows["cpu_us"]["value"], 50)
        self.assertAlmostEqual(rows["rate_resnet50"]["value"], 256 / 0.02)
        self.assertIn("fp32, 20 ms", rows["rate_resnet50"]["note"])
        self.assertAlmostEqual(rows["own_resnet20"]["value"], 20)
        self.assertIn("2 of 2 graphs, 99 nodes; 0 plans loaded, 1 chosen in 1.5 s; 3 norms fused before, 2 and 1 gradients behind; no own loops", rows["own_resnet20"]["note"])
        self.assertAlmostEqual(rows["norms_resnet50"]["value"], 1)
        self.assertIn("20 ms, 2 of 2 graphs", rows["norms_resnet50"]["note"])
        self.assertIn("OWN LOOPS for 1 passes: forward of 3x3", rows["own_lenet"]["note"])
        self.assertIn("PyTorch", rows["step_resnet20"]["note"])  # PyTorch, if installed, finds no GPU here
        self.assertIn("no data here", rows["train_resnet20"]["note"])
        self.assertIn("not by this check", rows["cifar10_94"]["note"])
        self.assertIn("| ternarizing AlexNet's tensors", out)
        self.assertEqual((self.folder / "out/gpu_check.md").read_text().count("\n| "), len(rows) + 1)

    def test_a_part_keeps_the_rows_and_plans_of_another(self):
        self.check("--part", "1", "--quick", code=1)
        first = self.rows()
        self.assertEqual(first["tests_kernels"]["verdict"], "passed")
        self.assertEqual(first["mixed_adam"]["note"], "part 2 measures it")
        self.assertIn("0 plans loaded, 1 chosen", first["own_resnet20"]["note"])
        kept = (self.folder / "out").rename(self.folder / "first")
        self.assertTrue((kept / "tern/plans.json").exists())
        self.check("--part", "2", "--quick", "--earlier", kept, code=1)
        second = self.rows()
        self.assertEqual({key: second[key] for key in ("own_resnet20", "copy")}, {key: first[key] for key in ("own_resnet20", "copy")})
        self.assertEqual(second["mixed_adam"]["verdict"], "FAILED")
        self.assertEqual([second[key]["run"] for key in ("copy", "mixed_adam")], [0, 1])
        self.check("--part", "4", "--quick", "--only", "step_resnet20", code=0)  # in the same folder, without --earlier
        last = self.rows()
        self.assertIn("1 plans loaded, 0 chosen", last["step_resnet20"]["note"])
        self.assertEqual([last[key]["run"] for key in ("copy", "mixed_adam", "device")], [0, 1, 2])
        self.assertEqual([run["part"] for run in json.loads((self.folder / "out/gpu_check.json").read_text())["runs"]], [1, 2, 4])

    def test_steps_without_a_part_keep_the_other_rows(self):
        self.check("--part", "1", "--only", "tests_kernels,own_lenet", code=0)
        before = self.rows()["own_lenet"]
        self.check("--only", "tests_kernels", code=0)
        self.assertEqual(self.rows()["own_lenet"], before)

    def test_what_a_part_cannot_measure_again_stays(self):
        self.check("--part", "1", "--only", "tests_kernels,own_lenet", code=0)
        before = self.rows()["own_lenet"]
        self.check("--part", "1", "--only", "own_lenet", code=0, FAIL="net_steps")
        self.assertEqual(self.rows()["own_lenet"], before)

    def test_a_step_without_graphs_fails(self):
        self.check("--part", "1", "--only", "own_resnet20,own_lenet", code=1, NO_GRAPHS="resnet20")
        rows = self.rows()
        self.assertEqual([rows[key]["verdict"] for key in ("own_resnet20", "cpu_us", "own_lenet")], ["FAILED", "FAILED", "measured"])
        self.assertIn("launches run one by one: fp32", rows["own_resnet20"]["note"])
        self.assertIn("1 of 2 graphs", rows["own_resnet20"]["note"])

    def test_a_stop_loses_nothing(self):
        for how, ends in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 1)):  # 1: cpu_us misses its bar
            with subprocess.Popen(self.words("--part", "1", "--only", "own_resnet20,tests_engine,own_alexnet"), text=True,
                                  stdout=subprocess.PIPE, env=self.environment(HANG="gpu_engine_test")) as running:
                next(line for line in running.stdout if line.startswith("own_resnet20: "))
                running.send_signal(how)
                running.stdout.read()
            self.assertEqual(running.returncode, ends)
            rows = self.rows()
            self.assertAlmostEqual(rows["own_resnet20"]["value"], 20)
            self.assertTrue((self.folder / "out/tern/plans.json").exists())
        self.assertRegex(rows["tests_engine"]["note"], "time limit of the whole check|no time was left")
        self.assertEqual(rows["own_alexnet"]["note"], "no time was left")

    def test_parts_have_a_limit_of_their_own(self):
        self.assertIn("at most 540 s", self.check("--part", "1", "--only", "tests_kernels"))
        self.assertIn("at most 2160 s", self.check("--only", "tests_kernels"))
        self.assertIn("at most 30 s", self.check("--part", "1", "--only", "tests_kernels", "--seconds", "30"))

    def test_refuses_a_folder_without_a_table(self):
        self.assertIn("--earlier is the --out of an earlier part", self.check("--part", "2", "--earlier", self.folder, code=64))
        self.assertIn("unknown step bench", self.check("--part", "2", "--only", "bench", code=64))

    def test_trains_for_epochs_with_a_cpu_result(self):
        (self.data / "cifar10").mkdir()
        (self.data / "cifar10/data_batch_5.bin").touch()
        self.check("--only", "train_resnet20", code=0)
        row = self.rows()["train_resnet20"]
        self.assertAlmostEqual(row["value"], 80.92 - 88.5)
        self.assertIn("CIFAR-10 (cifar10), 10 epochs", row["note"])

    def test_continues_when_programs_fail(self):
        self.check("--only", "tests_kernels,tests_engine,bench,own_resnet20", code=1, FAIL="gpu_kernels_test,net_steps",
                   ON_HOST="/does/not/exist")
        rows = self.rows()
        self.assertEqual(rows["tests_kernels"]["verdict"], "FAILED")
        self.assertIn("out of memory", rows["tests_kernels"]["note"])
        self.assertEqual(rows["tests_engine"]["verdict"], "passed")
        self.assertEqual(rows["own_resnet20"]["verdict"], "not measured")
        self.assertIn("fp32: exit code 1: net_steps: out of memory", rows["cpu_us"]["note"])
        self.assertEqual(rows["device"]["verdict"], "FAILED")
        self.assertEqual(rows["copy"]["verdict"], "not measured")

    def test_ends_in_time_when_a_program_hangs(self):
        self.check("--only", "tests_kernels,tests_engine,train_lenet", "--seconds", "16", code=0, HANG="gpu_engine_test")
        rows = self.rows()
        self.assertEqual(rows["tests_kernels"]["verdict"], "passed")
        self.assertIn("time limit of the whole check", rows["tests_engine"]["note"])
        self.assertEqual(rows["train_lenet"]["note"], "no time was left")

    def test_names_the_first_failures_first(self):
        self.check("--only", "tests_kernels", code=1, RED="gpu_kernels_test")
        self.assertIn("failed: Z/B.Fails/0, A.FailsToo", self.rows()["tests_kernels"]["note"])
        log = (self.folder / "out/gpu_check.log").read_text()
        self.assertIn("the cause", log)
        self.assertNotIn("A.Passes", log)

    def test_names_the_test_that_a_program_was_stopped_in(self):
        check = unittest.mock.Mock(budget=gpu_budget.Budget(60, self.folder / "log"))
        check.place.program.return_value = self.folder / "build/tests/kernels/gpu_kernels_test"
        check.environment = self.environment(HANG="gpu_kernels_test")
        gpu_train.unit_tests("gpu_kernels_test", check, 2, "tests_kernels")
        key, why = check.figures.add_missing.call_args.args
        self.assertEqual(key, "tests_kernels")
        self.assertRegex(why, "stopped after .*, in A.Hangs$")
        check.environment["RED"] = "gpu_kernels_test"
        gpu_train.unit_tests("gpu_kernels_test", check, 2, "tests_kernels")
        key, passed, why = check.figures.add_outcome.call_args.args
        self.assertFalse(passed)
        self.assertRegex(why, "stopped after .*, in A.Hangs; failed: Z/B.Fails/0, A.FailsToo$")

    def test_a_net_without_fused_norms_fails(self):
        self.check("--only", "norms_resnet20,norms_resnet50", code=1, NO_NORMS="resnet20")
        rows = self.rows()
        self.assertEqual([rows[f"norms_{net}"]["verdict"] for net in ("resnet20", "resnet50")], ["FAILED", "beyond the goal"])
        self.assertIn("no norm was fused: 20 ms", rows["norms_resnet20"]["note"])

    def test_a_training_that_takes_too_long_is_shorter(self):
        tries = []

        def run_job(check, job, name, settings, limit_s):
            tries.append((name, limit_s))
            if len(tries) == 1:
                raise gpu_measure.TimedOut("stopped after 30 s")
            return {"replicas_agree": True, "rounds": 391, "train_s": 9, "accuracy": 0.5707, "test_samples": 10000, "samples_per_s": 1}

        check = unittest.mock.Mock(cores=1)
        with unittest.mock.patch.object(gpu_train, "run_job", run_job), \
                unittest.mock.patch.object(gpu_place, "find_cifar10", return_value=gpu_place.Data("CIFAR-10", ())):
            gpu_train.resnet20(check)
            self.assertEqual(tries, [("resnet20_2", 30), ("resnet20_1", 30)])
            self.assertEqual(check.figures.add.call_args.args, ("train_resnet20", 0))

    def test_skipped_tests_do_not_count_as_passed(self):
        self.check("--only", "tests_kernels,tests_engine", code=1, SKIP="gpu_engine_test")
        self.assertEqual([self.rows()[name]["verdict"] for name in ("tests_kernels", "tests_engine")], ["passed", "FAILED"])

    def test_refuses_an_unknown_step(self):
        self.assertIn("unknown step foo", self.check("--only", "bench,foo", code=64))

    def test_every_row_belongs_to_one_step(self):
        keys = [key for part in gpu_check.parts(False) for stage in part for step in stage for key in step.keys]
        self.assertEqual(sorted([*keys, "device", *gpu_targets.NOT_MEASURED]), sorted(gpu_targets.GPU_TARGETS))

    def test_every_part_of_a_filter_names_tests(self):
        text = "".join(path.read_text() for path in sorted((SOURCE / "tests").rglob("*.cc")))
        names = {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", text, re.M)}
        of_cases = re.findall(r"^TEST_P\((\w+), (\w+)\)", text, re.M)
        for prefix, suite in re.findall(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+), (\w+),", text, re.M):
            names |= {f"{prefix}/{suite}.{name}/case" for of, name in of_cases if of == suite}
        works = [step.work for part in gpu_check.parts(False) for stage in part for step in stage]
        filters = [work.args[3] for work in works if getattr(work, "func", None) is gpu_train.sanitizer]
        self.assertTrue(any(filters))
        for one in ":".join(filter(None, filters)).split(":"):
            self.assertTrue(fnmatch.filter(names, one), one)


class HelperTests(unittest.TestCase):
    def test_searches_only_libraries_that_the_loader_does_not_find(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a/libone.so.1", "b/libone.so.1", "b/libtwo.so.2", "b/libthree.so.3"):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.touch()
            candidates = [f"{folder}/a", f"{folder}/b"]
            names = ("libone.so.1", "libtwo.so.2", "libnone.so.4")
            self.assertEqual(gpu_place.library_folders(names, set(), candidates), candidates)
            self.assertEqual(gpu_place.library_folders(names, {"libone.so.1"}, candidates), candidates[1:])
            known = gpu_place.on_loaders_path({"LD_LIBRARY_PATH": f"{folder}/b", "PATH": ""})
            self.assertEqual(gpu_place.library_folders(names, known, candidates), [])

    def test_takes_the_newest_cudnn(self):
        with tempfile.TemporaryDirectory() as folder:
            candidates = [f"{folder}/{name}" for name in ("none", "toolkit", "wheel")]
            for name in candidates[1:]:
                pathlib.Path(name).mkdir()
                pathlib.Path(name, gpu_place.CUDNN).touch()

            def newer(loaders, toolkits, wheels, **environment):
                versions = dict(zip((gpu_place.CUDNN, *(f"{name}/{gpu_place.CUDNN}" for name in candidates[1:])), (loaders, toolkits, wheels)))
                return gpu_place.folder_of_newer_cudnn(candidates, environment, lambda library, _: versions[library])

            self.assertEqual(newer(91900, 91900, 92600), candidates[2])
            self.assertEqual(newer(0, 92600, 91900), candidates[1])
            self.assertIsNone(newer(92600, 91900, 92600))
            self.assertIsNone(newer(0, 0, 0))
            self.assertIsNone(newer(91900, 0, 92600, LD_LIBRARY_PATH=f"/none:{candidates[1]}"))
            self.assertIsNone(gpu_place.folder_of_newer_cudnn([], {}, lambda *_: 0))
            self.assertEqual(gpu_place.cudnn_version(f"{candidates[1]}/{gpu_place.CUDNN}", {}), 0, "a file that is no library")

    def test_finds_programs_of_the_toolkit_that_are_not_on_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bin/some-sanitizer")
            path.parent.mkdir()
            path.touch(0o755)
            self.assertIsNone(gpu_place.find_tool(path.name))
            with unittest.mock.patch.dict(os.environ, CUDA_HOME=folder):
                self.assertEqual(gpu_place.find_tool(path.name), str(path))

    def test_stopping_a_command_stops_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            budget = gpu_budget.Budget(60, pathlib.Path(folder, "log"))
            ended = budget.run(["sh", "-c", "echo begun; trap '' TERM; sleep 1000 & wait; wait"], 0.5)
            self.assertFalse(ended)
            self.assertEqual((ended.code, ended.out), (None, "begun\n"))
            self.assertIn("stopped after", ended.error)
            self.assertIn("exit code 3: why", budget.run(["sh", "-c", "echo why >&2; exit 3"], 9).error)
            self.assertTrue(budget.run(["true"], 9))
            self.assertIn("does not start", budget.run([f"{folder}/none"], 9).error)
            budget.end()
            self.assertRaises(gpu_budget.DeadlineReached, budget.run, ["true"], 9)

    def test_the_log_keeps_both_ends_of_an_output(self):
        text = gpu_budget.excerpt("begin" + "x" * 50000 + "end")
        self.assertTrue(text.startswith("beginx") and text.endswith("xend"))
        self.assertIn("10008 characters are left out", text)
        self.assertEqual(gpu_budget.excerpt("short"), "short")

    def test_verdicts_with_and_without_a_bar(self):
        goal, bar = targets.Target("", None, 10), targets.at_most("", 100, 85)
        self.assertEqual([targets.verdict(goal, 11), targets.verdict(goal, 9)], ["beyond the goal", "below the goal"])
        self.assertEqual([targets.verdict(bar, value) for value in (80, 90, 101)], ["beyond the goal", "met", "MISSED"])
        self.assertEqual(targets.verdict(targets.Target(""), 5), "measured")


if __name__ == "__main__":
    unittest.main()
