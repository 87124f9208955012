#include <cmath>

#include <gtest/gtest.h>

#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {
namespace {

TEST(Bytes, Texts) {
  EXPECT_EQ(byte_text(1023), "1023 B");
  EXPECT_EQ(byte_text(int64_t{3} << 39), "1.50 TiB");
  EXPECT_EQ(byte_text(89233818, 1), "85.1 MiB");
  EXPECT_EQ(short_byte_text(1000), "1KiB");
  EXPECT_EQ(short_byte_text(int64_t{1} << 30), "1.0GiB");
  EXPECT_EQ(exact_byte_text(0), "0B");
  EXPECT_EQ(exact_byte_text(3 << 29), "1536MiB");
  EXPECT_EQ(exact_byte_text(1025), "1025B");
}

TEST(Bytes, AreReadAsTheyAreWritten) {
  for (const int64_t bytes : {0L, 1L, 1025L, 1L << 20, 3L << 40, (1L << 62) - 1024})
    EXPECT_EQ(parse_bytes(exact_byte_text(bytes)).bytes, bytes);
  EXPECT_EQ(parse_bytes("1.5GiB").bytes, 3 << 29);
  EXPECT_EQ(parse_bytes("1e3B").bytes, 1000);
}

TEST(Bytes, SayWhatWasMeant) {
  const auto meant = [](const char* text) {
    const ParsedBytes parsed = parse_bytes(text);
    EXPECT_FALSE(parsed.bytes) << text;
    return parsed.remark + "|" + parsed.instead;
  };
  EXPECT_EQ(meant("2GB"), "units are powers of 1024|2GiB");
  EXPECT_EQ(meant("512m"), "units are powers of 1024|512MiB");
  EXPECT_EQ(meant("2 GiB"), "|2GiB");
  EXPECT_EQ(meant("2gib"), "|2GiB");
  EXPECT_EQ(meant("100"), "which has no unit|");
  EXPECT_EQ(meant("0.3B"), "the number of bytes must be an integer|");
  for (const char* text : {"-1B", "2bananas", "4194304TiB", "1e400B", "GiB", ""})
    EXPECT_EQ(meant(text), "|") << text;
}

TEST(Clock, Durations) {
  EXPECT_EQ(duration_text(5), "0:05");
  EXPECT_EQ(duration_text(245.9), "4:05");
  EXPECT_EQ(duration_text(2 * 3600 + 4 * 60 + 5), "2:04:05");
  EXPECT_EQ(duration_text(3 * 86400 + 7200), "3 d 2 h");
  EXPECT_EQ(duration_text(120 * 86400 + 7200), "120 d");
  EXPECT_EQ(duration_text(NAN), "?");
  EXPECT_EQ(short_duration_text(2 * 3600 + 4 * 60 + 5), "2h04m");
  EXPECT_EQ(short_duration_text(45000), "12.5h");
  EXPECT_EQ(short_duration_text(86400 * 3.1), "3.1d");
  EXPECT_EQ(short_duration_text(86400 * 1e4), ">999d");
}

TEST(Clock, Utc) { EXPECT_EQ(utc_text(1709210096), "2024-02-29T12:34:56Z"); }

TEST(Html, Escapes) {
  EXPECT_EQ(html_escaped("a<b>&\"c\"\n\x01"), "a&lt;b&gt;&amp;&quot;c&quot;\n");
}

TEST(Number, ReadsWhatAllReadAlike) {
  double value = 0;
  EXPECT_EQ(parse_number("-0.5e1", value), std::errc());
  EXPECT_EQ(value, -5);
  for (const char* text : {"010", "nan", "inf", "1_000", "0x10", "+1", "", "1 "})
    EXPECT_EQ(parse_number(text, value), std::errc::invalid_argument) << text;
  EXPECT_EQ(parse_number("1e400", value), std::errc::result_out_of_range);
  EXPECT_EQ(split_unit("1e3 ep").number, "1e3");
  EXPECT_EQ(split_unit("1e3 ep").unit, "ep");
  EXPECT_EQ(split_unit("5ep").number, "5");
}

}  // namespace
}  // namespace tessera
