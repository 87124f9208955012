"""Formats the results of compare.py as Markdown for docs/cpu-runs.md."""


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def mib(count):
    return f"{count / 2 ** 20:.0f}"


def losses(case):
    def shown(values):
        return ", ".join(f"{value:.4f}" for value in values)

    found = case["losses"]
    return f"{shown(found['ours'])} / {shown(found['theirs'])}"


def fastest_of(peer, case):
    """Returns images/s of the fastest variant in its single run."""
    ran = [result["images_per_second"] for who, result in case["variants"].items()
           if who.startswith(peer + "/") and "fault" not in result]
    return f"{max(ran):.1f}" if ran else ""


def page(found):
    """Returns tables of ratio, speed and memory, then the evidence that both trained the same network."""
    cases = found["cases"].values()
    complete = [case for case in cases if "ratio" in case]
    lines = [f"{found['threads']} threads, {found['machine']}; {found['trainer'].split(';')[0].strip()} "
             f"against {', '.join(sorted({case['version'] for case in complete}))}; "
             f"{found['rounds']} rounds.", "",
             row("step", "batch", "ours / peer", "peer, the fastest variant", "ours images/s",
                 "peer images/s", "ours MiB", "peer MiB"), "|" + "---|" * 8]
    for case in complete:
        ratio, speed, memory = case["ratio"], case["images_per_second"], case["process_bytes"]
        lines.append(row(case["title"], case["batch"],
                         f"{ratio['median']:.2f} ({ratio['low']:.2f} - {ratio['high']:.2f})",
                         case["peer"].replace("/", ", "), f"{speed['ours']['median']:.1f}",
                         f"{speed['theirs']['median']:.1f}", mib(memory["ours"]),
                         mib(memory["theirs"])))
    empty = ", ".join(f"{who} {mib(count)}" for who, count in found["empty_process_bytes"].items())
    lines += ["", f"MiB: the peak of the process; a process without training needs {empty}.", "",
              row("step", "batch", "parameters", "losses of the first steps, ours / peer",
                  "largest difference"), "|" + "---|" * 5]
    lines += [row(case["title"], case["batch"], f"{case['parameters']:,}", losses(case),
                  f"{case['losses']['apart']:.1e}") for case in complete]
    lines += ["", "Both start from the same weights and read the same batches. The first losses agree; later "
              "losses differ as rounding errors grow, faster for a small batch or a deep network: "
              "the losses of the peers differ from each other in the same way."]
    peers = sorted({who.split("/")[0] for case in cases for who in case["variants"]})
    if len(peers) > 1:
        lines += ["", row("step", "batch", *(f"{peer}'s fastest, images/s" for peer in peers)),
                  "|" + "---|" * (2 + len(peers))]
        lines += [row(case["title"], case["batch"], *(fastest_of(peer, case) for peer in peers))
                  for case in cases]
    faults = [(case["title"], case["batch"], who, result["fault"]) for case in cases
              for who, result in case["variants"].items() if "fault" in result]
    if faults:
        lines += ["", "No peers:", ""]
        lines += [f"- {title}, batch {batch}, {who}: " + " ".join(fault.split())[:400]
                  for title, batch, who, fault in faults]
    return "\n".join(lines)
