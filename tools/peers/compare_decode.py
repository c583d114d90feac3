#!/usr/bin/env python3
"""compare_decode.py: whole answers by sereno and by llama.cpp, each plainly and with speculation, in turns.

A turn is one prompt with one seed: one run of `sereno bench decode` with all strategies, then the same token ids in
each mode of llama_decode.py, which is started once and waits in between. The target has 16-bit weights; llama.cpp's
draft is the same model as Q4_0. Prints tokens per second and the ratio of each one's best.
"""
import datetime
import json
import math
import os
import resource
import statistics
import sys
import time
from pathlib import Path

from common import (ROOT, Failure, Llama, Sereno, begin_results, cached_model, default_model, finish, lines_about,
                    llama_command, number, option_parser, parse, read, run, say, write_all)

STRATEGIES = "plain,spec:draft=self:int4,spec:draft=ngram"
MODES = "plain,draft:n=2,draft:n=4,draft:n=8,draft:n=8:p-min=0.6,lookup:n=4,ngram:n=8"
SAMPLING = ["--temp", 0.7, "--top-k", 40, "--top-p", 0.95, "--min-p", 0.05]  # the same words for both
CONTEXT = 2048
# What the chat template of SmolLM2 makes of a message. That sereno makes the same of it is checked.
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
ATTEMPTS, QUIET_WAIT_S = 3, 30
# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; beyond them the last, which is wider.
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
               2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)


# ---- Other work on the machine: threads that wait for each other, and llama.cpp's by spinning, suffer from it ----

def used_by_all_s():
    """Seconds of all cores that were not idle; 0 where Linux does not say."""
    ticks = [int(word) for word in read("/proc/stat", "cpu 0").splitlines()[0].split()[1:]]
    return (sum(ticks[:8]) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")  # less idle and waiting for a disk


def used_by_us_s(worker):
    ours = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    words = read(f"/proc/{worker}/stat", "").rpartition(")")[2].split()
    return ours + (sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK") if words else 0)  # user and system time


class Others:
    """Share of the machine that others use from now on."""

    def __init__(self, worker):
        self.worker = worker
        self.start = self.now()

    def now(self):
        return time.monotonic(), used_by_all_s() - used_by_us_s(self.worker)

    def share(self):
        (start, before), (end, after) = self.start, self.now()
        return min(1.0, max(0.0, after - before) / (end - start) / os.cpu_count())  # ticks are coarse


def wait_for_quiet(worker, others_max):
    if others_max >= 1:
        return
    end = time.monotonic() + QUIET_WAIT_S
    while time.monotonic() < end:
        others = Others(worker)
        time.sleep(0.5)
        if others.share() <= others_max:
            return


# ---- One turn ----

def prompt_ids(sereno, model, prompt, llama):
    """Token ids of a prompt in its chat, which all must agree on."""
    text = CHAT.format(prompt.read_text().removesuffix("\n"))
    ids = [int(word) for word in run("sereno", [sereno.path, "tokenize", "-m", model, "--ids", text]).split()]
    if llama.ask(f"tokenize {json.dumps(text)}").get("ids") != ids:
        raise Failure(f"sereno and llama.cpp tokenize {prompt.stem} differently")
    once = parse("sereno", run("sereno", [sereno.path, "run", "-m", model, "-f", prompt, "-n", "1", "--json"]))
    if once.get("prompt_tokens") != len(ids):
        raise Failure(f"{prompt.stem}: sereno's chat has {once.get('prompt_tokens')} tokens, {len(ids)} are expected")
    return ids


def sample(who, name, tokens, tok_s, per_pass):
    """tokens: those after the first, which are what is timed."""
    good = all(isinstance(v, (int, float)) and math.isfinite(v) and v >= 0 for v in (tokens, tok_s, per_pass))
    if not good or (tokens > 0) != (tok_s > 0):
        raise Failure(f"{who} answers with something else than tokens per second: {name}, {tokens!r}, {tok_s!r}")
    return {"tokens": round(tokens), "ms": tokens / tok_s * 1000 if tok_s else 0.0, "tokens_per_pass": per_pass}


def turn_of_sereno(sereno, options, model, prompt, seed):
    answer = sereno.bench("-m", model, "-t", options.threads, "-c", CONTEXT, "--prompts", prompt, "--strategies",
                          options.strategies, "--repeats", 1, "--seed", seed, "-n", options.predict, *SAMPLING)
    try:
        samples = {c["strategy"]: sample("sereno", c["strategy"], max(c["tokens"] - 1, 0), c["tok_s"], c["tokens_per_pass"])
                   for c in answer["cells"]}
    except (KeyError, TypeError) as problem:
        raise Failure(f"sereno answers with another JSON than expected: {problem!r}") from problem
    missing = set(options.strategies.split(",")) - set(samples)
    if missing:
        raise Failure(f"sereno leaves out {', '.join(sorted(missing))}")
    return samples


def ask_llama(llama, ids, seed, predict, mode):
    request = {"prompt": ids, "seed": seed, "predict": predict, "mode": mode}
    answer = llama.ask(f"generate {json.dumps(request)}")
    try:
        tokens, passes = max(answer["tokens"] - 1, 0), answer["passes"]
        return sample("llama.cpp", mode, tokens, answer["tok_s"], tokens / passes if passes else 0.0)
    except (KeyError, TypeError) as problem:
        raise Failure(f"llama.cpp answers with another JSON than expected: {problem!r}") from problem


def take_turn(sereno, llama, options, model, prompt, ids, seed):
    def least_disturbed(run_once):
        """{name: sample} of run_once(), which is repeated while others use too much of the machine."""
        attempts = []
        while len(attempts) < ATTEMPTS and (not attempts or attempts[-1][0] > options.others):
            wait_for_quiet(llama.process.pid, options.others)
            others = Others(llama.process.pid)
            samples = run_once()
            attempts.append((round(others.share(), 4), samples))
        share, samples = min(attempts, key=lambda attempt: attempt[0])
        return {name: {**of_name, "others_share": share} for name, of_name in samples.items()}

    turn = {"prompt": prompt.stem, "seed": seed, "llama": {},
            "sereno": least_disturbed(lambda: turn_of_sereno(sereno, options, model, prompt, seed))}
    for mode in options.modes:
        turn["llama"] |= least_disturbed(lambda mode=mode: {mode: ask_llama(llama, ids, seed, options.predict, mode)})
    return turn


def measure(results, sereno, options):
    """Fills the turns; raises Failure when it cannot go on."""
    original = options.model or default_model()
    convert = {kind: lambda path, kind=kind: [sereno.path, "convert", "-m", original, "--type", kind, "-o", path]
               for kind in ("f16", "q4_0")}
    name = Path(original).stem.lower()
    model, draft = (cached_model(f"{name}-as-{kind}", "sereno convert", convert[kind]) for kind in convert)
    with Llama([*options.llama, model, "--draft", draft, "--threads", options.threads, "--context", CONTEXT,
                *SAMPLING]) as llama:
        results["llama"] = llama.ask("about")
        ids = {}
        for prompt in options.prompts:
            ids[prompt] = prompt_ids(sereno, model, prompt, llama)
        for mode in options.modes:  # not counted: memory is touched for the first time
            ask_llama(llama, ids[options.prompts[0]], 1, 8, mode)
        for seed in range(1, options.repeats + 1):
            for prompt in options.prompts:
                say(f"seed {seed} of {options.repeats}: {prompt.stem}")
                results["turns"].append(take_turn(sereno, llama, options, model, prompt, ids[prompt], seed))


# ---- Results ----

def rates(turns, who):
    """{strategy: {prompt: tokens per second over its seeds}}; prompts with nothing to time are left out."""
    out = {}
    for name in turns[0][who]:
        sums = {}
        for turn in turns:
            tokens, ms = sums.get(turn["prompt"], (0, 0.0))
            sums[turn["prompt"]] = tokens + turn[who][name]["tokens"], ms + turn[who][name]["ms"]
        out[name] = {prompt: tokens / ms * 1000 for prompt, (tokens, ms) in sums.items() if ms > 0}
    return out


def mean(values):
    """The geometric one, so that a ratio of means is the mean of ratios."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def ratio_of(ours, theirs):
    """Geometric mean over the prompts that both have, with its 95 % interval."""
    logs = [math.log(ours[p] / theirs[p]) for p in ours if p in theirs]
    if not logs:
        return None
    point, half = statistics.fmean(logs), None
    if len(logs) > 1:
        quantile = T_QUANTILES[min(len(logs) - 1, len(T_QUANTILES)) - 1]
        half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return {"point": math.exp(point), "lo": None if half is None else math.exp(point - half),
            "hi": None if half is None else math.exp(point + half), "n": len(logs)}


def kind_of(prompt):
    return prompt.split("-")[0]


def summary(turns):
    """Rows, one for each strategy of each; and ratios, of the best of each and of plain decoding."""
    rows, tables = [], {who: rates(turns, who) for who in ("sereno", "llama")}
    kinds = list(dict.fromkeys(kind_of(turn["prompt"]) for turn in turns))
    best = {}
    for who, table_of in tables.items():
        for name, by_prompt in table_of.items():
            per_pass = [turn[who][name]["tokens_per_pass"] for turn in turns if turn[who][name]["tokens"] > 0]
            rows.append({"who": who, "strategy": name, "tok_s": mean(by_prompt.values()),
                         "tokens_per_pass": statistics.fmean(per_pass) if per_pass else None,
                         "kinds": {k: mean([v for p, v in by_prompt.items() if kind_of(p) == k]) for k in kinds}})
        best[who] = max((row for row in rows if row["who"] == who), key=lambda row: row["tok_s"] or 0)["strategy"]
    pairs = {"best": (best["sereno"], best["llama"])}
    if all("plain" in table_of for table_of in tables.values()):
        pairs["plain"] = "plain", "plain"
    ratios = []
    for what, (ours, theirs) in pairs.items():
        a, b = tables["sereno"][ours], tables["llama"][theirs]
        ratios.append({"what": what, "sereno": ours, "llama": theirs, "all": ratio_of(a, b),
                       "kinds": {k: ratio_of({p: v for p, v in a.items() if kind_of(p) == k}, b) for k in kinds}})
    # The hardest comparison: llama.cpp may choose for each prompt, afterwards.
    prompts = {p for by_prompt in tables["llama"].values() for p in by_prompt}
    chosen = {p: max(by_prompt.get(p, 0) for by_prompt in tables["llama"].values()) for p in prompts}
    a = tables["sereno"][best["sereno"]]
    ratios.append({"what": "best, of llama.cpp for each prompt", "sereno": best["sereno"], "llama": "best of each",
                   "all": ratio_of(a, chosen),
                   "kinds": {k: ratio_of({p: v for p, v in a.items() if kind_of(p) == k}, chosen) for k in kinds}})
    return rows, ratios


def describe_ratio(ratio):
    if ratio is None:
        return "-"
    spread = "" if ratio["lo"] is None else f" [{ratio['lo']:.2f}, {ratio['hi']:.2f}]"
    return f"{ratio['point']:.2f}{spread} over {ratio['n']} prompts"


def table(results):
    turns, settings = results["turns"], results["settings"]
    kinds = list(results["rows"][0]["kinds"])
    shares = [s["others_share"] for turn in turns for who in ("sereno", "llama") for s in turn[who].values()]
    lines = [
        "sereno and llama.cpp: whole answers, tokens per second from the first token to the last",
        *lines_about(results, results["llama"]),
        "           speculation by a loop on llama.cpp's library (tools/peers/llama_decode.py), as its own examples do",
        f"Target {settings['target']}, draft of llama.cpp {settings['draft']}, {settings['threads']} threads, at most "
        f"{settings['predict']} tokens,",
        f"{' '.join(map(str, settings['sampling']))}. {len(turns)} turns of one prompt and one seed;",
        f"during {sum(s > settings['others_max'] for s in shares)} of {len(shares)} answers others used more than "
        f"{settings['others_max']:.0%} of the machine. Means over prompts",
        "are geometric; a pass: tokens for each pass of the target.",
        "",
        f"{'':10} {'':28} {'a pass':>6} {'all':>8} " + " ".join(f"{kind:>9}" for kind in kinds),
    ]
    for row in results["rows"]:
        who = "llama.cpp" if row["who"] == "llama" else "sereno"
        lines.append(f"{who:10} {row['strategy']:28} {number(row['tokens_per_pass'], '.2f'):>6} "
                     f"{number(row['tok_s'], '.1f'):>8} "
                     + " ".join(f"{number(row['kinds'][kind], '.1f'):>9}" for kind in kinds))
    lines += ["", "sereno over llama.cpp, with 95 % intervals over prompts; above 1 sereno is faster"]
    for ratio in results["ratios"]:
        lines.append(f"{ratio['what']}: {ratio['sereno']} / {ratio['llama']}: {describe_ratio(ratio['all'])}")
        lines += [f"    {kind:12} {describe_ratio(of_kind)}" for kind, of_kind in ratio["kinds"].items()]
    if results["error"]:
        lines.append(f"FAILED after {len(turns)} turns: {results['error']}")
    return "\n".join(lines) + "\n"


# ---- The program ----

def parse_options(arguments):
    parser = option_parser(__doc__)
    add = parser.add_argument
    add("--model", metavar="PATH", help="GGUF file with SmolLM2's chat, converted for both (default: smollm2-135m)")
    add("--prompts", metavar="LIST", help="names in bench/prompts, as chat-1,code-2 (default: all)")
    add("--repeats", type=int, default=2, metavar="R", help="seeds of each prompt (default: 2)")
    add("-n", "--predict", type=int, default=128, metavar="N", help="at most N tokens of answer (default: 128)")
    add("--threads", type=int, default=2, metavar="N", help="(default: 2)")
    add("--strategies", default=STRATEGIES, metavar="LIST", help="of sereno bench decode (default: %(default)s)")
    add("--modes", default=MODES, metavar="LIST", help="of llama_decode.py (default: %(default)s)")
    add("--others", type=float, default=0.05, metavar="SHARE",
        help="repeat what is measured while others use more of the machine; 1: never (default: 0.05)")
    add("--quick", action="store_true", help="two prompts, one seed, 32 tokens")
    add("--out", type=Path, metavar="FOLDER", help="write table and samples there too")
    options = parser.parse_args(arguments)
    if options.quick:
        options.prompts, options.repeats, options.predict = "chat-1,code-1", 1, 32
    for name, least in (("repeats", 1), ("predict", 2), ("threads", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name}: at least {least}")
    folder = ROOT / "bench/prompts"
    options.prompts = ([folder / f"{name}.txt" for name in options.prompts.split(",")] if options.prompts
                       else sorted(folder.glob("*.txt")))
    for prompt in options.prompts:
        if not prompt.is_file():
            parser.error(f"--prompts: there is no {prompt.stem}")
    options.modes = options.modes.split(",")
    return options


def compare(options):
    sereno = Sereno(options.build / "sereno", "decode")
    options.llama = options.llama or llama_command("llama_decode.py")
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {
        **begin_results(sereno, now),
        "settings": {"target": "F16", "draft": "Q4_0", "threads": options.threads, "predict": options.predict,
                     "repeats": options.repeats, "sampling": SAMPLING, "context": CONTEXT,
                     "others_max": options.others},
        "llama": {}, "error": None, "rows": [], "ratios": [], "turns": [],
    }
    try:
        measure(results, sereno, options)
    except Failure as problem:
        if not results["turns"]:
            raise
        results["error"] = str(problem)
        say(f"compare_decode.py: {problem}")
    results["rows"], results["ratios"] = summary(results["turns"])
    text = table(results)
    print(text, end="", flush=True)
    if options.out:
        stem = options.out / now.strftime("decode-%Y%m%d-%H%M%S")
        write_all({stem.with_suffix(".json"): json.dumps(results, indent=1) + "\n", stem.with_suffix(".txt"): text})
        say(f"written: {stem}.json and .txt")
    return 1 if results["error"] else 0


if __name__ == "__main__":
    sys.exit(finish("compare_decode.py", compare, parse_options(sys.argv[1:])))
