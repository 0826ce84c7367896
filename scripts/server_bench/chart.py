"""The ratios as an SVG: a bar per line of the table, from 1.0 to the median, and a whisker over its spread.

The scale is logarithmic, so that twice as fast and twice as slow are equally far from 1.0. There is no background and
all colours are of middle lightness: it can be read on white and on black.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from html import escape

from .arena import Figure

INK, FAINT, FASTER, SLOWER = "#808890", "#80889055", "#2f9e77", "#d0673f"
ROW, TOP, LEFT, WIDTH, RIGHT = 26, 34, 300, 420, 150


def svg(figures: Sequence[Figure], title: str) -> str:
    """The chart of all figures that have ratios."""
    figures = [figure for figure in figures if figure.ratios]
    values = [1.0, *(ratio for figure in figures for ratio in figure.ratios)]
    low, high = math.floor(math.log2(min(values))), max(1, math.ceil(math.log2(max(values))))
    height = TOP + ROW * len(figures) + 44

    def across(ratio: float) -> float:
        return LEFT + WIDTH * (math.log2(ratio) - low) / (high - low)

    bottom = height - 40
    parts = [f'<text x="12" y="18" font-weight="bold">{escape(title)}</text>']
    for power in range(low, high + 1):
        x, is_one = across(2.0**power), power == 0
        parts.append(line(x, TOP - 6, x, bottom, INK if is_one else FAINT, 1.5 if is_one else 1))
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{2.0**power:g}</text>')
    for i, figure in enumerate(figures):
        middle, y = statistics.median(figure.ratios), TOP + ROW * i + ROW / 2
        start, end = sorted((across(1.0), across(middle)))
        colour = FASTER if middle >= 1 else SLOWER
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(label(figure))}</text>')
        parts.append(
            f'<rect x="{start:.1f}" y="{y - 7:.1f}" width="{max(1, end - start):.1f}" height="14" fill="{colour}"/>'
        )
        parts.append(line(across(min(figure.ratios)), y, across(max(figure.ratios)), y, INK, 2))
        after = max(across(1.0), across(max(figure.ratios))) + 8
        parts.append(f'<text x="{after:.1f}" y="{y + 4:.1f}">{middle:.2f}</text>')
    parts.append(
        f'<text x="12" y="{height - 6}">their time (or memory) / ours, by medians; the line is from the '
        "smallest to the largest of the pairs</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def label(figure: Figure) -> str:
    return figure.scenario if figure.quantity == "time" else f"{figure.scenario}: {figure.quantity}"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
