#!/usr/bin/env python3
"""fake_peer.py: a server of chat completions that can be told to misbehave, for tests of the peer client.

Prints its port on 127.0.0.1 and serves until its standard input ends. The first part of a URL's path says how it
behaves: NAME of a function mode_NAME of Handler, with - for _.
"""
import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a request of the client holds, and of which type. JSON's true is no number.
FIELDS = {"model": str, "messages": list, "stream": bool, "stream_options": dict, "max_tokens": int,
          "temperature": float, "top_k": int, "top_p": float, "min_p": float, "seed": int, "cache_prompt": bool}


def event(document):
    return f"data: {json.dumps(document)}\n\n".encode()


def chunk(delta, finish_reason=None):
    return event({"object": "chat.completion.chunk",
                  "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def piece(text):
    return chunk({"content": text})


ROLE, FINISH, DONE = chunk({"role": "assistant", "content": None}), chunk({}, "length"), b"data: [DONE]\n\n"


def usage(tokens):
    return event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    connections = itertools.count(1)

    def setup(self):
        super().setup()
        self.number = next(Handler.connections)

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # the client went away

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        mode, _, path = self.path[1:].partition("/")
        self.request_body = json.loads(body)
        if path != "v1/chat/completions" or self.headers["Content-Type"] != "application/json":
            self.answer(404, "application/json", b'{"error": "wrong place or type"}')
        else:
            getattr(self, "mode_" + mode.replace("-", "_"))()

    def answer(self, code, kind, body):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self, kind="text/event-stream; charset=utf-8"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, *parts):
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def end(self):
        self.wfile.write(b"0\r\n\r\n")

    def stream(self, *parts):
        self.begin()
        self.send(*parts)
        self.end()

    def wait_for_the_client_to_go(self):
        self.rfile.read(1)
        self.close_connection = True

    # ---- Well-behaved ----

    def mode_ok(self):
        """As many pieces as max_tokens says."""
        n = self.request_body["max_tokens"]
        self.stream(ROLE, *[piece("a ")] * n, FINISH, usage(n), DONE)

    def mode_checked(self):
        """Says no unless the request is exactly what the test asked for."""
        r = self.request_body
        wanted = {"model": "some model", "messages": [{"role": "user", "content": 'Say "é"\n'}], "stream": True,
                  "stream_options": {"include_usage": True}, "max_tokens": 3, "temperature": 0.75, "top_k": 40,
                  "top_p": 0.5, "min_p": 0.25, "seed": 5, "cache_prompt": True}
        wrong = [k for k in wanted.keys() | r.keys() if r.get(k) != wanted.get(k) or type(r.get(k)) is not FIELDS[k]]
        if wrong:
            self.answer(400, "application/json", json.dumps({"error": {"message": f"wrong: {wrong}"}}).encode())
        else:
            self.mode_ok()

    def mode_trickle(self):
        """One byte at a time, lines ended otherwise, comments in between."""
        self.begin()
        for part in (b": hello\n\n", ROLE, piece("a"), b": ping\n", piece("é\u0000"), piece(""), FINISH, usage(2), DONE):
            for byte in part.replace(b"\n", b"\r\n"):
                self.send(bytes([byte]))
        self.end()

    def mode_connections(self):
        """The usage is the number of its connection. All at once, so that its end is not late."""
        self.answer(200, "text/event-stream", piece("a") + FINISH + usage(self.number) + DONE)

    def mode_default_model(self):
        self.stream(piece(self.request_body["model"]), FINISH,
                    usage(int(self.request_body["model"] == "default")), DONE)

    def mode_no_usage(self):
        self.stream(piece("a"), FINISH, DONE)

    def mode_no_done(self):
        """A reason to finish is an end, too, even when the connection breaks after it."""
        self.begin()
        self.send(piece("a"), FINISH, usage(1))
        self.close_connection = True

    def mode_lingers(self):
        self.begin()
        self.send(piece("a"), FINISH, usage(1), DONE)
        self.wait_for_the_client_to_go()

    def mode_endless(self):
        self.begin()
        while True:
            self.send(piece("a "))

    # ---- Silent ----

    def mode_hang(self):
        self.wait_for_the_client_to_go()

    def mode_silent(self):
        self.begin()
        self.send(ROLE, piece("a"), piece("b"))
        self.wait_for_the_client_to_go()

    def mode_pings(self):
        """Alive, and yet it says nothing."""
        self.begin()
        self.send(piece("a"))
        pause = threading.Event()
        while not pause.wait(0.005):
            self.send(b": ping\n\n")

    # ---- Broken ----

    def mode_drop(self):
        self.begin()
        self.send(ROLE, piece("a"))
        self.close_connection = True

    def mode_drop_at_once(self):
        self.close_connection = True

    def mode_unfinished(self):
        self.stream(piece("a"), piece("b"))

    def mode_garbage(self):
        self.wfile.write(b"\x7fELF\x02\x01\0\0\x1b[31m" * 4)
        self.close_connection = True

    def mode_garbage_stream(self):
        self.stream(b"\xff\xfeno events\r\n" * 20)

    def mode_huge_line(self):
        self.begin()
        self.send(b"data: ")
        while True:
            self.send(b"x" * 65536)

    def mode_html(self):
        self.answer(500, "text/html", b"<!DOCTYPE html>\n<html><title>Oops</title>" + b"<p>So sorry." * 10000)

    def mode_endless_html(self):
        self.begin("text/html")
        while True:
            self.send(b"<p>So sorry.")

    def mode_empty(self):
        self.answer(500, "text/plain", b"")

    def mode_json_error(self):
        self.answer(400, "application/json", b'{"error": {"code": 400, "message": "no such\\nmodel"}}')

    def mode_plain_error(self):
        self.answer(404, "application/json", b'{"detail": "Not Found"}')

    def mode_no_stream(self):
        self.answer(200, "application/json", b'{"choices": [{"message": {"content": "all at once"}}]}')

    def mode_error_inside(self):
        self.stream(piece("a"), event({"error": {"message": "the context is full"}}), DONE)

    def mode_wrong_json(self):
        self.stream(piece("a"), b"data: {half a\n\n", DONE)

    def mode_wrong_list(self):
        self.stream(piece("a"), event([1, 2]), DONE)

    def mode_wrong_choices(self):
        self.stream(event({"choices": "none"}), DONE)

    def mode_wrong_choice(self):
        self.stream(event({"choices": ["none"]}), DONE)

    def mode_wrong_content(self):
        self.stream(chunk({"content": 7}), DONE)

    def mode_wrong_usage(self):
        self.stream(piece("a"), usage(-1), DONE)

    def mode_wrong_error(self):
        self.stream(event({"error": [1]}), DONE)


def main():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
