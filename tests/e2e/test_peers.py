"""tools/peers with a fake sereno and a fake llama.cpp: python3 tests/e2e/test_peers.py BUILD_DIR."""
import json
import os
import re
import signal
import socket
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import support
from support import ROOT, Case, Running, fake, path_with

COMPARE = ROOT / "tools" / "peers" / "compare.py"
COMPARE_CORUN = ROOT / "tools" / "peers" / "compare_corun.py"
COMPARE_DECODE = ROOT / "tools" / "peers" / "compare_decode.py"
LLAMA_DECODE = ROOT / "tools" / "peers" / "llama_decode.py"
SETUP_LLAMA = ROOT / "tools" / "peers" / "setup-llama"

# Both write what they do into one log; the model's name says how they behave. A round of sereno is slower than the
# one before by 2 ms; llama.cpp takes 4 ms a token.
COMMON = """
import json, os, sys, time
from pathlib import Path
folder = Path(sys.argv[0]).parent
log_file = folder / "log"

def log(text):
    with log_file.open("a") as out:
        out.write(text + "\\n")

def hang():
    with open(folder / "hanging", "w") as out:
        out.write(str(os.getpid()))
    time.sleep(1000)
"""
SERENO = "#!" + sys.executable + COMMON + """
def option(name):
    return sys.argv[sys.argv.index(name) + 1]

if sys.argv[1:] == ["--version"]:
    print("sereno 9.9")
elif sys.argv[1:] == ["bench", "passes", "--help"]:
    print("--sched idle|batch|normal")
else:
    model = Path(option("-m")).stem
    assert sys.argv[1:3] == ["bench", "passes"] and "--json" in sys.argv and option("--sched") == "normal"
    log("sereno begins, threads " + option("-t"))
    if model == "sereno-hangs":
        hang()
    if model == "sereno-fails":
        print("a hint", file=sys.stderr)
        sys.exit("sereno bench: the model " + os.environ["HOME"] + "/m.gguf is broken")
    rounds = log_file.read_text().count("sereno begins")
    ms = [1 + 2.0 * rounds] * int(option("--repeats"))
    passes = [{"batch": int(b), "ms": ms, "share_of_limit": 0.5 + rounds / 100} for b in option("--batches").split(",")]
    answer = {"schema_version": 1, "passes": passes, "prefill": {"tokens": int(option("--prefill")), "ms": ms}}
    if model == "sereno-garbage":
        print("half a {")
    else:
        if model == "sereno-short":
            passes.pop()
        if model == "sereno-negative":
            passes[0]["ms"] = [-1.0]
        if model == "sereno-other":
            answer = {"schema_version": 1}
        print(json.dumps(answer))
    log("sereno ends")
"""
LLAMA = COMMON + """
model = Path(sys.argv[1]).stem
if model == "llama-no-start":
    sys.exit("a long story\\n\\nno such model")
for line in sys.stdin:
    request = line.strip()
    log(request)
    words = request.split()
    rounds = log_file.read_text().count("sereno begins")
    if model == "llama-crashes" and request == "pass 8" and rounds == 2:
        print("an illegal instruction", file=sys.stderr)
        os.abort()
    if model == "llama-hangs" and request == "pass 8":
        hang()
    garbage = {"llama-garbage": "hello", "llama-list": "[1]", "llama-infinite": '{"ms": Infinity}',
               "llama-text": '{"ms": "1"}'}
    if request == "about":
        print(json.dumps({"llama_cpp": "7.7", "commit": "abc", "built": "flags", "system_info": "AVX9"}), flush=True)
    elif model in garbage:
        print(garbage[model], flush=True)
    else:
        print(json.dumps({"ms": 4.0 * int(words[1])}), flush=True)
"""

# Whole answers: sereno takes 5 ms a token plainly and 2.5 ms with a draft, llama.cpp 10 ms, and 8 ms when drafting.
SERENO_DECODE = "#!" + sys.executable + COMMON + """
def option(name):
    return sys.argv[sys.argv.index(name) + 1]

behaviour = os.environ.get("FAKE", "")
match sys.argv[1:3]:
    case ["--version"]:
        print("sereno 9.9")
    case ["bench", "decode"] if "--help" in sys.argv:
        print("--sched idle|batch|normal")
    case ["convert", _]:
        log("convert " + option("--type"))
        Path(option("-o")).write_text("model")
    case ["tokenize", _]:
        print(len(sys.argv[-1]), 7)
    case ["run", _]:
        print(json.dumps({"prompt_tokens": 3 if behaviour == "other-chat" else 2}))
    case _:
        log("sereno " + Path(option("--prompts")).stem + " " + option("--seed"))
        if behaviour == "sereno-fails" and option("--seed") == "2":
            sys.exit("texts differ")
        cells = [{"strategy": s, "tokens": 32.0, "tok_s": 200 if s == "plain" else 400, "tokens_per_pass": 2}
                 for s in option("--strategies").split(",")]
        print(json.dumps({"schema_version": 1, "cells": cells}))
"""
LLAMA_DECODE_FAKE = COMMON + """
behaviour = os.environ.get("FAKE", "")
for line in sys.stdin:
    request, _, argument = line.strip().partition(" ")
    if request == "about":
        answer = {"llama_cpp": "7.7", "commit": "abc", "built": "flags", "system_info": "AVX9"}
    elif request == "tokenize":
        answer = {"ids": [len(json.loads(argument)), 8 if behaviour == "other-tokens" else 7]}
    else:
        r = json.loads(argument)
        assert len(r["prompt"]) == 2 and r["prompt"][1] == 7
        log(f"llama {r['mode']} {r['seed']} {r['predict']}")
        answer = {"tokens": 32, "passes": 31, "tok_s": 100 if r["mode"] == "plain" else 125}
        if behaviour == "llama-odd":
            answer["tok_s"] = float("nan")
    print(json.dumps(answer), flush=True)
"""

# Tunes, and says which runs it was asked for. Told to hang, it ends cleanly with the first Ctrl-C only.
SERENO_CORUN = "#!" + sys.executable + COMMON + """
import signal, urllib.request

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def stop(*_):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log("stopping")
    time.sleep(0.1)
    log("stopped")
    sys.exit(130)

behaviour = os.environ.get("FAKE", "")
match sys.argv[1:3]:
    case ["--version"]:
        print("sereno 9.9")
    case ["bench", "corun"] if "--help" in sys.argv:
        print("--json")
    case ["convert", _]:
        Path(option("-o")).write_text("model")
    case ["foreground", name]:
        log(" ".join(["tune", name, *sys.argv[3:]]))
        attempts = log_file.read_text().count("tune " + name)
        if behaviour == "tuning-hangs":
            signal.signal(signal.SIGINT, stop)
            hang()
        if behaviour == "untunable" or attempts < 2:
            sys.exit("the machine is too busy")
        profiles = Path(os.environ["XDG_CONFIG_HOME"]) / "sereno/profiles"
        profiles.mkdir(parents=True, exist_ok=True)
        (profiles / f"{name}.ini").write_text("tuned")
    case _:
        report = "--report" in sys.argv
        assert report == ("--json" in sys.argv)
        log(("report " if report else "corun ") + option("--placement") + " " + option("--strategies"))
        if behaviour == "hangs":
            signal.signal(signal.SIGINT, stop)
            hang()
        if behaviour.startswith("exit"):
            sys.exit(int(behaviour[4:]))
        if behaviour == "server-dies" and not report:
            url = option("--strategies").partition("peer:")[2]
            try:
                urllib.request.urlopen(url + "/die")
            except OSError:
                pass
        print(json.dumps({"schema_version": 1, "arguments": sys.argv[1:]}) if report else "a table")
"""
LLAMA_SERVER = "#!" + sys.executable + COMMON + """
from http.server import BaseHTTPRequestHandler, HTTPServer

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/die":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        self.send_response(200)
        self.end_headers()

log(f"llama {option('--threads')} {sorted(os.sched_getaffinity(0))}")
HTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()
"""


def requests_of_a_round(batches):
    """Each once without being counted, then five times."""
    return [r for r in (*(f"pass {b}" for b in batches), "prefill 512") for _ in range(6)]


class Compare(Case):
    def setUp(self):
        self.place, self.out = self.folder(), self.folder() / "results"
        fake(self.place, "sereno", SERENO)
        (self.place / "llama.py").write_text(LLAMA)

    def command(self, models, *arguments):
        return (COMPARE, "--build", self.place, "--out", self.out, "--llama", f"{sys.executable} {self.place}/llama.py",
                "--models", ",".join(f"{self.place}/{m}.gguf" for m in models), "--batches", "1,8", *arguments)

    def compare(self, models, *arguments, code=0):
        """(result of the program, its table, its JSON); None for what was not written."""
        result = self.execute(*self.command(models, *arguments), code=code)
        files = sorted(self.out.iterdir()) if self.out.exists() else []
        if not files:
            return result, None, None
        self.assertEqual([f.suffix for f in files], [".json", ".txt"])
        text = files[1].read_text()
        self.assertEqual(result.out, text)
        for place in (str(self.place), str(ROOT), str(support.Places.scratch)):
            self.assertNotIn(place, text + files[0].read_text())
        return result, text, self.document(files[0].read_text())

    def log(self):
        return (self.place / "log").read_text().splitlines()

    def test_turns(self):
        self.compare(["good"], "--rounds", 2, "--threads", "1,2")
        wanted = []
        for threads in (1, 2):
            wanted += ["about"]
            for _ in range(2):
                wanted += [f"sereno begins, threads {threads}", "sereno ends", *requests_of_a_round([1, 8])]
        self.assertEqual(self.log(), wanted)

    def test_results(self):
        _, text, document = self.compare(["good"], "--rounds", 2, "--threads", 1)
        cell, = document["cells"]
        self.assertEqual((cell["model"], cell["threads"], cell["error"]), ("good.gguf", 1, None))
        self.assertEqual(cell["rounds"][1]["sereno_ms"], {r: [5.0] * 5 for r in ("pass 1", "pass 8", "prefill 512")})
        self.assertEqual(cell["rounds"][1]["llama_ms"]["pass 8"], [32.0] * 5)
        rows = {row.pop("request"): row for row in cell["rows"]}
        self.assertEqual(list(rows), ["pass 1", "pass 8", "prefill 512"])
        # sereno takes 3 ms in the first round and 5 ms in the second.
        self.assertEqual(rows["pass 8"], {
            "sereno_ms": 4, "llama_ms": 32, "llama_over_sereno": 8, "llama_over_sereno_min": 6.4,
            "llama_over_sereno_max": 32 / 3, "sereno_over_one": 1, "llama_over_one": 8, "share_of_limit": 0.515})
        self.assertIsNone(rows["prefill 512"]["llama_over_one"])
        self.assertRegex(text, r"(?m)^good\.gguf +- +1 +pass 8 +4\.00 +32\.00 +8\.00 \(6\.40-10\.67\) +1\.00 +8\.00 +0\.5")
        self.assertRegex(text, r"(?m)^good\.gguf +- +1 +prefill 512 +4\.00 +2048\.00 .* - +- +-$")
        for words in ("sereno 9.9", "--sched normal", "7.7, commit abc", "AVX9", "Rounds: 2, of 5 samples",
                      "Neither is pinned"):
            self.assertIn(words, text)
        for key in ("cpu", "cores", "caches", "memory", "kernel", "governor", "load_average_before"):
            self.assertTrue(document["machine"][key], key)

    def test_batches_without_one(self):
        _, text, _ = self.compare(["good"], "--rounds", 1, "--threads", 1, "--batches", 8)
        self.assertRegex(text, r"pass 8 .* - +- +0\.5")

    def test_crash_keeps_the_rest(self):
        result, text, document = self.compare(["llama-crashes", "good"], "--rounds", 3, "--threads", 1, code=1)
        crashed, good = document["cells"]
        self.assertEqual((len(crashed["rounds"]), len(good["rounds"]), good["error"]), (1, 3, None))
        self.assertEqual(len(crashed["rows"]), 3)
        for where in (result.err, text, crashed["error"]):
            self.assertIn("llama.cpp ends with -6: an illegal instruction", where)
        self.assertIn("FAILED after 1 of 3 rounds", text)

    def test_answers_that_are_none(self):
        words = {"llama-garbage": "an object of JSON: 'hello'", "llama-list": "an object of JSON",
                 "llama-infinite": "than milliseconds", "llama-text": "than milliseconds",
                 "llama-no-start": "ends with 1: a long story; no such model",
                 "sereno-garbage": "an object of JSON: 'half a {'",
                 "sereno-short": "leaves out pass 8", "sereno-negative": "than milliseconds",
                 "sereno-other": "another JSON than expected",
                 "sereno-fails": "ends with 1: a hint; sereno bench: the model ~/m"}
        for model, word in words.items():
            with self.subTest(model):
                result, text, _ = self.compare([model], "--rounds", 1, "--threads", 1, code=1)
                self.assertIn(("sereno" if model.startswith("sereno") else "llama.cpp") + " ", result.err)
                self.assertIn(word, result.err)
                self.assertIn("nothing was written", result.err)
                self.assertNotIn("Traceback", result.err)
                self.assertIsNone(text)

    def test_programs_that_are_missing(self):
        result = self.execute(*self.command(["good"]), "--llama", self.place / "nobody", "--threads", 1, code=1)
        self.assertIn("llama.cpp cannot be run", result.err)
        (self.place / "sereno").unlink()
        self.assertIn("sereno cannot be run", self.compare(["good"], code=1)[0].err)
        self.assertFalse(self.out.exists())

    def test_interrupts(self):
        """Children are ended, nothing is left."""
        for model in ("llama-hangs", "sereno-hangs"):
            with self.subTest(model):
                fifo = self.place / "hanging"
                os.mkfifo(fifo)
                running = Running([str(a) for a in self.command(["good", model], "--rounds", 1, "--threads", 1)])
                self.addCleanup(running.close)
                child = int(fifo.read_text())
                fifo.unlink()
                self.assertIn("stopped; nothing was written", self.finish_after_interrupt(running, within_s=20).err)
                self.assertRaises(ProcessLookupError, os.kill, child, 0)
                self.assertFalse(self.out.exists())

    def test_results_that_cannot_be_written(self):
        """They are still printed."""
        self.out.write_text("a file")
        result = self.execute(*self.command(["good"]), "--threads", 1, "--rounds", 1, code=1)
        self.assertIn("results cannot be written", result.err)
        self.assertIn("pass 8", result.out)

    def test_misuse(self):
        for arguments in (("--rounds", 0), ("--threads", "0"), ("--batches", "1,x"), ("--batches", ""), ("--what",)):
            self.assertIn("usage", self.compare(["good"], *arguments, code=2)[0].err)

    def test_random_models_are_made_once(self):
        cache = self.folder()
        fake(self.place, "make-random-model", f'echo "make $*" >> "{self.place}/log"; echo model > "$3"')
        for _ in range(2):
            self.execute(*self.command([]), "--models", "135m-q4_0", "--threads", 1, "--rounds", 1,
                         env=support.clean_environment(XDG_CACHE_HOME=cache))
        model, = (cache / "sereno" / "models").iterdir()
        self.assertEqual((model.name, model.read_text()), ("random-135m-q4_0.gguf", "model\n"))
        self.assertEqual([line.split()[:3] for line in self.log() if "make" in line], [["make", "135m", "q4_0"]])
        fake(self.place, "make-random-model", "echo half > \"$3\"; echo 'no such shape' >&2; exit 2")
        result = self.execute(*self.command([]), "--models", "2b-q4_0", "--threads", 1, code=1,
                              env=support.clean_environment(XDG_CACHE_HOME=cache))
        self.assertIn("make-random-model ends with 2: no such shape", result.err)
        self.assertEqual(list(model.parent.iterdir()), [model])


class CompareDecode(Case):
    def setUp(self):
        self.place, self.out, self.cache = self.folder(), self.folder() / "results", self.folder()
        fake(self.place, "sereno", SERENO_DECODE)
        (self.place / "llama.py").write_text(LLAMA_DECODE_FAKE)

    def compare(self, *arguments, behaviour="", code=0):
        return self.execute(COMPARE_DECODE, "--build", self.place, "--llama",
                            f"{sys.executable} {self.place}/llama.py", "--model", self.place / "small.gguf",
                            "--modes", "plain,draft:n=4", "--prompts", "chat-1,code-1", "-n", 32, "--others", 1,
                            *arguments, code=code,
                            env=support.clean_environment(XDG_CACHE_HOME=self.cache, FAKE=behaviour))

    def log(self):
        return (self.place / "log").read_text().splitlines()

    def test_turns(self):
        for _ in range(2):
            self.compare("--repeats", 2)
        log = self.log()
        self.assertEqual(log[:2], ["convert f16", "convert q4_0"])
        wanted = ["llama plain 1 8", "llama draft:n=4 1 8"]  # not counted
        for seed in (1, 2):
            for prompt in ("chat-1", "code-1"):
                wanted += [f"sereno {prompt} {seed}", f"llama plain {seed} 32", f"llama draft:n=4 {seed} 32"]
        self.assertEqual(log[2:], wanted * 2)

    def test_results(self):
        text = self.compare("--repeats", 1, "--out", self.out).out
        document, written = sorted(self.out.iterdir())
        self.assertEqual(written.read_text(), text)
        for place in (str(self.place), str(ROOT), str(support.Places.scratch)):
            self.assertNotIn(place, text + document.read_text())
        document = self.document(document.read_text())
        best, plain, hardest = document["ratios"]
        self.assertEqual((best["llama"], hardest["llama"]), ("draft:n=4", "best of each"))
        for ratio, value in ((best, 3.2), (plain, 2), (hardest, 3.2)):
            for key in ("point", "lo", "hi"):
                self.assertAlmostEqual(ratio["all"][key], value)
        self.assertEqual((best["all"]["n"], best["kinds"]["chat"]["n"]), (2, 1))
        self.assertRegex(text, r"(?m)^sereno +plain +2\.00 +200\.0 +200\.0 +200\.0$")
        self.assertRegex(text, r"(?m)^best: spec:draft=self:int4 / draft:n=4: 3\.20 \[3\.20, 3\.20\] over 2 prompts")

    def test_nothing_is_written_unasked(self):
        self.assertIn("sereno over llama.cpp", self.compare("--quick").out)
        self.assertFalse(self.out.exists())

    def test_failures(self):
        for behaviour, words in (("other-tokens", "tokenize chat-1 differently"), ("other-chat", "has 3 tokens, 2 are"),
                                 ("llama-odd", "than tokens per second")):
            with self.subTest(behaviour):
                result = self.compare(behaviour=behaviour, code=1)
                self.assertIn(words, result.err)
                self.assertNotIn("Traceback", result.err)
        result = self.compare("--repeats", 2, behaviour="sereno-fails", code=1)
        self.assertIn("FAILED after 2 turns: sereno ends with 1: texts differ", result.out)

    def test_misuse(self):
        for arguments in (("--repeats", 0), ("-n", 1), ("--prompts", "nobody")):
            self.assertIn("usage", self.compare(*arguments, code=2).err)


class CompareCorun(Case):
    def setUp(self):
        self.place, self.out, self.home = self.folder(), self.folder() / "results", self.folder()
        fake(self.place, "sereno", SERENO_CORUN)
        fake(self.place, "llama-server", LLAMA_SERVER)
        fake(self.place, "make-random-model", 'echo model > "$3"')
        self.cores = sorted(os.sched_getaffinity(0))
        self.tuning = f"tune social-1 --cpu {self.cores[-1]} --seconds 8 --tune native-jank=4"

    def how(self, what, *more, behaviour=""):
        """Its command and its environment."""
        command = (COMPARE_CORUN, what, "--build", self.place, "--results", self.out, "--model",
                   self.place / "small.gguf", "--llama", self.place / "llama-server", *more)
        return command, support.clean_environment(XDG_CACHE_HOME=self.home, XDG_CONFIG_HOME=self.home, FAKE=behaviour)

    def corun(self, what, *more, code=0, **how):
        command, env = self.how(what, *more, **how)
        result = self.execute(*command, code=code, env=env)
        self.assertNotIn("Traceback", result.err)
        return result

    def log(self):
        return (self.place / "log").read_text().splitlines()

    def peer(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return "--peer", "--peer-port", s.getsockname()[1]

    def test_results(self):
        strategies = "native,native-again,spin,plain,spec:batch=8"
        self.assertIn("a table", self.corun("quick").out)
        self.assertEqual(self.log(), [self.tuning] * 2 + [f"corun split {strategies}", f"report split {strategies}"])
        document, text = sorted(self.out.iterdir())
        self.assertIn("a table", text.read_text())
        cell, = self.document(document.read_text())["cells"]
        self.assertEqual(cell["arguments"][-2:], ["--json", "--report"])
        self.corun("quick")
        self.assertEqual([line.split()[0] for line in self.log()[4:]], ["corun", "report"], "tuned once more")

    def test_nothing_is_measured_untuned(self):
        result = self.corun("quick", behaviour="untunable", code=1)
        self.assertEqual(self.log(), [self.tuning] * 3)
        self.assertIn("social-1 could not be tuned to this machine in 3 attempts", result.err)
        self.assertFalse(self.out.exists())

    def test_signals(self):
        """To this program alone: sereno is told once, and waited for."""
        for behaviour in ("hangs", "tuning-hangs"):
            for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
                with self.subTest(behaviour, number=number):
                    self.setUp()
                    os.mkfifo(self.place / "hanging")
                    command, env = self.how("quick", behaviour=behaviour)
                    running = Running([str(a) for a in command], env=env)
                    self.addCleanup(running.close)
                    child = int((self.place / "hanging").read_text())
                    running.process.send_signal(number)
                    self.assertEqual(running.finish().code, code)
                    self.assertEqual(self.log()[-2:], ["stopping", "stopped"])
                    self.assertRaises(ProcessLookupError, os.kill, child, 0)
                    self.assertFalse(self.out.exists())

    def test_failures_of_sereno(self):
        self.assertIn("ends with 2; if its log was made with other settings, --fresh", self.corun(
            "quick", behaviour="exit2", code=1).err)
        self.assertNotIn("--fresh", self.corun("quick", behaviour="exit1", code=1).err)

    def test_how_the_peer_was_built(self):
        for built in (None, "llama.cpp, A Processor without its AMX\ncc 7\n"):
            self.setUp()
            if built:
                (self.place / "built-server").write_text(built)
            self.corun("shared", *self.peer())
            document, text = sorted(self.out.iterdir())
            wanted = "llama.cpp, A Processor without its AMX, cc 7" if built else "not by setup-llama"
            self.assertEqual(self.document(document.read_text())["llama"], {"built": wanted})
            self.assertIn(f"\nllama.cpp  {wanted}\n", text.read_text())
        self.setUp()
        self.corun("quick", *self.peer())
        document, text = sorted(self.out.iterdir())
        self.assertNotIn("llama", self.document(document.read_text()))
        self.assertNotIn("llama.cpp", text.read_text())

    def test_the_peer_has_the_cores_of_the_llm(self):
        for what, wanted in (("frontier", f"llama 1 [{self.cores[0]}]"),
                             ("shared", f"llama {len(self.cores)} {self.cores}")):
            with self.subTest(what):
                self.setUp()
                self.corun(what, *self.peer())
                log = self.log()
                self.assertEqual([line for line in log if line.startswith("llama")], [wanted])
                self.assertEqual(["peer:http://127.0.0.1:" in line for line in log if line.startswith("corun")],
                                 [True, False][:1 if what == "shared" else 2])

    def test_a_server_that_ends_is_a_failure(self):
        result = self.corun("shared", *self.peer(), behaviour="server-dies", code=1)
        self.assertIn("llama-server ends with 3: out of memory", result.err)
        self.assertIn("llama.cpp's server ended while it was needed", result.err)
        self.assertFalse(self.out.exists())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            result = self.corun("shared", "--peer", "--peer-port", taken.getsockname()[1], code=1)
        self.assertIn("cannot be had: Address already in use", result.err)
        self.assertIn("did not start", result.err)


class RealLlamaDecode(Case):
    """With the llama.cpp of setup-llama, where it has been built."""

    def setUp(self):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        notes = sorted((cache / "sereno/peers").glob("llama-cpp-python-*/built"))
        if not notes:
            self.skipTest("needs llama.cpp (tools/peers/setup-llama)")
        model = self.real_model()
        self.worker = [notes[-1].parent / "venv/bin/python", LLAMA_DECODE, model, "--draft", model, "--threads", 1, "--context", 256, "--top-k",
                       40, "--top-p", 0.95, "--min-p", 0.05]

    def generate(self, temperature, modes):
        prompt = [28120, 28, 905, 28, 28120, 28, 905, 28]
        requests = [json.dumps({"prompt": prompt, "seed": 1, "predict": 12, "mode": mode}) for mode in modes]
        result = self.execute(*self.worker, "--temp", temperature,
                              stdin="".join(f"generate {r}\n" for r in requests).encode())
        return [json.loads(line) for line in result.out.splitlines()]

    def test_speculation_keeps_the_text(self):
        modes = ("plain", "draft:n=4", "draft:n=4:p-min=0.9", "lookup:n=2", "ngram:n=4:order=2")
        for temperature in (0, 0.7):
            plain, *others = self.generate(temperature, modes)
            self.assertEqual((plain["drafted"], plain["passes"]), (0, plain["tokens"] - 1))
            for mode, answer in zip(modes[1:], others):
                with self.subTest(mode, temperature=temperature):
                    self.assertGreater(answer["tok_s"], 0)
                    self.assertLessEqual(answer["accepted"], answer["drafted"])
                    self.assertEqual(answer["passes"] + answer["accepted"], answer["tokens"] - 1)
                    # Another batch rounds otherwise; the first tokens here are not close calls.
                    self.assertEqual(answer["ids"][:4], plain["ids"][:4])
            self.assertGreater(others[0]["accepted"], 0)


class SetupLlama(Case):
    """With a fake python3, whose environments have a fake python that can be told to fail."""

    def setUp(self):
        self.cache, self.fakes = self.folder(), self.folder()
        fake(self.fakes, "python3", f"""
case "$*" in
"-m venv --clear "*)
    mkdir -p "$4/bin"
    cp "{self.fakes}/logging-python" "$4/bin/python"
    ;;
esac""")
        fake(self.fakes, "logging-python",
             f'echo "$*, $CMAKE_ARGS" >> "{self.fakes}/log"; exec "{self.fakes}/venv-python" "$@"')
        self.venv_python("exit 0")

    def venv_python(self, script):
        fake(self.fakes, "venv-python", script)

    def setup_llama(self, *what, code=0, **env):
        return self.execute(SETUP_LLAMA, *what, code=code, env=support.clean_environment(
            XDG_CACHE_HOME=self.cache, PATH=path_with(self.fakes), **env))

    def log(self):
        return (self.fakes / "log").read_text()

    def test_builds_once(self):
        first = self.setup_llama()
        python = Path(first.out.strip())
        self.assertTrue(os.access(python, os.X_OK))
        self.assertTrue(python.is_relative_to(self.cache / "sereno" / "peers"))
        self.assertIn("building llama.cpp", first.err)
        for words in ("--no-binary llama-cpp-python", "-DGGML_NATIVE=ON", "-DGGML_CPU_REPACK=ON", "import llama_cpp"):
            self.assertIn(words, self.log())
        log = self.log()
        self.assertEqual(self.setup_llama(), (0, first.out, ""))
        self.assertEqual(self.log(), log)

    def test_failures_are_tried_again(self):
        for step in ("--no-binary", "import"):
            self.venv_python(f'case "$*" in *{step}*) echo "no {step} today"; exit 1 ;; esac')
            result = self.setup_llama(code=1)
            self.assertEqual(result.out, "")
            self.assertIn(f"no {step} today", result.err)
            self.assertIn("could not be built", result.err)
        self.venv_python("exit 0")
        python = Path(self.setup_llama().out.strip())
        python.unlink()
        self.venv_python("exit 1")
        for _ in range(2):
            self.setup_llama(code=1)

    def fake_sources_and_cmake(self, program="exit 0"):
        """What pip downloads, and a cmake whose program does what its only source says."""
        version, = re.findall(r"(?m)^version=(.*)", SETUP_LLAMA.read_text())
        self.venv_python(f"""
echo "$*" | grep -q download || exit 1
for folder; do :; done
cd "$folder"
mkdir -p llama_cpp_python-{version}/vendor/llama.cpp
echo '{program}' > llama_cpp_python-{version}/vendor/llama.cpp/main
tar -czf llama_cpp_python-{version}.tar.gz llama_cpp_python-{version}
rm -r llama_cpp_python-{version}""")
        fake(self.fakes, "cmake", f"""
echo "cmake $*" >> "{self.fakes}/log"
case $1 in
-S) mkdir -p "$4/bin"; (echo '#!/bin/sh'; cat "$2/main") > "$4/bin/llama-server" ;;
--build) chmod +x "$2/bin/llama-server" ;;
esac""")

    def test_builds_the_server_once(self):
        self.fake_sources_and_cmake()
        first = self.setup_llama("server")
        server = Path(first.out.strip())
        self.assertTrue(os.access(server, os.X_OK))
        self.assertTrue(server.is_relative_to(self.cache / "sereno" / "peers"))
        for words in ("download", "--no-binary llama-cpp-python", "-DGGML_NATIVE=ON", "-DLLAMA_USE_PREBUILT_UI=OFF",
                      "--target llama-server"):
            self.assertIn(words, self.log())
        self.assertFalse((server.parent / "server").exists(), "what it was built from is left")
        log = self.log()
        self.assertEqual(self.setup_llama("server"), (0, first.out, ""))
        self.assertEqual(self.log(), log)
        self.venv_python("exit 0")
        self.assertIn("building llama.cpp's library", self.setup_llama().err)
        self.assertEqual(self.setup_llama("server"), (0, first.out, ""))

    def test_a_server_that_does_not_run_is_a_failure(self):
        self.fake_sources_and_cmake("echo an illegal instruction; exit 132")
        for _ in range(2):
            result = self.setup_llama("server", code=1)
            self.assertEqual(result.out, "")
            self.assertIn("an illegal instruction", result.err)

    def processor(self, *flags):
        """A description of it, of two cores."""
        path = self.folder() / "cpuinfo"
        path.write_text(2 * f"model name\t: A Processor\nflags\t\t: fpu {' '.join(flags)} vnni\n\n")
        return path

    def test_amx_is_left_out_where_there_is_some(self):
        self.fake_sources_and_cmake()
        self.setup_llama("server", CPUINFO=self.processor())
        self.venv_python("exit 0")
        self.setup_llama(CPUINFO=self.processor("amx_bf16", "amx_int8x"))
        self.assertNotIn("-mno-", self.log())
        notes = sorted(self.cache.rglob("built*"))
        for note in notes:
            self.assertTrue(note.read_text().splitlines()[0].endswith(" A Processor"), "once, though there are two cores")
        amx = self.processor("amx_bf16", "amx_tile", "amx_int8")
        for what in ("library", "server"):
            if what == "server":
                self.fake_sources_and_cmake()
            self.assertIn("building llama.cpp", self.setup_llama(what, CPUINFO=amx).err)
            self.assertEqual(self.setup_llama(what, CPUINFO=amx).err, "")
        words = "-DCMAKE_C_FLAGS=-mno-amx-int8 -DCMAKE_CXX_FLAGS=-mno-amx-int8"
        self.assertRegex(self.log(), rf"--no-binary llama-cpp-python .*, .*{words}")
        self.assertRegex(self.log(), rf"cmake -S .*{words}")
        for note in notes:
            self.assertIn("A Processor without its AMX", note.read_text().splitlines()[0])

    def test_misuse(self):
        self.assertIn("usage", self.setup_llama("client", code=2).err)

    def test_other_processors_have_it_built_again(self):
        self.setup_llama()
        built, = self.cache.rglob("built")
        self.assertIn("DGGML_NATIVE=ON", built.read_text().splitlines()[0])
        built.write_text("for another machine\n")
        self.assertIn("building llama.cpp", self.setup_llama().err)


if __name__ == "__main__":
    support.main(sys.argv)
