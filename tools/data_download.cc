#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include <curl/curl.h>
#include <fmt/format.h>

#include "tessera/tools/data_fetch.h"

namespace tessera {

namespace {

struct Sink {
  std::FILE* file;
  int64_t at, most;  // bytes present, and the maximum
  CURL* curl;
  const std::function<void(int64_t)>& progress;
  int64_t skip = 0;  // incoming bytes that are present already
  bool checked = false, full = false;
  std::string refused = {};  // reason why the answer is not the file
};

// Checks, by status and headers alone, whether the answer can be the file. If a server sends all
// bytes again instead of resuming, those already present are skipped.
void check_answer(Sink& sink) {
  sink.checked = true;
  long code = 0;
  const char* type = nullptr;
  curl_off_t length = -1;
  curl_easy_getinfo(sink.curl, CURLINFO_RESPONSE_CODE, &code);
  curl_easy_getinfo(sink.curl, CURLINFO_CONTENT_TYPE, &type);
  curl_easy_getinfo(sink.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  const bool goes_on = code == 206 && sink.at > 0;
  if (!goes_on && code != 200) {
    sink.refused = fmt::format("the answer is not a file (status {})", code);
    return;
  }
  sink.skip = goes_on ? 0 : sink.at;
  const int64_t all = sink.most - sink.at + sink.skip;
  if (type != nullptr && std::string_view(type).starts_with("text/html")) {
    sink.refused =
        "the answer is a web page (text/html), not the file; the network may require a login in a "
        "browser first";
  } else if (length > all) {
    sink.refused =
        fmt::format("the server sends more than the {} bytes of the published file", sink.most);
  } else if (length >= 0 && length < all) {
    sink.refused =
        fmt::format("the answer is not the file: it has {} bytes instead of {}", length, all);
  }
}

size_t receive(char* bytes, size_t size, size_t count, void* into) {
  Sink& sink = *static_cast<Sink*>(into);
  const size_t given = size * count;
  if (!sink.checked) check_answer(sink);
  if (!sink.refused.empty()) return 0;
  const auto passed = std::min(sink.skip, static_cast<int64_t>(given));
  sink.skip -= passed;
  const auto fresh = static_cast<int64_t>(given) - passed;
  if (fresh > sink.most - sink.at) {
    sink.at = sink.most + 1;
    return 0;
  }
  const auto written = std::fwrite(bytes + passed, 1, static_cast<size_t>(fresh), sink.file);
  sink.full = written != static_cast<size_t>(fresh);
  sink.at += static_cast<int64_t>(written);
  if (sink.progress) sink.progress(sink.at);
  return sink.full ? 0 : given;
}

// Returns true if another request to the same server may succeed.
bool may_pass(CURLcode result, CURL* curl) {
  long code = 0;
  switch (result) {
    case CURLE_OK:  // but too short
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    case CURLE_HTTP_RETURNED_ERROR:
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
      return code >= 500 || code == 408 || code == 429;
    default:
      return false;
  }
}

void set_up(CURL* curl, const std::string& url, Sink& sink, char* why) {
  auto set = [&](auto option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1000L);
  set(CURLOPT_LOW_SPEED_TIME, 30L);
  set(CURLOPT_USERAGENT, "tessera");
  set(CURLOPT_ERRORBUFFER, why);
  set(CURLOPT_WRITEFUNCTION, receive);
  set(CURLOPT_WRITEDATA, &sink);
  if (sink.at > 0) set(CURLOPT_RANGE, fmt::format("{}-", sink.at).c_str());
}

}  // namespace

Download download(const std::string& url, const std::string& path, int64_t most,
                  const std::function<void(int64_t)>& progress) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) return {"libcurl cannot be started", false};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "ab"), std::fclose);
  std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!file) return {fmt::format("{}: cannot be written: {}", path, std::strerror(errno)), false};
  if (!curl) return {"libcurl cannot be started", false};
  std::fseek(file.get(), 0, SEEK_END);
  Sink sink{file.get(), std::ftell(file.get()), most, curl.get(), progress};
  char why[CURL_ERROR_SIZE] = {};
  set_up(curl.get(), url, sink, why);
  const CURLcode result = curl_easy_perform(curl.get());
  if (result == CURLE_OK && !sink.checked) check_answer(sink);  // an empty answer
  const bool full = std::fflush(file.get()) != 0 || sink.full;
  file.reset();
  if (sink.at == 0 || sink.at > most) std::remove(path.c_str());
  if (full) return {path + ": writing failed; free disk space", false};
  if (!sink.refused.empty()) return {sink.refused, false};
  if (sink.at > most)
    return {fmt::format("the server sends more than the {} bytes of the published file", most),
            false};
  if (result != CURLE_OK)
    return {why[0] != '\0' ? why : curl_easy_strerror(result), may_pass(result, curl.get())};
  if (sink.at < most)
    return {fmt::format("the answer ends after {} of {} bytes", sink.at, most), true};
  return {};
}

}  // namespace tessera
