#!/usr/bin/env python3
"""The checks of includes, sizes, words and format report planted violations and accept correct files."""

import contextlib
import importlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("runtime/error.h", "#include <string>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_check(self, script, **options):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            code = importlib.import_module(script).main(self.root, **options)
        return code, text.getvalue()

    def assert_caught(self, script, words):
        code, text = self.run_check(script)
        self.assertEqual(code, 1, text)
        self.assertIn(words, text)
        self.assertIn("1 violations", text)

    def assert_fine(self, script):
        code, text = self.run_check(script)
        self.assertEqual(code, 0, text)


class Words(Checks):
    def test_plain_comments_are_fine(self):
        self.write("engine/op.h", "// Returns what `x` is of, as the graph says.\nint f();  // bytes\n")
        self.write("README.md", "pinned (page-locked) memory\n")
        self.assert_fine("check_words")

    def test_comments_without_a_subject(self):
        for text in ("// What it does.\n", "int a;\n  // Of the op.\n", "int a;  // of each node\n",
                     "int a = 0,  // the same\n    b;\n", "void f() {  // where it is\n}\n"):
            self.write("engine/op.h", text)
            self.assert_caught("check_words", "begins with")

    def test_only_the_beginning_counts(self):
        self.write("engine/op.h", "// Stores one byte\n// of each node.\n")
        self.assert_fine("check_words")

    def test_words_that_were_given_up(self):
        self.write("engine/op.h", "class Twins;\n")
        self.assert_caught("check_words", "engine/op.h:1: 'Twins' was given up")
        self.write("engine/op.h", "")
        self.write("docs/memory.md", "in page-locked memory\n")
        self.assert_caught("check_words", "'page-locked' was given up")


class Includes(Checks):
    def test_downwards_is_fine(self):
        self.write("memory/plan.cc", '#include <fmt/format.h>\n#include "tessera/runtime/error.h"\n')
        self.write("runtime/cuda/check.h", "#include <cuda_runtime_api.h>\n#include <sys/mman.h>\n")
        self.assert_fine("check_includes")

    def test_upwards(self):
        self.write("engine/op.h", "")
        self.write("memory/plan.cc", '#include "tessera/engine/op.h"\n')
        self.assert_caught("check_includes", "memory/ must not include")

    def test_siblings(self):
        self.write("layers/conv2d/conv2d.h", "")
        self.write("graph/lower.cc", '  #  include "tessera/layers/conv2d/conv2d.h"\n')
        self.assert_caught("check_includes", "graph/ must not include")
        (self.root / "graph/lower.cc").unlink()
        self.write("graph/graph.h", "")
        self.write("layers/conv2d/conv2d.cc", '#include "tessera/graph/graph.h"\n')
        self.assert_caught("check_includes", "layers/ must not include")

    def test_storeys_of_models(self):
        self.write("models/zoo/zoo.h", "")
        self.write("models/training/session.h", '#include "tessera/models/zoo/zoo.h"\n')
        self.assert_fine("check_includes")
        self.write("models/config/network.cc", '#include "tessera/models/training/session.h"\n')
        self.assert_caught("check_includes", "models/config/ must not include")
        self.write("models/config/network.cc", "")
        self.write("models/trainer.h", "")
        self.assert_caught("check_includes", "is in no tier of models/")

    def test_public_headers(self):
        self.write("engine/CMakeLists.txt",
                   "tessera_tier(engine\n  HEADERS  # public\n    tensor.h\n    op.h\n  SOURCES\n    op.cc)\n")
        self.write("engine/tensor.h", "")
        self.write("engine/op.h", '#include "tessera/engine/tensor.h"\n')
        self.write("engine/storage.h", "")
        self.assert_fine("check_includes")
        self.write("engine/op.h", '#include "tessera/engine/storage.h"\n')
        self.assert_caught("check_includes", "includes the private engine/storage.h")
        (self.root / "engine/op.h").unlink()
        self.assert_caught("check_includes", "engine/op.h: named as a public header")

    def test_too_many_public_headers(self):
        names = [f"h{i}.h" for i in range(47)]
        for name in names:
            self.write("engine/" + name, "")
        listing = "tessera_tier(engine\n  HEADERS\n    " + "\n    ".join(names) + "\n  SOURCES)\n"
        self.write("engine/CMakeLists.txt", listing)
        self.assert_caught("check_includes", "47 public headers outside layers/")

    def test_the_umbrella_has_all_ops(self):
        listing = (Path(__file__).resolve().parents[2] / "layers/CMakeLists.txt").read_text("utf-8")
        self.write("layers/CMakeLists.txt", listing[:listing.index("tessera_tier")])
        for name in ("ops/relu.h", "ops/relu_cpu.h", "shared/epilogue.h", "optimizers/sgd_simd.h"):
            self.write("layers/" + name, "")
        self.write("core.h", "")
        self.assert_caught("check_includes", "lacks the op layers/ops/relu.h")
        self.write("core.h", '#include "tessera/layers/ops/relu.h"\n')
        self.assert_fine("check_includes")

    def test_the_umbrella_is_above_all(self):
        self.write("runtime/CMakeLists.txt", "tessera_tier(runtime\n  HEADERS\n    error.h\n  SOURCES)\n")
        self.write("tessera.h", '#include "tessera/runtime/error.h"\n')
        self.assert_fine("check_includes")
        self.write("models/zoo/zoo.cc", '#include "tessera/tessera.h"\n')
        self.assert_caught("check_includes", "models/ must not include")

    def test_third_party_in_a_header(self):
        self.write("runtime/text.h", "#include <fmt/format.h>\n")
        self.assert_caught("check_includes", "third-party header <fmt/format.h>")

    def test_vendor_headers_outside_cuda(self):
        self.write("runtime/text.h", "#include <cublasLt.h>\n")
        self.assert_caught("check_includes", "third-party header <cublasLt.h>")

    def test_spelling(self):
        self.write("runtime/error.cc", '#include "error.h"\n')
        self.assert_caught("check_includes", 'must be spelled "tessera/..."')

    def test_a_header_that_is_not_there(self):
        self.write("runtime/error.cc", '#include "tessera/runtime/eror.h"\n')
        self.assert_caught("check_includes", "does not exist")

    def chain(self, length):
        for i in range(length):
            self.write(f"engine/h{i}.h", f'#include "tessera/engine/h{i + 1}.h"\n')
        self.write(f"engine/h{length}.h", "")

    def test_depth(self):
        self.chain(6)
        self.assert_fine("check_includes")
        self.chain(7)
        self.assert_caught("check_includes", "include depth 7 is over 6")

    def test_cycle(self):
        self.write("engine/a.h", '#include "tessera/engine/b.h"\n')
        self.write("engine/b.h", '#include "tessera/engine/a.h"\n')
        self.assert_caught("check_includes", "a cycle of includes: engine/a.h -> engine/b.h")

    def test_the_switch_is_read_once(self):
        self.write("runtime/cuda/cuda.h", "#if TESSERA_CUDA\n#endif\n")
        self.assert_fine("check_includes")
        self.write("layers/relu.cc", "#if defined(TESSERA_CUDA)\n#endif\n")
        self.assert_caught("check_includes", "only runtime/cuda/cuda.h reads TESSERA_CUDA")

    def test_an_empty_tree_is_no_pass(self):
        (self.root / "runtime/error.h").unlink()
        self.assertEqual(self.run_check("check_includes")[0], 1)


def lines(count):
    return "  work();\n" * count


class Sizes(Checks):
    def test_at_the_limits(self):
        self.write("engine/a.cc", "void f() {\n" + lines(78) + "}\n")
        self.write("engine/b.cc", "//\n" * 600)
        self.write("engine/CMakeLists.txt", "#\n" * 150)
        self.assert_fine("check_sizes")

    def test_long_file(self):
        self.write("tests/engine/a_test.cc", "//\n" * 601)
        self.assert_caught("check_sizes", "601 lines, over 600")

    def test_long_cmake(self):
        self.write("CMakeLists.txt", "#\n" * 151)
        self.assert_caught("check_sizes", "151 lines, over 150")

    def test_a_folder_has_a_budget(self):
        budget = importlib.import_module("check_sizes").BUDGETS["graph"]
        whole, rest = divmod(budget + 1, 600)
        for i in range(whole):
            self.write(f"graph/part{i}.cc", "int x;\n" * 600)
        self.assert_fine("check_sizes")
        self.write("graph/rest.h", "int x;\n" * rest)
        self.assert_caught("check_sizes", f"graph/: {budget + 1} lines of C++, over {budget}")

    def test_long_functions_of_every_kind(self):
        heads = {
            "f": "void f(int x)",
            "C::C": "C::C(int x)\n    : a_{x}, b_(x)",
            "m": "class C {\n public:\n  int m() const override",
            "TEST(Plan, IsLong)": "namespace {\nTEST(Plan, IsLong)",
            "run": "template <class T>\nstruct Op : Base<T> {\n  auto run(T x) noexcept -> int",
            "kernel": "__global__ void kernel(float* out)",
            "operator==": "bool operator==(const A& a)",
        }
        for name, head in heads.items():
            with self.subTest(head):
                self.write("engine/a.cu", head + " {\n  if (x) {\n" + lines(80) + "  }\n}\n")
                self.assert_caught("check_sizes", f": {name} has")

    def test_braces_that_open_no_function(self):
        self.write("engine/a.cc", "namespace a {\nconstexpr int table[] = {\n" + "  1'000,\n" * 90 +
                   "};\nclass C {\n" + "  int x = 0;\n" * 90 + "};\n}\n" +
                   '// f() {\nconst char* text = "g() {";\n' + "#define H() {\n" + "//\n" * 90)
        self.assert_fine("check_sizes")

    def test_long_python_function(self):
        self.write("tools/a.py", "def f():\n" + "    pass\n" * 80)
        self.assert_caught("check_sizes", "f has 81 lines, over 80")


class Format(Checks):
    def setUp(self):
        super().setUp()
        if importlib.import_module("check_format").clang_format() is None:
            self.skipTest("clang-format 14 is not installed")
        self.write(".clang-format", "BasedOnStyle: Google\n")

    def test_a_file_that_is_not_formatted(self):
        self.write("engine/a.cc", "int f() { return 1; }\n")
        self.write("engine/b.cc", "// clang-format off\nint  g();\n")
        self.assert_fine("check_format")
        self.write("engine/c.cu", "int f(){\nreturn 1;}\n")
        self.assert_caught("check_format", "engine/c.cu: is not formatted")
        self.assertEqual(self.run_check("check_format", fix=True)[0], 0)
        self.assert_fine("check_format")

    def test_settings_that_cannot_be_read_are_no_pass(self):
        self.write(".clang-format", "BasedOnStyle: None of them\n")
        self.assertEqual(self.run_check("check_format")[0], 1)


if __name__ == "__main__":
    unittest.main()
