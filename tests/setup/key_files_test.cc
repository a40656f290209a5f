#include "setup/key_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/text.h"
#include "tests/setup/key_folder.h"

namespace tern::setup {
namespace {

using net::Principal;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kWorker = Principal::Role::kWorker;
constexpr auto kShard = Principal::Role::kShard;

std::string NewPublicText() { return net::ToText(net::MakeKeyPair().public_key); }

TEST(SecretFile, IsReadBackAndPrivate) {
  const KeyFolder folder;
  const net::KeyPair pair = net::MakeKeyPair();
  const std::string path = folder / "worker.0.secret";
  ASSERT_TRUE(WriteSecretFile(path, pair.secret_key).ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(info.st_size, 41);
  const auto secret = ReadSecretFile(path);
  ASSERT_TRUE(secret.ok()) << secret.status().message();
  EXPECT_EQ(net::PublicHalf(*secret), pair.public_key);
}

TEST(SecretFile, IsNeverOverwritten) {
  const KeyFolder folder;
  const std::string path = folder.Write("worker.0.secret", "mine");
  const Status status = WriteSecretFile(path, net::MakeKeyPair().secret_key);
  EXPECT_EQ(status.code(), Code::kCannotWrite);
  EXPECT_THAT(status.message(), AllOf(StartsWith(path), HasSubstr("never overwritten")));
  EXPECT_EQ(std::filesystem::file_size(path), 4u);
  std::filesystem::create_symlink(folder / "elsewhere", folder / "link");
  EXPECT_FALSE(WriteSecretFile(folder / "link", net::MakeKeyPair().secret_key).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere"));
}

// The sentence with which a file is refused.
std::string Refusal(const std::string& path) {
  const auto secret = ReadSecretFile(path);
  EXPECT_FALSE(secret.ok()) << path;
  EXPECT_EQ(secret.status().code(), Code::kBadJob);
  EXPECT_THAT(secret.status().message(), StartsWith(path + ": "));
  return secret.status().message();
}

TEST(SecretFile, ThatOthersCanUseIsRefused) {
  const KeyFolder folder;
  const std::string line = SecretText(net::MakeKeyPair().secret_key) + "\n";
  for (const unsigned mode : {0640u, 0604u, 0620u, 0602u, 0610u, 0601u, 0666u}) {
    EXPECT_THAT(Refusal(folder.Write("s", line, mode)), HasSubstr("expected 0600")) << mode;
  }
  EXPECT_TRUE(ReadSecretFile(folder.Write("s", line, 0400)).ok());
}

TEST(SecretFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const KeyFolder folder;
  const std::string path = folder.Write("s", SecretText(net::MakeKeyPair().secret_key) + "\n");
  ASSERT_EQ(chown(path.c_str(), 4711, 0), 0);
  EXPECT_THAT(Refusal(path), HasSubstr("saw a file of user 4711, expected one of user 0"));
}

TEST(SecretFile, OfRootThatNobodyButTheGroupMayReadIsAccepted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const KeyFolder folder;
  const std::string line = SecretText(net::MakeKeyPair().secret_key) + "\n";
  ASSERT_EQ(chmod(folder.path().c_str(), 0711), 0);
  const auto is_accepted = [&](unsigned mode) {
    const std::string path = folder.Write("s", line, mode);
    EXPECT_EQ(chown(path.c_str(), 0, 4711), 0);
    EXPECT_TRUE(setegid(4711) == 0 && seteuid(4712) == 0);
    const bool is_read = ReadSecretFile(path).ok();
    EXPECT_TRUE(seteuid(0) == 0 && setegid(0) == 0);
    return is_read;
  };
  EXPECT_TRUE(is_accepted(0440));
  EXPECT_TRUE(is_accepted(0640));
  for (const unsigned mode : {0400u, 0460u, 0444u, 0450u, 0644u}) EXPECT_FALSE(is_accepted(mode));
}

TEST(SecretFile, ThatIsNoRegularFileIsRefusedAtOnce) {
  const KeyFolder folder;
  EXPECT_THAT(Refusal(folder / "missing"),
              AllOf(HasSubstr("no such file"), HasSubstr("tern keys make")));
  folder.Write("s", SecretText(net::MakeKeyPair().secret_key) + "\n");
  std::filesystem::create_symlink(folder / "s", folder / "link");
  EXPECT_THAT(Refusal(folder / "link"), HasSubstr("symbolic link"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(folder / "pipe"), HasSubstr("no regular file"));
  EXPECT_THAT(Refusal(folder.path()), HasSubstr("no regular file"));
}

TEST(SecretFile, OfOtherContentIsRefusedWithoutRepeatingIt) {
  const KeyFolder folder;
  const std::string secret = SecretText(net::MakeKeyPair().secret_key);
  std::string with_space = secret;
  with_space[7] = ' ';
  for (const std::string& content :
       {std::string(), std::string("\n"), secret, secret + "\n\n", secret + "\r\n",
        " " + secret + "\n", secret + " ", "#" + secret.substr(1) + "x\n", with_space + "\n",
        secret.substr(1) + "\n", secret + "\n" + secret + "\n", std::string(1 << 20, 'a')}) {
    const std::string message = Refusal(folder.Write("s", content));
    for (size_t begin = 0; begin + 8 <= secret.size(); ++begin)
      EXPECT_THAT(message, Not(HasSubstr(secret.substr(begin, 8))));
  }
  EXPECT_THAT(Refusal(folder.Write("s", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\n")),
              HasSubstr("everybody knows"));
}

TEST(SecretFile, ReadingForbidsDumps) {
  const pid_t child = fork();  // The call has effect on the whole process.
  if (child == 0) {
    ForbidDumps();
    rlimit limit{};
    getrlimit(RLIMIT_CORE, &limit);
    _exit(prctl(PR_GET_DUMPABLE) == 0 && limit.rlim_cur == 0 && limit.rlim_max == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PeersFile, IsReadBack) {
  net::AllowList peers;
  for (uint32_t i = 0; i < 3; ++i) {
    peers[net::MakeKeyPair().public_key] = {kWorker, i};
    peers[net::MakeKeyPair().public_key] = {kShard, i};
  }
  peers[net::MakeKeyPair().public_key] = {kWorker, 2};  // a second key
  const KeyFolder folder;
  const auto read = ReadPeersFile(folder.Write("peers", PeersText(peers), 0644));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, peers);
}

TEST(PeersFile, MayHaveCommentsAndSpaces) {
  const std::string key = NewPublicText(), other_key = NewPublicText();
  const auto peers = ParsePeers(
      "# keys\n\n  worker 12=" + key + "\r\n\t# more\nshard  0   =   " + other_key, "peers");
  ASSERT_TRUE(peers.ok()) << peers.status().message();
  EXPECT_EQ(PeersText(*peers), "worker 12 = " + key + "\nshard 0 = " + other_key + "\n");
  EXPECT_THAT(*ParsePeers("", "peers"), IsEmpty());
}

TEST(PeersFile, RefusesLinesByNumber) {
  const std::string key = NewPublicText();
  const auto refusal = [](const std::string& text) {
    const auto peers = ParsePeers(text, "peers");
    EXPECT_EQ(peers.status().code(), Code::kBadJob) << text;
    return peers.status().message();
  };
  for (const std::string wrong :
       {"worker = ", "worker x = ", "worker -1 = ", "Worker 1 = ", "rank 1 = ", "worker 1 2 = ",
        "worker 4294967296 = ", " = ", "worker/1 = "}) {
    EXPECT_THAT(refusal("# keys\n" + wrong + key + "\n"),
                StartsWith("peers:2: saw a line of another form"))
        << wrong;
  }
  EXPECT_THAT(refusal(key), StartsWith("peers:1: saw a line of another form"));
  EXPECT_THAT(refusal("worker 1 = " + key.substr(1)), StartsWith("peers:1: saw 39 characters"));
  EXPECT_THAT(refusal("worker 1 = " + key + " x"), StartsWith("peers:1: saw 42 characters"));
  EXPECT_THAT(refusal("worker 1 = Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"),
              HasSubstr("everybody knows"));
  EXPECT_EQ(refusal("worker 1 = " + key + "\nworker 2 = " + key),
            "peers:2: saw a key of worker 1 again, expected each key once");
  EXPECT_EQ(refusal("worker 1 = " + key + "\nworker 1 = " + key),
            "peers:2: saw a key of worker 1 again, expected each key once");
  EXPECT_THAT(refusal("worker 1 = " + key + "\nworker 1 = " + NewPublicText() +
                      "\nworker 1 = " + NewPublicText()),
              StartsWith("peers:3: saw more than 2 keys of worker 1"));
  EXPECT_THAT(refusal(std::string(300000, '\n')), HasSubstr("more than 262144 bytes"));
}

TEST(PeersFile, DoesNotRepeatASecretInTheWrongFile) {
  const std::string secret = SecretText(net::MakeKeyPair().secret_key);
  const std::string message = ParsePeers(secret + "\n", "peers").status().message();
  EXPECT_THAT(message, Not(HasSubstr(secret.substr(0, 8))));
}

TEST(PeersFile, ThatOthersMayWriteIsRefused) {
  const KeyFolder folder;
  const std::string text = "worker 0 = " + NewPublicText() + "\n";
  for (const unsigned mode : {0664u, 0646u, 0620u})
    EXPECT_THAT(ReadPeersFile(folder.Write("peers", text, mode)).status().message(),
                HasSubstr("expected 0644"));
  EXPECT_TRUE(ReadPeersFile(folder.Write("peers", text, 0644)).ok());
  if (geteuid() != 0) return;
  ASSERT_EQ(chown((folder / "peers").c_str(), 4711, 0), 0);
  EXPECT_THAT(ReadPeersFile(folder / "peers").status().message(),
              HasSubstr("saw a file of user 4711"));
}

}  // namespace
}  // namespace tern::setup
