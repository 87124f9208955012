#include "tessera/models/run/run_report.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/models/config/config.h"
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
       {"net &lt;b&gt; on data", "conv1 &amp; more", "80.00 % of the test images are correct",
        "top-5 95.00 %", "cat &amp; dog", "<td>75.0 %</td>", "<td>100.0 %</td>",
        "aria-label=\"accuracy in %\"", "aria-label=\"loss\"", "<td>50.00 %</td>"})
    EXPECT_NE(html.find(part), html.npos) << part;
  EXPECT_EQ(html.find("<script"), html.npos);
  EXPECT_EQ(report.confusion.counts, (std::vector<int64_t>{3, 1, 0, 1}));
  EXPECT_EQ(report.confusion.text(),
            "predicted (columns) and true classes (rows)\n"
            "truth  0  1\n"
            "    0  3  1\n"
            "    1  0  1\n");
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
  const size_t loss = html.find("aria-label=\"loss\"");
  ASSERT_NE(loss, html.npos);
  const std::string_view losses = std::string_view(html).substr(loss);
  EXPECT_NE(losses.find("<circle cx=\"552.0\" cy=\"119.5\""), losses.npos);  // log(1.5) / log(2)
  EXPECT_EQ(losses.find("<path"), losses.rfind("<path"));
  EXPECT_EQ(html.find("learning rate"), html.npos);  // a constant
  const std::string rates = chart_svg({"lr", "lr", {{"train", "#000", {{1, 0.02}, {2, 0.02}}}}});
  EXPECT_NE(rates.find("<path d=\"M308.0,137.0 L552.0,137.0\""), rates.npos) << rates;
  EXPECT_NE(rates.find(">0.02<"), rates.npos);
  EXPECT_EQ(rates.find(">1.02<"), rates.npos);
}

std::string loss_chart(const std::vector<Metrics>& metrics) {
  RunReport report;
  report.metrics = metrics;
  const std::string html = report_html(report);
  const size_t loss = html.find("aria-label=\"loss\"");
  return html.substr(loss, html.find("</svg>", loss) - loss);
}

TEST(RunReport, LinesWithinEpochsArePaleBehindThoseOfWholeEpochs) {
  const std::string two = loss_chart({{0.5, 5, "train", 4.0, 0.1, 0.02, 100},
                                      {1, 10, "train", 3.0, 0.2, 0.02, 100},
                                      {1.5, 15, "train", 2.0, 0.3, 0.02, 100},
                                      {2, 20, "train", 1.0, 0.6, 0.02, 100}});
  EXPECT_NE(two.find("<path d=\"M186.0,34.0 L430.0,137.0\" stroke=\"#2563c9\" stroke-opacity"),
            two.npos)
      << two;
  EXPECT_NE(two.find("<path d=\"M308.0,76.7 L552.0,240.0\" stroke=\"#2563c9\">"), two.npos) << two;
  // The average of 4 and 1 with the weights 0.7 and 1 is 3.8 / 1.7 = 2.2.
  const std::string one =
      loss_chart({{0.5, 5, "train", 4.0, 0.1, 0.02, 100}, {1, 10, "train", 1.0, 0.2, 0.02, 100}});
  EXPECT_NE(one.find("L552.0,240.0\" stroke=\"#2563c9\" stroke-opacity"), one.npos) << one;
  EXPECT_NE(one.find("<path d=\"M308.0,34.0 L552.0,120.5\" stroke=\"#2563c9\">"), one.npos) << one;
}

TEST(RunReport, SettingsThatDifferFromTheDefaultsAreListed) {
  RunReport report;
  report.config = print_config(parse_config("", "x", {"data.batch=7", "optimizer.name=adamw"}));
  report.plan = {"<svg>the ", "plan</svg>"};
  report.summary = "the model";
  const std::string html = report_html(report);
  EXPECT_NE(html.find("<td class=\"text\">data.batch</td><td class=\"text\">7</td>"
                      "<td class=\"text\">128</td>"),
            html.npos)
      << html;
  EXPECT_NE(html.find("<td class=\"text\">optimizer.name</td>"), html.npos);
  EXPECT_EQ(html.find("<td class=\"text\">optimizer.beta1</td>"), html.npos);
  EXPECT_EQ(html.find("<td class=\"text\">train.epochs</td>"), html.npos);
  EXPECT_NE(html.find("<div class=\"plan\"><svg>the plan</svg></div>"), html.npos);
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
  // 10, 1 and 0.1 are at the top, in the middle and at the bottom.
  EXPECT_NE(html.find("<path d=\"M308.0,34.0 L552.0,240.0\""), html.npos) << html;
  EXPECT_NE(html.find("<path d=\"M308.0,137.0 L552.0,"), html.npos);
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
  TopErrors worst;
  worst.add({5, 1, 0, 0.6, "data:image/png;base64,AA=="}, 2);
  worst.add({6, 0, 2, 0.9, ""}, 2);
  worst.add({7, 0, 2, 0.1, ""}, 2);
  report.mistakes = worst.all();
  ASSERT_EQ(report.mistakes.size(), 2u);
  EXPECT_EQ(report.mistakes[0].sample, 6);
  const std::string html = report_html(report);
  for (const char* part :
       {"<td>train: 8<br>test: 4 &amp; more</td>", "<pre>seed: 1 # &lt;x&gt;",
        "predicted as &lt;eel&gt;", "confidence 60.0 %, image 5",
        "src=\"data:image/png;base64,AA==\"",
        // images, precision, recall, F1, most frequent wrong prediction
        "<tr><th>dog</th><td>2</td><td>100.0 %</td><td>50.0 %</td><td>66.7 %</td><td "
        "class=\"text\">cat (1)</td></tr>",
        "<tr><th>&lt;eel&gt;</th><td>0</td><td>0.0 %</td><td>0.0 %</td><td>0.0 %</td>",
        "<th>macro average</th><td>1003</td><td>66.6 %</td><td>50.0 %</td><td>55.5 %</td>",
        "<th>weighted average</th><td>1003</td><td>99.9 %</td><td>99.8 %</td><td>99.8 %</td>",
        "<td class=\"text\">cat</td><td class=\"text\">&lt;eel&gt;</td><td>1</td><td>0.1 %</td>"})
    EXPECT_NE(html.find(part), html.npos) << part;
}

// 40 pixels a class, with counts; the names take 28 + 5 * 11 * 0.6.
TEST(RunReport, ConfusionIsAPictureOfUpToAHundredClassesThatOccur) {
  RunReport report;
  report.confusion = ConfusionMatrix(3);
  for (int i = 0; i < 1000; ++i) report.confusion.add(0, 0);
  report.confusion.add(0, 2);
  report.confusion.add(1, 0);
  report.classes = {"cat", "dog", "<eel>"};
  const std::string html = report_html(report);
  for (const char* part :
       {"viewBox=\"0 0 183 183\"", "aria-label=\"confusion matrix\"",
        "<rect x=\"61\" y=\"61\" width=\"40\" height=\"40\" fill=\"#228b5a\" fill-opacity=\"0.70\">"
        "<title>cat predicted as cat: 1000 images, 99.9 %</title></rect>",
        // One image in a thousand is visible.
        "<rect x=\"141\" y=\"61\" width=\"40\" height=\"40\" fill=\"#c83c1e\" "
        "fill-opacity=\"0.90\">"
        "<title>cat predicted as &lt;eel&gt;: 1 images, 0.1 %</title></rect>",
        "<text x=\"81\" y=\"85\" text-anchor=\"middle\" class=\"count\">1000</text>"})
    EXPECT_NE(html.find(part), html.npos) << part << "\n" << html;
  EXPECT_EQ(html.find("dog predicted as dog"), html.npos);
  report.classes = {};
  for (const int64_t occur : {100, 101}) {
    report.confusion = ConfusionMatrix(200);
    for (int64_t c = 0; c < occur; ++c) report.confusion.add(c + 50, c + 50);
    report.confusion.add(98, 99);
    const std::string large = report_html(report);
    EXPECT_EQ(large.find("98 predicted as 99: 1 images, 50.0 %") != large.npos, occur == 100);
    // Row and column 48 and 49 of 7 pixels, after 28 + 3 * 6 * 0.6.
    EXPECT_EQ(large.find("<rect x=\"381\" y=\"374\" width=\"7\"") != large.npos, occur == 100);
    EXPECT_EQ(large.find("class=\"count\""), large.npos);  // no space
    EXPECT_NE(large.find("<td class=\"text\">98</td><td class=\"text\">99</td><td>1</td>"),
              large.npos);
  }
}

TEST(RunReport, LongNamesAreCutInThePictureBetweenCharacters) {
  RunReport report;
  report.confusion = ConfusionMatrix(1);
  report.confusion.add(0, 0);
  report.classes = {"abcdefghijklmnop\u00e4\u00f6\u00fc"};
  EXPECT_NE(report_html(report).find(">abcdefghijklmnop\u00e4\u2026</text>"), std::string::npos);
}

TEST(RunReport, CalibrationIsADiagramWithItsError) {
  RunReport report;
  EXPECT_EQ(report_html(report).find("Calibration"), std::string::npos);
  for (const bool right : {true, false, true, false}) report.calibration.add(0.75, right);
  report.calibration.add(1, true);
  const std::string html = report_html(report);
  for (const char* part :
       {"Expected calibration error 20.00 % (15 bins)",
        "the mean confidence is 80.0 %, the accuracy 60.0 %", "aria-label=\"reliability diagram\"",
        "4 images, confidence 75.0 %, accuracy 50.0 %",
        // x: 56 + 11 * 280 / 15; height: half of 280, red from there to 0.75 of it.
        "<rect x=\"261.8\" y=\"168.0\" width=\"17.7\" height=\"140.0\" fill=\"#2563c9\"",
        "<rect x=\"261.8\" y=\"98.0\" width=\"17.7\" height=\"70.0\" fill=\"#c83c1e\""})
    EXPECT_NE(html.find(part), html.npos) << part << "\n" << html;
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
  for (const char* part : {"Model and memory", "Evaluations", "class=\"charts\"", "Classes",
                           "Confusion", "Calibration", "Top errors</h2>"})
    EXPECT_EQ(report_html(report).find(part), std::string::npos) << part;
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
