//! The reliability diagram: are answers as often right as they are sure?
//!
//! Above, a bar per bin: as high as the share of right answers, a dot at their mean confidence. What separates the dot
//! from the diagonal is what the calibration error sums. Below, how many answers there are in each bin, without which the
//! bars above cannot be judged.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use crate::charts::axis::{Axis, Panel, grouped};
use crate::charts::legend::{Legend, Mark};
use crate::charts::sheet::{BLUE, FAINT, INK, ORANGE, SMALL, Sheet, tint};
use crate::error::Result;
use crate::measure::Measures;

pub(super) const SIZE: (u32, u32) = (720, 780);

pub(super) fn draw<B: DrawingBackend>(sheet: &mut Sheet<B>, title: &str, measures: &Measures) -> Result<()> {
    sheet.title(title, "Reliability: right answers by confidence")?;
    let most = measures.reliability.iter().map(|bin| bin.count).max().unwrap_or(0) as f64;
    let x = Axis::linear(0.0, 1.0);
    let upper = Panel { left: 84.0, top: 70.0, right: 690.0, bottom: 535.0, x, y: Axis::linear(0.0, 1.0) };
    // Room for the count over the highest bar.
    let lower = Panel { top: 560.0, bottom: 725.0, y: Axis::linear(0.0, most.max(1.0) * 1.15), ..upper };

    upper.grid(sheet)?;
    for bin in &measures.reliability {
        if let Some(accuracy) = bin.accuracy {
            let gap = ((bin.up_to - bin.above) * 0.06).min(0.004);
            let (from, to) = (upper.point(bin.above + gap, accuracy), upper.point(bin.up_to - gap, 0.0));
            sheet.fill(from, to, tint(BLUE, 0.55))?;
        }
    }
    sheet.dashes(upper.point(0.0, 0.0), upper.point(1.0, 1.0), FAINT, 1)?;
    for bin in &measures.reliability {
        if let (Some(confidence), Some(accuracy)) = (bin.confidence, bin.accuracy) {
            sheet.line(&[upper.point(confidence, accuracy), upper.point(confidence, confidence)], ORANGE, 2)?;
            sheet.dot(upper.point(confidence, accuracy), 4.0, ORANGE)?;
        }
    }
    upper.frame(sheet, "", "share of right answers")?;

    lower.grid(sheet)?;
    let is_labelled = measures.reliability.len() <= 20;
    for bin in measures.reliability.iter().filter(|bin| bin.count > 0) {
        let gap = ((bin.up_to - bin.above) * 0.06).min(0.004);
        let count = bin.count as f64;
        sheet.fill(lower.point(bin.above + gap, count), lower.point(bin.up_to - gap, 0.0), tint(FAINT, 0.6))?;
        if is_labelled {
            let (x, y) = lower.point((bin.above + bin.up_to) / 2.0, count);
            sheet.text(&grouped(&bin.count.to_string()), (x, y - 3.0), SMALL, INK, (HPos::Center, VPos::Bottom))?;
        }
    }
    lower.frame(sheet, "confidence (probability of the answer)", "answers")?;

    let Some(ece) = measures.ece else { return upper.nothing(sheet) };
    // In the upper left are neither the diagonal nor, for answers that are surer than right, the bars.
    let legend = Legend {
        figures: vec![
            format!("ECE {ece:.4} ({} bins)", measures.reliability.len()),
            format!("accuracy {:.4}", measures.accuracy.unwrap_or_default()),
            format!("{} answers", grouped(&measures.decided.to_string())),
        ],
        keys: vec![
            ("right answers".to_owned(), Mark::Bar(tint(BLUE, 0.55))),
            ("mean confidence, gap".to_owned(), Mark::Gap(ORANGE)),
            ("perfectly calibrated".to_owned(), Mark::Dashes(FAINT)),
        ],
    };
    legend.draw(sheet, &upper)
}
