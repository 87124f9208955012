#include "tessera/models/run/run_report.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(RunReport, ShowsCurvesResultAndConfusion) {
  RunReport report;
  report.title = "net <b> on data";
  report.summary = "conv1 & more";
  report.metrics = {{0.5, 10, "train", 2.0, 0.3, 0.1, 100},
                    {1, 20, "train", 1.0, 0.6, 0.1, 100},
                    {1, 20, "test", 1.5, 0.5, 0.1, 100}};
  report.confusion = ConfusionMatrix(2);
  for (int i = 0; i < 3; ++i) report.confusion.add(0, 0);
  report.confusion.add(0, 1);
  report.confusion.add(1, 1);
  report.confusion.add(7, 1);  // no such class
  report.confusion.add(1, -1);
  report.classes = {"cat & dog", "bird"};
  report.top1 = 0.8;
  report.top5 = 0.95;
  const std::string html = report_html(report);
  for (const char* part :
       {"net &lt;b&gt; on data", "conv1 &amp; more", "80.00 % of the test images are right",
        "95.00 % among the first five", "cat &amp; dog", "<td>75.0 %</td>", "<td>100.0 %</td>",
        "aria-label=\"accuracy in %\"", "aria-label=\"loss\"", "<td>50.00 %</td>"})
    EXPECT_NE(html.find(part), html.npos) << part;
  EXPECT_EQ(html.find("<script"), html.npos);
  EXPECT_EQ(report.confusion.counts, (std::vector<int64_t>{3, 1, 0, 1}));
  EXPECT_EQ(report.confusion.text(),
            "truth \\ taken for     0     1\n"
            "                0     3     1\n"
            "                1     0     1\n");
}

TEST(RunReport, NothingToShowIsNoReasonToFail) {
  RunReport report;
  report.metrics = {{1, 20, "test", std::nan(""), 0.5, 0.1, 100}};
  EXPECT_NE(report_html(report).find("0.00 %"), std::string::npos);
  EXPECT_EQ(ConfusionMatrix(100).text(20), "");
}

TEST(RunReport, ACurveOfOnePointIsADotAndAConstantIsInTheMiddle) {
  RunReport report;
  report.metrics = {{1, 10, "train", 2.0, 0.3, 0.02, 100},
                    {2, 20, "train", 1.0, 0.6, 0.02, 100},
                    {2, 20, "test", 1.5, 0.5, 0.02, 100}};
  const std::string html = report_html(report);
  const size_t loss = html.find("aria-label=\"loss\""), rate = html.find("aria-label=\"learning");
  ASSERT_LT(loss, rate);
  const std::string_view losses = std::string_view(html).substr(loss, rate - loss);
  EXPECT_NE(losses.find("<circle cx=\"552.0\" cy=\"132.0\""), losses.npos);  // half way up
  EXPECT_EQ(losses.find("<path"), losses.rfind("<path"));
  const std::string_view rates = std::string_view(html).substr(rate);
  EXPECT_NE(rates.find("<path d=\"M302.0,132.0 L552.0,132.0\""), rates.npos);
  EXPECT_NE(rates.find(">0.02<"), rates.npos);
  EXPECT_EQ(rates.find(">1.02<"), rates.npos);
}

TEST(RunReport, HasNoEmptySection) {
  RunReport report;
  EXPECT_EQ(report_html(report).find("Model and memory"), std::string::npos);
  report.summary = "conv1";
  EXPECT_NE(report_html(report).find("<h2>Model and memory</h2>\n<pre>conv1</pre>"),
            std::string::npos);
}

TEST(RunReport, ReadsMetricsBack) {
  const std::string path = testing::TempDir() + "/run_report_metrics.csv";
  std::ofstream(path) << "epoch,step,phase,loss,accuracy,lr,images_per_second\n"
                         "0.5,10,train,2.25,0.5,0.1,100\n1,20,test,,0.75,0.05,90\n1.5,30,tra";
  const std::vector<Metrics> metrics = read_metrics(path);
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].step, 10);
  EXPECT_EQ(metrics[0].loss, 2.25);
  EXPECT_STREQ(metrics[1].phase, "test");
  EXPECT_TRUE(std::isnan(metrics[1].loss));
  std::filesystem::remove(path);
  EXPECT_THROW(read_metrics(path), DataError);
}

}  // namespace
}  // namespace tessera
