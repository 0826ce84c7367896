//! Axes: which figures stand at them, and where a value lies between them.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use crate::charts::sheet::{FAINT, GRID, INK, LABEL, Point, SMALL, Sheet};
use crate::error::Result;

/// How far a quotient may be from a whole number and still be meant to be one.
const SLACK: f64 = 1e-9;

/// A range of values and how they are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    spread: Spread,
}

/// How values are spread, and at which of them figures stand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spread {
    /// Evenly, figures so far apart.
    Linear { step: f64 },
    /// By their logarithms, figures at powers of ten so many apart; with the 2 and the 5 between them, if so many is 0.
    Log { powers: u8 },
}

impl Axis {
    /// Evenly spread values.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, spread: Spread::Linear { step: step(high - low) } }
    }

    /// Evenly spread powers of ten around all of these, which are above 0; it ends at 1, 2 or 5 times a power.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let (low, mut high) = (round_below(low), round_above(high));
        if high <= low {
            high = low * 10.0;
        }
        let decades = (high / low).log10();
        let powers = if decades <= 4.0 { 0 } else { (decades / 12.0).ceil() as u8 };
        Self { low: low.log10(), high: high.log10(), spread: Spread::Log { powers } }
    }

    /// Evenly spread values, round ones at both ends, around all of these.
    pub(super) fn around(low: f64, high: f64) -> Self {
        let step = step(high - low);
        let low = (low / step + SLACK).floor() * step;
        let high = ((high / step - SLACK).ceil() * step).max(low + step);
        Self { low, high, spread: Spread::Linear { step } }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, held between them.
    pub(super) fn place(self, value: f64) -> f64 {
        let value = match self.spread {
            Spread::Linear { .. } => value,
            Spread::Log { .. } => value.max(f64::MIN_POSITIVE).log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The value at a place from 0 to 1.
    pub(super) fn value(self, place: f64) -> f64 {
        let value = self.low + (self.high - self.low) * place;
        match self.spread {
            Spread::Linear { .. } => value,
            Spread::Log { .. } => 10_f64.powf(value),
        }
    }

    /// The values that figures stand at.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self.spread {
            Spread::Linear { step } => {
                let first = (self.low / step - SLACK).ceil() as i64;
                let last = (self.high / step + SLACK).floor() as i64;
                (first..=last).map(|count| count as f64 * step).collect()
            }
            Spread::Log { powers } => {
                let factors: &[f64] = if powers == 0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let all = (self.low.floor() as i32..=self.high.ceil() as i32).step_by(usize::from(powers.max(1)));
                let all = all.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
                let ends = self.low - SLACK..=self.high + SLACK;
                all.filter(|tick| ends.contains(&tick.log10())).collect()
            }
        }
    }
}

/// The largest of 1, 2 and 5 times a power of ten that is not above a value.
fn round_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= value * (1.0 + SLACK));
    factor.unwrap_or(1.0) * power
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below a value.
fn round_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - SLACK));
    factor.unwrap_or(10.0) * power
}

/// A round distance between figures that makes about five of a range: 1, 2 or 5 times a power of ten.
fn step(range: f64) -> f64 {
    let range = if range > 0.0 { range } else { 1.0 };
    let power = 10_f64.powf((range / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| range / (step * power) <= 6.0 + SLACK);
    step.unwrap_or(10.0) * power
}

/// A figure at an axis.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size < 0.001 {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.split_once('.') {
        None if size >= 1_000.0 => grouped(text),
        _ => text.to_owned(),
    }
}

/// A whole number with a comma between thousands.
pub(super) fn grouped(digits: &str) -> String {
    digits.parse().map_or_else(|_| digits.to_owned(), |count| clef_record::Grouped(count).to_string())
}

/// A rectangle between two axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    /// The corners, in units.
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Panel {
    /// The place of a pair of values.
    pub(super) fn point(&self, x: f64, y: f64) -> Point {
        let (x, y) = (self.x.place(x), self.y.place(y));
        (self.left + (self.right - self.left) * x, self.bottom - (self.bottom - self.top) * y)
    }

    /// Lines of the grid, behind everything.
    pub(super) fn grid<B: DrawingBackend>(&self, sheet: &mut Sheet<B>) -> Result<()> {
        for tick in self.x.ticks() {
            let (x, _) = self.point(tick, 0.0);
            sheet.line(&[(x, self.top), (x, self.bottom)], GRID, 1)?;
        }
        for tick in self.y.ticks() {
            let (_, y) = self.point(0.0, tick);
            sheet.line(&[(self.left, y), (self.right, y)], GRID, 1)?;
        }
        Ok(())
    }

    /// The frame, the figures at both axes and what they mean; none for an empty word.
    pub(super) fn frame<B: DrawingBackend>(&self, sheet: &mut Sheet<B>, x_label: &str, y_label: &str) -> Result<()> {
        sheet.outline((self.left, self.top), (self.right, self.bottom), FAINT)?;
        if !x_label.is_empty() {
            for tick in self.x.ticks() {
                let (x, _) = self.point(tick, 0.0);
                sheet.line(&[(x, self.bottom), (x, self.bottom + 4.0)], FAINT, 1)?;
                sheet.text(&figure(tick), (x, self.bottom + 7.0), SMALL, INK, (HPos::Center, VPos::Top))?;
            }
            let middle = (self.left + self.right) / 2.0;
            sheet.text(x_label, (middle, self.bottom + 25.0), LABEL, INK, (HPos::Center, VPos::Top))?;
        }
        for tick in self.y.ticks() {
            let (_, y) = self.point(0.0, tick);
            sheet.line(&[(self.left - 4.0, y), (self.left, y)], FAINT, 1)?;
            sheet.text(&figure(tick), (self.left - 8.0, y), SMALL, INK, (HPos::Right, VPos::Center))?;
        }
        sheet.text_upwards(y_label, (self.left - 52.0, (self.top + self.bottom) / 2.0), LABEL, INK)
    }

    /// Words in the middle, when there is nothing to show.
    pub(super) fn nothing<B: DrawingBackend>(&self, sheet: &mut Sheet<B>) -> Result<()> {
        let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        sheet.text("no answers", middle, LABEL, FAINT, (HPos::Center, VPos::Center))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(figure).collect()
    }

    #[test]
    fn figures_are_round() {
        assert_eq!(figures(Axis::linear(0.0, 1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(figures(Axis::around(0.0, 2_247.0)), ["0", "500", "1,000", "1,500", "2,000", "2,500"]);
        assert_eq!(figures(Axis::around(17.2, 18.4)), ["17.2", "17.4", "17.6", "17.8", "18", "18.2", "18.4"]);
        assert_eq!(figures(Axis::log(0.000_03, 1.0)), ["1e-4", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(figures(Axis::log(7.0, 230.0)), ["5", "10", "20", "50", "100", "200", "500"]);
        assert_eq!(
            figures(Axis::log(1e-9, 1e9)),
            ["1e-9", "1e-7", "1e-5", "0.001", "0.1", "10", "1,000", "100,000", "10,000,000", "1,000,000,000"]
        );
    }

    #[test]
    fn an_axis_always_has_a_length() {
        for axis in [Axis::linear(3.0, 3.0), Axis::around(0.0, 0.0), Axis::around(5.0, 5.0), Axis::log(10.0, 10.0)] {
            assert!(axis.high > axis.low, "{axis:?}");
            assert!(figures(axis).len() > 1, "{axis:?}");
        }
    }

    #[test]
    fn places_and_values_are_inverse() {
        for axis in [Axis::linear(-1.0, 3.0), Axis::log(0.01, 10.0)] {
            for place in [0.0, 0.25, 1.0] {
                assert!((axis.place(axis.value(place)) - place).abs() < 1e-12);
            }
        }
        assert_eq!(Axis::log(0.01, 10.0).place(0.0), 0.0);
        assert_eq!(Axis::linear(0.0, 1.0).place(7.0), 1.0);
    }
}
