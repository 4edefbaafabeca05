"""Serves the page as `wgoose serve` will, forwards other paths to a server, and answers some prompts itself."""

import http.client
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)

THOUGHTS = (
    "<think>\nThe reader asks for a queue in Rust.\nA ring buffer is enough: `VecDeque`.\n</think>\n\n"
    "Use **`VecDeque`**: both ends are fast.\n\n"
    "### Steps\n\n1. Make it.\n   - with a capacity, or\n   - empty\n2. Push and pop:\n\n"
    "```rust\nuse std::collections::VecDeque;\n\nlet mut queue = VecDeque::new();\nqueue.push_back(\"Gänse 🪿\");\n"
    "assert_eq!(queue.pop_front(), Some(\"Gänse 🪿\")); // a long line that is wider than a phone is\n```\n\n"
    "3. That is all. <img src=x onerror=\"window.hacked = 1\"> stays text."
)
CANNED = {
    "canned: think": THOUGHTS,
    "canned: short": "Fine, thank you.",
    "canned: only thoughts": "<think>Still thinking <",
    "canned: code": "~~~\n<b>a</b>\n``` b\n~~~\nThen `x < y` and ``a ` b``, 2 ** 3, **bold** and snake_case.\nA second line.",
    "canned: long": "\n\n".join(f"Paragraph {n} of a long answer. " + "It goes on and on. " * 6 for n in range(40)),
    "canned: length": "Cut",
    "canned: empty": "",
}


class Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server, page, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.server_url, self.page, self.key, self.requests = urlsplit(server), Path(page), None, []
        self.full = 0  # That many requests find the queue full.
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if urlsplit(self.path).path == "/":
            body = self.server.page.read_bytes()
            self.whole(200, body, "text/html; charset=utf-8", {"Content-Security-Policy": POLICY})
        else:
            self.handle_api(b"")

    def do_DELETE(self):
        self.handle_api(b"")

    def do_POST(self):
        self.handle_api(self.rfile.read(int(self.headers["Content-Length"] or 0)))

    def handle_api(self, body):
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self.refuse(401, "the API key is missing or wrong: Authorization: Bearer KEY")
        if self.path == "/v1/chat/completions":
            asked = json.loads(body)
            self.server.requests.append(asked)
            said = asked["messages"][-1]["content"]
            if self.server.full:
                self.server.full -= 1
                return self.refuse(429, "the queue is full")
            if said == "canned: refused":
                return self.refuse(400, "temperature: -1 is not a finite number", "temperature")
            if said == "canned: break":
                return self.stream(["data: " + self.text("Half an ans") + "\n\n"], pause=0)
            if said == "canned: failure":
                error = json.dumps({"error": {"message": "the device was lost", "param": None}})
                return self.stream(["data: " + self.text("Half") + f"\n\ndata: {error}\n\n"], pause=0)
            if said == "canned: slow":
                words = [self.text(f"word{n} ") for n in range(200)]
                return self.stream([f"data: {word}\n\n" for word in words], pause=0.05)
            if said == "canned: reasoning":
                deltas = [{"role": "assistant", "content": ""}, {"reasoning_content": "Hm, "}, {"reasoning_content": "a < "},
                          {"reasoning_content": "b.", "content": "Yes"}, {"content": "."}]
                events = [json.dumps({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas] + ["[DONE]"]
                return self.stream([f"data: {event}\n\n" for event in events], pause=0.05)
            if said in CANNED:
                return self.canned(CANNED[said], "length" if said == "canned: length" else "stop")
        self.forward(body)

    def text(self, content):
        return json.dumps({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}, ensure_ascii=False)

    def canned(self, text, reason):
        """A stream that is cut at odd places, also inside of characters."""
        pieces = [text[n : n + 4] for n in range(0, len(text), 4)]
        stream = ": keep-alive\n\n" + "".join(f"data: {self.text(piece)}\n\n" for piece in pieces)
        stream += f'data: {{"choices": [{{"index": 0, "delta": {{}}, "finish_reason": "{reason}"}}]}}\r\n\r\n'
        usage = {"prompt_tokens": 120, "completion_tokens": len(pieces), "prompt_tokens_details": {"cached_tokens": 96}}
        stream += f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"
        raw, cuts, parts = stream.encode(), [1, 89, 233, 2, 3, 611, 151], []
        while raw:
            size = cuts[len(parts) % len(cuts)]
            parts.append(raw[:size])
            raw = raw[size:]
        self.stream(parts, pause=0.003)

    def stream(self, parts, pause):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for part in parts:
                self.wfile.write(part if isinstance(part, bytes) else part.encode())
                self.wfile.flush()
                time.sleep(pause)
        except OSError:
            pass
        self.close_connection = True

    def forward(self, body):
        upstream = http.client.HTTPConnection(self.server.server_url.netloc, timeout=300)
        try:
            names = ("Content-Type", "Authorization")
            headers = {name: self.headers[name] for name in names if self.headers[name]}
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"] or "text/plain")
            self.send_header("Connection", "close")
            self.end_headers()
            while part := answer.read1(4096):
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            pass
        finally:
            upstream.close()
        self.close_connection = True

    def refuse(self, status, message, param=None):
        body = json.dumps({"error": {"message": message, "type": "", "param": param, "code": None}}).encode()
        self.whole(status, body, "application/json")

    def whole(self, status, body, kind, more=None):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    import sys

    proxy = Proxy(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(proxy.address, flush=True)
    threading.Event().wait()
