"""A server on this machine that speaks as OpenAI does and says what a script tells it: the only double of a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any


@dataclass
class Says:
    """An answer of the model's: a text, and calls as (id, name, arguments)."""

    text: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    tokens: tuple[int, int] = (10, 5)
    reasoning: str | None = None  # encrypted; the Responses API has it
    cut_after: int | None = None  # chunks of a stream, after which the connection ends

    def arguments(self) -> list[tuple[str, str, str]]:
        return [(id_, name, args if isinstance(args, str) else json.dumps(args)) for id_, name, args in self.calls]


@dataclass
class Fails:
    """An error of the provider's."""

    status: int
    error: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=lambda: {"x-should-retry": "false"})  # the SDK need not wait


Script = Callable[[dict[str, Any]], Says | Fails]


def answered(request: dict[str, Any]) -> int:
    """How many messages of the model's a request holds: where in a script it stands."""
    if "messages" in request:
        return sum(message["role"] == "assistant" for message in request["messages"])
    models = [item.get("role") != "user" and item.get("type") != "function_call_output" for item in request["input"]]
    return sum(mine and not before for before, mine in pairwise([False, *models]))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two packets, and nobody waits for the first to be acknowledged
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        said = self.server.script(request)
        if isinstance(said, Fails):
            self._send(said.status, {"error": said.error}, said.headers)
        elif self.path.endswith("/responses"):
            self._send(200, responses_body(request, said))
        elif request.get("stream"):
            self._stream(list(chunks(request, said)), said.cut_after)
        else:
            self._send(200, chat_body(request, said))

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        plain = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(plain)))
        self.end_headers()
        self.wfile.write(plain)

    def _stream(self, lines: list[dict[str, Any]], cut_after: int | None) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        for line in lines[:cut_after]:
            self._chunk(b"data: " + json.dumps(line).encode() + b"\n\n")
        if cut_after is None:
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def chat_body(request: dict[str, Any], said: Says) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": args}}
            for id_, name, args in said.arguments()
        ]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if said.calls else "stop"}],
        "usage": usage(said),
    }  # fmt: skip


def chunks(request: dict[str, Any], said: Says) -> Iterator[dict[str, Any]]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}

    def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield choice({"role": "assistant", "content": ""})
    for word in said.text.split(" ") if said.text else []:
        yield choice({"content": word + " "})
    for index, (id_, name, args) in enumerate(said.arguments()):
        yield choice({"tool_calls": [{"index": index, "id": id_, "type": "function",
                                      "function": {"name": name, "arguments": ""}}]})  # fmt: skip
        yield choice({"tool_calls": [{"index": index, "function": {"arguments": args}}]})
    yield choice({}, "tool_calls" if said.calls else "stop")
    yield {**common, "choices": [], "usage": usage(said)}


def responses_body(request: dict[str, Any], said: Says) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if said.reasoning is not None:
        output.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": said.reasoning})
    for id_, name, args in said.arguments():
        output.append({"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name, "arguments": args,
                       "status": "completed"})  # fmt: skip
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                       "content": content})  # fmt: skip
    spent_in, spent_out = said.tokens
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": request["model"], "status": "completed",
        "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {"input_tokens": spent_in, "output_tokens": spent_out, "total_tokens": spent_in + spent_out,
                  "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


def usage(said: Says) -> dict[str, int]:
    spent_in, spent_out = said.tokens
    return {"prompt_tokens": spent_in, "completion_tokens": spent_out, "total_tokens": spent_in + spent_out}
