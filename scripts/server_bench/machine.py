"""What a figure depends on: the machine, this repository's commit, the commands and the models."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from .server import Server, split_command

ROOT = Path(__file__).resolve().parents[2]
# Those that decide which matrix kernels are taken.
FLAGS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_int8",
    "amx_bf16",
    "asimddp",
    "i8mm",
    "sve",
)


def describe_machine() -> dict[str, Any]:
    """Processor, memory, kernel, and how busy it is already."""
    cpu = read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpu, re.MULTILINE)
    listed = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpu, re.MULTILINE)
    flags = set(listed[1].split()) if listed else set()
    memory = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"), re.MULTILINE)
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "is_virtual": "hypervisor" in flags,
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": f"{platform.system()} {platform.release()}",
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def describe_repository() -> str:
    """The commit that this script is of, and whether the tree differs from it."""
    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return commit + (", with uncommitted changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def describe_server(server: Server) -> dict[str, Any]:
    """Command or URL, what the program says of itself, and its model file."""
    if not server.is_command:
        return {"url": server.where}
    environment, words = split_command(server.where)
    return {"command": server.where, "version": version(environment, words), "model": model_file(words)}


def version(environment: dict[str, str], words: list[str]) -> str:
    # The program may stand behind others: `taskset -c 0 llama-server ...`.
    program = next((word for word in words if re.search(r"server[^/]*$", word)), None)
    if program is None:
        return "unknown"
    try:
        done = subprocess.run(
            [program, "--version"],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return "; ".join(line.strip() for line in done.stdout.splitlines() if line.strip())


def model_file(words: list[str]) -> dict[str, Any] | None:
    """Name and bytes of the file after -m."""
    for flag, value in zip(words, words[1:]):
        if flag in ("-m", "--model"):
            path = Path(value)
            return {"name": path.name, "bytes": path.stat().st_size if path.exists() else None}
    return None


def heading(machine: dict[str, Any], repository: str, servers: dict[str, dict[str, Any]]) -> str:
    """The same for people."""
    lines = [
        f"machine: {machine['cores']} cores of {machine['processor']}{' (virtual)' if machine['is_virtual'] else ''}; "
        f"{' '.join(machine['flags'])}; {machine['memory_gib']} GiB; {machine['kernel']}",
        f"load before: {' '.join(map(str, machine['load_before']))}"
        + (" - THIS MACHINE IS BUSY, the figures are worth little" if machine["load_before"][0] > 0.5 else ""),
        f"this repository: {repository}",
    ]
    for name, facts in servers.items():
        lines.append(f"{name}: {facts.get('command') or facts['url']}")
        if facts.get("version"):
            lines.append(f"    version: {facts['version']}")
        if facts.get("model"):
            size = facts["model"]["bytes"]
            lines.append(f"    model: {facts['model']['name']}" + (f", {size:,} bytes" if size else ""))
    return "\n".join(lines)


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=30,
        check=True,
        text=True,
    ).stdout.strip()


def read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
