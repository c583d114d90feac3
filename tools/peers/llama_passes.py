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
import time
from pathlib import Path

import llama_cpp
from llama_cpp import llama_cpp as api

LOG_INFO, LOG_WARN, LOG_ERROR = 2, 3, 4  # enum ggml_log_level
SEQUENCE = 0


class Worker:
    def __init__(self, options):
        self.notes = []  # what llama.cpp says of its choices
        self.log = api.llama_log_callback(self.take_log)  # kept, or it would be collected
        api.llama_log_set(self.log, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(str(options.model).encode(), api.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp does not load {options.model}")
        self.settings = api.llama_context_default_params()
        self.settings.n_ctx = max(options.context + options.max_batch, options.max_prefill)
        self.settings.n_threads = self.settings.n_threads_batch = options.threads
        self.context = api.llama_init_from_model(self.model, self.settings)
        if not self.context:
            sys.exit("llama.cpp makes no context")
        self.memory = api.llama_get_memory(self.context)
        n_vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        dice = random.Random(1)
        self.tokens = [dice.randrange(n_vocab) for _ in range(self.settings.n_ctx)]
        self.batch = api.llama_batch_init(self.settings.n_ctx, 0, 1)
        self.n_context = options.context
        self.n_kept = 0  # tokens in the KV cache

    def take_log(self, level, text, _):
        text = text.decode(errors="replace").strip()
        if level in (LOG_WARN, LOG_ERROR):
            print(text, file=sys.stderr)
        elif level == LOG_INFO and ("buffer size" in text or "Flash Attention" in text):
            self.notes.append(" ".join(text.split()))

    def decode(self, position, count, all_logits):
        """Milliseconds for tokens position .. position + count, which stay in the KV cache."""
        self.batch.n_tokens = count
        for i in range(count):
            self.batch.token[i] = self.tokens[position + i]
            self.batch.pos[i] = position + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = SEQUENCE
            self.batch.logits[i] = all_logits or i == count - 1
        start = time.perf_counter_ns()
        code = api.llama_decode(self.context, self.batch)
        api.llama_synchronize(self.context)
        end = time.perf_counter_ns()
        if code:
            sys.exit(f"llama_decode fails with {code}")
        self.n_kept = position + count
        return (end - start) / 1e6

    def forget_from(self, position):
        if not api.llama_memory_seq_rm(self.memory, SEQUENCE, position, -1):
            sys.exit("llama.cpp does not forget tokens of this model")
        self.n_kept = min(self.n_kept, position)

    def time_pass(self, count):
        if self.n_kept != self.n_context:
            self.forget_from(0)
            limit = api.llama_n_batch(self.context)
            for at in range(0, self.n_context, limit):
                self.decode(at, min(limit, self.n_context - at), all_logits=False)
        ms = self.decode(self.n_context, count, all_logits=True)
        self.forget_from(self.n_context)
        return {"ms": ms}

    def time_prefill(self, count):
        self.forget_from(0)
        return {"ms": self.decode(0, count, all_logits=False)}

    def about(self):
        library = api._lib
        library.ggml_commit.restype = library.ggml_version.restype = api.ctypes.c_char_p
        built = Path(sys.prefix).parent / "built"
        return {
            "llama_cpp_python": llama_cpp.__version__, "llama_cpp": api.llama_version().decode(),
            "ggml": library.ggml_version().decode(), "commit": library.ggml_commit().decode(),
            "built": ", ".join(built.read_text().splitlines()) if built.exists() else "not by setup-llama",
            "system_info": " ".join(api.llama_print_system_info().decode().split()),
            "threads": api.llama_n_threads(self.context), "n_ctx": api.llama_n_ctx(self.context),
            "n_batch": api.llama_n_batch(self.context), "n_ubatch": api.llama_n_ubatch(self.context),
            "type_k": self.settings.type_k, "type_v": self.settings.type_v, "notes": self.notes,
        }

    def answer(self, line):
        match line.split():
            case ["about"]:
                return self.about()
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
