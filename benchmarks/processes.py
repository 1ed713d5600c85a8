"""Processes for measurements, forked from one that has imported all they need.

Importing torch, its compiler, DGL and PyG takes eight seconds, and each of some hundred
measurements wants a process of its own. So one process for each environment imports them, and forks
for every request. It makes no tensor worth mentioning and runs no kernel: a fork has the heap, the
threads and the settings of a process that has just imported the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from socketserver import ForkingMixIn, StreamRequestHandler, UnixStreamServer
from types import TracebackType
from typing import Any

import measure


class Answer(StreamRequestHandler):
    """What a fork does: says who it is, then answers one request; both are lines of JSON."""

    def handle(self) -> None:
        """Runs in the fork; when it raises, nobody is answered."""
        self.wfile.write(f"{os.getpid()}\n".encode())
        found = measure.answer(json.loads(self.rfile.readline()))
        self.wfile.write(f"{json.dumps(found)}\n".encode())


class Forks(ForkingMixIn, UnixStreamServer):
    """Forks for each connection, until the process that started it is gone."""

    parent = os.getppid()

    def service_actions(self) -> None:
        """Called about twice a second."""
        super().service_actions()
        if os.getppid() != self.parent:
            sys.exit("the benchmark is gone")


class Origin(AbstractContextManager):
    """The process that requests with one environment are forked from.

    Args:
        environment: its variables. modules: what it imports beside `measure`.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name) / "socket")
        command = [sys.executable, __file__, self._address, *modules]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        self._ready = False

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def ask(self, request: Mapping[str, object], limit_s: float) -> Any:
        """What `measure.answer` finds in a fork; None when it fails or takes longer."""
        if not self._ready:
            # The line that it prints when it takes requests.
            self._ready = bool(self._process.stdout.readline())
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._address)
            connection.settimeout(limit_s)
            with connection.makefile("rw") as lines:
                process = int(lines.readline())
                try:
                    print(json.dumps(request), file=lines, flush=True)
                    found = lines.readline()
                except TimeoutError:
                    os.kill(process, signal.SIGKILL)
                    return None
        return json.loads(found) if found else None


def main() -> None:
    """Imports the modules, then forks for every request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="of the socket where it takes requests")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.modules:
        importlib.import_module(name)
    with Forks(options.address, Answer) as server:
        print("ready", flush=True)
        # What measurements print does not mix with results.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server.serve_forever()


if __name__ == "__main__":
    main()
