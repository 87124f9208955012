#!/usr/bin/env python3
"""The page that shows plans, as a browser draws it: scales, axes, zoom. Skips without Chromium.

    plan_page_test.py TRAINER
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "models" / "configs"
TRAINER = str(Path(sys.argv[1]).resolve())
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Records texts drawn on a canvas as [view, text, y]; views are numbered in the order of the page.
PROBE = """<script>
  const words = [], boxes = [], answer = {};
  const plans = [...document.querySelectorAll("canvas.plan")];
  const paint = CanvasRenderingContext2D.prototype;
  const [fillText, fillRect] = [paint.fillText, paint.fillRect];
  paint.fillText = function (text, x, y) {
    words.push([plans.indexOf(this.canvas), text, x, y]); fillText.call(this, text, x, y);
  };
  paint.fillRect = function (x, y, w, h) {
    boxes.push([plans.indexOf(this.canvas), x, y, w, h]); fillRect.call(this, x, y, w, h);
  };
  const seen = name => {
    words.length = boxes.length = 0;
    views.forEach(view => view.draw());
    answer[name] = { words: words.slice(), boxes: boxes.slice() };
  };
  const wheel = (deltaY, shiftKey, times) => {
    const r = plans[0].getBoundingClientRect();
    for (let i = 0; i < times; ++i) {
      plans[0].dispatchEvent(new WheelEvent("wheel", { deltaY, shiftKey,
        clientX: r.left + r.width * .6, clientY: r.top + r.height * .7, cancelable: true }));
    }
  };
  seen("whole");
  wheel(-100, false, 60); wheel(-100, true, 60);
  seen("near");
  plans[0].dispatchEvent(new MouseEvent("dblclick"));
  seen("again");
  const text = () => views[0].text.textContent;
  answer.told = [text()];
  for (const key of ["ArrowRight", "ArrowRight", "ArrowUp", "Escape"]) {
    plans[0].dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
    answer.told.push(text());
  }
  const steps = () => [views[0].time.first, views[0].time.last];
  const touch = (type, pointerId, part) => {
    const r = plans[0].getBoundingClientRect();
    plans[0].dispatchEvent(new PointerEvent(type, { pointerId, pointerType: "touch", cancelable: true,
      clientX: r.left + r.width * part, clientY: r.top + r.height * .4 }));
  };
  plans[0].setPointerCapture = undefined;  // knows no made-up pointers
  answer.steps = [steps()];
  touch("pointerdown", 1, .45); touch("pointerdown", 2, .55);
  touch("pointermove", 2, .75); touch("pointermove", 1, .25);  // two fingers go apart
  touch("pointerup", 1, .25); touch("pointerup", 2, .75);
  answer.steps.push(steps());
  touch("pointerdown", 1, .5); touch("pointermove", 1, .6); touch("pointerup", 1, .6);  // one pulls
  answer.steps.push(steps());
  answer.legend = document.querySelector(".legend").textContent;
  make(document.body, "script", "answer", JSON.stringify(answer)).type = "text/plain";
</script>
"""


@unittest.skipUnless(BROWSER, "no Chromium here (Debian: chromium)")
class PlanPage(unittest.TestCase):
    def look_at(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "p.html"
            subprocess.run([TRAINER, "plan", "--config", CONFIGS / "quickstart.yaml", "--html", page,
                            *words], check=True, capture_output=True)
            text = page.read_text(encoding="utf-8")
            page.write_text(text.replace("</html>", PROBE + "</html>"), encoding="utf-8")
            shown = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,1000",
                 f"--user-data-dir={folder}/browser", "--virtual-time-budget=2000", "--dump-dom",
                 page.as_uri()], check=True, capture_output=True, text=True, timeout=100).stdout
        answer = re.search(r'<script class="answer" type="text/plain">(.*?)</script>', shown, re.S)
        self.assertTrue(answer, shown[-2000:])
        return json.loads(answer[1])

    def labels(self, seen, view, pattern):
        """Returns each label of one axis with its position."""
        at = 3 if "B" in pattern else 2
        found = {word[1]: word[at] for word in seen["words"] if word[0] == view and
                 re.fullmatch(pattern, word[1])}
        self.assertGreaterEqual(len(found), 2, seen["words"])
        return found

    def test_two_plans_have_one_scale(self):
        whole = self.look_at("data.batch=20", "--beside", "data.batch=5")["whole"]
        for pattern in (r"[\d.,]+ ([KM]i)?B", r"\d+"):
            self.assertEqual(self.labels(whole, 0, pattern), self.labels(whole, 1, pattern))
        tops = [min(box[2] for box in whole["boxes"] if box[0] == view) for view in (0, 1)]
        lows = [max(box[2] + box[4] for box in whole["boxes"] if box[0] == view) for view in (0, 1)]
        self.assertEqual(lows[0], lows[1])
        self.assertGreater(lows[0] - tops[0], 2 * (lows[1] - tops[1]))

    def test_other_numbers_of_nodes_have_scales_of_their_own(self):
        whole = self.look_at("data.batch=8", "--beside", "mode=eager")["whole"]
        self.assertEqual(*(self.labels(whole, view, r"[\d.,]+ ([KM]i)?B") for view in (0, 1)))
        self.assertNotEqual(*(self.labels(whole, view, r"\d+") for view in (0, 1)))
        for view in (0, 1):
            self.assertGreater(max(b[1] + b[3] for b in whole["boxes"] if b[0] == view), 700)

    def test_boxes_have_names_and_the_axis_has_modules(self):
        seen = self.look_at("model.name=lenet5", "~model.widths", "data.batch=64")
        words = [word[1] for word in seen["whole"]["words"]]
        self.assertTrue([word for word in words if re.fullmatch(r"%\d+ conv2d.*", word)], words)
        self.assertTrue([word for word in words if re.fullmatch(r"float32\[.*  conv1", word)], words)
        self.assertIn("module", words)
        self.assertIn("conv1", words)
        self.assertIn("forward ends", seen["legend"])

    def test_keys_and_fingers(self):
        seen = self.look_at()
        first, largest, following, above, none = seen["told"]
        self.assertRegex(first, r"The largest tensors:\n +[\d.]+ MiB  %\d+ \w+")  # never an empty box
        for told in (largest, following, above):
            self.assertRegex(told, r"\n[\d.]+ [KM]?i?B \(\d+ bytes\) at \d+, \w+\nlive    \d+ \w+")
        self.assertEqual(len({largest, following, above}), 3)
        self.assertEqual(none, first)
        whole, near, moved = seen["steps"]
        self.assertLess(near[1] - near[0], 0.7 * (whole[1] - whole[0]))
        self.assertAlmostEqual(moved[1] - moved[0], near[1] - near[0])
        self.assertLess(moved[0], near[0])

    def test_zoom_ends_and_comes_back(self):
        seen = self.look_at()
        for x, y, w, h in (box[1:] for box in seen["near"]["boxes"]):
            self.assertTrue(all(isinstance(v, (int, float)) for v in (x, y, w, h)), (x, y, w, h))
        steps = sorted(map(int, self.labels(seen["near"], 0, r"\d+")))
        self.assertEqual(steps, list(range(steps[0], steps[0] + len(steps))))  # each one
        self.labels(seen["near"], 0, r"[\d.,]+ ([KM]i)?B")
        self.assertEqual(seen["again"], seen["whole"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
