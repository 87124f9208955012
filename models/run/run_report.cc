#include "tessera/models/run/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "tessera/models/config/config.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

Curve curve_of(const std::vector<Metrics>& metrics, const std::string& phase, const char* colour,
               double Metrics::*value, double scale) {
  Curve curve{phase, colour, {}};
  for (const Metrics& m : metrics)
    if (phase == m.phase && std::isfinite(m.*value))
      curve.points.push_back({m.epoch, scale * (m.*value)});
  return curve;
}

// Returns the loss or accuracy of training: pale, the lines within epochs; above them those of
// whole epochs or, if there are fewer than two, an average over the last lines.
std::vector<Curve> training_curves(Curve all) {
  Curve within{"", all.colour, {}}, whole{all.name, all.colour, {}};
  for (const Curve::Point& p : all.points)
    (p.x == std::floor(p.x) ? whole : within).points.push_back(p);
  if (whole.points.size() >= 2) {
    if (whole.points.back().x != all.points.back().x) whole.points.push_back(all.points.back());
  } else {
    constexpr double kKept = 0.7;  // share of the average that a line keeps
    whole.points = all.points;
    if (all.points.size() > 1) within.points = all.points;
    double sum = 0, weight = 0;
    for (Curve::Point& p : whole.points) {
      sum = kKept * sum + p.y, weight = kKept * weight + 1;
      p.y = sum / weight;
    }
  }
  return {within, whole};
}

void add_mistakes(const RunReport& report, std::vector<std::string>& pieces) {
  if (report.mistakes.empty()) return;
  pieces.push_back(
      fmt::format("<h2>Top errors</h2><p>The misclassified {} images with the highest "
                  "confidence.</p><div class=\"mistakes\">\n",
                  report.phase));
  for (const Misclassification& mistake : report.mistakes)
    pieces.push_back(fmt::format(
        "<figure><img src=\"{}\" alt=\"image {}\"><figcaption>{}<br>predicted as {}<br>"
        "confidence {:.1f} %, image {}</figcaption></figure>\n",
        mistake.picture, mistake.sample, html_escaped(class_name(report.classes, mistake.truth)),
        html_escaped(class_name(report.classes, mistake.predicted)), 100 * mistake.share,
        mistake.sample));
  pieces.emplace_back("</div>\n");
}

std::string facts_html(const RunReport& report) {
  if (report.facts.empty()) return "";
  std::string html = "<table class=\"facts\">\n";
  for (const auto& [name, text] : report.facts) {
    std::string lines = html_escaped(text);
    for (size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 4)
      lines.replace(at, 1, "<br>");
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", html_escaped(name), lines);
  }
  return html + "</table>\n";
}

// Returns the settings that differ from the defaults of the same model, data and optimizer.
Table changed_settings(const std::string& config) {
  const std::map<std::string, std::string> values = config_values(config);
  const auto name_in = [&](const char* key) {
    const auto at = values.find(key);
    return at == values.end() ? std::vector<std::string>()
                              : std::vector{fmt::format("{}={}", key, at->second)};
  };
  std::map<std::string, std::string> defaults = config_values(print_config(Config()));
  for (const char* key : {"model.name", "data.name", "optimizer.name", "schedule.name"}) try {
      const Config named = parse_config("", "defaults", name_in(key));
      for (const auto& [name, value] : config_values(print_config(named)))
        if (name != key) defaults.emplace(name, value);
    } catch (const Error&) {  // a name of another version
    }
  Table table({{nullptr, "setting", true}, {nullptr, "value", true}, {nullptr, "default", true}});
  for (const auto& [key, value] : values)
    if (const auto at = defaults.find(key); at == defaults.end() || at->second != value)
      table.add({key, value, at == defaults.end() ? "" : at->second});
  return table;
}

std::string config_html(const RunReport& report) {
  if (report.config.empty()) return "";
  const Table changed = changed_settings(report.config);
  return fmt::format(
      "<h2>Configuration</h2>\n{}<details><summary>All "
      "settings</summary>\n<pre>{}</pre></details>\n",
      changed.rows() == 0 ? "" : changed.html(), html_escaped(report.config));
}

// Returns the phase on whose images the best checkpoint was chosen.
std::string_view chosen_on(const RunReport& report) {
  const auto validates = [](const Metrics& m) { return std::string_view(m.phase) == "validation"; };
  return std::ranges::any_of(report.metrics, validates) ? "validation" : "test";
}

// Returns the epoch after which the best checkpoint was written; -1 if there is none.
double best_epoch(const RunReport& report) {
  for (const Metrics& m : report.metrics)
    if (m.step == report.best_step && m.phase == chosen_on(report)) return m.epoch;
  return -1;
}

std::string epochs_html(const RunReport& report) {
  if (report.metrics.empty()) return "";
  std::string html =
      "<h2>Evaluations</h2><table><tr><th>epoch</th><th>step</th><th>images</th><th>loss</th>"
      "<th>accuracy</th><th>train loss</th><th>train accuracy</th><th>lr</th><th></th></tr>\n";
  const Metrics* trained = nullptr;  // the line of the same step, or none
  for (const Metrics& m : report.metrics) {
    if (std::string_view(m.phase) == "train") {
      trained = &m;
      continue;
    }
    const bool same = trained != nullptr && trained->step == m.step;
    const bool best = m.step == report.best_step && m.phase == chosen_on(report);
    html += fmt::format(
        "<tr{}><td>{:.4g}</td><td>{}</td><td>{}</td><td>{:.4f}</td><td>{:.2f} %</td><td>{}</td>"
        "<td>{}</td><td>{:.4g}</td><td>{}</td></tr>\n",
        best ? " class=\"best\"" : "", m.epoch, m.step, m.phase, m.loss, 100 * m.accuracy,
        same ? fmt::format("{:.4f}", trained->loss) : "",
        same ? fmt::format("{:.2f} %", 100 * trained->accuracy) : "", m.lr, best ? "best" : "");
  }
  html += "</table>\n";
  if (chosen_on(report) == "validation") return html;
  return html +
         "<p>All evaluations are on the test images. The best was chosen on them, so its "
         "accuracy is not an independent test (set data.validation to choose on other "
         "images).</p>\n";
}

void add_model(const RunReport& report, std::vector<std::string>& pieces) {
  if (report.summary.empty()) return;
  pieces.emplace_back("<h2>Model and memory</h2>\n");
  if (!report.plan.empty()) {
    pieces.emplace_back(
        "<p>The blocks of a training step: time runs to the right, addresses upwards.</p>\n"
        "<div class=\"plan\">");
    pieces.insert(pieces.end(), report.plan.begin(), report.plan.end());
    pieces.emplace_back("</div>\n");
  }
  pieces.push_back("<pre>" + html_escaped(report.summary) + "</pre>\n");
}

using Bytes = std::vector<uint8_t>;

void put_number(Bytes& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(number >> shift));
}

void put_chunk(Bytes& to, std::string_view type, const Bytes& data) {
  put_number(to, static_cast<uint32_t>(data.size()));
  const size_t start = to.size();
  to.insert(to.end(), type.begin(), type.end());
  to.insert(to.end(), data.begin(), data.end());
  put_number(
      to, static_cast<uint32_t>(crc32(0, to.data() + start, static_cast<uInt>(to.size() - start))));
}

// Packs the bytes as one uncompressed zlib block, which needs no working memory.
Bytes stored(const Bytes& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  Bytes packed{0x78, 0x01, 1};
  for (const int part : {size & 0xff, size >> 8, ~size & 0xff, ~size >> 8 & 0xff})
    packed.push_back(static_cast<uint8_t>(part));
  packed.insert(packed.end(), bytes.begin(), bytes.end());
  put_number(packed,
             static_cast<uint32_t>(adler32(1, bytes.data(), static_cast<uInt>(bytes.size()))));
  return packed;
}

// Returns a PNG of rows of `width` pixels, each after a filter byte of 0; less than 64 KiB in all.
Bytes png(const Bytes& rows, int width, int height, int channels) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header;
  put_number(header, static_cast<uint32_t>(width));
  put_number(header, static_cast<uint32_t>(height));
  const uint8_t colour = channels == 3 ? 2 : 0;
  header.insert(header.end(), {8, colour, 0, 0, 0});
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT", stored(rows));
  put_chunk(file, "IEND", {});
  return file;
}

std::string base64(const Bytes& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace

std::vector<std::string> report_pieces(const RunReport& report) {
  const std::vector<Metrics>& m = report.metrics;
  const char *blue = "#2563c9", *orange = "#d9730d", *green = "#1d8a5a";
  std::string result = fmt::format("<p class=\"big\">{:.2f} % of the {} images are correct",
                                   100 * report.top1, report.phase);
  if (report.top5 >= 0) result += fmt::format(", top-5 {:.2f} %", 100 * report.top5);
  const double best = best_epoch(report);
  const auto curves = [&](double Metrics::*value, double scale) {
    std::vector<Curve> all = training_curves(curve_of(m, "train", blue, value, scale));
    all.insert(all.begin(), {curve_of(m, "test", orange, value, scale),
                             curve_of(m, "validation", green, value, scale)});
    return all;
  };
  // A chart of the training, if the value varies and exceeds `least`.
  const auto one = [&](const char* title, double Metrics::*value, double scale, double least = 0) {
    const Curve curve = curve_of(m, "train", blue, value, scale);
    if (curve.points.empty()) return std::string();
    const auto [low, high] = std::ranges::minmax(curve.points, {}, &Curve::Point::y);
    return high.y >= least && high.y - low.y > 1e-3 * std::abs(high.y)
               ? chart_svg({title, title, {curve}, false, best})
               : std::string();
  };
  const std::string charts =
      chart_svg({"accuracy in %", "accuracy in %", curves(&Metrics::accuracy, 100), false, best}) +
      chart_svg({"loss", "loss", curves(&Metrics::loss, 1), true, best}) +
      one("learning rate", &Metrics::lr, 1) + one("images/s", &Metrics::images_per_second, 1) +
      one("waiting for data in %", &Metrics::data_wait, 100, 1);
  std::vector<std::string> pieces{
      fmt::format("{}{}.</p>\n{}", page_head(report.title), result, facts_html(report))};
  if (!charts.empty()) pieces.push_back("<div class=\"charts\">" + charts + "</div>\n");
  pieces.push_back(epochs_html(report));
  pieces.push_back(classes_html(report.confusion, report.classes));
  pieces.push_back(confusion_html(report.confusion, report.classes));
  pieces.push_back(calibration_html(report.calibration));
  add_mistakes(report, pieces);
  add_model(report, pieces);
  pieces.push_back(config_html(report));
  pieces.emplace_back(kPageEnd);
  return pieces;
}

std::string report_html(const RunReport& report) {
  std::string html;
  for (const std::string& piece : report_pieces(report)) html += piece;
  return html;
}

std::string thumbnail_uri(const uint8_t* image, const ImageShape& shape, int most) {
  const int channels = shape.channels;
  if ((channels != 1 && channels != 3) || shape.bytes() == 0) return "";
  const int factor = (std::max(shape.height, shape.width) + most - 1) / most;
  const int height = std::max(1, shape.height / factor), width = std::max(1, shape.width / factor);
  Bytes rows;
  for (int y = 0; y < height; ++y) {
    rows.push_back(0);
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        int sum = 0, count = 0;  // the mean of factor x factor pixels
        for (int v = y * factor; v < std::min((y + 1) * factor, shape.height); ++v)
          for (int u = x * factor; u < std::min((x + 1) * factor, shape.width); ++u, ++count)
            sum += image[(static_cast<int64_t>(v) * shape.width + u) * channels + c];
        rows.push_back(static_cast<uint8_t>((sum + count / 2) / std::max(count, 1)));
      }
    }
  }
  return "data:image/png;base64," + base64(png(rows, width, height, channels));
}

}  // namespace tessera
