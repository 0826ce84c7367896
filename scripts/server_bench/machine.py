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
    """Command or URL, what the program says of itself, and its files."""
    if not server.is_command:
        return {"url": server.where}
    environment, words = split_command(server.where)
    projector = server.projector or named_projector(environment, words)
    return {
        "command": server.where,
        "version": version(environment, words),
        "model": describe_file(model_file(words)),
        "projector": describe_file(projector),
    }


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


def model_file(words: list[str]) -> Path | None:
    """The file after -m."""
    return file_after(words, ("-m", "--model"))


def named_projector(environment: dict[str, str], words: list[str]) -> Path | None:
    """The projector that a command names itself."""
    if name := environment.get("LLAMA_ARG_MMPROJ"):
        return Path(name)
    return file_after(words, ("-mm", "--mmproj"))


def projector_beside(model: Path | None) -> Path | None:
    """The one mmproj*.gguf in a model's folder, or of several the one whose name begins most like the model's."""
    found = sorted(model.parent.glob("mmproj*.gguf")) if model is not None else []
    if model is None or len(found) < 2:
        return found[0] if found else None
    alike = {path: len(os.path.commonprefix([path.name.removeprefix("mmproj-"), model.name])) for path in found}
    best = max(found, key=lambda path: alike[path])
    return best if alike[best] else None


def file_after(words: list[str], flags: tuple[str, ...]) -> Path | None:
    return next((Path(value) for flag, value in zip(words, words[1:]) if flag in flags), None)


def describe_file(path: Path | None) -> dict[str, Any] | None:
    """Name and bytes."""
    if path is None:
        return None
    return {"name": path.name, "bytes": path.stat().st_size if path.exists() else None}


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
        for kind in ("model", "projector"):
            if facts.get(kind):
                size = facts[kind]["bytes"]
                lines.append(f"    {kind}: {facts[kind]['name']}" + (f", {size:,} bytes" if size else ""))
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
