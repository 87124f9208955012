#include "tessera/models/data/formats/safetensors.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

using namespace tessera;

namespace {

struct Text {
  explicit Text(std::string text) : bytes(std::move(text)) {}
  MemorySource source() const { return MemorySource(std::as_bytes(std::span(bytes))); }
  std::string bytes;
};

std::string with_length(const std::string& header, uint64_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes + header;
}

Text file_of(const std::string& header, const std::string& values = "") {
  return Text(with_length(header, header.size()) + values);
}

// Returns the header entry of a tensor "w".
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("w":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
         offsets + "]}";
}

std::string refusal(const Text& file) {
  try {
    read_safetensors(file.source());
  } catch (const SafetensorsError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<double> values_of(const std::string& dtype, const std::string& values, size_t count) {
  const Text file =
      file_of("{" + entry(dtype, std::to_string(count), "0," + std::to_string(values.size())) + "}",
              values);
  const SafetensorsContents contents = read_safetensors(file.source());
  std::vector<double> read(count);
  read_values(file.source(), contents.tensors.at(0), 0, read);
  return read;
}

std::string little(uint64_t bits, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(bits >> (8 * i));
  return text;
}

}  // namespace

TEST(Safetensors, NamesShapesPlacesAndMetadataAreRead) {
  const std::string header = "{" + entry("F32", "2,1", "4,12") +
                             R"(,"a\u00e9":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
                             R"("__metadata__":{"format":"pt"}}   )";
  const Text file = file_of(header, std::string(12, 'x'));
  const SafetensorsContents contents = read_safetensors(file.source());
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.tensors[0].name, "a\u00e9");
  EXPECT_EQ(contents.tensors[0].elements(), 1u);
  EXPECT_EQ(contents.tensors[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(contents.tensors[1].offset, 8 + header.size() + 4);
  EXPECT_EQ(contents.metadata,
            (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
}

TEST(Safetensors, LengthsOfTheHeaderAreBoundedByTheFileAndTheFormat) {
  EXPECT_EQ(refusal(Text("1234567")), "it has only 7 bytes, too few for the length of the header");
  EXPECT_EQ(refusal(Text(with_length("{}", 10'000'000'000))),
            "its header would have 10000000000 bytes, but the format allows at most 100000000");
  EXPECT_EQ(
      refusal(Text(with_length("{}", ~uint64_t{0}))),
      "its header would have 18446744073709551615 bytes, but the format allows at most 100000000");
  EXPECT_EQ(refusal(Text(with_length("{}", 3))),
            "its header has 3 bytes, but only 2 bytes follow the length: the file is truncated");
  EXPECT_EQ(refusal(file_of(" {}")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file_of("")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file_of("{}")), "accepted");
}

TEST(Safetensors, EveryByteBelongsToOneTensor) {
  const auto two = [](const char* first, const char* second) {
    return file_of(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)") + first +
                       R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + second + "]}}",
                   "12345678");
  };
  EXPECT_EQ(refusal(two("0,4", "4,8")), "accepted");
  EXPECT_EQ(refusal(two("4,8", "0,4")), "accepted");
  EXPECT_EQ(refusal(two("0,4", "3,7")), "tensors 'a' and 'b' overlap");
  EXPECT_EQ(refusal(two("0,4", "0,4")), "tensors 'a' and 'b' overlap");
  EXPECT_EQ(refusal(two("0,4", "5,9")), "tensor 'b' is preceded by 1 unused bytes");
  EXPECT_EQ(refusal(two("1,5", "5,9")), "tensor 'a' is preceded by 1 unused bytes");
  EXPECT_EQ(refusal(file_of("{" + entry("F32", "2", "0,8") + "}", "1234567")),
            "tensor 'w' ends at byte 8 after the header, but the file has only 7 bytes there: it "
            "is truncated");
  EXPECT_EQ(refusal(file_of("{" + entry("F32", "2", "0,8") + "}", "123456789")),
            "1 bytes after its last tensor belong to no tensor");
  EXPECT_EQ(refusal(two("4,0", "4,8")), "tensor 'a' ends at 0, before its beginning at 4");
}

TEST(Safetensors, ShapesThatOverflowOrDoNotFitAreRefused) {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return refusal(file_of("{" + entry(dtype, shape, offsets) + "}", "12345678"));
  };
  EXPECT_EQ(one("F32", "3", "0,8"), "tensor 'w', F32 [3], does not match its 8 bytes from 0 to 8");
  EXPECT_EQ(one("F64", "2305843009213693953", "0,8"),
            "tensor 'w', F64 [2305843009213693953], does not match its 8 bytes from 0 to 8");
  EXPECT_EQ(one("F32", "4294967296,4294967296,2", "0,8"),
            "tensor 'w' has more elements than can be counted");
  EXPECT_EQ(one("F32", "18446744073709551615", "0,8"),
            "'shape' of tensor 'w': 18446744073709551615 exceeds the size of any file");
  EXPECT_EQ(one("F32", "-2", "0,8"), "'shape' of tensor 'w' must not be a negative number");
  EXPECT_EQ(
      one("F32", "2", "0,18446744073709551616"),
      "'data_offsets' of tensor 'w' must not be a fraction, or a number of more than 64 bits");
  EXPECT_EQ(one("F32", "1,1,1,1,1,1,1,1,2", "0,8"),
            "'shape' of tensor 'w' has more than 8 numbers");
  EXPECT_EQ(one("F32", "2", "0,8,9"),
            "'data_offsets' of tensor 'w' must have 2 numbers, but has 3");
  EXPECT_EQ(one("F4", "2", "0,8"),
            "tensor 'w' has the dtype 'F4', which is not supported; convert the file to float32");
}

TEST(Safetensors, HeadersOfAnotherFormAreRefused) {
  const auto header = [](const std::string& text) { return refusal(file_of(text, "12345678")); };
  const std::string w = entry("F32", "2", "0,8");
  EXPECT_EQ(header("{" + w + "," + w + "}"), "tensors 'w' and 'w' overlap");
  EXPECT_EQ(refusal(file_of("{" + entry("F32", "0", "0,0") + "," + entry("F32", "0", "0,0") + "}")),
            "tensor 'w' occurs twice");
  EXPECT_EQ(header(R"({"__metadata__":{},"__metadata__":{},)" + w + "}"),
            "'__metadata__' occurs twice");
  EXPECT_EQ(header(R"({"w":{"dtype":"F32","dtype":"F32"}})"), "tensor 'w' has 'dtype' twice");
  EXPECT_EQ(header(R"({"w":{"dtype":"F32","shape":[2]}})"), "tensor 'w' has no 'data_offsets'");
  EXPECT_EQ(header(R"({"w":{"device":"cpu"}})"),
            "tensor 'w' has the member 'device', which is not one of dtype, shape, data_offsets");
  EXPECT_EQ(header(R"({"w":[]})"), "tensor 'w' must not be a list");
  EXPECT_EQ(header(R"({"w":null})"), "tensor 'w' must not be null");
  EXPECT_EQ(header(R"({"w":{"dtype":{}}})"), "'dtype' of tensor 'w' must not be an object");
  EXPECT_EQ(header(R"({"w":{"shape":["2"]}})"), "'shape' of tensor 'w' must not be a string");
  EXPECT_EQ(header(R"({"w":{"shape":[[2]]}})"), "'shape' of tensor 'w' must not be a list");
  EXPECT_EQ(header(R"({"__metadata__":{"a":1}})"), "'a' of __metadata__ must not be a number");
  EXPECT_EQ(header(R"({"w":NaN})").find("its header is not JSON: parse error at line 1, column"),
            0u);
  EXPECT_EQ(header("{\"\xff\":{}}").find("its header is not JSON: parse error"), 0u);
  EXPECT_EQ(header("{\"a\\u0007\":1}"), "tensor 'a?' must not be a number");
  const std::string deep(100'000, '[');
  EXPECT_EQ(header("{\"w\":" + deep), "tensor 'w' must not be a list");
}

TEST(Safetensors, LongNamesAreCutInErrors) {
  const std::string text = refusal(file_of("{\"" + std::string(5000, 'n') + "\":1}"));
  EXPECT_EQ(text, "tensor '" + std::string(120, 'n') + "...' must not be a number");
}

TEST(Safetensors, ValuesOfEveryFractionalDtypeAreConvertedExactly) {
  EXPECT_EQ(values_of("F16",
                      little(0x3c00, 2) + little(0xc000, 2) + little(0x0001, 2) +
                          little(0x7bff, 2) + little(0x83ff, 2),
                      5),
            (std::vector<double>{1, -2, std::ldexp(1.0, -24), 65504, -std::ldexp(1023.0, -24)}));
  EXPECT_EQ(values_of("BF16", little(0x3f80, 2) + little(0xc049, 2), 2),
            (std::vector<double>{1, -3.140625}));
  EXPECT_EQ(values_of("F32", little(0x3dcccccd, 4), 1),
            (std::vector<double>{static_cast<double>(0.1f)}));
  EXPECT_EQ(values_of("F64", little(0x3fb999999999999a, 8), 1), (std::vector<double>{0.1}));
  EXPECT_TRUE(std::isnan(values_of("F16", little(0x7e00, 2), 1)[0]));
  EXPECT_EQ(values_of("F16", little(0xfc00, 2), 1)[0], -HUGE_VAL);
  EXPECT_TRUE(is_fractional("BF16") && is_fractional("F64") && !is_fractional("I64"));
}

TEST(Safetensors, PartsOfATensorAreReadWhereTheyLie) {
  std::string bytes;
  for (uint32_t i = 0; i < 5000; ++i) {
    const auto value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  const Text file = file_of("{" + entry("F32", "50,100", "0,20000") + "}", bytes);
  const SafetensorsContents contents = read_safetensors(file.source());
  std::vector<double> part(3000);
  read_values(file.source(), contents.tensors[0], 1500, part);
  for (size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], static_cast<double>(1500 + i));
}

TEST(Safetensors, WhatIsWrittenIsReadAgain) {
  std::vector<SafeTensor> tensors = {safe_tensor({"z", "float32", {2, 3}}),
                                     safe_tensor({"a\"b", "float32", {}})};
  const std::string front = safetensors_front(tensors, {{"format", "pt"}});
  EXPECT_EQ(front.size() % 8, 0u);
  const Text file(front + std::string(28, '\0'));
  const SafetensorsContents contents = read_safetensors(file.source());
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.tensors[0].name, "a\"b");
  EXPECT_EQ(contents.tensors[0].offset, tensors[1].offset);
  EXPECT_EQ(contents.tensors[1].offset, front.size());
  EXPECT_EQ(contents.tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(contents.metadata.at(0).second, "pt");
  tensors[1].name = "z";
  EXPECT_THROW(safetensors_front(tensors, {}), Error);
}

TEST(Safetensors, EveryValueIsWrittenAtAMultipleOfItsSize) {
  std::vector<SafeTensor> tensors;
  for (const char* dtype : {"uint8", "float32", "int64", "uint8", "float64", "int32"})
    tensors.push_back(safe_tensor({std::to_string(tensors.size()), dtype, {3}}));
  const size_t front = safetensors_front(tensors, {}).size();
  std::vector<uint64_t> places;
  for (const SafeTensor& tensor : tensors) places.push_back(tensor.offset - front);
  EXPECT_EQ(places, (std::vector<uint64_t>{72, 48, 0, 75, 24, 60}));
  EXPECT_EQ(front % 8, 0u);
}

TEST(Safetensors, WhatNoFileCanHoldIsNotWritten) {
  const auto refused = [](const ArraySpec& array) {
    std::vector<SafeTensor> tensors = {safe_tensor(array)};
    try {
      safetensors_front(tensors, {});
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused({"a/b", "float64", {0, 4}}));
  EXPECT_TRUE(refused({"", "float32", {1}}));
  EXPECT_TRUE(refused({"__metadata__", "float32", {1}}));
  EXPECT_TRUE(refused({"a", "text", {1}}));
  EXPECT_TRUE(refused({"a", "float32", {-1}}));
  EXPECT_TRUE(refused({"a", "float32", {int64_t{1} << 40, int64_t{1} << 40}}));
}
