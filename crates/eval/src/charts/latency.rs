//! The latency histogram: how long answers take, and where half and nearly all of them are through.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use crate::charts::axis::{Axis, Panel, grouped};
use crate::charts::sheet::{BLUE, GREEN, LABEL, ORANGE, Sheet, tint};
use crate::error::Result;
use crate::stats::{ascending, percentile};

pub(super) const SIZE: (u32, u32) = (800, 500);

const BINS: usize = 36;

/// From here on the axis is one of powers of ten.
const LINEAR_SPAN: f64 = 100.0;

pub(super) fn draw<B: DrawingBackend>(sheet: &mut Sheet<B>, title: &str, latencies_ms: &[f64]) -> Result<()> {
    let latencies_ms = ascending(latencies_ms.iter().copied().filter(|value| value.is_finite()).collect());
    sheet.title(title, &format!("Latency of {} answers", grouped(&latencies_ms.len().to_string())))?;
    let x = axis(&latencies_ms);
    let mut counts = [0_u64; BINS];
    for &value in &latencies_ms {
        counts[((x.place(value) * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let most = counts.iter().max().copied().unwrap_or(0) as f64;
    // Room for the names of the lines.
    let y = Axis::linear(0.0, most.max(4.0) * 1.25);
    let panel = Panel { left: 84.0, top: 70.0, right: 770.0, bottom: 440.0, x, y };
    panel.grid(sheet)?;
    for (bin, count) in counts.into_iter().enumerate().filter(|&(_, count)| count > 0) {
        let place = |bin: f64| x.value(bin / BINS as f64);
        let from = panel.point(place(bin as f64 + 0.04), count as f64);
        sheet.fill(from, panel.point(place(bin as f64 + 0.96), 0.0), tint(BLUE, 0.7))?;
    }
    panel.frame(sheet, "milliseconds", "answers")?;
    if latencies_ms.is_empty() {
        return panel.nothing(sheet);
    }
    for (row, (percent, color)) in [(50, GREEN), (95, ORANGE)].into_iter().enumerate() {
        let Some(value) = percentile(&latencies_ms, percent) else { continue };
        let (at, _) = panel.point(value, 0.0);
        sheet.dashes((at, panel.top), (at, panel.bottom), color, 2)?;
        let text = format!("p{percent} {} ms", shown(value));
        // On the side where there is room, each on a line of its own.
        let is_right = at + 8.0 + sheet.text_width(&text, LABEL)? > panel.right;
        let (x, anchor) = if is_right { (at - 6.0, HPos::Right) } else { (at + 6.0, HPos::Left) };
        sheet.text(&text, (x, panel.top + 8.0 + 18.0 * row as f64), LABEL, color, (anchor, VPos::Top))?;
    }
    Ok(())
}

fn axis(ascending: &[f64]) -> Axis {
    let (Some(&low), Some(&high)) = (ascending.first(), ascending.last()) else { return Axis::linear(0.0, 1.0) };
    if low > 0.0 && high > low * LINEAR_SPAN {
        return Axis::log(low, high);
    }
    // From 0 on, unless that would squeeze everything to one side.
    Axis::around(if low * 2.0 > high { low } else { 0.0 }, high)
}

/// Three digits, however long it took.
fn shown(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{value:.3}"),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}
