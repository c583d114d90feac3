#!/usr/bin/env python3
"""Proves on small made-up trees that each check of check_tree.py passes what is right and fails what is wrong."""
import json
import subprocess
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import check_tree
from check_tree import Tree

GUARDED = "#ifndef {0}_H\n#define {0}_H\n{1}#endif\n"


def header(name, body=""):
    return GUARDED.format(name.upper(), body)


def table(**changes):
    """The rooms of GOOD, and others or (None) without some: what they see, and after a / what they call."""
    rows = {"base": "", "platform": "", "model": "/ platform", "engine": "model", "cli": "platform, model", **changes}
    lines = ["# X", "", "| room | what it is | sees | calls |", "|---|---|---|---|",
             "| `include/sereno/` | what is public | | |"]
    for room, names in rows.items():
        if names is not None:
            sees, _, calls = names.partition("/")
            lines.append(f"| `{'cli' if room == 'cli' else 'src/' + room}/` | a room | {sees} | {calls} |")
    return "\n".join([*lines, "", "| another | table |", ""])


TABLE = "docs/ARCHITECTURE.md"
LINE = {"base": 6, "platform": 7, "model": 8, "engine": 9, "cli": 10}  # of a room's row

# A tree without violations.
GOOD = {
    TABLE: table(),
    "include/sereno/api.h": header("sereno_api", "#include <stddef.h>\n"),
    "include/sereno/error.h": header("sereno_error", '#include "sereno/api.h"\n'),
    "src/base/text.h": header("text", '#include "sereno/error.h"\n'),
    "src/base/text.c": '#include "text.h"\n\n#include <string.h>\n',
    "src/platform/clock.h": header("clock", '#include "text.h"\n'),
    "src/platform/clock.c": '#include "clock.h"\n\n#include <unistd.h>\n',
    "src/model/gguf.h": header("gguf", '#include "text.h"\n'),
    "src/model/gguf.c": '#include "gguf.h"\n',
    "src/engine/run.c": '#include "gguf.h"\n',
    "cli/main.h": header("main", '#include "gguf.h"\n'),
    "cli/main.c": '#include "clock.h"\n#include "main.h"\n',
    "CMakeLists.txt": "sereno_room(base SOURCES text.c)\nsereno_room(platform SEES base SOURCES clock.c)\n"
                      "sereno_room(model SEES base CALLS platform\n  SOURCES gguf.c)\n"
                      "sereno_room(engine SEES base model SOURCES run.c)\n",
    ".gitignore": "/build\n",
}


class CheckTest(unittest.TestCase):
    GIT = False  # whether the tree is a repository: takes time

    def tree(self, **changes):
        """GOOD with files changed, added, or (None) left out; keys are paths."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for name, text in {**GOOD, **changes}.items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if self.GIT:
            subprocess.run(["git", "init", "-q", root], check=True)
        return Tree(root)

    def found(self, check, *arguments, **changes):
        return [str(v) for v in check(self.tree(**changes), *arguments)]

    def passes(self, check, **changes):
        self.assertEqual(self.found(check, **changes), [])

    def fails(self, check, expected, **changes):
        """Exactly one violation, which begins with and contains what is expected ("file:line: ... part")."""
        place, part = expected
        found = self.found(check, **changes)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place + ": "), found)
        self.assertIn(part, found[0])


class Table(CheckTest):
    check = staticmethod(check_tree.check_table)

    def row(self, room, names, expected):
        """A row that names these fails so, whatever else may."""
        found = self.found(self.check, **{TABLE: table(**{room: names})})
        self.assertIn(f"{TABLE}:{LINE[room]}: {expected}", "\n".join(found))

    def test_good_tree(self):
        self.passes(self.check)

    def test_no_table(self):
        for text in (None, "# X\n", table().replace(" calls |", " |")):
            self.fails(self.check, (f"{TABLE}:1", "has no table of rooms"), **{TABLE: text})

    def test_no_folder(self):
        self.fails(self.check, (f"{TABLE}:11", "there is no room 'server'"), **{TABLE: table(server="model")})
        self.fails(self.check, (f"{TABLE}:8", "there is no room 'model'"),
                   **{"src/model/gguf.c": None, "src/model/gguf.h": None, "cli/main.h": header("main"),
                      "src/engine/run.c": "", TABLE: table(engine="", cli="platform"),
                      "CMakeLists.txt": GOOD["CMakeLists.txt"].replace("SEES base model", "SEES base")})

    def test_no_row(self):
        self.fails(check_tree.check_rooms, ("src/engine/run.c:1", "not a room"), **{TABLE: table(engine=None)})
        self.fails(self.check, ("CMakeLists.txt:1", "engine SEES model, but by the table nothing"),
                   **{TABLE: table(engine=None)})

    def test_malformed_rows(self):
        for before, after, expected in (
                ("`src/engine/`", "engine", "neither a room"), ("| model |  |", "| model |", "3 cells"),
                ("`include/sereno/` | what is public | ", "`include/sereno/` | x | base ", "neither")):
            self.assertIn(expected, "\n".join(self.found(self.check, **{TABLE: table().replace(before, after, 1)})))
        twice = table().replace("| `cli/`", "| `src/engine/` | again | model | |\n| `cli/`")
        self.fails(self.check, (f"{TABLE}:10", "engine has two rows"), **{TABLE: twice})

    def test_wrong_names(self):
        self.row("platform", "model", "platform names model, which is no room of a row above")
        self.row("model", "/ platform, engine", "model names engine, which is no room of a row above")
        self.row("model", "/ model", "model names model, which is no room")
        self.row("engine", "model, all", "engine names all, which is no room")
        self.row("engine", "base, model", "engine names base, which every room sees")
        self.row("engine", "model / model", "engine names model twice")

    def test_sees_what_it_does_not_include(self):
        self.row("engine", "model, platform", "engine sees platform, but includes no header of it")

    def test_sees_what_a_header_of_another_includes(self):
        """It could not include that header otherwise."""
        self.passes(self.check, **{"src/engine/run.h": header("run", '#include "gguf.h"\n'), "cli/main.h": header("main"),
                                   "cli/main.c": '#include "clock.h"\n#include "run.h"\n',
                                   TABLE: table(cli="platform, model, engine")})

    def test_cmake_differs(self):
        for before, after, expected in (
                ("model SOURCES", "model platform SOURCES", "engine SEES model platform, but by the table model"),
                ("base model", "base", "engine SEES nothing, but by the table model"),
                (" CALLS platform", "", "model CALLS nothing, but by the table platform"),
                ("model SOURCES", "model CALLS platform SOURCES", "engine CALLS platform, but by the table nothing")):
            self.fails(self.check, ("CMakeLists.txt:1", expected),
                       **{"CMakeLists.txt": GOOD["CMakeLists.txt"].replace(before, after)})

    def test_base_need_not_be_seen(self):
        self.passes(self.check, **{"CMakeLists.txt": GOOD["CMakeLists.txt"].replace("SEES base model", "SEES model")})


class Calls(CheckTest):
    """Objects as a build makes them, of functions that call each other."""

    SOURCES = {
        "include/sereno/x.h": header("sereno_x", "int sereno_now(void);\n"),
        "src/base/text.c": "int text(void) { return 0; }\n",
        "src/platform/clock.c": "int sereno_now(void) { return 1; }\nint clock_inside(void) { return 2; }\n",
        "src/model/gguf.c": "int text(void), sereno_now(void);\nint gguf(void) { return text() + sereno_now(); }\n",
        "src/engine/run.c": "int gguf(void), abs(int);\nint run(void) { return abs(gguf()); }\n",
        "cli/main.c": "int gguf(void), clock_inside(void);\nint main(void) { return gguf() + clock_inside(); }\n",
    }

    def violations(self, leave_out=(), tools=None, **changes):
        tree = self.tree(**{**self.SOURCES, **changes})
        build, entries = tree.root / "build", []
        for name in [name for folder in ("src", "cli", "made", "fuzz") for name in tree.under(folder, ".c")]:
            room = {"made": "model"}.get(name.split("/")[0], tree.room_of(name))
            target = "sereno" if room == "cli" else f"room_{room}" if room else "fuzz_x"
            output = f"CMakeFiles/{target}.dir/{name}.o"
            entries.append({"directory": str(build), "file": str(tree.root / name), "command": f"cc -o {output} -c {name}"})
            if name not in leave_out:
                (build / output).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([*check_tree.C[:1], "-w", "-c", tree.root / name, "-o", build / output], check=True)
        (build / "compile_commands.json").write_text(json.dumps(entries))
        with unittest.mock.patch.dict("os.environ", tools or {}):
            return [str(v) for v in check_tree.check_calls(tree, build)]

    def fails(self, expected, **changes):
        self.assertEqual(self.violations(**changes), expected)

    def test_right(self):
        self.fails([])

    def test_calls_what_its_row_does_not_name(self):
        self.fails(["src/engine/run.c:1: engine needs sereno_now of platform, which its row neither sees nor calls"],
                   **{"src/engine/run.c": "int gguf(void), sereno_now(void);\n"
                                          "int run(void) { return gguf() + sereno_now(); }\n"})

    def test_upwards(self):
        self.fails(["src/base/text.c:1: base needs run of engine, which its row neither sees nor calls"],
                   **{"src/base/text.c": "int run(void);\nint text(void) { return run(); }\n"})

    def test_variables_and_weak_symbols_count(self):
        self.fails(["src/engine/run.c:1: engine needs ticks of platform, which its row neither sees nor calls"],
                   **{"src/platform/y.c": "int ticks = 1;\n",
                      "src/engine/run.c": "extern int ticks __attribute__((weak));\nint run(void) { return ticks; }\n"})

    def test_calls_only_public_functions(self):
        self.fails(["src/model/x.c:1: model needs clock_inside of platform, of which it may call public functions alone"],
                   **{"src/model/x.c": "int clock_inside(void);\nint x(void) { return clock_inside(); }\n"})
        self.fails(["src/model/x.c:1: model needs sereno_hidden of platform, of which it may call public functions alone"],
                   **{"src/model/x.c": "int sereno_hidden(void);\nint x(void) { return sereno_hidden(); }\n",
                      "src/platform/y.c": "int sereno_hidden(void) { return 1; }\n"})

    def test_row_names_what_it_does_not_call(self):
        self.fails([f"{TABLE}:9: engine calls platform, but needs nothing of it"],
                   **{TABLE: table(engine="model / platform")})

    def test_static_functions_are_nobody_elses(self):
        self.fails([], **{"src/platform/y.c": "static int gguf(void) { return 1; }\nint y(void) { return gguf(); }\n"})

    def test_generated_files_belong_to_their_room(self):
        made = {"made/made.c": "int made(void) { return 1; }\n"}
        self.fails([], **made, **{"src/engine/y.c": "int made(void);\nint y(void) { return made(); }\n"})
        self.fails(["src/base/y.c:1: base needs made of model, which its row neither sees nor calls"], **made,
                   **{"src/base/y.c": "int made(void);\nint y(void) { return made(); }\n"})

    def test_objects_of_tests_are_no_rooms(self):
        self.fails([], **{"fuzz/x.c": "int run(void) { return 1; }\nint clock_inside(void);\n"
                                      "int x(void) { return clock_inside(); }\n"})

    def test_room_without_objects(self):
        found = self.violations(**{TABLE: table(govern="")})
        self.assertEqual(len(found), 1, found)
        self.assertIn("no object of govern is built", found[0])

    def test_unfinished_build(self):
        found = self.violations(leave_out=["src/engine/run.c"])
        self.assertEqual(len(found), 1, found)
        self.assertIn("finish the build first", found[0])

    def test_no_nm(self):
        found = self.violations(tools={"NM": "no-such-nm"})
        self.assertEqual(len(found), 1, found)
        self.assertIn("no-such-nm is needed to tell who calls whom", found[0])

    def test_no_build(self):
        found = [str(v) for v in check_tree.check_calls(self.tree(), "/nonexistent")]
        self.assertEqual(len(found), 1, found)
        self.assertIn("configure the build first", found[0])


class Rooms(CheckTest):
    check = staticmethod(check_tree.check_rooms)

    def include(self, room, what, expected=None, **more):
        file = {"cli": "cli/x.c"}.get(room, f"src/{room}/x.c")
        changes = {file: f"/* a */\n#include {what}\n", **more}
        if expected:
            self.fails(self.check, (f"{file}:2", expected), **changes)
        else:
            self.passes(self.check, **changes)

    def test_good_tree(self):
        self.passes(self.check)

    def test_allowed(self):
        self.include("cli", '"gguf.h"')
        self.include("engine", '"gguf.h"')
        self.include("model", '"text.h"')

    def test_forbidden(self):
        self.include("base", '"gguf.h"', 'base may not include "gguf.h", which belongs to model')
        self.include("engine", '"clock.h"', "belongs to platform")
        self.include("model", '"clock.h"', "belongs to platform")  # which it calls

    def test_every_row_is_kept(self):
        """Each room sees exactly the rooms of its row."""
        sees = {"base": set(), "platform": {"base"}, "model": {"base"}, "engine": {"base", "model"},
                "cli": {"base", "platform", "model"}}
        others = sorted(set(sees) - {"cli"})
        changes, expected = {f"src/{other}/{other}_.h": header(other) for other in others}, []
        for room, allowed in sees.items():
            file = "cli/x.c" if room == "cli" else f"src/{room}/x.c"
            changes[file] = "".join(f'#include "{other}_.h"\n' for other in others)
            expected += [f'{file}:{line}: {room} may not include "{other}_.h", which belongs to {other}'
                         for line, other in enumerate(others, 1) if other not in allowed | {room}]
        self.assertEqual(sorted(self.found(self.check, **changes)), sorted(expected))

    def test_headers_count_too(self):
        self.fails(self.check, ("src/base/x.h:3", "belongs to model"),
                   **{"src/base/x.h": header("x", '#include "gguf.h"\n')})

    def test_paths(self):
        self.include("engine", '"../model/gguf.h"', "bare names")
        self.include("engine", '"model/gguf.h"', "bare names")
        self.include("engine", '"sereno/../gguf.h"', "bare names")
        self.include("engine", '"sereno/none.h"', "no public header")
        self.include("engine", '"none.h"', "no room has a header")
        self.include("engine", "NAME", "computed")

    def test_angles(self):
        self.include("engine", "<gguf.h>", "is ours")
        self.include("engine", "<sereno/api.h>", "is ours")
        self.include("engine", "<math.h>")

    def test_commented_out(self):
        self.include("base", '"text.h"\n/*\n#include "gguf.h"\n*/\n// #include "gguf.h"')

    def test_unique_names(self):
        self.fails(self.check, ("src/model/text.h:1", "unique"), **{"src/model/text.h": header("text")})

    def test_system_names(self):
        self.fails(self.check, ("src/model/memory.h:1", "the system has"), **{"src/model/memory.h": header("memory")})

    def test_unknown_room(self):
        self.fails(self.check, ("src/other/x.c:1", "not a room"), **{"src/other/x.c": "\n"})

    def test_os_headers(self):
        for name in ("sys/mman.h", "unistd.h", "pthread.h", "sched.h", "fcntl.h", "signal.h", "linux/futex.h",
                     "dirent.h"):
            self.include("engine", f"<{name}>", "only src/platform/")
            self.include("cli", f"<{name}>", "only src/platform/")
            self.include("platform", f"<{name}>")

    def test_os_header_exception(self):
        row = {TABLE: table(compute="platform")}
        self.passes(self.check, **row, **{"src/compute/team.c": "#include <pthread.h>\n"})
        self.fails(self.check, ("src/compute/team.c:1", "unistd"), **row, **{"src/compute/team.c": "#include <unistd.h>\n"})

    def test_public_headers(self):
        for what, expected in (('"text.h"', "only public"), ("<unistd.h>", "only public"), ("<pcre2.h>", "only public"),
                               ("<sereno/api.h>", "only public"), ('"sereno/none.h"', "no public header")):
            self.fails(self.check, ("include/sereno/x.h:3", expected),
                       **{"include/sereno/x.h": header("x", f"#include {what}\n")})

    def test_public_headers_are_for_both_languages(self):
        self.passes(self.check, **{"include/sereno/x.h": header("x", "#include <stdbool.h>\n")})
        self.fails(self.check, ("include/sereno/x.h:3", "C alone"),
                   **{"include/sereno/x.h": header("x", "#include <stdatomic.h>\n")})


class WrongInclude(CheckTest):
    """Compile commands as a correct and a too generous CMakeLists.txt would make them."""

    def violations(self, sees, **changes):
        tree = self.tree(**changes)
        entries = []
        for room, others in sees.items():
            folder = tree.room_path(room)
            file = next(folder.glob("*.c"))
            paths = " ".join(f"-I{tree.room_path(other)}" for other in others) + f" -I{tree.root}/include"
            entries.append({"directory": str(tree.root), "file": str(file),
                            "command": f"cc {paths} -std=c17 -MD -MF x.d -o x.o -c {file}"})
        build = tree.root / "build"
        build.mkdir()
        (build / "compile_commands.json").write_text(json.dumps(entries))
        return [str(v) for v in check_tree.check_wrong_include_fails(tree, build)]

    RIGHT = {"base": ["base"], "platform": ["platform", "base"], "model": ["model", "base"],
             "engine": ["engine", "model", "base"],
             "cli": ["base", "platform", "model"]}

    def test_right(self):
        self.assertEqual(self.violations(self.RIGHT), [])

    def test_too_generous(self):
        found = self.violations({**self.RIGHT, "base": ["base", "model"]})
        self.assertEqual(len(found), 1, found)
        self.assertIn("base may not include it, yet it compiles there", found[0])

    def test_found_but_broken(self):
        """A header that is found and fails for another reason must not pass for a missing one."""
        for broken in ("#error x\n", '#include "gone.h"\n', '#include "alarm_clock.h"\n'):
            found = self.violations({**self.RIGHT, "model": ["model", "base", "platform"]},
                                    **{"src/platform/clock.h": broken, "src/platform/clock.c": "\n"})
            self.assertIn("src/platform/clock.h:1: model may not include it, but it is found there", "\n".join(found))

    def test_positive_control(self):
        found = self.violations({**self.RIGHT, "model": ["model"]})
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/model/gguf.h:1: does not compile in its own room", found[0])

    def test_room_without_command(self):
        found = self.violations({k: v for k, v in self.RIGHT.items() if k != "model"})
        self.assertEqual(len(found), 1, found)
        self.assertIn("no file of model is compiled", found[0])

    def test_no_build(self):
        found = [str(v) for v in check_tree.check_wrong_include_fails(self.tree(), "/nonexistent")]
        self.assertEqual(len(found), 1, found)
        self.assertIn("configure the build first", found[0])


class HeadersAlone(CheckTest):
    check = staticmethod(check_tree.check_headers_alone)

    def test_good_tree(self):
        self.passes(self.check)

    def test_needs_another(self):
        for file in ("src/base/x.h", "include/sereno/x.h", "cli/x.h"):
            self.fails(self.check, (f"{file}:1", "alone"), **{file: header("x", "size_t f(void);\n")})

    def test_warning(self):
        self.fails(self.check, ("src/base/x.h:1", "alone"), **{"src/base/x.h": header("x", "int f();\n")})

    def test_no_guard(self):
        self.fails(self.check, ("src/base/x.h:1", "alone"), **{"src/base/x.h": "typedef struct x { int a; } x;\n"})

    def test_public_header_needs_a_room(self):
        self.fails(self.check, ("include/sereno/x.h:1", "alone"),
                   **{"include/sereno/x.h": header("x", '#include "text.h"\n')})


    def test_public_headers_are_for_both_languages(self):
        for text in ("void f(int *restrict a);\n", "typedef struct x { _Atomic int a; } x;\n",
                     "typedef struct x { int n, list[]; } x;\n", "static inline int *f(void) { return (int[]){1}; }\n",
                     "static inline int f(void *p) { int *q = p; return *q; }\n"):
            self.fails(self.check, ("include/sereno/x.h:1", "alone as C++17"), **{"include/sereno/x.h": header("x", text)})
        self.fails(self.check, ("include/sereno/x.h:1", "alone as C17"),
                   **{"include/sereno/x.h": header("x", "enum class x { A };\n")})


class Linkage(CheckTest):
    check = staticmethod(check_tree.check_linkage)

    def test_good_tree(self):
        self.passes(self.check)

    def test_right(self):
        self.passes(self.check, **{"include/sereno/x.h": header("x", "#include <stddef.h>\n\nSERENO_BEGIN\n"
                                                                "#define A 1\nint f(void);\nSERENO_END\n")})

    def test_outside(self):
        for text in ("int f(void);\n", "int f(void);\nSERENO_BEGIN\nSERENO_END\n", "SERENO_BEGIN\nint f(void);\n",
                     "SERENO_BEGIN\nSERENO_END\nint f(void);\n", "/* SERENO_BEGIN */\nint f(void);\nSERENO_END\n"):
            self.fails(self.check, ("include/sereno/x.h:1", "not between"), **{"include/sereno/x.h": header("x", text)})

    def test_include_inside(self):
        self.fails(self.check, ("include/sereno/x.h:4", "stddef.h is included after"),
                   **{"include/sereno/x.h": header("x", "SERENO_BEGIN\n#include <stddef.h>\nSERENO_END\n")})


class Banned(CheckTest):
    check = staticmethod(check_tree.check_banned)
    NAMES = ("strcpy strcat sprintf vsprintf gets rand srand system popen atoi atof strtok alloca setjmp longjmp "
             "sigsetjmp siglongjmp").split()

    def test_calls(self):
        text = "".join(f"int x = {name} (1);\n" for name in self.NAMES)
        for file in ("src/base/x.c", "src/base/x.h", "cli/x.c", "tools/x.c"):
            self.assertEqual(self.found(self.check, **{file: text}),
                             [f"{file}:{line}: {name}() is banned" for line, name in enumerate(self.NAMES, 1)])

    def test_lookalikes(self):
        self.passes(self.check, **{"src/base/x.c": "\n".join([
            "int a = clock_system(1) + my_rand(2) + snprintf(b, 1, c) + fgets(a) + strtok_r(b) + rand_r(c);",
            "/* strcpy(a, b) */ // strcpy(a, b)", r"""const char *s = "strcpy(\"a\")", c = '"', *t = "rand()";""",
            "int b = x.system(1) + x->rand(2);", ""])})

    def test_after_a_string(self):
        self.fails(self.check, ("src/base/x.c:2", "atoi"), **{"src/base/x.c": "char a = '\"';\nint x = atoi(\"1\");\n"})

    def test_tests_are_free(self):
        self.passes(self.check, **{"tests/x.c": "int x = rand();\n"})


class Numbers(CheckTest):
    check = staticmethod(check_tree.check_numbers)
    NAMES = "strtod strtof strtold isspace isalpha tolower toupper strcasecmp strcoll mbstowcs wcstombs setlocale".split()

    def test_calls(self):
        text = "".join(f"int x = {name} (1);\n" for name in self.NAMES)
        for file in ("src/base/x.c", "cli/cmd_x.c", "tools/x.c"):
            self.assertEqual(self.found(self.check, **{file: text}),
                             [f"{file}:{line}: {name}() goes by the host's locale"
                              for line, name in enumerate(self.NAMES, 1)])

    def test_conversions(self):
        for call in ('fprintf(to, "%g", 1.0)', 'snprintf(o, sizeof(o), "%d %-5.*f", 1, 2, 3.0)',
                     'fscanf(f, "%" PRIu64\n " %lf", &a, &b)', 'sscanf(text, "%f", &x)', 'snprintf(o, n, "%%%.3e", x)',
                     'vsnprintf(o, n, "%Lg", args)'):
            self.fails(self.check, ("cli/x.c:2", "goes by the host's locale"), **{"cli/x.c": f"\nint x = {call};\n"})

    def test_lookalikes(self):
        self.passes(self.check, **{
            "src/base/number.c": 'double x = strtod_l(a, b, c) + strtod(a, b) + snprintf(a, 1, "%g", x);\n',
            "cli/cmd_x.c": 'int x = fprintf(to, "%.1f", 1.0);\n',
            "src/base/x.c": "\n".join([
                'int a = fprintf(to, "%d %% full %s", f(")"), b) + number_print(to, "%g", 1.0) + my_isspace(c);',
                '/* strtod(a) */ int b = x->isdigit(1) + strtol(a, b, 10) + printf("%g", 1.0);', ""])})

    def test_cli_scans_as_others(self):
        self.fails(self.check, ("cli/cmd_x.c:1", "sscanf"), **{"cli/cmd_x.c": 'int x = sscanf(a, "%lf", &b);\n'})


class Lengths(CheckTest):
    check = staticmethod(check_tree.check_lengths)

    @staticmethod
    def function(lines, head="static int f(int a) {"):
        return "#include <stdio.h>\n\n" + "\n".join([head, *["    a++;"] * (lines - 2), "}"]) + "\n"

    def test_functions(self):
        for file in ("src/base/x.c", "cli/x.c", "src/base/x.h", "include/sereno/x.h"):
            self.passes(self.check, **{file: self.function(70)})
            self.fails(self.check, (f"{file}:3", "f has 71 lines"), **{file: self.function(71)})

    def test_heads(self):
        for head in ("static __attribute__((cold)) int f(int (*g)(int)) {", "struct s f(struct t x[2]) {",
                     "INLINE int f(int a) {"):
            self.fails(self.check, ("src/base/x.c:3", "f has 71 lines"), **{"src/base/x.c": self.function(71, head)})

    def test_head_of_two_lines(self):
        self.fails(self.check, ("src/base/x.c:3", "f has 71 lines"),
                   **{"src/base/x.c": self.function(70, "int f(int a,\n      int b) {")})

    def test_second_of_two(self):
        text = "static int g(void) {\n    return 1;\n}\n" + self.function(71)
        self.fails(self.check, ("src/base/x.c:6", "f has 71 lines"), **{"src/base/x.c": text})

    def test_not_functions(self):
        table = ["static const struct {", "    int a;", "} t[] = {", *["    {F(1)},"] * 100, "};", ""]
        names = ["enum {", *["    A,"] * 100, "};", ""]
        macro = ["#define M(x) \\", *["    f(x); { \\"] * 100, "    g(x)", ""]
        self.passes(self.check, **{"src/base/x.c": "\n".join(table + names + macro)})

    def test_braces_in_quotes(self):
        text = self.function(60).replace("a++;", "f('{', \"}}\"); /* { */", 1)
        self.passes(self.check, **{"src/base/x.c": text})

    def test_braces_do_not_pair(self):
        self.fails(self.check, ("src/base/x.c:1", "pair"), **{"src/base/x.c": "int f(void) {\n"})
        self.fails(self.check, ("src/base/x.c:1", "pair"), **{"src/base/x.c": "}\n"})

    def test_files(self):
        self.passes(self.check, **{"src/base/x.c": "\n" * 500})
        self.fails(self.check, ("src/base/x.c:501", "501 lines"), **{"src/base/x.c": "\n" * 501})

    def test_kernels(self):
        self.passes(self.check, **{"src/compute/kernels_x.c": "\n" * 501})
        self.fails(self.check, ("src/compute/kernels.c:501", "501 lines"), **{"src/compute/kernels.c": "\n" * 501})

    def test_rooms(self):
        lines = 5000 - sum(text.count("\n") for name, text in GOOD.items() if name.startswith("src/model/"))
        files = {f"src/model/x{i}.c": "\n" * (lines // 10) for i in range(10)}
        rest = "\n" * (lines % 10)
        self.passes(self.check, **files, **{"src/model/y.c": rest})
        self.fails(self.check, ("src/model:1", "5001 lines"), **files, **{"src/model/y.c": rest + "\n"})


class RoomsText(CheckTest):
    def test_it(self):
        lines = check_tree.rooms_text(self.tree()).split("\n")
        self.assertEqual([line.split() for line in lines], [
            ["room", "lines", "sees", "(calls)", "seen", "(called)", "by"], ["base", "7", "all"],
            ["platform", "7", "cli,", "(model)"], ["model", "5", "(platform)", "engine,", "cli"],
            ["engine", "1", "model"], ["cli", "6", "platform,", "model"]])


class Globals(CheckTest):
    check = staticmethod(check_tree.check_globals)

    def test_mutable(self):
        for text in ("static int x;", "static int x = 1;", "int x[4];", "static const char *x;", "extern int x;",
                     "static struct {\n int a;\n} x;", "static struct s x = {1};", "static int (*x)(void);",
                     "static _Thread_local int x;", "static const char *x[] = {0};",
                     "_Alignas(64) static char x[64];", "static int x __attribute__((used));"):
            self.fails(self.check, ("src/base/x.c:2", "'x' is a mutable global"), **{"src/base/x.c": f"\n{text}\n"})

    def test_static_in_a_function(self):
        for text in ("    static char x[9];", "    static int x = 1;", "    static struct {int a;} x = {1};"):
            self.fails(self.check, ("src/base/x.c:2", "'x' is a mutable global"),
                       **{"src/base/x.c": f"void f(void) {{\n{text}\n}}\n"})

    def test_constant(self):
        self.passes(self.check, **{"src/base/x.c": "\n".join([
            "static const int a = 1;", "static const char *const b[] = {\"x\"};", "static const char c[] = \"x\";",
            "static const struct {\n    const char *name;\n} d[] = {{\"x\"}};", "enum { E = 1 };", "typedef int t;",
            "typedef struct s {\n    int a;\n} s;", "struct s;", "struct u {\n    int a;\n};", "int f(int a);",
            "void g(void (*handler)(void *ctx), void *ctx);", "static int f(int a) {", "    static const int h = 1;",
            "    int i = a;", "    return i + h;", "}", "static int (*const k)(void) = f;", "_Static_assert(1, \"x\");",
            "static const struct s *const l = NULL;", "static struct s *m(void) {", "    return 0;", "}", "MACRO(x)",
            "API_MACRO int n(void);", "/* static int o; */", "#define P static int p;", ""])})

    def test_exception(self):
        text = "static struct {\n    void *ctx;\n} current, *y;\n"
        self.passes(self.check, **{"src/platform/interrupt.c": "static struct {\n    void *ctx;\n} current;\n"})
        self.fails(self.check, ("src/platform/interrupt.c:1", "'y'"), **{"src/platform/interrupt.c": text})

    def test_cli_is_free(self):
        self.passes(self.check, **{"cli/x.c": "static int x;\n"})


class Files(CheckTest):
    GIT = True
    check = staticmethod(check_tree.check_files)

    def test_machine_paths(self):
        lines = [f"{before}/{path}{after}"  # with the slash inside the names, this file would break the rule
                 for path in ("work", "root", "home/someone")
                 for before in ("", "x = '", "-I", "PATH=", "a:", "file://", "(") for after in ("", "/x", ".", " ")]
        found = self.found(self.check, **{"docs/x.md": "\n".join(lines)})
        self.assertEqual(len(found), len(lines))
        self.assertTrue(found[1].startswith("docs/x.md:2: a path of one machine: "), found)

    def test_other_paths(self):
        self.passes(self.check, **{"docs/x.md": "a/work $HOME/work ~/work ../work /workers /root-cause https://work/ "
                                                "/home/<name> /homework ${ROOT}/root $(x)/root\n"})

    def test_binary(self):
        self.fails(self.check, ("fuzz/x:1", "path of one machine"), **{"fuzz/x": b"\xff\0" + b"/" + b"root\0"})

    def test_size(self):
        self.passes(self.check, **{"x.bin": b"\0" * (1 << 20)})
        self.fails(self.check, ("x.bin:1", "bytes; at most"), **{"x.bin": b"\0" * ((1 << 20) + 1)})

    def test_ignored_files_are_free(self):
        self.passes(self.check, **{"build/x.c": "\t\n", "build/big": b"\0" * (1 << 21)})

    def test_c_text(self):
        self.fails(self.check, ("tests/x.c:2", "no newline"), **{"tests/x.c": "\nint x;"})
        self.fails(self.check, ("tests/x.c:1", "no newline"), **{"tests/x.c": ""})
        self.fails(self.check, ("src/base/x.h:2", "a tab"), **{"src/base/x.h": "\nint\tx;\n"})
        self.fails(self.check, ("fuzz/x.c:2", "blanks"), **{"fuzz/x.c": "\nint x; \n"})
        self.fails(self.check, ("fuzz/x.c:1", "blanks"), **{"fuzz/x.c": "int x;\r\n"})
        self.passes(self.check, **{"docs/x.md": "x\ty "})

    def test_exported_tree(self):
        tree = self.tree(**{"tests/x.c": "int x;", "build/x.c": "int x;"})
        subprocess.run(["rm", "-r", tree.root / ".git"], check=True)
        self.assertEqual([str(v) for v in self.check(tree)], ["tests/x.c:1: no newline at the end"])


class Built(CheckTest):
    check = staticmethod(check_tree.check_built)

    def test_good_tree(self):
        self.passes(self.check)

    def test_forgotten(self):
        self.fails(self.check, ("src/base/x.c:1", "no CMakeLists.txt"), **{"src/base/x.c": "\n"})

    def test_same_name_in_another_room(self):
        self.fails(self.check, ("src/model/text.c:1", "no CMakeLists.txt"), **{"src/model/text.c": "\n"})

    def test_other_ways(self):
        more = "target_sources(room_base PRIVATE src/base/x.c)\n"
        self.passes(self.check, **{"src/base/x.c": "\n", "CMakeLists.txt": GOOD["CMakeLists.txt"] + more,
                                   "src/base/y.c": "\n", "src/base/CMakeLists.txt": "add_library(y y.c)\n"})

    def test_mentioned_is_not_built(self):
        mentioned = "# add_library(x src/base/x.c)\nset_source_files_properties(src/base/x.c PROPERTIES A B)\n"
        self.fails(self.check, ("src/base/x.c:1", "no CMakeLists.txt"),
                   **{"src/base/x.c": "\n", "CMakeLists.txt": GOOD["CMakeLists.txt"] + mentioned})


class Documents(CheckTest):
    check = staticmethod(check_tree.check_documents)

    def test_what_is_there(self):
        text = ("# Top\n\n[a](src/base/README.md#how-it-works) [b](#top) [c](https://x.y/z) `src/base/text.c` `src/b*/`\n"
                "`src/base/NAME.c` `a/b`\n```\n[x](nowhere.md) `src/nowhere.c`\n```\n")
        comment = "/* docs/X.md, \"Parts\";\n * src/base/README.md,\n * \"How it works\". */\n"
        self.passes(self.check, **{"README.md": text, "src/base/README.md": "# Base\n\n## How it works\n",
                                   "docs/X.md": "**Parts.** Some.\n", "src/base/x.h": header("x", comment)})

    def test_link_to_nothing(self):
        self.fails(self.check, ("docs/X.md:2", "links to Y.md"), **{"docs/X.md": "# X\n[y](Y.md)\n"})
        self.fails(self.check, ("docs/X.md:1", "no such heading"),
                   **{"docs/X.md": "[y](../README.md#two)\n", "README.md": "# One\n```\n# Two\n```\n"})

    def test_path_of_nothing(self):
        self.fails(self.check, ("README.md:2", "names src/base/gone.c"), **{"README.md": "\n`src/base/gone.c`\n"})
        self.fails(self.check, ("README.md:1", "names src/gone/"), **{"README.md": "`src/gone/*.c`\n"})

    def test_comment_on_nothing(self):
        self.fails(self.check, ("src/base/x.h:3", "names docs/gone.md"),
                   **{"src/base/x.h": header("x", "/* docs/gone.md */\n")})
        self.fails(self.check, ("src/base/x.h:3", 'no heading "Old name"'),
                   **{"src/base/x.h": header("x", '/* docs/X.md, "Old\n * name". */\n'), "docs/X.md": "# New name\n"})


if __name__ == "__main__":
    unittest.main()
