#include "tessera/models/config/diagnostics.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

constexpr size_t kBefore = 60, kAfter = 60;  // characters of a long line shown around the position

struct Line {
  size_t begin, end;
};

Line line_around(const std::string& text, size_t at) {
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t after = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1,
          after == std::string::npos ? text.size() : after};
}

size_t clamped(const SourceRange& range) {
  return std::min(range.begin, range.source->text.size());
}

}  // namespace

int SourceRange::line() const {
  const std::string& text = source->text;
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(clamped(*this));
  return source->first_line + static_cast<int>(std::count(text.begin(), end, '\n'));
}

int SourceRange::column() const {
  const size_t at = clamped(*this), begin = line_around(source->text, at).begin;
  return 1 +
         static_cast<int>(utf8_length(std::string_view(source->text).substr(begin, at - begin)));
}

std::string SourceRange::name() const {
  return fmt::format("{}:{}:{}", source->name, line(), column());
}

std::string SourceRange::error(const std::string& text, const std::string& instead) const {
  const std::string_view all = source->text;
  const size_t at = clamped(*this);
  const Line line = line_around(source->text, at);
  const size_t token_end = std::clamp(at + length, at, line.end);

  size_t from = line.begin, to = line.end;
  if (at - from > kBefore) from = utf8_start(all, at - kBefore);
  if (to - at > kAfter) to = utf8_start(all, at + kAfter);
  const std::string lead = from > line.begin ? "..." : "";
  const std::string head = lead + utf8_printable(all.substr(from, at - from));
  const std::string shown =
      head + utf8_printable(all.substr(at, to - at)) + (to < line.end ? "..." : "");
  const size_t marked =
      std::max<size_t>(1, utf8_length(all.substr(at, std::min(token_end, to) - at)));
  return fmt::format("{}: error: {}\n  {}\n  {}^{}{}", name(), text, shown,
                     std::string(utf8_length(head), ' '), std::string(marked - 1, '~'),
                     instead.empty() ? "" : fmt::format(" did you mean '{}'?", instead));
}

std::string placed_text(const Config& config, const ConfigError& error) {
  const std::string text = error.what();
  if (config.given == nullptr || dynamic_cast<const ConfigErrors*>(&error) != nullptr) return text;
  const auto key = config.given->find(text.substr(0, text.find(':')));
  return key == config.given->end() ? text : key->second.error(text);
}

void rethrow_placed(const Config& config, const ConfigError& error) {
  const std::string text = placed_text(config, error);
  if (text == error.what()) throw;
  throw ConfigErrors(text);
}

void Diagnostics::add(const SourceRange& range, const std::string& text,
                      const std::string& instead) {
  if (entries_.size() < kMax)
    entries_.push_back({range, text, instead});
  else
    ++more_;
}

void Diagnostics::throw_if_any() {
  if (entries_.empty()) return;
  std::ranges::stable_sort(entries_, {}, [](const Entry& entry) {
    return std::pair(entry.range.source->order, entry.range.begin);
  });
  std::string all;
  for (const Entry& entry : entries_) {
    if (!all.empty()) all += '\n';
    all += entry.range.error(entry.text, entry.instead);
  }
  if (more_ > 0) all += fmt::format("\nand {} more errors", more_);
  throw ConfigErrors(all);
}

}  // namespace tessera
