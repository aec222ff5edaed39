"""Plays a worker in a separate process: it opens a Unix socket and answers as its plan says, or ends at once.

The plan is JSON: `exit`, the code to end with before the socket is open; `says`, a text for stderr; `readyz` and
`metrics`, status and text; `stays`, whether it ignores SIGTERM; `waits`, the path of a file for which it waits before
it opens the socket; `leaves`, the path of a file until which a child process outlives it, for a minute at most. It
does not import the service's packages, so that it starts quickly.
"""

import json
import signal
import socketserver
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


class _Server(socketserver.ThreadingUnixStreamServer):
    plan: Any

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not report callers that have gone."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer as planned."""
        assert isinstance(self.server, _Server)
        plan = self.server.plan
        answers = {"/readyz": plan.get("readyz", [200, "ok\n"]), "/metrics": plan.get("metrics", [200, ""])}
        status, text = answers[self.path]
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        """None: it is a Unix socket."""
        return ""


def _run(socket: str, plan: dict[str, Any]) -> None:
    sys.stderr.write(plan.get("says", ""))
    if "exit" in plan:
        sys.exit(plan["exit"])
    if "leaves" in plan:
        waiting = 'n=0; until [ -e "$0" ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done'
        subprocess.Popen(["sh", "-c", waiting, plan["leaves"]])
    while "waits" in plan and not Path(plan["waits"]).exists():
        time.sleep(0.01)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the end at once, with the signal as its reason
    if plan.get("stays"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with _Server(socket, _Handler) as server:
        server.plan = plan
        server.serve_forever()


if __name__ == "__main__":
    _run(sys.argv[1], json.loads(sys.argv[2]))
