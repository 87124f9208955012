// Checkpoint files: written values are read back, damaged files are refused, and no bytes make
// reading do harm. TESSERA_LONG_TESTS=1 tests ten times as many mutants.
#include "tessera/models/run/checkpoint.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/layers/optimizers/loss_scale.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"
#include "tessera/runtime/text/json.h"
#include "tessera/tests/counted_new.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {

namespace {

using namespace testing_checkpoint;

constexpr char kConfig[] = "seed: 5\nmodel:\n  name: mlp\n";

std::string sealed_image(const Tensors& tensors, const TrainingState& state) {
  CheckpointImage image(tensors, kConfig);
  image.take(state);
  return sealed({reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()});
}

std::string sealed_image(const Tensors4& tensors, const TrainingState& state) {
  return sealed_image(tensors.persistent(), state);
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

// The configuration in a checkpoint may have names of an earlier version; other values still
// differ.
TEST(Checkpoint, OfAnEarlierVersionIsOfTheSameTraining) {
  const Tensors4 tensors(1);
  const auto check = [&](const std::string& written, const std::string& now) {
    CheckpointImage image(tensors.persistent(), written);
    image.take(state_at(5));
    const std::string bytes =
        sealed({reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()});
    return check_same_training(parse_config(now, "now"), CheckpointFile(source(bytes), "x"));
  };
  const std::string now = "optimizer: {name: lars, trust_coefficient: 0.5}";
  const std::string printed = print_config(parse_config(now, "now"));
  std::string earlier = printed;
  earlier.replace(earlier.find("trust_coefficient"), 17, "trust");
  ASSERT_NE(earlier, printed);
  check(printed, now);
  check(earlier, now);
  EXPECT_THROW(check(earlier, "optimizer: {name: lars, trust_coefficient: 0.25}"), ConfigError);
  EXPECT_EQ(check(printed, now), "");
  EXPECT_EQ(check(printed, now + "\nprecision: bf16"),
            "precision: bf16, but the checkpoint was trained with float32");
}

TEST(Checkpoint, TellsWhatInferenceNeeds) {
  const Tensors4 tensors(1), other(2);
  const std::string inference = "{\"model\": \"mlp\"}      ";
  CheckpointImage image(tensors.persistent(), kConfig, inference);
  EXPECT_EQ(image.bytes().size(),
            CheckpointImage::planned_bytes(tensors.persistent(), kConfig,
                                           Json(inference).text().size() - 2));
  image.take(state_at(5));
  const std::string bytes =
      sealed({reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()});
  const CheckpointFile file(source(bytes), "x");
  EXPECT_EQ(file.inference(), inference);
  EXPECT_EQ(file.config(), kConfig);
  file.load(other.persistent());
  EXPECT_EQ(other.bytes(), tensors.bytes());
  const std::string without = sealed_image(tensors, state_at(5));
  EXPECT_EQ(CheckpointFile(source(without), "x").inference(), "");
}

// The fuzzer starts from a file of the current format; TESSERA_NEW_SEED=1 writes it.
TEST(Checkpoint, TheFuzzersSeedIsAWholeCheckpoint) {
  const std::string path = TESSERA_SOURCE_DIR "/tests/fuzz/corpus/checkpoint/whole";
  const Tensors4 tensors;
  const std::string bytes = sealed_image(tensors, state_at(500));
  if (std::getenv("TESSERA_NEW_SEED") != nullptr)
    write_all(path, bytes.substr(0, bytes.size() - kSealBytes));
  EXPECT_EQ(error_of(sealed(read_all(path)), tensors), "no error");
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
    CheckpointFile(source(bytes), "x").load(wanted);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(
        error.what(),
        "checkpoint 'x': does not fit the model:\n"
        "  different: 'weights/a.w' is float32 [3x5] in the file, but float32 [5x3] in the "
        "model\n"
        "  missing: 'weights/c.w', float32 [2]\n"
        "  unexpected: 'optimizer/momentum.a.w', float32 [3x5]\n"
        "  unexpected: 'optimizer/step', int64 [1]\n"
        "  unexpected: 'statistics/bn.running_mean', float32 [5]\n"
        "  unexpected: 'weights/a.b', float64 [5]");
  }
  EXPECT_EQ(store.parameters()[0].to_vector<float>(), std::vector<float>(15, 1.0f));
}

// A training in float16 may go on in another precision, and the other way round.
TEST(Checkpoint, TheLossScaleMayBeMissingOrExtra) {
  Store plain(1), scaled(1);
  const LossScaleParams params{.first = 8};
  for (Store* store : {&plain, &scaled}) store->parameter("a.w", {5}, Initializer::ones());
  const LossScale scale(scaled, params);
  plain.materialize();
  scaled.materialize();
  CheckpointFile(source(sealed_image(scaled.persistent(), state_at(1))), "x")
      .load(plain.persistent());
  scaled.find("loss_scale").assign_scalar(2);
  CheckpointFile(source(sealed_image(plain.persistent(), state_at(1))), "x")
      .load(scaled.persistent());
  EXPECT_EQ(scaled.find("loss_scale").to_vector<float>(), std::vector<float>{2});
}

TEST(Checkpoint, AStateThatContradictsItselfIsRefused) {
  const Tensors4 tensors;
  auto refused = [&](auto change) {
    TrainingState state = state_at(500);
    change(state);
    return error_of(sealed_image(tensors, state), tensors).find("is inconsistent") !=
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

// Damages `bytes` as disks, copies or attackers do.
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
    default: {  // a number is replaced by a harmful one
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

// Every second mutant gets a valid checksum and may be accepted. The others are refused because of
// their checksum, unless their contents are unchanged. None may do harm.
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
      bytes = sealed(bytes.substr(0, bytes.size() - kSealBytes));
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

TEST(Checkpoint, PlainPythonReadsIt) {
  const TemporaryFolder folder;
  write_all(folder.path("c"), sealed_image(Tensors4(), state_at(500)));
  write_all(folder.path("check.py"), R"(
import json, struct, sys, zlib
data = open(sys.argv[1], 'rb').read()
size = int.from_bytes(data[:8], 'little')
header, values = json.loads(data[8:8 + size]), data[8 + size:]
about = header.pop('__metadata__')
assert about['format'] == 'tessera checkpoint' and about['format_version'] == '2'
assert about['layout'].startswith('conv2d OHWI') and about['config'].startswith('seed: 5\n')
def get(name, code):
    begin, end = header[name]['data_offsets']
    assert (8 + size + begin) % struct.calcsize(code) == 0
    return [value for value, in struct.iter_unpack('<' + code, values[begin:end])]
assert header['weights/a.w']['shape'] == [3, 5] and header['weights/a.b']['dtype'] == 'F64'
assert len(get('optimizer/momentum.a.w', 'f')) == 15 and get('optimizer/step', 'q') == [1]
assert header['statistics/bn.running_mean']['shape'] == [5]
assert get('training/step', 'q') == [500] and get('training/lr', 'd') == [0.125]
assert sorted(entry['data_offsets'] for entry in header.values())[-1] == \
    [len(values) - 23, len(values)] == header['checksum']['data_offsets']
assert data.endswith(b'tessera crc32 %08x\n' % zlib.crc32(data[:-23]))
)");
  EXPECT_EQ(std::system(("python3 " + folder.path("check.py") + " " + folder.path("c")).c_str()),
            0);
}

}  // namespace
}  // namespace tessera
