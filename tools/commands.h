// What the commands of `tern` do. command_table.cc lists them.
#pragma once

#include "common/base/status.h"
#include "setup/arguments.h"

namespace tern::tools {

using setup::Arguments;

// Every function below runs one command. `tern` exits with the exit code of the returned status.
// If the status is an error, `tern` first prints the status's message to stderr.

// Starts a job's servers and workers on this machine and supervises them until they end
// (run/run.cc).
Status RunJob(const Arguments& arguments);
// Starts programs of the user's as a job's workers, and its servers, on this machine, or any job on
// several hosts (launch/launch.cc).
Status LaunchPrograms(const Arguments& arguments);
// Becomes the server or worker that this task of a launcher is (launch/member.cc). Returns only an
// error.
Status BecomeMember(const Arguments& arguments);
// What LaunchPrograms starts on each of several hosts (launch/launch_host.cc).
Status RunLaunchHost(const Arguments& arguments);
// Runs a job with every combination of values of some keys (sweep/sweep.cc).
Status SweepJob(const Arguments& arguments);
// Trains a job's network for some steps at rising learning rates, and suggests one
// (find_lr/find_lr.cc).
Status FindLearningRate(const Arguments& arguments);
// Computes the weights of a network's first layer from the images (whiten/whiten.cc).
Status WhitenJob(const Arguments& arguments);
// Names the classes of images with given weights (classify/classify.cc).
Status ClassifyImages(const Arguments& arguments);
// Prints a job with all defaults (config.cc).
Status PrintConfig(const Arguments& arguments);
// Says whether a job can run here, and what it costs (check.cc).
Status CheckJob(const Arguments& arguments);
// Looks at this machine as a member of a job (doctor/doctor.cc).
Status RunDoctor(const Arguments& arguments);
// Writes a job for a folder of images (init/init.cc).
Status InitJob(const Arguments& arguments);
// Prints the layers of a network, or its NetDef (model.cc).
Status ShowModel(const Arguments& arguments);
// Forecasts a job's speed with other links, workers, codecs and algorithms
// (forecast/forecast_job.cc).
Status ForecastJob(const Arguments& arguments);
// Makes the keys of a job (keys.cc).
Status MakeKeys(const Arguments& arguments);
// Packs a data set into two files that load faster (convert/pack.cc).
Status ConvertPack(const Arguments& arguments);
// Writes a network with its weights as an ONNX file (convert/onnx.cc).
Status ConvertOnnx(const Arguments& arguments);
// Writes man pages and completion of shells (docs/generate_docs.cc).
Status GenerateDocs(const Arguments& arguments);
// Shows a running job in the terminal (top/top.cc).
Status ShowTop(const Arguments& arguments);
// Prints the status of a running job once (top/status.cc).
Status ShowStatus(const Arguments& arguments);

}  // namespace tern::tools
