"""tools/peers/serve-llama with a fake server and the real one: python3 tests/e2e/test_serve_llama.py BUILD_DIR."""
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True

import support
from support import ROOT, Case, Running, fake

SERVE_LLAMA = ROOT / "tools" / "peers" / "serve-llama"

# Its model's name says how it behaves. While it lives it holds a pipe open, so that its end can be waited for.
SERVER = "#!" + sys.executable + """
import json, os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
folder = Path(sys.argv[0]).parent
behaviour = Path(sys.argv[sys.argv.index("--model") + 1]).stem
alive = open(folder / "alive", "w")
(folder / "about").write_text(json.dumps({
    "arguments": sys.argv[1:], "cores": sorted(os.sched_getaffinity(0)), "leads": os.getsid(0) == os.getpid(),
    "environment": [k for k in os.environ if k.startswith("LLAMA_")], "pid": os.getpid()}))
if behaviour == "broken":
    sys.exit("a long story\\n\\n" + os.environ["HOME"] + "/broken.gguf is no model")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "replaced" and os.fork():
    signal.pause()
asked = 0

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        global asked
        asked += 1
        if self.path == "/die":
            print("out of memory", file=sys.stderr, flush=True)
            os.abort()
        if behaviour == "replaced":  # the one that was started has ended before another answers
            started = os.getppid()
            os.kill(started, signal.SIGKILL)
            while os.getppid() == started:
                os.sched_yield()
            self.send_response(200)
            self.end_headers()
            os._exit(0)
        self.send_response(200 if asked > 2 and behaviour != "loading" else 503)
        self.end_headers()
        alive.write("asked\\n")
        alive.flush()

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
URL = rb"http://127\.0\.0\.1:\d+\n"


class ServeLlama(Case):
    def setUp(self):
        self.place = self.folder()
        self.server = fake(self.place, "llama-server", SERVER)
        os.mkfifo(self.place / "alive")
        # Opened without waiting for the server; what it writes waits here.
        self.alive = os.fdopen(os.open(self.place / "alive", os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        self.addCleanup(self.alive.close)

    def start(self, model, *arguments, **env):
        running = Running([str(a) for a in (SERVE_LLAMA, self.place / f"{model}.gguf", "--llama", self.server,
                                            *arguments)],
                          stdin=subprocess.PIPE, env=support.clean_environment(**env))
        self.addCleanup(running.close)
        return running

    def start_and_wait(self, *arguments, **env):
        running = self.start(*arguments, **env)
        running.wait_for("out", URL)
        return running

    def wait_for_the_servers_end(self):
        os.set_blocking(self.alive.fileno(), True)
        while self.alive.read(4096):
            pass

    def about(self):
        return json.loads((self.place / "about").read_text())

    def assert_ended(self, running, code=0):
        result = running.finish()
        self.assertEqual(result.code, code, result)
        self.assertRaises(ProcessLookupError, os.kill, self.about()["pid"], 0)
        return result

    def test_serves_until_its_input_ends(self):
        running = self.start_and_wait("good")
        url = running.buffers["out"].decode().strip()
        self.assertEqual(urllib.request.urlopen(f"{url}/health", timeout=support.TIMEOUT_S).status, 200)
        running.write(b"whatever\n")
        result = self.assert_ended(running)
        self.assertEqual((result.out, result.err), (url + "\n", ""))

    def test_settings(self):
        core = sorted(os.sched_getaffinity(0))[-1]
        running = self.start_and_wait("good", "--threads", 3, "--cores", core, "--context", 512, "--", "--poll", 0,
                                      LLAMA_ARG_THREADS=7)
        about = self.about()
        self.assertEqual((about["cores"], about["leads"], about["environment"]), ([core], True, []))
        arguments = about["arguments"]
        for name, value in (("--threads", "3"), ("--ctx-size", "512"), ("--parallel", "1"), ("--cache-ram", "0"),
                            ("--load-mode", "none")):
            self.assertEqual(arguments[arguments.index(name) + 1], value)
        self.assertEqual(arguments[-2:], ["--poll", "0"])
        port = arguments[arguments.index("--port") + 1]
        self.assert_ended(running)
        running = self.start_and_wait("good", "--port", port)
        self.assertIn(f":{port}\n".encode(), running.buffers["out"])
        self.assert_ended(running)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            running = self.start_and_wait("good")
            running.process.send_signal(number)
            self.assertEqual(running.process.wait(support.TIMEOUT_S), 0)
            self.assert_ended(running)

    def test_killed(self):
        running = self.start_and_wait("good")
        running.process.kill()
        self.wait_for_the_servers_end()

    def test_ended_while_it_loads(self):
        running = self.start("loading")
        os.set_blocking(self.alive.fileno(), True)
        while not (self.place / "about").exists():
            os.sched_yield()
        self.assertEqual(self.alive.read(6), b"asked\n")
        self.assertEqual(self.assert_ended(running).out, "")

    def test_a_stubborn_server_is_killed(self):
        self.assert_ended(self.start_and_wait("stubborn"))

    def test_the_server_ends_by_itself(self):
        running = self.start("broken")
        self.assertEqual(running.process.wait(support.TIMEOUT_S), 1)
        result = self.assert_ended(running, code=1)
        self.assertEqual(result.out, "")
        self.assertIn("llama-server ends with 1: a long story; ~/broken.gguf is no model", result.err)
        running = self.start_and_wait("good")
        url = running.buffers["out"].decode().strip()
        self.assertRaises(OSError, urllib.request.urlopen, f"{url}/die", timeout=support.TIMEOUT_S)
        self.assertEqual(running.process.wait(support.TIMEOUT_S), 1)
        self.assertIn("llama-server ends with -6: out of memory", self.assert_ended(running, code=1).err)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            running = self.start("good", "--port", taken.getsockname()[1])
            self.assertEqual(running.process.wait(support.TIMEOUT_S), 1)
        result = running.finish()
        self.assertEqual(result.out, "")
        self.assertRegex(result.err, r"^serve-llama: port \d+ cannot be had: Address already in use\n$")
        self.assertFalse((self.place / "about").exists(), "the server was started")

    def test_another_answers_in_its_place(self):
        running = self.start("replaced")
        self.assertEqual(running.process.wait(support.TIMEOUT_S), 1)
        result = self.assert_ended(running, code=1)
        self.assertEqual(result.out, "")
        self.assertIn("llama-server ends with -9", result.err)

    def test_misuse(self):
        for wrong in (("--threads", 0), ("--port", 0), ("--port", 65536)):
            self.assertIn("usage", self.execute(SERVE_LLAMA, "m.gguf", *wrong, code=2).err)
        running = self.start("good", "--llama", self.place / "nowhere")
        self.assertEqual(running.process.wait(support.TIMEOUT_S), 1)
        self.assertIn("nowhere", running.finish().err)


class RealLlamaServer(Case):
    """With the server of setup-llama, where it has been built."""

    def test_it_answers(self):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        servers = sorted((cache / "sereno/peers").glob("llama-cpp-python-*/llama-server"))
        if not servers:
            self.skipTest("needs llama.cpp's server (tools/peers/setup-llama server)")
        running = Running([str(a) for a in (SERVE_LLAMA, self.real_model(), "--context", 256, "--llama", servers[-1])],
                          stdin=subprocess.PIPE)
        self.addCleanup(running.close)
        running.wait_for("out", URL)
        body = {"messages": [{"role": "user", "content": "Count to three."}], "max_tokens": 8, "temperature": 0,
                "stream": True, "stream_options": {"include_usage": True}}
        request = urllib.request.Request(f"{running.buffers['out'].decode().strip()}/v1/chat/completions",
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=support.TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        self.assertEqual([line for line in lines if line][-1], "data: [DONE]")
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        pieces = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
        self.assertEqual(len([p for p in pieces if p]), chunks[-1]["usage"]["completion_tokens"])
        self.assertEqual(running.finish().code, 0)


if __name__ == "__main__":
    support.main(sys.argv)
