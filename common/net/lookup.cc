#include "common/net/lookup.h"

#include <pthread.h>
#include <signal.h>

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::net {

struct Lookup::Question {
  Mutex mutex;
  std::optional<Result<std::vector<std::string>>> answer TERN_GUARDED_BY(mutex);
};

Lookup::Lookup(std::string host, Resolver resolver)
    : host_(std::move(host)), resolver_(resolver ? std::move(resolver) : Resolver(Resolve)) {
  if (std::optional<std::string> number = NumericAddress(host_); number.has_value())
    addresses_.push_back(*std::move(number));
}

Lookup::~Lookup() = default;

// The thread ends by itself, perhaps long after the Lookup: nothing stops getaddrinfo. It takes no
// signals, which are for the other threads of the process.
void Lookup::Ask() {
  question_ = std::make_shared<Question>();
  sigset_t all_signals, old_signals;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
  try {
    std::thread([question = question_, host = host_, resolver = resolver_] {
      pthread_setname_np(pthread_self(), "lookup");
      Result<std::vector<std::string>> answer = resolver(host);
      const MutexLock lock(question->mutex);
      question->answer.emplace(std::move(answer));
    }).detach();
  } catch (const std::system_error& error) {
    const MutexLock lock(question_->mutex);
    question_->answer.emplace(Status(
        Code::kAddress, Cat("the host \"", Printable(host_),
                            "\" cannot be looked up: there is no thread for it: ", error.what(),
                            "; raise the limit of threads (ulimit -u)")));
  }
  pthread_sigmask(SIG_SETMASK, &old_signals, nullptr);
}

const std::vector<std::string>& Lookup::Poll(Time now) {
  if (!addresses_.empty()) return addresses_;
  if (question_ == nullptr && now >= ask_at_) Ask();
  if (question_ == nullptr) return addresses_;
  std::optional<Result<std::vector<std::string>>> answer;
  {
    const MutexLock lock(question_->mutex);
    std::swap(answer, question_->answer);
  }
  if (!answer.has_value()) return addresses_;
  question_.reset();
  ask_at_ = now + kRetry;
  failure_ = answer->ok() ? "" : answer->status().message();
  if (answer->ok()) addresses_ = **std::move(answer);
  return addresses_;
}

void Lookup::Forget() {
  if (NumericAddress(host_).has_value()) return;
  addresses_.clear();
  ask_at_ = Time{};
}

}  // namespace tern::net
