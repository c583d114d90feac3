#!/usr/bin/env python3
"""sereno bench corun as people use it: a foreground and a background, and what goes wrong with them."""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from support import ROOT, TIMEOUT_S, Case, main, tiny_model

PROFILE = """[profile]
about = little work
[frames]
fps = 100
[work]
width = 64
height = 64
layers = 1
loads = 100
[data]
texture_mib = 1
scene_mib = 1
"""
QUICK = ("--seconds", 0.3, "--warm-up", 0.1, "--repeats", 2, "-n", 20)
ALL = ("native,native-again,spin,plain,plain-idle,plain-idle-fixed,spec:batch=4,freq-limit:factor=3,"
       "chunk-sleep:every=2:us=300,hint,hint:frame=verify:draft=self:int4")
CELL_KEYS = {"strategy", "foreground", "placement", "frames", "janky", "jank_rate", "dropped", "frame_ms",
             "fg_latency_ns", "tok_s", "ttft_ms", "itl_ms", "acceptance", "time_share", "weights_gbs", "cpu_s",
             "longest_uninterrupted_ms", "error"}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    """Of a process, by pid what they were called as."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            pass
    return found


def wait_until(condition, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.01)


class Corun(Case):
    def arguments(self, strategies, *more):
        profile, prompts = Path(self.folder()) / "little.ini", Path(self.folder())
        profile.write_text(PROFILE)
        for name in ("one", "two"):
            (prompts / f"{name}.txt").write_text(f"{name}: the sea and the sea and the sea and the\n")
        return ("bench", "corun", "-m", tiny_model("f16"), "--foreground", profile, "--prompts", prompts,
                "--strategies", strategies, *QUICK, *more)

    def corun(self, strategies, *more, **how):
        result = self.sereno(*self.arguments(strategies, "--json", *more), **how)
        document = self.document(result.out)
        return {c["strategy"]: c for c in document["cells"]}, document, result

    def fake_peer(self):
        """Its address; a mode is to be appended."""
        process = subprocess.Popen([sys.executable, str(ROOT / "tests/support/fake_peer.py")], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        for clean in (process.stdout.close, process.wait, process.kill, process.stdin.close):
            self.addCleanup(clean)
        return f"peer:http://127.0.0.1:{int(process.stdout.readline())}/"


class Results(Corun):
    def test_every_strategy(self):
        cells, document, _ = self.corun(ALL)
        self.assertEqual(list(cells), ALL.split(","))
        for name, cell in cells.items():
            self.assertLessEqual(CELL_KEYS, cell.keys())
            self.assertIsNone(cell["error"], cell)
            self.assertGreater(cell["frames"], 10, cell)
            self.assertAlmostEqual(cell["jank_rate"], cell["janky"] / cell["frames"], 6)
            self.assertGreater(cell["fg_latency_ns"], 0)
            if name in ("native", "native-again", "spin"):
                self.assertIsNone(cell["tok_s"])
                continue
            for key in ("tok_s", "weights_gbs", "cpu_s", "longest_uninterrupted_ms"):
                # The idle class gets nothing of a core on which others work.
                (self.assertGreater if name == "plain" else self.assertGreaterEqual)(cell[key], 0, (key, cell))
        if cells["spec:batch=4"]["tok_s"] > 0:
            self.assertGreater(cells["spec:batch=4"]["time_share"]["verify_by_batch"]["4"], 0)
        for slow in ("freq-limit:factor=3", "chunk-sleep:every=2:us=300"):
            if cells[slow]["tok_s"] > 0:
                self.assertGreater(cells[slow]["time_share"]["sleep"], 0.2)
        self.assertEqual(document["settings"]["setting"], "real text")
        over_plain = {r["strategy"] for r in document["ratios"] if r["base"] == "plain"}
        self.assertEqual(over_plain, set(ALL.split(",")) - {"native", "native-again", "plain"})

    def test_shared_placement_synthetic_and_sporadic(self):
        cells, document, _ = self.corun("native,plain-idle,plain-idle-fixed,spec:draft=self:int4", "--placement",
                                        "shared", "--synthetic-acceptance", "0.7,0.5", "--load", "sporadic")
        settings = document["settings"]
        self.assertEqual((settings["setting"], settings["placement"], settings["background"]["load"]),
                         ("synthetic", "shared", "sporadic"))
        for cell in cells.values():
            self.assertIsNone(cell["error"], cell)
        for ratio in document["ratios"]:
            self.assertIn(ratio["base"], ("plain-idle", "native"))

    def test_text(self):
        result = self.sereno(*self.arguments("native,native-again,plain,spec:batch=4"))
        for word in ("native-again", "spec:batch=4", "split"):
            self.assertIn(word, result.out)
        self.assertLessEqual(max(map(len, result.out.splitlines())), 120)

    def test_peers(self):
        url = self.fake_peer() + "ok"
        cells, _, _ = self.corun(f"plain,{url}")
        self.assertIsNone(cells[url]["error"])
        self.assertGreater(cells[url]["tok_s"], 0)
        self.assertIsNone(cells[url]["weights_gbs"])

    def test_resuming(self):
        log = Path(self.folder()) / "runs.jsonl"
        arguments = self.arguments("native,plain", "--log", log, "--json")
        first = self.document(self.sereno(*arguments).out)
        self.assertEqual(len(log.read_text().splitlines()), 1 + 2 * 2)
        again = self.document(self.sereno(*arguments).out)
        self.assertEqual(first, again)
        self.assertEqual(len(log.read_text().splitlines()), 1 + 2 * 2)  # nothing was measured
        self.assertEqual(first, self.document(self.sereno(*arguments, "--repeats", 9, "--report").out))
        more = self.document(self.sereno(*arguments, "--repeats", 3).out)
        self.assertEqual(len(log.read_text().splitlines()), 1 + 3 * 2)
        self.assertGreater(more["cells"][0]["frames"], first["cells"][0]["frames"])
        kept = log.read_text()
        refused = self.sereno(*arguments, "--placement", "shared", code=2)
        self.assertIn("placement", refused.err)
        self.assertEqual(refused.out, "")
        self.assertEqual(log.read_text(), kept)

    def test_frames_wanted(self):
        cells, _, _ = self.corun("native", "--min-frames", 150)
        self.assertGreaterEqual(cells["native"]["frames"], 150)


class Failures(Corun):
    """Whatever one side does ends its own cell, and the run goes on."""

    def test_peers_that_misbehave(self):
        server = self.fake_peer()
        urls = {server + mode: mode for mode in ("garbage", "drop", "html", "json-error")}
        urls["peer:http://127.0.0.1:1"] = "nobody"
        cells, _, result = self.corun(",".join(("native", *urls)))
        self.assertIsNone(cells["native"]["error"])
        for url, mode in urls.items():
            self.assertTrue(cells[url]["error"], mode)
            self.assertIn(url, result.err)

    def test_peer_that_hangs(self):
        url = self.fake_peer() + "hang"
        cells, _, _ = self.corun(f"native,{url}", "--repeats", 1)
        self.assertIsNone(cells["native"]["error"])
        self.assertIn("no token", cells[url]["error"])

    def foreground_of(self, running):
        found = []

        def look():
            found[:] = [pid for pid, words in children(running.process.pid).items() if b"foreground" in words]
            return found

        wait_until(look, "a foreground")
        return found[0]

    def misbehave(self, number, words):
        running = self.start(*self.arguments("native,plain", "--json", "--repeats", 1, "--seconds", 1))
        os.kill(self.foreground_of(running), number)
        result = running.finish()
        self.assertEqual(result.code, 0, result)
        cells = self.document(result.out)["cells"]
        errors = [c["error"] for c in cells]
        self.assertEqual(sorted(e is None for e in errors), [False, True], errors)
        self.assertRegex("".join(filter(None, errors)), words)

    def test_foreground_that_crashes(self):
        self.misbehave(signal.SIGKILL, "killed by signal 9")

    def test_foreground_that_hangs(self):
        self.misbehave(signal.SIGSTOP, "hangs|did not begin")

    def test_background_that_crashes(self):
        running = self.start(*self.arguments("plain", "--json", "--repeats", 3, "--seconds", 1, "-v"))
        running.wait_for("err", rb"repeat 2: plain")
        for pid, words in children(running.process.pid).items():
            if b"foreground" not in words:
                os.kill(pid, signal.SIGKILL)
        result = running.finish()
        self.assertEqual(result.code, 0, result)
        cell = self.document(result.out)["cells"][0]
        self.assertEqual((cell["runs"], cell["failed"]), (2, 1))
        self.assertIn("killed by signal 9", cell["error"])

    def everyone(self, running):
        self.foreground_of(running)
        pids = set(children(running.process.pid))
        self.assertGreaterEqual(len(pids), 2)
        return pids

    def test_nothing_is_left_after_ctrl_c(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            with self.subTest(number):
                running = self.start(*self.arguments("plain,native", "--seconds", 20))
                pids = self.everyone(running)
                running.process.send_signal(number)
                result = running.finish()
                self.assertEqual(result.code, code, result)
                self.assertEqual(result.out, "")
                wait_until(lambda pids=pids: not any(map(alive, pids)), "nothing is left")

    def test_sessions(self):
        """Foreground and background lead sessions of their own; only the fixed one is lowered."""
        switch = Path("/proc/sys/kernel/sched_autogroup_enabled")
        if not switch.exists() or switch.read_text().strip() != "1":
            self.skipTest("there are no autogroups here")
        running = self.start(*self.arguments("plain-idle,plain-idle-fixed", "--seconds", 20))
        pids = self.everyone(running)
        for pid in pids:
            self.assertEqual(os.getsid(pid), pid)
        wait_until(lambda: sorted(re.search(r"nice (\d+)", Path(f"/proc/{pid}/autogroup").read_text())[1]
                                  for pid in pids) == ["0", "0", "19"], "one is lowered")
        front, last = self.foreground_of(running), max(os.sched_getaffinity(0))
        # Each settles itself once it has begun.
        wait_until(lambda: os.sched_getaffinity(front) == {last}, "the foreground has its core")
        wait_until(lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in pids - {front}),
                   "the background is in the idle class")
        for pid in pids - {front}:
            self.assertNotIn(last, os.sched_getaffinity(pid))
        self.assertEqual(os.sched_getscheduler(front), os.SCHED_OTHER)
        self.assertNotIn(last, os.sched_getaffinity(running.process.pid))
        running.interrupt()
        self.assertEqual(running.finish().code, 130)


class Mistakes(Corun):
    def refused(self, *arguments, words, code=2):
        result = self.sereno("bench", "corun", *arguments, code=code)
        self.assertEqual(result.out, "")
        for word in words:
            self.assertIn(word, result.err)

    def test_strategies(self):
        for strategies, words in {
                "": ("empty",), "plane": ("plane",), "plain,plain": ("twice",), "peer": ("address",),
                "peer:localhost:80": ("address",), "spin:batch=2": ("keys",), "native:us=3": ("keys",),
                "freq-limit:factor=0.5": ("factor", "1 to 100"), "freq-limit:speed=2": ("speed",),
                "chunk-sleep:every=0": ("every",), "chunk-sleep:us=x": ("us",), "plain:every=3": ("us=",),
                "hint:frame=half": ("hold or verify",), "plain:frame=hold": ("frame",), "spec:batch=3": ("batch",),
                "spec:decode=half": ("plain or spec",), "sereno": ("sereno",), "sereno:fast": ("sereno:fast",),
                "sereno:balanced:target=2": ("target", "0 to 1"), "sereno:balanced:aim=1": ("aim", "target"),
                "spec:target=0.1": ("target",)}.items():
            with self.subTest(strategies):
                self.refused("--strategies", strategies, words=words)

    def test_others(self):
        model = ("-m", tiny_model())
        self.refused(*model, "--foreground", "sociable-1", words=("sociable-1", "social-1"))
        self.refused(*model, "--foreground", "", words=("profile",))
        self.refused("-m", "/no/such/model", words=("/no/such/model",), code=1)
        self.refused(*model, "--prompts", self.folder(), words=("no prompts",), code=2)
        self.refused(*model, "--placement", "half", words=("--placement",))
        self.refused(*model, "--seconds", "0", words=("--seconds",))
        self.refused(*model, "--report", words=("--log",))
        self.refused(*self.arguments("native")[2:], "--report", "--log", "/no/such/log", words=("/no/such/log",))
        self.refused(*model, "--foreground-cpu", 4000, words=("4000",))
        core = max(os.sched_getaffinity(0))
        self.refused(*model, "--foreground-cpu", core, "--cpu", core, words=(f"core {core}",))
        peer = ("--strategies", "peer:http://127.0.0.1:1")
        self.refused(*model, *peer, "--raw", words=("--raw",))
        self.refused(*model, *peer, "--synthetic-acceptance", "0.5", words=("--synthetic-acceptance",))
        self.refused(*self.arguments("spec:draft=self:layers=99")[2:], words=("layers",), code=2)


if __name__ == "__main__":
    main(sys.argv)
