/* A complete program over Tern's C interface: the workers of a job fit y = a x + b to points of their own,
 * by gradient descent on the mean of their gradients.
 *
 *   tern_server --job client/examples/least_squares.yaml --rank 0 &
 *   least_squares client/examples/least_squares.yaml 0 &
 *   least_squares client/examples/least_squares.yaml 1
 *
 * Prints the fit, which is the same in all workers, and exits with Tern's code. */
#include <stdio.h>
#include <stdlib.h>

#include "client/tern.h"

enum { kPoints = 100, kSteps = 400 };
static const float kRate = 0.3f;

/* Waits for `count` events of one type. Returns 0, or the code with which the job has ended. */
static int Await(tern_client *client, int type, int count) {
  tern_event event;
  while (count > 0) {
    tern_poll(client, 1, &event);
    if (event.type == TERN_LOG && event.level != TERN_INFO) fprintf(stderr, "%s\n", event.text);
    if (event.type == type) --count;
    if (event.type != TERN_ENDED) continue;
    if (event.code != TERN_OK) fprintf(stderr, "least_squares: %s\n", event.text);
    return event.code;
  }
  return TERN_OK;
}

/* Hands over a gradient of one number, which the mean replaces. */
static int Push(tern_client *client, uint32_t tensor, float *gradient) {
  tern_error error;
  int code;
  do {
    code = tern_push(client, tensor, gradient, gradient, &error);
  } while (code == TERN_AGAIN);
  if (code != TERN_OK) fprintf(stderr, "least_squares: %s\n", error.sentence);
  return code;
}

/* One step: the gradient of the mean squared error over this worker's points, and the update of the
 * weights (the slope a and the offset b) by the mean of all workers' gradients. */
static int Step(tern_client *client, uint32_t rank, float weights[2]) {
  float gradients[2] = {0, 0}, loss = 0;
  uint32_t i;
  int code;
  for (i = 0; i < kPoints; ++i) {
    const float x = (float)i / kPoints + (float)rank;
    const float error = weights[0] * x + weights[1] - (3 * x - 1);
    loss += error * error / kPoints;
    gradients[0] += 2 * error * x / kPoints;
    gradients[1] += 2 * error / kPoints;
  }
  tern_report(client, loss, kPoints);
  for (i = 0; i < 2; ++i) {
    code = Push(client, i, &gradients[i]);
    if (code != TERN_OK) return code;
  }
  code = Await(client, TERN_TENSOR, 2);
  for (i = 0; i < 2; ++i) weights[i] -= kRate * gradients[i];
  return code;
}

int main(int argc, char **argv) {
  const uint32_t one = 1;
  const tern_tensor tensors[2] = {{"slope", &one, 1}, {"offset", &one, 1}};
  tern_options options = {0};
  tern_client *client;
  tern_error error;
  float weights[2] = {0, 0};
  int code, step;
  if (argc != 3) {
    fprintf(stderr, "usage: least_squares JOB RANK\n");
    return 64;
  }
  options.abi_version = TERN_ABI_VERSION;
  options.job_path = argv[1];
  options.rank = (uint32_t)strtoul(argv[2], NULL, 10);
  options.tensors = tensors;
  options.num_tensors = 2;
  code = tern_open(&options, &client, &error);
  if (code != TERN_OK) {
    fprintf(stderr, "least_squares: %s\n", error.sentence);
    return code;
  }
  code = Await(client, TERN_READY, 1);
  for (step = 0; code == TERN_OK && step < kSteps; ++step) code = Step(client, options.rank, weights);
  if (code == TERN_OK) {
    tern_finish(client);
    code = Await(client, TERN_NOTHING - 1, 1); /* until the job has ended */
  }
  if (code == TERN_OK) printf("y = %.4f x + %.4f\n", weights[0], weights[1]);
  tern_close(client, code, "least_squares could not go on");
  return code;
}
