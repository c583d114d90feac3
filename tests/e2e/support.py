"""What the end-to-end tests share: running programs, models to run them with, fakes in PATH, terminals."""
import contextlib
import ctypes
import errno
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import NamedTuple

from gguf_edit import Gguf

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120  # of anything that should end by itself; generous because sanitizers and busy machines are slow
SANITIZER_WORDS = ("ERROR: AddressSanitizer", "runtime error", "LeakSanitizer")


class Places:
    """Set by the main program."""

    build: Path
    scratch: Path  # a directory that goes away at the end


def sereno_path():
    return Places.build / "sereno"


def real_model_path():
    if os.environ.get("SERENO_MODEL"):
        return Path(os.environ["SERENO_MODEL"])
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data) / "sereno/models/SmolLM2-135M-Instruct.Q4_1.gguf"


def clean_environment(**changes):
    """The caller's environment without what steers sereno; no default model is found in it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SERENO_", "XDG_"))}
    env.update(XDG_DATA_HOME=str(Places.scratch / "no-data"), HOME=str(Places.scratch / "no-home"))
    env.update({k: str(v) for k, v in changes.items()})
    return env


# ---- Models ----

def make_random_model(*arguments):
    subprocess.run([Places.build / "make-random-model", *map(str, arguments)], check=True, timeout=TIMEOUT_S)


def tiny_model(kind="q4_0"):
    """The random model of shape tiny; made once a build."""
    path = Places.build / "models" / f"tiny-{kind}.gguf"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")  # tests may run side by side
        make_random_model("tiny", kind, temporary)
        temporary.rename(path)
    return path


def tiny():
    return Gguf(tiny_model())


def write_model(name, data):
    path = Places.scratch / name
    path.write_bytes(data)
    return path


ENDLESS_CONTEXT = 1 << 18


def endless_model():
    """The tiny model without end tokens and with a long context: it goes on until it is stopped."""
    path = Places.scratch / "endless.gguf"
    if not path.exists():
        g = tiny()
        g.without("tokenizer.ggml.eos_token_id")
        names = {b"<|endoftext|>": b"<|one|>", b"<|im_end|>": b"<|two|>"}
        g.set_strings("tokenizer.ggml.tokens", [names.get(t, t) for t in g.strings("tokenizer.ggml.tokens")])
        g.set_u32("llama.context_length", ENDLESS_CONTEXT)
        path.write_bytes(g.bytes())
    return path


def long_prompt(words):
    """A file with a prompt of about as many tokens as words."""
    path = Places.scratch / f"prompt-{words}.txt"
    path.write_text("ab " * words)
    return path


# ---- Running ----

class Result(NamedTuple):
    code: int
    out: str
    err: str


class Running:
    """A program on its way: events in its output can be waited for."""

    def __init__(self, arguments, terminal_stderr=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=None,
                 new_session=True, restore_signals=True):
        self.buffers = {"out": b"", "err": b""}
        slave = None
        if terminal_stderr:
            master, slave = pty.openpty()
        self.process = subprocess.Popen(arguments, stdin=stdin, stdout=stdout,
                                        stderr=slave if terminal_stderr else subprocess.PIPE,
                                        env=env or clean_environment(), start_new_session=new_session,
                                        restore_signals=restore_signals)
        if terminal_stderr:
            os.close(slave)
        self.fds = {master if terminal_stderr else self.process.stderr.fileno(): "err"}
        if self.process.stdout:
            self.fds[self.process.stdout.fileno()] = "out"
        self.master = master if terminal_stderr else None

    def _pump(self, deadline):
        """Reads what there is; waits for something until the deadline. False: both ends are closed."""
        if not self.fds:
            return False
        ready, _, _ = select.select(list(self.fds), [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came for too long; so far {self.buffers}")
        for fd in ready:
            try:
                data = os.read(fd, 65536)
            except OSError as error:  # a terminal whose other side is closed
                if error.errno != errno.EIO:
                    raise
                data = b""
            self.buffers[self.fds[fd]] += data
            if not data:
                del self.fds[fd]
        return True

    def wait_for(self, where, pattern, times=1, timeout=TIMEOUT_S):
        """Waits until the pattern occurs in "out" or "err"."""
        deadline = time.monotonic() + timeout
        while len(re.findall(pattern, self.buffers[where])) < times:
            if not self._pump(deadline):
                raise AssertionError(f"it ended before {pattern} came; output {self.buffers}")

    def wait_for_more(self, where):
        """Waits until something comes that was not there yet."""
        self.wait_for(where, b"(?s)" + b"." * (len(self.buffers[where]) + 1))

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def finish(self, timeout=TIMEOUT_S):
        """Waits for the end; what is still open of its input is closed."""
        deadline = time.monotonic() + timeout
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        while self._pump(deadline):
            pass
        code = self.process.wait(max(0.1, deadline - time.monotonic()))
        return Result(code, self.buffers["out"].decode(), self.buffers["err"].decode(errors="replace"))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        if self.master is not None:
            os.close(self.master)


class Case(unittest.TestCase):
    longMessage = True
    maxDiff = 2000

    def real_model(self):
        path = real_model_path()
        if not path.exists():
            if os.environ.get("CI") == "true":
                self.fail(f"this test needs the real model: {path} is missing")
            self.skipTest("needs the real model (tools/get-model smollm2-135m)")
        return path

    def folder(self):
        folder = tempfile.TemporaryDirectory(dir=Places.scratch)
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def assert_clean(self, stderr):
        """No sanitizer has reported anything."""
        for word in SANITIZER_WORDS:
            self.assertNotIn(word, stderr)

    def execute(self, *arguments, code=0, stdin=b"", env=None, timeout=TIMEOUT_S, before=None):
        """Runs a program to its end; `code` is the exit code wanted, or several; `before` is called in its process."""
        done = subprocess.run([str(a) if not isinstance(a, bytes) else a for a in arguments], input=stdin,
                              capture_output=True, env=env or clean_environment(), timeout=timeout, preexec_fn=before)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))
        self.assert_clean(result.err)
        self.assertIn(result.code, code if isinstance(code, tuple) else (code,), f"{arguments}: {result}")
        return result

    def sereno(self, *arguments, **how):
        return self.execute(sereno_path(), *arguments, **how)

    def run_tiny(self, *arguments, **how):
        return self.sereno("run", "-m", tiny_model(), *arguments, **how)

    def run_json(self, *arguments, model=None, **how):
        result = self.sereno("run", "-m", model or tiny_model(), "--json", *arguments, **how)
        return self.document(result.out)

    def keep_timing(self, cache, env):
        """Starts until a timing is kept in this cache: it is measured only while nothing else wants the cores."""
        for _ in range(100):
            self.run_json("-p", "hi", "-n", 1, env=env)
            if any(path.is_file() for path in cache.rglob("timing-*")):
                return
        self.fail("the machine is never quiet for long enough to measure a timing")

    def document(self, text):
        """One JSON document that begins with schema_version."""
        pairs = json.loads(text, object_pairs_hook=list)
        self.assertEqual(pairs[0], ("schema_version", 2))
        return json.loads(text)

    def start(self, *arguments, **how):
        running = Running([str(a) for a in (sereno_path(), *arguments)], **how)
        self.addCleanup(running.close)
        return running

    def finish_after_interrupt(self, running, within_s=2, code=130):
        """Presses Ctrl-C and expects the end in time."""
        start = time.monotonic()
        running.interrupt()
        result = running.finish()
        took = time.monotonic() - start
        self.assert_clean(result.err)
        self.assertEqual(result.code, code, result)
        self.assertLess(took, within_s)
        return result


# ---- Frame hints ----

FRAME_MEMORY = f"/dev/shm/sereno-frame-{os.geteuid()}"


def without_frame_memory(case):
    """As where nobody has given frame hints yet: what is there lies aside until the test ends. One that was killed in
    between has left it there."""
    if not os.path.isdir("/dev/shm"):
        case.skipTest("shared memory is elsewhere")
    aside = FRAME_MEMORY + "-aside"

    def restore():
        if os.path.exists(aside):
            os.replace(aside, FRAME_MEMORY)
        elif os.path.exists(FRAME_MEMORY):
            os.unlink(FRAME_MEMORY)

    if os.path.exists(aside):
        restore()
    if os.path.exists(FRAME_MEMORY):
        os.rename(FRAME_MEMORY, aside)
    case.addCleanup(restore)


# ---- A host's locale ----

def comma_environment(**changes):
    """A program with this environment asks for a locale whose numbers have a comma, as a host of the library may."""
    locales = Places.build / "locales"
    # Sanitizers want to be the first library; and the C library does not free what it keeps of LOCPATH.
    options = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0:detect_leaks=0")))
    return clean_environment(LD_PRELOAD=locales / "ask_for_locale.so", LOCPATH=locales, LC_ALL="de_DE.UTF-8",
                             ASAN_OPTIONS=options, **changes)


# ---- A system that refuses ----

# Numbers of system calls, which Python does not know.
CALLS = {"x86_64": {"setpriority": 141, "sched_setscheduler": 144, "sched_setaffinity": 203, "perf_event_open": 298,
                    "sched_setattr": 314, "memfd_create": 319},
         "aarch64": {"setpriority": 140, "sched_setscheduler": 119, "sched_setaffinity": 122, "perf_event_open": 241,
                     "sched_setattr": 274, "memfd_create": 279}}.get(os.uname().machine, {})
SCHEDULING = ("setpriority", "sched_setscheduler", "sched_setattr")


def refusing(*names, error=errno.EPERM):
    """For execute: the system answers these calls with an error, as sandboxes do (seccomp(2))."""
    if not CALLS:
        raise unittest.SkipTest("the numbers of system calls here are not known")
    load, equal, answer, allow, refuse = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000
    steps = [(load, 0, 0, 0)]
    steps += [(equal, len(names) - i, 0, CALLS[name]) for i, name in enumerate(names)]
    steps += [(answer, 0, 0, allow), (answer, 0, 0, refuse | error)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def enter():
        set_no_new_privs, set_seccomp, mode_filter = 38, 22, 2
        if (libc.prctl(set_no_new_privs, *map(ctypes.c_ulong, (1, 0, 0, 0))) or
                libc.prctl(set_seccomp, ctypes.c_ulong(mode_filter), program, ctypes.c_ulong(0), ctypes.c_ulong(0))):
            raise OSError(ctypes.get_errno(), "no filter of system calls")
    enter.program = program, code  # must stay where they are
    return enter


def closing(*fds):
    """For execute: the program begins without these descriptors."""
    def enter():
        for fd in fds:
            os.close(fd)
    return enter


# ---- Fakes ----

def fake(folder, name, script):
    """Puts an executable into the folder; a script without its own interpreter is one of sh."""
    path = Path(folder) / name
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def path_with(folder):
    return f"{folder}:{os.environ['PATH']}"


def main(argv):
    if len(argv) < 2 or not (Path(argv[1]) / "sereno").exists():
        sys.exit(f"usage: {argv[0]} BUILD_DIR [unittest arguments]; BUILD_DIR holds sereno and make-random-model")
    Places.build = Path(argv[1]).resolve()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else programs inherit that a job of a shell ignores it
    with tempfile.TemporaryDirectory(prefix="sereno-e2e-") as scratch:
        Places.scratch = Path(scratch)
        program = unittest.main("__main__", argv=[argv[0], *argv[2:]], exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
