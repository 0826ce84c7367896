//! The drift chart: which share of the options moved by at most how much.
//!
//! A cumulative line rather than bars: what matters is how far the tail goes, and bars of a tail cannot be seen.

use clef_record::QuestionKind;
use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};

use crate::charts::axis::{Axis, Panel, grouped};
use crate::charts::legend::{Legend, Mark};
use crate::charts::sheet::{BLUE, FAINT, GREEN, INK, ORANGE, Point, SMALL, Sheet};
use crate::drift::Drift;
use crate::error::Result;
use crate::stats::ascending;

pub(super) const SIZE: (u32, u32) = (800, 550);

/// Differences below this are drawn as if they were none.
const SMALLEST: f64 = 1e-6;

pub(super) fn draw<B: DrawingBackend>(sheet: &mut Sheet<B>, drift: &Drift) -> Result<()> {
    let title = format!("{} against {}", drift.candidate, drift.reference);
    let flips = format!("{} of {} answers flipped", count(drift.overall.flips), count(drift.overall.questions));
    sheet.title(&title, &format!("How far probabilities moved; {flips}"))?;
    let all = ascending(drift.deltas.values().flatten().copied().collect());
    let smallest = all.iter().copied().find(|&delta| delta >= SMALLEST).unwrap_or(0.1);
    let largest = all.last().copied().unwrap_or(1.0).max(smallest);
    let (x, y) = (Axis::log(smallest, largest), Axis::linear(0.0, 1.0));
    let panel = Panel { left: 84.0, top: 82.0, right: 770.0, bottom: 490.0, x, y };
    panel.grid(sheet)?;
    panel.frame(sheet, "difference of an option's probability", "share of options that moved by at most so much")?;
    if all.is_empty() {
        return panel.nothing(sheet);
    }
    let mut lines = vec![(format!("all ({})", count(all.len() as u64)), INK, 3, &all)];
    for (kind, deltas) in &drift.deltas {
        lines.push((format!("{} ({})", kind.as_str(), count(deltas.len() as u64)), color(*kind), 2, deltas));
    }
    for (_, color, width, deltas) in lines.iter().rev() {
        sheet.line(&cumulative(&panel, deltas), *color, *width)?;
    }
    // The names are on either side of their lines, as the two may be one.
    let marks = [("p99", drift.overall.p99, HPos::Right, -2.0), ("max", drift.overall.max, HPos::Left, 2.0)];
    for (name, value, anchor, aside) in marks {
        let Some(value) = value.filter(|&value| value >= SMALLEST) else { continue };
        let (at, _) = panel.point(value, 0.0);
        sheet.dashes((at, panel.top), (at, panel.bottom), FAINT, 1)?;
        sheet.text(name, (at + aside, panel.top - 5.0), SMALL, INK, (anchor, VPos::Bottom))?;
    }
    let overall = &drift.overall;
    let figure = |name: &str, value: Option<f64>| format!("{name} {:.2e}", value.unwrap_or_default());
    // In the upper left are lines only if hardly anything moved.
    let legend = Legend {
        figures: vec![figure("mean", overall.mean), figure("p99", overall.p99), figure("max", overall.max)],
        keys: lines.into_iter().map(|(name, color, width, _)| (name, Mark::Line(color, width))).collect(),
    };
    legend.draw(sheet, &panel)
}

/// A stair through ascending values; it begins at the height of those too small to be shown.
fn cumulative(panel: &Panel, ascending: &[f64]) -> Vec<Point> {
    let total = ascending.len() as f64;
    let small = ascending.partition_point(|&delta| delta < SMALLEST);
    let mut height = small as f64 / total;
    let mut points = vec![panel.point(0.0, height)];
    for (index, &delta) in ascending.iter().enumerate().skip(small) {
        points.push(panel.point(delta, height));
        height = (index + 1) as f64 / total;
        points.push(panel.point(delta, height));
    }
    points.push((panel.right, panel.point(1.0, height).1));
    points.dedup_by_key(|point| ((point.0 * 2.0).round() as i64, (point.1 * 2.0).round() as i64));
    points
}

fn color(kind: QuestionKind) -> RGBColor {
    match kind {
        QuestionKind::Noul => BLUE,
        QuestionKind::Choice => ORANGE,
        QuestionKind::Score => GREEN,
    }
}

fn count(count: u64) -> String {
    grouped(&count.to_string())
}
