"""llama_decode.py MODEL: whole answers by llama.cpp, one line of JSON for each line on standard input.

    about             who answers: version, flags, settings
    tokenize TEXT     token ids of a JSON string, control tokens in it parsed; {"ids": [...]}
    generate REQUEST  REQUEST is {"prompt": ids, "seed": S, "predict": N, "mode": MODE}; the answer has "tok_s", from
                      the first token to the last, and what speculation did

MODE is plain, or who proposes up to n tokens, which the target then verifies in one batch:

    draft:n=N[:p-min=P]   the model --draft, by its likeliest tokens; ends early at one less likely than P
    lookup:n=N            what followed the same last two words or one, as llama-cpp-python's LlamaPromptLookupDecoding
    ngram:n=N:order=K     what followed the same last K tokens the last time, as llama.cpp's ngram-simple

Runs in the environment that setup-llama makes. Speculation is the scheme of llama.cpp's speculative-simple, written on
its C interface, because the library brings no program along: the target samples at each proposed token and goes on
while it samples the same. Better than there, the draft keeps what it has computed and is not fed each batch again.
"""
import argparse
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np
from llama_api import Log, Sequence, about, api
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


class DraftModel:
    """Proposes by a small model. Its sequence holds the beginning of the history."""

    def __init__(self, sequence, n, p_min=0.0):
        self.sequence, self.n, self.p_min = sequence, n, p_min

    def propose(self, history, limit):
        sequence, proposed = self.sequence, []
        sequence.prefill(history[sequence.n_kept:])
        while len(proposed) < min(self.n, limit):
            logits = np.ctypeslib.as_array(api.llama_get_logits_ith(sequence.context, -1), (sequence.n_vocab,))
            token = int(logits.argmax())
            if self.p_min > 0 and 1 / np.exp(logits - logits[token]).sum() < self.p_min:
                break
            proposed.append(token)
            if len(proposed) < min(self.n, limit):
                sequence.decode([token], all_logits=False)
        return proposed

    def accept(self, count):
        """The first `count` tokens of the history will stay."""
        self.sequence.keep(count)


class PromptLookup:
    """Proposes what llama-cpp-python would."""

    def __init__(self, n):
        self.lookup = LlamaPromptLookupDecoding(num_pred_tokens=n)

    def propose(self, history, limit):
        return self.lookup(np.array(history, dtype=np.intc))[:limit].tolist()

    def accept(self, count):
        pass


class Ngram:
    """Proposes what followed the last `order` tokens the last time."""

    def __init__(self, n, order=3):
        self.n, self.order = n, order

    def propose(self, history, limit):
        pattern = history[-self.order:]
        for at in range(len(history) - self.order - 1, -1, -1):
            if history[at:at + self.order] == pattern:
                begin = at + self.order
                return history[begin:begin + min(self.n, limit)]
        return []

    def accept(self, count):
        pass


class Worker:
    def __init__(self, options):
        self.log = Log()
        self.target = Sequence(options.model, options.threads, options.context)
        self.draft = Sequence(options.draft, options.threads, options.context) if options.draft else None
        self.options = options

    def tokenize(self, text):
        data = text.encode()
        tokens = (api.llama_token * (len(data) + 2))()
        count = api.llama_tokenize(self.target.vocab, data, len(data), tokens, len(tokens), True, True)
        if count < 0:
            sys.exit("llama.cpp does not tokenize")
        return {"ids": list(tokens[:count])}

    def sampler(self, seed):
        """llama.cpp's usual order; whoever calls it frees it."""
        o = self.options
        chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
        for part in (api.llama_sampler_init_top_k(o.top_k), api.llama_sampler_init_top_p(o.top_p, 1),
                     api.llama_sampler_init_min_p(o.min_p, 1), api.llama_sampler_init_temp(o.temp),
                     api.llama_sampler_init_dist(seed) if o.temp > 0 else api.llama_sampler_init_greedy()):
            api.llama_sampler_chain_add(chain, part)
        return chain

    def proposer(self, mode):
        """None for plain decoding."""
        name, *words = mode.split(":")
        settings = dict(word.split("=", 1) for word in words)
        n = int(settings.pop("n", 0))
        match name:
            case "plain":
                proposer = None
            case "draft" if self.draft and n:
                self.draft.keep(0)
                proposer = DraftModel(self.draft, n, float(settings.pop("p-min", 0)))
            case "lookup" if n:
                proposer = PromptLookup(n)
            case "ngram" if n:
                proposer = Ngram(n, int(settings.pop("order", 3)))
            case _:
                sys.exit(f"no such mode: {mode}")
        if settings:
            sys.exit(f"no such settings in {mode}: {', '.join(settings)}")
        return proposer

    def verify(self, sampler, proposed):
        """What the target samples at the last token and at each proposed one, up to the first that differs."""
        sampled = []
        for i in range(len(proposed) + 1):
            sampled.append(api.llama_sampler_sample(sampler, self.target.context, i))
            if i == len(proposed) or sampled[i] != proposed[i] or api.llama_vocab_is_eog(self.target.vocab, sampled[i]):
                return sampled

    def generate(self, request):
        target, predict = self.target, request["predict"]
        proposer, sampler = self.proposer(request["mode"]), self.sampler(request["seed"])
        target.keep(0)
        target.prefill(request["prompt"])
        history = [*request["prompt"], api.llama_sampler_sample(sampler, target.context, -1)]
        n_prompt, passes, drafted = len(request["prompt"]), 0, 0
        start = time.perf_counter_ns()
        while (n := len(history) - n_prompt) < predict and not api.llama_vocab_is_eog(target.vocab, history[-1]):
            proposed = proposer.propose(history, predict - n - 1) if proposer else []
            target.decode([history[-1], *proposed], all_logits=True)
            sampled = self.verify(sampler, proposed)
            target.keep(len(history) + len(sampled) - 1)
            if proposer:
                proposer.accept(len(history) + len(sampled) - 1)
            history += sampled
            passes, drafted = passes + 1, drafted + len(proposed)
        ms = (time.perf_counter_ns() - start) / 1e6
        api.llama_sampler_free(sampler)
        tokens = len(history) - n_prompt
        return {"tokens": tokens, "ms": ms, "tok_s": (tokens - 1) / ms * 1000 if tokens > 1 else 0.0, "passes": passes,
                "drafted": drafted, "accepted": tokens - 1 - passes, "ids": history[n_prompt:]}

    def answer(self, line):
        request, _, argument = line.strip().partition(" ")
        match request:
            case "about":
                return about(self.target, self.log)
            case "tokenize":
                return self.tokenize(json.loads(argument))
            case "generate":
                return self.generate(json.loads(argument))
        sys.exit(f"no such request: {line.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", type=Path, help="a model with the same vocabulary")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--temp", type=float, required=True)
    parser.add_argument("--top-k", type=int, required=True)
    parser.add_argument("--top-p", type=float, required=True)
    parser.add_argument("--min-p", type=float, required=True)
    worker = Worker(parser.parse_args())
    for line in sys.stdin:
        print(json.dumps(worker.answer(line)), flush=True)


if __name__ == "__main__":
    main()
