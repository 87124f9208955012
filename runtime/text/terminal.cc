#include "tessera/runtime/text/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <sys/ioctl.h>
#include <unistd.h>

#include "tessera/runtime/text/utf8.h"

namespace tessera {
namespace {

// Returns the indentation of the lines that follow a line: two or, `hanging`, its last column,
// unless that is far to the right. Little indentation is no column: two more.
size_t indent_of(std::string_view line, size_t columns, bool hanging) {
  constexpr size_t kLittle = 8, kStep = 2;
  const size_t gap = line.rfind("  ");
  if (!hanging || gap == line.npos || gap + kStep >= columns * 2 / 3) return kStep;
  const size_t column = gap + kStep;
  return column < kLittle && column == line.find_first_not_of(' ') ? column + kStep : column;
}

void wrap_line(std::string_view line, size_t columns, bool hanging, std::string& text) {
  const std::string indent(indent_of(line, columns, hanging), ' ');
  size_t width = columns;
  while (utf8_length(line) > width) {
    // Break at the last space within the width, else at the first one after it.
    const size_t first = line.find_first_not_of(' ');
    size_t end = 0, characters = 0, cut = line.npos;
    while (end < line.size() && characters <= width) {
      if (line[end] == ' ' && end > first) cut = end;
      end += utf8_at(line, end).bytes;
      ++characters;
    }
    if (cut == line.npos) cut = line.find(' ', end);
    if (cut == line.npos) break;
    size_t last = cut;
    while (last > 0 && line[last - 1] == ' ') --last;
    text += line.substr(0, last);
    const size_t next = line.find_first_not_of(' ', cut);
    if (next == line.npos) return;
    text += '\n';
    text += indent;
    line.remove_prefix(next);
    width = columns > indent.size() ? columns - indent.size() : 1;
  }
  text += line;
}

struct Status {
  std::mutex mutex;
  std::FILE* out = nullptr;
  std::string text;
  int away = 0;  // number of WithoutStatus objects
};

Status& status() {
  static auto* status = new Status;  // never destroyed: a worker may log while the process ends
  return *status;
}

constexpr std::string_view kErase = "\r\x1b[K";

// Erases and draws with one write, to avoid flicker.
void show(const Status& now, std::string_view text) {
  std::string bytes(kErase);
  bytes += text;
  std::fwrite(bytes.data(), 1, bytes.size(), now.out);
  std::fflush(now.out);
}

}  // namespace

bool is_terminal(std::FILE* out) { return isatty(fileno(out)) != 0; }

bool can_redraw(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return is_terminal(out) && (kind == nullptr || std::string_view(kind) != "dumb");
}

int columns_of(std::FILE* out) {
  constexpr int kUsual = 100;  // for a terminal without a known size
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return is_terminal(out) ? kUsual : 0;
}

std::string wrapped(std::string_view text, int columns, bool hanging) {
  if (columns <= 0) return std::string(text);
  std::string all;
  for (;;) {
    const size_t end = text.find('\n');
    wrap_line(text.substr(0, end), static_cast<size_t>(columns), hanging, all);
    if (end == text.npos) return all;
    all += '\n';
    text.remove_prefix(end + 1);
  }
}

void set_status(std::FILE* out, std::string_view text) {
  Status& now = status();
  std::lock_guard lock(now.mutex);
  const bool changed = text != now.text || out != now.out;
  if (now.away == 0 && changed && !now.text.empty() && (text.empty() || out != now.out))
    show(now, "");
  now.out = out;
  now.text = text;
  if (now.away == 0 && changed && !text.empty()) show(now, text);
}

WithoutStatus::WithoutStatus() {
  Status& now = status();
  std::lock_guard lock(now.mutex);
  if (now.away++ == 0 && !now.text.empty()) show(now, "");
}

WithoutStatus::~WithoutStatus() {
  Status& now = status();
  std::lock_guard lock(now.mutex);
  if (--now.away == 0 && !now.text.empty()) show(now, now.text);
}

}  // namespace tessera
