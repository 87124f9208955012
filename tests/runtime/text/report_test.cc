// Report and Table as text, JSON and HTML.
#include "tessera/runtime/text/report.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tessera {
namespace {

Table ops() {
  Table table({{"op", "op", true}, {"us", "us"}, {nullptr, "share"}, {"flops", nullptr}});
  table.add({"conv2d", number(12.345, 1, 2), percent(0.25, 0), 100});
  table.add({"b\u00e4r <x>", number(NAN, 1), percent(INFINITY, 0), 2});
  return table;
}

TEST(Table, ColumnsAreAsWideAsTheirValues) {
  EXPECT_EQ(ops().text(),
            "op         us  share\n"
            "conv2d   12.3   25 %\n"
            "b\u00e4r <x>\n");
}

TEST(Table, JsonHasTheColumnsWithAKey) {
  EXPECT_EQ(ops().json().text(),
            "[{\"op\":\"conv2d\",\"us\":12.35,\"flops\":100},"
            "{\"op\":\"b\u00e4r <x>\",\"us\":null,\"flops\":2}]");
}

TEST(Table, HtmlIsEscaped) {
  const std::string html = ops().html();
  EXPECT_NE(html.find("<td class=\"text\">b\u00e4r &lt;x&gt;</td>"), html.npos) << html;
  EXPECT_EQ(html.find("flops"), html.npos);
}

TEST(Table, WithoutTitlesThereIsNoFirstLine) {
  Table table({{nullptr, "", true}, {nullptr, ""}});
  table.add({"arena", byte_count(3 << 20)});
  EXPECT_EQ(table.text(), "arena  3.0 MiB\n");
}

TEST(Report, ValuesOfABlockShareColumnsAndTablesFollowABlankLine) {
  Report report;
  report.add("step_ms", "step", number(8.314, 2, 3, "ms"), "median")
      .add("device", "cpu:0")
      .add("bytes", "memory", byte_count(1536))
      .add("ops", "slowest", ops())
      .line("done");
  EXPECT_EQ(report.text(),
            "step    8.31 ms  median\n"
            "memory  1.5 KiB\n"
            "\n"
            "slowest\n"
            "op         us  share\n"
            "conv2d   12.3   25 %\n"
            "b\u00e4r <x>\n"
            "done\n");
  const Json json = report.json();
  EXPECT_EQ(json["step_ms"].number(), 8.314);
  EXPECT_EQ(json["device"].string(), "cpu:0");
  EXPECT_EQ(json["bytes"].integer(), 1536);
  EXPECT_EQ(json.members().size(), 4u);
  const std::string html = report.html();
  EXPECT_NE(html.find("<h2>slowest</h2>"), html.npos) << html;
  EXPECT_NE(html.find("<p>done</p>"), html.npos) << html;
  EXPECT_EQ(html.find("cpu:0"), html.npos);
}

TEST(Report, ASectionIsOneMemberAndItsTextFollows) {
  Report section;
  section.add("bytes", "memory", byte_count(1536)).line("a note");
  Report report;
  report.line("train:").add("train", section).add("steps", 3);
  EXPECT_EQ(report.text(), "train:\nmemory  1.5 KiB\na note\n");
  EXPECT_EQ(report.json().text(), R"({"train":{"bytes":1536},"steps":3})");
}

}  // namespace
}  // namespace tessera
