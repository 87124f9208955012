#!/usr/bin/env python3
"""trainer data fetch with a slow server that sends wrong answers.

    fetch_test.py TRAINER
"""

import gzip
import hashlib
import http.server
import io
import os
import pty
import random
import re
import subprocess
import sys
import tarfile
import threading
import unittest
from pathlib import Path

from program_case import ProgramTest

TRAINER = str(Path(sys.argv[1]).resolve())
REAL = Path(os.environ.get("TESSERA_TEST_DATA", "")) / "fashion-mnist"
MEMBERS = ["cifar-100-binary/train.bin", "cifar-100-binary/test.bin",
           "cifar-100-binary/fine_label_names.txt", "cifar-100-binary/coarse_label_names.txt"]


def archive(extra=(), leave_out=()):
    """Returns a .tar.gz with CIFAR-100's names and `extra` ones."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for info, *body in extra:
            if body or info.size == 0:
                tar.addfile(info, *body)
            else:  # only the header; Python 3.13 needs the body too
                header = info.tobuf(tar.format)
                tar.fileobj.write(header)
                tar.offset += len(header)
        for i, name in enumerate(MEMBERS):
            if name in leave_out:
                continue
            body = random.Random(i).randbytes(30000 + i)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return gzip.compress(out.getvalue(), 1, mtime=0)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file in the server's `mode`."""

    def do_GET(self):
        server, body = self.server, self.server.body
        server.requests.append(self.headers.get("Range"))
        mode = server.mode
        start = int(self.headers["Range"][6:-1]) if self.headers.get("Range") else 0
        if mode == "missing" or not self.path.endswith("/" + server.name):
            return self.send_error(404)
        if mode == "busy" and len(server.requests) <= server.drops:
            return self.send_error(503)
        if mode.startswith("portal"):
            return self.portal(mode)
        if mode == "ignores ranges" or mode == "drops, ignores ranges":
            start = 0
        promised = part = body[start:]
        if mode.startswith("drops") and len(server.requests) <= server.drops:
            part = part[:len(part) // 3]
        if mode == "always drops":
            part = b""
        if mode == "wrong bytes":
            promised = part = bytes(len(part))
        if mode == "wrong bytes once" and len(server.requests) == 1:
            promised = part = bytes(len(part))
        if mode == "too many":
            promised = part = part + b"more" * 1000
        if mode == "endless":
            return self.endless()
        if mode == "too few":
            promised = part = part[:len(part) // 2]
        if mode == "to a file":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            return self.end_headers()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(promised)))
        self.end_headers()
        self.wfile.write(part)

    def portal(self, mode):
        """Answers every request with a login page, as a network with a captive portal does."""
        page = b"<html>please log in</html>"
        self.send_response(200)
        if mode != "portal without a type":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        if mode != "portal without a length":
            self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def endless(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 16))
                self.server.sent += 1 << 16
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Test(ProgramTest):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "root"
        self.name = "cifar-100-binary.tar.gz"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.serve(archive())

    def serve(self, body, mode="honest", drops=0):
        self.server.body, self.server.mode, self.server.drops = body, mode, drops
        self.server.name, self.server.requests, self.server.sent = self.name, [], 0
        self.publish(body)

    def publish(self, body):
        self.manifest = self.folder / "manifest"
        self.manifest.write_text(f"{hashlib.sha256(body).hexdigest()} {len(body)} {self.name}\n")

    def fetch(self, *words, source=None, what="cifar100", stdout=subprocess.PIPE):
        source = source or f"http://127.0.0.1:{self.server.server_port}/data"
        return subprocess.run(
            [TRAINER, "data", "fetch", what, "--root", str(self.root), "--from", str(source),
             "--manifest", str(self.manifest), *words],
            stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120)

    def check_there(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        files = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        self.assertEqual(files, sorted([*MEMBERS, self.name]))
        self.assertEqual((self.root / MEMBERS[1]).stat().st_size, 30001)

    def check_refused(self, done, *texts):
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.root / self.name).exists())
        self.assertFalse((self.root / MEMBERS[0]).exists())


class Downloads(Test):
    def test_all_is_well(self):
        self.check_there(self.fetch())
        self.server.requests.clear()
        self.check_there(self.fetch())  # the files exist already
        self.assertEqual(self.server.requests, [])

    def test_dropped_connections_are_gone_on_with(self):
        self.serve(archive(), "drops", 4)
        self.check_there(self.fetch())
        self.assertEqual(len(self.server.requests), 5)
        self.assertTrue(all(r and r != "bytes=0-" for r in self.server.requests[1:]))

    def test_a_part_from_before_is_gone_on_with(self):
        self.root.mkdir()
        (self.root / (self.name + ".part")).write_bytes(archive()[:5000])
        self.check_there(self.fetch())
        self.assertEqual(self.server.requests, ["bytes=5000-"])

    def test_a_wrong_part_from_before_is_thrown_away(self):
        self.root.mkdir()
        (self.root / (self.name + ".part")).write_bytes(b"x" * 5000)
        self.check_there(self.fetch())
        self.assertEqual(self.server.requests, ["bytes=5000-", None])

    def test_a_server_without_ranges(self):
        self.serve(archive(), "drops, ignores ranges", 2)
        self.check_there(self.fetch())
        self.serve(archive(), "always drops")
        self.root = self.folder / "other"
        self.check_refused(self.fetch(), "cannot download")

    def test_wrong_bytes(self):
        self.serve(archive(), "wrong bytes")
        self.check_refused(self.fetch(), "is not the published file", "SHA-256")
        self.assertFalse((self.root / (self.name + ".part")).exists())

    def test_wrong_lengths(self):
        self.serve(archive(), "too many")
        self.check_refused(self.fetch(), "sends more than")
        self.serve(archive(), "too few")
        self.check_refused(self.fetch(), "cannot download")
        self.serve(archive(), "endless")
        self.check_refused(self.fetch(), "sends more than")
        self.assertLess(self.server.sent, 64 << 20)

    def test_a_terminal_sees_how_far_it_is(self):
        self.assertNotIn("\x1b", self.fetch().stdout)
        self.root = self.folder / "other"
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "wb") as terminal:
            self.check_there(self.fetch(stdout=terminal))
            seen = screen.read(65536).decode()
        self.assertRegex(seen, r"\r\x1b\[K" + re.escape(self.name) + r": \d+ % of 0\.1 MiB")
        self.assertRegex(seen, r"\r\x1b\[K[^%]*SHA-256 is correct")  # the line is erased

    def part(self):
        return self.root / (self.name + ".part")

    def test_a_page_for_a_login_is_no_file(self):
        for mode, text in [("portal", "web page (text/html)"),
                           ("portal without a length", "web page (text/html)"),
                           ("portal without a type", "is not the file: it has 26 bytes")]:
            self.serve(archive(), mode)
            self.check_refused(self.fetch(), text)
            self.assertEqual(self.server.requests, [None])  # no second request
            self.assertFalse(self.part().exists())
        self.part().write_bytes(archive()[:5000])
        self.check_refused(self.fetch())
        self.assertEqual(len(self.server.requests), 2)
        self.assertEqual(self.part().read_bytes(), archive()[:5000])
        self.serve(archive())  # after the login
        self.check_there(self.fetch())
        self.assertEqual(self.server.requests, ["bytes=5000-"])

    def test_requests_are_bounded(self):
        # Each answer ends at the same byte, so only the first adds to the file.
        self.serve(archive(), "drops, ignores ranges", 10**9)
        self.check_refused(self.fetch(), "cannot download")
        self.assertEqual(len(self.server.requests), 6)
        kept = self.part().read_bytes()
        self.assertEqual(kept, archive()[:len(archive()) // 3])
        self.server.requests.clear()
        self.check_refused(self.fetch(), "cannot download")
        self.assertEqual(len(self.server.requests), 5)
        self.assertEqual(self.part().read_bytes(), kept)

    def test_a_busy_server_is_asked_again(self):
        self.serve(archive(), "busy", 2)
        self.check_there(self.fetch())
        self.assertEqual(len(self.server.requests), 3)

    def test_missing_and_elsewhere(self):
        self.serve(archive(), "missing")
        self.check_refused(self.fetch(), "404")
        self.assertEqual(self.server.requests, [None])
        self.assertFalse(self.part().exists())
        self.serve(archive(), "to a file")
        self.check_refused(self.fetch(), "cannot download")
        self.check_refused(self.fetch(source="file:///etc"), "cannot download")
        self.server.server_close()
        self.check_refused(self.fetch(source="http://127.0.0.1:1/"), "cannot download")


class Offline(Test):
    def test_from_a_folder(self):
        source = self.folder / "usb"
        source.mkdir()
        self.assertEqual(self.fetch(source=source).returncode, 3)
        (source / self.name).write_bytes(archive())
        self.check_there(self.fetch(source=source))
        self.assertEqual(self.server.requests, [])
        self.root = self.folder / "other"
        (source / self.name).write_bytes(archive()[:-1] + b"x")
        self.check_refused(self.fetch(source=source), "is not the published file")

    def test_names(self):
        done = self.fetch(what="cifar12")
        self.assertEqual(done.returncode, 2)
        self.assertIn("mnist, fashion_mnist, cifar10, cifar100", done.stderr)
        self.manifest.write_text(f"{'0' * 64} 10 ../name\n")
        done = self.fetch()
        self.assertEqual(done.returncode, 2)
        self.assertIn("without folders", done.stderr)


    @unittest.skipUnless((REAL / "t10k-labels-idx1-ubyte.gz").exists(),
                         "TESSERA_TEST_DATA names no folder with fashion-mnist")
    def test_published_files(self):
        done = subprocess.run([TRAINER, "data", "fetch", "fashion-mnist", "--root", str(self.root),
                               "--from", str(REAL)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in self.root.iterdir()),
                         sorted(p.name for p in REAL.iterdir()))


class Archives(Test):
    def entry(self, name, kind=tarfile.REGTYPE, body=b"bad", link=""):
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, len(body), link
        return info, io.BytesIO(body)

    def test_only_what_is_expected_is_written(self):
        self.serve(archive(extra=[
            self.entry("../outside.bin"), self.entry("/tmp/outside.bin"),
            self.entry("cifar-100-binary/../../outside.bin"), self.entry("cifar-100-binary/more.bin"),
            self.entry("cifar-100-binary", tarfile.SYMTYPE, b"", "/"),
            self.entry(MEMBERS[0], tarfile.SYMTYPE, b"", "/etc/passwd"),
            self.entry(MEMBERS[1], tarfile.LNKTYPE, b"", "../../outside.bin"),
            self.entry("pipe", tarfile.FIFOTYPE, b"")]))
        self.check_there(self.fetch())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["manifest", "root"])
        self.assertFalse((self.root / MEMBERS[0]).is_symlink())

    def check_archive_refused(self, body, *texts):
        self.serve(body)
        self.root = self.folder / hashlib.sha256(body).hexdigest()
        done = self.fetch()
        self.assertEqual(done.returncode, 3, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.root / MEMBERS[1]).exists())

    def test_damaged_archives(self):
        whole = archive()
        plain = gzip.decompress(whole)
        again = f"{self.name}: byte ", "the file is damaged or wrong; download it again"
        flipped = bytearray(plain)
        flipped[30720] ^= 1  # in the second header
        for body, text in [(gzip.compress(plain[:20000]), "Truncated tar archive"),
                           (gzip.compress(plain[:40000]), "runcated"),
                           (gzip.compress(b"x" * 10000), "Unrecognized archive format"),
                           (gzip.compress(flipped), "Damaged tar archive"),
                           (whole[:len(whole) // 4], "truncated gzip input")]:
            self.check_archive_refused(body, text, *again)
        self.check_archive_refused(archive(leave_out=MEMBERS[1:2]),
                                   f"'{MEMBERS[1]}' is not in the archive")

    def test_archives_are_bounded(self):
        large = tarfile.TarInfo(MEMBERS[1])
        large.size = (256 << 20) + 1
        self.check_archive_refused(archive(extra=[(large,)]),
                                   "an entry is too large for a data set")
        many = [self.entry(f"file_{i}", body=b"") for i in range(1000)]
        self.check_archive_refused(archive(extra=many), "more entries than any data set")
        self.serve(archive(extra=many[4:]))
        self.root = self.folder / "root"
        self.check_there(self.fetch())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
