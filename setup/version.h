// What --version prints.
#pragma once

#include <string>
#include <vector>

namespace tern::setup {

// The version of Tern: "0.1.0".
const char* TernVersion();
// The commit that the programs were built from, with "-dirty" if files differed from it; "unknown"
// if the tree is not one of git. Only the three programs link this (cmake/TernCommit.cmake).
const char* GitCommit();

// The text of --version: version, commit, version of the wire, and libraries: libzmq, protobuf, and
// `more_libraries`, each with its version.
std::string VersionText(const std::string& program, const std::string& commit,
                        const std::vector<std::string>& more_libraries);

}  // namespace tern::setup
