"""llama.cpp by its C interface, for the workers of this folder: a model with one context and one sequence.

Runs in the environment that setup-llama makes.
"""
import sys
import time
from pathlib import Path

import llama_cpp
from llama_cpp import llama_cpp as api

from common import how_built

LOG_INFO, LOG_WARN, LOG_ERROR = 2, 3, 4  # enum ggml_log_level
SEQUENCE = 0


class Log:
    """Takes what llama.cpp says; keep it as long as anything of llama.cpp is used."""

    def __init__(self):
        self.notes = []  # of its choices
        self.callback = api.llama_log_callback(self.take)  # kept, or it would be collected
        api.llama_log_set(self.callback, None)
        api.llama_backend_init()

    def take(self, level, text, _):
        text = text.decode(errors="replace").strip()
        if level in (LOG_WARN, LOG_ERROR):
            print(text, file=sys.stderr)
        elif level == LOG_INFO and ("buffer size" in text or "Flash Attention" in text):
            self.notes.append(" ".join(text.split()))


class Sequence:
    """A model and the tokens 0 .. n_kept that are in its KV cache."""

    def __init__(self, path, threads, n_ctx):
        self.model = api.llama_model_load_from_file(str(path).encode(), api.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp does not load {path}")
        self.settings = api.llama_context_default_params()
        self.settings.n_ctx = n_ctx
        self.settings.n_threads = self.settings.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, self.settings)
        if not self.context:
            sys.exit("llama.cpp makes no context")
        self.memory = api.llama_get_memory(self.context)
        self.vocab = api.llama_model_get_vocab(self.model)
        self.n_vocab = api.llama_vocab_n_tokens(self.vocab)
        self.batch = api.llama_batch_init(self.settings.n_ctx, 0, 1)
        self.n_kept = 0

    def decode(self, tokens, all_logits):
        """Milliseconds for tokens behind those kept, which are then kept too; logits for all or for the last."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.n_kept + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = SEQUENCE
            batch.logits[i] = all_logits or i == len(tokens) - 1
        start = time.perf_counter_ns()
        code = api.llama_decode(self.context, batch)
        api.llama_synchronize(self.context)
        end = time.perf_counter_ns()
        if code:
            sys.exit(f"llama_decode fails with {code}")
        self.n_kept += len(tokens)
        return (end - start) / 1e6

    def prefill(self, tokens):
        """As decode, in as many batches as it takes; logits for the last token."""
        limit = api.llama_n_batch(self.context)
        for at in range(0, len(tokens), limit):
            self.decode(tokens[at:at + limit], all_logits=False)

    def keep(self, count):
        """Forgets all but the first `count` tokens."""
        if count < self.n_kept:
            if not api.llama_memory_seq_rm(self.memory, SEQUENCE, count, -1):
                sys.exit("llama.cpp does not forget tokens of this model")
            self.n_kept = count


def about(sequence, log):
    """Who answers: version, flags, settings, where the weights lie."""
    library = api._lib
    library.ggml_commit.restype = library.ggml_version.restype = api.ctypes.c_char_p
    return {
        "llama_cpp_python": llama_cpp.__version__, "llama_cpp": api.llama_version().decode(),
        "ggml": library.ggml_version().decode(), "commit": library.ggml_commit().decode(),
        "built": how_built(Path(sys.prefix).parent / "built"),
        "system_info": " ".join(api.llama_print_system_info().decode().split()),
        "threads": api.llama_n_threads(sequence.context), "n_ctx": api.llama_n_ctx(sequence.context),
        "n_batch": api.llama_n_batch(sequence.context), "n_ubatch": api.llama_n_ubatch(sequence.context),
        "type_k": sequence.settings.type_k, "type_v": sequence.settings.type_v, "notes": log.notes,
    }
