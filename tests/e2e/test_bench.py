"""End-to-end tests of `sereno bench`: python3 tests/e2e/test_bench.py BUILD_DIR. None asserts a speed."""
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True

import support
from support import Case, fake, tiny, tiny_model, write_model

BENCHES = ("memory", "kernels", "decode", "reaction", "passes")
COMMON_OPTIONS = {"--json", "-v", "--verbose", "--log-file", "-h", "--help"}
OPTIONS = {
    "memory": {"-t", "--threads", "--buffer-mib", "--repeats", "--isa"},
    "kernels": {"--isa", "--types", "--shape", "--batches", "--ablate", "-t", "--threads", "--repeats", "--sample-ms",
                "--buffer-mib"},
    "decode": {"-m", "--model", "--strategies", "--prompts", "--raw", "--repeats", "-n", "--predict", "-c", "--ctx-size",
               "--synthetic-acceptance", "--temp", "--temperature", "--top-k", "--top-p", "--min-p", "-s", "--seed",
               "-t", "--threads", "--cpu", "--sched", "--activations"},
    "reaction": {"-m", "--model", "--hint", "--period-ms", "--seconds", "--curve", "--synthetic-acceptance", "-s", "--seed",
                 "--policy", "--gov", "--config", "--foreground-cpu", "-t", "--threads", "--cpu", "--sched",
                 "--activations", "--strategy", "-md", "--draft", "--draft-fallback", "--draft-max", "--batch"},
    "passes": {"-m", "--model", "--context", "--batches", "--repeats", "--prefill", "--prefill-repeats",
               "--buffer-mib", "--prefetch", "--prefetch-next", "-t", "--threads", "--cpu", "--sched", "--activations", "--isa"},
}
KINDS = {"qkv", "attention", "attn_out", "gate_up", "down", "head", "other"}
# As little as there can be.
SMALL_MEMORY = ("memory", "--buffer-mib", 2, "--repeats", 2, "-t", 2)
SMALL_KERNELS = ("kernels", "--buffer-mib", 1, "--repeats", 1, "--sample-ms", 1, "--shape", "48x256")
SMALL_PASSES = ("passes", "--buffer-mib", 2, "--repeats", 2, "--prefill-repeats", 2)


class Bench(Case):
    def bench(self, *arguments, **how):
        return self.sereno("bench", *arguments, **how)

    def bench_json(self, *arguments, **how):
        result = self.bench(*arguments, "--json", **how)
        self.assertEqual(result.err, "")
        document = self.document(result.out)
        self.assertGreater(len(document["cpu"]), 0)
        return document

    def passes(self, *arguments, model=None):
        return self.bench_json(*SMALL_PASSES, "-m", model or tiny_model(), *arguments)

    def refused(self, *arguments, words=(), code=2):
        result = self.bench(*arguments, code=code)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith("sereno bench"), result.err)
        for word in words:
            self.assertIn(word, result.err)


class CommandLines(Bench):
    def test_list(self):
        shown = self.bench("--help")
        self.assertEqual(shown.err, "")
        for name in BENCHES:
            self.assertRegex(shown.out, rf"(?m)^  {name} ")
        for arguments in ((), ("no-such-bench",), ("--no-such-option",)):
            self.refused(*arguments, words=(*arguments, *BENCHES))
        self.assertIn("  bench ", self.sereno("--help").out)

    def test_help(self):
        for name in BENCHES:
            with self.subTest(name):
                result = self.bench(name, "--help")
                self.assertEqual(result.err, "")
                self.assertLessEqual(max(map(len, result.out.splitlines())), 100)
                shown = re.findall(r"^  (-.+?)(?:  |$| [A-Z][A-Za-z]*\b)", result.out, re.MULTILINE)
                shown = {option for options in shown for option in options.split(", ")}
                self.assertEqual(shown, OPTIONS[name] | COMMON_OPTIONS)

    def test_bad_values(self):
        numbers = ("", "nan", "-1", "0", "1x", "99999999999999999999")
        lists = (*numbers, "33", "1,", ",1", "1,,2", "1;2", "1,0", "1,33", ",".join(["1"] * 33))
        bad = {
            ("memory", "-t"): (*numbers, "65"),
            ("memory", "--buffer-mib"): (*numbers, "1048577"),
            ("memory", "--repeats"): numbers,
            ("kernels", "--types"): ("", "q4_0,", "q2_k", "Q4_0", "q4_0,,f16"),
            ("kernels", "--shape"): ("", "8", "8x", "x8", "0x8", "8x0", "-8x8", "8x8x8", "8*8", "99999999x8", "8x999999"),
            ("kernels", "--batches"): lists,
            ("kernels", "--sample-ms"): numbers,
            ("passes", "--batches"): lists,
            ("passes", "--repeats"): numbers,
            ("passes", "--context"): ("-1", "x"),
            ("passes", "--prefill"): ("-1", "x"),
            ("passes", "--sched"): ("IDLE",),
            ("passes", "--cpu"): ("", "a", "0-"),
        }
        for (name, option), values in bad.items():
            for value in values:
                with self.subTest(bench=name, option=option, value=value):
                    self.refused(name, option, value, words=(option,))

    def test_other_mistakes(self):
        self.refused("memory", "x", words=("'x'",))
        self.refused("kernels", "--ablated", words=("'--ablated'",))
        for small in (SMALL_MEMORY, SMALL_KERNELS, (*SMALL_PASSES, "-m", tiny_model())):
            self.refused(*small, "--isa", "mmx", words=("'mmx'", "portable"))
        self.refused(*SMALL_KERNELS[:-2], "--shape", "16x33", "--types", "q4_0", words=("blocks",))

    def test_models_and_contexts(self):
        self.refused("passes", "-m", "/no/such/model", words=("/no/such/model",), code=1)
        self.refused("passes", "-m", fake(self.folder(), "text.gguf", "echo"), words=("not a GGUF file",), code=1)
        model = ("-m", tiny_model())  # trained for 8192 tokens
        self.refused(*SMALL_PASSES, *model, "--context", 8192, words=("8192",))
        self.refused(*SMALL_PASSES, *model, "--context", 8161, "--batches", "1,32", words=("8161", "32", "8192"))
        self.refused(*SMALL_PASSES, *model, "--prefill", 8193, words=("8193", "8192"))
        self.refused(*SMALL_PASSES, *model, "--cpu", 999, words=("chosen by --cpu 999",))
        core = min(os.sched_getaffinity(0))
        result = self.bench(*SMALL_PASSES, *model, "--cpu", core, "-t", 1, "--context", 8192, code=2)
        self.assertNotIn("--cpu", result.err)  # the cores are not the matter

    def test_names_that_a_terminal_would_obey(self):
        g = tiny()
        g.set_string("general.name", b"\x1b[2Jname")
        g.set_string("sereno.origin", b"\x1b[2Jorigin")
        model = ("-m", write_model("obeyed.gguf", g.bytes()))
        prompt = self.folder() / "a.txt"
        prompt.write_text("the sea and the sea")
        for arguments in ((*SMALL_PASSES, "--batches", 1, "--prefill", 0),
                          ("decode", "--prompts", prompt, "-n", 2, "--repeats", 1, "--strategies", "plain")):
            with self.subTest(arguments[0]):
                first = self.bench(*arguments, *model).out.split("\n")[0]
                self.assertRegex(first, r"^[^\x1b]*name \(\w+, origin [^\x1b]*origin\), ")


class Memory(Bench):
    def check(self, *arguments):
        document = self.bench_json(*SMALL_MEMORY, *arguments)
        self.assertEqual([t["n"] for t in document["threads"]], [1, 2])
        for threads in document["threads"]:
            rates = threads["loops_gbs"]
            self.assertGreater(min(rates.values()), 0)
            self.assertEqual(threads["read_gbs"], max(rates.values()))
            self.assertEqual(threads["read_gbs"], rates[threads["loop"]])
        self.assertGreater(document["latency_ns"], 0)
        self.assertGreater(document["int8_gmacs_per_thread"], 0)
        return document

    def test_json(self):
        self.check()
        self.assertEqual(self.check("--isa", "portable")["isa"], "portable")

    def test_text(self):
        result = self.bench(*SMALL_MEMORY)
        self.assertEqual(result.err, "")
        self.assertRegex(result.out, r"(?m)^ +2 +\d+\.\d  \w")


class Kernels(Bench):
    def cells(self, *arguments):
        return self.bench_json(*SMALL_KERNELS, *arguments)["kernels"]

    def test_every_combination(self):
        cells = self.cells("--types", "q4_0,q4_1,q8_0,q6_k,f16,bf16,f32", "--shape", "16x512", "--batches", "1,5,32")
        isas = {c["isa"] for c in cells}
        self.assertIn("portable", isas)
        seen = set()
        for c in cells:
            self.assertGreater(c["gmacs"], 0)
            self.assertGreater(c["gbs"], 0)
            self.assertGreater(c["data_mib"], 0)
            self.assertEqual(c["activation_bits"] == 32, c["type"] in ("f16", "bf16", "f32"))
            seen.add((c["isa"], c["type"], c["activation_bits"], c["rows"], c["cols"], c["batch"], c["cached"]))
        self.assertEqual(len(seen), len(cells))
        forms = {(c["type"], c["activation_bits"]) for c in cells}
        self.assertEqual({t for t, _ in forms}, {"q4_0", "q4_1", "q8_0", "q6_k", "f16", "bf16", "f32"})
        self.assertEqual(len(cells), len(isas) * len(forms) * 2 * 3 * 2)  # shapes, batches, cached or not

    def test_rows_that_fill_no_tile_and_two_threads(self):
        cells = self.cells("--types", "q8_0", "--shape", "17x64", "--isa", "portable", "-t", 2, "--batches", "3")
        self.assertEqual({(c["rows"], c["cols"]) for c in cells}, {(48, 256), (17, 64)})

    def test_columns_that_are_not_whole_blocks_are_left_out_aloud(self):
        result = self.bench(*SMALL_KERNELS, "--json", "--types", "q4_0,q6_k", "--shape", "16x96", "--batches", "1")
        self.assertIn("1 of 4", result.err)
        shapes = {(c["type"], c["cols"]) for c in self.document(result.out)["kernels"]}
        self.assertEqual(shapes, {("q4_0", 256), ("q4_0", 96), ("q6_k", 256)})

    def test_ablation(self):
        """Each prefetch distance, none of them ahead included, in the place of one."""
        arguments = ("--types", "q4_0", "--isa", "portable", "--batches", "1")
        alone, several = self.cells(*arguments), self.cells(*arguments, "--ablate")
        distances = {c["prefetch_bytes"] for c in several}
        self.assertIn(0, distances)
        self.assertEqual(len({c["prefetch_bytes"] for c in alone}), 1)
        self.assertEqual(len(several), len(alone) * len(distances))

    def test_text(self):
        result = self.bench(*SMALL_KERNELS, "--types", "q4_0", "--isa", "portable", "--batches", "1,4")
        self.assertEqual(result.err, "")
        lines = re.findall(r"(?m)^portable +q4_0 +\d+ 48x256 +\d+ (cached|streamed)(?: +\d+\.\d){3}$", result.out)
        self.assertEqual(set(lines), {"cached", "streamed"})


class Passes(Bench):
    def check(self, document, batches, repeats=2):
        limit, packed = document["limit"], document["model"]["packed_bytes"]
        self.assertGreater(limit["read_gbs"], 0)
        self.assertGreater(limit["gmacs"], 0)
        self.assertEqual([row["batch"] for row in document["passes"]], batches)
        for row in document["passes"]:
            self.assertEqual(len(row["ms"]), repeats)
            self.assertGreater(min(row["ms"]), 0)
            self.assertIn(row["ms_p50"], row["ms"])
            self.assertIn(row["ms_p95"], row["ms"])
            self.assertLessEqual(row["ms_p50"], row["ms_p95"])
            self.assertAlmostEqual(row["share_of_limit"] * row["ms_p50"] / row["limit_ms"], 1, 5)
            self.assertAlmostEqual(row["weights_gbs"] * row["ms_p50"] * 1e6 / packed, 1, 5)
            macs = document["model"]["macs_per_token"] * row["batch"]
            wanted = max(packed / limit["read_gbs"], macs / limit["gmacs"]) / 1e6
            self.assertAlmostEqual(row["limit_ms"] / wanted, 1, 5)
            self.assertEqual(set(row["time_share"]), KINDS)
            self.assertAlmostEqual(sum(row["time_share"].values()), 1, 5)
            self.assertGreater(min(v for k, v in row["time_share"].items() if k != "other"), 0)
            longest = row["subgraph_p95_max"]
            self.assertTrue(0 <= longest["index"] < longest["of"], longest)
            self.assertIn(longest["kind"], KINDS)
            self.assertGreater(row["subgraph_us_p95_max"], 0)
        if 1 in batches:
            base = document["passes"][batches.index(1)]
            for row in document["passes"]:
                self.assertAlmostEqual(row["ratio"] * base["ms_p50"] / row["ms_p50"], 1, 5)

    def test_json(self):
        document = self.passes("-t", 2)
        self.check(document, [1, 2, 4, 8, 16, 32])
        # Every matrix of shape tiny: 2 layers of 256 x (256 + 128 + 128 + 256) and 3 x 256 x 512, and the head.
        self.assertEqual(document["model"]["macs_per_token"], 2 * 256 * (768 + 3 * 512) + 256 * 512)
        self.assertEqual(document["context"], 256)
        self.assertEqual(document["environment"]["threads"], 2)
        self.assertEqual(document["environment"]["sched"], "idle")
        prefill = document["prefill"]
        self.assertEqual(prefill["tokens"], 512)
        self.assertEqual(len(prefill["ms"]), 2)
        self.assertAlmostEqual(prefill["tok_s"] * prefill["ms_p50"] / 512e3, 1, 5)

    def test_other_types(self):
        for kind in ("q4_1", "f16"):
            with self.subTest(kind):
                self.check(self.passes("--batches", "2,1", "--prefill", 0, model=tiny_model(kind)), [2, 1])

    def test_edges(self):
        """No context, all of it, odd batches, no prefill, none of batch 1."""
        for context in (0, 1, 1017):
            with self.subTest(context=context):
                document = self.passes("--context", context, "--batches", "7,3", "--prefill", 0, "--repeats", 3,
                                       "--sched", "normal", "--isa", "portable")
                self.check(document, [7, 3], 3)
                self.assertIsNone(document["prefill"])
                self.assertEqual([row["ratio"] for row in document["passes"]], [None, None])
                self.assertEqual(document["environment"]["isa"], "portable")

    def test_text(self):
        result = self.bench(*SMALL_PASSES, "-m", tiny_model(), "--batches", "1,2")
        self.assertEqual(result.err, "")
        self.assertRegex(result.out, r"(?m)^ +2( +\d+\.\d+){5} +\d+%   \d+ us, \w+, \d+ of \d+$")
        self.assertRegex(result.out, r"(?m)^prefill of 512 tokens")


class Decode(Bench):
    STRATEGIES = ("plain", "spec:draft=ngram:orders=2-4:trust=off", "spec:draft=self:int4:draft-max=3:abandon=0.5",
                  "spec:draft=self:layers=1:batch=8:fill=off")

    def prompts(self):
        folder = self.folder()
        for name in ("chat-1", "chat-2", "code-1"):
            (folder / f"{name}.txt").write_text(f"{name}: the sea and the sea and the sea and the\n")
        (folder / "README.md").write_text("no prompt")
        return folder

    def decode(self, *arguments, prompts=None, **how):
        return self.bench_json("decode", "-m", tiny_model("f16"), "--prompts", prompts or self.prompts(), "-n", 24,
                               "--strategies", ",".join(self.STRATEGIES), *arguments, **how)

    def test_json(self):
        d = self.decode("--repeats", 2, "-t", 2)
        self.assertEqual(d["acceptance_is"], "real")
        self.assertEqual({(c["strategy"], c["prompt"]) for c in d["cells"]},
                         {(s, p) for s in self.STRATEGIES for p in ("chat-1", "chat-2", "code-1")})
        for cell in d["cells"]:
            self.assertEqual(cell["different_texts"], 0)
            self.assertEqual(len(cell["tok_s_runs"]), 2)
            self.assertTrue(0 < cell["distinct_4grams"] <= 1)
            if cell["strategy"] == "plain":
                # A pass that ends a text gives no token.
                self.assertTrue(0.9 <= cell["tokens_per_pass"] <= 1, cell)
            else:
                self.assertGreaterEqual(cell["tokens_per_pass"], 0.9)
        for ratio in d["ratios"]:
            self.assertEqual(ratio["base"], "plain")
            self.assertGreater(ratio["tok_s"]["point"], 0)
            self.assertEqual(len({"prompts", "kind", "prompt"} & ratio.keys()), 1)
        self.assertGreater(d["abandoned"]["n"], 0)
        abandoned = [c["drafted_abandoned"] for c in d["cells"] if "abandon" in c["strategy"]]
        self.assertEqual(sum(abandoned), d["abandoned"]["n"])
        wide = [c for c in d["cells"] if "batch=8" in c["strategy"]]
        for cell in wide:
            self.assertEqual(cell["filled_ngram"], 0)
            self.assertGreater(cell["padded"], 0)
            shares = cell["time_share"]["verify_by_batch"]
            self.assertEqual([b for b in shares if shares[b] > 0], ["8"])

    def test_synthetic(self):
        d = self.decode("--synthetic-acceptance", "1,0.5:ngram=0", "--repeats", 1)
        self.assertEqual(d["acceptance_is"], "synthetic")
        self.assertEqual(d["synthetic_acceptance"], "1,0.5:ngram=0")
        drafted = [c for c in d["cells"] if "draft-max=3" in c["strategy"]]
        self.assertTrue(all(c["acceptance_by_depth"][0] == 1 for c in drafted))
        text = self.bench("decode", "-m", tiny_model("f16"), "--prompts", self.prompts(), "-n", 8, "--repeats", 1,
                          "--strategies", "plain,spec", "--synthetic-acceptance", "0.5")
        self.assertIn("SYNTHETIC", text.out)
        refused = self.sereno("run", "--synthetic-acceptance", "0.5", "-p", "x", code=2)
        self.assertIn("no option", refused.err)

    def test_names_that_are_no_text(self):
        folder = self.prompts()
        (folder / "chat-\udcff.txt").write_text("the sea and the sea")
        d = self.decode("--repeats", 1, prompts=folder)
        self.assertEqual(len(d["cells"]), 4 * len(self.STRATEGIES))
        self.assertIn("chat-\ufffd", {c["prompt"] for c in d["cells"]})
        self.assertIsNone(d["ratios"][-1]["tok_s"]["hi"])

    def test_text(self):
        shown = self.bench("decode", "-m", tiny_model("f16"), "--prompts", self.prompts() / "code-1.txt", "-n", 24,
                           "--repeats", 2, "--strategies", "plain,spec:draft=self:int4:abandon=1")
        self.assertRegex(shown.out, r"(?m)^  code-1 +[0-9.]+ +[0-9.]+ \[")
        self.assertIn("drafts abandoned", shown.out)
        self.assertNotIn("DIFFERS", shown.out)

    def test_mistakes(self):
        bad = ("", "plain,", "fast", "spec:draft=self:int3", "spec:draft=self:layers=x", "spec:batch=3", "spec:batch=64",
               "spec:draft", "spec:draft-max=2.5", "spec:orders=2-8x", "spec:abandon=2", "spec:fill=maybe", "spec:orders=1-8", "spec:orders=4-2", "spec:nothing=1", "spec:policy=fast",
               ",".join(["spec"] * 33))
        for strategies in bad:
            with self.subTest(strategies):
                self.refused("decode", "--strategies", strategies)
        for rates in ("", "2", "0.5,", "a", "0.5:ngram=2", "0.5:other=1", ",".join(["0.5"] * 33)):
            with self.subTest(rates):
                self.refused("decode", "--synthetic-acceptance", rates, words=("--synthetic-acceptance",))
        model = tiny_model("f16")
        self.refused("decode", "-m", model, "--strategies", "spec:draft=self:layers=2", "--prompts", self.prompts(),
                     words=("1 to 1",))
        self.refused("decode", "-m", model, "--prompts", self.folder(), words=("no prompts",))
        self.refused("decode", "-m", model, "--prompts", "/no/such/place", words=("/no/such/place",), code=1)


class Reaction(Bench):
    def reaction(self, *arguments):
        """An idle run need not get a core at all while others work, and then does not react either."""
        return self.bench_json("reaction", "-m", tiny_model("f16"), "--draft", "self:int4", "--seconds", 0.4, "--period-ms", 20,
                               "--sched", "normal", *arguments)

    def test_document(self):
        d = self.reaction("--curve", "0.3,0.6")
        self.assertEqual([p["burst_on"] for p in d["points"]], [0.3, 0.6])
        for point in d["points"]:
            self.assertLessEqual(point["drafting"]["n"], point["running"]["n"])
            self.assertIn(point["running"]["n"] + point["already_held_back"], range(1, 11))
            self.assertLessEqual(point["recovery"]["n"], point["running"]["n"] + point["already_held_back"])
            self.assertTrue(0 <= point["abandoned_share_quiet"] <= 1)
        self.assertEqual((d["hints"], d["period_ms"], d["draft"]), (False, 20, "self:int4"))

    def test_conditions(self):
        d = self.reaction("--gov", "burst_on=0.5", "--policy", "balanced", "-s", 2**64 - 1)
        self.assertEqual((d["policy"], d["governor_settings"], d["seed"]), ("balanced", {"burst_on": 0.5}, str(2**64 - 1)))
        self.assertEqual(d["environment"]["sched"], "normal")
        if d["foreground_cpu"] is not None:
            self.assertNotIn(str(d["foreground_cpu"]), d["environment"]["cpus"].split(","))

    def test_reactions(self):
        """Others on the machine may take the core in a burst, so not every hint is reacted to in time."""
        times = self.reaction("--hint", "--gov", "burst_on=2")["points"][0]
        self.assertGreater(times["running"]["n"], 0)
        self.assertLess(times["running"]["missed"], times["running"]["n"])
        self.assertGreater(times["recovery"]["n"], 0)
        deaf = self.reaction("--hint", "--policy", "throughput")["points"][0]
        self.assertGreater(deaf["running"]["n"], 0)
        self.assertEqual(deaf["running"]["missed"], deaf["running"]["n"])
        self.assertEqual((deaf["already_held_back"], deaf["recovery"]["n"]), (0, 0))

    def test_without_rights(self):
        """The foreground is of the normal class also for who cannot leave the idle one."""
        if os.geteuid() == 0 and not shutil.which("setpriv"):
            self.skipTest("no setpriv to give up rights with")
        without = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.geteuid() == 0 else ()
        result = self.execute(*without, support.sereno_path(), "bench", "reaction", "-m", tiny_model("f16"), "--json",
                              "--seconds", 0.1, "--period-ms", 10)
        d = self.document(result.out)
        self.assertEqual((d["environment"]["sched"], d["foreground_sched"]), ("idle", "normal"))

    def test_text(self):
        shown = self.bench("reaction", "-m", tiny_model("f16"), "--draft", "self:int4", "--seconds", 0.3, "--period-ms", 20)
        self.assertRegex(shown.out, r"burst_on.*\n +0\.\d\d ")

    def test_mistakes(self):
        for curve in ("", "x", "0", "3", "0.5,", "0.5;1", ",".join(["0.5"] * 17)):
            with self.subTest(curve):
                self.refused("reaction", "--curve", curve, words=("--curve",))
        self.refused("reaction", "--gov", "target=2", words=("target", "0 to 1"))
        self.refused("reaction", "--period-ms", 0, words=("--period-ms",))
        self.refused("reaction", "--draft-max", 4, words=("--draft-max",))
        self.refused("reaction", "--batch", 4, words=("--batch",))
        self.refused("reaction", "-m", tiny_model(), "--foreground-cpu", 255, words=("core 255",))

    def test_curve_from_nothing(self):
        """A burst_off of nothing is no share of what the curve puts in the place of burst_on."""
        d = self.reaction("--gov", "burst_on=0", "--gov", "burst_off=0", "--curve", "0.5")
        self.assertEqual([p["burst_on"] for p in d["points"]], [0.5])

    def test_interrupt(self):
        """In a state of ten seconds."""
        running = self.start("bench", "reaction", "-m", tiny_model("f16"), "--seconds", 1, "--period-ms", 10000,
                             terminal_stderr=True)
        running.wait_for("err", b"measuring")
        self.assertEqual(self.finish_after_interrupt(running).out, "")


class Interrupts(Bench):
    def test_nothing_half_is_printed(self):
        """Ctrl-C while it measures: exit code 130, nothing on stdout, and no bar stays."""
        for arguments in (("memory", "--buffer-mib", 2, "--repeats", 10000),
                          ("kernels", "--sample-ms", 100, "--repeats", 1, "--buffer-mib", 1),
                          ("passes", "-m", tiny_model(), "--repeats", 100000, "--buffer-mib", 2)):
            with self.subTest(arguments[0]):
                running = self.start("bench", *arguments, terminal_stderr=True)
                running.wait_for("err", b"measuring")
                result = self.finish_after_interrupt(running)
                self.assertEqual(result.out, "")
                self.assertTrue(result.err == "" or result.err.endswith("\r\x1b[K"), result.err)


if __name__ == "__main__":
    support.main(sys.argv)
