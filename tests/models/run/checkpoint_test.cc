// Checkpoint files: what is written comes back, what is damaged is refused, and no order of bytes
// makes reading do harm. TESSERA_LONG_TESTS=1: ten times as many mutants.
#include "tessera/models/run/checkpoint.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"
#include "tessera/tests/counted_new.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {

namespace {

using namespace testing_checkpoint;

constexpr char kConfig[] = "seed: 5\nmodel:\n  name: mlp\n";

std::string sealed_image(const Tensors4& tensors, const TrainingState& state) {
  CheckpointImage image(tensors.persistent(), kConfig);
  image.take(state);
  std::string bytes(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  char seal[kSealBytes];
  make_seal(std::as_bytes(std::span(bytes)), seal);
  return bytes.append(seal, kSealBytes);
}

std::unique_ptr<ByteSource> source(const std::string& bytes) {
  return std::make_unique<MemorySource>(std::as_bytes(std::span(bytes)));
}

std::string error_of(const std::string& bytes, const Tensors4& into) {
  try {
    CheckpointFile(source(bytes), "x").load(into.persistent());
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Checkpoint, ComesBackBitForBit) {
  const Tensors4 tensors(1), other(2);
  ASSERT_NE(tensors.bytes(), other.bytes());
  TrainingState state = state_at(500);
  state.best_step = 497;
  state.best_value = 0.1 + 0.2;
  state.evaluation_due = 1;
  const std::string bytes = sealed_image(tensors, state);
  const CheckpointFile file(source(bytes), "x");
  EXPECT_EQ(file.state(), state);
  EXPECT_EQ(file.config(), kConfig);
  EXPECT_TRUE(file.written_by().starts_with("tessera ")) << file.written_by();
  file.load(other.persistent());
  EXPECT_EQ(other.bytes(), tensors.bytes());
}

TEST(Checkpoint, TellsWhatInferenceNeeds) {
  const Tensors4 tensors(1), other(2);
  const std::string inference = "{\"model\": \"mlp\"}      ";
  CheckpointImage image(tensors.persistent(), kConfig, inference);
  EXPECT_EQ(image.bytes().size(),
            CheckpointImage::planned_bytes(tensors.persistent(), kConfig, inference.size()));
  image.take(state_at(5));
  std::string bytes(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  char seal[kSealBytes];
  make_seal(std::as_bytes(std::span(bytes)), seal);
  bytes.append(seal, kSealBytes);
  const CheckpointFile file(source(bytes), "x");
  EXPECT_EQ(file.inference(), inference);
  EXPECT_EQ(file.config(), kConfig);
  file.load(other.persistent());
  EXPECT_EQ(other.bytes(), tensors.bytes());
  const std::string without = sealed_image(tensors, state_at(5));
  EXPECT_EQ(CheckpointFile(source(without), "x").inference(), "");
}

// The fuzzer starts from a file of today's format; TESSERA_NEW_SEED=1 writes it anew.
TEST(Checkpoint, TheFuzzersSeedIsAWholeCheckpoint) {
  const std::string path = TESSERA_SOURCE_DIR "/tests/fuzz/corpus/checkpoint/whole";
  const Tensors4 tensors;
  const std::string bytes = sealed_image(tensors, state_at(500));
  if (std::getenv("TESSERA_NEW_SEED") != nullptr)
    write_all(path, bytes.substr(0, bytes.size() - kSealBytes));
  std::string seed = read_all(path);
  seed += std::string(kSealBytes, '\0');
  make_seal(std::as_bytes(std::span(seed.data(), seed.size() - kSealBytes)),
            std::span<char, kSealBytes>(seed.data() + seed.size() - kSealBytes, kSealBytes));
  EXPECT_EQ(error_of(seed, tensors), "no error");
}

TEST(Checkpoint, EqualTrainingsGiveEqualFiles) {
  EXPECT_EQ(sealed_image(Tensors4(3), state_at(8)), sealed_image(Tensors4(3), state_at(8)));
  EXPECT_NE(sealed_image(Tensors4(3), state_at(8)), sealed_image(Tensors4(3), state_at(9)));
  EXPECT_NE(sealed_image(Tensors4(3), state_at(8)), sealed_image(Tensors4(4), state_at(8)));
}

TEST(Checkpoint, NamesEveryDifferenceAndTouchesNothing) {
  const std::string bytes = sealed_image(Tensors4(), state_at(1));
  Store store(1);
  store.parameter("a.w", {5, 3}, Initializer::ones());
  store.parameter("c.w", {2}, Initializer::ones());
  store.materialize();
  const Tensors wanted = store.persistent();
  try {
    CheckpointFile(source(bytes), "x.h5").load(wanted);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(
        error.what(),
        "checkpoint 'x.h5': does not fit the model:\n"
        "  different: 'weights/a.w' is float32 [3x5] in the file, but float32 [5x3] in the "
        "model\n"
        "  missing: 'weights/c.w', float32 [2]\n"
        "  too many: 'optimizer/momentum.a.w', float32 [3x5]\n"
        "  too many: 'optimizer/step', int64 [1]\n"
        "  too many: 'statistics/bn.running_mean', float32 [5]\n"
        "  too many: 'weights/a.b', float64 [5]");
  }
  EXPECT_EQ(store.parameters()[0].to_vector<float>(), std::vector<float>(15, 1.0f));
}

TEST(Checkpoint, AStateThatContradictsItselfIsRefused) {
  const Tensors4 tensors;
  auto refused = [&](auto change) {
    TrainingState state = state_at(500);
    change(state);
    return error_of(sealed_image(tensors, state), tensors).find("contradicts itself") !=
           std::string::npos;
  };
  EXPECT_FALSE(refused([](TrainingState&) {}));
  EXPECT_TRUE(refused([](TrainingState& s) { s.batch = 7; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.batches = 0; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.epoch = INT64_MAX; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.step = -500; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.best_step = 501; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.plateau_factor = 2; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.since_best = -1; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.schedule_version = 2; }));
  EXPECT_TRUE(refused([](TrainingState& s) { s.log_loss = 1 / (s.log_loss - 1.5); }));
}

TEST(Checkpoint, TheChecksumIsNotOptional) {
  const Tensors4 tensors;
  const std::string bytes = sealed_image(tensors, state_at(1));
  EXPECT_NE(error_of(bytes.substr(0, bytes.size() - kSealBytes), tensors).find("missing"),
            std::string::npos);
  EXPECT_NE(error_of(bytes + "\n", tensors).find("missing"), std::string::npos);
  EXPECT_NE(error_of("", tensors).find("it has only 0 bytes"), std::string::npos);
}

// Damages `bytes` in one of the ways in which disks, copies and enemies do.
void damage(std::string& bytes, RandomSequence& random) {
  const size_t size = bytes.size();
  const size_t from = random.below(size),
               count = 1 + random.below(std::min<size_t>(size - from, 600));
  switch (random.below(6)) {
    case 0:  // bits
      for (uint64_t i = 1 + random.below(8); i > 0; --i)
        bytes[random.below(size)] ^= static_cast<char>(1 << random.below(8));
      break;
    case 1:
      bytes.resize(from);
      break;
    case 2: {  // a block is written over another
      const std::string block = bytes.substr(from, count);
      bytes.replace(random.below(size - count + 1), count, block);
      break;
    }
    case 3:
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(from), count, '\0');
      break;
    case 4:
      bytes.insert(from, std::string(count, static_cast<char>(random.below(256))));
      break;
    default: {  // a number becomes another that hurts
      const uint64_t numbers[] = {0,
                                  1,
                                  2,
                                  size,
                                  size - 1,
                                  size + 1,
                                  ~uint64_t{0},
                                  uint64_t{1} << 63,
                                  uint64_t{1} << 31,
                                  0xffff,
                                  random.below(size) & ~uint64_t{7}};
      const uint64_t value = numbers[random.below(std::size(numbers))];
      const size_t width = size_t{1} << random.below(4), at = from / width * width;
      std::memcpy(bytes.data() + at, &value, std::min(width, size - at));
    }
  }
}

// Of the first half every mutant that is accepted must hold what was written: the checksum sees to
// it. Of the second, whose checksum is made right again, any may be accepted; none may do harm.
TEST(Checkpoint, MutantsAreRefusedOrUnchangedAndNeverHarm) {
  const int64_t count = std::getenv("TESSERA_LONG_TESTS") != nullptr ? 1'000'000 : 100'000;
  const Tensors4 tensors(7), into(8);
  const TrainingState state = state_at(500);
  const std::string whole = sealed_image(tensors, state), values = tensors.bytes();
  RandomSequence random(random_key(1, "mutants"), 0);
  int64_t accepted[2] = {0, 0}, changed = 0;
  size_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::string bytes = whole;
    damage(bytes, random);
    const bool made_right = i % 2 == 1;
    if (made_right && bytes.size() >= kSealBytes) {
      const size_t end = bytes.size() - kSealBytes;
      char seal[kSealBytes];
      make_seal(std::as_bytes(std::span(bytes.data(), end)), seal);
      bytes.replace(end, kSealBytes, seal, kSealBytes);
    }
    const size_t before = counted_new_bytes;
    try {
      const CheckpointFile file(source(bytes), "x");
      file.load(into.persistent());
      ++accepted[made_right];
      if (!made_right)
        changed += into.bytes() != values || file.state() != state || file.config() != kConfig;
    } catch (const CheckpointError&) {
    }
    most = std::max(most, counted_new_bytes - before);
  }
  EXPECT_EQ(changed, 0);
  EXPECT_LT(most, 20 * whole.size());
  EXPECT_GT(accepted[1], count / 100) << "the checks are not reached";
  RecordProperty("mutants", std::to_string(count));
  RecordProperty("accepted_unchanged", std::to_string(accepted[0]));
  RecordProperty("accepted_with_the_checksum_made_right", std::to_string(accepted[1]));
  RecordProperty("most_bytes_asked_for", std::to_string(most));
  RecordProperty("file_bytes", std::to_string(whole.size()));
}

TEST(Checkpoint, OpensInH5py) {
  std::string python;
  for (std::string one : {"python3", "/usr/bin/python3"})
    if (python.empty() && std::system((one + " -c 'import h5py' 2> /dev/null").c_str()) == 0)
      python = one;
  if (python.empty()) GTEST_SKIP() << "no python3 with h5py here (Debian: python3-h5py)";
  const TemporaryFolder folder;
  write_all(folder.path("c.h5"), sealed_image(Tensors4(), state_at(500)));
  write_all(folder.path("check.py"), R"(
import h5py, sys, zlib
f = h5py.File(sys.argv[1], 'r')
assert sorted(f) == ['config', 'optimizer', 'statistics', 'training', 'weights'], list(f)
assert f['weights/a.w'].shape == (3, 5) and f['weights/a.b'].dtype == 'float64'
assert f['optimizer/momentum.a.w'].shape == (3, 5) and f['optimizer/step'][0] == 1
assert f['statistics/bn.running_mean'].shape == (5,)
assert f['training/step'][()] == 500 and f['training/lr'][()] == 0.125
assert f['config'][()].decode().startswith('seed: 5\n')
assert f.attrs['format'] == b'tessera checkpoint' and f.attrs['format_version'] == 1
everything = []
f.visititems(lambda name, item: everything.append(item[()] if hasattr(item, 'dtype') else name))
data = open(sys.argv[1], 'rb').read()
assert data.endswith(b'tessera crc32 %08x\n' % zlib.crc32(data[:-23]))
)");
  EXPECT_EQ(
      std::system((python + " " + folder.path("check.py") + " " + folder.path("c.h5")).c_str()), 0);
}

}  // namespace
}  // namespace tessera
