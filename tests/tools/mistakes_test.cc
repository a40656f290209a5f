// The mistakes that new users make at the command line and in job files: the exit code of each, and
// the sentence that answers it.
//
// Mistakes that need running daemons are tested where those are: ports, ranks, peers, damaged data
// and gradients that are not finite in tests/e2e/input_test.cc, weights in evaluate_test.cc, full
// disks in reasons_test.cc, signals and lost processes in tests/tools/run/run_test.cc and
// tests/e2e/stops_test.cc, two jobs in one folder in run/run_again_test.cc, a job that resumes with
// another key in tests/setup/saved_test.cc and tests/e2e/checkpoints_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tools/command_table.h"

namespace tern::tools {
namespace {

using testing::HasSubstr;

using Words = std::vector<std::string>;

struct Mistake {
  Words args;  // of `tern`; "JOB" is the job's file, "DIR/" begins a path in the test's folder
  int exit_code;
  const char* sentence;  // A part of the answer.
};

// A valid job in a folder of its own, for the mistakes that are made with it.
class MistakesTest : public testing::Test {
 protected:
  // Fails the test for each mistake that is not answered as it should be.
  void ExpectAnswers(const std::vector<Mistake>& mistakes) {
    for (const Mistake& mistake : mistakes) {
      Words args;
      for (const std::string& word : mistake.args) args.push_back(WithPaths(word));
      testing::internal::CaptureStdout();
      const Status status = RunCommandLine(args, "");
      testing::internal::GetCapturedStdout();
      EXPECT_EQ(ExitCode(status), mistake.exit_code) << testing::PrintToString(mistake.args);
      EXPECT_THAT(status.message(), HasSubstr(WithPaths(mistake.sentence)))
          << testing::PrintToString(mistake.args);
    }
  }
  // The same for `tern check` of the job with these values of --set.
  void ExpectAnswersToSettings(const std::vector<Mistake>& mistakes) {
    std::vector<Mistake> checks;
    for (const Mistake& mistake : mistakes) {
      Words args = {"check", "JOB"};
      for (const std::string& setting : mistake.args) args.insert(args.end(), {"--set", setting});
      checks.push_back({args, mistake.exit_code, mistake.sentence});
    }
    ExpectAnswers(checks);
  }
  void WriteFile(const std::string& name, const std::string& text) {
    const std::filesystem::path path = job_.folder() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  std::string WithPaths(std::string text) const {
    if (text == "JOB") return job_.job_file();
    if (const size_t dir = text.find("DIR/"); dir != std::string::npos)
      text.replace(dir, 3, job_.folder());
    return text;
  }

  const e2e::TestJob job_;
};

TEST_F(MistakesTest, InTheCommandLine) {
  ExpectAnswers({
      {{"chekc", "JOB"}, 64, "there is no command 'chekc'; did you mean tern check? Known: run, "},
      {{"train", "JOB"}, 64, "there is no command 'train'; did you mean tern run?"},
      {{"evaluate"}, 64, "did you mean tern_worker --job JOB --evaluate WEIGHTS?"},
      {{"top"}, 64, "JOB|URL is missing: The file of a running job with metrics.port, or"},
      {{"status", "JOB"}, 64, "nobody serves its status; start the job with, for instance, --set"},
      {{"status", "https://a"}, 64, "expected http://HOST:PORT/"},
      {{"convert"}, 64, "tern convert needs a word after it; known: pack, onnx"},
      {{"run"}, 64, "JOB is missing: The file of the job"},
      {{"run", "JOB", "JOB"}, 64, "which is one argument too many"},
      {{"run", "JOB", "--workers", "4"},
       64,
       "there is no flag --workers; that is a key of the "
       "job: say --set workers.count=4"},
      {{"run", "JOB", "--steps", "10"}, 64, "say --set train.steps=10"},
      {{"run", "JOB", "--batch", "64"}, 64, "say --set train.batch_total=64"},
      {{"run", "JOB", "--batch-size=64"}, 64, "say --set train.batch_total=64"},
      {{"run", "JOB", "--lr", "0.1"}, 64, "say --set train.schedule.learning_rate=0.1"},
      {{"run", "JOB", "--output", "out"}, 64, "say --set output_dir=out"},
      {{"run", "JOB", "--freeports"}, 64, "did you mean --free_ports?"},
      {{"run", "JOB", "--restarts", "many"}, 64, "--restarts: saw 'many'; allowed: a whole"},
      {{"run", "JOB", "--set"}, 64, "--set needs a value after it"},
      {{"run", "-"}, 64, "the job cannot come from -, because the daemons read it, too; write it"},
      {{"run", "/dev/stdin"}, 64, "cannot come from /dev/stdin"},
      {{"model", "resnet34"}, 64, "there is no network 'resnet34'; known: lenet, "},
      {{"run", "JOB", "--fail", "worker.9:x"},
       64,
       "with server.0 to server.0 or worker.0 to worker.1"},
  });
}

TEST_F(MistakesTest, InTheFileOfTheJob) {
  WriteFile("empty.yaml", "");
  WriteFile("comments.yaml", "# name: mine\n");
  WriteFile("braces.yaml", "{}\n");
  WriteFile("list.yaml", "- name: mine\n");
  WriteFile("text.yaml", "hello\n");
  WriteFile("tab.yaml", "name: mine\nservers:\n\t- address: 127.0.0.1:7500\n");
  WriteFile("quote.yaml", "name: \"mine\n");
  WriteFile("twice.yaml", "name: mine\nname: yours\n");
  WriteFile("alias.yaml", "name: &n mine\noutput_dir: *n\n");
  WriteFile("section.yaml", "train: 5\n");
  WriteFile("job.json", R"({"name": "mine", "sede": 1})");
  WriteFile("job.textproto", "train { optimizer { name: momentum } }\n");
  WriteFile("program.yaml", std::string("\177ELF\2\1\0\0", 8));
  WriteFile("folder/job.yaml", "");
  ExpectAnswers({
      {{"check", "DIR/none.yaml"}, 65, "cannot open DIR/none.yaml: No such file"},
      {{"check", "DIR/folder"}, 65, "cannot read DIR/folder: Is a directory"},
      {{"check", "DIR/program.yaml"}, 78, ":1:1: saw the byte \\x7f; allowed: printable UTF-8"},
      {{"check", "DIR/empty.yaml"},
       78,
       "empty.yaml:1:1: saw an empty job; allowed: a job with "
       "servers, workers, model, data, train; begin with a copy "
       "of configs/lenet_fashion.yaml"},
      {{"check", "DIR/comments.yaml"}, 78, "saw an empty job"},
      {{"check", "DIR/braces.yaml"}, 78, "saw an empty job"},
      {{"run", "DIR/empty.yaml"}, 78, "saw an empty job"},
      {{"check", "DIR/list.yaml"}, 78, ":1:1: saw a list; allowed: a map with the keys of a job"},
      {{"check", "DIR/text.yaml"}, 78, ":1:1: saw hello; allowed: a map with the keys of a job"},
      {{"check", "DIR/tab.yaml"}, 78, "tab.yaml:3:2: saw invalid YAML"},
      {{"check", "DIR/quote.yaml"}, 78, "saw invalid YAML"},
      {{"check", "DIR/twice.yaml"}, 78, ":2:1: name: saw the key a second time"},
      {{"check", "DIR/alias.yaml"}, 78, ":1:7: name: saw an anchor (&)"},
      {{"check", "DIR/section.yaml"}, 78, ":1:8: train: saw 5; allowed: a map of the keys"},
      {{"check", "DIR/job.json"},
       78,
       "job.json:1:18: sede: saw an unknown key; did you mean seed?"},
      {{"check", "DIR/job.textproto"}, 78, "name: saw momentum without quotes; allowed: "},
  });
}

TEST_F(MistakesTest, InKeysAndValues) {
  ExpectAnswersToSettings({
      {{"train.stesp=5"}, 78, "train.stesp: saw an unknown key; did you mean train.steps? Allowed"},
      {{"train.learning_rate=0.1"}, 78, "did you mean train.schedule.learning_rate? Allowed: one"},
      {{"momentum=0.9"}, 78, "did you mean train.optimizer.momentum? Allowed: one of name, seed"},
      {{"trian.steps=5"}, 78, "trian: saw an unknown key; did you mean train? Allowed: one of"},
      {{"nonsense=1"}, 78, "nonsense: saw an unknown key; allowed: one of name, seed"},
      {{"steps"}, 78, "--set steps: saw no '='; allowed: KEY=VALUE"},
      {{"servers.3.address=a:1"}, 78, "servers: saw the item 3; allowed: items 0 to 0"},
      {{"exchange.codec=ternray"}, 78, "saw ternray; did you mean ternary? Allowed: one of fp32"},
      {{"exchange.codec=Ternary"}, 78, "saw Ternary; did you mean ternary?"},
      {{"model.name=LeNet"}, 78, "saw LeNet; did you mean lenet?"},
      {{"model.name=resnet34"}, 78, "saw resnet34; allowed: one of lenet, cifarnet, "},
      {{"train.algorithm=asdg"}, 78, "saw asdg; did you mean asgd?"},
      {{"train.optimizer.name=adma"}, 78, "saw adma; did you mean adam?"},
      {{"data.format=jpeg"}, 78, "data.format: saw jpeg; allowed: one of idx, "},
      {{"seed=1e3"}, 78, "seed: saw 1e3; allowed: a whole number, 0 or more"},
      {{"seed=\"3\""}, 78, "seed: saw the text \"3\"; allowed: a whole number"},
      {{"train.steps=[5]"}, 78, "train.steps: saw a list; allowed: a whole number, at least 1"},
      {{"train.optimizer=adam"}, 78, "train.optimizer: saw adam; allowed: a map of the keys name"},
      {{"exchange.error_feedback=yes"}, 78, "saw yes; allowed: true or false"},
      {{"data.dir="}, 78, "data.dir: saw nothing; allowed: a text"},
      {{"workers.count=0"}, 78, "workers.count: saw 0; allowed: a whole number, 1 to 1024"},
      {{"workers.count=3"},
       78,
       "train.batch_total: saw 8; allowed: a multiple of workers.count "
       "(3), such as 6 or 9"},
      {{"train.epochs=2"},
       78,
       "saw both steps and epochs; allowed: exactly one of train.steps and "
       "train.epochs; null removes a key, as in --set train.epochs=null"},
      {{"train.steps=null"}, 78, "train: saw neither steps nor epochs"},
      {{"train.stesp=5", "seed=x", "workers.count=0"}, 78, "workers.count=0: workers.count: saw 0"},
  });
}

TEST_F(MistakesTest, InAddresses) {
  ExpectAnswersToSettings({
      {{"servers.0.address=127.0.0.1"},
       78,
       "saw 127.0.0.1; allowed: HOST:PORT with a port of 1 to"},
      {{"servers.0.address=127.0.0.1:70000"}, 78, "allowed: HOST:PORT with a port of 1 to 65535"},
      {{"servers.0.address=0.0.0.0:7500"}, 78, "bind_host says where the server binds"},
      {{"servers.0.address=10.77.0.1:7500"}, 78, "set security: curve and make keys with `tern"},
      {{R"(servers=[{address: "127.0.0.1:7500"}, {address: "127.0.0.1:7500"}])"},
       78,
       "servers[1].address: saw 127.0.0.1:7500, which another server has"},
      {{"metrics.port=70000"}, 78, "metrics.port: saw 70000; allowed: a whole number"},
  });
}

TEST_F(MistakesTest, InData) {
  for (const char* split : {"train", "test"}) {
    WriteFile(Cat("images/", split, "/cat/1.png"), "garbage\n");
    WriteFile(Cat("one_class/", split, "/README"), "");
  }
  ExpectAnswersToSettings({
      {{"data.dir=/nowhere"}, 65, "found neither /nowhere/train-images-idx3-ubyte nor "},
      {{"data.format=folder"}, 65, "/data/train: cannot be listed (No such file or directory)"},
      {{"data.format=folder", "data.dir=DIR/images"},
       65,
       "1.png: neither JPEG nor PNG: it begins with \"garbage\\x0a\"; damaged images so far: 1"},
      {{"data.format=folder", "data.dir=DIR/one_class"},
       65,
       "train: holds no folders; expected one for each class"},
      {{"data.format=cifar10"}, 65, "/data/data_batch_1.bin: cannot be opened"},
      {{"model.classes=5"}, 65, "with 10 classes; the model takes 1 x 28 x 28 and 5"},
      {{"model.input_channels=3"}, 65, "are 1 x 28 x 28 with 10 classes; the model takes 3 x 28"},
      {{"train.batch_total=500"},
       78,
       "the training set holds 240 images, fewer than "
       "train.batch_total (500)"},
  });
}

TEST_F(MistakesTest, InTheOutputFolder) {
  WriteFile("file", "");
  ExpectAnswers({
      {{"run", "JOB", "--set", "output_dir=DIR/file"}, 74, "/file: Not a directory; give one that"},
      {{"run", "JOB", "--set", "output_dir=/proc/tern"}, 74, "cannot create the folder /proc/tern"},
  });
}

// A network of one's own, with `to` in place of `from`.
std::string NetWith(const std::string& from, const std::string& to) {
  std::string net =
      "{net: {input: {channels: 1, height: 28, width: 28}, classes: 10, layers: ["
      "{name: conv1, conv: {outputs: 8, kernel: 5}}, {name: norm1, batch_norm: {}}, "
      "{name: relu1, relu: {}}, {name: pool1, max_pool: {kernel: 2}}, "
      "{name: conv2, conv: {outputs: 16, kernel: 5}}, {name: relu2, relu: {}}, "
      "{name: drop, dropout: {rate: 0.5}}, {name: scores, dense: {outputs: 10}}, "
      "{name: loss, softmax_loss: {}}]}}";
  const size_t begin = net.find(from);
  EXPECT_NE(begin, std::string::npos) << from;
  return "model=" + net.replace(begin, from.size(), to);
}

TEST_F(MistakesTest, InANetwork) {
  ExpectAnswersToSettings({
      {{NetWith("conv1, conv:", "conv1, conv2d:")},
       78,
       "layers[0].conv2d: saw an unknown key; did you mean model.net.layers[0].conv? Allowed:"},
      {{NetWith("kernel: 2", "kernal: 2")},
       78,
       "did you mean model.net.layers[3].max_pool.kernel?"},
      {{NetWith("{kernel: 2}", "{}")}, 78, "layer \"pool1\" (max_pool): kernel is 0; it must be 1"},
      {{NetWith("16, kernel: 5", "16, kernel: 25")},
       78,
       "layer \"conv2\" (conv): height: kernel 25 does not fit an input of 12; take a smaller"},
      {{NetWith("norm1, batch", "conv1, batch")},
       78,
       "two layers are called \"conv1\"; names must"},
      {{NetWith("{name: relu2, relu", "{name: relu2, inputs: [conv3], relu")},
       78,
       "its input \"conv3\" is made by no earlier layer; name the output of one"},
      {{NetWith(", {name: loss, softmax_loss: {}}", "")},
       78,
       "the last layer must be a softmax_loss"},
      {{NetWith("outputs: 10", "outputs: 9")},
       78,
       "its input is 9 x 1 x 1, but there are 10 classes"},
      {{NetWith("outputs: 8", "outputs: 0")},
       78,
       "layer \"conv1\" (conv): outputs is 0; it must be"},
      {{NetWith("rate: 0.5", "rate: 1.5")},
       78,
       "layer \"drop\" (dropout): rate is 1.5; it must be"},
      {{NetWith("relu1, relu: {}", "relu1, relu: {}, add: {}")}, 78, "saw add beside relu"},
      {{NetWith("relu1, relu: {}", "relu1")},
       78,
       "layer \"relu1\" (none): it has no kind; give it"},
      {{NetWith("{net:", "{name: lenet, net:")}, 78, "saw both name and net; allowed: exactly one"},
  });
}

}  // namespace
}  // namespace tern::tools
