#!/usr/bin/env python3
"""Removes each event record, wait, synchronisation and barrier of the product in turn: a test must fail.

    mutants.py [--list] [--only PATTERN] [--folder FOLDER] [--jobs 2]

In a copy of the tree every such statement gets a switch, and the tests for the simulated GPU are built
once (TESSERA_CUDA=DOUBLE). A barrier is removed in one kernel at a time: what several kernels share is
needed in each. Each test is run alone to find the statements that it reaches. The tests of a statement then
run without it, the shortest first, under several schedules, until one fails. Exits with 1 if a mutant survives.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
FOLDERS = ("runtime", "memory", "engine", "layers", "graph", "models")
SITE = re.compile(r"\b__sync(?:threads|warp)\s*\("
                  r"|\bcuda(?:Event(?:Record\w*|Synchronize)|Stream(?:WaitEvent|Synchronize)"
                  r"|DeviceSynchronize)\s*\("
                  r"|(?:\.|->)\s*(?:record|wait|synchronize)\s*\(")
# Not about GPUs, or not itself.
ELSEWHERE = (("runtime/context.cc", r"\bevent\.synchronize\("),  # the CPU's, on which all is done at once
             ("models/study/machine_check.cc", ""),  # for times that are only printed
             ("layers/conv2d/cuda/tune.cc", ""),  # for times
             ("runtime/context.h", ""),  # only passes it on
             ("", r"\.wait\(lock\b"),  # a condition variable
             ("", r"\brecorder->record\("),  # of a graph
             ("", r"\bwriter_->wait\("))  # for a file
SCHEDULES = ("lazy", "random:1", "random:2", "random:3", "random:4", "eager")
SWITCH = "tessera_mutant"
FIRST = 3  # tests that run before the others that come to the same place
SECONDS = 300  # that tests may take
DEFINITION = r"""
#include <cstdlib>
#include <fstream>
#include <set>

extern "C" int tessera_mutant(int site);
extern "C" int tessera_mutant(int site) {
  static const char* const wanted = std::getenv("TESSERA_MUTANT");
  static const char* const log = std::getenv("TESSERA_MUTANTS_SEEN");
  static const int number = wanted ? std::atoi(wanted) : -1;
  if (site != number && !log) return 0;
  static auto* const seen = new std::set<std::string>;
  const std::string here = std::to_string(site) + "@" + cuda_double_kernel();
  if (log && seen->insert(here).second) std::ofstream(log, std::ios::app) << here << "\n";
  return wanted && here == wanted;
}
"""
Site = collections.namedtuple("Site", "file line text")


def masked(text):
    """The same length, with blanks for comments and texts."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


def parts(code, begin, end):
    """What commas part in a statement, behind its conditions: [(begin, end)]."""
    head = re.compile(r"\s*(?:if(?:\s+constexpr)?|for|while)\s*\(")
    while match := head.match(code, begin, end):
        begin, depth = match.end(), 1
        while depth > 0:
            depth += (code[begin] in "([{") - (code[begin] in ")]}")
            begin += 1
    found, depth = [begin], 0
    for i in range(begin, end):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if code[i] == "," and depth == 0:
            found.append(i + 1)
    return list(zip(found, [*(i - 1 for i in found[1:]), end]))


def statement(code, at):
    """Begin and end of the statement that `at` is in; None where it cannot be left out."""
    begin = max(code.rfind(c, 0, at) for c in ";{}") + 1
    begin += len(code[begin:]) - len(code[begin:].lstrip())
    label = re.match(r"(?:else\b|case\s[^:?]*:(?!:)|default\s*:|#[^\n]*\n)\s*", code[begin:at])
    if label:
        begin += label.end()
    depth, end = 0, begin
    while depth > 0 or code[end] != ";":
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0:  # it began within the head of a loop
            return None
        end += 1
    inside = code[begin:end]
    if (re.match(r"[\w:<>]+[\s&*]+\w+\s*[=({]", inside)
            and not re.match(r"if\b|for\b|return\b", inside)):
        return None
    return None if re.match(r";\s*else\b", code[end:]) else (begin, end + 1)


def mutated(path, sites):
    """The text of a source with a switch for each statement; the statements go into `sites`."""
    text = (TREE / path).read_text(encoding="utf-8")
    code, places, last = masked(text), [], -1  # places: number, begin, end, whether all of it
    for match in SITE.finditer(code):
        if match.start() < last:  # of the same statement
            continue
        begin = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        end = code.find(";", match.start())
        if any(path.endswith(file) and re.search(pattern, code[begin:end])
               for file, pattern in ELSEWHERE):
            continue
        line = code.count("\n", 0, match.start()) + 1
        found = statement(code, match.start())
        if found is None:
            sys.exit(f"mutants: {path}:{line}: cannot be left out as it is written: "
                     f"{' '.join(code[begin:end].split())}")
        pieces = parts(code, found[0], found[1] - 1)
        whole = len(pieces) == 1
        begin, end = found if whole else next(p for p in pieces if p[0] <= match.start() < p[1])
        last = end
        places.append((len(sites), begin, end, whole))
        sites.append(Site(path, line, " ".join(text[begin:end].split())))
    for number, begin, end, whole in reversed(places):
        inside, here = text[begin:end], f"{SWITCH}({number})"
        if code.startswith("return", begin):  # of success, which is 0
            value = inside.removeprefix("return").rstrip(" ;")
            switched = f"return {here} ? decltype({value}){{}} : {value};"
        elif whole:
            switched = f"if (!{here}) {{ {inside} }}"
        else:
            switched = f" ({here} ? void() : void({inside}))"
        text = text[:begin] + switched + text[end:]
    return f'extern "C" int {SWITCH}(int);\n{text}' if places else text


def sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TREE,
                            capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in listed if (TREE / path).is_file()]


def put(path, data):
    """Leaves a file alone that is so already: it need not be compiled again."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_tree(folder):
    sites, kept = [], set()
    for path in sources():
        if path.startswith(FOLDERS) and path.endswith((".cc", ".cu", ".h")):
            data = mutated(path, sites).encode()
        else:
            data = (TREE / path).read_bytes()
        if path == "tests/cuda_double/double.cc":
            data += DEFINITION.encode()
        if folder is not None:
            put(folder / path, data)
            kept.add(path)
    if folder is not None:
        for old in set(str(p.relative_to(folder)) for p in folder.rglob("*")
                       if p.is_file() and "build" not in p.relative_to(folder).parts[:1]) - kept:
            (folder / old).unlink()
    return sites


def build(folder, jobs):
    settings = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    (folder / "build").mkdir(exist_ok=True)
    for command in (["cmake", "--preset", "double"],
                    ["cmake", "--build", "--preset", "double", f"-j{jobs}", "--target", "gpu_tests"]):
        log = folder / "build" / "log"
        with open(log, "w", encoding="utf-8") as to:
            done = subprocess.run(command, cwd=folder, env=settings | os.environ, stdout=to,
                                  stderr=to, check=False)
        if done.returncode != 0:
            sys.exit(f"mutants: {' '.join(command)}:\n{log.read_text(encoding='utf-8')[-8000:]}")
    return folder / "build" / "double" / "bin" / "gpu_tests"


def run(tests, names, **settings):
    """Whether all pass."""
    command = [tests, f"--gtest_filter={':'.join(names)}", "--gtest_fail_fast", "--gtest_brief=1"]
    try:
        return subprocess.run(command, env=os.environ | {"TESSERA_CACHE": "off"} | settings,
                              capture_output=True, check=False, timeout=SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def all_tests(tests):
    listed = subprocess.run([tests, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    names, suite = [], ""
    for line in listed.stdout.splitlines()[1:]:
        name = line.split("#")[0].rstrip()
        if name.startswith(" "):
            names.append(suite + name.strip())
        else:
            suite = name
    # What fails on purpose runs most of a training for each call of the runtime.
    return [name for name in names if "CudaFailures" not in name]


def who_comes_where(tests, folder, pool):
    """{mutant: its tests, the shortest first}; a mutant is "12@kernel", "12@" where the host waits."""

    def seen_by(numbered):
        number, name = numbered
        log = folder / "build" / f"seen-{number}"
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        if not run(tests, [name], TESSERA_MUTANTS_SEEN=str(log), TESSERA_DOUBLE="lazy"):
            sys.exit(f"mutants: {name} fails as it is")
        seconds = time.monotonic() - begin
        return seconds, name, log.read_text().split() if log.exists() else []

    found = collections.defaultdict(list)
    for seconds, name, seen in pool.map(seen_by, enumerate(all_tests(tests))):
        for mutant in seen:
            found[mutant].append((seconds, name))
    return {mutant: [name for _, name in sorted(names)] for mutant, names in found.items()}


def caught_by(tests, mutant, names):
    for some in (names[:FIRST], names[FIRST:]):
        for schedule in SCHEDULES if some else ():
            settings = {"TESSERA_MUTANT": mutant, "TESSERA_DOUBLE": schedule}
            if not run(tests, some, **settings):
                for name in some:
                    if not run(tests, [name], **settings):
                        return f"{name}, {schedule}"
                return f"{some[0]} and others, {schedule}"
    return None


def name_of(sites, mutant):
    number, kernel = mutant.split("@", 1)
    site = sites[int(number)]
    return f"{site.file}:{site.line}{' in ' + kernel if kernel else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only the statements")
    parser.add_argument("--only", default="", metavar="PATTERN", help="mutants that a search finds")
    parser.add_argument("--folder", type=Path, default=TREE / "build" / "mutants", help="for the copy")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.list:
        for site in copy_tree(None):
            print(f"{site.file}:{site.line}: {site.text}")
        return 0
    folder = arguments.folder.resolve()
    sites = copy_tree(folder)
    tests = build(folder, arguments.jobs)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        where = who_comes_where(tests, folder, pool)
        reached = {int(mutant.split("@")[0]) for mutant in where}
        mutants = sorted([*where, *(f"{n}@" for n in range(len(sites)) if n not in reached)],
                         key=lambda m: (int(m.split("@")[0]), m))
        mutants = [m for m in mutants if re.search(arguments.only, name_of(sites, m))]
        survived = 0
        results = pool.map(lambda m: caught_by(tests, m, where.get(m, [])), mutants)
        for mutant, caught in zip(mutants, results):
            survived += caught is None
            how = caught or ("SURVIVED " + (f"{len(where[mutant])} tests" if mutant in where
                                            else "and no test comes there"))
            print(f"{name_of(sites, mutant):<64} {how}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - survived} caught, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
