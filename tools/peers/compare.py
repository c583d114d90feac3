#!/usr/bin/env python3
"""compare.py: the same passes of the same files by sereno and by llama.cpp, taking turns; prints a table of ratios.

For each model and number of threads, each round is one run of `sereno bench passes` and then as many passes of
llama_passes.py, which is started once and waits in between. Table and samples go to --out.
"""
import argparse
import datetime
import json
import math
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "tools/peers"
PREFILL, REPEATS = 512, 5  # tokens of a prompt, samples a round
TIMEOUT_S = 600  # of one answer
DEFAULT_MODELS = "smollm2-135m,1b-q4_0,135m-q4_0,135m-f16,135m-q8_0"
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


def check_ms(name, values):
    good = isinstance(values, list) and values and all(
        isinstance(v, (int, float)) and math.isfinite(v) and v > 0 for v in values)
    if not good:
        raise Failure(f"{name} answers with something else than milliseconds: {str(values)[:60]}")
    return [round(v, 4) for v in values]


# ---- The two. What is timed is a request: `pass 8` or `prefill 512`, as llama_passes.py takes them. ----

class Sereno:
    def __init__(self, path):
        self.path = path
        self.version = run("sereno", [path, "--version"]).strip()
        self.sched = ["--sched", "normal"] if "--sched" in run("sereno", [path, "bench", "passes", "--help"]) else []

    def round(self, model, threads, batches, context):
        """{request: samples}, {request: share of the machine's limit}, bits of activations, of one run."""
        answer = parse("sereno", run("sereno", [
            self.path, "bench", "passes", "-m", model, "-t", str(threads), "--context", str(context), "--json",
            "--batches", ",".join(map(str, batches)), "--repeats", str(REPEATS), "--prefill", str(PREFILL),
            *self.sched]))
        try:
            samples = {f"pass {p['batch']}": p["ms"] for p in answer["passes"]}
            shares = {f"pass {p['batch']}": p.get("share_of_limit") for p in answer["passes"]}
            samples[f"prefill {answer['prefill']['tokens']}"] = answer["prefill"]["ms"]
        except (KeyError, TypeError) as problem:
            raise Failure(f"sereno answers with another JSON than expected: {problem!r}") from problem
        missing = {*(f"pass {b}" for b in batches), f"prefill {PREFILL}"} - set(samples)
        if missing:
            raise Failure(f"sereno leaves out {', '.join(sorted(missing))}")
        bits = answer.get("environment", {}).get("activation_bits")
        return {request: check_ms("sereno", ms) for request, ms in samples.items()}, shares, bits


class Llama:
    """The worker for one model and number of threads."""

    def __init__(self, command, model, threads, batches, context):
        self.stderr = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                [*command, model, "--threads", str(threads), "--context", str(context), "--max-batch",
                 str(max(batches)), "--max-prefill", str(PREFILL)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, bufsize=0, start_new_session=True)
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

    def samples(self, request, count):
        self.ask(request)  # llama.cpp builds another graph for another batch
        return check_ms("llama.cpp", [self.ask(request).get("ms") for _ in range(count)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()
        self.stderr.close()


# ---- Cells: one model with one number of threads ----

def model_file(name, build):
    if name.endswith(".gguf"):
        return name
    if name == "smollm2-135m":
        return run("get-model", [ROOT / "tools/get-model", name]).strip()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sereno/models"
    path = folder / f"random-{name}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            run("make-random-model", [build / "make-random-model", *name.split("-"), temporary])
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
    return str(path)


def measure(cell, sereno, options):
    """Fills the cell's rounds; raises Failure when it cannot go on."""
    name, threads, batches = cell["model"], cell["threads"], options.batches
    model = model_file(name, options.build)
    with Llama(options.llama, model, threads, batches, options.context) as llama:
        cell["llama"] = llama.ask("about")
        for number in range(1, options.rounds + 1):
            where = f"{Path(name).name}, threads {threads}, round {number} of {options.rounds}"
            say(f"{where}: sereno")
            ours, shares, cell["activation_bits"] = sereno.round(model, threads, batches, options.context)
            say(f"{where}: llama.cpp")
            theirs = {request: llama.samples(request, len(ms)) for request, ms in ours.items()}
            cell["rounds"].append({"sereno_ms": ours, "llama_ms": theirs, "share_of_limit": shares})


def rows_of(rounds):
    """One row a request: medians of all samples, and the ratio's spread over the rounds."""
    if not rounds:
        return []
    medians = {who: {request: statistics.median([ms for r in rounds for ms in r[who][request]])
                     for request in rounds[0][who]} for who in ("sereno_ms", "llama_ms")}
    rows = []
    for request in rounds[0]["sereno_ms"]:
        ours, theirs = medians["sereno_ms"][request], medians["llama_ms"][request]
        ratios = [statistics.median(r["llama_ms"][request]) / statistics.median(r["sereno_ms"][request])
                  for r in rounds]
        shares = [s for r in rounds if isinstance(s := r["share_of_limit"].get(request), (int, float))]
        first = "pass 1" if request.startswith("pass") and "pass 1" in medians["sereno_ms"] else None
        rows.append({
            "request": request, "sereno_ms": ours, "llama_ms": theirs, "llama_over_sereno": theirs / ours,
            "llama_over_sereno_min": min(ratios), "llama_over_sereno_max": max(ratios),
            "sereno_over_one": ours / medians["sereno_ms"][first] if first else None,
            "llama_over_one": theirs / medians["llama_ms"][first] if first else None,
            "share_of_limit": statistics.median(shares) if shares else None,
        })
    return rows


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


# ---- Results ----

def number(value, form):
    return "-" if value is None else format(value, form)


def table(results):
    machine, sereno = results["machine"], results["sereno"]
    about = next((c["llama"] for c in results["cells"] if c["llama"]), {})
    rounds = results["rounds"]
    lines = [
        f"sereno and llama.cpp: one pass behind a context of {results['context']} tokens, logits for every token; "
        "and one prompt",
        f"date       {results['date']}",
        f"machine    {machine['cpu']}, {machine['cores']} cores; {', '.join(machine['caches'])}; {machine['memory']}",
        f"           Linux {machine['kernel']}, governor {machine['governor']}, load average before "
        f"{machine['load_average_before']}, environment {machine['environment'] or 'as usual'}",
        f"sereno     {sereno['version']}, commit {sereno['commit']}, {sereno['scheduling']}",
        f"llama.cpp  {about.get('llama_cpp')}, commit {about.get('commit')}, default scheduling and settings",
        f"           {about.get('built')}",
        f"           {about.get('system_info')}",
        f"Neither is pinned. Rounds: {rounds}, of {REPEATS} samples each, sereno and llama.cpp taking turns.",
        "Milliseconds are medians of all samples, the ratio is theirs (in brackets: lowest and highest of a single",
        "round); above 1 sereno is faster. T(B)/T(1): how much longer a batch of B takes than one token.",
        "bits: of sereno's activations where weights are quantized (llama.cpp's have 8).",
        "",
        f"{'model':22} {'bits':>4} {'threads':>7} {'what':>11} {'sereno ms':>10} {'llama ms':>10}   {'llama/sereno':20} "
        f"{'T(B)/T(1) sereno':>16} {'llama':>6} {'of limit':>8}",
    ]
    for cell in results["cells"]:
        begin = f"{Path(cell['model']).name:22} {cell['activation_bits'] or '-':>4} {cell['threads']:7}"
        for row in cell["rows"]:
            spread = f"({row['llama_over_sereno_min']:.2f}-{row['llama_over_sereno_max']:.2f})"
            ratio = f"{row['llama_over_sereno']:.2f} {spread}"
            lines.append(f"{begin} {row['request']:>11} {row['sereno_ms']:10.2f} {row['llama_ms']:10.2f}   "
                         f"{ratio:20} {number(row['sereno_over_one'], '.2f'):>16} "
                         f"{number(row['llama_over_one'], '.2f'):>6} {number(row['share_of_limit'], '.2f'):>8}")
        if cell["error"]:
            lines.append(f"{begin} FAILED after {len(cell['rounds'])} of {rounds} rounds: {cell['error']}")
    return "\n".join(lines) + "\n"


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


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--models", default=DEFAULT_MODELS, metavar="LIST",
        help="smollm2-135m, SHAPE-TYPE as tools/make-random-model takes them, or paths (default: %(default)s)")
    add("--threads", type=positive_numbers, default=[1, 2], metavar="LIST", help="(default: 1,2)")
    add("--batches", type=positive_numbers, default=[1, 4, 8, 16, 32], metavar="LIST", help="(default: 1,4,8,16,32)")
    add("--context", type=int, default=256, metavar="N", help="tokens before each pass (default: 256)")
    add("--rounds", type=int, default=5, metavar="N", help="turns of each (default: 5)")
    add("--quick", action="store_true", help="one round of smollm2-135m")
    add("--out", type=Path, default=ROOT / "bench/results", metavar="FOLDER", help="(default: bench/results)")
    add("--build", type=Path, default=ROOT / "build", metavar="FOLDER", help="where sereno is (default: build)")
    add("--llama", type=shlex.split, metavar="COMMAND", help="another worker than llama_passes.py")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.quick:
        options.models, options.rounds = "smollm2-135m", 1
    options.models = options.models.split(",")
    return options


def compare(options):
    sereno = Sereno(options.build / "sereno")
    if not options.llama:
        # Not by run(): what it says while it builds is to be seen.
        done = subprocess.run([PEERS / "setup-llama"], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failure("there is no llama.cpp to compare with")
        options.llama = [done.stdout.strip(), str(PEERS / "llama_passes.py")]
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {
        "schema_version": 1, "date": now.strftime("%Y-%m-%d %H:%M UTC"), "machine": describe_machine(),
        "sereno": {"version": sereno.version, "commit": git_commit(),
                   "scheduling": " ".join(sereno.sched) or "in its own scheduling class"},
        "context": options.context, "rounds": options.rounds, "repeats": REPEATS, "cells": [],
    }
    for name in options.models:
        for threads in options.threads:
            cell = {"model": name, "threads": threads, "activation_bits": None, "llama": None, "error": None, "rows": [],
                    "rounds": []}
            try:
                measure(cell, sereno, options)
            except Failure as problem:
                cell["error"] = str(problem)
                say(f"{Path(name).name}, threads {threads}: {problem}")
            cell["model"] = Path(name).name
            cell["rows"] = rows_of(cell["rounds"])
            results["cells"].append(cell)
    if not any(cell["rows"] for cell in results["cells"]):
        raise Failure("nothing could be measured; nothing was written")
    text = table(results)
    stem = options.out / now.strftime("peers-%Y%m%d-%H%M%S")
    print(text, end="", flush=True)
    write_all({stem.with_suffix(".json"): json.dumps(results, indent=1) + "\n", stem.with_suffix(".txt"): text})
    say(f"written: {stem}.json and .txt")
    return 1 if any(cell["error"] for cell in results["cells"]) else 0


def main(arguments):
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that children are ended
    try:
        return compare(options)
    except Failure as problem:
        say(f"compare.py: {problem}")
        return 1
    except KeyboardInterrupt:
        say("compare.py: stopped; nothing was written")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
