/* The C interface of Tern: a program of any language and framework takes part in a job as a worker.
 *
 * In a job with train.compute: client, the program computes in each step the gradients of its tensors and
 * pushes them, Tern codes them and exchanges them with the other workers, and the mean over the workers
 * comes back. What the program does with the mean is its own affair.
 *
 *   tern_open                                 join the job; returns at once
 *   tern_poll     by one thread at a time     wait for what happens: TERN_READY, then for each step
 *                                             TERN_TENSOR for each tensor whose mean is in place
 *   tern_push     once a tensor and step      hand over a gradient
 *   tern_finish                               no more gradients from here; the others may still train
 *   tern_close                                leave, and free everything
 *
 * A program that asks tern_next before each step (takes_tasks) can go back: Tern keeps its checkpoints, in output_dir,
 * and gives it one of them when another worker, or a server, has lost what it remembers of earlier gradients.
 *
 * In a job with train.compute: module, Tern has the weights and trains by any of its algorithms, with checkpoints
 * and all else that a job may have, and the program computes gradients in Tern's memory:
 *
 *   tern_open                                 with the first values
 *   tern_memory                               where values, gradients and statistics are
 *   tern_poll                                 the log, and the end
 *   tern_next     by one thread               wait for what is to be done: a step, or an evaluation
 *   tern_push     once a tensor and step      the gradient is in its place
 *   tern_score    after an evaluation         its result
 *   tern_close
 *
 * A library in a foreign process: it starts threads of its own, and otherwise leaves the process alone.
 * It takes no signal, prints nothing, never forks and never ends the process; its log lines come through
 * tern_poll. After a fork, only the parent may use a client.
 *
 * Every function may be called from any thread, but tern_close not while another call of the same
 * client is under way. Functions that return int return 0 (TERN_OK), TERN_AGAIN, or an exit code of
 * the daemons (64 usage, 65 bad data, 69 address, 70 a bug of Tern's, 75 a peer was lost, 76
 * mismatch, 77 not allowed, 78 bad job file, 79 diverged) with one sentence in tern_error that says what
 * was seen, what was expected and what to do. Texts are UTF-8, end with 0 and belong to their struct.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with each change that a program could notice. tern_open refuses a program that was compiled
 * with another one. */
#define TERN_ABI_VERSION 4

#define TERN_OK 0
#define TERN_AGAIN (-1) /* nothing was done yet; call again */

#define TERN_TEXT_BYTES 2048

typedef struct tern_client tern_client;

typedef struct tern_error {
  int code;
  char sentence[TERN_TEXT_BYTES];
} tern_error;

/* A tensor of fp32 numbers, row-major. The order of the tensors, their names and shapes must be the same
 * in all workers. */
typedef struct tern_tensor {
  const char* name;      /* unique; 1 to 256 printable characters */
  const uint32_t* shape; /* outermost dimension first; of a weight matrix, the outputs */
  uint32_t num_dims;     /* at most 16; with 0 or 1 the tensor counts as a bias */
} tern_tensor;

typedef struct tern_options {
  uint32_t abi_version;         /* TERN_ABI_VERSION */
  uint32_t rank;                /* of this worker: 0 to workers.count - 1 */
  const char* job_path;         /* the job file; null: that of the environment variable TERN_JOB */
  const char* const* overrides; /* "KEY=VALUE", as after --set; may be null */
  size_t num_overrides;
  const tern_tensor* tensors;
  size_t num_tensors;
  /* Not 0 in one worker, rank 0 by custom: all others begin with its state, for which TERN_GIVE_STATE asks.
   * 0 in all: every program begins with what it has. */
  int has_first_state;

  /* What tern_save returned in an earlier start of all programs, each with its own; null: nothing. Copied. With it
   * every program goes on with its own weights; fixed_digest makes sure that they are the same. */
  const void* saved_state;
  size_t num_saved_bytes;

  /* Not 0, in a client's job: the program calls tern_next before each step. The same in all workers. saved_state is
   * then not needed, because Tern writes checkpoints of the program every checkpoints.every_steps steps. */
  int takes_tasks;

  /* Not 0: the job has train.compute: module. The rest means nothing in other jobs, but for fixed_digest. */
  int is_module;
  /* The first values of each tensor, which are copied. The job begins with those of the worker with
   * has_first_state, or with model.weights. */
  const float* const* first_values;
  /* The running means and variances of batch norms, by turns, with names of their own and one dimension each,
   * and their first values. They are averaged over the workers for evaluations and results. May be null. */
  const tern_tensor* statistics;
  size_t num_statistics;
  const float* const* first_statistics;
  /* A number that must be the same in all workers: a digest of what else the program computes with, such as frozen
   * parameters. In a client's job with saved_state: a digest of the weights, or 0, which is like any. */
  uint64_t fixed_digest;
  int evaluates; /* not 0: the program does TERN_EVALUATE */
} tern_options;

enum tern_event_type {
  TERN_NOTHING = 0, /* the time is up */
  TERN_LOG = 1,     /* a line of the log: `level` and `text` */
  TERN_READY = 2,   /* all workers are here, and training goes on after `step` steps */
  TERN_TENSOR = 3,  /* the mean gradient of `tensor` in `step` is in place */
  /* Another worker needs this program's state: call tern_give_state. The state is that between two
   * steps, and does not change before that: the means of the step that is under way come later. */
  TERN_GIVE_STATE = 4,
  TERN_STATE = 5, /* another worker's state has come; TERN_READY follows */
  TERN_ENDED = 6  /* the job has ended for this worker, with `code` and `text`; the last event */
};
enum tern_log_level { TERN_INFO = 0, TERN_WARNING = 1, TERN_ERROR = 2 };

typedef struct tern_event {
  int type;
  int level; /* TERN_LOG */
  int code;  /* TERN_ENDED: 0 or an exit code */
  uint32_t tensor;
  uint64_t step;     /* counts from 1; TERN_READY: how many are done */
  const void* state; /* TERN_STATE; valid until the next tern_poll */
  size_t num_state_bytes;
  char text[TERN_TEXT_BYTES];
} tern_event;

/* The version of the loaded library's interface, and of Tern ("0.1.0"). */
uint32_t tern_abi_version(void);
const char* tern_version(void);

enum tern_task_type {
  TERN_NO_TASK = 0, /* the time is up */
  /* Compute the gradient of `step` and push every tensor once. In a module's job gradients are zero before, and values do
   * not change until the last tensor was pushed. `step` is by one more than before, or less after the job has gone back. */
  TERN_STEP = 1,
  /* Evaluate part `part` of `num_parts` nearly equal parts of the test samples, and call tern_score. Values and statistics
   * are those to be evaluated. */
  TERN_EVALUATE = 2,
  /* The job has ended. A module's values are those of its result: the moving average, if the job has one. */
  TERN_OVER = 3,
  /* In a client's job: call tern_keep with the program's state as it is now, for a checkpoint. */
  TERN_SAVE = 4,
  /* In a client's job: go on from this state, which this program or that of another worker has given. The step before, if
   * the job went back in it, ended with means of zeros. */
  TERN_LOAD = 5
};

typedef struct tern_task {
  int type;
  uint32_t part;
  uint32_t num_parts;
  uint64_t step;     /* counts from 1 */
  const void* state; /* TERN_LOAD; valid until the next tern_next */
  size_t num_state_bytes;
} tern_task;

enum tern_memory_kind { TERN_VALUES = 0, TERN_GRADIENT = 1, TERN_STATISTIC = 2 };

enum tern_place {
  TERN_RANK = 0,      /* this process among the workers, from 0 */
  TERN_WORLD_SIZE = 1 /* how many workers there are */
};

/* What the environment says of this process's place, as a launcher (srun, mpirun, torchrun, tern launch, ...) has set it, and
 * the name of the variable that says so. TERN_RANK comes from the first that is set of TERN_RANK, SLURM_PROCID,
 * OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX and RANK; TERN_WORLD_SIZE from TERN_WORLD_SIZE, SLURM_NTASKS,
 * OMPI_COMM_WORLD_SIZE, PMI_SIZE or WORLD_SIZE. An error if none is set, or it has no number. */
int tern_environment(enum tern_place place, uint32_t* number, const char** variable,
                     tern_error* error);

/* Reads the job and joins it in the background. The options may be freed afterwards. The client is
 * freed by tern_close. */
int tern_open(const tern_options* options, tern_client** client, tern_error* error);

/* Waits up to `timeout_s` seconds for the next event. Events must be fetched, or they pile up. */
void tern_poll(tern_client* client, double timeout_s, tern_event* event);

/* Where the numbers of a tensor, its gradient, or a statistic are, in a module's job, until tern_close. The program
 * writes gradients, and may write statistics; while it has no task, it reads and writes nothing. Null if `index` is
 * none. */
float* tern_memory(tern_client* client, enum tern_memory_kind kind, uint32_t index);

/* Waits up to `timeout_s` seconds for the next task. An error if the job has failed, or if the task before was not
 * done. A client that has called tern_finish goes on asking until TERN_OVER, and may push again after TERN_LOAD. */
int tern_next(tern_client* client, double timeout_s, tern_task* task, tern_error* error);

/* The result of an evaluation, as sums over its samples. `correct`: those whose label has the largest score; `among_five`:
 * those whose label is among the five largest. An evaluation whose loss is not finite is never the best. */
void tern_score(tern_client* client, double loss, uint64_t correct, uint64_t among_five,
                uint64_t samples);

/* Hands over the gradient of a tensor in the current step, which ends when every tensor was pushed once.
 * In a module's job `gradient` is the tensor's memory of TERN_GRADIENT, and `mean` null.
 * `gradient`: the tensor's numbers; they are copied before the function returns, unless `mean` is the same place. Null:
 * zeros. `mean`: where the mean over the workers is to be written; it must stay valid, and as it is, until TERN_TENSOR or
 * TERN_ENDED. Null: the mean is not wanted. Waits a tenth of a second for the step before to end, or for the
 * job to begin, and then returns TERN_AGAIN. */
int tern_push(tern_client* client, uint32_t tensor, const float* gradient, float* mean,
              tern_error* error);

/* The mean loss and the number of samples of the step that is being pushed, for the log and the closing
 * table. Not needed. Before the first push of a step; in a module's job the job says how many samples. */
void tern_report(tern_client* client, double loss, uint32_t num_samples);

/* Gives this program's state (weights, optimizer, ...), in any format of the program's, to the worker that needs
 * it. It is copied. */
void tern_give_state(tern_client* client, const void* state, size_t num_bytes);

/* The answer to TERN_SAVE: this program's state, in any format of the program's. It is copied. */
void tern_keep(tern_client* client, const void* state, size_t num_bytes);

/* What Tern keeps of this program in a client's job between two steps, for the program's own checkpoint: what codecs remember
 * of earlier gradients, and the number of the step, on which drawn codes depend. If all programs start again with
 * what each saved after the same step, the job goes on as if nothing had happened. `state` is valid until the
 * next tern_save or tern_close. Waits a tenth of a second for the end of the step, and then returns TERN_AGAIN: call again
 * until it returns something else, before the next push. */
int tern_save(tern_client* client, const void** state, size_t* num_bytes, tern_error* error);

/* How many steps are done. */
uint64_t tern_steps(tern_client* client);

/* This worker's counters as a JSON object. Returns its length without the final 0; `json` gets as much of it
 * as fits. */
size_t tern_stats(tern_client* client, char* json, size_t num_bytes);

/* Says that this worker pushes no more, in a client's job. It takes part in the others' steps without a gradient, until
 * all have finished; then TERN_ENDED comes. */
void tern_finish(tern_client* client);

/* Leaves the job and frees the client. Before TERN_ENDED, the job fails with `code` and `sentence` (may be
 * null) of this worker. Waits up to a few seconds until the servers know. */
void tern_close(tern_client* client, int code, const char* sentence);

#ifdef __cplusplus
}
#endif
