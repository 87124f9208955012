#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/log.h"
#include "tessera/runtime/text/terminal.h"

namespace tessera {
namespace {

// A file; news() returns the text written since the last call.
class Screen {
 public:
  ~Screen() { std::fclose(file); }
  std::string news() {
    std::fseek(file, seen_, SEEK_SET);
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    seen_ = std::ftell(file);
    std::fseek(file, 0, SEEK_END);
    return text;
  }
  std::FILE* file = std::tmpfile();

 private:
  long seen_ = 0;
};

const std::string kErase = "\r\x1b[K";

TEST(StatusLine, IsRedrawnInPlaceAndTakenAway) {
  Screen screen;
  set_status(screen.file, "a");
  EXPECT_EQ(screen.news(), kErase + "a");
  set_status(screen.file, "a");
  EXPECT_EQ(screen.news(), "");
  set_status(screen.file, "bb");
  EXPECT_EQ(screen.news(), kErase + "bb");
  set_status(screen.file, "");
  EXPECT_EQ(screen.news(), kErase);
  set_status(screen.file, "");
  EXPECT_EQ(screen.news(), "");
}

TEST(StatusLine, MakesRoomForOtherLines) {
  Screen screen;
  set_status(screen.file, "a");
  screen.news();
  {
    const WithoutStatus outer;
    EXPECT_EQ(screen.news(), kErase);
    const WithoutStatus inner;
    set_status(screen.file, "b");
    EXPECT_EQ(screen.news(), "");
  }
  EXPECT_EQ(screen.news(), kErase + "b");
  set_status(screen.file, "");
  {
    const WithoutStatus nothing_there;
    screen.news();
  }
  EXPECT_EQ(screen.news(), "");
}

TEST(StatusLine, LinesOfAnyThreadStandAboveIt) {
  Screen screen;
  set_log_sink([&](LogLevel, std::string_view text) {
    std::fprintf(screen.file, "%.*s\n", static_cast<int>(text.size()), text.data());
  });
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([] {
      for (int line = 0; line < 200; ++line) log(LogLevel::error, "the disk is slow");
    });
  for (int i = 0; i < 500; ++i) set_status(screen.file, "bar " + std::to_string(i));
  for (std::thread& worker : workers) worker.join();
  set_status(screen.file, "");
  set_log_sink({});
  const std::string text = screen.news();
  int lines = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const size_t erased = line.rfind(kErase);
    EXPECT_EQ(erased == line.npos ? line : line.substr(erased + kErase.size()), "the disk is slow");
    ++lines;
  }
  EXPECT_EQ(lines, 800);
}

}  // namespace
}  // namespace tessera
