"""llama_passes.py MODEL: times llama.cpp's decodes, one line of JSON for each line on standard input.

    about         who answers: version, flags, settings, where the weights lie
    pass B        a batch of B tokens behind the context, logits for each; {"ms": ...}
    prefill N     a prompt of N tokens, logits for the last; {"ms": ...}

Runs in the environment that setup-llama makes. Timed is llama_decode until its results are there, nothing else.
"""
import argparse
import json
import random
import sys
from pathlib import Path

from llama_api import Log, Sequence, about


class Worker:
    def __init__(self, options):
        self.log = Log()
        n_ctx = max(options.context + options.max_batch, options.max_prefill)
        self.sequence = Sequence(options.model, options.threads, n_ctx)
        dice = random.Random(1)
        self.tokens = [dice.randrange(self.sequence.n_vocab) for _ in range(n_ctx)]
        self.n_context = options.context

    def time_pass(self, count):
        sequence, at = self.sequence, self.n_context
        if sequence.n_kept != at:
            sequence.keep(0)
            sequence.prefill(self.tokens[:at])
        ms = sequence.decode(self.tokens[at:at + count], all_logits=True)
        sequence.keep(at)
        return {"ms": ms}

    def time_prefill(self, count):
        self.sequence.keep(0)
        return {"ms": self.sequence.decode(self.tokens[:count], all_logits=False)}

    def answer(self, line):
        match line.split():
            case ["about"]:
                return about(self.sequence, self.log)
            case ["pass", count]:
                return self.time_pass(int(count))
            case ["prefill", count]:
                return self.time_prefill(int(count))
        sys.exit(f"no such request: {line.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True, help="tokens before each pass")
    parser.add_argument("--max-batch", type=int, required=True)
    parser.add_argument("--max-prefill", type=int, default=0)
    worker = Worker(parser.parse_args())
    for line in sys.stdin:
        print(json.dumps(worker.answer(line)), flush=True)


if __name__ == "__main__":
    main()
