"""End-to-end tests of governed runs as a user asks for them: python3 tests/e2e/test_governor.py BUILD_DIR."""
import json
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import support
from support import Case, endless_model, tiny_model

POLICIES = ("throughput", "balanced", "ui-first")
MODES = ["open", "preempt", "batch", "sleep", "hold", "yield", "relaxed", "ungoverned", "paused"]
BATCHES = ["1", "2", "4", "8", "16", "32"]
EVENTS = "subgraph|draft-token|pass|tokens|prefill|begin|end|pause|resume|frame-begin|frame-end|tick"
DECISION = re.compile(rf"(\d+) ({EVENTS}) -> ({'|'.join(MODES)}) ([01]) (1|2|4|8|16|32) (\d+) ([01]\.\d{{3}})"
                      r"( abandon)?( hold)?")
QUANTILES = ("p50", "p95", "p99")
PROMPT = "the sea and the sea and the sea and the "
SEEDED = ("-p", PROMPT, "--raw", "-n", 60, "-s", 3)
HEADER = Path(__file__).parents[2] / "include/sereno/experimental.h"
# What --gov force=N forces.
FORCED = {1: "open", 2: "preempt", 3: "batch", 4: "sleep"}


def slices(trace, track):
    """Of a track: (name, begin, end), in order of time."""
    tids = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    return sorted(((e["name"], e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"]
                   if e["ph"] == "X" and tids[e["tid"]] == track), key=lambda s: s[1:])


def passes_of(trace):
    """Slices of all plans, in order of time."""
    return sorted((s for plan in ("draft", "verify", "prefill") for s in slices(trace, plan)), key=lambda s: s[1:])


class Policies(Case):
    def test_the_text_is_the_same(self):
        for draft in ("none", "self:int4"):
            wanted = self.run_json(*SEEDED, "--policy", "throughput", "--draft", draft, model=endless_model())["tokens"]
            for how in (*(("--policy", p) for p in POLICIES), *(("--gov", f"force={f}") for f in FORCED)):
                with self.subTest(draft=draft, how=how):
                    document = self.run_json(*SEEDED, *how, "--draft", draft, model=endless_model())
                    self.assertEqual(document["tokens"], wanted)

    def test_json(self):
        for policy in POLICIES[1:]:
            document = self.run_json(*SEEDED, "--policy", policy)
            governor = document["governor"]
            with self.subTest(policy):
                self.assertEqual(document["settings"]["policy"], policy)
                self.assertEqual(governor["policy"], policy)
                self.assertEqual(list(governor["mode_share"]), MODES)
                self.assertAlmostEqual(sum(governor["mode_share"].values()), 1)
                self.assertEqual(list(governor["batch_histogram"]), BATCHES)
                self.assertEqual(governor["batch_histogram"], document["speculation"]["passes_by_batch"])
                for key in ("preemptions", "sleeps", "holds"):
                    self.assertIs(type(governor[key]), int)
                for key in ("sleep_ms", "hold_ms", "bucket_level", "guarantee_tok_s"):
                    self.assertIs(type(governor[key]), float)
                for key in ("score", "reaction_us"):
                    values = [governor[key][q] for q in QUANTILES]
                    if key == "reaction_us" and governor[key]["n"] == 0:
                        self.assertEqual(values, [None] * 3)
                    else:
                        self.assertEqual(sorted(values), values)
                self.assertIs(type(governor["calibrated"]), bool)
                self.assertEqual(set(governor["signals"]), {"slowdowns", "probes", "dropped_faults", "dropped_delays"})

    def test_throughput_is_ungoverned(self):
        document = self.run_json(*SEEDED, "--policy", "throughput")
        self.assertIsNone(document["governor"])
        self.assertEqual(document["settings"]["policy"], "throughput")

    def test_throughput_with_a_log_observes(self):
        """Whatever else is asked for: a log must not change what runs."""
        path = self.folder() / "decisions"
        governor = self.run_json(*SEEDED, "--policy", "throughput", "--gov", "force=4", "--decisions", path)["governor"]
        self.assertEqual((governor["policy"], governor["preemptions"], governor["sleeps"], governor["holds"]),
                         ("throughput", 0, 0, 0))
        self.assertEqual(governor["mode_share"]["open"], 1)
        self.assertTrue(path.read_text())

    def test_forced_modes(self):
        """What is forced is done, and counted."""
        for force, mode in FORCED.items():
            with self.subTest(mode):
                document = self.run_json(*SEEDED, "--gov", f"force={force}", "--gov", "sleep_us=100", "--gov", "batch_max=8")
                governor, passes = document["governor"], document["speculation"]["passes_by_batch"]
                self.assertEqual(governor["mode_share"][mode], 1)
                self.assertEqual(governor["sleeps"] > 0, mode == "sleep")
                self.assertEqual(governor["sleep_ms"] > 0, mode == "sleep")
                if mode in ("batch", "sleep"):
                    self.assertEqual(sum(passes[b] for b in ("1", "2", "4")), 0)

    def test_what_is_fixed_is_not_governed(self):
        document = self.run_json(*SEEDED, "--draft", "self:int4", "--draft-max", 3, "--batch", 4, "--gov", "burst_on=0",
                                 "--gov", "burst_off=-1", "--gov", "hold_max_us=0")
        self.assertEqual(document["governor"]["preemptions"], 0)
        self.assertEqual(document["speculation"]["drafted_abandoned"], 0)
        self.assertEqual(document["governor"]["mode_share"]["batch"], 0)
        self.assertEqual({b for b, n in document["speculation"]["passes_by_batch"].items() if n}, {"4"})

    def test_the_guarantee_follows_from_plain_speed(self):
        def guarantee(*settings):
            flags = [word for setting in settings for word in ("--gov", setting)]
            return self.run_json("-p", "hi", "-n", 4, *flags)["governor"]["guarantee_tok_s"]

        self.assertEqual(guarantee("min_share=0", "min_tok_s=2.5"), 2.5)
        self.assertGreater(guarantee("min_share=1", "min_tok_s=0"), 10 * guarantee("min_share=0", "min_tok_s=1"))

    def test_a_calibration_is_found(self):
        """By the model, the draft, the threads and the context that it was made for, and the class of threads."""
        env = support.clean_environment(XDG_CACHE_HOME=self.folder())
        self.sereno("calibrate", "-m", tiny_model(), "--seconds", 1, "-t", 1, env=env)
        cases = ((("-t", 1), True), (("-t", 2), False), (("-t", 1, "--draft", "self:int8"), False),
                 (("-t", 1, "-c", 512), False), (("-t", 1, "--sched", "normal"), False))
        for arguments, wanted in cases:
            with self.subTest(arguments):
                self.assertIs(self.run_json(*SEEDED, *arguments, env=env)["governor"]["calibrated"], wanted)

    def test_verbose(self):
        err = self.run_tiny(*SEEDED, "-v", "--gov", "force=4").err
        self.assertRegex(err, r"governor \(balanced, not calibrated: see 'sereno calibrate'\): sleep for 100 % of the time; 0 drafts "
                              r"abandoned, \d+ sleeps")
        self.assertNotIn("governor (", self.run_tiny(*SEEDED, "-v", "--policy", "throughput").err)

    def test_why_there_are_no_hints(self):
        support.without_frame_memory(self)
        with open(support.FRAME_MEMORY, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
        self.assertRegex(self.run_tiny(*SEEDED, "-v").err, "no frame hints: .*its mode is not 0600")
        governor = self.run_json(*SEEDED)["governor"]
        self.assertIs(governor["frame_hints"], False)
        self.assertIn("its mode is not 0600", governor["frame_hints_note"])
        os.unlink(support.FRAME_MEMORY)
        governor = self.run_json(*SEEDED)["governor"]
        self.assertEqual((governor["frame_hints"], governor["frame_hints_note"]), (True, None))


class Settings(Case):
    def settings(self, *arguments, **how):
        settings = self.run_json("-p", "hi", "-n", 2, *arguments, **how)["settings"]
        return settings["policy"], settings["governor"]

    def refused(self, *arguments, words, code=2):
        result = self.run_tiny("-p", "hi", "-n", 2, *arguments, code=code)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.splitlines()), 2 if code == 2 else 1, result.err)
        for word in words:
            self.assertIn(word, result.err)

    def configuration(self, text):
        path = self.folder() / "settings.ini"
        path.write_text(text)
        return path

    def test_help(self):
        result = self.sereno("run", "--gov", "help")
        self.assertEqual(result.err, "")
        self.assertLessEqual(max(map(len, result.out.splitlines())), 100)
        shown = dict(re.findall(r"^  (\w+)\s+(.*(?:\n {20,}.*)*)", result.out, re.MULTILINE))
        self.assertGreater(len(shown), 20)
        for name, text in shown.items():
            with self.subTest(name):
                text = re.sub(r"\s+", " ", text)
                m = re.match(r"(?:[\w/]+, )?(\S+) to (\S+); balanced (\S+), ui-first (\S+): \S", text)
                self.assertTrue(m, text)
                low, high, *defaults = map(float, m.groups())
                self.assertTrue(all(low <= d <= high for d in defaults), text)
                # Each is taken, and out of its range refused with the range.
                value = low if name != "burst_on" else high
                self.assertEqual(self.settings("--policy", "throughput", "--gov", f"{name}={value}")[1], {name: value})
                self.refused("--gov", f"{name}={high + 1}", words=("--gov", name, f"to {high:g}"))

    def test_help_marks_the_experimental_ones(self):
        plain, heading, experimental = self.sereno("run", "--gov", "help").out.partition("\nExperimental settings,")
        self.assertIn("may change or go in any version", heading + experimental.split("\n")[0])
        listed = [re.findall(r"^  (\w+) ", text, re.MULTILINE) for text in (plain, experimental)]
        members = re.search(r"struct sereno_governor_experiments \{(.*?)\}", HEADER.read_text(), re.DOTALL).group(1)
        members = re.findall(r"\w+", ",".join(re.findall(r"double ([^;]*);", members)))
        self.assertEqual(sorted(listed[1]), sorted(members))
        self.assertLessEqual({"hold_max_us", "target", "batch_max", "min_tok_s", "min_share"}, set(listed[0]))
        self.assertFalse(set(listed[0]) & set(members))

    def test_all_can_be_given(self):
        text = self.sereno("run", "--gov", "help").out
        names = re.findall(r"^  (\w+) ", text, re.MULTILINE)
        defaults = dict(re.findall(r"^  (\w+) +[^;]*; balanced (\S+),", text, re.MULTILINE))
        self.assertEqual(set(names), set(defaults))
        flags = [word for name in names for word in ("--gov", f"{name}={defaults[name]}")]
        self.assertEqual(self.settings(*flags), ("balanced", {n: float(v) for n, v in defaults.items()}))

    def test_wrong_settings(self):
        for setting, words in (("kq=1", ("'kq'", "kp", "force")), ("kp", ("'kp'", "KEY=VALUE", "--gov help")),
                               ("=1", ("'=1'",)), ("kp=", ("kp", "0 to 100")), ("kp=x", ("kp is x", "0 to 100")),
                               ("kp=1x", ("kp", "0 to 100")), ("kp=-1", ("kp is -1", "0 to 100")),
                               ("kp=nan", ("kp", "0 to 100")), ("kp=inf", ("kp", "0 to 100")), ("", ("KEY=VALUE",)),
                               ("policy=ui-first", ("'policy'",)), ("k" * 99 + "=1", ("KEY=VALUE",))):
            with self.subTest(setting):
                self.refused("--gov", setting, words=("--gov", *words))
        self.refused("--gov", "burst_off=1", "--gov", "burst_on=0.5", words=("burst_off is 1", "burst_on"))
        self.refused("--policy", "fast", words=("--policy", "fast", *POLICIES))

    def test_the_last_of_a_key_counts(self):
        self.assertEqual(self.settings("--gov", "kp=1", "--gov", "kp=2"), ("balanced", {"kp": 2}))

    def test_what_goes_before_what(self):
        path = self.configuration("# mine\n[governor]\nkp = 3\npolicy = ui-first\nki = 4\n")
        cases = (((), ("ui-first", {"kp": 3, "ki": 4})),
                 (("--policy", "balanced"), ("balanced", {"kp": 3, "ki": 4})),
                 (("--gov", "kp=5"), ("ui-first", {"kp": 5, "ki": 4})))
        for arguments, wanted in cases:
            with self.subTest(arguments):
                self.assertEqual(self.settings("--config", path, *arguments), wanted)

    def test_default_place(self):
        home, config = self.folder(), self.folder()
        for folder, policy in ((home / ".config/sereno", "ui-first"), (config / "sereno", "throughput")):
            folder.mkdir(parents=True)
            (folder / "sereno.ini").write_text(f"[governor]\npolicy = {policy}\n")
        env = support.clean_environment(HOME=home)
        self.assertEqual(self.settings(env=env)[0], "ui-first")
        self.assertEqual(self.settings("--config", "/dev/null", env=env)[0], "balanced")
        env["XDG_CONFIG_HOME"] = str(config)
        self.assertEqual(self.settings(env=env)[0], "throughput")

    def test_wrong_files(self):
        for text, words in (("[governor]\n\nkq = 1", ("line 3", "'kq'", "kp")),
                            ("[governor]\nkp = 200", ("line 2", "kp is 200", "0 to 100")),
                            ("[governor]\npolicy = fast", ("line 2", "fast", *POLICIES)),
                            ("[governor]\nkp = 1\nkp = 1", ("line 3", "'kp'", "line 2")),
                            ("[governor]\npolicy = balanced\npolicy = balanced", ("line 3", "'policy'", "line 2")),
                            ("[server]\nport = 1", ("line 1", "[server]", "governor")),
                            ("kp = 1", ("line 1", "'kp'", "section")),
                            ("[governor]\nkp 1", ("line 2", "kp 1"))):
            with self.subTest(text):
                path = self.configuration(text)
                self.refused("--config", path, words=(str(path), *words), code=1)
        for path in (self.folder(), self.folder() / "none.ini"):
            self.refused("--config", path, words=(str(path),), code=1)


class Logs(Case):
    def check_nested(self, trace):
        """Tracks do not overlap themselves; subgraphs and sleeps lie in passes, and make up most of them."""
        passes, inner = passes_of(trace), slices(trace, "subgraphs") + slices(trace, "sleep")
        for track in ("draft", "verify", "prefill", "subgraphs", "sleep", "mode"):
            s = slices(trace, track)
            for before, after in zip(s, s[1:]):
                self.assertLessEqual(before[2], after[1] + 0.002, f"{track}: {before}, {after}")
        inner.sort(key=lambda s: s[1:])
        at = 0
        for name, begin, end in inner:
            while at < len(passes) - 1 and passes[at][2] < end - 0.002:
                at += 1
            self.assertTrue(passes[at][1] - 0.002 <= begin and end <= passes[at][2] + 0.002, (name, begin, passes[at]))
        whole, parts = (sum(end - begin for _, begin, end in s) for s in (passes, inner))
        self.assertLessEqual(parts, whole + 0.01 * len(inner))
        self.assertGreaterEqual(parts, 0.3 * whole)  # beside a busy machine much may lie between two subgraphs

    def traced(self, *arguments, **how):
        path = self.folder() / "trace.json"
        document = self.run_json(*SEEDED, "--trace", path, *arguments, **how)
        trace = json.loads(path.read_text())
        self.check_nested(trace)
        return trace, document

    def test_trace(self):
        trace, document = self.traced()
        speculation = document["speculation"]
        names = [name for name, _, _ in passes_of(trace)]
        self.assertEqual(sum(n.startswith("verify ") for n in names), speculation["passes"])
        self.assertIn(f"prefill {document['prompt_tokens']}", names)
        self.assertEqual({n for n, _, _ in slices(trace, "subgraphs")},
                         {"qkv", "attention", "attn_out", "gate_up", "down", "head"})
        counters = {e["name"] for e in trace["traceEvents"] if e["ph"] == "C"}
        self.assertEqual(counters, {"score", "batch"})

    def test_trace_of_drafts(self):
        trace, document = self.traced("--draft", "self:int8", "--draft-max", 4, model=tiny_model("f16"))
        names = [name for name, _, _ in passes_of(trace)]
        self.assertGreaterEqual(sum(n.startswith("draft ") for n in names), document["speculation"]["drafted"])

    def test_trace_of_sleeps(self):
        trace, document = self.traced("--gov", "force=4", "--gov", "sleep_us=100")
        sleeps = slices(trace, "sleep")
        self.assertEqual({n for n, _, _ in sleeps}, {"sleep"})
        self.assertEqual(len(sleeps), document["governor"]["sleeps"])
        took_ms = sum(end - begin for _, begin, end in sleeps) / 1000
        self.assertAlmostEqual(took_ms, document["governor"]["sleep_ms"], delta=0.01 * took_ms + 0.01)
        self.assertEqual([n for n, _, _ in slices(trace, "mode")], ["sleep"])

    def test_decisions(self):
        path = self.folder() / "decisions"
        self.run_json(*SEEDED, "--decisions", path, "--gov", "force=4", "--gov", "sleep_us=100")
        lines = [DECISION.fullmatch(line) for line in path.read_text().splitlines()]
        self.assertTrue(all(lines), path.read_text()[:2000])
        times = [int(m[1]) for m in lines]
        self.assertEqual(times, sorted(times))
        self.assertEqual((times[0], lines[0][2], lines[-1][2]), (0, "begin", "end"))
        self.assertEqual({m[3] for m in lines}, {"sleep"})
        self.assertIn("100", {m[6] for m in lines})
        for before, after in zip(lines, lines[1:]):
            if after[2] == "subgraph":
                self.assertNotEqual(before.groups()[2:6], after.groups()[2:6])

    def test_both_and_each_policy(self):
        for policy in POLICIES:
            with self.subTest(policy):
                folder = self.folder()
                trace, _ = self.traced("--policy", policy, "--decisions", folder / "decisions")
                self.assertTrue(passes_of(trace))
                for line in (folder / "decisions").read_text().splitlines():
                    self.assertRegex(line, DECISION)

    def test_whole_after_an_interrupt(self):
        """In the middle of an answer, and of a hold that would not end by itself."""
        for force, (where, what) in ((4, ("out", b"(?s).{20}")), (5, ("err", b"loaded in"))):
            with self.subTest(force):
                folder = self.folder()
                running = self.start("run", "-m", endless_model(), "-p", PROMPT, "--raw", "-n", 100000, "-v",
                                     "--gov", f"force={force}", "--gov", "sleep_us=100",
                                     "--trace", folder / "trace.json", "--decisions", folder / "decisions")
                running.wait_for(where, what)
                self.finish_after_interrupt(running)
                trace = json.loads((folder / "trace.json").read_text())
                self.check_nested(trace)
                for line in (folder / "decisions").read_text().splitlines():
                    self.assertTrue(DECISION.fullmatch(line), line)
                if force == 4:
                    self.assertTrue(passes_of(trace))

    def test_a_foreground_may_come_during_an_answer(self):
        """And gives hints: what it says is heard at once."""
        support.without_frame_memory(self)
        path, profile = self.folder() / "decisions", self.folder() / "light.ini"
        profile.write_text("[work]\nwidth = 64\nheight = 64\nlayers = 1\nloads = 100000\n"
                           "[data]\ntexture_mib = 1\nscene_mib = 1\n")
        running = self.start("run", "-m", endless_model(), "-p", PROMPT, "--raw", "-n", 100000, "-v",
                             "--gov", "force=5", "--decisions", path)
        running.wait_for("err", b"loaded in")
        self.sereno("foreground", profile, "--hint", "--seconds", 0.5)
        self.finish_after_interrupt(running)
        events = [DECISION.fullmatch(line)[2] for line in path.read_text().splitlines()]
        self.assertIn("frame-begin", events)
        self.assertIn("frame-end", events)

    def test_whole_after_a_chat(self):
        """Of several turns: one document."""
        path = self.folder() / "trace.json"
        self.run_tiny("-i", "-n", 4, "--trace", path, stdin=b"hi\nhello\n")
        trace = json.loads(path.read_text())
        self.check_nested(trace)
        self.assertGreaterEqual(sum(n.startswith("prefill ") for n, _, _ in passes_of(trace)), 2)

    def test_what_cannot_be_written(self):
        for option in ("--trace", "--decisions"):
            with self.subTest(option):
                document_and_error = self.run_tiny(*SEEDED, "--json", option, "/dev/full", code=1)
                self.assertIn("/dev/full", document_and_error.err)
                self.assertEqual(len(self.document(document_and_error.out)["tokens"]), 60)
                missing = self.folder() / "none" / "file"
                result = self.run_tiny(*SEEDED, option, missing, code=1)
                self.assertEqual(result.out, "")
                self.assertIn(str(missing), result.err)
        same = self.folder() / "same"
        result = self.run_tiny(*SEEDED, "--trace", same, "--decisions", same, code=2)
        self.assertIn("--trace and --decisions", result.err)


if __name__ == "__main__":
    support.main(sys.argv)
