#!/usr/bin/env python3
"""Checks the includes, the first law of docs/design.md, and that the public headers are few and
include nothing private. Prints every violation; exits with 1 if there is one.

    check_includes.py [ROOT]
"""

import re
import sys
from pathlib import Path

BELOW = {
    "runtime": set(),
    "memory": {"runtime"},
    "engine": {"runtime", "memory"},
    "layers": {"runtime", "memory", "engine"},
    "graph": {"runtime", "memory", "engine"},
    "models": {"runtime", "memory", "engine", "layers", "graph"},
    "tools": {"runtime", "memory", "engine", "layers", "graph", "models"},
}
# The tiers of models/, each above the ones before it.
MODEL_TIERS = ["data", "zoo", "config", "run", "training", "study"]
MAX_DEPTH = 6
MAX_PUBLIC = 44  # outside layers/, which has one for each op
UMBRELLAS = ["core.h", "tessera.h", "cuda.h"]
SWITCH_HEADER = "runtime/cuda/cuda.h"

HEADERS = re.compile(r"^\s*((?:CUDA_)?HEADERS)\b(.*(?:\n\s+[\w/]+\.h\b)*)", re.M)
# Folders whose headers are public unless a filter excludes them: the patterns and the filter.
ALL_HEADERS = re.compile(r"GLOB headers .*\n\s+([^)]*)\)\nlist\(FILTER headers EXCLUDE REGEX \"(.*)\"\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SWITCH = re.compile(r"^\s*#\s*(?:el)?if.*\bTESSERA_CUDA\b", re.M)
# Headers of standard C++ (<vector>), the system and the compiler.
OF_THE_SYSTEM = re.compile(r"^([a-z0-9_]+|(sys/\w+|unistd|fcntl|immintrin|arm_neon)\.h)$")
OF_CUDA = re.compile(r"^(cuda|cublas|cudnn|curand|nccl)\w*\.(h|hpp)$")


def sources(root):
    """Returns {path from the root: text} of the C++ and CUDA files of tiers and the root's headers."""
    found = {p.name: p for p in root.glob("*.h")}
    for tier in BELOW:
        for path in sorted((root / tier).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                found[path.relative_to(root).as_posix()] = path
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


def tier_of(name):
    return name.split("/")[0] if "/" in name else None


def model_tier_of(name):
    """Returns the number of a file's tier in models/; None for other files."""
    parts = name.split("/")
    return MODEL_TIERS.index(parts[1]) if parts[0] == "models" and parts[1] in MODEL_TIERS else None


def check_file(name, text, files):
    """Returns (violations, project files that this one includes)."""
    problems, targets = [], []
    tier = tier_of(name)
    if tier == "models" and model_tier_of(name) is None:
        problems.append(f"{name}: is in no tier of models/ ({', '.join(MODEL_TIERS)})")
    is_header = name.endswith(".h")
    is_cuda = "/cuda/" in name or name.endswith("_cuda.h")
    for quote, spelled in INCLUDE.findall(text):
        if quote == "<":
            if is_header and not OF_THE_SYSTEM.match(spelled):
                if not (is_cuda and OF_CUDA.match(spelled)):
                    problems.append(f"{name}: a header includes the third-party header <{spelled}>")
            continue
        if not spelled.startswith("tessera/"):
            problems.append(f'{name}: "{spelled}" must be spelled "tessera/..."')
            continue
        target = spelled.removeprefix("tessera/")
        targets.append(target)
        if target not in files:
            problems.append(f'{name}: "{spelled}" does not exist')
        elif tier is not None and tier_of(target) not in BELOW[tier] | {tier}:
            problems.append(f'{name}: {tier}/ must not include "{spelled}": it is not below')
        elif (model_tier_of(name) is not None and model_tier_of(target) is not None
              and model_tier_of(target) > model_tier_of(name)):
            problems.append(f'{name}: models/{MODEL_TIERS[model_tier_of(name)]}/ must not include '
                            f'"{spelled}": it is not below')
    if SWITCH.search(text) and name != SWITCH_HEADER:
        problems.append(f"{name}: only {SWITCH_HEADER} reads TESSERA_CUDA; use `if constexpr "
                        "(kCuda)`")
    return problems, targets


def public_headers(root):
    """Returns {name: whether it needs CUDA} of the headers that the tiers' CMakeLists.txt call public:
    those that they name, and of folders taken as a whole those that no filter excludes."""
    found = {name: name == "cuda.h" for name in UMBRELLAS if (root / name).exists()}
    for tier in [*BELOW, "models/data"]:
        listing = root / tier / "CMakeLists.txt"
        if not listing.exists():
            continue
        text = listing.read_text(encoding="utf-8")
        for patterns, others in ALL_HEADERS.findall(text):
            found |= {path.relative_to(root).as_posix(): False for pattern in patterns.split()
                      for path in sorted((root / tier).glob(pattern))
                      if not re.search(others.replace("\\\\", "\\"), path.name)}
        for keyword, names in HEADERS.findall(text):
            for name in re.findall(r"^\s+([\w/]+\.h)\b", names, re.M):
                found[f"{tier}/{name}"] = keyword == "CUDA_HEADERS"
    return found


def check_public(root, files, includes):
    """Returns what is wrong with the public headers."""
    public = public_headers(root)
    problems = [f"{name}: named as a public header, but does not exist"
                for name in public if name not in files]
    for name in public:
        problems += [f"{name}: a public header includes the private {target}"
                     for target in includes.get(name, ()) if target not in public]
    counted = [n for n, cuda in public.items() if not cuda and tier_of(n) != "layers"]
    if len(counted) > MAX_PUBLIC:
        problems.append(f"{len(counted)} public headers outside layers/ are over {MAX_PUBLIC}")
    umbrella = includes.get("core.h", ())
    problems += [f"core.h: lacks the op {name}" for name in public
                 if tier_of(name) == "layers" and "/shared/" not in name and name not in umbrella]
    return problems, len(counted)


def longest_chain(name, includes, chains, path=()):
    """Returns the longest chain of includes from `name`; raises ValueError on a cycle."""
    if name in path:
        raise ValueError(" -> ".join((*path[path.index(name):], name)))
    if name not in chains:
        below = [longest_chain(t, includes, chains, (*path, name)) for t in includes.get(name, ())]
        chains[name] = [name] + max(below, key=len, default=[])
    return chains[name]


def main(root):
    files = sources(root)
    problems, includes = [], {}
    for name, text in files.items():
        found, includes[name] = check_file(name, text, files)
        problems += found
    chains, deepest = {}, []
    try:
        for name in files:
            chain = longest_chain(name, includes, chains)
            deepest = max(deepest, chain, key=len)
            if len(chain) - 1 > MAX_DEPTH and name not in UMBRELLAS:
                problems.append(f"{name}: include depth {len(chain) - 1} is over {MAX_DEPTH}: "
                                + " -> ".join(chain))
    except ValueError as cycle:
        problems.append(f"a cycle of includes: {cycle}")
    found, public = check_public(root, files, includes)
    problems += found
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {public} public headers outside layers/; "
          f"deepest includes {len(deepest) - 1}: {' -> '.join(deepest)}")
    print(f"{len(problems)} violations")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)))
