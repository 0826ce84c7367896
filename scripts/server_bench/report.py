"""The table and the JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .arena import Figure, spread

COLUMNS = ("scenario", "measured", "tokens", "ours", "theirs", "theirs / ours", "pairs")


def table(figures: Sequence[Figure]) -> str:
    """A table in Markdown that is legible as it stands, and under it what belongs to single lines."""
    rows = [COLUMNS, *(row(figure) for figure in figures)]
    widths = [max(len(line[i]) for line in rows) for i in range(len(COLUMNS))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    remarks = [f"- {figure.scenario}, {figure.quantity}: {remark}" for figure in figures for remark in figure.remarks]
    return "\n".join([*lines, "", "Medians; in brackets the smallest and the largest ratio of a pair.", "", *remarks])


def row(figure: Figure) -> tuple[str, ...]:
    ratio = spread(figure.ratios) if figure.ratios else ""
    return (
        figure.scenario,
        figure.quantity,
        figure.tokens,
        median(figure.ours, figure.unit),
        median(figure.theirs, figure.unit),
        ratio,
        str(max(len(figure.ours), len(figure.theirs))),
    )


def median(values: Sequence[float], unit: str) -> str:
    """With three or four digits, as many as such figures are good for."""
    if not values:
        return "not known"
    value = statistics.median(values)
    if unit == "s" and value < 1:
        value, unit = 1e3 * value, "ms"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def as_json(figure: Figure) -> dict[str, Any]:
    """A figure with all its samples."""
    return {
        **vars(figure),
        "ratios": figure.ratios,
        "median_ratio": statistics.median(figure.ratios) if figure.ratios else None,
    }


def idle_lines(idle: dict[str, float | None], use: dict[str, list[tuple[float, float]]]) -> str:
    """How much of a core each server used while it had nothing to do: on an idle machine, and beside the other."""
    lines = []
    for name, share in idle.items():
        seconds = sum(wall for _, wall in use[name])
        beside = f"{sum(used for used, _ in use[name]) / seconds:.1%}" if seconds else "not known"
        if share is None:
            lines.append(f"idle use of a core, {name}: not known of a server given by URL")
            continue
        lines.append(
            f"idle use of a core, {name}: {share:.1%} with nothing to do, {beside} while the other computed"
            + (" - IT SPINS, and takes from the other's figures" if share > 0.05 else "")
        )
    return "\n".join(lines)
