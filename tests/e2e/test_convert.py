"""End-to-end tests of sereno convert: python3 tests/e2e/test_convert.py BUILD_DIR."""
import os
import resource
import signal
import struct
import subprocess
import sys

sys.dont_write_bytecode = True

import gguf_edit
import support
from gguf_edit import Gguf
from support import Case, Places, tiny_model, write_model

# Name of a type on the command line: its name, number in a tensor, number in general.file_type.
TYPES = {"f16": ("F16", gguf_edit.TYPE_F16, 1), "q8_0": ("Q8_0", gguf_edit.TYPE_Q8_0, 7),
         "q4_0": ("Q4_0", gguf_edit.TYPE_Q4_0, 2)}
JSON_KEYS = ["schema_version", "input", "output", "type", "origin", "tensors", "converted", "kept", "bytes_in",
             "bytes_out", "fallback_f16", "seconds"]
BAR = r"converting +#*\.* +\d+%"


def without_origin(kind):
    """The tiny model as if it came from elsewhere."""
    g = Gguf(tiny_model(kind))
    g.without("sereno.origin")
    return write_model(f"no-origin-{kind}.gguf", g.bytes())


def slow_model():
    """A file with 16 GiB of zeros to convert, which takes no room on the disk."""
    path = Places.scratch / "slow.gguf"
    if not path.exists():
        g = Gguf(tiny_model("f32"))
        g.tensors = [gguf_edit.Tensor(b"zeros", [1 << 16, 1 << 16], gguf_edit.TYPE_F32, 0)]
        g.data = b""
        path.write_bytes(g.bytes())
        os.truncate(path, path.stat().st_size + (1 << 34))
    return path


class ConvertCase(Case):
    def setUp(self):
        self.place = self.folder()
        self.out = self.place / "out.gguf"

    def arguments(self, model, kind, *more, out=None):
        return ("convert", "-m", model, "--type", kind, "-o", out or self.out, *more)

    def convert(self, model, kind, *more, out=None):
        result = self.sereno(*self.arguments(model, kind, "--json", *more, out=out))
        self.assertEqual(result.err, "")
        return self.document(result.out)

    def refused(self, model, kind, *more, out=None, code=1, words=()):
        """Fails with a line that holds the words, and changes nothing in the place."""
        before = {path: path.read_bytes() for path in self.place.iterdir()}
        result = self.sereno(*self.arguments(model, kind, *more, out=out), code=code)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith("sereno convert: "), result.err)
        self.assertEqual(len(result.err.splitlines()), 1, result.err)
        for word in words:
            self.assertIn(str(word), result.err)
        self.assertEqual({path: path.read_bytes() for path in self.place.iterdir()}, before)


# ---- What comes out ----

class Conversions(ConvertCase):
    def test_converted_models_run(self):
        for kind, (name, number, file_type) in TYPES.items():
            with self.subTest(kind):
                model = without_origin("q4_1")
                document = self.convert(model, kind, "--force")
                before, after = Gguf(model), Gguf(self.out)
                wanted = {t.name: (t.dims, number if len(t.dims) > 1 else t.type) for t in before.tensors}
                self.assertEqual({t.name: (t.dims, t.type) for t in after.tensors}, wanted)
                self.assertEqual([t.name for t in after.tensors], [t.name for t in before.tensors])
                before.set_u32("general.file_type", file_type)
                before.set_string("sereno.origin", "Q4_1")
                self.assertEqual(after.keys, before.keys)
                self.assertEqual(document["origin"], "Q4_1")
                for isa in ("", "portable"):
                    answer = self.run_json("-p", "hi", "-n", 4, "--temp", 0, model=self.out,
                                           env=support.clean_environment(SERENO_ISA=isa))
                    self.assertEqual(answer["target_origin"], "Q4_1")
                    self.assertGreater(answer["completion_tokens"], 0)
                shown = self.document(self.sereno("inspect", "--json", self.out).out)
                self.assertTrue(shown["supported"])
                self.assertEqual({t["type"] for t in shown["tensors"]}, {name, "F32"})

    def test_what_the_type_can_hold_stays(self):
        """A bfloat of usual size is a half, so the same model answers."""
        settings = ("-p", "hi", "-n", 16, "-s", 1)
        self.convert(tiny_model("bf16"), "f16")
        self.assertEqual(self.run_json(*settings, model=self.out)["tokens"],
                         self.run_json(*settings, model=tiny_model("bf16"))["tokens"])

    def test_json(self):
        document = self.convert(tiny_model("q4_0"), "q8_0")
        self.assertEqual(list(document), JSON_KEYS)
        seconds = document.pop("seconds")
        self.assertTrue(0 < seconds < support.TIMEOUT_S)
        self.assertEqual(document, {
            "schema_version": 2, "input": str(tiny_model("q4_0")), "output": str(self.out), "type": "Q8_0",
            "origin": "random weights", "tensors": 20, "converted": 15, "kept": 5, "fallback_f16": 0,
            "bytes_in": tiny_model("q4_0").stat().st_size, "bytes_out": self.out.stat().st_size})

    def test_text(self):
        result = self.sereno(*self.arguments(tiny_model("q4_0"), "q8_0"))
        self.assertEqual(result.err, "")
        self.assertRegex(result.out, rf"^{self.out}: 15 of 20 tensors converted to Q8_0, .* MiB became .* MiB; "
                                     r"origin random weights\n$")
        self.assertIn("20 tensors", self.sereno(*self.arguments(self.out, "f16", "-v", out=self.place / "b")).err)

    def test_origin_survives_a_second_conversion(self):
        second = self.place / "second.gguf"
        self.assertEqual(self.convert(without_origin("q6_k"), "f16")["origin"], "Q6_K")
        self.assertEqual(self.convert(self.out, "q4_0", out=second)["origin"], "Q6_K")
        self.assertEqual(self.run_json("-p", "hi", "-n", 1, model=second)["target_origin"], "Q6_K")

    def test_what_has_the_type_is_kept(self):
        before = tiny_model("q8_0")
        document = self.convert(before, "q8_0")
        self.assertEqual((document["converted"], document["kept"]), (0, 20))
        self.assertEqual(Gguf(self.out).data, Gguf(before).data)

    def test_conversions_repeat(self):
        for out in (self.out, self.place / "again.gguf"):
            self.convert(tiny_model("bf16"), "q4_0", out=out)
        self.assertEqual(self.out.read_bytes(), (self.place / "again.gguf").read_bytes())

    def test_keys_are_carried_over(self):
        g = Gguf(tiny_model("q4_0"))
        g.set_string("test.bytes", b"a\xffb\0c\x1b")
        g.set_strings("test.none", [])
        g.set_f32("test.nan", float("nan"))
        for kind, width in gguf_edit.WIDTHS.items():
            g.keys[f"test.{kind}"] = (kind, bytes([1] * width))
            g.keys[f"test.array.{kind}"] = (gguf_edit.ARRAY, struct.pack("<IQ", kind, 3) + bytes([1] * width * 3))
        for alignment in (None, 8, 128):
            with self.subTest(alignment=alignment):
                if alignment:
                    g.set_u32("general.alignment", alignment)
                self.convert(write_model("keys.gguf", g.bytes(version=2)), "f16", "--force")
                after = Gguf(self.out)
                self.assertEqual(after.version, 3)
                self.assertEqual({**g.keys, "general.file_type": (gguf_edit.UINT32, b"\1\0\0\0")}, after.keys)
                self.run_json("-p", "hi", "-n", 1, model=self.out)

    def test_other_architectures(self):
        g = Gguf(tiny_model("q4_0"))
        g.set_string("general.architecture", "mamba")
        self.convert(write_model("mamba.gguf", g.bytes()), "q8_0")
        self.assertEqual(Gguf(self.out).keys["general.architecture"], g.keys["general.architecture"])

    def test_rows_that_are_not_whole_blocks(self):
        g = Gguf(tiny_model("f32"))
        g.tensor("token_embd.weight").dims = [16, 8192]
        g.tensor("blk.1.ffn_down.weight").dims = [8, 64, 256]
        model = write_model("rows.gguf", g.bytes())
        document = self.convert(model, "q4_0")
        self.assertEqual((document["converted"], document["fallback_f16"]), (15, 2))
        types = {t.name: t.type for t in Gguf(self.out).tensors}
        self.assertEqual(types[b"token_embd.weight"], gguf_edit.TYPE_F16)
        self.assertEqual(types[b"blk.1.ffn_down.weight"], gguf_edit.TYPE_F16)
        self.assertEqual(types[b"blk.0.ffn_down.weight"], gguf_edit.TYPE_Q4_0)
        text = self.sereno(*self.arguments(model, "q4_0", "--force")).out
        self.assertIn("2 matrices are F16 instead", text)
        self.assertIn("token_embd.weight", text)
        self.assertEqual(self.convert(model, "f16", "--force")["fallback_f16"], 0)

    def test_real_model(self):
        document = self.convert(self.real_model(), "f16")
        self.assertEqual((document["origin"], document["tensors"], document["converted"]), ("Q4_1", 272, 211))
        shown = self.document(self.sereno("inspect", "--json", self.out).out)
        self.assertTrue(shown["supported"])
        self.assertEqual({t["type"] for t in shown["tensors"] if len(t["shape"]) > 1}, {"F16"})
        answer = self.run_json("-p", "What is the capital of France?", "--temp", 0, "-n", 100, model=self.out)
        self.assertIn("Paris", answer["text"])
        self.assertEqual(answer["target_origin"], "Q4_1")


# ---- What is refused ----

class Refusals(ConvertCase):
    def test_existing_files(self):
        self.out.write_text("mine")
        self.refused(tiny_model(), "f16", words=(self.out, "--force"))
        self.convert(tiny_model(), "f16", "--force")
        self.assertEqual(self.out.read_bytes()[:4], b"GGUF")
        link = self.place / "link"
        link.symlink_to("nowhere")
        result = self.sereno(*self.arguments(tiny_model(), "f16", out=link), code=1)
        self.assertIn("exists already", result.err)

    def test_the_model_itself(self):
        model = self.place / "model.gguf"
        model.write_bytes(tiny_model().read_bytes())
        soft, hard = self.place / "soft.gguf", self.place / "hard.gguf"
        soft.symlink_to(model)
        os.link(model, hard)
        for out in (model, soft, hard, self.place / ".." / self.place.name / "model.gguf"):
            for more in ((), ("--force",)):
                with self.subTest(out=out, more=more):
                    self.refused(model, "f16", *more, out=out, code=2, words=(out,))
                    self.refused(out, "f16", *more, out=model, code=2, words=(model,))

    def test_places_that_cannot_be_written(self):
        inside = self.place / "file"
        inside.write_text("a file")
        for out, word in ((self.place / "none" / "out.gguf", "No such file"), (inside / "out.gguf", "Not a directory"),
                          (self.place / ("x" * 300), "too long")):
            with self.subTest(out=out):
                self.refused(tiny_model(), "f16", out=out, words=(out, word))
        for out in (self.folder(), "/dev/null"):
            with self.subTest(out=out):
                self.refused(tiny_model(), "f16", "--force", out=out, words=(out, "not a regular file"))
        if os.geteuid() != 0:  # root may write anywhere
            closed = self.folder()
            closed.chmod(0o500)
            self.refused(tiny_model(), "f16", out=closed / "out.gguf", words=("Permission denied",))

    def test_misuse(self):
        for kind in ("F16", "q4_1", "f32", "", "1"):
            with self.subTest(kind):
                result = self.sereno(*self.arguments(tiny_model(), kind), code=2)
                for word in ("--type", *TYPES):
                    self.assertIn(word, result.err)
        for arguments, word in ((("--type", "f16"), "-o"), (("-o", self.out), "--type"),
                                (("--type", "f16", "-o", ""), "-o"), (("--type", "f16", "-o", self.out, "x"), "'x'")):
            with self.subTest(arguments):
                result = self.sereno("convert", "-m", tiny_model(), *arguments, code=2)
                self.assertIn(word, result.err)
                self.assertEqual(result.out, "")
        self.assertFalse(self.out.exists())

    def test_types_that_cannot_be_read(self):
        g = Gguf(tiny_model("q4_0"))
        g.tensor("blk.0.attn_q.weight").type = gguf_edit.TYPE_Q3_K
        self.refused(write_model("q3_k.gguf", g.bytes()), "f16", words=("'blk.0.attn_q.weight'", "Q3_K", "Q4_0"))

    def test_weights_that_do_not_fit(self):
        for value, kind, words in ((70000, "f16", ("70000", "65504", "F16")), (float("nan"), "q8_0", ("nan",)),
                                   (float("-inf"), "q4_0", ("-inf",))):
            with self.subTest(value=value):
                g = Gguf(tiny_model("f32"))
                t = g.tensor("blk.1.attn_k.weight")
                place = t.offset + 4 * (5 * t.dims[0] + 77)
                g.data[place:place + 4] = struct.pack("<f", value)
                self.refused(write_model("large.gguf", g.bytes()), kind,
                             words=("'blk.1.attn_k.weight'", "row 5", "column 77", *words))

    def test_full_disk(self):
        """What a limit on the size of files stops looks like a full disk: the rest cannot be written."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

        self.out.write_text("mine")
        done = subprocess.run([str(a) for a in (support.sereno_path(), *self.arguments(tiny_model(), "f16", "--force"))],
                              capture_output=True, text=True, env=support.clean_environment(), preexec_fn=limit,
                              restore_signals=False, check=False)  # SIGXFSZ stays ignored, as Python has it
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(f"cannot write '{self.out}': File too large", done.stderr)
        self.assertEqual([(path, path.read_text()) for path in self.place.iterdir()], [(self.out, "mine")])


# ---- Ctrl-C ----

class Interrupts(ConvertCase):
    def check(self, number, *more):
        """On a terminal the bar says that the work has begun; it would go on for long."""
        running = self.start(*self.arguments(slow_model(), "q4_0", *more), terminal_stderr=True)
        running.wait_for("err", BAR.encode())
        self.assertIn(self.place / "out.gguf.part", list(self.place.iterdir()))
        running.process.send_signal(number)
        result = running.finish()
        self.assert_clean(result.err)
        self.assertEqual((result.code, result.out), (128 + number, ""), result.err)
        self.assertTrue(result.err.endswith("\r\x1b[K"))

    def test_nothing_is_left(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.check(number)
                self.assertEqual(list(self.place.iterdir()), [])

    def test_what_was_there_stays(self):
        self.out.write_text("mine")
        self.check(signal.SIGINT, "--force")
        self.assertEqual([(path, path.read_text()) for path in self.place.iterdir()], [(self.out, "mine")])


if __name__ == "__main__":
    support.main(sys.argv)
