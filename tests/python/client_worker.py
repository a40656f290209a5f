"""The workers of client_test.py:  client_worker.py PROGRAM [ARGUMENT...], with TERN_JOB and TERN_RANK.

A TernError ends a program with its exit code, and with a line that begins with "error:".
"""
import ctypes
import math
import os
import pickle
import sys
import threading

import tern_train
from tern_train import Client, Ended, EventType, TaskType, Tensor, TernError

TENSORS = (Tensor("conv.weight", (20, 5, 5)), Tensor("fc.weight", (10, 84)), Tensor("fc.bias", (10,)), Tensor("scale", ()))
RANK = int(os.environ["TERN_RANK"])
CALM_S = 60  # longer than anything that goes well


class Worker:
    """A client with an array for each tensor, of which gradients are sent and into which their means come."""

    def __init__(self, tensors=TENSORS, rank=RANK, job=None, **options):
        self.tensors = tensors
        self.arrays = [(ctypes.c_float * math.prod(tensor.shape))() for tensor in tensors]
        self.client = Client(job or os.environ["TERN_JOB"], tensors, rank, **options)

    def push(self, t, has_gradient=True, wants_mean=True):
        address = ctypes.addressof(self.arrays[t])
        self.client.push(t, address if has_gradient else None, address if wants_mean else None)

    def await_event(self, kind):
        """Polls until an event of the kind, or any if it is None, comes. Raises Ended if the job fails before."""
        while True:
            event = self.client.poll(CALM_S)
            if kind in (None, event.type) and event.code == 0:
                return event
            if event.type == EventType.ENDED:
                raise Ended(event.code, event.text or "the job has ended, and not by this program's finish()")

    def exchange(self, gradients):
        """A step. gradients: by tensor, the number that all its elements are. Checks that the elements of each mean are equal."""
        for array, number in zip(self.arrays, gradients):
            array[:] = [number] * len(array)
        for t in reversed(range(len(self.tensors))):
            self.push(t)
        steps = {self.await_event(EventType.TENSOR).step for _ in self.tensors}
        assert len(steps) == 1, f"means of several steps: {steps}"
        for tensor, array in zip(self.tensors, self.arrays):
            assert len(set(array)) == 1, f"the mean of {tensor.name} differs by element: {array[:4]}"
        return [array[0] for array in self.arrays]

    def finish(self):
        self.client.finish()
        self.await_event(EventType.ENDED)
        self.client.close()


class Keeper(Worker):
    """A worker whose state is a number, to which each step adds a mean. All begin with that of rank 0."""

    def __init__(self, **options):
        self.number = 100.0 * (RANK + 1)
        super().__init__(has_first_state=RANK == 0, **options)
        self.await_event(EventType.READY)

    def await_event(self, kind):
        while (event := super().await_event(None)).type != kind:
            if event.type == EventType.GIVE_STATE:
                self.client.give_state(repr(self.number).encode())
            elif event.type == EventType.STATE:
                self.number = float(event.state)
        return event

    def step(self, step):
        self.number += self.exchange([gradient(RANK, step, t) for t in range(len(TENSORS))])[0]


def gradient(rank, step, t):
    return float((rank + 1) * 12 + step * 24 + t)


def mean(ranks, step, t):
    return sum(gradient(rank, step, t) for rank in ranks) / len(ranks)


def means(*steps):
    """Trains for as many steps as the argument of this rank says, and checks each mean: of those that still train."""
    steps = [int(count) for count in steps]
    worker = Worker()
    for step in range(steps[RANK]):
        training = [rank for rank in range(len(steps)) if step < steps[rank]]
        seen = worker.exchange([gradient(RANK, step, t) for t in range(len(TENSORS))])
        for t, number in enumerate(seen):
            expected = mean(training, step, t)
            assert number == expected, f"step {step}, tensor {t}: saw {number}, expected {expected}"
        assert worker.client.steps in (step, step + 1)  # The last mean comes a moment before the step is done.
    stats = worker.client.stats()
    assert stats, "no counters"
    worker.finish()


def paced(steps, held_rank, workers):
    """Checks means as `means` does. The worker held_rank says "before step N" and waits for a line of input before each step."""
    worker = Worker()
    for step in range(int(steps)):
        if RANK == int(held_rank):
            print(f"before step {step}", flush=True)
            if not sys.stdin.readline():
                break
        seen = worker.exchange([gradient(RANK, step, t) for t in range(len(TENSORS))])
        expected = [mean(range(int(workers)), step, t) for t in range(len(TENSORS))]
        assert seen == expected, f"step {step}: saw {seen}, expected {expected}"
    worker.finish()


def keep(steps, held_rank=1):
    """Trains a Keeper from where the job is to step `steps`. One worker says "before step N" and waits for a line of input."""
    keeper = Keeper()
    print("has begun", flush=True)
    for step in range(keeper.client.steps, int(steps)):
        if RANK == int(held_rank):
            print(f"before step {step}", flush=True)
            sys.stdin.readline()
        keeper.step(step)
    print("the number is", keeper.number)
    keeper.finish()


def keep_and_go_back(steps, held_rank=1):
    """Trains a Keeper whose checkpoints Tern keeps. One worker says "before step N" and waits for a line of input."""
    keeper = Keeper(takes_tasks=True)
    print("has begun", flush=True)
    while (task := keeper.client.next_task(CALM_S)).type != TaskType.OVER:
        if task.type == TaskType.SAVE:
            keeper.client.keep(str(keeper.number).encode())
        elif task.type == TaskType.LOAD:
            keeper.number = float(task.state)
            print("went back", flush=True)
        elif task.step > int(steps):
            keeper.client.finish()
        else:
            if RANK == int(held_rank):
                print(f"before step {task.step - 1}", flush=True)
                sys.stdin.readline()
            keeper.step(task.step - 1)
    print("the number is", keeper.number)
    keeper.finish()


def no_task():
    """Pushes without having asked for a step."""
    keeper = Keeper(takes_tasks=True)
    keeper.push(0)


def no_keep():
    """Does not answer a request for its state."""
    keeper = Keeper(takes_tasks=True)
    while keeper.client.next_task(CALM_S).type != TaskType.SAVE:
        keeper.step(0)
    keeper.client.next_task(CALM_S)


def no_tasks():
    """Asks for tasks without having said so."""
    Keeper().client.next_task(CALM_S)


def interrupted():
    """Pushes while the other worker is missing."""
    worker = Worker()
    print("pushes", flush=True)
    try:
        worker.push(0)
    except KeyboardInterrupt:
        worker.client.close(75, "Ctrl-C")
        raise


def push_twice():
    worker = Worker()
    worker.push(0)
    worker.push(0)


def push_unknown():
    Worker().client.push(len(TENSORS), None, None)


def push_after_finish():
    worker = Worker()
    worker.exchange([1.0] * len(TENSORS))
    worker.client.finish()
    worker.push(0)


def halves():
    """Worker 0 hands over no gradient of tensor 1, and worker 1 wants no mean of it."""
    worker = Worker()
    for array in worker.arrays:
        array[:] = [8.0] * len(array)
    for t in range(len(TENSORS)):
        worker.push(t, has_gradient=(RANK, t) != (0, 1), wants_mean=(RANK, t) != (1, 1))
    told = {worker.await_event(EventType.TENSOR).tensor for _ in range(len(TENSORS) - RANK)}
    assert told == ({0, 1, 2, 3} if RANK == 0 else {0, 2, 3}), told
    assert [array[0] for array in worker.arrays] == [8.0, 4.0 if RANK == 0 else 8.0, 8.0, 8.0]
    worker.finish()


def wait_for_the_end(**options):
    Worker(**options).await_event(EventType.ENDED)


def wrong_rank(rank):
    Worker(rank=int(rank))


def other_tensors():
    wait_for_the_end(tensors=TENSORS if RANK == 0 else (*TENSORS[:-1], Tensor("scale", (2,))))


def bad_tables():
    """Tables of tensors that are refused at once."""
    for tensors in ((), (Tensor("a", (2,)), Tensor("a", (2,))), (Tensor("", (2,)),), (Tensor("a", (0,)),)):
        try:
            Worker(tensors=tensors)
        except TernError as error:
            print(f"refused: {error.code} {error}")
        else:
            raise AssertionError(f"{tensors} was taken")


def pickled():
    error = pickle.loads(pickle.dumps(Ended(75, "gone")))
    print(type(error).__name__, error.code, error)


def after_close():
    worker = Worker()
    worker.exchange([1.0] * len(TENSORS))
    worker.finish()
    worker.client.close()  # A second time: nothing.
    worker.push(0)


def in_a_fork():
    """The child may not use the client, and its end is not the parent's. The parent goes on."""
    worker = Worker()
    worker.exchange([1.0] * len(TENSORS))
    child = os.fork()
    if child == 0:
        try:
            worker.push(0)
        except TernError as error:
            print(f"child: {error.code} {error}", flush=True)
        worker.client.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    worker.exchange([2.0] * len(TENSORS))
    worker.finish()


def two_jobs(other_job):
    """Two clients, each with a thread of its own."""
    workers = [Worker(), Worker(job=other_job, tensors=TENSORS[:2])]

    def train(worker, factor):
        for step in range(20):
            number = factor * (RANK + 1 + step)
            seen = worker.exchange([number] * len(worker.tensors))
            assert seen == [factor * (1.5 + step)] * len(worker.tensors), seen
        worker.finish()
        print(f"trained {len(worker.tensors)}\n", end="")  # one piece, as two threads print

    threads = [threading.Thread(target=train, args=(worker, 2.0 ** i)) for i, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def leave():
    """Worker 1 leaves in the middle, with a sentence."""
    worker = Worker()
    worker.exchange([1.0] * len(TENSORS))
    if RANK == 1:
        return worker.client.close(70, "on purpose")
    worker.exchange([1.0] * len(TENSORS))


def never_closed():
    """An exception ends worker 1, which has not closed its client."""
    worker = Worker()
    worker.exchange([1.0] * len(TENSORS))
    if RANK == 1:
        raise ValueError("on purpose")
    worker.exchange([1.0] * len(TENSORS))


def versions():
    print(tern_train.abi_version(), tern_train.version())


def main():
    program, *words = sys.argv[1:]
    try:
        globals()[program](*words)
    except TernError as error:
        print(f"error: {type(error).__name__}: {error}", flush=True)
        sys.exit(error.code)


if __name__ == "__main__":
    main()
