#include "tessera/models/run/run_report.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/models/run/thumbnail.h"
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
  EXPECT_NE(losses.find("<circle cx=\"552.0\" cy=\"116.0\""), losses.npos);  // log(1.5) / log(2)
  EXPECT_EQ(losses.find("<path"), losses.rfind("<path"));
  const std::string_view rates = std::string_view(html).substr(rate);
  EXPECT_NE(rates.find("<path d=\"M308.0,134.0 L552.0,134.0\""), rates.npos);
  EXPECT_NE(rates.find(">0.02<"), rates.npos);
  EXPECT_EQ(rates.find(">1.02<"), rates.npos);
}

TEST(RunReport, AxesAreNamedLossesAreLogarithmicAndTheBestEpochIsMarked) {
  RunReport report;
  report.metrics = {{1, 10, "train", 10.0, 0.3, 0.02, 100},
                    {1, 10, "test", 1.0, 0.6, 0.02, 100},
                    {2, 20, "train", 0.1, 0.6, 0.02, 100},
                    {2, 20, "test", 1.5, 0.5, 0.02, 100}};
  report.best_step = 10;
  const std::string html = report_html(report);
  EXPECT_NE(html.find(">loss (log scale)</text>"), html.npos);
  EXPECT_NE(html.find(">accuracy in %</text>"), html.npos);
  EXPECT_NE(html.find(">epoch</text>"), html.npos);
  // 10, 1 and 0.1 stand at the top, in the middle and at the bottom.
  EXPECT_NE(html.find("<path d=\"M308.0,28.0 L552.0,240.0\""), html.npos) << html;
  EXPECT_NE(html.find("<path d=\"M308.0,134.0 L552.0,"), html.npos);
  EXPECT_NE(html.find("<line class=\"best\" x1=\"308.0\""), html.npos);
  EXPECT_NE(html.find("<tr class=\"best\"><td>1</td><td>10</td>"), html.npos);
  report.best_step = -1;
  EXPECT_EQ(report_html(report).find("class=\"best\""), std::string::npos);
}

TEST(RunReport, ClassesFactsConfigurationAndMistakes) {
  RunReport report;
  report.confusion = ConfusionMatrix(3);
  for (int i = 0; i < 1000; ++i) report.confusion.add(0, 0);
  report.confusion.add(0, 2);
  report.confusion.add(1, 0);
  report.confusion.add(1, 1);
  report.classes = {"cat", "dog", "<eel>"};
  report.facts = {{"data", "train: 8\ntest: 4 & more"}};
  report.config = "seed: 1 # <x>\n";
  WorstMistakes worst;
  worst.add({5, 1, 0, 0.6, "data:image/png;base64,AA=="}, 2);
  worst.add({6, 0, 2, 0.9, ""}, 2);
  worst.add({7, 0, 2, 0.1, ""}, 2);
  report.mistakes = worst.all();
  ASSERT_EQ(report.mistakes.size(), 2u);
  EXPECT_EQ(report.mistakes[0].sample, 6);
  const std::string html = report_html(report);
  for (const char* part :
       {"<td>train: 8<br>test: 4 &amp; more</td>", "<pre>seed: 1 # &lt;x&gt;",
        "taken for &lt;eel&gt;", "60.0 % sure, image 5", "src=\"data:image/png;base64,AA==\"",
        // images, recall, precision, F1, mistaken for
        "<tr><th>dog</th><td>2</td><td>50.0 %</td><td>100.0 %</td><td>66.7 %</td><td "
        "class=\"text\">cat (1)</td></tr>",
        "<tr><th>&lt;eel&gt;</th><td>0</td><td>none</td><td>0.0 %</td><td>0.0 %</td>",
        "<td class=\"zero\">0</td>",
        "<td style=\"background:rgba(200,60,30,0.90)\">1</td>"})  // one in a thousand is seen
    EXPECT_NE(html.find(part), html.npos) << part;
}

TEST(RunReport, AThumbnailIsAPngOfAWholePartOfTheSize) {
  std::vector<uint8_t> image(200 * 100 * 3, 7);
  const std::string uri = thumbnail_uri(image.data(), {200, 100, 3}, 64);
  ASSERT_EQ(uri.find("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABkAAAAy"), 0u)  // 25 x 50
      << uri;
  EXPECT_EQ(thumbnail_uri(image.data(), {2, 2, 2}), "");
  EXPECT_FALSE(thumbnail_uri(image.data(), {28, 28, 1}).empty());
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
