"""End-to-end tests of `run --own-session`: python3 tests/e2e/test_session.py BUILD_DIR."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

import support
from support import ENDLESS_CONTEXT, Case, endless_model, sereno_path

LONG = ("-n", 200000, "-c", ENDLESS_CONTEXT)


def has_autogroups():
    path = Path("/proc/sys/kernel/sched_autogroup_enabled")
    return path.exists() and path.read_text().strip() == "1"


def autogroup(pid="self"):
    return Path(f"/proc/{pid}/autogroup").read_text()


def children_of(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if fields[1] == str(pid):
            found.append(int(path.parent.name))
    return found


class Terminal:
    """A shell at a terminal that controls it, as people start programs; what is typed comes from write."""

    def __init__(self, arguments):
        self.seen = b""
        script = 'trap : INT; "$@"; exit $?'  # or Ctrl-C would end the shell before it can say how the program ended
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execve("/bin/sh", ["sh", "-c", script, "sh", *map(str, arguments)], support.clean_environment())

    def write(self, data):
        os.write(self.master, data)

    def read(self, deadline):
        """False: the other side has gone."""
        if not select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"nothing came for too long; so far {self.seen}")
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def wait_for(self, pattern, times=1):
        deadline = time.monotonic() + support.TIMEOUT_S
        while len(re.findall(pattern, self.seen)) < times:
            if not self.read(deadline):
                raise AssertionError(f"it ended before {pattern} came; output {self.seen}")

    def finish(self):
        deadline = time.monotonic() + support.TIMEOUT_S
        while self.read(deadline):
            pass
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


class OwnSession(Case):
    def start_long(self, *arguments, **how):
        """Starts an answer without an end; returns it and the process that computes it."""
        running = self.start("run", "--own-session", "-p", "hi", "-m", endless_model(), *LONG, *arguments, **how)
        running.wait_for_more("out")
        children = children_of(running.process.pid)
        self.assertEqual(len(children), 0 if how.get("new_session", True) else 1)
        return running, children[0] if children else running.process.pid

    def assert_ends(self, pid_fd):
        self.assertTrue(select.select([pid_fd], [], [], support.TIMEOUT_S)[0])
        os.close(pid_fd)

    def test_text_is_the_same(self):
        arguments = ("-p", "hi", "-n", 20, "-s", 7)
        before = autogroup() if has_autogroups() else None
        plain, own = self.run_json(*arguments), self.run_json(*arguments, "--own-session")
        self.assertEqual(own["text"], plain["text"])
        self.assertEqual(own["tokens"], plain["tokens"])
        self.assertFalse(plain["environment"]["own_session"])
        self.assertTrue(own["environment"]["own_session"])
        self.assertTrue(own["environment"]["sched_effective"], own["environment"])
        if has_autogroups():
            self.assertFalse(plain["environment"]["sched_effective"])
            self.assertIn("--own-session", plain["environment"]["sched_note"])
            self.assertEqual(autogroup(), before)

    def test_exit_codes_are_handed_on(self):
        self.assertIn("'/none'", self.sereno("run", "-p", "hi", "-m", "/none", "--own-session", code=1).err)
        self.run_tiny("-p", "hi", "--own-session", "--no-such-option", code=2)

    def test_input_and_output(self):
        how = ("-i", "-n", 8, "-s", 4)
        plain = self.run_tiny(*how, stdin=b"one\ntwo\n")
        own = self.run_tiny(*how, "--own-session", stdin=b"one\ntwo\n")
        self.assertEqual(own.out, plain.out)
        self.assertEqual(own.err.count("answer 8 tokens"), 2)

    def test_it_leads_a_session_of_the_least_weight(self):
        for new_session in (False, True):  # led by the program that was started, which then only lowers it
            with self.subTest(new_session=new_session):
                before = autogroup() if has_autogroups() else None
                running, pid = self.start_long(new_session=new_session)
                self.assertEqual(os.getsid(pid), pid)
                self.assertEqual(os.getsid(running.process.pid) == pid, new_session)
                if has_autogroups():
                    self.assertRegex(autogroup(pid), r"nice 19\n$")
                    self.assertEqual(autogroup(), before)
                running.interrupt()
                self.assertEqual(running.finish().code, 130)

    def test_without_the_flag_nothing_is_lowered(self):
        """Not even where it leads a session: what else is started in it is not ours."""
        running = self.start("run", "-p", "hi", "-m", endless_model(), *LONG)
        running.wait_for_more("out")
        self.assertEqual(children_of(running.process.pid), [])
        if has_autogroups():
            self.assertRegex(autogroup(running.process.pid), r"nice 0\n$")
        running.interrupt()
        running.finish()

    def test_signals_end_the_answer(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                running, pid = self.start_long(new_session=False)
                pid_fd = os.pidfd_open(pid)
                running.process.send_signal(number)
                result = running.finish()
                self.assert_clean(result.err)
                self.assertEqual(result.code, 128 + number)
                self.assertTrue(result.out.endswith("\n"))
                self.assertIn("cancelled", result.err)
                self.assert_ends(pid_fd)

    def test_no_process_outlives_the_one_that_was_started(self):
        running, pid = self.start_long(new_session=False)
        pid_fd = os.pidfd_open(pid)
        running.process.kill()
        self.assertEqual(running.finish().code, -signal.SIGKILL)
        self.assert_ends(pid_fd)

    def test_code_of_one_that_was_killed(self):
        running, pid = self.start_long(new_session=False)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(running.finish().code, 128 + signal.SIGKILL)

    def test_chat_on_a_terminal(self):
        terminal = Terminal((sereno_path(), "run", "-i", "--own-session", "-m", endless_model(), *LONG))
        self.addCleanup(terminal.close)
        for turn in (1, 2):
            terminal.wait_for(b"\r\n> ", times=turn)
            terminal.write(b"hello\n")
            terminal.wait_for(b"hello\r\n.", times=turn)  # the echo, and then something of the answer
            terminal.write(b"\x03")
            terminal.wait_for(rb"cancelled[^\n]*\n", times=turn)
        terminal.wait_for(b"\r\n> ", times=3)
        terminal.write(b"\x04")
        self.assertEqual(terminal.finish(), 0, terminal.seen)


if __name__ == "__main__":
    support.main(sys.argv)
