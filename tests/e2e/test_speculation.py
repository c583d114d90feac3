"""End-to-end tests of speculative decoding as a user asks for it: python3 tests/e2e/test_speculation.py BUILD_DIR."""
import sys

sys.dont_write_bytecode = True

import support
from gguf_edit import Gguf
from support import Case, Places, endless_model, long_prompt, tiny, tiny_model, write_model

KEYS = {"passes": int, "passes_by_batch": dict, "drafted": int, "drafted_abandoned": int, "verified_neural": int,
        "filled_ngram": int, "accepted_neural": int,
        "accepted_ngram": int, "padded": int, "acceptance": float, "acceptance_by_depth": list,
        "tokens_per_pass": float, "time_share": dict}
BATCHES = ["1", "2", "4", "8", "16", "32"]
PROMPT = "the sea and the sea and the sea and the "
SEEDED = ("-p", PROMPT, "--raw", "-n", 60, "-s", 3)
UNGOVERNED = ("--policy", "throughput")  # where what is counted must not depend on what else the machine does


def one_layer_model():
    """The tiny model's first layer: smaller, with the same vocabulary."""
    path = Places.scratch / "one-layer.gguf"
    if not path.exists():
        g = tiny()
        g.set_u32("llama.block_count", 1)
        g.tensors = [t for t in g.tensors if not t.name.startswith(b"blk.1.")]
        path.write_bytes(g.bytes())
    return path


def fine_endless_model():
    """As endless_model, with weights that a self-draft can make coarser."""
    path = Places.scratch / "fine-endless.gguf"
    if not path.exists():
        g = Gguf(tiny_model("f16"))
        g.without("tokenizer.ggml.eos_token_id")
        names = {b"<|endoftext|>": b"<|one|>", b"<|im_end|>": b"<|two|>"}
        g.set_strings("tokenizer.ggml.tokens", [names.get(t, t) for t in g.strings("tokenizer.ggml.tokens")])
        path.write_bytes(g.bytes())
    return path


def foreign_model():
    """A token means something else."""
    g = tiny()
    tokens = g.strings("tokenizer.ggml.tokens")
    tokens[1] = b"<|other|>"
    g.set_strings("tokenizer.ggml.tokens", tokens)
    return write_model("foreign.gguf", g.bytes())


class Drafts(Case):
    def drafts(self, model):
        return ("none", "ngram", "self:int4", "self:int8", "self:layers=1", model, one_layer_model())

    def test_the_text_is_the_same(self):
        for model in (tiny_model(), endless_model()):
            for how in (("--temp", 0), ("--temp", 1), ("--temp", 3, "--top-k", 0)):
                wanted = self.run_json(*SEEDED, *how, "--strategy", "plain", model=model)
                # With other control tokens the vocabulary is another.
                drafts = [d for d in self.drafts(model) if model == tiny_model() or d != one_layer_model()]
                for draft in drafts:
                    for bounds in ((), ("--draft-max", 5), ("--batch", 8), ("--draft-max", 31, "--batch", 32)):
                        with self.subTest(model=model.name, how=how, draft=draft, bounds=bounds):
                            document = self.run_json(*SEEDED, *how, "--draft", draft, *bounds, model=model)
                            self.assertEqual(document["tokens"], wanted["tokens"])
                            self.assertEqual(document["text"], wanted["text"])
                            self.assertEqual(document["finish_reason"], wanted["finish_reason"])

    def test_what_is_reported(self):
        model = fine_endless_model()
        for draft in self.drafts(model)[:-1]:
            with self.subTest(draft=draft):
                document = self.run_json(*SEEDED, *UNGOVERNED, "--draft", draft, "--temp", 0, model=model)
                s = document["speculation"]
                self.assertEqual(set(s), set(KEYS))
                for key, kind in KEYS.items():
                    self.assertIs(type(s[key]), kind, key)
                for key in KEYS:
                    if KEYS[key] is int:
                        self.assertGreaterEqual(s[key], 0, key)
                self.assertTrue(0 <= s["acceptance"] <= 1)
                self.assertTrue(all(0 <= a <= 1 for a in s["acceptance_by_depth"]))
                n = document["completion_tokens"]
                self.assertEqual(n, 60)
                self.assertAlmostEqual(s["tokens_per_pass"], (n - 1) / s["passes"])
                self.assertEqual(s["drafted_abandoned"], 0)
                share = s["time_share"]
                self.assertEqual(set(share), {"draft", "verify_by_batch", "sleep", "other"})
                self.assertEqual(list(share["verify_by_batch"]), BATCHES)
                parts = [share["draft"], share["sleep"], share["other"], *share["verify_by_batch"].values()]
                self.assertTrue(all(0 <= part <= 1 for part in parts), parts)
                self.assertAlmostEqual(sum(parts), 1, delta=0.05)
                settings = document["settings"]
                self.assertEqual(settings["draft"], str(draft))
                self.assertIsNone(settings["draft_max"])
                self.assertIsNone(settings["batch"])
                memory = document["memory"]["draft_mib"]
                if draft in ("none", "ngram", "self:layers=1"):
                    self.assertEqual(memory, 0)
                else:
                    self.assertGreater(memory, 0)
                if draft in ("none", "ngram"):
                    self.assertEqual(s["drafted"], 0)
                    self.assertEqual(s["accepted_neural"], 0)
                if draft == "none":
                    self.assertEqual(s["passes"], n - 1)
                    self.assertEqual(s["filled_ngram"], 0)

    def test_fixed_bounds(self):
        document = self.run_json(*SEEDED, *UNGOVERNED, "--draft", endless_model(), "--draft-max", 3, "--batch", 4,
                                 model=endless_model())
        s, share = document["speculation"], document["speculation"]["time_share"]["verify_by_batch"]
        self.assertGreater(s["drafted"], 0)
        self.assertLessEqual(s["drafted"], 3 * s["passes"])
        self.assertEqual([b for b in BATCHES if share[b] > 0], ["4"])
        self.assertEqual((document["settings"]["draft_max"], document["settings"]["batch"]), (3, 4))
        s = self.run_json(*SEEDED, "--draft", endless_model(), "--draft-max", 0, model=endless_model())["speculation"]
        self.assertEqual(s["drafted"], 0)

    def test_a_draft_that_says_the_same_saves_passes(self):
        """The target itself: its own draft is right nearly always."""
        s = self.run_json(*SEEDED, *UNGOVERNED, "--draft", endless_model(), "--draft-max", 7, "--batch", 8,
                          model=endless_model())["speculation"]
        self.assertGreater(s["tokens_per_pass"], 2)

    def test_statistics(self):
        self.assertRegex(self.run_tiny(*SEEDED).err, r"\d tokens a pass")
        self.assertNotIn("a pass", self.run_tiny(*SEEDED, "--strategy", "plain").err)

    def test_a_chat(self):
        lines = b"hello\nagain\nand the sea\n"
        wanted = self.run_tiny("-i", "-n", 30, "-s", 5, "--strategy", "plain", stdin=lines)
        for draft in self.drafts(tiny_model()):
            with self.subTest(draft=draft):
                self.assertEqual(self.run_tiny("-i", "-n", 30, "-s", 5, "--draft", draft, stdin=lines).out, wanted.out)


class Context(Case):
    def test_ends_inside_a_tree(self):
        """Prompts of all lengths up to the context, so that it is full at each place of a tree."""
        n_prompt = self.run_json(*SEEDED)["prompt_tokens"]
        for draft in ("ngram", "self:int4", "self:layers=1", tiny_model()):
            for left in range(1, 12, 2):
                with self.subTest(draft=draft, left=left):
                    how = (*SEEDED, "-c", n_prompt + left)
                    wanted = self.run_json(*how, "--strategy", "plain")
                    got = self.run_json(*how, "--draft", draft, "--draft-max", 7, "--batch", 16)
                    self.assertEqual(got["tokens"], wanted["tokens"])
                    self.assertEqual(got["finish_reason"], wanted["finish_reason"])
                    self.assertLessEqual(got["completion_tokens"], left)

    def test_no_room(self):
        n_prompt = self.run_json(*SEEDED)["prompt_tokens"]
        result = self.run_tiny(*SEEDED, "-c", n_prompt, "--draft", "self:int4", code=1)
        self.assertEqual(result.out, "")
        self.assertIn(f"{n_prompt} tokens", result.err)

    def test_one_token(self):
        for draft in ("ngram", "self:int4", "self:layers=1", tiny_model()):
            for n in (0, 1, 2, 20):
                with self.subTest(draft=draft, n=n):
                    how = ("-p", "a", "--raw", "-n", n, "-s", 1)
                    wanted = self.run_json(*how, "--strategy", "plain")
                    self.assertEqual(wanted["prompt_tokens"], 1)
                    for bounds in ((), ("--draft-max", 31, "--batch", 32)):
                        self.assertEqual(self.run_json(*how, "--draft", draft, *bounds)["tokens"], wanted["tokens"])

    def test_long_prompts(self):
        """Longer than a pass holds: the draft catches up in several."""
        for words in (130, 700):
            how = ("-f", long_prompt(words), "--raw", "-n", 20, "-s", 1)
            wanted = self.run_json(*how, "--strategy", "plain")
            self.assertGreater(wanted["prompt_tokens"], 128)
            for draft in (tiny_model(), one_layer_model(), "self:int4"):
                for bounds in ((), ("--draft-max", 4)):
                    with self.subTest(words=words, draft=draft, bounds=bounds):
                        self.assertEqual(self.run_json(*how, "--draft", draft, *bounds)["tokens"], wanted["tokens"])

    def test_a_draft_with_a_smaller_context(self):
        g = tiny()
        g.set_u32("llama.context_length", 40)
        draft = write_model("short.gguf", g.bytes())
        for words in (2, 20, 60):
            how = ("-f", long_prompt(words), "--raw", "-n", 60, "-s", 2)
            wanted = self.run_json(*how, "--strategy", "plain")
            got = self.run_json(*how, "--draft", draft, "--draft-max", 4)
            self.assertEqual(got["tokens"], wanted["tokens"])
            if wanted["prompt_tokens"] > 40:
                self.assertEqual(got["speculation"]["drafted"], 0)


class BadInput(Case):
    def refused(self, *arguments, words, code=1, model=None):
        result = self.sereno("run", "-m", model or tiny_model(), "-p", "hi", "-n", 4, *arguments, code=code)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith("sereno run: "), result.err)
        for word in words:
            self.assertIn(str(word), result.err)
        return result

    def test_misuse(self):
        for arguments, words in ((("--batch", 0), ("--batch",)), (("--batch", 3), ("--batch", "3", "16")),
                                 (("--batch", 33), ("--batch",)), (("--batch", 64), ("--batch",)),
                                 (("--batch", -8), ("--batch",)), (("--draft-max", 32), ("--draft-max",)),
                                 (("--draft-max", -1), ("--draft-max",)), (("--strategy", "fast"), ("--strategy",)),
                                 (("--draft", ""), ("--draft", "empty")),
                                 (("--draft", "self:int3"), ("self:int3", "self:int4")),
                                 (("--draft", "self:"), ("self:int4",)), (("--draft", "self"), ("self:int4",)),
                                 (("--draft", 16), ("--draft-max",)),
                                 (("--draft", "self:layers"), ("self:layers=K",)),
                                 (("--draft", "self:layers="), ("self:layers=",)),
                                 (("--draft", "self:layers=0"), ("self:layers=0",)),
                                 (("--draft", "self:layers=-1"), ("self:layers=-1",)),
                                 (("--draft", "self:layers=1x"), ("self:layers=1x",)),
                                 (("--draft", "self:layers=99999999999999999999"), ("self:layers",))):
            with self.subTest(arguments):
                self.refused(*arguments, words=words, code=2)

    def test_layers_that_are_not_there(self):
        for k in (2, 3, 1000):
            self.refused("--draft", f"self:layers={k}", words=(f"{k} layers", "1 to 1"), code=2)
        self.refused("--draft", "self:layers=1", words=("only one",), code=2, model=one_layer_model())

    def test_files_that_cannot_be_used(self):
        for path, word in (("/no/such/draft.gguf", "No such file"), (self.folder(), "is a directory"),
                           (write_model("text.gguf", b"not a model" * 100), "not a GGUF file")):
            for fallback in ((), ("--draft-fallback",)):
                with self.subTest(path=path, fallback=fallback):
                    self.refused("--draft", path, *fallback, words=(path, word))

    def test_a_foreign_vocabulary(self):
        draft = foreign_model()
        self.refused("--draft", draft, words=(draft, "--draft-fallback", "<|other|>"), code=2)
        wanted = self.run_json(*SEEDED, "--draft", "ngram")
        result = self.sereno("run", "-m", tiny_model(), "--json", *SEEDED, "--draft", draft, "--draft-fallback")
        document = self.document(result.out)
        self.assertIn(str(draft), result.err)
        self.assertEqual(len(result.err.splitlines()), 1)
        self.assertEqual(document["tokens"], wanted["tokens"])
        self.assertEqual(document["settings"]["draft"], "ngram")
        self.assertEqual(document["memory"]["draft_mib"], 0)
        # Where it is not needed it changes nothing.
        document = self.run_json(*SEEDED, "--draft", tiny_model(), "--draft-fallback")
        self.assertEqual(document["settings"]["draft"], str(tiny_model()))
        self.assertEqual(document["tokens"], wanted["tokens"])

    def test_a_draft_that_is_larger(self):
        self.refused("--draft", tiny_model(), words=(tiny_model(), "smaller"), code=2, model=one_layer_model())


if __name__ == "__main__":
    support.main(sys.argv)
