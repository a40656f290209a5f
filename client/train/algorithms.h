// The makers of the algorithms, each defined in the file of its name or in algorithms/asgd.cc.
#pragma once

#include <memory>

#include "client/train/algorithm.h"

namespace tern::client {

std::unique_ptr<Algorithm> MakeSsgd(const Context& context);
std::unique_ptr<Algorithm> MakeOdsgd(const Context& context);
std::unique_ptr<Algorithm> MakePsgd(const Context& context);
std::unique_ptr<Algorithm> MakeRsgd(const Context& context);
std::unique_ptr<Algorithm> MakePqasgd(const Context& context);
std::unique_ptr<Algorithm> MakeEasgd(const Context& context);

std::unique_ptr<Algorithm> MakeAsgd(const Context& context);
std::unique_ptr<Algorithm> MakeDcasgdC(const Context& context);
std::unique_ptr<Algorithm> MakeDcasgdA(const Context& context);
std::unique_ptr<Algorithm> MakeSsp(const Context& context);
std::unique_ptr<Algorithm> MakeSoftsync(const Context& context);
std::unique_ptr<Algorithm> MakeEasgdAsync(const Context& context);

}  // namespace tern::client
