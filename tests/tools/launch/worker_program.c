/* A program that takes part in a job under `tern launch`, for tests.
 *
 *   worker_program STEPS [RANK STEP HOW]    0 steps: it goes on for ever
 *
 * At that step the worker of this rank exits with the code HOW, or, if HOW begins with -, is killed by that signal,
 * unless the file named by the environment variable ONCE exists, which it makes. Prints "step N" of the steps 1, 20, 40, ... */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/tern.h"

static void Fail(int how) {
  const char *once = getenv("ONCE");
  if (once != NULL && open(once, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0) return;
  if (how < 0) raise(-how);
  fprintf(stderr, "worker_program: as told\n");
  exit(how);
}

/* Waits for an event of this type. Returns 0, or the code with which the job has ended. */
static int Await(tern_client *client, int type, float *weight) {
  tern_event event;
  for (;;) {
    tern_poll(client, 1, &event);
    if (event.type == TERN_GIVE_STATE) tern_give_state(client, weight, sizeof *weight);
    if (event.type == TERN_STATE) *weight = *(const float *)event.state;
    if (event.type == type) return TERN_OK;
    if (event.type == TERN_ENDED) return event.code;
  }
}

int main(int argc, char **argv) {
  const uint32_t one = 1;
  const tern_tensor tensor = {"w", &one, 1};
  const struct timespec pause = {0, 5 * 1000 * 1000};
  tern_options options = {0};
  tern_client *client;
  tern_error error;
  float weight = 0, gradient;
  int code;
  const uint64_t steps = strtoull(argv[1], NULL, 10);
  options.abi_version = TERN_ABI_VERSION;
  options.job_path = getenv("TERN_JOB");
  options.rank = (uint32_t)atoi(getenv("TERN_RANK"));
  options.tensors = &tensor;
  options.num_tensors = 1;
  options.has_first_state = options.rank == 0;
  code = tern_open(&options, &client, &error);
  if (code != TERN_OK) {
    fprintf(stderr, "worker_program: %s\n", error.sentence);
    return code;
  }
  code = Await(client, TERN_READY, &weight);
  while (code == TERN_OK && (steps == 0 || tern_steps(client) < steps)) {
    const uint64_t step = tern_steps(client);
    if (argc == 5 && options.rank == (uint32_t)atoi(argv[2]) && step == strtoull(argv[3], NULL, 10))
      Fail(atoi(argv[4]));
    gradient = 1;
    do {
      code = tern_push(client, 0, &gradient, &gradient, &error);
    } while (code == TERN_AGAIN);
    if (code == TERN_OK) code = Await(client, TERN_TENSOR, &weight);
    weight += gradient;
    if (step % 20 == 0) {
      printf("step %llu\n", (unsigned long long)step);
      fflush(stdout);
    }
    nanosleep(&pause, NULL);
  }
  if (code == TERN_OK) {
    tern_finish(client);
    code = Await(client, TERN_ENDED, &weight);
  }
  printf("ended with %d\n", code);
  tern_close(client, code, "the program has left the job");
  return code;
}
