"""Formats the results of gpu_check.py as a page of Markdown for docs/gpu-runs.md."""

import statistics

PRECISIONS = {"tf32": "TF32"}  # as they are written


def speeds(results):
    return [result["images_per_second"] for result in results if "images_per_second" in result]


def fastest(peers):
    """Returns the variants that ran, fastest first."""
    ran = [variant for variant in peers if speeds(peers[variant])]
    return sorted(ran, key=lambda variant: -statistics.median(speeds(peers[variant])))


def rows(head, lines):
    def cell(value):
        return " ".join(str(value).split()).replace("|", "\\|")

    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(map(cell, line)) + " |" for line in lines), ""]


def faults(results):
    return sorted({result["fault"] for result in results if "fault" in result})


def correctness(found):
    good, lines = True, []
    doctor, bits = found["doctor"], found["same_bits"]
    lines.append(("`trainer doctor`", f"exit {doctor['code']}"))
    good &= doctor["code"] == 0
    for tests in found["tests"]:
        failed = tests["failed"]
        right = tests["code"] == 0 and not failed and tests["passed"] > 0
        good &= right
        lines.append((f"`{tests['name']}`", f"{tests['passed']} passed, {tests['skipped']} skipped, "
                      f"{len(failed)} failed, exit {tests['code']}, {tests['seconds']:.0f} s"))
        lines += [("", f"failed: {name}") for name in failed]
    nearest = found.get("nearest")
    if nearest:
        lines.append((f"description, against `{nearest['name']}.json`",
                      f"{len(nearest['differs'])} entries differ"))
        lines += [("", f"{key}: {known}, here {here}")
                  for key, (known, here) in nearest["differs"].items()]
    else:
        lines.append(("description", "none, or no profile of this architecture"))
    good &= bits["different"] == 1 and bits["runs"] == bits["wanted"] and bits["code"] == 0
    lines.append((f"{bits['runs']} of {bits['wanted']} runs x {bits['steps']} steps of ResNet-20",
                  f"{bits['different']} different weights, exit {bits['code']}"))
    text = ["Devices: " + ", ".join(device["description"]
                                    for device in found["devices"].get("devices", ())) + ".", ""]
    return text + rows(("check", "result"), lines), good


def sanitizer(found):
    lines = [(tool["tool"], "timed out" if tool["code"] == 124 else f"exit {tool['code']}",
              tool["summary"], f"{tool['seconds']:.0f} s") for tool in found["tools"]]
    return (rows(("compute-sanitizer", "result", "summary", "time"), lines),
            all(tool["code"] == 0 for tool in found["tools"]))


def median(results, key):
    values = [result[key] for result in results if key in result]
    return statistics.median(values) if values else float("nan")


def bench(found):
    lines, notes, good = [], [], True
    for case in found["cases"]:
        name = f"{case['network']}, {PRECISIONS.get(case['precision'], case['precision'])}"
        ours, best = speeds(case["ours"]), fastest(case["peers"])
        good &= bool(ours)
        for who, results in [("ours", case["ours"]), *case["peers"].items()]:
            notes += [f"{name}, {who}: {fault}" for fault in faults(results)]
            if not speeds(results):
                continue
            p50, p95 = median(results, "step_ms_p50"), median(results, "step_ms_p95")
            ratio = ""
            if who == "ours" and best:
                ratio = f"{statistics.median(ours) / statistics.median(speeds(case['peers'][best[0]])):.2f}"
            lines.append((name, who if who == "ours" else f"PyTorch, {who}", len(speeds(results)),
                          f"{median(results, 'images_per_second'):.0f}", f"{p50:.2f}", f"{p95:.2f}",
                          f"{p95 / p50:.3f}", ratio))
    head = ("network", "program", "rounds", "images/s", "p50 ms", "p95 ms", "p95/p50",
            "ours / best of PyTorch")
    return rows(head, lines) + [f"- did not run: {note}" for note in notes], good


def tune(found):
    tunings, lines, notes, good = [], [], [], True
    for case in found["cases"]:
        name = f"{case['network']}, {PRECISIONS.get(case['precision'], case['precision'])}"
        good &= case["code"] == 0
        said = case["said"].partition("; kept in ")[0] if case["code"] == 0 else \
            "timed out" if case["code"] == 124 else f"exit {case['code']}: {case['said'][:200]}"
        tunings.append((name, said, f"{case['seconds']:.0f} s"))
        rule = speeds(case["settings"]["gpu.plans=heuristic"])
        for setting, results in case["settings"].items():
            ran, faulty = speeds(results), faults(results)
            good &= not faulty
            notes += [f"{name}, `{setting}`: {fault}" for fault in faulty or
                      ["no time left"] * (not results)]
            if ran:
                speed = statistics.median(ran)
                lines.append((name, f"`{setting}`", len(ran), f"{speed:.0f}",
                              f"{speed / statistics.median(rule):.3f}" if rule else ""))
    return rows(("network", "`trainer tune`", "time"), tunings) + \
        rows(("network", "setting", "rounds", "images/s", "to `heuristic`"), lines) + \
        [f"- did not run: {note}" for note in notes], good


def page(parts):
    """Returns (Markdown, whether all results are as they must be)."""
    text, good = [], True
    for name, write in (("correctness", correctness), ("sanitizer", sanitizer), ("bench", bench),
                        ("tune", tune)):
        if name not in parts:
            text += [f"**{name}**: did not run.", ""]
            continue
        lines, right = write(parts[name])
        good &= right
        state = "passed" if right else "NOT passed"
        text += [f"**{name}**: {state}, {parts[name]['seconds']:.0f} s.", "", *lines, ""]
    return "\n".join(text).rstrip() + "\n", good
