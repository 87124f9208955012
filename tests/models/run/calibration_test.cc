#include <gtest/gtest.h>

#include "tessera/models/run/metrics.h"

namespace tessera {
namespace {

// tests/golden/evaluation.py has these confidences and printed the expected values.
TEST(CalibrationTest, TheErrorIsThatOfGuoAndOthers) {
  const std::pair<float, bool> shares[] = {
      {0.2f, false},   {0.25f, true}, {0.5f, false},  {0.6f, true}, {0.625f, false},
      {0.9375f, true}, {0.95f, true}, {0.99f, false}, {1.0f, true}, {1.0f, true}};
  Calibration calibration;
  for (const auto& [share, correct] : shares) calibration.add(share, correct);
  const int64_t images[15] = {0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 5},
                correct[15] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 4};
  for (size_t k = 0; k < 15; ++k) {
    EXPECT_EQ(calibration.bins[k].images, images[k]) << k;
    EXPECT_EQ(calibration.bins[k].correct, correct[k]) << k;
  }
  EXPECT_EQ(calibration.images(), 10);
  EXPECT_NEAR(calibration.error(), 0.215250001848, 1e-12);
}

// Calculated by hand: four images with confidence 0.75, half of them correct; one with 1, correct.
TEST(CalibrationTest, EdgesBelongToTheBinBelow) {
  Calibration calibration;
  for (const bool correct : {true, false, true, false}) calibration.add(0.75, correct);
  calibration.add(1, true);
  EXPECT_EQ(calibration.bins[11].images, 4);
  EXPECT_EQ(calibration.bins[11].accuracy(), 0.5);
  EXPECT_EQ(calibration.bins[11].confidence(), 0.75);
  EXPECT_EQ(calibration.bins[14].images, 1);
  EXPECT_DOUBLE_EQ(calibration.confidence(), 0.8);
  EXPECT_DOUBLE_EQ(calibration.error(), 0.2);
  Calibration edges;
  edges.add(0, false);
  edges.add(3.0 / 15, false);
  edges.add(std::nextafter(3.0 / 15, 1.0), false);
  EXPECT_EQ(edges.bins[0].images, 1);
  EXPECT_EQ(edges.bins[2].images, 1);
  EXPECT_EQ(edges.bins[3].images, 1);
}

TEST(CalibrationTest, OfNothingAndOfWhatIsNoNumberIsNone) {
  Calibration calibration;
  EXPECT_TRUE(std::isnan(calibration.error()));
  calibration.add(0.5, true);
  EXPECT_EQ(calibration.error(), 0.5);
  calibration.add(std::nan(""), false);
  EXPECT_EQ(calibration.images(), 2);
  EXPECT_TRUE(std::isnan(calibration.error()));
  EXPECT_FALSE(std::signbit(calibration.error()));
}

}  // namespace
}  // namespace tessera
