#include "common/net/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <algorithm>
#include <string>

#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const SecretKey& key) {
  const KeyText text = ToText(key);
  return {text.begin(), text.end()};
}

TEST(Keys, TextIsReadBack) {
  for (int i = 0; i < 20; ++i) {
    const KeyPair pair = MakeKeyPair();
    EXPECT_EQ(Value(ParsePublicKey(ToText(pair.public_key))), pair.public_key);
    const SecretKey secret_key = Value(ParseSecretKey(TextOf(pair.secret_key)));
    EXPECT_TRUE(std::equal(secret_key.data(), secret_key.data() + SecretKey::kSize,
                           pair.secret_key.data()));
    EXPECT_EQ(PublicHalf(secret_key), pair.public_key);
  }
}

TEST(Keys, NoTwoPairsAreEqual) { EXPECT_NE(MakeKeyPair().public_key, MakeKeyPair().public_key); }

TEST(Keys, PublicHalfIsThatOfLibzmq) {
  for (int i = 0; i < 20; ++i) {
    const KeyPair pair = MakeKeyPair();
    char public_text[kKeyTextSize + 1] = {};
    ASSERT_EQ(zmq_curve_public(public_text, TextOf(pair.secret_key).c_str()), 0);
    EXPECT_EQ(ToText(pair.public_key), public_text);
  }
}

TEST(Keys, KeysOfLibzmqAreRead) {
  char public_text[kKeyTextSize + 1] = {}, secret_text[kKeyTextSize + 1] = {};
  ASSERT_EQ(zmq_curve_keypair(public_text, secret_text), 0);
  EXPECT_EQ(PublicHalf(Value(ParseSecretKey(secret_text))), Value(ParsePublicKey(public_text)));
}

TEST(Keys, TextOfAnotherLengthIsRefused) {
  const std::string text = ToText(MakeKeyPair().public_key);
  for (const std::string& wrong :
       {std::string(), text.substr(1), text + "0", text + "\n", text.substr(5)}) {
    EXPECT_THAT(ParsePublicKey(wrong).status().message(),
                HasSubstr(std::to_string(wrong.size()) + " characters, expected a key of 40"));
    EXPECT_FALSE(ParseSecretKey(wrong).ok());
  }
}

TEST(Keys, CharactersThatAreNotOfZ85AreRefused) {
  const std::string text = TextOf(MakeKeyPair().secret_key);
  for (const char wrong :
       {' ', '"', '\'', '\0', '\n', '\x7f', '\xff', ',', ';', '_', '`', '|', '~', '\\'}) {
    for (const size_t place : {size_t{0}, size_t{17}, size_t{39}}) {
      std::string wrong_text = text;
      wrong_text[place] = wrong;
      EXPECT_EQ(ParsePublicKey(wrong_text).status().code(), Code::kBadJob) << int{wrong};
      EXPECT_EQ(ParseSecretKey(wrong_text).status().code(), Code::kBadJob) << int{wrong};
    }
  }
  // Five characters of Z85 that stand for more than four bytes.
  EXPECT_FALSE(ParsePublicKey(std::string(kKeyTextSize, '#')).ok());
}

TEST(Keys, KeysThatEverybodyKnowsAreRefused) {
  EXPECT_THAT(ParsePublicKey("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7").status().message(),
              HasSubstr("everybody knows"));
  EXPECT_FALSE(ParsePublicKey("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID").ok());
  EXPECT_THAT(ParseSecretKey("JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6").status().message(),
              HasSubstr("everybody knows"));
  EXPECT_FALSE(ParseSecretKey("D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs").ok());
  EXPECT_FALSE(ParsePublicKey(std::string(kKeyTextSize, '0')).ok());
  EXPECT_FALSE(ParseSecretKey(std::string(kKeyTextSize, '0')).ok());
}

TEST(Keys, ARefusalHasNothingOfASecret) {
  std::string text = TextOf(MakeKeyPair().secret_key);
  text[20] = '~';
  for (const std::string& wrong : {text, text + "x", text.substr(0, 39)}) {
    const std::string message = ParseSecretKey(wrong).status().message();
    for (size_t begin = 0; begin + 8 <= wrong.size(); ++begin)
      EXPECT_THAT(message, Not(HasSubstr(wrong.substr(begin, 8))));
  }
}

}  // namespace
}  // namespace tern::net
