#include "tessera/runtime/text/terminal.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Terminal, HelpIsBrokenBelowItsDescriptions) {
  EXPECT_EQ(wrapped("  -o  one two", 12, true), "  -o  one\n      two");
  EXPECT_EQ(wrapped("          one two six", 18, true), "          one two\n          six");
  EXPECT_EQ(wrapped("  one two", 6, true), "  one\n    two");
  EXPECT_EQ(wrapped("  --option  one two", 14, true),
            "  --option\n  one two");  // no space beside it
}

TEST(Terminal, LinesAreBrokenAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 13), "one two three");
  EXPECT_EQ(wrapped("one two three", 8), "one two\n  three");
  EXPECT_EQ(wrapped("one  two", 4), "one\n  two");
  EXPECT_EQ(wrapped("a b\nc d e", 3), "a b\nc d\n  e");
  EXPECT_EQ(wrapped("one two", 0), "one two");  // no terminal
}

TEST(Terminal, LongWordsStayWholeAndIndentationToo) {
  EXPECT_EQ(wrapped("abcdefgh ij", 4), "abcdefgh\n  ij");
  EXPECT_EQ(wrapped("abcdefgh", 4), "abcdefgh");
  EXPECT_EQ(wrapped("    abcdef gh", 6), "    abcdef\n  gh");
  EXPECT_EQ(wrapped("", 4), "");
}

TEST(Terminal, CharactersAreCountedAndNotBytes) {
  EXPECT_EQ(wrapped("äöü äöü", 7), "äöü äöü");
  EXPECT_EQ(wrapped("äöü äöü", 6), "äöü\n  äöü");
}

TEST(Terminal, AFileIsNone) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(is_terminal(file));
  EXPECT_FALSE(can_redraw(file));
  EXPECT_EQ(columns_of(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace tessera
