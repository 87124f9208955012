#include "tessera/runtime/text/json.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(Json, WritesWhatItIsMadeOf) {
  const Json json = Json::object({{"text", "a\"b\\\n\x01"},
                                  {"whole", int64_t{1} << 60},
                                  {"number", 0.1},
                                  {"is", true},
                                  {"none", nullptr},
                                  {"not", NAN},
                                  {"list", Json::list({1, "two", Json::list({})})}});
  EXPECT_EQ(json.text(),
            R"({"text":"a\"b\\\n\u0001","whole":1152921504606846976,"number":0.1,"is":true,)"
            R"("none":null,"not":null,"list":[1,"two",[]]})");
  EXPECT_EQ(Json::parse(json.text()).text(), json.text());
  EXPECT_EQ(Json::object({{"a", 1}}).text(2), "{\n  \"a\": 1\n}");
}

TEST(Json, WhatIsNotUtf8DoesNotStopIt) { EXPECT_EQ(Json("a\xff").text(), "\"a\xEF\xBF\xBD\""); }

TEST(Json, AScriptCannotBeEnded) {
  EXPECT_EQ(Json("</script>&").script(), R"("\u003c/script\u003e\u0026")");
  EXPECT_EQ(Json::parse(Json("</script>&").script()).string(), "</script>&");
}

TEST(Json, PartsOutliveTheWhole) {
  const Json inner = Json::parse(R"({"a": {"b": ["x", "y"]}})")["a"]["b"];
  EXPECT_EQ(inner.items().at(1).string(), "y");
  EXPECT_EQ(Json::parse(R"({"b": 1, "a": 2})").members().front().first, "b");
}

std::string complaint(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, SaysWhatIsWrong) {
  EXPECT_NE(complaint([] { Json::parse("{\n\"a\": oops}"); }).find("line 2, column 6"),
            std::string::npos);
  EXPECT_EQ(complaint([] { Json::parse("{}")["a"]; }), "'a' is missing");
  EXPECT_EQ(complaint([] { Json::parse("1.5").integer(); }),
            "expected an integer of 64 bits, but got number");
  EXPECT_NE(complaint([] { Json::parse("18446744073709551615").integer(); }), "");
  EXPECT_NE(complaint([] { Json::parse("[]").string(); }), "");
  EXPECT_NE(complaint([] { Json::parse("[]")["a"]; }), "");
  EXPECT_NE(complaint([] { Json::parse("{}").items(); }), "");
}

// A deep file gives an error or a value, never a stack overflow.
TEST(Json, DepthIsBounded) {
  const std::string deep(1 << 20, '[');
  EXPECT_NE(complaint([&] { Json::parse(deep); }), "");
  EXPECT_EQ(complaint([&] { Json::parse(deep + std::string(deep.size(), ']')); }), "");
}

TEST(Json, RoundsForPeople) {
  EXPECT_EQ(Json(rounded(1.0 / 3, 4)).text(), "0.3333");
  EXPECT_EQ(Json(rounded(2.0, 4)).text(), "2.0");
}

}  // namespace
}  // namespace tessera
