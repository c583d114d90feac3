"""A plain float64 forward pass for llama-architecture GGUF models.

Why this exists: the C runtime needs something to be compared with that was
not made from the same ideas twice.  So this file favours the textbook form of
every step over speed: weights are dequantised once, everything after that is
float64, activations are never quantised, and the key/value cache keeps full
precision.  What is left is the model itself, and rounding near 1e-13.

Shapes are written in comments with these letters:
    T  positions in this call        P  positions in the cache after this call
    D  model width                   H  query heads        G  key/value heads
    E  width of one head             V  vocabulary size
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

Array = np.ndarray


# --------------------------------------------------------------------------
# Reading the file
# --------------------------------------------------------------------------

class Metadata:
    """Typed look-up of the key/value part of a GGUF file."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = reader.fields

    def get(self, key: str, default: Any = None) -> Any:
        found = self._fields.get(key)
        return default if found is None else found.contents()

    def need(self, key: str) -> Any:
        if key not in self._fields:
            raise KeyError(f"the model file has no {key}")
        return self.get(key)


@dataclass(frozen=True)
class Shape:
    """The numbers that fix a llama model's computation."""

    n_layers: int
    width: int
    n_heads: int
    n_kv_heads: int
    head_width: int
    rope_width: int
    rope_base: float
    norm_eps: float

    @classmethod
    def from_metadata(cls, meta: Metadata) -> "Shape":
        refuse_what_is_not_modelled(meta)
        width = meta.need("llama.embedding_length")
        n_heads = meta.need("llama.attention.head_count")
        head_width = meta.get("llama.attention.key_length", width // n_heads)
        return cls(
            n_layers=meta.need("llama.block_count"),
            width=width,
            n_heads=n_heads,
            n_kv_heads=meta.get("llama.attention.head_count_kv", n_heads),
            head_width=head_width,
            rope_width=meta.get("llama.rope.dimension_count", head_width),
            rope_base=meta.get("llama.rope.freq_base", 10000.0),
            norm_eps=meta.need("llama.attention.layer_norm_rms_epsilon"),
        )


def refuse_what_is_not_modelled(meta: Metadata) -> None:
    """Stop on features this file lacks: a wrong reference is worse than none."""
    arch = meta.need("general.architecture")
    if arch != "llama":
        raise ValueError(f"architecture {arch!r} is not modelled, only 'llama'")
    if meta.get("llama.expert_count", 0):
        raise ValueError("mixture-of-experts models are not modelled")
    scaling = meta.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(f"rope scaling {scaling!r} is not modelled")


class Weights:
    """Hands out tensors as float64 and remembers which ones were asked for."""

    def __init__(self, reader: GGUFReader) -> None:
        self._left = {tensor.name: tensor for tensor in reader.tensors}

    def take(self, name: str) -> Array:
        # A matrix comes out as (outputs, inputs): GGUF names the fast axis first.
        tensor = self._left.pop(name)
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def take_if_present(self, name: str) -> Array | None:
        return self.take(name) if name in self._left else None

    def check_all_used(self) -> None:
        """A tensor nobody asked for (a bias, say) would mean a wrong result."""
        if self._left:
            raise ValueError(f"tensors not understood: {sorted(self._left)}")


# --------------------------------------------------------------------------
# The forward pass
# --------------------------------------------------------------------------

def rms_norm(x: Array, gain: Array, eps: float) -> Array:
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + eps) * gain


def silu(x: Array) -> Array:
    # exp(-|x|) cannot overflow, whichever sign x has.
    small = np.exp(-np.abs(x))
    return x * np.where(x >= 0, 1.0, small) / (1.0 + small)


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


class Rope:
    """Rotary positions on neighbouring pairs (0,1), (2,3), ...

    The converter to GGUF reorders the rows of Q and K for this architecture,
    so pairs that were half a head apart in the original weights are adjacent.
    """

    def __init__(self, shape: Shape, divisors: Array | None) -> None:
        exponents = np.arange(0, shape.rope_width, 2) / shape.rope_width
        self._speeds = np.float64(shape.rope_base) ** -exponents
        if divisors is not None:
            self._speeds = self._speeds / divisors
        self._width = shape.rope_width

    def turn(self, x: Array, positions: Array) -> Array:
        """Rotate x (T, heads, E) by the angles of its positions (T)."""
        angles = positions[:, None, None] * self._speeds  # (T, 1, rope_width / 2)
        cos, sin = np.cos(angles), np.sin(angles)
        even, odd = x[..., 0:self._width:2], x[..., 1:self._width:2]
        out = x.copy()  # channels past rope_width stay as they are
        out[..., 0:self._width:2] = even * cos - odd * sin
        out[..., 1:self._width:2] = even * sin + odd * cos
        return out


@dataclass
class Layer:
    """The nine tensors of one block, under the names of the model file."""

    attn_norm: Array
    attn_q: Array
    attn_k: Array
    attn_v: Array
    attn_output: Array
    ffn_norm: Array
    ffn_gate: Array
    ffn_up: Array
    ffn_down: Array

    @classmethod
    def take(cls, weights: Weights, index: int) -> "Layer":
        names = cls.__dataclass_fields__
        return cls(**{n: weights.take(f"blk.{index}.{n}.weight") for n in names})


@dataclass
class Cache:
    """Keys (already rotated) and values per layer, each (P, G, E)."""

    keys: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    @classmethod
    def empty(cls, shape: Shape) -> "Cache":
        def blank() -> list[Array]:
            size = (0, shape.n_kv_heads, shape.head_width)
            return [np.zeros(size) for _ in range(shape.n_layers)]
        return cls(blank(), blank())

    def __len__(self) -> int:
        return len(self.keys[0])

    def append(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        # Copying the whole cache each time is slow, but there is no size to guess.
        self.keys[layer] = np.concatenate([self.keys[layer], keys])
        self.values[layer] = np.concatenate([self.values[layer], values])
        return self.keys[layer], self.values[layer]


class Model:
    """A llama model whose arithmetic is float64 throughout."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.meta = Metadata(reader)
        self.shape = Shape.from_metadata(self.meta)
        weights = Weights(reader)
        self.embedding = weights.take("token_embd.weight")
        self.layers = [Layer.take(weights, i) for i in range(self.shape.n_layers)]
        self.final_norm = weights.take("output_norm.weight")
        head = weights.take_if_present("output.weight")
        self.head = self.embedding if head is None else head
        self.rope = Rope(self.shape, weights.take_if_present("rope_freqs.weight"))
        weights.check_all_used()

    def new_cache(self) -> Cache:
        return Cache.empty(self.shape)

    def last_logits(self, tokens: list[int], cache: Cache) -> Array:
        """Feed tokens after what the cache holds; return logits (V) of the last."""
        positions = np.arange(len(cache), len(cache) + len(tokens))
        x = self.embedding[tokens]  # (T, D)
        for index, layer in enumerate(self.layers):
            x = x + self._attention(index, layer, x, positions, cache)
            x = x + self._feed_forward(layer, x)
        return self.head @ rms_norm(x[-1], self.final_norm, self.shape.norm_eps)

    def _attention(
        self, index: int, layer: Layer, x: Array, positions: Array, cache: Cache
    ) -> Array:
        h = rms_norm(x, layer.attn_norm, self.shape.norm_eps)
        queries = self.rope.turn(self._heads(h @ layer.attn_q.T), positions)
        keys = self.rope.turn(self._heads(h @ layer.attn_k.T), positions)
        keys, values = cache.append(index, keys, self._heads(h @ layer.attn_v.T))
        mixed = attend(queries, keys, values, positions)  # (T, H, E)
        return mixed.reshape(len(x), -1) @ layer.attn_output.T

    def _heads(self, flat: Array) -> Array:
        return flat.reshape(len(flat), -1, self.shape.head_width)

    def _feed_forward(self, layer: Layer, x: Array) -> Array:
        h = rms_norm(x, layer.ffn_norm, self.shape.norm_eps)
        return (silu(h @ layer.ffn_gate.T) * (h @ layer.ffn_up.T)) @ layer.ffn_down.T


def attend(queries: Array, keys: Array, values: Array, positions: Array) -> Array:
    """Causal attention; consecutive query heads share one key/value head.

    queries (T, H, E), keys and values (P, G, E); returns (T, H, E).
    """
    n_heads, head_width = queries.shape[1:]
    heads_per_group = n_heads // keys.shape[1]
    in_the_future = np.arange(len(keys))[None, :] > positions[:, None]  # (T, P)
    out = np.empty_like(queries)
    for head in range(n_heads):
        group = head // heads_per_group
        scores = queries[:, head] @ keys[:, group].T / np.sqrt(head_width)
        scores[in_the_future] = -np.inf
        out[:, head] = np.exp(log_softmax(scores)) @ values[:, group]
    return out


def greedy(model: Model, prompt: list[int], n_steps: int) -> Iterator[tuple[int, Array]]:
    """Yield (token, log-probabilities) per step.

    The end token gets no special treatment, so there are always n_steps steps.
    np.argmax returns the first maximum: the lowest id wins a tie.
    """
    cache = model.new_cache()
    feed = prompt
    for _ in range(n_steps):
        logits = model.last_logits(feed, cache)
        token = int(np.argmax(logits))
        yield token, log_softmax(logits)
        feed = [token]


# --------------------------------------------------------------------------
# Tokens
# --------------------------------------------------------------------------

def split_rule(name: str) -> pre_tokenizers.PreTokenizer:
    """The rule that cuts text into words before byte-pair merging."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name == "gpt-2":
        return words
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, words])
    raise ValueError(f"pre-tokenizer {name!r} is not modelled")


class TextCodec:
    """Text to token ids and back, from the vocabulary inside the model file.

    Text is raw: no chat template is applied and no special token is looked
    for, so "<|im_start|>" in the text is just punctuation and letters.
    """

    def __init__(self, meta: Metadata, pre: str | None = None) -> None:
        kind = meta.need("tokenizer.ggml.model")
        if kind != "gpt2":
            raise ValueError(f"tokenizer {kind!r} is not modelled, only 'gpt2'")
        pieces = meta.need("tokenizer.ggml.tokens")
        merges = [tuple(m.split(" ")) for m in meta.need("tokenizer.ggml.merges")]
        vocabulary = {piece: index for index, piece in enumerate(pieces)}
        self._tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self._tokenizer.pre_tokenizer = split_rule(pre or meta.need("tokenizer.ggml.pre"))
        self._tokenizer.decoder = decoders.ByteLevel()
        self._bos = meta.get("tokenizer.ggml.bos_token_id")
        self._add_bos = bool(meta.get("tokenizer.ggml.add_bos_token", False))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_prompt(self, text: str) -> list[int]:
        """Like encode, with the beginning token where the model wants one.

        An empty prompt becomes that token too: a model needs one position.
        """
        ids = self.encode(text)
        return [self._bos, *ids] if self._add_bos or not text else ids

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Greedy continuation of a text.")
    parser.add_argument("model", type=Path)
    parser.add_argument("text")
    parser.add_argument("-n", type=int, default=32, help="tokens to make")
    args = parser.parse_args()
    model = Model(args.model)
    codec = TextCodec(model.meta)
    tokens = [t for t, _ in greedy(model, codec.encode_prompt(args.text), args.n)]
    print(args.text + codec.decode(tokens))


if __name__ == "__main__":
    main()
