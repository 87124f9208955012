#include <cstdio>
#include <memory>

#include <curl/curl.h>
#include <fmt/format.h>

#include "tessera/tools/data_fetch.h"

namespace tessera {

namespace {

struct Sink {
  std::FILE* file;
  int64_t at, most;  // bytes there, and as many as may come
  CURL* curl;
  bool checked = false, refused = false;
};

// The first bytes show whether the server goes on where it was asked to.
bool goes_on(Sink& sink) {
  long code = 0;
  curl_easy_getinfo(sink.curl, CURLINFO_RESPONSE_CODE, &code);
  return sink.at == 0 ? code == 200 : code == 206;
}

size_t receive(char* bytes, size_t size, size_t count, void* into) {
  Sink& sink = *static_cast<Sink*>(into);
  size_t given = size * count;
  if (!sink.checked && !goes_on(sink)) {
    sink.refused = true;
    return 0;
  }
  sink.checked = true;
  if (static_cast<int64_t>(given) > sink.most - sink.at) {
    sink.at = sink.most + 1;
    return 0;
  }
  if (std::fwrite(bytes, 1, given, sink.file) != given) return 0;
  sink.at += static_cast<int64_t>(given);
  return given;
}

}  // namespace

std::string download(const std::string& url, const std::string& path, int64_t most) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) return "libcurl cannot be started";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "ab"), std::fclose);
  std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!file || !curl) return path + ": cannot be written";
  std::fseek(file.get(), 0, SEEK_END);
  Sink sink{file.get(), std::ftell(file.get()), most, curl.get()};
  char why[CURL_ERROR_SIZE] = {};
  auto set = [&](auto option, auto value) { curl_easy_setopt(curl.get(), option, value); };
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
  std::string range = fmt::format("{}-", sink.at);
  if (sink.at > 0) set(CURLOPT_RANGE, range.c_str());
  CURLcode result = curl_easy_perform(curl.get());
  if (std::fflush(file.get()) != 0) return path + ": the disk refuses";
  if (sink.refused) {
    // It sends all again: then all is what we take.
    file.reset();
    if (std::remove(path.c_str()) != 0 || sink.at == 0) return "an answer that is no file";
    return "the server does not go on with a file";
  }
  if (sink.at > most) {
    std::remove(path.c_str());
    return fmt::format("the server sends more than the {} bytes of the published file", most);
  }
  if (result != CURLE_OK) return why[0] != '\0' ? why : curl_easy_strerror(result);
  if (sink.at < most) return fmt::format("the server ends after {} of {} bytes", sink.at, most);
  return "";
}

}  // namespace tessera
