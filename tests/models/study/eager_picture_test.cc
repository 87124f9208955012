// plan_picture() in eager mode: the recorded allocations of an eager step, compared with the plan
// of that step.
#include <set>

#include <gtest/gtest.h>

#include "tessera/memory/plan_check.h"
#include "tessera/models/study/plan.h"

namespace tessera {
namespace {

TEST(EagerPicture, IsOneStepWithAllItsClassesAndNeverBelowThePlan) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 16;
  const PlanReport planned = plan(config);
  config.mode = Mode::kEager;
  const PlanPicture eager = plan_picture(config);

  EXPECT_EQ(check(eager.problem, eager.plan), std::nullopt);
  EXPECT_GE(lower_bound(eager.problem), planned.lower_bound);
  EXPECT_GE(eager.plan.bytes, lower_bound(eager.problem));
  std::set<std::string> groups, names;
  for (const BufferLabel& label : eager.labels) {
    groups.insert(label.group);
    names.insert(label.name);
  }
  EXPECT_EQ(groups, (std::set<std::string>{"activations", "gradients", "workspace"}));
  EXPECT_EQ(names.count("conv2d conv1"), 1u);
  EXPECT_EQ(names.count("conv2d_weight_grad conv1"), 1u);
}

}  // namespace
}  // namespace tessera
