"""End-to-end tests of `sereno check`: python3 tests/e2e/test_check.py BUILD_DIR."""
import re
import sys

sys.dont_write_bytecode = True

import support
from support import Case, fake, tiny_model

OPTIONS = {"-m", "--model", "--trials", "-s", "--seed", "--trial", "-md", "--draft", "--go-on", "-t", "--threads",
           "--cpu", "--sched", "--activations", "--json", "-v", "--verbose", "--log-file", "-h", "--help"}
COUNTS = {"trials", "answers", "tokens", "passes", "passes_abandoned", "drafted", "drafted_abandoned",
          "verified_neural", "verified_ngram", "accepted_neural", "accepted_ngram", "sleeps", "governed", "cancelled", "stopped",
          "filled_context"}


class Exactness(Case):
    def check(self, *arguments, model=None, **how):
        return self.sereno("check", "exactness", "-m", model or tiny_model(), *arguments, **how)

    def check_json(self, *arguments, **how):
        return self.document(self.check("--json", *arguments, **how).out)

    def refused(self, *arguments, words=(), code=2, **how):
        result = self.check(*arguments, code=code, **how)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith("sereno check exactness: "), result.err)
        for word in words:
            self.assertIn(word, result.err)

    def test_list(self):
        self.assertRegex(self.sereno("check", "--help").out, r"(?m)^  exactness ")
        self.assertIn("  check ", self.sereno("--help").out)
        for arguments in ((), ("no-such-check",)):
            result = self.sereno("check", *arguments, code=2)
            self.assertEqual(result.out, "")
            self.assertIn("exactness", result.err)

    def test_help(self):
        result = self.sereno("check", "exactness", "--help")
        self.assertEqual(result.err, "")
        self.assertLessEqual(max(map(len, result.out.splitlines())), 100)
        shown = re.findall(r"^  (-.+?)(?:  |$| [A-Z]+\b)", result.out, re.MULTILINE)
        self.assertEqual({name for names in shown for name in names.split(", ")}, OPTIONS)
        self.assertIn("exit codes", result.out)

    def test_text(self):
        result = self.check("--trials", 20, "-s", 7)
        self.assertEqual(result.err, "")
        self.assertRegex(result.out, r"^no difference in 20 trials: [^\n]* \| seed 7\n$")

    def test_document(self):
        document = self.check_json("--trials", 60, "-s", 2**64 - 1)
        self.assertEqual((document["trials"], document["differences"], document["seed"], document["first_difference"]),
                         (60, 0, str(2**64 - 1), None))
        self.assertEqual([d["draft"] for d in document["drafts"]], ["ngram", "self:int4", "self:int8", "self:layers=1"])
        self.assertEqual(set(document["counts"]), COUNTS)
        for name in COUNTS:
            self.assertEqual(document["counts"][name], sum(d["counts"][name] for d in document["drafts"]), name)
        for name in ("passes", "drafted", "drafted_abandoned", "accepted_neural", "accepted_ngram"):
            self.assertGreater(document["counts"][name], 0, name)

    def test_trials_add_up(self):
        """A trial does alone what it does among others; and other trials than these are others."""
        together = self.check_json("--trials", 4, "-s", 3)["counts"]
        alone = [self.check_json("--trial", k, "-s", 3) for k in range(4)]
        self.assertEqual([(d["first_trial"], d["trials"]) for d in alone], [(k, 1) for k in range(4)])
        for name in COUNTS:
            self.assertEqual(together[name], sum(d["counts"][name] for d in alone), name)
        self.assertNotEqual(together, self.check_json("--trials", 4, "-s", 4)["counts"])

    def test_threads_do_not_show(self):
        """Trials are the same on any number of threads but one, which leaves one engine to draw from."""
        two, three = [self.check_json("--trials", 8, "-s", 3, "-t", n) for n in (2, 3)]
        self.assertEqual(two["differences"] + three["differences"], 0)
        self.assertEqual(three["environment"]["threads"], 3)
        self.assertEqual(self.check_json("--trials", 8, "-t", 1)["environment"]["threads"], 1)

    def test_drafts(self):
        other = tiny_model("q8_0")
        document = self.check_json("--trials", 20, "--draft", "self:int8", "-md", other)
        self.assertEqual([d["draft"] for d in document["drafts"]], ["self:int8", str(other)])
        self.assertGreater(document["counts"]["drafted"], 0)
        self.refused("--draft", "none", words=("--draft", "none"))
        self.refused("--draft", "", words=("--draft",))
        self.refused("--draft", "self:int2", words=("self:int2", "self:int4"))
        self.refused("--draft", "self:layers=2", words=("2 layers", "1 to 1"))
        self.refused("--draft", "/no/such/model", words=("/no/such/model",), code=1)

    def test_mistakes(self):
        for option in ("--trials", "--trial", "-s", "-t"):
            for value in ("", "x", "-2", "1.5"):
                with self.subTest(option=option, value=value):
                    self.refused(option, value, words=(option,))
        self.refused("--trials", 0, words=("--trials",))
        self.refused("--trials", 2, "--trial", 1, words=("--trials", "--trial"))
        self.refused("x", words=("'x'",))
        self.refused("--cpu", 999, words=("--cpu",))
        self.refused(model="/no/such/model", words=("/no/such/model",), code=1)
        self.refused(model=fake(self.folder(), "text.gguf", "echo"), words=("not a GGUF file",), code=1)

    def test_interrupt(self):
        running = self.start("check", "exactness", "-m", tiny_model(), "--trials", 1 << 30, terminal_stderr=True)
        running.wait_for("err", b"checking")
        result = self.finish_after_interrupt(running)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.endswith("\r\x1b[K"), result.err)


if __name__ == "__main__":
    support.main(sys.argv)
