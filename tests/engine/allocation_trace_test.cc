// Tests of AllocationTrace: the recorded allocations of eager mode.
#include "tessera/engine/allocation_trace.h"

#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/plan_check.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = 4096;
const Shape kShape{kBytes / 4};

Tensor block() { return full(kShape, 1.0, DType::f32); }

TEST(AllocationTrace, SaysWhatCameWhenAndWhere) {
  const Tensor a = block();
  const AllocationTrace trace;
  {
    const ModulePathScope outer("stem"), inner("conv1");
    Tensor b = a + a;  // step 0
    Tensor c = b * b;  // step 1
    b = Tensor();
    c = exp(c);  // step 2; the product is released after it
  }
  const Tensor d = empty({DType::f32, kShape, current_device()});  // step 3
  const PlanPicture picture = trace.picture("a few ops");

  EXPECT_EQ(picture.title, "a few ops");
  ASSERT_EQ(picture.nodes.size(), 4u);
  EXPECT_EQ(picture.nodes[0], "add stem.conv1");
  EXPECT_EQ(picture.nodes[1], "mul stem.conv1");
  EXPECT_EQ(picture.nodes[3], "empty");
  const std::vector<Interval>& blocks = picture.problem.buffers;
  ASSERT_EQ(blocks.size(), 4u);  // a is older
  const std::pair<int, int> lives[] = {{0, 2}, {1, 3}, {2, 3}, {3, 4}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(blocks[i].lower, lives[i].first) << i;
    EXPECT_EQ(blocks[i].upper, lives[i].second) << i;
    EXPECT_EQ(blocks[i].size, kBytes) << i;
    EXPECT_EQ(picture.labels[i].group, "activations") << i;
  }
  EXPECT_EQ(picture.labels[0].name, "add stem.conv1");
  EXPECT_EQ(picture.labels[0].details, "released after mul stem.conv1");
  EXPECT_EQ(picture.labels[3].details, "never released");
  EXPECT_EQ(check(picture.problem, picture.plan), std::nullopt);
  EXPECT_EQ(lower_bound(picture.problem), 2 * kBytes);
}

TEST(AllocationTrace, BytesThatAreUsedAgainAreTheSameInThePicture) {
  block();  // the bytes are in the cache now
  const AllocationTrace trace;
  for (int i = 0; i < 5; ++i) block();
  const PlanPicture picture = trace.picture("");
  ASSERT_EQ(picture.problem.buffers.size(), 5u);
  EXPECT_EQ(picture.plan.bytes, kBytes);
  EXPECT_EQ(check(picture.problem, picture.plan), std::nullopt);
}

TEST(AllocationTrace, ABlockThatIsReleasedAndAskedForWithinOneStepIsNotTwoAtOnce) {
  const Tensor a = block();
  AllocationTrace trace;
  trace.begin_op("op");
  for (int i = 0; i < 3; ++i) allocate_storage(kBytes, a.device());
  trace.end_op();
  const PlanPicture picture = trace.picture("");
  EXPECT_EQ(picture.problem.buffers.size(), 3u);
  EXPECT_EQ(check(picture.problem, picture.plan), std::nullopt);
  EXPECT_EQ(lower_bound(picture.problem), kBytes);
}

TEST(AllocationTrace, TheInnermostWrites) {
  const Tensor a = block();
  const AllocationTrace outer;
  const Tensor b = a + a;
  {
    const AllocationTrace inner;
    const Tensor c = a + a;
    EXPECT_EQ(inner.picture("").labels.size(), 1u);
  }
  const Tensor d = a + a;
  EXPECT_EQ(outer.picture("").labels.size(), 2u);
  EXPECT_EQ(AllocationTrace::current(), &outer);
}

TEST(AllocationTrace, PeakIsTheAllocators) {
  const Tensor a = block();
  Allocator& allocator = eager_allocator(a.device());
  allocator.reset_peak();
  const auto before = static_cast<int64_t>(allocator.statistics().live_bytes);
  const AllocationTrace trace;
  Tensor x = a;
  std::vector<Tensor> kept;
  for (int i = 0; i < 20; ++i) {
    x = exp(x * a) + a;
    if (i % 3 == 0) kept.push_back(x);
    if (i % 7 == 6) kept.erase(kept.begin());
  }
  const PlanPicture picture = trace.picture("");
  EXPECT_EQ(lower_bound(picture.problem),
            static_cast<int64_t>(allocator.statistics().peak_live_bytes) - before);
  EXPECT_EQ(check(picture.problem, picture.plan), std::nullopt);
}

}  // namespace
}  // namespace tessera
