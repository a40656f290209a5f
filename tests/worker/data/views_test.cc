#include "worker/data/views.h"

#include <gmock/gmock.h>

#include <vector>

namespace tern::data {
namespace {

using testing::ElementsAre;

std::vector<uint8_t> Shown(const View& view, const std::vector<uint8_t>& planes,
                           uint64_t num_planes, uint32_t height, uint32_t width) {
  std::vector<uint8_t> out(planes.size());
  ShowView(view, planes.data(), num_planes, height, width, out.data());
  return out;
}

TEST(Views, AreTheImageItsMirrorImageAndBothShifted) {
  const std::vector<uint8_t> image = {1, 2, 3,   //
                                      4, 5, 6,   //
                                      7, 8, 9};  //
  EXPECT_EQ(Shown({}, image, 1, 3, 3), image);
  EXPECT_THAT(Shown({.is_mirrored = true}, image, 1, 3, 3), ElementsAre(3, 2, 1, 6, 5, 4, 9, 8, 7));
  // Moved up and left; row and column 1 are seen again behind the border.
  EXPECT_THAT(Shown({.shift = 1}, image, 1, 3, 3), ElementsAre(5, 6, 5, 8, 9, 8, 5, 6, 5));
  EXPECT_THAT(Shown({.shift = -1}, image, 1, 3, 3), ElementsAre(5, 4, 5, 2, 1, 2, 5, 4, 5));
  EXPECT_THAT(Shown({.is_mirrored = true, .shift = -1}, image, 1, 3, 3),
              ElementsAre(5, 4, 5, 2, 1, 2, 5, 4, 5));
  EXPECT_THAT(Shown({.is_mirrored = true, .shift = 1}, image, 1, 3, 3),
              ElementsAre(5, 6, 5, 8, 9, 8, 5, 6, 5));
}

TEST(Views, TakeEachPlaneByItselfAndImagesOfOnePixel) {
  EXPECT_THAT(Shown({.is_mirrored = true}, {1, 2, 3, 4, 5, 6}, 2, 1, 3),
              ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(Shown({.shift = 1}, {1, 2, 3, 4}, 2, 2, 1), ElementsAre(2, 1, 4, 3));
  EXPECT_THAT(Shown({.shift = -1}, {7, 8}, 2, 1, 1), ElementsAre(7, 8));
}

TEST(Views, HaveWeightsThatAddUpToOne) {
  for (const auto& [views, count] :
       {std::pair{pb::Evaluation::one, 1}, std::pair{pb::Evaluation::mirrored, 2},
        std::pair{pb::Evaluation::shifted, 6}}) {
    double sum = 0;
    for (const View& view : ViewsOf(views)) sum += view.weight;
    EXPECT_EQ(sum, 1);
    EXPECT_EQ(ViewsOf(views).size(), static_cast<size_t>(count));
  }
}

}  // namespace
}  // namespace tern::data
