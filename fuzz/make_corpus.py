#!/usr/bin/env python3
"""make_corpus.py: writes the seeds of the fuzz targets into corpus/<target>/. What fuzzing found there stays."""
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
SCALARS = {UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?",
           UINT64: "Q", INT64: "q", FLOAT64: "d"}
F32, F16, Q4_0, Q8_0, Q6_K = 0, 1, 2, 8, 14
# Number, weights and bytes of a block (src/base/tensor_type.h).
TENSOR_TYPES = [
    (0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (9, 32, 36), (10, 256, 84),
    (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (15, 256, 292), (16, 256, 66), (17, 256, 74),
    (18, 256, 98), (19, 256, 50), (20, 32, 18), (21, 256, 110), (22, 256, 82), (23, 256, 136), (24, 1, 1), (25, 1, 2),
    (26, 1, 4), (27, 1, 8), (28, 1, 8), (29, 256, 56), (30, 1, 2), (34, 256, 54), (35, 256, 66), (39, 32, 17),
]
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


# ---- GGUF ----

def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def string(data):
    data = data.encode() if isinstance(data, str) else data
    return u64(len(data)) + data


def value(kind, x):
    return string(x) if kind == STRING else struct.pack("<" + SCALARS[kind], x)


def key(name, kind, x):
    return string(name) + u32(kind) + value(kind, x)


def array(name, element, items, count=None):
    return (string(name) + u32(ARRAY) + u32(element) + u64(len(items) if count is None else count)
            + b"".join(value(element, x) for x in items))


def tensor(name, dims, kind=F32, offset=0):
    return string(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf(keys=(), tensors=(), data=b"", version=3, n_keys=None, n_tensors=None, magic=b"GGUF", alignment=32):
    head = (magic + u32(version) + u64(len(tensors) if n_tensors is None else n_tensors)
            + u64(len(keys) if n_keys is None else n_keys) + b"".join(keys) + b"".join(tensors))
    return head + b"\0" * (-len(head) % alignment if data else 0) + data


def every_tensor_type():
    tensors, offset = [], 0
    for kind, weights, size in TENSOR_TYPES:
        tensors.append(tensor(f"t{kind}", [weights], kind, offset))
        offset += (size + 7) // 8 * 8
    return gguf([key("general.alignment", UINT32, 8)], tensors, b"\xA5" * offset, alignment=8)


def byte_spelling(byte):
    """As GPT-2 writes bytes in tokens."""
    def printable(b):
        return 33 <= b <= 126 or 161 <= b <= 172 or b >= 174
    return chr(byte) if printable(byte) else chr(256 + sum(not printable(b) for b in range(byte)))


def vocabulary(tokens, kinds=None, merges=(), pre="smollm", model="gpt2", more=()):
    keys = [key("tokenizer.ggml.model", STRING, model), array("tokenizer.ggml.tokens", STRING, tokens),
            array("tokenizer.ggml.merges", STRING, merges)]
    if pre is not None:
        keys.append(key("tokenizer.ggml.pre", STRING, pre))
    if kinds is not None:
        keys.append(array("tokenizer.ggml.token_type", INT32, kinds))
    return gguf(keys + list(more))


def gguf_seeds():
    name = key("general.name", STRING, "small")
    matrix = tensor("blk.0.w", [4, 2])
    data = struct.pack("<8f", *range(8))
    whole = gguf([name], [matrix], data)
    letters = ["<|im_end|>", "h", "e", "l", "o", "he", "ll", "hell", "hello", "Ġ", "1", "2", "12", "Ċ", "'", "s"]
    merges = ["h e", "l l", "he ll", "hell o", "1 2"]
    kinds = [CONTROL] + [NORMAL] * (len(letters) - 1)
    every_byte = [byte_spelling(b) for b in range(256)]
    # The bytes of the text that fuzz_gguf.c tries.
    sample = [byte_spelling(b) for b in sorted(set(b"Hello  12 it's \xC3\xA9\xFF\n<|im_end|>"))]
    sample_more = ["ll", "He", "Hell", "im", "<|", "ĠĠ", "Ã©"]
    sample_merges = ["l l", "H e", "He ll", "i m", "< |", "Ġ Ġ", "Ã ©"]
    return {
        "valid-v2": gguf([name], [matrix], data, version=2),
        "valid-v3": whole,
        "valid-empty": gguf(),
        "valid-quantised": gguf([], [tensor("a", [64, 1], Q4_0), tensor("b", [32], Q8_0, 64),
                                     tensor("c", [256], Q6_K, 128)], b"\x5A" * 338),
        "valid-every-type": every_tensor_type(),
        "valid-four-dims": gguf([], [tensor("a", [2, 2, 2, 2], F16)], b"\1" * 32),
        "valid-alignment-8": gguf([key("general.alignment", UINT32, 8)], [tensor("a", [1]), tensor("b", [1], F32, 8)],
                                  b"\1" * 12, alignment=8),
        "every-scalar": gguf([key(f"k{kind}", kind, 1) for kind in SCALARS] + [key("s", STRING, "text")]),
        "every-extreme": gguf([key("u8", UINT8, 255), key("i8", INT8, -128), key("u16", UINT16, 65535),
                               key("i16", INT16, -32768), key("u32", UINT32, 2**32 - 1), key("i32", INT32, -2**31),
                               key("u64", UINT64, 2**64 - 1), key("i64", INT64, -2**63),
                               key("nan", FLOAT32, float("nan")), key("inf", FLOAT64, float("inf")),
                               key("empty", STRING, "")]),
        "every-array": gguf([array(f"a{kind}", kind, [1, 0, 1]) for kind in SCALARS]
                            + [array("s", STRING, ["", "a", "bc"])]),
        "every-array-empty": gguf([array(f"a{kind}", kind, []) for kind in [*SCALARS, STRING]]),
        "array-nested": gguf([string("a") + u32(ARRAY) + u32(ARRAY) + u64(1) + u32(UINT8) + u64(1) + b"\1"]),
        "array-count-2e63": gguf([array("a", UINT16, [1, 2], count=2**63)]),
        "array-count-wraps": gguf([array("a", UINT64, [1], count=2**61 + 1)]),
        "array-strings-2e63": gguf([array("a", STRING, ["", ""], count=2**63)]),
        "key-twice": gguf([name, key("general.name", UINT8, 1)]),
        "key-empty": gguf([key("", UINT8, 1)]),
        "key-with-zero": gguf([key("a\0b", UINT8, 1), key("a\0c", UINT8, 1)]),
        "key-not-utf8": gguf([key(b"\xC3(\x1B[2J\xFF", UINT8, 1), key(b"\xC3(\x1B[2J\xFF", UINT8, 1)]),
        "key-type-unknown": gguf([string("k") + u32(13) + b"\0" * 8]),
        "key-length-2e64": gguf([u64(2**64 - 1) + b"key" + b"\0" * 16]),
        "string-length-2e64": gguf([string("k") + u32(STRING) + u64(2**64 - 8) + b"text"]),
        "count-keys-2e63": gguf([name], n_keys=2**63),
        "count-tensors-2e63": gguf([name], n_tensors=2**63),
        "count-keys-one-more": gguf([name], n_keys=2),
        "count-tensors-one-more": gguf([name], [matrix], data, n_tensors=2),
        "alignment-0": gguf([key("general.alignment", UINT32, 0)], [matrix], data),
        "alignment-4": gguf([key("general.alignment", UINT32, 4)], [matrix], data),
        "alignment-48": gguf([key("general.alignment", UINT32, 48)], [matrix], data),
        "alignment-2e31": gguf([key("general.alignment", UINT32, 2**31)], [matrix], data),
        "alignment-negative": gguf([key("general.alignment", INT32, -32)], [matrix], data),
        "alignment-string": gguf([key("general.alignment", STRING, "32")], [matrix], data),
        "tensor-twice": gguf([], [matrix, matrix], data),
        "tensor-same-data": gguf([], [matrix, tensor("b", [8])], data),
        "tensor-past-end": gguf([], [tensor("a", [4, 3])], data),
        "tensor-offset-wraps": gguf([], [tensor("a", [4, 2], F32, 2**64 - 32)], data),
        "tensor-offset-unaligned": gguf([], [tensor("a", [1], F32, 4)], data),
        "tensor-offset-at-end": gguf([], [tensor("a", [8], F32, 32)], data),
        "dims-product-wraps": gguf([], [tensor("a", [2**31 - 1] * 4)], data),
        "dims-product-wraps-to-0": gguf([], [tensor("a", [2**30, 2**30, 4, 1])], data),
        "dims-too-large": gguf([], [tensor("a", [2**63, 2])], data),
        "dims-zero": gguf([], [tensor("a", [4, 0])], data),
        "dims-none": gguf([], [tensor("a", [])], data),
        "dims-five": gguf([], [tensor("a", [1] * 5)], data),
        "dims-not-blocks": gguf([], [tensor("a", [33, 2], Q4_0)], data),
        "tensor-type-unknown": gguf([], [tensor("a", [8], 99)], data),
        "tensor-type-removed": gguf([], [tensor("a", [32], 4)], data),
        "cut-in-magic": whole[:3],
        "cut-in-counts": whole[:20],
        "cut-in-key": whole[:34],
        "cut-in-tensor": whole[:90],
        "cut-in-data": whole[:-1],
        "big-endian": struct.pack(">4sIQQ", b"GGUF", 3, 0, 0),
        "version-1": gguf(version=1),
        "version-4": gguf(version=4),
        "magic": gguf(magic=b"GGJT"),
        "nothing": b"",
        "tokenizer": vocabulary(letters, kinds, merges, more=[
            key("tokenizer.ggml.eos_token_id", UINT32, 0), key("tokenizer.ggml.bos_token_id", UINT32, 0),
            key("tokenizer.ggml.add_bos_token", BOOL, True), key("tokenizer.ggml.add_eos_token", BOOL, True)]),
        "tokenizer-every-byte": vocabulary(every_byte, pre="gpt-2"),
        "tokenizer-sample": vocabulary(["<|im_end|>", *sample, *sample_more, "it'"],
                                       [CONTROL, *[NORMAL] * len(sample + sample_more), USER_DEFINED], sample_merges,
                                       more=[key("tokenizer.ggml.bos_token_id", UINT32, 0)]),
        "tokenizer-control-is-text": vocabulary(["l", "Hell", "1", *sample, *sample_more],
                                                [CONTROL] * 3 + [NORMAL] * len(sample + sample_more), sample_merges),
        "tokenizer-same-tokens": vocabulary(["a", "a", "", "b", "ab"],
                                            [NORMAL, CONTROL, NORMAL, USER_DEFINED, NORMAL], ["a b"]),
        "tokenizer-no-kinds": vocabulary(letters, None, merges, pre=None),
        "tokenizer-odd-spelling": vocabulary([" ", b"\xFF", b"\xC4", "\u3042", "Ā\u3042", b"\xC4\x80\xC4"]),
        "tokenizer-merge-not-pair": vocabulary(letters, kinds, ["h", " ", "h e "]),
        "tokenizer-merge-unknown": vocabulary(letters, kinds, ["e h"]),
        "tokenizer-merge-empty": vocabulary(letters, kinds, [""]),
        "tokenizer-few-kinds": vocabulary(letters, kinds[1:], merges),
        "tokenizer-kind-unknown": vocabulary(letters, [7] + kinds[1:], merges),
        "tokenizer-eos-too-large": vocabulary(letters, kinds, merges,
                                              more=[key("tokenizer.ggml.eos_token_id", UINT32, 16)]),
        "tokenizer-other-pre": vocabulary(letters, kinds, merges, pre="llama-bpe"),
        "tokenizer-other-model": vocabulary(letters, kinds, merges, model="llama"),
        "tokenizer-no-tokens": vocabulary([]),
    }


# ---- Text ----

def tokenizer_seeds():
    return {
        "english": "hello the hello's  world, it's 12 o'clock.\n\nThe end.\n",
        "chinese": "你好，世界。中文分词测试",
        "emoji": "👩‍👩‍👧‍👦 🙂😀 🇩🇪 ❤️",
        "accents": "éé e\u0301 naïve Straße ÅÄÖ éa",
        "digits": "0123456789 12 １２ ٣ ½ Ⅷ 12 12",
        "blanks": " \t\t\t  \n \r\n\n\n   x    ",
        "blanks-unicode": "\u00a0a\u2003\u2003b\u3000\u180e\u0085\u2028c\ufeff",
        "contractions": "I'm you're he's 's 't 're 've 'm 'll 'd 'S '' 'x",
        "overlaps": "aaa aaaa ababab babab aabaa llll hellohell",
        "long-run": "a" * 1001,
        "long-run-of-blanks": " " * 500 + "x",
        "control": "<|im_start|>user\nhello<|im_end|>\n<|im_end|><|im_start|><|endoftext|>",
        "control-nested": "<|im<|im_end|>_end|><|im_end<|im_start|>|>",
        "control-cut": "<|im_end|",
        "control-overlaps": "|><|im_end|><|im_start|><|imim_end|>",
        "symbols": "a+b==c->d; /* é */ {}[]()<>|&^%$#@!~`\\\"'",
        "zeros": b"a\0b\0\0 \0",
        "every-byte": bytes(range(256)),
        "every-byte-backwards": bytes(range(255, -1, -1)),
        "invalid-lone": b"a\x80b\xBF\xFFc \xFE",
        "invalid-overlong": b"\xC0\xAF \xE0\x80\xAF \xF0\x80\x80\xAF",
        "invalid-surrogates": b"\xED\xA0\x80\xED\xB0\x80",
        "invalid-too-large": b"\xF4\x90\x80\x80 \xF5\x80\x80\x80",
        "invalid-cut": b"\xF0\x9F\x98",
        "invalid-cut-twice": b"\xF0\x9F\xF0\x9F\x98\xE4\xBD\xE4",
        "invalid-in-control": b"<|im_\xC3end|>\xC3<|im_end|>\xA9",
        "replacement": "\ufffd\ufffd \ufffe",
        "edges": "\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff",
        "nothing": "",
    }


def procfs_seeds():
    most = 2**64 - 1
    return {
        "zeros": "0 0 0\n",
        "usual": "3849217364 1203948 5123\n",
        "most": f"{most} {most} {most}\n",
        "too-large-first": f"{most + 1} 0 0\n",
        "too-large-second": f"0 {most + 1} 0\n",
        "too-large-third": f"0 0 {most + 1}\n",
        "too-many-digits": "9" * 64 + " 0 0\n",
        "leading-zeros": "000000000000000000000000001 02 03\n",
        "no-newline": "1 2 3",
        "two-numbers": "1 2\n",
        "four-numbers": "1 2 3 4\n",
        "two-lines": "1 2 3\n1 2 3\n",
        "two-blanks": "1  2 3\n",
        "blank-first": " 1 2 3\n",
        "blank-last": "1 2 3 \n",
        "tabs": "1\t2\t3\n",
        "carriage-return": "1 2 3\r\n",
        "minus": "-1 2 3\n",
        "plus": "+1 2 3\n",
        "hex": "0x1 2 3\n",
        "fraction": "1.5 2 3\n",
        "zero-byte": b"1 2 3\0\n",
        "high-bytes": b"\xB1 2 3\n",
        "newline": "\n",
        "nothing": "",
        "autogroup-usual": "/autogroup-10040 nice 0\n",
        "autogroup-least": "/autogroup-1 nice 19\n",
        "autogroup-most": f"/autogroup-{most} nice -20\n",
        "autogroup-above": "/autogroup-1 nice 20\n",
        "autogroup-below": "/autogroup-1 nice -21\n",
        "autogroup-huge": f"/autogroup-1 nice {most + 2}\n",
        "autogroup-wraps": f"/autogroup-1 nice {2**32}\n",
        "autogroup-number-too-large": f"/autogroup-{most + 1} nice 1\n",
        "autogroup-leading-zeros": "/autogroup-01 nice -007\n",
        "autogroup-two-minus": "/autogroup-1 nice --1\n",
        "autogroup-plus": "/autogroup-1 nice +1\n",
        "autogroup-no-number": "/autogroup- nice 1\n",
        "autogroup-no-nice": "/autogroup-1 nice \n",
        "autogroup-blank": "/autogroup-1 nice  1\n",
        "autogroup-zero-byte": b"/autogroup-1 nice 1\0\n",
        "autogroup-no-newline": "/autogroup-1 nice 1",
        "autogroup-two-lines": "/autogroup-1 nice 1\n/autogroup-1 nice 1\n",
        "autogroup-cut": "/autogroup-1 ni",
    }


def sensor_seeds():
    """Pressure, energy and groups of counters: one target reads all three. The counters' ids are 41 and 42."""
    some = "some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\n"
    full = "full avg10=0.22 avg60=0.16 avg300=1.08 total=58300000\n"
    most = 2**64 - 1

    def words(*numbers):
        return struct.pack(f"<{len(numbers)}Q", *numbers)

    return {
        "psi-usual": some + full,
        "psi-some": some,
        "psi-full": full,
        "psi-twice": some + some,
        "psi-most": f"some avg10=100.00 avg60=99.99 avg300=0.00 total={most}\n",
        "psi-above": "some avg10=100.01 avg60=0.00 avg300=0.00 total=0\n",
        "psi-total-too-large": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={most + 1}\n",
        "psi-lines-to-come": "idle avg10=x\n" + full + "\n" + some,
        "psi-keys-to-come": some.replace("\n", " max=7\n"),
        "psi-cut": some + full[:-9],
        "psi-no-newline": some[:-1],
        "psi-digits": some.replace("0.22", "0.2"),
        "psi-zero-byte": some.replace(" avg60", "\0avg60"),
        "energy-usual": "262143328850\n",
        "energy-zero": "0\n",
        "energy-most": f"{most}\n",
        "energy-too-large": f"{most + 1}\n",
        "energy-leading-zeros": "00012\n",
        "energy-no-newline": "12",
        "perf-usual": words(2, 900, 900, 5000, 41, 1000, 42),
        "perf-shared": words(2, 900, 450, 1000, 42, 5000, 41),
        "perf-most": words(2, most, most, most, 41, most, 42),
        "perf-one-more": words(3, 900, 900, 7, 43, 5000, 41, 1000, 42),
        "perf-twice": words(3, 900, 900, 5000, 41, 1000, 42, 1000, 42),
        "perf-another": words(2, 900, 900, 5000, 41, 1000, 40),
        "perf-header": words(0, 900, 900),
        "perf-count-wraps": words(2**60 + 2, 900, 900, 5000, 41, 1000, 42),
        "perf-ran-too-long": words(2, 900, 901, 5000, 41, 1000, 42),
        "perf-cut": words(2, 900, 900, 5000, 41, 1000, 42)[:-1],
        "nothing": "",
    }


def sse_seeds():
    chunk = 'data: {"choices":[{"index":0,"delta":{"content":"a: b"},"finish_reason":null}]}'
    return {
        "usual": f"{chunk}\n\n{chunk}\n\ndata: [DONE]\n\n",
        "crlf": f": ping\r\n\r\n{chunk}\r\n\r\ndata: [DONE]\r\n\r\n",
        "cr": f"{chunk}\r\rdata: [DONE]\r\r",
        "mixed-ends": "data: a\n\r\ndata: b\r\n\ndata: c\n\rdata: d\r\r\n\ndata: e\r\r\r\n",
        "many-lines": "data: a\ndata:b\ndata:  c\ndata\ndata:\n: no\nevent: x\nid: 7\nretry: 1\ndata: d\n\n",
        "empty-events": "data\n\ndata:\n\ndata: \n\n\n\n",
        "other-names": "dat: a\ndatas: b\n data: c\ndata : d\nDATA: e\n\n",
        "bom": b"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n",
        "bom-alone": b"\xEF\xBB\xBF",
        "bom-cut": b"\xEF\xBBdata: a\n\n",
        "zero-bytes": b"data: \0a\0\n\n\0data: b\n\n",
        "high-bytes": b"data: \xFF\x80\n\n",
        "cut": "data: a\n\ndata: b\n",
        "cut-in-line": "data: a\n\ndata: b",
        "limit-line": "data: " + "x" * 249 + "\n\n",
        "past-limit-line": "data: " + "x" * 250 + "\n\n",
        "past-limit-comments": "data: a\n\n" + ": ping\n\n" * 40,
        "past-limit-ends": "data: a\n\n" + "\n\r" * 129,
        "html": "<!DOCTYPE html>\n<html>\n<p style=\"data: x\">\n</html>\n",
    }


def foreground_seeds():
    """Profiles and frame records: one target reads both."""
    record = ('{"frame":%s,"vsync_ns":1000,"start_ns":%s,"end_ns":%s,"deadline_ns":2000,"missed":%s,"dropped":%s,'
              '"latency_ns":%s}')
    shipped = {f"shipped-{path.stem}": path.read_text() for path in sorted((CORPUS.parents[1] / "profiles").glob("*.ini"))}
    return {
        **shipped,
        "every-key": "[profile]\nname = a-1\nabout = b\n[frames]\nfps = 7\nburst_ms = 1\nrest_ms = 600000\n[amount]\n"
                     "scale = 0.001\nspread = 1\nheavy_share = 1\nheavy = 10\n[work]\nwidth = 64\nheight = 8192\n"
                     "layers = 1e3\nphotos = 1e4\nglyphs = 1e7\nparticles = 0\nloads = 1e8\nshading = 1e9\n[data]\n"
                     "texture_mib = 1\nphoto_mib = 4096\nscene_mib = 1.5\n",
        "carriage-returns": "[frames]\r\nfps = 60\r\n\r\n",
        "section-empty": "[]\n",
        "section-unknown": "[play]\n",
        "section-open": "[frames\nfps = 1\n",
        "key-twice": "[frames]\nfps = 1\nfps = 2\n",
        "key-outside": "fps = 1\n",
        "key-empty": "[frames]\n= 1\n",
        "value-empty": "[frames]\nfps =\n",
        "value-hex": "[frames]\nfps = 0x10\n[amount]\nscale = 0x1p3\n",
        "value-nan": "[amount]\nscale = nan\n",
        "value-large": "[frames]\nfps = 18446744073709551617\n",
        "about-long": "[profile]\nabout = " + "x" * 160 + "\n",
        "about-bytes": b"[profile]\nabout = a\xff\x1b[31mb\n",
        "name-long": "[profile]\nname = " + "a" * 64 + "\n",
        "line-long": "x" * 600,
        "zero-byte": b"[frames]\nfps = 6\0\n",
        "record": record % (0, 1001, 1500, "false", 0, 81.25),
        "record-late": record % (2**63 - 1, 1000, 2001, "true", 2**32 - 1, "1e300"),
        "record-late-not-missed": record % (1, 1000, 2001, "false", 0, 0),
        "record-too-large": record % (2**63, 1001, 1500, "false", 0, 0),
        "record-backwards": record % (1, 1600, 1500, "false", 0, 0),
        "record-negative": record % (-1, 1001, 1500, "false", 0, -1),
        "record-infinite": record % (1, 1001, 1500, "false", 0, "1e999"),
        "record-key-twice": record % (1, 1001, 1500, "false", 0, '0,"frame":2'),
        "record-cut": (record % (1, 1001, 1500, "false", 0, 0))[:60],
        "summary": '{"summary":{"frames":3}}',
        "nested": "[" * 3000,
        "nothing": "",
    }


def configuration_seeds():
    return {
        "whole": "# mine\n[governor]\npolicy = ui-first\nkp = 3\n; and\nki=4\n",
        "policies": "[governor]\npolicy = throughput\n",
        "given": "[governor]\nmin_tok_s = 5\npolicy = balanced\nburst_off = 2\n",
        "burst": "[governor]\nburst_on = 0\nburst_off = -1\n",
        "whole-number": "[governor]\nburst_up = 1.5\n",
        "policy-unknown": "[governor]\npolicy = fast\n",
        "policy-twice": "[governor]\npolicy = balanced\npolicy = balanced\n",
        "key-twice": "[governor]\nkp = 1\nkp = 1\n",
        "key-unknown": "[governor]\nkq\x1b[31m = 1\n",
        "key-outside": "kp = 1\n",
        "key-empty": "[governor]\n= 1\n",
        "value-empty": "[governor]\nkp =\n",
        "value-nan": "[governor]\nkp = nan\n",
        "value-large": "[governor]\nfast_us = 1e999\n",
        "section-unknown": "[server]\nport = 1\n",
        "line-long": "[governor]\n" + "x" * 600,
        "zero-byte": b"[governor]\nkp = 1\0\n",
        "nothing": "",
    }


def calibration_seeds():
    head = "sereno-calibration 2\nweights 1 vocabulary 7 isa none threads 1\n"
    return {
        "whole": head + "quiet\n\nprobe 210.5 0.75\nrows 3\n0 1 2 0 0 100.25 0.5\n0 1 2 1 1 20 0\n1 8 1 0 2 400 0.125\n",
        "not-measured": head + "quiet\n\nprobe 0 -1\nrows 2\n0 1 2 0 0 100.25 -1\n0 1 2 1 1 20 0\n",
        "slope-negative": head + "quiet\n\nprobe 0 -1\nrows 1\n0 1 1 0 0 5 -1.5\n",
        "empty": head + "not quiet\nthe machine was not quiet\nprobe 0 0\nrows 0\n",
        "odd-numbers": head + "quiet\n\nprobe nan inf\nrows 1\n0 1 1 0 0 1e999 0x1p3\n",
        "order": head + "quiet\n\nprobe 1 1\nrows 2\n1 8 1 0 2 400 0.125\n0 1 2 0 0 100.25 0.5\n",
        "lie": head + "quiet\n\nprobe 1 1\nrows 1048576\n",
    }


def recording_seeds():
    """Without the check at the end. The times of passes make the head of an engine 2 KiB long, so there is one engine."""
    def varint(n):
        return (bytes([n & 127 | 128]) + varint(n >> 7)) if n > 127 else bytes([n])
    def numbers(*values):
        return b"".join(map(varint, values))
    def text(t):
        return varint(len(t)) + t.encode()
    def signed(n):
        return 2 * n if n >= 0 else -2 * n - 1
    def boundary(wall, gap, position=None, kind=None, slept=0, sample=None, verdict=None, faults=None, probe=None):
        """wall, gap, sample, faults: differences."""
        flags = sum(bit for bit, part in ((1, position), (2, kind), (4, slept), (8, sample), (16, verdict), (32, faults),
                                          (64, probe)) if part)
        parts = [2 * signed(wall) + (flags > 0)]
        parts += [flags] if flags else []
        parts += [*(position or ()), *([kind] if kind else []), *([slept] if slept else []), signed(gap)]
        parts += [signed(sample[0]), signed(sample[1]), sample[2]] if sample else []
        parts += verdict or ()
        parts += [len(faults), *map(signed, faults)] if faults else []
        parts += [probe[0], signed(probe[1])] if probe else []
        return numbers(*parts)
    head = b"sereno-recording 1\n" + text("0.1.0") + text("a processor") + text("a model") + text("") + numbers(1, 32 << 20)
    engine = (text("none") + numbers(100, 512, 1, 1, 16, 0, 1, 1 << 20, 1 << 20, 0)
              + b"".join(struct.pack("<d", 1000 + 100 * (n % 128)) for n in range(256)))
    windows = numbers(1000, 20000000, 2) + struct.pack("<6f", 0.5, 90, 11, 0, float("nan"), float("nan"))
    calibration = "sereno-calibration 2\na machine\nquiet\n\nprobe 210.5 0.75\nrows 1\n1 1 2 0 0 100.25 0.5\n"
    def whole(boundaries, count=None, size=None, calibrated=False, foreground=windows, dropped=0):
        content = b"".join(boundaries)
        return (head + engine + numbers(0) + (text(calibrated and calibration) if calibrated else numbers(0)) + foreground
                + numbers(dropped, len(boundaries) if count is None else count, len(content) if size is None else size)
                + content)
    first = boundary(100000, 1000000, position=(1, 1, 2, 0), faults=(500,), probe=(1600, 900))
    second = boundary(110000, 200, kind=1, sample=(2000000, 1000, 0))
    passes = [boundary(2000 * (-1) ** n, 5, probe=(1500, -700) if n % 5 == 0 else None,
                       faults=(0, 1) if n % 7 == 0 else None) for n in range(60)]
    return {
        "whole": whole([first, second, *passes]),
        "calibrated": whole([first, second, *passes], calibrated=True),
        "sleeps": whole([first, second, boundary(0, -100000, position=(1, 1, 2, 1), slept=500000, verdict=(1, 500)),
                         boundary(0, 0, verdict=(2, 0))], dropped=7),
        "none": whole([], foreground=numbers(0, 0, 0)),
        "lie-about-boundaries": whole([first], count=1 << 40),
        "lie-about-bytes": whole([first], size=1 << 62),
        "lie-about-windows": whole([first], foreground=numbers(0, 1, 1 << 20)),
        "subgraph": whole([boundary(1, 1, position=(1, 1, 2, 2))]),
        "no-position": whole([boundary(1, 1)]),
        "flags": whole([numbers(1, 128)]),
        "duty": whole([first], foreground=numbers(0, 1, 1) + struct.pack("<3f", 1.5, 1, 1)),
        "version": b"sereno-recording 2\n",
    }


def governor_seeds():
    """A policy, 30 settings (0: the default), then events: kind, plan, batch, 0.1 ms slept, time, and what was sensed."""
    def event(kind, now_us, plan=0, slept=0, slowdown=1.0, probe=float("nan"), run_delay=0.0, tokens=1, wall_us=300):
        return struct.pack("<4BQI5fi", kind, plan, 8, slept, now_us * 1000, wall_us * 1000, slowdown, 0.5, probe, 0.8,
                           run_delay, tokens)
    def run(policy, settings, events):
        return bytes([policy]) + settings + b"".join(events)
    begin, defaults = event(5, 0), bytes(30)
    contended = [event(0, 300 * i, plan=i // 8 % 3, slowdown=1.5, probe=1.8) for i in range(1, 80)]
    return {
        "balanced": run(1, defaults, [begin] + contended),
        "ui-first": run(2, defaults, [begin] + contended),
        "throughput": run(0, defaults, [begin] + contended),
        "lowest": run(1, b"\x01" * 30, [begin] + contended),
        "highest": run(2, b"\xff" * 30, [begin] + contended),
        "force-half": run(0, bytes(29) + b"\x14", [begin] + contended),
        "batch-odd": run(1, bytes(15) + b"\x20" + bytes(13) + b"\xa0", [begin] + contended),
        "cores": run(1, defaults, [begin] + [event(0, 3000 * i, plan=1, run_delay=0.5) for i in range(1, 30)]),
        "frames": run(2, defaults, [begin, event(9, 100, wall_us=8000), event(0, 200, plan=1), event(0, 400, 1, 2),
                                    event(10, 500), event(9, 8000, wall_us=2000000), event(0, 60000, plan=1)]),
        "pause": run(1, defaults, [begin, event(7, 10), event(0, 20), event(8, 30), event(3, 40), event(6, 50)]),
        "time-back": run(1, defaults, contended[40:] + contended[:40]),
        "time-far": run(1, defaults, [event(0, 2**64 // 1000 - 1), event(0, 1), event(0, 2**63 // 1000)]),
        "odd": run(2, defaults, [event(0, i, slowdown=s, probe=s, run_delay=s, tokens=-1) for i, s in
                                 enumerate((float("nan"), float("inf"), -1.0, 0.0, 1e38, 1e-45))]),
        "nothing": b"",
    }


def main():
    for target, seeds in (("fuzz_gguf", gguf_seeds()), ("fuzz_tokenizer", tokenizer_seeds()),
                           ("fuzz_procfs", procfs_seeds()), ("fuzz_sse", sse_seeds()),
                           ("fuzz_foreground", foreground_seeds()), ("fuzz_sensors", sensor_seeds()),
                           ("fuzz_configuration", configuration_seeds()),
                           ("fuzz_calibration", calibration_seeds()), ("fuzz_governor", governor_seeds()),
                           ("fuzz_recording", recording_seeds())):
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            content = content.encode() if isinstance(content, str) else content
            assert len(content) < 4096, name
            (folder / name).write_bytes(content)
        print(f"{folder.name}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
