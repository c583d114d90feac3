"""Writes the golden files that the C tests compare against.

    make_golden.py MODEL OUTDIR [--only NAME ...]

The layouts are described in README.md, next to this file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import long_prompt
from reference import Array, Metadata, Model, TextCodec, greedy
from token_cases import CASES

GOLDEN_MAGIC = b"SGOLD1\0\0"
TOKENS_MAGIC = b"SGTOK1\0\0"
N_STEPS = 64
N_TOP = 512
PROMPTS = ["english", "code", "chinese", "emoji", "empty", "long"]
PROMPT_DIR = Path(__file__).parent / "prompts"
PRE_TOKENIZERS = ["gpt-2", "smollm"]  # the index is the number in the file
MARGINS = [0.05, 0.1, 0.3]


@dataclass
class Step:
    """What one decoding step leaves in a golden file."""

    token: int
    top_ids: Array
    top_logprobs: Array
    tail_mass: float

    @classmethod
    def from_logprobs(cls, token: int, logprobs: Array) -> "Step":
        # A stable sort keeps the lowest id first among equals.
        order = np.argsort(-logprobs, kind="stable")
        top, rest = order[:N_TOP], order[N_TOP:]
        # Summing the tail itself: 1 - sum(top) would drown it in rounding.
        return cls(token, top, logprobs[top], float(np.exp(logprobs[rest]).sum()))

    @property
    def margin(self) -> float:
        """How far the runner-up is behind, in nats."""
        return float(self.top_logprobs[0] - self.top_logprobs[1])

    def packed(self) -> bytes:
        return b"".join([
            struct.pack("<f", self.tail_mass),
            self.top_ids.astype("<i4").tobytes(),
            self.top_logprobs.astype("<f4").tobytes(),
        ])


def packed_ids(ids: list[int]) -> bytes:
    return np.asarray(ids, dtype="<i4").tobytes()


def packed_golden(digest: bytes, text: bytes, prompt: list[int], steps: list[Step]) -> bytes:
    return b"".join([
        GOLDEN_MAGIC,
        digest,
        struct.pack("<4I", len(text), len(prompt), len(steps), N_TOP),
        text,
        packed_ids(prompt),
        packed_ids([step.token for step in steps]),
        *(step.packed() for step in steps),
    ])


def packed_tokens(digest: bytes, meta: Metadata) -> bytes:
    """All cases with the first pre-tokenizer, then all with the second."""
    parts = [TOKENS_MAGIC, digest, struct.pack("<I", len(PRE_TOKENIZERS) * len(CASES))]
    for number, name in enumerate(PRE_TOKENIZERS):
        codec = TextCodec(meta, pre=name)
        for text in CASES:
            raw, ids = text.encode("utf-8"), codec.encode(text)
            parts += [struct.pack("<B2I", number, len(raw), len(ids)), raw, packed_ids(ids)]
    return b"".join(parts)


def write_atomically(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of either."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)


def sha256_of(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def read_prompt(name: str) -> bytes:
    raw = (PROMPT_DIR / f"{name}.txt").read_bytes()
    if name == "long" and raw != long_prompt.build().encode("utf-8"):
        raise ValueError("prompts/long.txt is not what long_prompt.py makes")
    return raw


def run(model: Model, prompt: list[int], label: str) -> list[Step]:
    steps: list[Step] = []
    started = time.monotonic()
    progress(f"{label}: reading {len(prompt)} tokens")
    for token, logprobs in greedy(model, prompt, N_STEPS):
        steps.append(Step.from_logprobs(token, logprobs))
        seconds = time.monotonic() - started
        progress(f"{label}: step {len(steps)}/{N_STEPS}, {seconds:.0f} s")
    progress("")
    return steps


def progress(line: str) -> None:
    """One line that rewrites itself, or nothing when nobody is watching."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def describe_margins(steps: list[Step]) -> str:
    margins = [step.margin for step in steps]
    counts = [f"{sum(m < limit for m in margins)} below {limit}" for limit in MARGINS]
    return f"{len(margins)} margins, smallest {min(margins):.6f}: {', '.join(counts)}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the golden files for the C tests.")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("outdir", type=Path, metavar="OUTDIR")
    choices = [*PROMPTS, "tokens"]
    parser.add_argument("--only", nargs="+", choices=choices, default=choices, metavar="NAME",
                        help=f"write just these of: {', '.join(choices)}")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    args.outdir.mkdir(parents=True, exist_ok=True)
    digest = sha256_of(args.model)
    progress("loading the model")
    model = Model(args.model)
    if "tokens" in args.only:
        write_atomically(args.outdir / "tokens.golden", packed_tokens(digest, model.meta))
    codec = TextCodec(model.meta)
    all_steps: list[Step] = []
    for name in (n for n in PROMPTS if n in args.only):
        text = read_prompt(name)
        prompt = codec.encode_prompt(text.decode("utf-8"))
        steps = run(model, prompt, name)
        write_atomically(args.outdir / f"{name}.golden", packed_golden(digest, text, prompt, steps))
        print(f"{name}: {len(prompt)} prompt tokens; {describe_margins(steps)}")
        print(f"    {codec.decode([step.token for step in steps])!r}", flush=True)
        all_steps += steps
    if all_steps:
        print(f"all: {describe_margins(all_steps)}")


if __name__ == "__main__":
    main()
