"""tern_train.torch with real servers: the same training as PyTorch's own over gloo, byte for byte, and what can go wrong.

  torch_test.py [-v] [TEST...]     with TERN_SERVER and TERN_LIBRARY (job.py)

Exits with 77 if this Python has no PyTorch.
"""
import contextlib
import json
import os
import re
import signal
import sys
import time
import unittest
from unittest import mock

from job import HERE, PATIENCE_S, PYTHON_FOLDER, Job

os.environ.setdefault("TERN_RANK", "0")  # torch_programs.py wants one.
try:
    import torch
    import torch_programs
except ImportError:
    print("skipped: this Python has no PyTorch")
    sys.exit(77)

SCRIPT = HERE / "torch_worker.py"
# Not over gloo in the type of the parameters: Tern takes and gives fp32.
OTHER_SUMS = ("float64", "bfloat16")


START = "faults: {start_timeout_s: 300}\n"


def job(**options):
    return Job(SCRIPT, **{"more": START, **options})


def weights_in(output):
    """The digests of the weights by what they are of."""
    return dict(re.findall(r"^weights of (.+): (\w{64})$", output, re.MULTILINE))


class Programs(unittest.TestCase):
    """Each program of torch_programs.py, over gloo and over Tern. All in the same two processes, because PyTorch starts slowly."""

    @classmethod
    def setUpClass(cls):
        names = list(torch_programs.PROGRAMS)
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(job()) for _ in names]
            plain = jobs[0].start_workers("plain", jobs[0].folder / "meeting", 2, *names)
            cls.plain = [cls.weights_of(worker) for worker in plain]
            tern = jobs[0].start_workers("over_tern", *(f"{name}={own.path}" for name, own in zip(names, jobs)))
            cls.tern = [cls.weights_of(worker) for worker in tern]
            cls.outputs = "\n".join(f"{worker.name}:\n{worker.output[-4000:]}" for worker in [*plain, *tern])

    @staticmethod
    def weights_of(worker):
        try:
            worker.wait(3 * PATIENCE_S)
        except AssertionError:
            pass  # The tests of the programs that it has not done say so.
        return weights_in(worker.output)


def add_program_tests():
    def make(name):
        def test(self):
            for digests in (*self.plain, *self.tern):
                self.assertIn(name, digests, self.outputs)
            self.assertEqual(self.plain[0][name], self.plain[1][name], "over gloo the ranks differ")
            self.assertEqual(self.tern[0][name], self.tern[1][name], "over Tern the ranks differ")
            if name not in OTHER_SUMS:
                self.assertEqual(self.tern[0][name], self.plain[0][name], "not the weights that gloo gives")
        return test
    for name in torch_programs.PROGRAMS:
        setattr(Programs, f"test_{name}", make(name))


class Ways(unittest.TestCase):
    """Ways to use the package besides ddp() in a program of its own."""

    def equal_weights(self, outputs):
        """The digests, which all workers have."""
        first = weights_in(outputs[0])
        self.assertTrue(first, outputs[0])
        for output in outputs[1:]:
            self.assertEqual(weights_in(output), first)
        return first

    def test_ternary_codes_with_four_workers(self):
        with job(workers=4, codec="ternary") as four:
            self.equal_weights(four.run("simple"))

    def test_two_servers(self):
        with job(servers=2, bucket_kib=1) as two:
            self.equal_weights(two.run("simple"))

    def test_the_hook_alone(self):
        with job() as two, job() as other:
            self.assertEqual(self.equal_weights(two.run("hook_alone")), self.equal_weights(other.run("simple")))

    def test_a_process_group_of_all_workers(self):
        with job() as two, job() as other:
            self.assertEqual(self.equal_weights(two.run("own_group", two.folder / "meeting", 2)),
                             self.equal_weights(other.run("unused")))

    def test_two_models(self):
        with job() as first, job() as second:
            first.start_workers("two_models", second.path)
            first.finish()
            second.finish()
            self.assertEqual(len(self.equal_weights([worker.output for worker in first.workers])), 2)

    def test_averaged_buffers(self):
        with job(codec="ternary") as two:
            outputs = two.run("averaged_buffers")
        with job(codec="ternary") as two:
            plain = {weights_in(output)["simple"] for output in two.run("over_tern", f"simple={two.path}")}
        statistics = {re.search("^statistics: .*$", output, re.MULTILINE)[0] for output in outputs}
        self.assertEqual(len(statistics), 1, statistics)
        self.assertEqual({weights_in(output)["averaged_buffers"] for output in outputs}, plain)

    def test_weights_that_part_ways(self):
        for compare, change in (("hash", 1e-6), ("norm", 100)):
            with job() as two:
                first, second = two.start_workers("part_ways", compare, change)
                for worker in (first, second):
                    self.assertEqual(worker.wait(), 76, worker.output)
                self.assertIn(f"the replicas differ after step 4: the {compare} of this worker's weights", first.output + second.output)
        with job() as two:
            self.assertIn("all steps", two.run("part_ways", "norm", 1e-6)[0])

    def test_an_exit_is_no_error(self):
        with job() as two:
            two.run("exit_in_with")

    def test_means_of_other_tensors(self):
        with job() as two:
            for output in two.run("wrong_tensors"):
                for sentence in ("64: mean_: saw 3 tensors; expected 4,", "64: mean_: tensor 0: saw the shape (2,); expected (2, 3),",
                                 "64: mean_: tensor 0: saw the shape None;", "64: mean_: tensor 0: saw complex numbers;", "mean: 1.0",
                                 "64: a worker's part in a job cannot be copied"):
                    self.assertIn(sentence, output)

    def test_means_of_parameters(self):
        with job() as two:
            for output in two.run("means_of_parameters"):
                self.assertIn("mean: 1.0", output)

    def test_local_steps(self):
        for outer in ("none", "diloco"):
            with self.subTest(outer=outer), job() as two:
                weights = self.equal_weights(two.run("local_steps", outer))
                self.assertEqual(weights["local steps"], weights["averaging by hand"])

    def test_local_steps_begin_with_the_weights_and_statistics_of_rank_0(self):
        with job() as two:
            outputs = two.run("local_first_weights")
            self.equal_weights(outputs)
            for output in outputs:
                self.assertIn(f"statistics: {[0.0] * 12}", output)

    def paced_local_steps(self, killed_before=None):
        """The weights of both workers. Worker 1 is killed before the step, and started again."""
        with job(more="faults: {start_timeout_s: 300, on_worker_loss: wait}\n") as two:
            held = two.start_workers("local_steps_paced")[1]
            for step in range(12):
                held.await_text(f"before step {step}")
                if step == killed_before:
                    held.end()
                    two.workers.remove(held)
                    held = two.start_worker(1, "local_steps_paced")
                    for repeated in range(step - step % 3, step + 1):
                        held.await_text(f"before step {repeated}")
                        if repeated < step:
                            held.say("go on")
                held.say("go on")
            two.finish()
            return self.equal_weights([worker.output for worker in two.workers])

    def test_a_lost_worker_goes_on_after_its_last_exchange(self):
        self.assertEqual(self.paced_local_steps(killed_before=7), self.paced_local_steps())

    def test_unequal_amounts_of_data(self):
        with job() as two:
            two.run("uneven")

    def test_unequal_amounts_of_data_in_a_process_group_of_all_workers(self):
        with job() as two:
            outputs = two.run("own_group_uneven", two.folder / "meeting", 2)
            statistics = {re.search("^statistics: .*$", output, re.MULTILINE)[0] for output in outputs}
            self.assertEqual(len(statistics), 2, statistics)

    def test_each_worker_has_its_part_of_the_samples(self):
        with job() as two:
            for rank, output in enumerate(two.run("samplers", TERN_WORLD_SIZE="2")):
                self.assertIn(f"samples: {list(range(rank, 8, 2))}", output)

    def test_parameters_that_are_ignored_and_buffers_that_are_not_saved(self):
        with job() as two:
            outputs = two.run("ignored_parameters")
        self.assertEqual(len({re.search("^own weight: .*$", output, re.MULTILINE)[0] for output in outputs}), 2, outputs)
        self.assertEqual(len({re.search("^table: .*$", output, re.MULTILINE)[0] for output in outputs}), 1, outputs)

    def test_an_exception_of_long_ago_is_none_of_the_job(self):
        with job() as two:
            self.equal_weights(two.run("old_error"))

    @unittest.skipUnless(torch_programs.HAS_SCALER, "PyTorch has a GradScaler for the CPU from 2.3 on")
    def test_local_steps_with_a_scaler(self):
        with job() as two:
            self.equal_weights(two.run("scaled_local_steps"))

    def test_a_forked_child_ends(self):
        with job() as two:
            two.run("forked_child")

    def test_ddp_names_the_argument_of_buffers_that_this_pytorch_has(self):
        sys.path.insert(0, str(PYTHON_FOLDER))
        from tern_train import torch as tern_torch

        class Old:
            def __init__(self, module, broadcast_buffers=True):
                pass

        class New:
            def __init__(self, module, broadcast_buffers=None, forward_sync_buffers=None):
                pass

        for kind, given, sent in ((Old, {}, {"broadcast_buffers": False}), (New, {}, {"forward_sync_buffers": False}),
                                  (New, {"forward_sync_buffers": True}, {"forward_sync_buffers": True}),
                                  (New, {"broadcast_buffers": True}, {"broadcast_buffers": True})):
            with self.subTest(kind=kind, given=given), mock.patch.object(tern_torch, "DistributedDataParallel", kind):
                self.assertEqual(tern_torch._with_defaults(given), {"gradient_as_bucket_view": True, **sent})

    def test_the_rank_is_that_of_the_process(self):
        sys.path.insert(0, str(PYTHON_FOLDER))
        from tern_train.torch import rank_of_environment
        slurm = {"SLURM_PROCID": "3", "RANK": "1"}
        for environment, rank in (({"RANK": "1"}, 1), (slurm, 3), ({**slurm, "TORCHELASTIC_RUN_ID": "x"}, 1),
                                  ({**slurm, "TORCHELASTIC_RUN_ID": "x", "TERN_RANK": "2"}, 2)):
            with self.subTest(environment=environment), mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(rank_of_environment(), rank)

    def test_the_number_of_workers_is_that_of_the_job(self):
        sys.path.insert(0, str(PYTHON_FOLDER))
        from tern_train import TernError
        from tern_train.torch import world_size_of_environment
        slurm = {"SLURM_NTASKS": "3", "WORLD_SIZE": "8"}
        for environment, size in (({"WORLD_SIZE": "8"}, 8), (slurm, 3), ({**slurm, "TORCHELASTIC_RUN_ID": "x"}, 8),
                                  ({**slurm, "TERN_WORLD_SIZE": "2"}, 2)):
            with self.subTest(environment=environment), mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(world_size_of_environment(), size)
        for environment in ({}, {"WORLD_SIZE": "0"}, {"WORLD_SIZE": "many"}):
            with self.subTest(environment=environment), mock.patch.dict(os.environ, environment, clear=True):
                with self.assertRaises(TernError):
                    world_size_of_environment()

    def test_the_table_of_tensors(self):
        with job(workers=1) as one:
            worker = one.start_worker(0, "described")
            self.assertEqual(worker.wait(), 0, worker.output)
            self.assertEqual(json.loads(worker.output)["tensors"][0], {"name": "embedding.weight", "shape": [5, 8]})
            self.assertEqual(len(json.loads(worker.output)["tensors"]), 3)


class Faults(unittest.TestCase):
    def both_end(self, program, codes, text, **options):
        """Worker 1 ends with the second code. Worker 0 ends with the first, and names the cause."""
        with job(**options) as two:
            first, second = two.start_workers(program)
            self.assertEqual(second.wait(), codes[1], second.output)
            self.assertEqual(first.wait(), codes[0], first.output)
            self.assertRegex(first.output, text)
            self.assertNotEqual(two.servers[0].wait(), 0)

    def test_an_exception_in_the_loop(self):
        self.both_end("raise_in_the_loop", (75, 1), "worker 1.*ValueError: on purpose")

    def test_an_exception_in_with(self):
        # Here the program could catch what the job's end raises, so the exit code is Python's.
        self.both_end("raise_in_with", (1, 1), "worker 1.*ValueError: on purpose")

    def test_the_end_is_ended_before_the_event_has_been_seen(self):
        with job() as two:
            first, second = two.start_workers("late_end")
            self.assertEqual(second.wait(), 0, second.output)
            self.assertEqual(first.wait(), 75, first.output)
            self.assertRegex(first.output, "ended: .*worker 1 has left on purpose")

    @unittest.skipUnless(torch_programs.HAS_SCALER, "PyTorch has a GradScaler for the CPU from 2.3 on")
    def test_a_gradient_that_is_not_finite(self):
        self.both_end("overflow", (79, 79), "worker 1.*the gradient of .* is not finite at round 3")

    def test_other_first_weights(self):
        with job() as two:
            digests = {weights_in(output)["other_weights"] for output in two.run("other_weights")}
            self.assertEqual(len(digests), 1, digests)

    def is_refused(self, program, text, *words):
        with job(workers=1) as one:
            worker = one.start_worker(0, program, *words)
            self.assertEqual(worker.wait(), 1, worker.output)
            self.assertRegex(worker.output, text)

    def test_all_killed_go_on_from_the_programs_own_checkpoints(self):
        # Codecs with memories of earlier gradients, on the servers too, and one that draws.
        for codec, more in (("onebit", "checkpoints: {every_steps: 4, keep: 9}\n"), ("ternary_ans", "")):
            with job(codec=codec) as two:
                undisturbed = self.digest(two.run("resumed", two.folder / "saved", 0, 20))
            with job(codec=codec, more=START + more) as two:
                first_part = self.digest(two.run("resumed", two.folder / "saved", 0, 8))
                self.start_again(two)
                self.assertEqual(self.digest(two.run("resumed", two.folder / "saved", 8, 20)), undisturbed)
                self.assertNotEqual(first_part, undisturbed)
                self.start_again(two)
                (two.folder / "saved.8.1").rename(two.folder / "saved.8.0")  # the state of another rank
                worker = two.start_worker(0, "resumed", two.folder / "saved", 8, 20)
                self.assertEqual(worker.wait(), 1, worker.output)
                self.assertIn("the saved state of Tern belongs to another job: saw 1 as rank; this worker has 0", worker.output)

    def test_checkpoints_that_differ_are_refused(self):
        with job() as two:
            two.run("resumed", two.folder / "saved", 0, 4)
            self.start_again(two)
            for worker in two.start_workers("resumed", two.folder / "saved", 4, 8, 0):
                self.assertEqual(worker.wait(), 65, worker.output)
                self.assertIn("the weights in the checkpoint of step 4 differ: worker 0", worker.output)

    def test_a_step_that_was_broken_off_is_not_saved(self):
        with job() as two:
            first, second = two.start_workers("saves_when_interrupted")
            first.await_text("waits")
            second.await_text("stays away")
            first.signal(signal.SIGINT)
            first.await_text("interrupted")
            first.await_text("64: state_dict: a backward pass was broken off")
            second.say("go on")
            two.finish()

    def test_a_parameter_without_a_gradient_ends_the_job(self):
        self.both_end("drops_a_layer", (64, 64), "worker 1.*no gradient in this backward pass.*dropped.weight, dropped.bias: .*find_unused")

    def digest(self, outputs):
        digests = {weights_in(output)["resumed"] for output in outputs}
        self.assertEqual(len(digests), 1, digests)
        return digests.pop()

    def start_again(self, two):
        """All processes of the job have ended: starts the server again."""
        for process in [*two.workers, *two.servers]:
            process.end()
        two.workers.clear()
        two.servers[:] = [two.start_server()]

    def going_back(self, codec, disturb=None, **options):
        """The weights of a job with checkpoints of 4, 8, ... steps. `disturb` gets the job when worker 1 is held before step 10."""
        more = "faults: {start_timeout_s: 300, on_worker_loss: wait}\ncheckpoints: {every_steps: 4}\n"
        with job(codec=codec, more=more, **options) as two:
            two.start_workers("going_back", 20, 10)
            for _ in range(1 if disturb is None else 2):
                two.workers[1].await_text("before step 10")
                if disturb is not None:
                    disturb(two)
                    disturb = None
                else:
                    two.workers[1].say("go on")
            two.finish()
            digests = {weights_in(worker.output)["going_back"] for worker in two.workers}
            self.assertEqual(len(digests), 1, digests)
            return digests.pop()

    def test_going_back(self):
        def kill_worker(two):
            two.workers[1].end()
            two.workers[1] = two.start_worker(1, "going_back", 20, 10)
            two.workers.pop()

        def kill_server(two):
            two.restart_server()
            two.workers[1].say("go on")

        def kill_all(two):
            self.start_again(two)
            two.start_workers("going_back", 20, 10)

        # Codecs with memories of earlier gradients, on the servers too, and one that draws.
        for codec, faults in (("onebit", (kill_worker, kill_server, kill_all)), ("ternary_ans", (kill_worker,))):
            undisturbed = self.going_back(codec)
            for disturb in faults:
                with self.subTest(codec=codec, fault=disturb.__name__):
                    self.assertEqual(self.going_back(codec, disturb), undisturbed)

    def test_sync_batch_norm(self):
        self.is_refused("sync_batch_norm", "TernError: 1: saw a SyncBatchNorm")

    def test_complex_parameters(self):
        for way in ("ddp", "Exchange", "LocalSteps", "Trainer"):
            with self.subTest(way=way):
                self.is_refused("complex_parameters", "TernError: 1.weight: saw a complex parameter", way)

    def test_means_that_cannot_be_written(self):
        with job() as two:
            for worker in two.start_workers("unwritable_means"):
                self.assertNotEqual(worker.wait(), 0, worker.output)
                self.assertIn("the means cannot be written back", worker.output)

    def test_a_rank_that_is_not_known(self):
        self.is_refused("no_rank", "TernError: this worker's rank is not known")

    def interrupt(self, worker):
        begin = time.monotonic()
        worker.signal(signal.SIGINT)
        self.assertNotEqual(worker.wait(), 0, worker.output)
        self.assertIn("KeyboardInterrupt", worker.output)
        self.assertLess(time.monotonic() - begin, 30)  # PyTorch takes a while to end; without care it would never.

    def test_ctrl_c_before_the_job_has_begun(self):
        with job() as two:
            worker = two.start_worker(0, "wait_alone")
            worker.await_text("waits")
            self.interrupt(worker)

    def test_ctrl_c_while_backward_waits_for_another_worker(self):
        with job() as two:
            first, second = two.start_workers("wait_in_step")
            first.await_text("waits")
            second.await_text("stays away")
            self.interrupt(first)
            second.say("go on")
            self.assertNotEqual(second.wait(), 0)
            self.assertRegex(second.output, "worker 0.*KeyboardInterrupt")


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    add_program_tests()
    unittest.main()
