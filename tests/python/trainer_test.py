"""tern_train.torch.Trainer with real servers: Tern trains a PyTorch module by any of its algorithms.

  trainer_test.py [-v] [TEST...]     with TERN_SERVER and TERN_LIBRARY (job.py)

Exits with 77 if this Python has no PyTorch.
"""
import contextlib
import importlib.util
import re
import sys
import unittest

from job import HERE, PATIENCE_S, Job, first_to_end

if importlib.util.find_spec("torch") is None:
    print("skipped: this Python has no PyTorch")
    sys.exit(77)

SCRIPT = HERE / "trainer_worker.py"


class ModuleJob(Job):
    """A job with train.compute: module. train, faults: further keys of these sections."""

    def __init__(self, train="", steps=30, rate=0.05, batch=16, faults="", more="", **options):
        self.train = f"{{compute: module, batch_total: {batch}, steps: {steps}, schedule: {{learning_rate: {rate}}}"
        self.train += ", optimizer: {name: sgd}" + (f", {train}" if train else "") + "}"
        super().__init__(SCRIPT, more=f"faults: {{start_timeout_s: 300{faults}}}\n" + more, **options)

    def text(self, **values):
        return super().text(**values).replace("{compute: client}", self.train)


def weights_in(output):
    return dict(re.findall(r"^weights of (.+): (\w{64})$", output, re.MULTILINE))


class Training(unittest.TestCase):
    def of_both_levels(self, update):
        """Trains LeNet by Tern and by a loop of its own, on two workers; returns the digests and differences they print."""
        module = ModuleJob(codec="ternary", steps=20, rate=0.1)
        client = Job(SCRIPT, codec="ternary", more="faults: {start_timeout_s: 300}\n")
        with module, client:
            module.start_workers("lenet_of_both_levels", module.path, client.path, 20, 0.1, update)
            module.finish()
            digests = [weights_in(worker.output) for worker in module.workers]
            differences = [float(re.search("^difference (.+)$", worker.output, re.MULTILINE)[1]) for worker in module.workers]
            self.assertEqual(digests[0], digests[1])
            return digests[0], differences

    def test_lenet_is_a_loop_with_the_same_equation_byte_for_byte(self):
        digests, differences = self.of_both_levels("equation")
        self.assertEqual(digests["module"], digests["client"])
        self.assertEqual(differences, [0, 0])

    def test_lenet_is_nearly_a_loop_with_pytorch_s_sgd(self):
        _, differences = self.of_both_levels("SGD")
        print(f"difference to torch.optim.SGD: {differences[0]}")
        self.assertLess(max(differences), 1e-5)

    def test_algorithms_follow_their_equations_in_double_precision(self):
        with contextlib.ExitStack() as stack:
            first = None
            jobs = {}
            for name, train, central in (
                    ("odsgd", "odsgd: {warmup_steps: 4, local: {learning_rate: 0.03}}", False),
                    ("pqasgd", "pqasgd: {p: 5}", False),
                    ("easgd", "easgd: {tau: 3, alpha: 0.1}", True),
                    ("dcasgd_a", "dcasgd_a: {lambda: 2, rho: 0.9}", True),
                    ("ssp", "ssp: {staleness: 5}", True)):
                more = f"model: {{weights: {first.folder}/first}}\n" if central else ""
                jobs[name] = stack.enter_context(ModuleJob(f"algorithm: {name}, {train}", more=more))
                if first is None:
                    first = jobs[name]
                    first.start("writer", SCRIPT, "first_weights", first.folder / "first", TERN_RANK="0").wait()
            worker = first.start_worker(0, "equations", *(f"{name}={job.path}" for name, job in jobs.items()))
            self.assertEqual(worker.wait(2 * PATIENCE_S), 0, worker.output[-4000:])
            distances = dict(re.findall(r"^farthest of (\w+): (\S+)$", worker.output, re.MULTILINE))
            self.assertEqual(set(distances), set(jobs), worker.output)
            for name, distance in distances.items():
                self.assertLess(float(distance), 2e-6, name)

    def test_modules_and_loops_of_many_kinds(self):
        names = ("memory", "plain", "zero_grad", "accumulated", "unused", "tied", "bfloat16", "frozen")
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(ModuleJob(more="evaluation: {every_steps: 10, ema_decay: 0.9}\n")) for _ in names]
            workers = jobs[0].start_workers("ways", *(f"{name}={job.path}" for name, job in zip(names, jobs)))
            for worker in workers:
                self.assertEqual(worker.wait(2 * PATIENCE_S), 0, worker.output[-4000:])
            for name, job in zip(names, jobs):
                self.assertEqual(job.servers[0].wait(), 0, name)
                self.assertIn("40 images", job.servers[0].output, name)
            first, second = (weights_in(worker.output) for worker in workers)
            self.assertEqual(set(first), set(names))
            self.assertEqual(first, second)
            self.assertEqual(first["plain"], first["zero_grad"])
            self.assertNotEqual(first["plain"], first["accumulated"])  # The batch norm sees other batches.


class Faults(unittest.TestCase):
    """What is lost, and what a loop does wrong."""

    def digests(self, job):
        job.finish()
        digests = {weights_in(worker.output)["train"] for worker in job.workers if "all steps" in worker.output}
        self.assertEqual(len(digests), 1)
        return digests.pop()

    def kill_in_step_8(self, job, worker):
        worker.await_text("step 8")
        worker.signal(9)
        worker.wait()
        job.workers.remove(worker)
        worker.end()

    def undisturbed(self):
        with ModuleJob(codec="ternary_ans") as job:
            job.start_workers("train")
            return self.digests(job)

    def test_a_killed_worker_and_a_killed_server_change_nothing(self):
        with ModuleJob(codec="ternary_ans", faults=", on_worker_loss: wait, dead_after_s: 5") as job:
            first, second = job.start_worker(0, "train"), job.start_worker(1, "train", "train", "8")
            self.kill_in_step_8(job, second)
            job.start_worker(1, "train", "train", "15").await_text("step 15")
            job.restart_server()
            job.workers[-1].say("")
            disturbed = self.digests(job)
            self.assertIn("step 29", first.output)
        self.assertEqual(disturbed, self.undisturbed())

    def test_all_processes_killed_resume_from_tern_s_checkpoints(self):
        more = "checkpoints: {every_steps: 5}\n"
        with ModuleJob(codec="ternary_ans", more=more) as job:
            job.start_workers("train", "train", "17")
            for worker in job.workers:
                worker.await_text("step 17")
            for worker in job.workers:
                worker.signal(9)
                worker.end()
            job.workers.clear()
            job.restart_server()
            job.start_workers("train")
            resumed = self.digests(job)
            for worker in job.workers:
                self.assertNotIn("step 3\n", worker.output)
                self.assertIn("step 15\n", worker.output)
        self.assertEqual(resumed, self.undisturbed())

    def test_under_shrink_the_others_go_on(self):
        with ModuleJob(codec="ternary_ans", faults=", on_worker_loss: shrink, dead_after_s: 2") as job:
            first, second = job.start_worker(0, "train"), job.start_worker(1, "train", "train", "8")
            self.kill_in_step_8(job, second)
            job.finish()
            self.assertIn("all steps", first.output)

    def assert_ends(self, kind, code, sentence, others_sentence):
        with ModuleJob() as job:
            first, second = job.start_workers("wrong", kind)
            self.assertEqual(first.wait(), code, first.output[-3000:])
            self.assertIn(sentence, first.output)
            self.assertNotEqual(second.wait(), 0)
            self.assertIn(others_sentence, second.output)

    def test_a_loop_that_ends_early(self):
        self.assert_ends("break", 1, "the program has left the job after step 2, before its end",
                         "it left: the program has left the job after step 2")

    def test_an_exception_in_the_loop(self):
        self.assert_ends("raise", 1, "my own error", "it left: ValueError: my own error")

    def test_a_step_without_a_gradient(self):
        self.assert_ends("no_backward", 1, "step 2 has no gradient: call backward(loss) once in each step",
                         "it left: TernError: step 2 has no gradient")

    def test_a_second_gradient_for_a_step(self):
        self.assert_ends("twice", 1, "called twice for one step", "it left: TernError: backward: called twice")

    def test_a_gradient_that_is_not_finite(self):
        self.assert_ends("nan", 1, "is not finite", "is not finite")

    def test_frozen_parameters_that_differ(self):
        with ModuleJob() as job:
            refused = first_to_end(job.start_workers("wrong", "frozen_differs"))
            self.assertNotEqual(refused.wait(), 0)
            self.assertIn("the model", refused.output)

    def test_a_job_of_the_other_kind(self):
        with ModuleJob() as module, Job(SCRIPT) as client:
            for job, kind, saw in ((module, "ddp", "saw module"), (client, "Trainer", "saw client")):
                worker = job.start_worker(0, "wrong_job", kind)
                worker.wait()
                self.assertRegex(worker.output, f"78: .*train.compute: {saw}")


if __name__ == "__main__":
    unittest.main()
