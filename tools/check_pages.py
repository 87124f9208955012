#!/usr/bin/env python3
"""Looks at pages of trainer (report.html, compare --html, plan --html) in Chromium, at two widths,
light and dark. Prints texts that overlap, texts that a curve crosses, and shapes whose tooltip the
mouse cannot reach; exits with 1 if there are any.

    check_pages.py PAGE...
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = (1300, 620)
MODES = ((), ("--force-dark-mode", "--blink-settings=preferredColorScheme=0"))

# Answers {faults: [...], texts: number, hovers: number}.
PROBE = r"""<script>
  document.querySelectorAll("details").forEach(one => one.open = true);
  const faults = [], texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("title, style, script, summary")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width > 0) texts.push({ text: node.data.trim().slice(0, 40), box, parent });
  }
  const short = .25;  // lines of text share the space between them
  for (let i = 0; i < texts.length; ++i)
    for (let k = i + 1; k < texts.length; ++k) {
      const a = texts[i].box, b = texts[k].box;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > short * Math.min(a.height, b.height))
        faults.push(`'${texts[i].text}' and '${texts[k].text}' overlap`);
    }
  for (const path of document.querySelectorAll("svg path")) {
    const drawn = path.getScreenCTM(), labels = texts.filter(t => path.ownerSVGElement.contains(t.parent));
    const length = path.getTotalLength(), crossed = new Set();
    for (let at = 0; at <= length; at += 2) {
      const p = path.getPointAtLength(at).matrixTransform(drawn);
      for (const { text, box } of labels)
        if (p.x > box.left && p.x < box.right && p.y > box.top + 2 && p.y < box.bottom - 2)
          crossed.add(text);
    }
    crossed.forEach(text => faults.push(`a curve crosses '${text}'`));
  }
  const hovers = document.querySelectorAll("rect > title, circle > title");
  for (const title of hovers) {
    const shape = title.parentElement;
    shape.scrollIntoView({ block: "center", inline: "center" });
    const box = shape.getBoundingClientRect();
    if (!title.textContent.trim()) faults.push("a tooltip is empty");
    if (box.width < 2 || box.height < 2) continue;
    const seen = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    if (seen !== shape && !(seen && seen.querySelector(":scope > title")))
      faults.push(`'${title.textContent.slice(0, 60)}' cannot be reached`);
  }
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify({ faults, texts: texts.length, hovers: hovers.length });
  document.body.append(answer);
</script>"""


def look(browser, page, width, mode, folder):
    copy = Path(folder) / "page.html"
    copy.write_text(Path(page).read_text(encoding="utf-8") + PROBE, encoding="utf-8")
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", *mode,
                           f"--window-size={width},1200", "--dump-dom", copy.as_uri()],
                          capture_output=True, text=True, timeout=120, check=True)
    answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.S)
    if not answer:
        raise SystemExit(f"{page}: Chromium did not run the script of this check")
    return json.loads(html.unescape(answer.group(1)))


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("check_pages: needs Chromium (on Debian: apt-get install chromium)")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for page in sys.argv[1:]:
            for width in WIDTHS:
                for mode in MODES:
                    told = look(browser, page, width, mode, folder)
                    failed = failed or bool(told["faults"])
                    print(f"{page} {width} px {'dark' if mode else 'light'}: {told['texts']} texts, "
                          f"{told['hovers']} tooltips, {len(told['faults'])} faults")
                    for fault in sorted(set(told["faults"]))[:20]:
                        print("  ", fault)
    sys.exit(failed)


if __name__ == "__main__":
    main()
