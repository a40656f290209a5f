#include "worker/data/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tern::data {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

MemoryDataset TestSet() {
  MemoryDataset set;
  set.channels = 1;
  set.classes = 2;
  set.class_names = {"a", "b"};
  set.labels = {0, 1, 1};
  set.sizes = {{2, 2}, {2, 3}, {4, 4}};
  return set;
}

TEST(Summary, SaysHowManyImagesOfWhichClassesThereAre) {
  MemoryDataset training = TestSet(), test = TestSet();
  training.labels.resize(60'000);
  test.class_names.clear();
  EXPECT_EQ(Summarize(training, test).text,
            "60,000 training and 3 test images in 2 classes (a, b)");
  training.class_names.clear();
  EXPECT_EQ(Summarize(training, test).text, "60,000 training and 3 test images in 2 classes");
}

TEST(Summary, StaysShortAndPrintable) {
  MemoryDataset set = TestSet();
  set.class_names.clear();
  for (int i = 0; i < 1000; ++i) set.class_names.push_back("class\n" + std::to_string(i));
  const std::string text = Summarize(set, set).text;
  EXPECT_THAT(text, HasSubstr("(class\\x0a0, class\\x0a1, "));
  EXPECT_THAT(text, EndsWith(", ...)"));
  set.class_names = {std::string(5000, '\xff')};
  EXPECT_LE(Summarize(set, set).text.size(), Summary::kMaxTextBytes);
}

TEST(Summary, DiffersWithWhatTrainsOtherwise) {
  const std::vector<std::function<void(MemoryDataset*)>> changes = {
      [](MemoryDataset* set) { set->labels.pop_back(); },
      [](MemoryDataset* set) { std::swap(set->labels[0], set->labels[1]); },
      [](MemoryDataset* set) {
        set->sizes[1] = {3, 2};
      },
      [](MemoryDataset* set) {
        set->class_names = {"b", "a"};
      },
      [](MemoryDataset* set) {
        set->class_names = {"ab", ""};
      },
      [](MemoryDataset* set) { set->classes = 3; },
      [](MemoryDataset* set) { set->height = set->width = 28; },
  };
  const Summary summary = Summarize(TestSet(), TestSet());
  EXPECT_EQ(Summarize(TestSet(), TestSet()).digest, summary.digest);
  for (size_t i = 0; i < changes.size(); ++i) {
    MemoryDataset changed = TestSet();
    changes[i](&changed);
    EXPECT_NE(Summarize(changed, TestSet()).digest, summary.digest) << i;
    EXPECT_NE(Summarize(TestSet(), changed).digest, summary.digest) << i;
  }
}

}  // namespace
}  // namespace tern::data
