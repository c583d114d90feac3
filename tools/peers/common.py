"""What the comparisons with peers share: running programs, models in the cache, the machine, results."""
import argparse
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "tools/peers"
TIMEOUT_S = 600  # of one answer
SETTINGS = re.compile(r"(GGML|LLAMA|OMP|GOMP)_\w+|SERENO_ISA")  # environment variables that steer either


class Failure(Exception):
    """A sentence for the user; what was measured so far stays."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def without_places(text):
    """Results are shared: no folder of this machine in them."""
    return text.replace(str(ROOT), ".").replace(str(Path.home()), "~")


def last_words(text):
    """The last two lines: the error may be in either, a hint after it or a story before it."""
    return without_places("; ".join([line for line in text.splitlines() if line.strip()][-2:])) or "it says nothing"


def run(name, command):
    """Standard output of a program that has to succeed."""
    try:
        # In a session of its own: Ctrl-C reaches this program alone, which then ends it.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", start_new_session=True)
    except OSError as problem:
        raise Failure(f"{name} cannot be run: {without_places(str(problem))}") from problem
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as problem:
        raise Failure(f"{name} has not answered for {TIMEOUT_S} s") from problem
    finally:
        end(process)
    if process.returncode:
        raise Failure(f"{name} ends with {process.returncode}: {last_words(err)}")
    return out


def end(process):
    process.kill()
    process.wait()


def parse(name, text):
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Failure(f"{name} answers with something else than an object of JSON: {text.strip()[:60]!r}")
    return document


# ---- The two ----

class Sereno:
    """Its command `sereno bench WHAT`."""

    def __init__(self, path, what):
        self.path, self.what = path, what
        self.version = run("sereno", [path, "--version"]).strip()
        self.sched = ["--sched", "normal"] if "--sched" in run("sereno", [path, "bench", what, "--help"]) else []

    def bench(self, *arguments):
        """Its JSON."""
        return parse("sereno", run("sereno", [self.path, "bench", self.what, *map(str, arguments), "--json",
                                              *self.sched]))


class Llama:
    """A worker that answers each line on its standard input with one of JSON; computes only then."""

    def __init__(self, command):
        self.stderr = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.stderr, bufsize=0,
                                            start_new_session=True)
        except OSError as problem:
            raise Failure(f"llama.cpp cannot be run: {without_places(str(problem))}") from problem

    def ask(self, request):
        timer = threading.Timer(TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(request.encode() + b"\n")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line:
            code = self.process.wait()
            self.stderr.seek(0)
            raise Failure(f"llama.cpp ends with {code}: {last_words(self.stderr.read().decode(errors='replace'))}")
        return parse("llama.cpp", line.decode(errors="replace"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()
        self.stderr.close()


def set_up_llama(what):
    """Path of llama.cpp's library or server (see setup-llama), which is built first where it is missing."""
    # Not by run(): what it says while it builds is to be seen.
    done = subprocess.run([PEERS / "setup-llama", what], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        raise Failure(f"there is no {what} of llama.cpp to compare with")
    return done.stdout.strip()


def how_built(note):
    """What setup-llama wrote when it was done: version, flags, processor, what was left out of it, compiler."""
    return ", ".join(note.read_text().splitlines()) if note.exists() else "not by setup-llama"


def llama_command(script):
    """How to run a script of this folder with llama.cpp."""
    return [set_up_llama("library"), str(PEERS / script)]


# ---- Models ----

def default_model():
    return run("get-model", [ROOT / "tools/get-model", "smollm2-135m"]).strip()


def cached_model(name, maker, command):
    """Path of a model that `maker`, run as command(path), has made; once a user."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sereno/models"
    path = folder / f"{name}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            run(maker, command(temporary))
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
    return path


# ---- What it ran on ----

def read(path, otherwise="unknown"):
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return otherwise


def first_match(pattern, text):
    found = re.search(pattern, text, re.M)
    return found[1] if found else "unknown"


def describe_machine():
    cpu0 = Path("/sys/devices/system/cpu/cpu0")
    caches = [f"L{read(c / 'level')} {read(c / 'type').lower()} {read(c / 'size')}"
              for c in sorted(cpu0.glob("cache/index*"))]
    return {
        "cpu": first_match(r"^model name\s*: (.*)", read("/proc/cpuinfo")), "cores": os.cpu_count(),
        "caches": caches, "memory": first_match(r"^MemTotal: *(.*)", read("/proc/meminfo")),
        "kernel": first_match(r"([\d.]+)", platform.release()),
        "governor": read(cpu0 / "cpufreq/scaling_governor", "not readable"),
        "load_average_before": [round(x, 2) for x in os.getloadavg()],
        "environment": {k: v for k, v in sorted(os.environ.items()) if SETTINGS.fullmatch(k)},
    }


def git_commit():
    try:
        return run("git", ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"]).strip()
    except Failure:
        return "unknown"


def begin_results(sereno, now):
    """What all results begin with."""
    return {
        "schema_version": 2, "date": now.strftime("%Y-%m-%d %H:%M UTC"), "machine": describe_machine(),
        "sereno": {"version": sereno.version, "commit": git_commit(),
                   "scheduling": " ".join(sereno.sched) or "in its own scheduling class"},
    }


def lines_about_us(results):
    """Head of a table: date, machine and this program."""
    machine, sereno = results["machine"], results["sereno"]
    return [
        f"date       {results['date']}",
        f"machine    {machine['cpu']}, {machine['cores']} cores; {', '.join(machine['caches'])}; {machine['memory']}",
        f"           Linux {machine['kernel']}, governor {machine['governor']}, load average before "
        f"{machine['load_average_before']}, environment {machine['environment'] or 'as usual'}",
        f"sereno     {sereno['version']}, commit {sereno['commit']}, {sereno['scheduling']}",
    ]


def lines_about(results, llama):
    """The same, and the peer."""
    return [
        *lines_about_us(results),
        f"llama.cpp  {llama.get('llama_cpp')}, commit {llama.get('commit')}, default scheduling and settings",
        f"           {llama.get('built')}",
        f"           {llama.get('system_info')}",
    ]


# ---- Results ----

def number(value, form):
    return "-" if value is None else format(value, form)


def write_all(files):
    """Files of {path: text}; none is ever half-written."""
    parts = {path: path.with_name(f".{path.name}.part") for path in files}
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            parts[path].write_text(text)
        for path, part in parts.items():
            part.rename(path)
    except OSError as problem:
        raise Failure(f"results cannot be written: {problem}") from problem
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


# ---- The program ----

def positive_numbers(text):
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError
    return numbers


def option_parser(description):
    """With the options that all comparisons have."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="FOLDER",
                        help="where sereno is (default: build)")
    parser.add_argument("--llama", type=shlex.split, metavar="COMMAND", help="another worker than this folder's")
    return parser


def finish(name, compare, options):
    """Exit code of the program."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda n, _: sys.exit(128 + n))  # as an exception, so that children are ended
    try:
        return compare(options)
    except Failure as problem:
        say(f"{name}: {problem}")
        return 1
    except KeyboardInterrupt:
        say(f"{name}: stopped; nothing was written")
        return 130
