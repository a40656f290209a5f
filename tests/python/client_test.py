"""tern_train.Client with real servers: what goes right, what is refused, and what is lost.

  client_test.py [-v] [TEST...]    with TERN_SERVER and TERN_LIBRARY (job.py)
"""
import csv
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from job import HERE, Job, first_to_end

SCRIPT = HERE / "client_worker.py"


def job(**options):
    return Job(SCRIPT, **options)


class Means(unittest.TestCase):
    def test_of_two_workers(self):
        with job() as two:
            two.run("means", 5, 5)

    def test_of_three_workers(self):
        with job(workers=3) as three:
            three.run("means", 5, 5, 5)

    def test_of_one_worker(self):
        with job(workers=1) as one:
            one.run("means", 3)

    def test_of_two_servers(self):
        with job(servers=2, bucket_kib=1) as two:
            two.run("means", 5, 5)

    def test_workers_may_finish_earlier_than_others(self):
        with job(workers=3) as three:
            three.run("means", 3, 8, 5)

    def test_a_worker_may_finish_before_its_first_step(self):
        with job() as two:
            two.run("means", 0, 4)

    def test_no_gradient_counts_as_zeros_and_a_mean_need_not_be_wanted(self):
        with job() as two:
            two.run("halves")

    def test_two_jobs_in_one_process(self):
        with job() as first, job() as second:
            first.start_workers("two_jobs", second.path)
            first.finish()
            second.finish()
            for worker in first.workers:
                self.assertIn("trained 2", worker.output)
                self.assertIn("trained 4", worker.output)


class Refusals(unittest.TestCase):
    def refuse(self, code, *words, workers=1, text, **options):
        """Runs workers of which the last must end with the code and the text."""
        with job(workers=workers, **options) as refused:
            last = refused.start_workers(*words)[-1]
            self.assertEqual(last.wait(), code, last.output)
            self.assertRegex(last.output, text)

    def test_a_tensor_that_was_pushed_in_this_step(self):
        self.refuse(64, "push_twice", text="pushed conv.weight twice in step 1, in which fc.weight was not pushed")

    def test_an_unknown_tensor(self):
        self.refuse(64, "push_unknown", text="pushed tensor 4; the table has the tensors 0 to 3")

    def test_a_push_after_finish(self):
        self.refuse(64, "push_after_finish", text="pushed a gradient")

    def test_a_rank_that_the_job_has_not(self):
        self.refuse(64, "wrong_rank", 3, text="saw rank 3; the job has 1 workers")

    def test_a_job_of_the_engine(self):
        with job(workers=1) as own:
            text = own.path.read_text().replace("train: {compute: client}",
                                                "model: {name: lenet}\ndata: {dir: data}\ntrain: {steps: 5, batch_total: 8}")
            other = own.folder / "engine.yaml"
            other.write_text(text)
            worker = own.start_worker(0, "means", 1, TERN_JOB=str(other))
            self.assertEqual(worker.wait(), 78, worker.output)
            self.assertIn("a program that updates its weights itself can take part only in a job with client", worker.output)

    def test_a_job_file_that_is_missing(self):
        with job(workers=1) as own:
            worker = own.start_worker(0, "means", 1, TERN_JOB=str(own.folder / "none.yaml"))
            self.assertNotEqual(worker.wait(), 0)
            self.assertRegex(worker.output, "error: TernError: .*none.yaml")

    def test_tables_that_make_no_sense(self):
        with job(workers=1) as own:
            worker = own.start_worker(0, "bad_tables")
            self.assertEqual(worker.wait(), 0, worker.output)
            self.assertEqual(worker.output.count("refused: "), 4, worker.output)

    def test_an_error_that_is_pickled_for_another_process(self):
        with job(workers=1) as own:
            worker = own.start_worker(0, "pickled")
            self.assertEqual(worker.wait(), 0, worker.output)
            self.assertIn("Ended 75 gone", worker.output)

    def test_use_after_close(self):
        self.refuse(64, "after_close", text="used after close")

    def test_a_client_whose_codec_remembers_must_be_able_to_go_back(self):
        more = "faults: {on_worker_loss: wait}\n"
        self.refuse(78, "keep", 1, codec="onebit", more=more + "checkpoints: {every_steps: 2}\n", text="goes_back=True")
        self.refuse(78, "keep_and_go_back", 1, codec="onebit", more=more, text="checkpoints.every_steps")

    def test_tasks_that_were_not_done(self):
        checkpoints = "checkpoints: {every_steps: 1}\n"
        self.refuse(64, "no_task", more=checkpoints, text="saw no TERN_STEP of tern_next")
        self.refuse(64, "no_keep", more=checkpoints, text="saw no tern_keep after TERN_SAVE")
        self.refuse(64, "no_tasks", text="did not say takes_tasks")

    def one_is_refused(self, program, text):
        """Of two workers that differ, the one that the server sees second is refused, and says why."""
        with job() as two:
            refused = first_to_end(two.start_workers(program))
            self.assertEqual(refused.wait(), 76, refused.output)
            self.assertRegex(refused.output, text)

    def test_other_tensors(self):
        self.one_is_refused("other_tensors", "error: .*(tensors|parameters|model)")

    def test_use_in_a_forked_child(self):
        with job(workers=1) as one:
            output, = one.run("in_a_fork")
            self.assertIn("child: 64 a Tern client was used in a forked child", output)


class Faults(unittest.TestCase):
    def test_a_killed_worker_ends_the_others_within_5_s(self):
        with job(workers=3) as three:
            workers = three.start_workers("paced", 6, 1, 3)
            victim = workers.pop(1)
            for step in range(3):
                victim.await_text(f"before step {step}")
                victim.say("go on")
            victim.await_text("before step 3")
            victim.signal(signal.SIGKILL)
            begin = time.monotonic()
            for worker in workers:
                self.assertEqual(worker.wait(), 75, worker.output)
                self.assertRegex(worker.output, "error: (?:Ended|TernError): .*worker 1")
            seconds = time.monotonic() - begin
            print(f"the others ended {seconds:.2f} s after the kill")
            self.assertLess(seconds, 5)

    def test_a_worker_that_leaves_ends_the_others_with_its_sentence(self):
        with job() as two:
            first, second = two.start_workers("leave")
            self.assertEqual(second.wait(), 0, second.output)
            self.assertNotEqual(first.wait(), 0, first.output)
            self.assertRegex(first.output, "error: (?:Ended|TernError): .*worker 1.*on purpose")

    def test_an_exception_in_a_program_that_closes_nothing(self):
        with job() as two:
            first, second = two.start_workers("never_closed")
            self.assertEqual(second.wait(), 1, second.output)
            self.assertEqual(first.wait(), 75, first.output)
            self.assertRegex(first.output, "error: Ended: .*worker 1")

    def number_of(self, steps, killed=None):
        """The state of all workers at the end of `keep`. Worker `killed` is killed before step 3 and started again."""
        with job(more="faults: {on_worker_loss: wait}\n") as two:
            workers = two.start_workers("keep", steps)
            for step in range(steps):
                workers[1].await_text(f"before step {step}")
                if step == 3 and killed is not None:
                    workers[killed].signal(signal.SIGKILL)
                    workers[killed].wait()
                    two.workers.remove(workers[killed])
                    workers[killed] = two.start_worker(killed, "keep", steps)
                    workers[1].await_text("before step 3")
                workers[1].say("go on")
            two.finish()
            numbers = {worker.output.split("the number is ")[1].strip() for worker in workers}
            self.assertEqual(len(numbers), 1, numbers)
            return numbers.pop()

    def test_a_killed_worker_that_returns_gets_the_state_of_another(self):
        undisturbed = self.number_of(6)
        self.assertEqual(float(undisturbed), 100 + sum((12 + 24) / 2 + 24 * step for step in range(6)))
        for killed in (0, 1):
            self.assertEqual(self.number_of(6, killed), undisturbed)

    def shrunk(self, returns):
        """Of three workers under shrink, worker 1 is killed before step 3, and perhaps started again before step 5. It begins when
        worker 0, which is held, or worker 2 gives it the state, in one of the steps that follow."""
        steps = 400 if returns else 8
        with job(workers=3, more="faults: {on_worker_loss: shrink, dead_after_s: 2}\n") as three:
            workers = three.start_workers("keep", steps, 0)
            for step in range(steps):
                workers[0].await_text(f"before step {step}")
                if step == 3:
                    lost = workers.pop(1)
                    lost.end()
                    three.workers.remove(lost)
                if step == 5 and returns:
                    workers.append(three.start_worker(1, "keep", steps, 0))
                if step >= 5 and returns and "has begun" not in workers[-1].output:
                    self.assertFalse(workers[-1].has_ended_within(0.1), workers[-1].output)
                workers[0].say("go on")
            three.finish()
            numbers = {worker.output.split("the number is ")[1].strip() for worker in workers}
            self.assertEqual(len(numbers), 1, numbers)
            self.assertTrue(all("has begun" in worker.output for worker in workers))

    def test_under_shrink_the_others_go_on(self):
        self.shrunk(returns=False)

    def test_under_shrink_a_worker_joins_again(self):
        self.shrunk(returns=True)

    def stopped(self, program, settles):
        """Of three workers under shrink, worker 2 is stopped once all have begun, and goes on two steps later, when the others have
        gone on without it. Worker 0, which is held, makes a step each 0.1 s until settles(worker 2)."""
        steps = 400
        more = "faults: {on_worker_loss: shrink, dead_after_s: 2}\ncheckpoints: {every_steps: 50}\n"
        with job(workers=3, more=more) as three:
            held, _, victim = three.start_workers(program, steps, 0)
            stop_step = has_settled = None
            for step in range(steps):
                held.await_text(f"before step {step}")
                if stop_step is None:
                    if all("has begun" in worker.output for worker in three.workers):
                        victim.signal(signal.SIGSTOP)
                        stop_step = step
                elif step == stop_step + 2:
                    self.assertFalse(settles(victim), victim.output)
                    victim.signal(signal.SIGCONT)
                has_settled = has_settled or settles(victim)
                if not has_settled and (stop_step is None or step >= stop_step + 2):
                    victim.has_ended_within(0.1)
                held.say("go on")
            self.assertTrue(has_settled, victim.output)
            if victim.has_ended_within(0):
                self.assertEqual(victim.wait(), 75, victim.output)
                three.workers.remove(victim)
                victim.end()
            three.finish()
            numbers = {worker.output.split("the number is ")[1].strip() for worker in three.workers}
            self.assertEqual(len(numbers), 1, numbers)

    def test_under_shrink_a_stopped_worker_that_takes_tasks_begins_again_in_its_process(self):
        self.stopped("keep_and_go_back", lambda worker: "went back" in worker.output)

    def test_under_shrink_a_stopped_worker_that_takes_no_tasks_ends_with_a_sentence(self):
        self.stopped("keep", lambda worker: "error: Ended: " in worker.output)

    def gone_back(self, disturb=None, codec="fp32"):
        """The number at the end of `keep_and_go_back`, of a job that `disturb` gets before step 5."""
        with job(codec=codec, more="faults: {on_worker_loss: wait}\ncheckpoints: {every_steps: 2}\n") as two:
            two.start_workers("keep_and_go_back", 8)
            two.workers[1].await_text("before step 0")
            for _ in range(5):
                two.workers[1].say("go on")
            two.workers[1].await_text("before step 5")
            if disturb is not None:
                disturb(two)
            for _ in range(8):
                two.workers[1].say("go on")
            two.finish()
            numbers = {worker.output.split("the number is ")[1].strip() for worker in two.workers}
            self.assertEqual(len(numbers), 1, numbers)
            return numbers.pop()

    def test_all_go_back_to_a_checkpoint_of_the_programs(self):
        def kill_worker(two):
            two.workers.pop().end()
            two.start_worker(1, "keep_and_go_back", 8)
            two.workers[0].await_text("went back")

        def kill_server(two):  # What an onebit server remembers is lost with it.
            two.restart_server()
            two.workers[1].say("go on")
            two.workers[1].await_text("went back")

        for codec, disturb in (("fp32", kill_worker), ("onebit", kill_worker), ("onebit", kill_server)):
            with self.subTest(codec=codec, fault=disturb.__name__):
                self.assertEqual(self.gone_back(disturb, codec), self.gone_back(codec=codec))

    def killed_server(self, count, shard, from_step):
        with job(servers=count, bucket_kib=1) as two:
            held = two.start_worker(1, "paced", 6, 1, 2)
            other = two.start_worker(0, "paced", 6, 1, 2)
            for step in range(6):
                held.await_text(f"before step {step}")
                if step == from_step:
                    two.restart_server(shard)
                held.say("go on")
            two.finish()
            self.assertEqual((held.wait(), other.wait()), (0, 0))

    def test_a_killed_server_that_returns(self):
        self.killed_server(count=1, shard=0, from_step=3)

    def test_a_killed_server_that_returns_in_the_first_step(self):
        self.killed_server(count=1, shard=0, from_step=1)

    def test_one_of_two_servers_that_returns(self):
        self.killed_server(count=2, shard=1, from_step=3)

    def test_ctrl_c_while_a_push_waits(self):
        with job() as two:
            worker = two.start_worker(0, "interrupted")
            worker.await_text("pushes")
            begin = time.monotonic()
            worker.signal(signal.SIGINT)
            self.assertEqual(worker.wait(), -signal.SIGINT, worker.output)
            self.assertIn("KeyboardInterrupt", worker.output)
            self.assertLess(time.monotonic() - begin, 2)


class Tables(unittest.TestCase):
    """What `tern` says of a job of a program that is not there, from its table of tensors."""

    TABLE = {"tensors": [{"name": "weight", "shape": [3, 400]}, {"name": "bias", "shape": [3]}]}

    @staticmethod
    def start(command, *words):
        tern = pathlib.Path(os.environ["TERN_SERVER"]).parent / "tern"
        return subprocess.run([tern, command, *map(str, words)], capture_output=True, text=True, timeout=120)

    def tern(self, of, command, *words):
        table = of.folder / "table.json"
        table.write_text(json.dumps(self.TABLE))
        ended = self.start(command, of.path, "--set", f"train.tensors={table}", *words)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_check(self):
        with job(codec="ternary_ans") as of:
            text = self.tern(of, "check")
        self.assertIn("is valid and can run here: ssgd, ternary_ans, workers: 2, servers: 1", text)
        self.assertRegex(text, r"fp32, each way +4812 ")
        self.assertRegex(text, r"gradients +4.8 KB")
        for not_tern in ("activations", "optimizer", "parameters  "):
            self.assertNotIn(not_tern, text.split("memory of a worker")[1])

    def test_forecast(self):
        with job(codec="ternary_ans") as of:
            rows_file = of.folder / "rows.csv"
            self.tern(of, "forecast", "--workers", 2, "--link_mbit", 1, "--compute_ms", 1, "--csv", rows_file)
            with rows_file.open() as file:
                rows = {row["codec"]: row for row in csv.DictReader(file)}
        self.assertEqual(set(rows), {"fp32", "ternary_ans"})
        for row in rows.values():
            self.assertEqual((row["workers"], float(row["compute_ms"])), ("2", 1))
        # 4,812 bytes of fp32 from each of two workers at 1 Mbit/s
        self.assertGreater(float(rows["fp32"]["step_ms"]), 2 * 4812 * 8 / 1e6 * 1e3)
        self.assertLess(float(rows["ternary_ans"]["step_ms"]), float(rows["fp32"]["step_ms"]) / 2)

    def test_doctor(self):
        with job(codec="ternary_ans") as of:
            of.servers[0].end()  # Its port is then free, and what doctor says does not depend on it.
            table = of.folder / "table.json"
            table.write_text(json.dumps(self.TABLE))
            ended = self.start("doctor", of.path, "--set", f"train.tensors={table}")
        self.assertRegex(ended.stdout, "good  output_dir: ")
        self.assertNotIn("  step: ", ended.stdout)

    def test_a_compute_time_that_tern_measures_itself(self):
        ended = self.start("forecast", HERE.parents[1] / "configs" / "lenet_mnist.yaml", "--compute_ms", 1)
        self.assertEqual(ended.returncode, 64, ended.stdout + ended.stderr)
        self.assertIn("--compute_ms: saw it for a job whose forward", ended.stderr)


if __name__ == "__main__":
    unittest.main()
