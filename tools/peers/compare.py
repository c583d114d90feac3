#!/usr/bin/env python3
"""compare.py: the same passes of the same files by sereno and by llama.cpp, taking turns; prints a table of ratios.

For each model and number of threads, each round is one run of `sereno bench passes` and then as many passes of
llama_passes.py, which is started once and waits in between. Table and samples go to --out.
"""
import datetime
import json
import math
import statistics
import sys
from pathlib import Path

from common import (ROOT, Failure, Llama, Sereno, begin_results, cached_model, default_model, finish, lines_about,
                    llama_command, number, option_parser, positive_numbers, say, write_all)

PREFILL, REPEATS = 512, 5  # tokens of a prompt, samples a round
DEFAULT_MODELS = "smollm2-135m,1b-q4_0,135m-q4_0,135m-f16,135m-q8_0"


def check_ms(name, values):
    good = isinstance(values, list) and values and all(
        isinstance(v, (int, float)) and math.isfinite(v) and v > 0 for v in values)
    if not good:
        raise Failure(f"{name} answers with something else than milliseconds: {str(values)[:60]}")
    return [round(v, 4) for v in values]


# ---- The two. What is timed is a request: `pass 8` or `prefill 512`, as llama_passes.py takes them. ----

def round_of_sereno(sereno, model, threads, batches, context):
    """{request: samples}, {request: share of the machine's limit}, bits of activations, of one run."""
    answer = sereno.bench("-m", model, "-t", threads, "--context", context, "--batches", ",".join(map(str, batches)),
                          "--repeats", REPEATS, "--prefill", PREFILL)
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


def samples_of_llama(llama, request, count):
    llama.ask(request)  # llama.cpp builds another graph for another batch
    return check_ms("llama.cpp", [llama.ask(request).get("ms") for _ in range(count)])


# ---- Cells: one model with one number of threads ----

def model_file(name, build):
    if name.endswith(".gguf"):
        return name
    if name == "smollm2-135m":
        return default_model()
    return cached_model(f"random-{name}", "make-random-model",
                        lambda path: [build / "make-random-model", *name.split("-"), path])


def measure(cell, sereno, options):
    """Fills the cell's rounds; raises Failure when it cannot go on."""
    name, threads, batches = cell["model"], cell["threads"], options.batches
    model = model_file(name, options.build)
    with Llama([*options.llama, model, "--threads", threads, "--context", options.context, "--max-batch", max(batches),
                "--max-prefill", PREFILL]) as llama:
        cell["llama"] = llama.ask("about")
        for turn in range(1, options.rounds + 1):
            where = f"{Path(name).name}, threads {threads}, round {turn} of {options.rounds}"
            say(f"{where}: sereno")
            ours, shares, cell["activation_bits"] = round_of_sereno(sereno, model, threads, batches, options.context)
            say(f"{where}: llama.cpp")
            theirs = {request: samples_of_llama(llama, request, len(ms)) for request, ms in ours.items()}
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


# ---- Results ----

def table(results):
    about = next((c["llama"] for c in results["cells"] if c["llama"]), {})
    rounds = results["rounds"]
    lines = [
        f"sereno and llama.cpp: one pass behind a context of {results['context']} tokens, logits for every token; "
        "and one prompt",
        *lines_about(results, about),
        f"Neither is pinned. Rounds: {rounds}, of {REPEATS} samples each, sereno and llama.cpp taking turns.",
        "Milliseconds are medians of all samples, the ratio is theirs (in brackets: lowest and highest of a single",
        "round); above 1 sereno is faster. T(B)/T(1): how much longer a batch of B takes than one token.",
        "bits: of sereno's activations where weights are quantized (llama.cpp's have 8).",
        "",
        f"{'model':22} {'bits':>4} {'threads':>7} {'what':>11} {'sereno ms':>10} {'llama ms':>10}   "
        f"{'llama/sereno':20} {'T(B)/T(1) sereno':>16} {'llama':>6} {'of limit':>8}",
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


# ---- The program ----

def parse_options(arguments):
    parser = option_parser(__doc__)
    add = parser.add_argument
    add("--models", default=DEFAULT_MODELS, metavar="LIST",
        help="smollm2-135m, SHAPE-TYPE as tools/make-random-model takes them, or paths (default: %(default)s)")
    add("--threads", type=positive_numbers, default=[1, 2], metavar="LIST", help="(default: 1,2)")
    add("--batches", type=positive_numbers, default=[1, 4, 8, 16, 32], metavar="LIST", help="(default: 1,4,8,16,32)")
    add("--context", type=int, default=256, metavar="N", help="tokens before each pass (default: 256)")
    add("--rounds", type=int, default=5, metavar="N", help="turns of each (default: 5)")
    add("--quick", action="store_true", help="one round of smollm2-135m")
    add("--out", type=Path, default=ROOT / "bench/results", metavar="FOLDER", help="(default: bench/results)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.quick:
        options.models, options.rounds = "smollm2-135m", 1
    options.models = options.models.split(",")
    return options


def compare(options):
    sereno = Sereno(options.build / "sereno", "passes")
    options.llama = options.llama or llama_command("llama_passes.py")
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {
        **begin_results(sereno, now),
        "context": options.context, "rounds": options.rounds, "repeats": REPEATS, "cells": [],
    }
    for name in options.models:
        for threads in options.threads:
            cell = {"model": name, "threads": threads, "activation_bits": None, "llama": None, "error": None,
                    "rows": [], "rounds": []}
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


if __name__ == "__main__":
    sys.exit(finish("compare.py", compare, parse_options(sys.argv[1:])))
