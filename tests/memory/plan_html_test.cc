// The HTML page of a plan: tests its data, not its looks.
#include <gtest/gtest.h>

#include "tessera/memory/plan_draw.h"

namespace tessera {
namespace {

PlanPicture small_picture() {
  PlanPicture picture;
  picture.title = "two </script> buffers";
  picture.problem.buffers = {{.lower = 0, .upper = 4, .size = 64, .gaps = {{1, 2}}, .id = "a"},
                             {.lower = 2, .upper = 6, .size = 32, .id = "b\"<c"},
                             {.lower = 3, .upper = 3, .size = 32, .id = "never live"}};
  picture.plan = {{0, 64, 0}, 96};
  picture.labels = {{"%1 relu", "activations", "read by\nconv"}, {}, {}};
  picture.nodes = {"relu", "conv", "add"};
  picture.forward_ends = 2;
  return picture;
}

TEST(PlanHtml, CarriesEveryBuffer) {
  const PlanPicture picture = small_picture();
  const std::string page = draw_plan_html({&picture, 1});
  EXPECT_NE(page.find(R"([0,64,0,[0,1,2,4],"%1 relu","read by\nconv"])"), page.npos);
  EXPECT_NE(page.find(R"([64,32,1,[2,6],"b\"\u003cc",""])"), page.npos);
  EXPECT_NE(page.find(R"(bytes:96,bound:96,first:0,last:6,forward:2,)"), page.npos);
  EXPECT_NE(page.find(R"(groups:["activations","",])"), page.npos);
  EXPECT_NE(page.find(R"(nodes:["relu","conv","add",])"), page.npos);
  EXPECT_EQ(page.find("never live"), page.npos);
}

TEST(PlanHtml, DataCannotEndItsScript) {
  const PlanPicture picture = small_picture();
  const std::string page = draw_plan_html({&picture, 1});
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>"));
}

TEST(PlanHtml, StandsSideBySide) {
  const PlanPicture pictures[] = {small_picture(), small_picture()};
  const std::string page = draw_plan_html(pictures);
  size_t count = 0;
  for (size_t at = page.find("bytes:96"); at != page.npos; at = page.find("bytes:96", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(page.find("PICTURES*/"), page.npos);
}

TEST(PlanHtml, NeedsNothingElse) {
  const std::string page = draw_plan_html({});
  EXPECT_EQ(page.find("http"), page.npos);
  EXPECT_EQ(page.find("src="), page.npos);
}

}  // namespace
}  // namespace tessera
