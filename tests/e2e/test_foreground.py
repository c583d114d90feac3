"""sereno foreground as a user runs it: python3 tests/e2e/test_foreground.py BUILD_DIR."""
import ctypes
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import support
from support import ROOT, Case

PROFILES = tuple(sorted(path.stem for path in (ROOT / "profiles").glob("*.ini")))
FRAME_KEYS = {"frame": int, "vsync_ns": int, "start_ns": int, "end_ns": int, "deadline_ns": int, "missed": bool,
              "dropped": int, "latency_ns": (int, float)}
BUCKET = 1.02  # quantiles are read from a histogram: at most so many times too large
# Takes next to no time and memory, so that it runs under sanitizers too.
LIGHT = "[frames]\nfps = 200\n[work]\nwidth = 64\nheight = 64\nlayers = 1\nloads = 100\n[data]\ntexture_mib = 1\nscene_mib = 1\n"


def quantile(values, share):
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


class Foreground(Case):
    def setUp(self):
        self.config = self.folder()
        self.profile = self.config / "light.ini"
        self.profile.write_text(LIGHT)

    def environment(self, **changes):
        return support.clean_environment(XDG_CONFIG_HOME=self.config, **changes)

    def foreground(self, *arguments, **how):
        return self.sereno("foreground", *arguments, env=self.environment(), **how)

    def refused(self, *arguments, words=(), code=2, **changes):
        result = self.sereno("foreground", *arguments, code=code, env=self.environment(**changes))
        self.assertEqual(result.out, "")
        for word in words:
            self.assertIn(word, result.err)

    def stream(self, text):
        """Header, frames, summary; each as it must be."""
        lines = [json.loads(line) for line in text.splitlines()]
        header, frames, last = lines[0], lines[1:-1], lines[-1]
        self.assertEqual(list(header), ["schema_version", "profile", "fps", "period_ns", "scale", "tuned", "picture"])
        self.assertEqual(header["schema_version"], 2)
        self.assertEqual(list(last), ["summary"])
        previous = None
        for number, frame in enumerate(frames):
            self.assertEqual(list(frame), list(FRAME_KEYS))
            for key, kind in FRAME_KEYS.items():
                self.assertIsInstance(frame[key], kind)
            self.assertEqual(frame["frame"], number)
            self.assertLessEqual(frame["vsync_ns"], frame["start_ns"])
            self.assertLessEqual(frame["start_ns"], frame["end_ns"])
            self.assertIn(frame["deadline_ns"] - frame["vsync_ns"] - header["period_ns"], (0, 1))
            self.assertIs(frame["missed"], frame["end_ns"] > frame["deadline_ns"])
            if previous:
                self.assertGreaterEqual(frame["vsync_ns"], previous["end_ns"])
            previous = frame
        return header, frames, last["summary"]

    def check_summary(self, frames, summary):
        self.assertEqual(list(summary), ["frames", "janky", "jank_rate", "dropped", "frame_ms", "latency_ns"])
        self.assertEqual(summary["frames"], len(frames))
        self.assertEqual(summary["janky"], sum(f["missed"] for f in frames))
        self.assertAlmostEqual(summary["jank_rate"], summary["janky"] / max(1, len(frames)))
        self.assertEqual(summary["dropped"], sum(f["dropped"] for f in frames))
        took = [(f["end_ns"] - f["vsync_ns"]) / 1e6 for f in frames]
        for key, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            exact = quantile(took, share)
            self.assertGreaterEqual(summary["frame_ms"][key], exact * 0.999)
            self.assertLessEqual(summary["frame_ms"][key], exact * BUCKET)


class Frames(Foreground):
    def test_stream(self):
        header, frames, summary = self.stream(self.foreground(self.profile, "--seconds", 0.5, "--json").out)
        self.assertEqual((header["profile"], header["fps"], header["period_ns"], header["tuned"]),
                         ("light", 200, 5000000, False))
        self.assertEqual(frames[0]["dropped"], 0)
        self.assertEqual(len(frames) + summary["dropped"], 100 - self.vsyncs_missing(frames))
        self.assertGreater(summary["latency_ns"], 0)
        self.check_summary(frames, summary)

    def vsyncs_missing(self, frames):
        """After the last frame; a busy machine may not get to the end."""
        return 99 - round((frames[-1]["vsync_ns"] - frames[0]["vsync_ns"]) / 5e6)

    def test_rests(self):
        self.profile.write_text(LIGHT.replace("fps = 200", "fps = 100\nburst_ms = 50\nrest_ms = 100"))
        _, frames, summary = self.stream(self.foreground(self.profile, "--seconds", 0.6, "--json").out)
        numbers = [round((f["vsync_ns"] - frames[0]["vsync_ns"]) / 1e7) for f in frames]
        self.assertEqual([n for n in numbers if n % 15 >= 5], [])
        self.assertLessEqual(len(frames) + summary["dropped"], 20)
        self.check_summary(frames, summary)

    def test_fps_and_cpu(self):
        cpu = min(os.sched_getaffinity(0))
        header, frames, _ = self.stream(
            self.foreground(self.profile, "--seconds", 0.3, "--fps", 50, "--cpu", cpu, "--json").out)
        self.assertEqual((header["fps"], header["period_ns"]), (50, 20000000))
        self.assertLessEqual(len(frames), 15)

    def test_words(self):
        result = self.foreground(self.profile, "--seconds", 0.2)
        self.assertRegex(result.out, r"^light, 200 frames a second: \d+ frames, \d+ of them janky \([\d.]+ %\), "
                                     r"\d+ vsyncs dropped\n")
        self.assertEqual(result.err, "")

    def test_picture(self):
        """Runs of a profile do the same work, whatever its speed; another profile's is another."""
        def picture(*arguments):
            header, _, _ = self.stream(self.foreground(self.profile, "--seconds", 0.1, "--json", *arguments).out)
            self.assertRegex(header["picture"], r"^[0-9a-f]{16}$")
            return header["picture"]
        first = picture()
        self.assertEqual(picture("--fps", 50), first)
        self.profile.write_text(LIGHT.replace("width = 64", "width = 128"))
        self.assertNotEqual(picture(), first)

    def test_shipped(self):
        """The lightest of them, since sanitizers run this too."""
        header, _, _ = self.stream(self.foreground("reader-2", "--seconds", 0.1, "--json").out)
        self.assertEqual(header["profile"], "reader-2")

    def test_progress_on_a_terminal(self):
        running = self.start("foreground", self.profile, "--seconds", 0, terminal_stderr=True, env=self.environment())
        running.wait_for("err", rb"light: \d+ frames, [\d.]+ % of them janky")
        result = self.finish_after_interrupt(running)
        self.assertIn("frames a second", result.out)

    def test_list(self):
        out = self.foreground("--list").out
        self.assertEqual([line.split()[0] for line in out.splitlines()], list(PROFILES))
        document = self.document(self.foreground("--list", "--json").out)
        self.assertEqual([p["name"] for p in document["profiles"]], list(PROFILES))
        self.assertEqual({p["tuned"] for p in document["profiles"]}, {False})

    def test_profiles_have_a_comment(self):
        for name in PROFILES:
            self.assertTrue((ROOT / "profiles" / f"{name}.ini").read_text().startswith("# "))


class Misuse(Foreground):
    def test_command_line(self):
        self.refused(words=["--list"])
        self.refused("social-9", words=("social-9", *PROFILES))
        self.refused("--list", "social-1")
        self.refused("--list", "--hint")
        self.refused(self.profile, "--hint", "--tune", "native-jank=4", words=["--hint", "--tune"])
        self.refused(self.profile, self.profile)
        for value in ("-1", "nan", "ten"):
            self.refused(self.profile, "--seconds", value, words=["--seconds"])
        for value in ("0", "1001"):
            self.refused(self.profile, "--fps", value, words=["--fps"])
        self.refused(self.profile, "--cpu", 4095, words=["core"])
        for value in ("4", "native-jank", "native-jank=", "native-jank=x", "native-jank=4x", "native-jank=0.01",
                      "native-jank=51", "native-jank=nan", "jank=4"):
            self.refused(self.profile, "--tune", value, words=["native-jank"])
        self.refused(self.profile, "--tune", "native-jank=4", "--seconds", 0, words=["--seconds"])

    def test_files(self):
        self.refused("./none.ini", words=["none.ini", "No such file"], code=1)
        self.refused(f"{self.config}/", words=["is a directory"], code=1)
        self.profile.write_text("[work]\nlayers = -1\n")
        self.refused(self.profile, words=[str(self.profile), "line 2", "'layers'", "-1", "0 to 1000"], code=1)

    def test_tuned_file_is_broken(self):
        place = self.config / "sereno" / "profiles"
        place.mkdir(parents=True)
        (place / "reader-2.ini").write_text("nonsense\n")
        self.refused("reader-2", words=[str(place / "reader-2.ini"), "line 1", "nonsense"], code=1)
        result = self.foreground("--list")
        self.assertIn("line 1", result.err)
        self.assertEqual(len(result.out.splitlines()), len(PROFILES) - 1)

    def test_channel(self):
        for value in ("x", "-1", "99", "2", "3 ", "99999999999"):
            self.refused(self.profile, "--seconds", 0.1, words=["SERENO_FRAME_FD", value], SERENO_FRAME_FD=value)


class Ends(Foreground):
    def endless(self, *arguments, **how):
        running = self.start("foreground", self.profile, "--seconds", 0, *arguments, env=self.environment(), **how)
        return running

    def test_interrupt(self):
        running = self.endless("--json")
        running.wait_for("out", rb'"frame":0,')
        result = self.finish_after_interrupt(running)
        _, frames, summary = self.stream(result.out)
        self.check_summary(frames, summary)

    def test_termination_is_an_end(self):
        running = self.endless("--json")
        running.wait_for("out", rb"schema_version")
        time.sleep(0.1)
        running.process.send_signal(signal.SIGTERM)
        result = running.finish()
        self.assertEqual((result.code, result.err), (143, ""))
        _, frames, summary = self.stream(result.out)
        self.check_summary(frames, summary)

    def test_end_of_a_rest(self):
        """It does not wait for the next burst."""
        self.profile.write_text(LIGHT.replace("fps = 200", "fps = 200\nburst_ms = 1\nrest_ms = 600000"))
        running = self.endless("--json")
        running.wait_for("out", rb"schema_version")
        time.sleep(0.1)
        self.assertEqual(len(self.stream(self.finish_after_interrupt(running, within_s=5).out)[1]), 1)

    def test_nobody_reads(self):
        process = subprocess.Popen([support.sereno_path(), "foreground", self.profile, "--seconds", "0", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(support.TIMEOUT_S), 1)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            for arguments in (("--json",), ()):
                done = subprocess.run([support.sereno_path(), "foreground", self.profile, "--seconds", "0.1", *arguments],
                                      stdout=full, stderr=subprocess.PIPE, env=self.environment(), timeout=support.TIMEOUT_S)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"cannot write the output", done.stderr)


class Tuning(Foreground):
    def tune(self, *arguments):
        """Result of a short tuning; None where the machine is too busy for enough frames."""
        self.profile.write_text(LIGHT.replace("[work]", "[amount]\nspread = 0.5\n[work]").replace("200", "400"))
        result = self.foreground(self.profile, "--tune", *arguments, "--seconds", 0.5, code=(0, 1, 2))
        if result.code == 2:
            self.assertIn("at least 20 are needed", result.err)
            return None
        return result

    def test_tune(self):
        """Whether it gets there depends on the machine; what it says of it must be so."""
        result = self.tune("native-jank=50", "--json")
        if not result:
            return
        document = self.document(result.out)
        self.assertEqual(len(document["rounds"]), 10)
        self.assertEqual(document["wanted"], 0.5)
        self.assertEqual(document["jank"], document["rounds"][-1]["jank"])
        self.assertIs(document["reached"], 0.25 <= document["jank"] <= 0.75)
        self.assertIs(document["reached"], result.code == 0)
        place = self.config / "sereno" / "profiles" / "light.ini"
        self.assertIs(document["reached"], place.exists())
        self.assertEqual(document["path"], str(place) if document["reached"] else None)
        if not document["reached"]:
            self.assertIn("Nothing was saved", result.err)
            return
        text = place.read_text()
        self.assertRegex(text.splitlines()[0], r"^# Tuned on \d{4}-\d\d-\d\d to this machine \(.+\): [\d.]+ % of frames")
        header, _, _ = self.stream(self.foreground("light", "--seconds", 0.1, "--json").out)
        self.assertTrue(header["tuned"])
        self.assertAlmostEqual(header["scale"], document["scale"])

    def test_a_tuned_profile_is_found(self):
        place = self.config / "sereno" / "profiles"
        place.mkdir(parents=True)
        (place / "social-1.ini").write_text(LIGHT + "[amount]\nscale = 0.5\n")
        header, _, _ = self.stream(self.foreground("social-1", "--seconds", 0.1, "--json").out)
        self.assertEqual((header["profile"], header["scale"], header["tuned"]), ("social-1", 0.5, True))
        self.assertIn("tuned", re.search(r"social-1.*", self.foreground("--list").out)[0])

    def test_words(self):
        result = self.tune("native-jank=50%")
        if result:
            lines = re.findall(r"(?m)^(?:round \d|check): +scale [\d.]+, [\d.]+ % janky$", result.out)
            self.assertEqual(len(lines), 10, result)

    def test_too_short(self):
        self.refused_tuning("--seconds", 0.06, word="at least 20")

    def refused_tuning(self, *arguments, word):
        result = self.foreground(self.profile, "--tune", "native-jank=4", *arguments, "--json", code=2)
        self.assertEqual(result.out, "")
        self.assertIn(word, result.err)
        self.assertFalse((self.config / "sereno").exists())

    def test_interrupt(self):
        running = self.start("foreground", self.profile, "--tune", "native-jank=4", "--seconds", 100, "-v",
                             env=self.environment())
        running.wait_for("err", b"light: ")
        time.sleep(0.2)
        self.finish_after_interrupt(running)
        self.assertFalse((self.config / "sereno").exists())


class Channel(Foreground):
    def test_frames_are_told(self):
        """The shared page says 1 within frames, and 0 at the end."""
        if not hasattr(os, "memfd_create"):
            self.skipTest("no memfd_create")
        seals = ctypes.CDLL(None, use_errno=True)
        add_seals, shrink_grow_seal = 1033, 0x7
        fd = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, 4096)
        self.assertEqual(seals.fcntl(fd, add_seals, shrink_grow_seal), 0)
        self.profile.write_text(LIGHT.replace("loads = 100", "loads = 1000000").replace("fps = 200", "fps = 20"))
        process = subprocess.Popen([support.sereno_path(), "foreground", self.profile, "--seconds", "0", "--json"],
                                   stdout=subprocess.PIPE, pass_fds=[fd], env=self.environment(SERENO_FRAME_FD=fd))
        self.addCleanup(process.kill)
        seen, deadline = set(), time.monotonic() + support.TIMEOUT_S
        while len(seen) < 2 and time.monotonic() < deadline:
            seen.add(os.pread(fd, 4, 0))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=support.TIMEOUT_S)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(seen, {(0).to_bytes(4, sys.byteorder), (1).to_bytes(4, sys.byteorder)})
        self.assertEqual(os.pread(fd, 4, 0), bytes(4))


class Hints(Foreground):
    def read(self):
        """Begin and deadline of the present frame as the memory has them; begin 0: none."""
        try:
            with open(support.FRAME_MEMORY, "rb") as file:
                return struct.unpack("=QQ", file.read(16))
        except (FileNotFoundError, struct.error):  # not made yet, or not whole
            return 0, 0

    def test_frames_are_told(self):
        """Whoever watches sees frames while the loop runs, and none after it."""
        support.without_frame_memory(self)
        self.profile.write_text(LIGHT.replace("loads = 100", "loads = 1000000").replace("fps = 200", "fps = 20"))
        running = self.start("foreground", self.profile, "--hint", "--seconds", 0, "--json", env=self.environment())
        seen, rests, deadline = {}, 0, time.monotonic() + support.TIMEOUT_S
        while (len(seen) < 3 or not rests) and time.monotonic() < deadline:
            begin, due = self.read()
            if self.read()[0] != begin:  # it changed meanwhile
                continue
            if begin:
                seen[begin] = due
            elif seen:
                rests += 1
        running.process.send_signal(signal.SIGTERM)
        result = running.finish()
        self.assertEqual((result.code, result.err), (143, ""))
        self.assertEqual(self.read()[0], 0)
        self.assertGreater(rests, 0)
        _, frames, _ = self.stream(result.out)
        told = {f["start_ns"]: max(f["deadline_ns"], f["start_ns"] + 1) for f in frames}
        self.assertGreaterEqual(len(seen), 3)
        self.assertEqual({begin: told.get(begin) for begin in seen}, seen)

    def test_memory_of_others_is_refused(self):
        support.without_frame_memory(self)
        with open(support.FRAME_MEMORY, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
        self.refused(self.profile, "--hint", "--seconds", 0.1, words=["/sereno-frame-", "0600"])


if __name__ == "__main__":
    support.main(sys.argv)
