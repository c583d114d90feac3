"""Short texts on which byte-pair tokenisers tend to disagree.

Everything outside ASCII is escaped, because half of these characters are
invisible or look like another one.
"""

from __future__ import annotations

SPACES = [
    "",
    " ",
    "  ",
    "     ",
    "  a",
    "a  ",
    "a b  c   d    e",
    " leading and trailing ",
    "\t",
    "\t\tx",
    "a\tb \t c",
    "\n",
    "\n\n\n",
    "line one\nline two\n",
    "line one\r\nline two\r\n\r\n",
    "\r\r\n",
    "a \n b",
    "a\n  \n   b",
    "   \n",
    "a\u00a0b\u00a0\u00a0c",             # no-break space
    "\u3000\u4e2d\u3000\u3000\u6587",    # ideographic space
    "a\u0085b \u0085",                   # next line, a space for \s
    "a\u2003b\u2028c\u2029d\u202fe",     # em space, line and paragraph separators
    "a\u180eb\u1680c",                   # Mongolian separator (no space), Ogham space
    "a\vb\fc \v\f",
]

WORDS = [
    "Hello, world!",
    "I'll you've he's they'd I'm we're can't",
    "I'LL YOU'VE HE'S THEY'D 'S 'T'Re",
    "it\u2019s \u2018quoted\u2019 \u201ctext\u201d we\u2019ll",
    "'s 's'll ''ve 'x 'llama",
    "rock'n'roll 'tis 1990's",
    "don't  'd\n'm",
    "\u00dcber na\u00efve caf\u00e9 \u00e6on \u0152uvre \u00df \u1e9e",
    "e\u0301 n\u0303 a\u0328\u0301 \u0301 alone",  # combining marks are no letters
    "z\u0351\u036b\u0343z",
    "\u01c5 \u02b0 \u00aa \u2160 \u24d0",          # title case, modifier, ordinal, Roman, circled
    "a" * 300,
    " " * 300,
    "ab" * 150,
    "<|im_start|>user <|endoftext|>",               # not special here
]

DIGITS = [
    "0123456789",
    "abc123def",
    " 1 22  333   4444",
    "3.14159e-10, -1,000,000.00",
    "\u0660\u0661\u0662\u0663 \u06f4\u06f5\u06f6",  # Arabic-Indic, extended Arabic-Indic
    "\u0967\u0968\u0969 \u0e51\u0e52 \uff11\uff12", # Devanagari, Thai, full width
    "x\u00b2 + y\u00b3 = \u00bd \u2153\u2155 10\u207b\u2076",  # category No
    "\u00b2\u00b3\u00b9 \u00bc\u00bd\u00be  \u00b2",     # these touch or follow spaces
    "   7\n  8\t 9  a",
    "\u2167 \u2462 \u3007 \u3021 \u4e00\u4e8c\u4e09",  # Nl, No, Nl, Nl, then ideographs
    "\U0001d7d8\U0001d7ec \U00010107",              # mathematical and Aegean digits
    "v1.2.3-rc4",
    "'1 's1 '2nd",
]

SCRIPTS = [
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u662f2024\u5e745\u6708",
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc\u3001\u6f22\u5b57",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e17\u0e35\u0e48\u0e19\u0e49\u0e33",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0939\u093f\u0902\u0926\u0940",
    "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab\uae00",   # syllables, then loose jamo
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0650\u0633\u0652\u0645\u0650 \u05e9\u05b8\u05dc\u05d5\u05b9\u05dd",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u03ba\u03cc\u03c3\u03bc\u03b5! \u10d2\u10d0",
    "\U00020000\U0002a6df\U00030000",                # ideographs beyond the first plane
]

SYMBOLS = [
    "\U0001f600\U0001f680 \U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f1ef\U0001f1f5\U0001f1e7\U0001f1f7 1\ufe0f\u20e3",
    "zero\u200bwidth\u200cnon\u200djoin\ufeffer\u2060",
    "\u202bbidi\u202c soft\u00adhyphen",
    "\u20ac100 \u00a35 $6.50 \u2122\u00ae \u2026\u2014\u2013",
    "!!!??? --- ===>> #$%&*",
    "\ufffd \ufffe \ue000 \U0010ffff",               # replacement, noncharacter, private use
    "a\x00b\x01\x7f\x1b[0m",
]

CODE = [
    "def f(x):\n    return x**2 + 1  # ok\n",
    "for (int i = 0; i < n; ++i) {\n\ta[i] += b[i]->c;\n}\r\n",
    "https://example.org/a/b?c=1&d=%20e#frag user@example.org",
    "{\"key\": [1, 2.5, null], 'x': \"\\n\\t\"}",
    "snake_case camelCase SCREAMING_CASE x_1",
    "C:\\dir\\file.txt ../up/~one",
]

# This vocabulary has no piece for some bytes.  The encoder leaves such a byte
# out, and what stood on both sides of it within one word is merged as if the
# two had been neighbours.
MISSING_BYTES = [
    "\x04",
    "th\x04e",
    "=\x04= \x13\x13==",
    "a\U00040000b \U00080000",                       # lead bytes 0xf1 and 0xf2
]

CASES = [*SPACES, *WORDS, *DIGITS, *SCRIPTS, *SYMBOLS, *CODE, *MISSING_BYTES]
