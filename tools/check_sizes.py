#!/usr/bin/env python3
"""Keeps files, functions and folders small. Prints every one that exceeds its limit, and the
distribution of sizes; exits with 1 if one does.

    check_sizes.py [ROOT]
"""

import ast
import re
import sys
from pathlib import Path

FOLDERS = "runtime memory engine layers graph models tools tests examples cmake".split()
MAX_FILE, MAX_FUNCTION, MAX_CMAKE = 600, 80, 150
AIM_FILE, AIM_FUNCTION = 450, 45  # 95 % should be below
# The maximum lines of C++ and CUDA of a folder. Raise a number here if more are needed, or better,
# remove lines.
BUDGETS = {"runtime": 7325, "memory": 7550, "engine": 9000, "layers": 19700, "graph": 5575,
           "models/data": 8600, "models/zoo": 1850, "models/config": 4850, "models/run": 5500,
           "models/training": 5100, "models/study": 3600, "tools": 5250}

RAW_STRING = re.compile(r'R"([^()\\ ]{0,16})\(.*?\)\1"', re.S)
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/'           # comments
    r'|"(?:\\.|[^"\\\n])*"'         # strings
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"  # characters, but not 1'000
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",       # preprocessor lines with their continuations
    re.S | re.M)
SCOPE = re.compile(
    r"^(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b", re.S)
MEMBER_INITIALISER = re.compile(r"\)\s*(noexcept\s*)?:(?!:)[^{]*[\w>]\s*$", re.S)


def blank(match):
    """Keeps the line breaks of removed text, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group())


def kind_of(head):
    """Returns the kind of the block after `head`, outside of any function."""
    head = head.strip()
    if SCOPE.match(head) and "(" not in SCOPE.sub("", head):
        return "scope"
    return "function" if ")" in head and not MEMBER_INITIALISER.search(head) else "value"


def cpp_functions(text):
    """Yields (name, first line, lines) of the functions of a C++ file. A heuristic over braces: a
    block outside any function begins one if the text before it has parameters."""
    text = NOISE.sub(blank, RAW_STRING.sub(blank, text))
    stack = []     # the kind of each open brace: "scope", "function" or "value"
    begin = 0      # the start of the current declaration
    for mark in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", text):
        inside = bool(stack) and stack[-1] != "scope"
        if mark.group() == "{":
            stack.append("value" if inside else kind_of(text[begin:mark.start()]))
            if stack[-1] == "scope":
                begin = mark.end()
        elif mark.group() == "}" and stack:
            kind = stack.pop()
            if kind == "function":
                declaration = text[begin:mark.end()]
                size = declaration.strip().count("\n") + 1
                first = text.count("\n", 0, mark.end()) + 2 - size
                yield name_of(declaration.split("{")[0]), first, size
            if kind != "value":
                begin = mark.end()
        elif not inside:
            begin = mark.end()


def name_of(head):
    test = re.search(r"TEST\w*\s*\([^)]*\)", head)
    called = re.search(r"(operator\s*[^\s\w(]+|[\w:~]+)\s*\(", head)
    return test.group() if test else called.group(1) if called else " ".join(head.split())[:40]


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def measured_files(root):
    paths = [p for p in root.iterdir() if p.is_file()]
    for folder in FOLDERS:
        paths += [p for p in (root / folder).rglob("*") if p.is_file()]
    for path in sorted(paths):
        if path.suffix in (".h", ".cc", ".cu", ".py", ".sh", ".cmake") or path.name in (
                "CMakeLists.txt", "Makefile"):
            yield path


def over_budget(root):
    for folder, budget in BUDGETS.items():
        lines = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / folder).rglob("*")
                    if path.suffix in (".h", ".cc", ".cu"))
        if lines > budget:
            yield f"{folder}/: {lines} lines of C++, over {budget}"


def share_below(sizes, aim):
    return 100.0 * sum(s < aim for s in sizes) / max(1, len(sizes))


def report(what, sizes, aim):
    sizes = sorted(sizes) or [0]
    at = [sizes[min(len(sizes) - 1, int(len(sizes) * q))] for q in (0.5, 0.95)]
    share = share_below(sizes, aim)
    print(f"{what}: {len(sizes)}, {sum(sizes)} lines, median {at[0]}, 95 % at {at[1]}, "
          f"longest {sizes[-1]}; {share:.1f} % below {aim} (aim: 95 %)")


def main(root):
    problems, file_sizes, function_sizes = [], [], []
    for path in measured_files(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        limit = MAX_CMAKE if path.name == "CMakeLists.txt" else MAX_FILE
        file_sizes.append(lines)
        if lines > limit:
            problems.append(f"{name}: {lines} lines, over {limit}")
        functions = ()
        if path.suffix in (".h", ".cc", ".cu"):
            functions = cpp_functions(text)
        elif path.suffix == ".py":
            functions = python_functions(text)
        for function, first, size in functions:
            function_sizes.append(size)
            if size > MAX_FUNCTION:
                problems.append(f"{name}:{first}: {function} has {size} lines, over {MAX_FUNCTION}")
    problems += over_budget(root)
    for problem in problems:
        print(problem)
    report("files", file_sizes, AIM_FILE)
    report("functions", function_sizes, AIM_FUNCTION)
    print(f"{len(problems)} violations")
    return 1 if problems or not file_sizes else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)))
