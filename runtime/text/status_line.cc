#include "tessera/runtime/text/status_line.h"

#include <mutex>
#include <string>

namespace tessera {
namespace {

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
