#!/usr/bin/env python3
"""compare_corun.py: what a foreground and an LLM do to each other, in the cells that the project is judged by.

A cell is a setting (real text: SmolLM2 with 16-bit weights and itself as int4 for a draft; synthetic: a random model of
the 1B shape with one of the 135M shape for a draft, acceptance by chance), a placement, foregrounds and strategies: one
call of `sereno bench corun`, whose runs are kept in a log in the user's cache, so that what was stopped goes on when it
is called again. Beside real text runs llama.cpp's server too (--peer).
"""
import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import (ROOT, PEERS, Failure, Sereno, begin_results, cached_model, default_model, end, finish, how_built,
                    lines_about_us, option_parser, parse, run, say, set_up_llama, without_places, write_all)

NATIVE_JANK = 4
TUNINGS = 3   # attempts
TUNING_S = 8  # of a round of these
INTERRUPTED, WRONG_USAGE = 130, 2  # exit codes of sereno
ACCEPTANCE = "0.7,0.65,0.6,0.55,0.5:ngram=0.35"
PEER_PORT = 18484  # always the same: it is part of the strategy's name, and so of the log
SERVER_END_S = 20
BASIC = "native,native-again,plain"
UNGOVERNED = "native,native-again,spin,plain,spec:batch=8"
HEADLINE = BASIC + ",sereno:balanced,sereno:ui-first"
SLOWED = (",freq-limit:factor=1.5,freq-limit:factor=2,freq-limit:factor=3"
          ",chunk-sleep:us=500,chunk-sleep:us=1000,chunk-sleep:us=2000")
FRONTIER = (BASIC + ",spec,spec:batch=4,spec:batch=8,spec:batch=16"
            + SLOWED + ",hint,hint:frame=verify:batch=8")
GOVERNED = (BASIC + ",spec,spec:batch=8" + SLOWED + ",hint,sereno:throughput,sereno:balanced,sereno:ui-first"
            ",sereno-hinted:balanced,sereno-hinted:ui-first")
ABLATION = BASIC + ",sereno:balanced" + "".join(f",sereno-without-{part}"
                                                for part in ("preempt", "fill", "batch", "sleep", "probe"))
SHARED = "native,native-again,plain,plain-idle,plain-idle-fixed,spec:batch=8,sereno:balanced,sereno:ui-first"
# name, setting, placement, foregrounds, strategies, frames of each
CELLS = {
    "headline": [("real", "split", "social-1,reader-1", HEADLINE, 20000),
                 ("synthetic", "split", "social-1,reader-1", HEADLINE, 20000),
                 ("synthetic", "shared", "social-1", SHARED, 20000)],
    "frontier": [("real", "split", "social-1", FRONTIER, 5000), ("synthetic", "split", "social-1", FRONTIER, 5000)],
    "governed": [("real", "split", "social-1", GOVERNED, 5000), ("synthetic", "split", "social-1", GOVERNED, 5000)],
    "ablation": [("real", "split", "social-1", ABLATION, 5000), ("synthetic", "split", "social-1", ABLATION, 5000)],
    "gaming": [("real", "split", "gaming-2", HEADLINE, 5000)],
    "shared": [("real", "shared", "social-1", SHARED, 5000)],
    "quick": [("real", "split", "social-1", UNGOVERNED, 0)],
}
QUICK = ["--seconds", "2.5", "--warm-up", "0.5", "--repeats", "7"]
USUAL = ["--seconds", "5", "--warm-up", "1", "--repeats", "6"]


# ---- What it takes ----

def cores():
    """Of this process. Split placement: the last is the foreground's, the first the LLM's, as in sereno."""
    return sorted(os.sched_getaffinity(0))


def watch_sereno(command, stdout):
    """Its exit code and output; its words are seen. When this program is stopped, it is told, and waited for."""
    # In a session of its own: else it got a terminal's Ctrl-C twice, and with the second it does not clean up.
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=stdout, text=True,
                               start_new_session=True)
    try:
        text, _ = process.communicate()
    except (KeyboardInterrupt, SystemExit):
        try:
            process.send_signal(signal.SIGINT)
            process.communicate()
        finally:  # this program was stopped once more
            end(process)
        raise
    if process.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    return process.returncode, text


def random_model(build, shape, kind):
    return cached_model(f"random-{shape}-{kind}", "make-random-model",
                        lambda path: [build / "make-random-model", shape, kind, path])


def models(options, setting):
    """Target and the options of its draft."""
    build = options.build
    if setting == "synthetic":
        return random_model(build, "1b", "q4_0"), ["--draft", str(random_model(build, "135m", "q4_0")), "--raw",
                                                   "--synthetic-acceptance", ACCEPTANCE]
    origin = options.model or default_model()
    target = cached_model(f"{Path(origin).stem.lower()}-as-f16", "sereno convert",
                          lambda path: [build / "sereno", "convert", "-m", origin, "--type", "f16", "-o", path])
    return target, ["--draft", "self:int4"]


def tune(sereno, foregrounds):
    """Once a machine: a tuned profile stays as it is."""
    places = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sereno/profiles"
    for name in foregrounds.split(","):
        attempts = 0
        while "/" not in name and not (places / f"{name}.ini").exists():
            if attempts == TUNINGS:
                raise Failure(f"{name} could not be tuned to this machine in {TUNINGS} attempts; why is above. Jank of "
                              "an untuned one would say nothing")
            attempts += 1
            say(f"tuning {name} to this machine, with nothing beside it")
            watch_sereno([sereno, "foreground", name, "--cpu", cores()[-1], "--seconds", TUNING_S, "--tune",
                          f"native-jank={NATIVE_JANK}"], stdout=sys.stderr)


class Server:
    """llama.cpp's server for one model and one placement, while it is needed."""

    def __init__(self, options, model, placement):
        command = [PEERS / "serve-llama", model, "--port", options.peer_port]
        command += (["--threads", 1, "--cores", cores()[0]] if placement == "split" else ["--threads", len(cores())])
        command += ["--llama", shlex.join(options.llama)] if options.llama else []
        # It ends when its standard input does.
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True)

    def __enter__(self):
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise Failure("llama.cpp's server did not start; what it said is above")
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=SERVER_END_S)
        except subprocess.TimeoutExpired:
            end(self.process)
        self.process.stdout.close()
        if self.process.returncode and not kind:
            raise Failure("llama.cpp's server ended while it was needed; what it said is above")


# ---- A cell ----

def bench(options, name, cell, log, more, strategies):
    """Its text and its JSON."""
    setting, placement, foregrounds, _, frames = cell
    sereno = options.build / "sereno"
    target, draft = models(options, setting)
    command = [sereno, "bench", "corun", "-m", target, *draft, "--placement", placement, "--foreground", foregrounds,
               "--strategies", strategies, "--log", log, "--min-frames", options.frames or frames, *more,
               "--prompts", ROOT / "bench/prompts"]
    say(f"{name}: {setting}, {placement}")
    code, text = watch_sereno(command, stdout=subprocess.PIPE)
    if code:
        hint = "; if its log was made with other settings, --fresh forgets it" if code == WRONG_USAGE else ""
        raise Failure(f"sereno bench corun ends with {code}{hint}")
    # Only from the log: measured again, it would not be what the text says.
    return text, parse("sereno", run("sereno", list(map(str, [*command, "--json", "--report"]))))


def has_peer(options, cell):
    return options.peer and cell[0] == "real" and options.what != "quick"


def run_cell(options, name, cell, folder):
    setting, placement, foregrounds, strategies, _ = cell
    tune(options.build / "sereno", foregrounds)
    log = folder / f"{name}-{setting}-{placement}.jsonl"
    more = QUICK if name == "quick" else USUAL
    if has_peer(options, cell):
        with Server(options, models(options, setting)[0], placement) as server:
            return bench(options, name, cell, log, more, f"{strategies},peer:{server.url}")
    return bench(options, name, cell, log, more, strategies)


def compare(options):
    now = datetime.datetime.now(datetime.timezone.utc)
    sereno = Sereno(options.build / "sereno", "corun")
    results = {**begin_results(sereno, now), "cells": []}
    lines = lines_about_us(results)
    if any(has_peer(options, cell) for cell in CELLS[options.what]):
        options.llama = options.llama or [set_up_llama("server")]
        results["llama"] = {"built": how_built(Path(options.llama[0]).with_name("built-server"))}
        lines.append(f"llama.cpp  {results['llama']['built']}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sereno/corun"
    scratch = tempfile.mkdtemp() if options.what == "quick" else None
    folder = Path(scratch or cache)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for cell in CELLS[options.what]:
            log = folder / f"{options.what}-{cell[0]}-{cell[1]}.jsonl"
            if options.fresh:
                log.unlink(missing_ok=True)
            text, document = run_cell(options, options.what, cell, folder)
            print(text, flush=True)
            lines += ["", without_places(text.rstrip())]
            results["cells"].append(document)
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)
    if options.results:
        stem = options.results / f"corun-{options.what}-{now.strftime('%Y%m%d-%H%M%S')}"
        write_all({stem.with_suffix(".txt"): "\n".join(lines) + "\n",
                   stem.with_suffix(".json"): without_places(json.dumps(results, indent=1)) + "\n"})
        say(f"results are in {shlex.quote(os.path.relpath(stem))}.txt and .json")
    return 0


def main():
    parser = option_parser(__doc__)
    parser.add_argument("what", nargs="?", choices=CELLS, default="headline", help="which cells (default: headline)")
    parser.add_argument("--frames", type=int, metavar="N", help="frames of each strategy (default: 20000 in headline "
                        "cells, 5000 in others)")
    parser.add_argument("--fresh", action="store_true", help="forget what the logs hold")
    parser.add_argument("--model", metavar="PATH", help="GGUF file for real text (default: smollm2-135m)")
    parser.add_argument("--peer", action="store_true", help="llama.cpp's server too, where the text is real")
    parser.add_argument("--peer-port", type=int, default=PEER_PORT, metavar="N",
                        help="of that server; logs tell its runs apart by it (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results", metavar="FOLDER",
                        help="where results go (default: bench/results)")
    sys.exit(finish("compare_corun", compare, parser.parse_args()))


if __name__ == "__main__":
    main()
