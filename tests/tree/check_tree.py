#!/usr/bin/env python3
"""check_tree.py [BUILD]: rules of this tree that no compiler checks. One line a violation, exit status 1 if any.
check_tree.py --rooms: prints the rooms, with their lines and who sees (calls) whom.

BUILD (default: build) is a directory with a finished build; its compile_commands.json and objects are needed.
test_check_tree.py proves that each check can fail.
"""
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Has the table of rooms: the rooms whose headers each may include, and those it may call alone.
ROOMS_FILE = "docs/ARCHITECTURE.md"
ROOMS_HEAD = ["room", "what it is", "sees", "calls"]
ROOM_NAME = re.compile(r"`(?:src/(\w+)|(cli))/`")
FOR_ALL = "base"  # every room may see it

OS_HEADER = re.compile(r"(sys|linux)/.*|(unistd|pthread|sched|fcntl|signal|dirent)\.h")
# (file, OS header): why it may include it although it is not in the platform room.
OS_HEADER_EXCEPTIONS = {
    ("src/compute/team.c", "pthread.h"): "its members' thread handles live in its own struct",
}

SYSTEM_HEADERS = Path("/usr/include")

C_HEADERS = {
    "assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h", "inttypes.h", "iso646.h", "limits.h",
    "locale.h", "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h",
    "stdint.h", "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h", "tgmath.h", "threads.h", "time.h", "uchar.h",
    "wchar.h", "wctype.h",
}

# Of these what C++ does not have, or not as C has it.
C_ALONE_HEADERS = {"complex.h", "stdalign.h", "stdatomic.h", "stdnoreturn.h", "tgmath.h", "threads.h"}

# What we never call: unbounded writes, hidden state, shells, conversions without errors, jumps over clean-up.
BANNED = re.compile(r"(?<![\w.])(?<!->)(strcpy|strcat|sprintf|vsprintf|gets|rand|srand|system|popen|atoi|atof|strtok"
                    r"|alloca|_?setjmp|_?longjmp|sigsetjmp|siglongjmp)\s*\(")

# What goes by the locale that a host has asked for, in which numbers may have a comma.
BY_LOCALE = re.compile(r"(?<![\w.])(?<!->)(strto(?:d|f|ld)|is(?:alnum|alpha|blank|cntrl|digit|graph|lower|print|punct"
                       r"|space|upper|xdigit)|to(?:lower|upper)|str(?:n?casecmp|coll|xfrm)|mb\w*to\w+|wc\w*to\w+"
                       r"|setlocale|uselocale|localeconv)\s*\(")
PRINTS_NUMBERS = re.compile(r"(?<![\w.])(?<!->)((?:f|d|sn|vf|vsn)printf|[fs]?scanf|vf?scanf)\s*\(")
REAL_CONVERSION = re.compile(r"%[-+ #0'*.\d$]*(?:hh?|ll?|[jztL])?[aefgAEFG]")
NUMBERS = ("src/base/number.c", "src/base/number.h")  # do it in a locale of their own
FOR_PEOPLE = re.compile(r"cli/cmd_\w+\.c")  # what they print that is not for people is JSON, by the library for it

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
ROOM_LINES_MAX = 5000
KERNELS = re.compile(r"src/compute/kernels_\w+\.c")  # one instruction set each, as long as that takes
FILE_BYTES_MAX = 1 << 20

# (file, variable): why it may be a mutable global.
GLOBAL_EXCEPTIONS = {
    ("src/platform/interrupt.c", "current"): "the kernel hands a signal handler nothing of ours",
}

# What comes before must not be the rest of a longer path or address.
MACHINE_PATH = re.compile(rb"(?:(?<![\w.~$})-])(?<!:/)|(?<=-[IL]))/(?:work|root|home/[a-z_][\w-]*)(?![\w-])")

WARNINGS = ["-Wall", "-Wextra", "-Wshadow=local", "-Wvla", "-Werror",
            "-Wno-unknown-warning-option"]  # clang does not know -Wshadow=local
C = [os.environ.get("CC", "cc"), "-x", "c", "-std=c17", *WARNINGS, "-Wstrict-prototypes", "-Wmissing-prototypes"]
CXX = [os.environ.get("CXX", "c++"), "-x", "c++", "-std=c++17", *WARNINGS]


@dataclass(frozen=True, order=True)
class Violation:
    file: str
    line: int
    what: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.what}"


# ---- Reading C ----

# Comments, strings and character constants; only one that is closed counts.
LEXEME = re.compile(r'/\*.*?\*/|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
FUNCTION_HEAD = re.compile(r"\)[^=]*\{\}$")
TYPE_HEAD = re.compile(r"\s*(typedef|struct|union|enum)\b[^(]*\{")
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


def blank(text):
    """As many lines and columns, and nothing on them."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return LEXEME.sub(lambda m: blank(m[0]) if m[0].startswith("/") else m[0], text)


def code_only(text):
    """Comments and what is inside quotes blanked out; offsets and lines stay."""
    def replace(m):
        return blank(m[0]) if m[0].startswith("/") else m[0][0] + blank(m[0][1:-1]) + m[0][-1]
    return LEXEME.sub(replace, text)


def code_without_directives(text):
    return DIRECTIVE.sub(lambda m: blank(m[0]), code_only(text))


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*(?:"([^"\n]*)"|<([^>\n]*)>|(.*))', re.MULTILINE)


def includes(text):
    """Yields (line, how, name) of each include; how is '"', '<', or '' when the name is computed."""
    for m in INCLUDE.finditer(without_comments(text)):
        quoted, angled, computed = m.groups()
        how = '"' if quoted is not None else "<" if angled is not None else ""
        yield line_of(text, m.start()), how, quoted or angled or computed or ""


@dataclass(frozen=True)
class Outer:
    """Something at file scope: a declaration or a function."""
    head: str  # its text with braces and what is in them replaced by {}
    first: int  # lines
    last: int
    is_function: bool


def outer_items(text):
    """Splits a file into what stands at file scope. None when the braces do not pair (#if around half of a pair)."""
    code = code_without_directives(text)
    items, head, start, depth = [], "", None, 0
    for m in re.finditer(r"[{};]|[^{};]+", code):
        token = m[0]
        if depth == 0 and start is None and token.strip():
            start = m.start() + len(token) - len(token.lstrip())
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth < 0:
                return None
            if depth == 0:
                head += "{}"
                if FUNCTION_HEAD.search(head) and not TYPE_HEAD.match(head):
                    items.append(Outer(head.strip(), line_of(code, start), line_of(code, m.start()), True))
                    head, start = "", None
        elif depth == 0 and token == ";":
            if start is not None:
                items.append(Outer(head.strip(), line_of(code, start), line_of(code, m.start()), False))
            head, start = "", None
        elif depth == 0:
            head += token
    return items if depth == 0 else None


# A variable that is static in a function, up to its '=' or ';'.
LOCAL_STATIC = re.compile(r"(?:^[ \t]+|[{};][ \t]*)(static\b[^;{}=]*(?:\{[^{}]*\}[^;{}=]*)?)[=;]", re.MULTILINE)
TAG = re.compile(r"^((?:static|extern|const|volatile|_Thread_local|_Atomic)\s+)*"
                 r"(struct|union|enum)\b\s*(\w+)?\s*(\{\})?")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|_Alignas\s*\([^()]*\)|\b[A-Z][A-Z0-9_]*_API\b")


def mutable_variable(declaration):
    """Name of the variable that a declaration (without its ';') makes writable, or None. A heuristic."""
    text = ATTRIBUTE.sub(" ", declaration).split("=")[0].strip()
    if re.match(r"(typedef|_Static_assert|static_assert|return)\b", text):
        return None
    text = TAG.sub(lambda m: ("const " if "const" in m[0].split() else "") + "TAG ", text)
    if re.fullmatch(r"(const )?TAG\s*", text):
        return None  # declares a type alone
    text = re.sub(r"\[[^\]]*\]", "", text)
    pointer = re.match(r"[^(]*\(\s*\*\s*(const\s+)?(\w+)\s*\)\s*\(", text)
    if pointer:
        return None if pointer[1] else pointer[2]  # a pointer to a function
    if "(" in text:
        return None  # a prototype or a macro
    names = re.findall(r"\w+", text)
    if len(names) < 2:
        return None
    binding = text.rsplit("*", 1)[-1]  # const counts where it binds the variable itself
    return None if re.search(r"\bconst(expr)?\b", binding) else names[-1]


def function_name(head):
    before = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head).split("(")[0]
    names = re.findall(r"\w+", before)
    return names[-1] if names else "?"


# ---- The tree ----

@dataclass(frozen=True)
class Row:
    """A room's row of the table."""
    line: int
    sees: list
    calls: list

    @property
    def may_see(self):
        return {*self.sees, FOR_ALL}


def table_rows(text):
    """Yields (line, cells) of the table of rooms."""
    inside = False
    for line, row in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")] if row.startswith("|") else []
        if inside and cells and not re.fullmatch(r":?-+:?", cells[0]):
            yield line, cells
        inside = cells == ROOMS_HEAD or inside and cells != []


class Tree:
    def __init__(self, root):
        self.root = Path(root)
        self._text = {}

    def text(self, name):
        if name not in self._text:
            self._text[name] = (self.root / name).read_text(encoding="utf-8", errors="replace")
        return self._text[name]

    @functools.cached_property
    def files(self):
        """Names of all files that are tracked or could be: everything but what .gitignore names."""
        try:
            listed = subprocess.run(["git", "-C", self.root, "ls-files", "-z", "-c", "-o", "--exclude-standard"],
                                    capture_output=True, check=True).stdout.decode().split("\0")
        except (OSError, subprocess.CalledProcessError):  # an exported tree
            listed = [str(p.relative_to(self.root)) for p in self.root.rglob("*")]
            listed = [n for n in listed if not re.match(r"build|\.git/|\.git$", n) and "__pycache__" not in n]
        return sorted({n for n in listed if n and (self.root / n).is_file() and not (self.root / n).is_symlink()})

    def under(self, folder, *suffixes):
        return [n for n in self.files if n.startswith(folder + "/") and n.endswith(suffixes)]

    def room_of(self, name):
        parts = name.split("/")
        if parts[0] == "cli":
            return "cli"
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None

    @functools.cached_property
    def rooms(self):
        """Row of each room, as the table has them; of a room that has two the first."""
        rooms = {}
        for line, cells in table_rows(self.text(ROOMS_FILE)) if ROOMS_FILE in self.files else []:
            name = ROOM_NAME.fullmatch(cells[0])
            if name and len(cells) == len(ROOMS_HEAD):
                sees, calls = ([word.strip() for word in cell.split(",") if word.strip()] for cell in cells[2:])
                rooms.setdefault(name[1] or name[2], Row(line, sees, calls))
        return rooms

    @property
    def sources(self):
        """C files and headers of all rooms."""
        return self.under("src", ".c", ".h") + self.under("cli", ".c", ".h")

    @property
    def public_headers(self):
        return self.under("include", ".h")

    @functools.cached_property
    def header_owner(self):
        """Bare name of each internal header: (room, file)."""
        return {Path(n).name: (self.room_of(n), n) for n in reversed(self.sources) if n.endswith(".h")}

    def headers_reached(self, name):
        """Internal headers that a file includes, and those that these include."""
        reached, left = set(), [name]
        while left:
            for _, how, what in includes(self.text(left.pop())):
                header = self.header_owner[what][1] if how == '"' and what in self.header_owner else None
                if header and header not in reached:
                    reached.add(header)
                    left.append(header)
        return reached

    def room_lines(self, room):
        return sum(self.text(n).count("\n") for n in self.sources if self.room_of(n) == room)

    def room_path(self, room):
        return self.root / ("cli" if room == "cli" else f"src/{room}")


# ---- Checks: each yields violations ----

def check_table(tree):
    """The table of rooms is one of rooms that are there, and says what CMake says and includes need: no less, no more."""
    if not tree.rooms:
        yield Violation(ROOMS_FILE, 1, f"has no table of rooms (| {' | '.join(ROOMS_HEAD)} |)")
        return
    above = set()
    for line, cells in table_rows(tree.text(ROOMS_FILE)):
        name = ROOM_NAME.fullmatch(cells[0])
        if len(cells) != len(ROOMS_HEAD):
            yield Violation(ROOMS_FILE, line, f"{len(cells)} cells; {len(ROOMS_HEAD)} are needed")
        elif name:
            room = name[1] or name[2]
            if room in above:
                yield Violation(ROOMS_FILE, line, f"{room} has two rows")
            elif not any(tree.room_of(n) == room for n in tree.sources):
                yield Violation(ROOMS_FILE, line, f"there is no room '{room}'")
            else:
                yield from wrong_row(tree, room, above)
            above.add(room)
        elif cells[0] != "`include/sereno/`" or any(cells[2:]):
            yield Violation(ROOMS_FILE, line, f"{cells[0]} is neither a room nor the public headers, which see nothing")
    for name, room, sees, calls in cmake_rooms(tree):
        row = tree.rooms.get(room, Row(1, [], []))
        for word, built, listed in (("SEES", sees - {FOR_ALL}, row.sees), ("CALLS", calls, row.calls)):
            if built != set(listed):
                yield Violation(name, 1, f"{room} {word} {' '.join(sorted(built)) or 'nothing'}, but by the table "
                                         f"{', '.join(sorted(listed)) or 'nothing'}")


def wrong_row(tree, room, above):
    """Violations of a room's row; above: the rooms of the rows above it."""
    row = tree.rooms[room]
    included = {tree.room_of(h) for n in tree.sources if tree.room_of(n) == room for h in tree.headers_reached(n)}
    named = row.sees + row.calls
    for other in sorted(set(named)):
        if other == FOR_ALL:
            yield Violation(ROOMS_FILE, row.line, f"{room} names {other}, which every room sees")
        elif other not in above:
            yield Violation(ROOMS_FILE, row.line, f"{room} names {other}, which is no room of a row above")
        elif named.count(other) > 1:
            yield Violation(ROOMS_FILE, row.line, f"{room} names {other} twice; what it sees it may call")
        elif other in row.sees and other not in included:
            yield Violation(ROOMS_FILE, row.line, f"{room} sees {other}, but includes no header of it")


def check_rooms(tree):
    """Every include is one that the room's row of the table allows."""
    first = {}
    for name in tree.sources:
        if tree.room_of(name) not in tree.rooms:
            yield Violation(name, 1, f"'{tree.room_of(name)}' is not a room: {ROOMS_FILE} has no row of it")
        base = Path(name).name
        if name.endswith(".h") and first.setdefault(base, name) != name:
            yield Violation(name, 1, f"header names must be unique; {first[base]} has this name too")
        if name.endswith(".h") and (SYSTEM_HEADERS / base).exists():
            yield Violation(name, 1, "the system has a header of this name, which other rooms would include unnoticed")
    for name in tree.sources:
        if tree.room_of(name) in tree.rooms:
            for line, how, what in includes(tree.text(name)):
                problem = wrong_include(tree, name, how, what)
                if problem:
                    yield Violation(name, line, problem)
    for name in tree.public_headers:
        for line, how, what in includes(tree.text(name)):
            if how == '"' and what.startswith("sereno/"):
                if f"include/{what}" not in tree.files:
                    yield Violation(name, line, f'there is no public header "{what}"')
            elif how == "<" and what in C_ALONE_HEADERS:
                yield Violation(name, line, f"a public header is for C++ too, but <{what}> is for C alone")
            elif how != "<" or what not in C_HEADERS:
                yield Violation(name, line, f"a public header may include only public and standard headers, not {what}")


def wrong_include(tree, name, how, what):
    room = tree.room_of(name)
    if how == "":
        return f"computed include '{what}'"
    if how == "<":
        if what.startswith("sereno/") or what in tree.header_owner and what not in C_HEADERS:
            return f'<{what}> is ours: include it as "{what}"'
        if OS_HEADER.fullmatch(what) and room != "platform" and (name, what) not in OS_HEADER_EXCEPTIONS:
            return f"<{what}> belongs to the operating system: only src/platform/ may include it"
        return None
    if re.fullmatch(r"sereno/[\w-]+\.h", what):
        return None if f"include/{what}" in tree.files else f'there is no public header "{what}"'
    if "/" in what or ".." in what:
        return f'"{what}": include headers by their bare names'
    if what not in tree.header_owner:
        return f'no room has a header "{what}"'
    owner = tree.header_owner[what][0]
    if owner != room and owner not in tree.rooms[room].may_see:
        return f'{room} may not include "{what}", which belongs to {owner}'
    return None


def compiled_files(tree, build):
    """Yields (file, directory, arguments) of each file that the build compiles; file is relative to the tree."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        arguments = entry.get("arguments") or shlex.split(entry["command"])
        yield os.path.relpath(file, os.path.realpath(tree.root)), entry["directory"], arguments


def compile_commands(tree, build):
    """One (directory, arguments without files) a room that the build compiles."""
    commands = {}
    for name, directory, arguments in compiled_files(tree, build):
        room = tree.room_of(name)
        if room not in tree.rooms or room in commands:
            continue
        file, given, kept = os.path.realpath(tree.root / name), iter(arguments), []
        for argument in given:
            if argument in ("-o", "-MF", "-MT", "-MQ"):
                next(given, None)
            elif argument not in ("-c", "-MD", "-MMD") and os.path.join(directory, argument) != file and \
                    os.path.realpath(argument) != file:
                kept.append(argument)
        commands[room] = (directory, kept)
    return commands


def compiles_with(tree, room, command, header, scratch):
    """Whether a file of the room that includes header compiles, and what the compiler said."""
    directory, arguments = command
    source = Path(scratch) / "probe.c"
    source.write_text(f'#include "{header}"\n')
    # A file of the room would find what lies beside it.
    ran = subprocess.run([*arguments, "-iquote", str(tree.room_path(room)), "-fsyntax-only", str(source)],
                         cwd=directory, capture_output=True, text=True, check=False,
                         env={**os.environ, "LC_ALL": "C"})
    return ran.returncode == 0, ran.stderr


def check_wrong_include_fails(tree, build):
    """By the compile command of each room, a header of each forbidden room is not found; its own is."""
    shown = str(Path(build) / "compile_commands.json")
    try:
        commands = compile_commands(tree, Path(build))
    except (OSError, ValueError, KeyError) as problem:
        yield Violation(shown, 1, f"cannot be read; configure the build first ({problem})")
        return
    headers = {}  # one a room
    for header, (room, file) in sorted(tree.header_owner.items()):
        headers.setdefault(room, (header, file))
    tried = 0
    with tempfile.TemporaryDirectory() as scratch:
        for room in sorted({tree.room_of(n) for n in tree.sources if n.endswith(".c")} & set(tree.rooms)):
            if room not in commands:
                yield Violation(shown, 1, f"no file of {room} is compiled")
                continue
            for other, (header, file) in sorted(headers.items()):
                if other != room and other in tree.rooms[room].may_see:
                    continue
                good, said = compiles_with(tree, room, commands[room], header, scratch)
                missing = f" {header}: No such file" in said or f"'{header}' file not found" in said
                if other == room and not good:
                    yield Violation(file, 1, f"does not compile in its own room: {first_line(said)}")
                elif other != room and good:
                    yield Violation(file, 1, f"{room} may not include it, yet it compiles there")
                elif other != room and not missing:
                    yield Violation(file, 1, f"{room} may not include it, but it is found there: {first_line(said)}")
                tried += other != room
    if tried == 0:
        yield Violation(shown, 1, "no forbidden include could be tried")


def first_line(said):
    return next((line for line in said.splitlines() if "error" in line), said.strip().split("\n")[0])


def room_objects(tree, build):
    """(room, file) of each object that the build makes for a room; those of tests and fuzzers are no room's."""
    objects = {}
    for name, directory, arguments in compiled_files(tree, build):
        output = arguments[arguments.index("-o") + 1]
        target = re.search(r"CMakeFiles/room_(\w+)\.dir/", output)
        room = target[1] if target else "cli" if name.startswith("cli/") else None
        if room in tree.rooms:
            objects[os.path.join(directory, output)] = (room, name)
    return objects


# "object: symbol type ..."
SYMBOL = re.compile(r"(.+): (\S+) ([A-Za-z])(?: .*)?")


def object_symbols(objects):
    """Yields (object, symbol, whether it is defined there) of all that objects say to each other."""
    said = subprocess.run([os.environ.get("NM", "nm"), "-A", "-P", *objects], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    for line in said.splitlines():
        m = SYMBOL.fullmatch(line)
        if m and m[1] in objects and (m[3] in "Uvw" or m[3].isupper()):
            yield m[1], m[2], m[3] not in "Uvw"


def check_calls(tree, build):
    """By the objects of the build: a room needs functions of no rooms but those of its row, and of all that it calls."""
    shown = str(Path(build) / "compile_commands.json")
    try:
        objects = room_objects(tree, Path(build))
        symbols = list(object_symbols(objects)) if objects else []
    except FileNotFoundError as problem:
        if problem.filename == os.environ.get("NM", "nm"):
            yield Violation(shown, 1, f"{problem.filename} is needed to tell who calls whom; it is part of binutils")
        else:
            yield Violation(shown, 1, f"cannot be read; configure the build first ({problem})")
        return
    except (OSError, ValueError, KeyError) as problem:
        yield Violation(shown, 1, f"cannot be read; configure the build first ({problem})")
        return
    except subprocess.CalledProcessError as problem:
        yield Violation(shown, 1, f"objects cannot be read; finish the build first ({first_line(problem.stderr)})")
        return
    owner = {symbol: objects[file][0] for file, symbol, defined in symbols if defined}
    public = {word for name in tree.public_headers for word in re.findall(r"\bsereno_\w+", code_only(tree.text(name)))}
    used = set()
    for file, symbol, defined in symbols:
        (room, name), other = objects[file], owner.get(symbol)
        if defined or other in (None, room, FOR_ALL):
            continue
        used.add((room, other))
        row = tree.rooms[room]
        if other not in row.sees + row.calls:
            yield Violation(name, 1, f"{room} needs {symbol} of {other}, which its row neither sees nor calls")
        elif other not in row.sees and symbol not in public:
            yield Violation(name, 1, f"{room} needs {symbol} of {other}, of which it may call public functions alone")
    for room, row in tree.rooms.items():
        if not any(room == of for of, _ in objects.values()):
            yield Violation(shown, 1, f"no object of {room} is built")
        for other in row.calls:
            if (room, other) not in used:
                yield Violation(ROOMS_FILE, row.line, f"{room} calls {other}, but needs nothing of it")


def check_headers_alone(tree):
    """Each header compiles with nothing before it, and a second time (its guard); public ones as C and as C++."""
    def compile_twice(compiler, include, paths, *more):
        flags = [f"-I{path}" for path in paths]
        return subprocess.run([*compiler, "-fsyntax-only", *more, *flags, "-"],
                              input=f'#include "{include}"\n#include "{include}"\n', capture_output=True, text=True,
                              check=False, cwd=tree.root)

    public = tree.root / "include"
    for name in tree.public_headers:  # as a stranger compiles them: without our definitions
        for language, compiler in (("C17", C), ("C++17", CXX)):
            ran = compile_twice(compiler, Path(name).relative_to("include"), [public], "-pedantic")
            if ran.returncode:
                yield Violation(name, 1, f"does not compile alone as {language}: {first_line(ran.stderr)}")
                break
    for name in tree.sources:
        room = tree.room_of(name)
        if not name.endswith(".h") or room not in tree.rooms:
            continue
        seen = [tree.room_path(other) for other in sorted(tree.rooms[room].may_see)]
        paths = [tree.root / Path(name).parent, *seen, public]
        ran = compile_twice(C, Path(name).name, paths, "-D_POSIX_C_SOURCE=200809L")
        if ran.returncode:
            yield Violation(name, 1, f"does not compile alone: {first_line(ran.stderr)}")


def check_linkage(tree):
    """What a public header declares stands between SERENO_BEGIN and SERENO_END, and what it includes before them."""
    for name in tree.public_headers:
        code = code_without_directives(tree.text(name))
        if not re.fullmatch(r"\s*(SERENO_BEGIN\b.*\bSERENO_END\s*)?", code, re.DOTALL):
            yield Violation(name, 1, "what it declares is not between SERENO_BEGIN and SERENO_END")
        begin = code.find("SERENO_BEGIN")
        for line, _, what in includes(tree.text(name)):
            if 0 <= begin and line_of(code, begin) < line:
                yield Violation(name, line, f"{what} is included after SERENO_BEGIN")


def check_banned(tree):
    for name in tree.sources + tree.under("tools", ".c"):
        code = code_only(tree.text(name))
        for m in BANNED.finditer(code):
            yield Violation(name, line_of(code, m.start()), f"{m[1]}() is banned")


def call_text(text, code, start):
    """A call's arguments as they stand, from the parenthesis that opens at start; code: the text with quotes blanked."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return text[start:i]
    return text[start:]


def check_numbers(tree):
    """Numbers are read and written as number.h does it, and nothing else goes by the locale."""
    for name in tree.sources + tree.under("tools", ".c"):
        if name in NUMBERS:
            continue
        text = without_comments(tree.text(name))
        code = code_only(tree.text(name))
        for m in BY_LOCALE.finditer(code):
            yield Violation(name, line_of(code, m.start()), f"{m[1]}() goes by the host's locale")
        for m in PRINTS_NUMBERS.finditer(code):
            literals = "".join(s[1:-1] for s in LEXEME.findall(call_text(text, code, m.end() - 1)) if s[0] == '"')
            if not REAL_CONVERSION.search(literals.replace("%%", "")) or (FOR_PEOPLE.fullmatch(name) and "print" in m[1]):
                continue
            yield Violation(name, line_of(code, m.start()),
                            f"{m[1]}() of a number with a point goes by the host's locale; number.h does not")


def check_lengths(tree):
    for room in tree.rooms:
        lines = tree.room_lines(room)
        if lines > ROOM_LINES_MAX:
            folder = str(tree.room_path(room).relative_to(tree.root))
            yield Violation(folder, 1, f"{lines} lines; a room has at most {ROOM_LINES_MAX}")
    for name in tree.sources + tree.public_headers:
        lines = tree.text(name).count("\n")
        if lines > FILE_LINES_MAX and not KERNELS.fullmatch(name):
            yield Violation(name, lines, f"{lines} lines; at most {FILE_LINES_MAX} are allowed")
        items = outer_items(tree.text(name))
        if items is None:
            yield Violation(name, 1, "braces do not pair, so functions cannot be told apart")
            continue
        for item in items:
            length = item.last - item.first + 1
            if item.is_function and length > FUNCTION_LINES_MAX:
                what = f"{function_name(item.head)} has {length} lines; at most {FUNCTION_LINES_MAX} are allowed"
                yield Violation(name, item.first, what)


def check_globals(tree):
    """No mutable variables that outlive a call: at file scope, or static in a function."""
    for name in tree.under("src", ".c", ".h"):
        found = {}
        for item in outer_items(tree.text(name)) or []:
            if not item.is_function:
                variable = mutable_variable(item.head)
                if variable:
                    found.setdefault(variable, item.first)
        code = code_without_directives(tree.text(name))
        for m in LOCAL_STATIC.finditer(code):
            variable = mutable_variable(re.sub(r"\{[^{}]*\}", "{}", m[1]))
            if variable:
                found.setdefault(variable, line_of(code, m.start(1)))
        for variable, line in found.items():
            if (name, variable) not in GLOBAL_EXCEPTIONS:
                yield Violation(name, line, f"'{variable}' is a mutable global")


def check_files(tree):
    for name in tree.files:
        data = (tree.root / name).read_bytes()
        if len(data) > FILE_BYTES_MAX:
            yield Violation(name, 1, f"{len(data)} bytes; at most {FILE_BYTES_MAX} are allowed")
            continue
        for m in MACHINE_PATH.finditer(data):
            yield Violation(name, data.count(b"\n", 0, m.start()) + 1, f"a path of one machine: {m[0].decode()}")
        if not name.endswith((".c", ".cc", ".h")):
            continue
        if not data.endswith(b"\n"):
            yield Violation(name, data.count(b"\n") + 1, "no newline at the end")
        for number, line in enumerate(data.split(b"\n"), 1):
            if b"\t" in line:
                yield Violation(name, number, "a tab")
            if line != line.rstrip():
                yield Violation(name, number, "blanks at the end")


COMMAND = re.compile(r"\b(sereno_room|target_sources|add_library|add_executable)\s*\(([^()]*)\)")


def cmake_commands(tree):
    """Yields (file, command, words) of what CMake's files say of sources."""
    for name in [n for n in tree.files if n.split("/")[-1] == "CMakeLists.txt" or n.endswith(".cmake")]:
        for command, body in COMMAND.findall(re.sub(r"#.*", "", tree.text(name))):
            yield name, command, body.split()


def cmake_rooms(tree):
    """Yields (file, room, rooms it SEES, rooms it CALLS) of each sereno_room()."""
    for name, command, words in cmake_commands(tree):
        if command == "sereno_room" and words:
            lists, into = {}, None
            for word in words[1:]:
                if word.isupper():
                    into = lists.setdefault(word, set())
                elif into is not None:
                    into.add(word)
            yield name, words[0], lists.get("SEES", set()), lists.get("CALLS", set())


def built_files(tree):
    """Names of the C files that CMake compiles."""
    built = set()
    for name, command, words in cmake_commands(tree):
        folder = "" if "/" not in name else name.rsplit("/", 1)[0] + "/"
        base = f"src/{words[0]}/" if command == "sereno_room" and words else folder
        built |= {base + word for word in words if word.endswith(".c")}
    return built


def check_built(tree):
    built = built_files(tree)
    for name in tree.under("src", ".c"):
        if name not in built:
            yield Violation(name, 1, "no CMakeLists.txt compiles it")


# ---- Documents ----

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
TREE_PATH = re.compile(r"(?:src|include|cli|tests|tools|docs|bench|examples|profiles|fuzz|cmake)/[\w./*-]+")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
NAMED_SECTION = re.compile(r"\b([\w/]+\.md)[,:]? +\(?\"([^\"]+)\"")
NAMED_DOCUMENT = re.compile(r"\b((?:docs|src|bench)/[\w/]*\.md)\b")


def headings(text):
    return [m[1].strip() for m in HEADING.finditer(FENCE.sub(lambda m: blank(m[0]), text))]


def anchor(heading):
    """As Markdown's readers name a heading in an address."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def wrong_link(tree, name, target):
    path, _, section = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
    if not (tree.root / file).exists():
        return f"links to {target}, which is not there"
    if section and file.endswith(".md") and section not in map(anchor, headings(tree.text(file))):
        return f"links to {target}, but {file} has no such heading"
    return None


def check_documents(tree):
    """Documents and comments name files and headings that are there."""
    for name in [n for n in tree.files if n.endswith(".md")]:
        text = FENCE.sub(lambda m: blank(m[0]), tree.text(name))
        for m in LINK.finditer(text):
            problem = None if re.match(r"\w+:", m[1]) else wrong_link(tree, name, m[1])
            if problem:
                yield Violation(name, line_of(text, m.start()), problem)
        for m in CODE_SPAN.finditer(text):
            path = m[1].rstrip("/")
            if TREE_PATH.fullmatch(path) and not re.search(r"[A-Z]{4,}(?!\.md|Lists)", path) and \
                    not any(tree.root.glob(path)):
                yield Violation(name, line_of(text, m.start()), f"names {path}, which is not there")
    for name in tree.sources + tree.public_headers:
        comments = re.sub(r"\n\s*\*?", lambda m: " " * len(m[0]), tree.text(name))
        for m in NAMED_DOCUMENT.finditer(comments):
            if not (tree.root / m[1]).is_file():
                yield Violation(name, line_of(tree.text(name), m.start()), f"names {m[1]}, which is not there")
        for m in NAMED_SECTION.finditer(comments):
            section = " ".join(m[2].split())
            if (tree.root / m[1]).is_file() and section not in headings(tree.text(m[1])) and \
                    f"**{section}" not in tree.text(m[1]):
                yield Violation(name, line_of(tree.text(name), m.start()), f'{m[1]} has no heading "{section}"')


def check_all(tree, build):
    checks = [check_table, check_rooms, lambda t: check_wrong_include_fails(t, build), lambda t: check_calls(t, build),
              check_headers_alone, check_linkage, check_banned, check_numbers, check_lengths, check_globals, check_files,
              check_built, check_documents]
    return sorted({violation for check in checks for violation in check(tree)})


def rooms_text(tree):
    """The rooms with their lines, what they see and (call), and what sees and (calls) them."""
    def both(sees, calls):
        return ", ".join([*sees, *(f"({name})" for name in calls)])
    lines = [("room", "lines", "sees (calls)", "seen (called) by")]
    for room, row in tree.rooms.items():
        by = [[other for other, its in tree.rooms.items() if room in names(its)]
              for names in (lambda its: its.sees, lambda its: its.calls)]
        lines.append((room, str(tree.room_lines(room)), both(row.sees, row.calls), "all" if room == FOR_ALL else both(*by)))
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    return "\n".join(f"{a:{widths[0]}}  {b:>{widths[1]}}  {c:{widths[2]}}  {d}".rstrip() for a, b, c, d in lines)


def main(arguments):
    root = Path(__file__).resolve().parents[2]
    tree = Tree(root)
    if arguments == ["--rooms"]:
        print(rooms_text(tree))
        return 0
    violations = check_all(tree, Path(arguments[0]) if arguments else root / "build")
    for violation in violations:
        print(violation)
    if not violations:
        print(f"tree: OK, {len(tree.files)} files, {len(tree.sources) + len(tree.public_headers)} of them C in rooms")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
