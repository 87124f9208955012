// Numbers and filters of HDF5, compared with the results of libhdf5 for the same bytes.
#include "tessera/models/data/formats/hdf5_chunk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = Hdf5Number::Kind;

Bytes random_bytes(size_t count, unsigned seed, unsigned mask = 0xff) {
  std::minstd_rand random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8 & mask);
  return bytes;
}

TEST(Hdf5ChunkTest, NumbersAreThoseThatTheLibraryReads) {
  const std::pair<Hdf5Number, hid_t> types[] = {
      {{Kind::kUnsigned, 1}, H5T_STD_U8LE},        {{Kind::kSigned, 1}, H5T_STD_I8LE},
      {{Kind::kUnsigned, 2}, H5T_STD_U16LE},       {{Kind::kSigned, 2, true}, H5T_STD_I16BE},
      {{Kind::kUnsigned, 4, true}, H5T_STD_U32BE}, {{Kind::kSigned, 4}, H5T_STD_I32LE},
      {{Kind::kUnsigned, 8}, H5T_STD_U64LE},       {{Kind::kSigned, 8, true}, H5T_STD_I64BE},
      {{Kind::kFloat, 4, true}, H5T_IEEE_F32BE},   {{Kind::kFloat, 8}, H5T_IEEE_F64LE}};
  constexpr size_t kCount = 4000;
  for (const auto& [type, library] : types) {
    const Bytes bytes = random_bytes(kCount * static_cast<size_t>(type.bytes), 7);
    std::vector<double> ours(kCount), theirs(kCount);
    read_numbers(bytes.data(), type, kCount, ours.data());
    std::memcpy(theirs.data(), bytes.data(), bytes.size());
    ASSERT_GE(H5Tconvert(library, H5T_NATIVE_DOUBLE, kCount, theirs.data(), nullptr, H5P_DEFAULT),
              0);
    for (size_t i = 0; i < kCount; ++i)
      ASSERT_TRUE(ours[i] == theirs[i] || (std::isnan(ours[i]) && std::isnan(theirs[i])))
          << type.name() << ": " << ours[i] << " and " << theirs[i];
  }
}

TEST(Hdf5ChunkTest, EveryHalfIsTheNumberThatItsBitsSay) {
  const auto half = [](uint16_t bits) {
    double value = 0;
    read_numbers(reinterpret_cast<const std::byte*>(&bits), {Kind::kFloat, 2}, 1, &value);
    return value;
  };
  EXPECT_EQ(half(0x3c00), 1);
  EXPECT_EQ(half(0xc000), -2);
  EXPECT_EQ(half(0x7bff), 65504);
  EXPECT_EQ(half(0x0001), std::ldexp(1, -24));
  EXPECT_EQ(half(0x03ff), std::ldexp(1023, -24));
  EXPECT_EQ(half(0xfc00), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(half(0x7e00)));
  for (unsigned bits = 1; bits <= 0x7c00; ++bits)
    ASSERT_GT(half(static_cast<uint16_t>(bits)), half(static_cast<uint16_t>(bits - 1)));
}

TEST(Hdf5ChunkTest, PixelsAreRoundedAndTheFirstOutsideIsFound) {
  const float values[] = {0, 0.5f, 1, 127 / 255.f, 1.0001f, 0};
  uint8_t pixels[18] = {};
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  EXPECT_EQ(to_pixels(bytes, {Kind::kFloat, 4}, {0, 1}, 6, pixels, 3), 4u);
  EXPECT_EQ(pixels[0], 0);
  EXPECT_EQ(pixels[3], 128);
  EXPECT_EQ(pixels[6], 255);
  EXPECT_EQ(pixels[9], 127);
  EXPECT_EQ(pixels[1], 0);
  const uint8_t raw[] = {4, 255, 0};
  EXPECT_EQ(to_pixels(reinterpret_cast<const std::byte*>(raw), {}, {}, 3, pixels, 1), 3u);
  EXPECT_EQ(pixels[1], 255);
}

// A chunk as libhdf5 stores it after its filters, and the mask of the filters left out.
struct Stored {
  Bytes bytes;
  uint32_t skipped = 0;
};
Stored store(const Bytes& values, size_t element, const std::vector<Hdf5Filter::Kind>& filters) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_fapl_core(access, 1 << 16, false);
  const hid_t file = H5Fcreate("in memory", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t count = values.size() / element, zero = 0;
  const hid_t space = H5Screate_simple(1, &count, nullptr), type = H5Tcopy(H5T_STD_U8LE);
  H5Tset_size(type, element);
  H5Tset_precision(type, 8 * element);  // all bits: HDF5 1.14 refuses fewer
  H5Pset_chunk(creation, 1, &count);
  for (const Hdf5Filter::Kind kind : filters) {
    if (kind == Hdf5Filter::Kind::kGzip) H5Pset_deflate(creation, 5);
    if (kind == Hdf5Filter::Kind::kShuffle) H5Pset_shuffle(creation);
    if (kind == Hdf5Filter::Kind::kFletcher32) H5Pset_fletcher32(creation);
  }
  const hid_t data = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Fflush(file, H5F_SCOPE_LOCAL);
  hsize_t bytes = 0;
  EXPECT_GE(H5Dget_chunk_storage_size(data, &zero, &bytes), 0);
  Stored stored{Bytes(bytes), 0};
  EXPECT_GE(H5Dread_chunk(data, H5P_DEFAULT, &zero, &stored.skipped, stored.bytes.data()), 0);
  for (const hid_t id : {data, type, space, file, access, creation}) H5Idec_ref(id);
  return stored;
}

std::vector<std::vector<Hdf5Filter::Kind>> every_order() {
  using enum Hdf5Filter::Kind;
  std::vector<Hdf5Filter::Kind> all{kGzip, kShuffle, kFletcher32};
  std::set<std::vector<Hdf5Filter::Kind>> orders{{}};
  do {
    for (size_t count = 1; count <= all.size(); ++count)
      orders.emplace(all.begin(), all.begin() + static_cast<long>(count));
  } while (std::next_permutation(all.begin(), all.end()));
  return {orders.begin(), orders.end()};
}

TEST(Hdf5ChunkTest, FiltersInEveryOrderAreTakenBack) {
  for (const size_t element : {1, 2, 4, 8})
    for (const unsigned mask : {0x03u, 0xffu})  // small, and too random for gzip
      for (const size_t count : {1, 7, 250})
        for (const auto& kinds : every_order()) {
          const Bytes values = random_bytes(count * element, 5, mask);
          const Stored stored = store(values, element, kinds);
          std::vector<Hdf5Filter> filters;
          for (const Hdf5Filter::Kind kind : kinds) filters.push_back({kind, element});
          ChunkDecoder decoder(filters, values.size());
          for (int again = 0; again < 2; ++again) {
            ASSERT_LE(stored.bytes.size(), decoder.stored().size());
            std::copy(stored.bytes.begin(), stored.bytes.end(), decoder.stored().begin());
            const auto decoded = decoder.decode(stored.bytes.size(), stored.skipped);
            ASSERT_TRUE(std::equal(decoded.begin(), decoded.end(), values.begin(), values.end()));
          }
        }
}

TEST(Hdf5ChunkTest, DamageIsAnErrorAndNothingElse) {
  using enum Hdf5Filter::Kind;
  const Bytes values = random_bytes(600, 9, 0x1f);
  const auto decode = [](const Bytes& bytes, const std::vector<Hdf5Filter>& filters, size_t size) {
    ChunkDecoder decoder(filters, size);
    std::copy(bytes.begin(), bytes.end(), decoder.stored().begin());
    return decoder.decode(bytes.size(), 0).size();
  };
  const std::vector<Hdf5Filter> gzip{{kGzip}}, sums{{kFletcher32}};
  const Bytes packed = store(values, 1, {kGzip}).bytes,
              summed = store(values, 1, {kFletcher32}).bytes;
  for (size_t i = 0; i < summed.size(); ++i) {
    Bytes bad = summed;
    bad[i] ^= std::byte{8};
    EXPECT_THROW(decode(bad, sums, 600), DataError) << i;
  }
  for (size_t size = 0; size < packed.size(); ++size)
    EXPECT_THROW(decode(Bytes(packed.begin(), packed.begin() + static_cast<long>(size)), gzip, 600),
                 DataError);
  EXPECT_THROW(decode(packed, gzip, 601), DataError);
  EXPECT_THROW(decode(packed, gzip, 599), DataError);
  EXPECT_THROW(decode(Bytes(3), sums, 3), DataError);
  // Decoding stops at the chunk's size, however large the stream would become.
  const Bytes zeros = store(Bytes(1 << 20), 1, {kGzip}).bytes;
  ASSERT_LT(zeros.size(), 4096u);
  EXPECT_THROW(decode(zeros, gzip, 4096), DataError);
}

TEST(Hdf5ChunkTest, ABoxIsGoneThroughInAsFewRunsAsCanBe) {
  int64_t runs = 0, elements = 0;
  const auto count = [&](std::vector<BoxAxis> axes) {
    runs = elements = 0;
    std::set<std::pair<int64_t, int64_t>> seen;
    for_each_run(axes, [&](int64_t from, int64_t to, int64_t n, int64_t step) {
      ++runs;
      for (int64_t i = 0; i < n; ++i) seen.emplace(from + i, to + i * step);
    });
    elements = static_cast<int64_t>(seen.size());
  };
  count({{2, 60, 60}, {4, 15, 15}, {5, 3, 3}, {3, 1, 1}});  // a whole piece of the same order
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(elements, 120);
  count({{2, 60, 60}, {3, 20, 1}, {4, 5, 15}, {5, 1, 3}});  // channels first to channels last
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(elements, 120);
  count({{2, 30, 60}, {2, 15, 30}, {4, 3, 3}, {3, 1, 1}});  // cut off
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(elements, 48);
}

}  // namespace
}  // namespace tessera
