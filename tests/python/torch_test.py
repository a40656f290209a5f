"""tern_train.torch with real servers: the same training as PyTorch's own over gloo, byte for byte, and what can go wrong.

  torch_test.py [-v] [TEST...]     with TERN_SERVER and TERN_LIBRARY (job.py)

Exits with 77 if this Python has no PyTorch.
"""
import json
import os
import re
import signal
import sys
import time
import unittest

from job import HERE, Job

SCRIPT = HERE / "torch_worker.py"
# Not over gloo in the type of the parameters: Tern takes and gives fp32.
OTHER_SUMS = ("float64", "bfloat16")


def job(**options):
    return Job(SCRIPT, **options)


def weights_in(output):
    """The digests of the weights by what they are of."""
    return dict(re.findall(r"^weights of (.+): (\w{64})$", output, re.MULTILINE))


class Programs(unittest.TestCase):
    """Each program of torch_programs.py."""

    @classmethod
    def setUpClass(cls):
        import torch_programs
        names = list(torch_programs.PROGRAMS)
        with job() as meeting:  # for its folder and its words only
            workers = [meeting.start_worker(rank, "plain", meeting.folder / "meeting", 2, *names) for rank in range(2)]
            outputs = [worker.output for worker in workers if worker.wait(300) == 0]
        if len(outputs) != 2:
            raise AssertionError("the programs do not run over gloo:\n" + workers[0].output[-4000:] + workers[1].output[-4000:])
        cls.plain = weights_in(outputs[0])
        if cls.plain != weights_in(outputs[1]):
            raise AssertionError(f"over gloo the ranks differ: {cls.plain} and {weights_in(outputs[1])}")

    def digest_over_tern(self, name, **options):
        """The digest of the weights, which is that of all ranks."""
        with job(**options) as workers:
            digests = {weights_in(output)[name] for output in workers.run(name)}
        self.assertEqual(len(digests), 1, f"{name}: the ranks differ")
        return digests.pop()


def add_program_tests():
    def make(name):
        def test(self):
            digest = self.digest_over_tern(name)
            if name not in OTHER_SUMS:
                self.assertEqual(digest, self.plain[name], f"{name}: not the weights of DistributedDataParallel over gloo")
        return test
    import torch_programs
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

    def test_local_steps(self):
        for outer in ("none", "diloco"):
            with self.subTest(outer=outer), job() as two:
                weights = self.equal_weights(two.run("local_steps", outer))
                self.assertEqual(weights["local steps"], weights["averaging by hand"])

    def test_unequal_amounts_of_data(self):
        with job() as two:
            two.run("uneven")

    def test_a_forked_child_ends(self):
        with job() as two:
            two.run("forked_child")

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
        self.both_end("raise_in_with", (75, 1), "worker 1.*ValueError: on purpose")

    def test_other_first_weights(self):
        with job(more="faults: {start_timeout_s: 10}\n") as two:
            workers = two.start_workers("other_weights")
            codes = [worker.wait() for worker in workers]
            self.assertIn(76, codes, "\n".join(worker.output for worker in workers))
            self.assertNotIn(0, codes)
            self.assertIn("weights", workers[codes.index(76)].output)

    def is_refused(self, program, text):
        with job(workers=1) as one:
            worker = one.start_worker(0, program)
            self.assertEqual(worker.wait(), 1, worker.output)
            self.assertRegex(worker.output, text)

    def test_sync_batch_norm(self):
        self.is_refused("sync_batch_norm", "TernError: 1: saw a SyncBatchNorm")

    def test_a_rank_that_is_not_known(self):
        self.is_refused("no_rank", "TernError: this worker's rank is not known")

    def interrupt(self, worker):
        begin = time.monotonic()
        worker.signal(signal.SIGINT)
        self.assertNotEqual(worker.wait(), 0, worker.output)
        self.assertIn("KeyboardInterrupt", worker.output)
        self.assertLess(time.monotonic() - begin, 4)

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


def main():
    try:
        import torch
    except ImportError:
        print("skipped: this Python has no PyTorch")
        return 77
    os.environ.setdefault("TERN_RANK", "0")  # torch_programs.py wants one.
    print("PyTorch", torch.__version__)
    add_program_tests()
    unittest.main()


if __name__ == "__main__":
    sys.exit(main())
