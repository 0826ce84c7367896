"""A server by URL or by command.

One that is given by command is started here on a free port, in a session of its own: so a Ctrl-C in the terminal does
not reach it before this program has written what it has, and everything it started can be found and ended with it.
"""

from __future__ import annotations

import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from .client import BenchError, Client, Refused, Reply

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Server:
    """One of the servers that are compared. `name` is how the report calls it."""

    def __init__(self, name: str, where: str, api_key: str | None, timeout: float, start_timeout: float) -> None:
        self.name = name
        self.where = where
        self.start_timeout = start_timeout
        self.is_command = not re.match(r"https?://", where)
        # For a command that names none; it is given while pictures are to be shown.
        self.projector: Path | None = None
        self.shows_pictures = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._api_key = api_key
        self._timeout = timeout
        self.client = Client(where, api_key, timeout)

    def start(self) -> None:
        """Starts the command, if it is one, and waits until the server is ready."""
        if self.is_command:
            environment, arguments = split_command(self.where)
            if self.shows_pictures and self.projector is not None:
                arguments += ["--mmproj", str(self.projector)]
            port = free_port()
            self.client = Client(f"http://127.0.0.1:{port}", self._api_key, self._timeout)
            self._log = tempfile.TemporaryFile()
            try:
                self._process = subprocess.Popen(
                    [*arguments, "--host", "127.0.0.1", "--port", str(port)],
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    start_new_session=True,
                )
            except OSError as error:
                raise BenchError(f"{self.name}: cannot start {arguments[0]}: {error.strerror}") from error
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        # Some servers bind their port at once and say 503 while they load, others bind it when they are ready, and one
        # that has no health route says 404 when it listens.
        deadline = time.monotonic() + self.start_timeout
        said = "nothing listens"
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise BenchError(
                    f"{self.name}: ended with status {self._process.returncode} before it was ready{self.last_words()}"
                )
            try:
                reply = self.client.send("GET", "/health", timeout=5)
                if reply.status in (200, 404):
                    return
                said = f"{reply.status} {reply.message}"
            except (OSError, http.client.HTTPException) as error:
                said = str(error)
            time.sleep(0.1)
        raise BenchError(f"{self.name}: not ready after {self.start_timeout:.0f} s ({said}){self.last_words()}")

    def stop(self) -> None:
        """Ends what `start` started, with all its children; does nothing the second time."""
        process, self._process = self._process, None
        if process is None:
            return
        end_session(process)
        if self._log is not None:
            self._log.close()

    def decide(self, body: bytes) -> Reply:
        """Asks for a decision; whatever goes wrong ends the run and says which server it was."""
        try:
            return self.client.decide(body)
        except Refused as error:
            raise Refused(f"{self.name}: {error}") from error
        except TimeoutError as error:
            raise BenchError(f"{self.name}: no answer within {self.client.timeout:.0f} s (--timeout)") from error
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"{self.name}: {error or type(error).__name__}{self.last_words()}") from error

    def last_words(self) -> str:
        """The end of the server's log, to be appended to a message."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 3000, max(0, size - 3000)).decode(errors="replace")
        return "\nthe last lines of its log:\n" + "\n".join("    " + line for line in text.splitlines()[-12:])

    @property
    def can_be_observed(self) -> bool:
        """Whether memory and processor time can be told: for our own processes, on Linux."""
        return self._process is not None and sys.platform == "linux"

    def processor_seconds(self) -> float:
        """Processor time that the server and its children have used so far."""
        fields = (stat_fields(pid) for pid in self._processes())
        return sum(int(field[11]) + int(field[12]) for field in fields if field) / TICKS_A_SECOND

    def resident_bytes(self) -> int:
        """Memory that is resident now."""
        return sum(int(field[21]) * PAGE_BYTES for field in map(stat_fields, self._processes()) if field)

    def clear_peak(self) -> None:
        """Lets `peak_bytes` begin anew."""
        for pid in self._processes():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """The most that was resident since `clear_peak`, as the kernel kept it; the sum over server and children."""
        total = 0
        for pid in self._processes():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
        return total

    def _processes(self) -> list[int]:
        if self._process is None:
            return []
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return [pid for pid in pids if (field := stat_fields(pid)) and int(field[3]) == self._process.pid]


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat from the state on (the name before it may contain anything); empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def split_command(command: str) -> tuple[dict[str, str], list[str]]:
    """A command's words as a shell would see them, without a shell: leading NAME=VALUE words are its environment."""
    words = shlex.split(command)
    environment: dict[str, str] = {}
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if not words:
        raise BenchError(f"no command in {command!r}")
    return environment, words


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Asks a process that leads a session, and its children, to end; kills what is left once it has, or after 10 s."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class BusyProcesses:
    """Keeps every core busy while it is entered, as other programs on a machine would."""

    # The shell ends by itself when this program is gone, even if it was killed.
    LOOP = 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done'

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> BusyProcesses:
        for _ in range(os.cpu_count() or 1):
            self._processes.append(
                subprocess.Popen(["sh", "-c", self.LOOP, "busy", str(os.getpid())], start_new_session=True)
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            end_session(process)
