//! What the colors mean, and the figures that sum a chart up, in a box in the upper left of a panel.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{RGBColor, WHITE};

use crate::charts::axis::Panel;
use crate::charts::sheet::{FAINT, INK, LABEL, Sheet};
use crate::error::Result;

/// The height of a line.
const ROW: f64 = 19.0;

/// An SVG is set in letters of its viewer's, which may be wider than ours.
const ROOM: f64 = 1.2;

/// How something is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Bar(RGBColor),
    Line(RGBColor, u32),
    /// A dot, and a line to where it should be.
    Gap(RGBColor),
    Dashes(RGBColor),
}

/// Figures, and under them what is drawn how.
#[derive(Debug, Default)]
pub(super) struct Legend {
    pub(super) figures: Vec<String>,
    pub(super) keys: Vec<(String, Mark)>,
}

impl Legend {
    pub(super) fn draw<B: DrawingBackend>(&self, sheet: &mut Sheet<B>, panel: &Panel) -> Result<()> {
        let mut width = 0.0_f64;
        for text in &self.figures {
            width = width.max(sheet.text_width(text, LABEL)? * ROOM);
        }
        for (text, _) in &self.keys {
            width = width.max(sheet.text_width(text, LABEL)? * ROOM + 30.0);
        }
        let (left, top) = (panel.left + 14.0, panel.top + 14.0);
        let corner = (left + width + 24.0, top + ROW * (self.figures.len() + self.keys.len()) as f64 + 16.0);
        sheet.fill((left, top), corner, WHITE)?;
        sheet.outline((left, top), corner, FAINT)?;
        let mut y = top + 8.0 + ROW / 2.0;
        let from = left + 12.0;
        for text in &self.figures {
            sheet.text(text, (from, y), LABEL, INK, (HPos::Left, VPos::Center))?;
            y += ROW;
        }
        for (text, mark) in &self.keys {
            let to = from + 22.0;
            match *mark {
                Mark::Bar(color) => sheet.fill((from, y - 5.0), (to, y + 5.0), color)?,
                Mark::Line(color, width) => sheet.line(&[(from, y), (to, y)], color, width)?,
                Mark::Gap(color) => {
                    sheet.line(&[(from + 4.0, y), (to, y)], color, 2)?;
                    sheet.dot((from + 4.0, y), 4.0, color)?;
                }
                Mark::Dashes(color) => sheet.dashes((from, y), (to, y), color, 1)?,
            }
            sheet.text(text, (to + 8.0, y), LABEL, INK, (HPos::Left, VPos::Center))?;
            y += ROW;
        }
        Ok(())
    }
}
