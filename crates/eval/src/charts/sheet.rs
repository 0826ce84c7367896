//! A sheet of paper: lines, boxes and words at places given in units, whatever the backend's pixels.

use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, Drawable, PathElement, PointCollection, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle, WHITE};

use crate::charts::fault;
use crate::error::Result;
use crate::table::one_line;

/// The name under which the compiled-in font is registered, and which an SVG asks its viewer for.
pub(super) const FONT: &str = "sans-serif";

/// Letters and axes.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// What stands behind: captions, the diagonal.
pub(super) const FAINT: RGBColor = RGBColor(0x70, 0x70, 0x70);
/// Lines that only guide the eye.
pub(super) const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Colors that most people with color blindness tell apart (Okabe and Ito).
pub(super) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(super) const ORANGE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub(super) const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);

/// A color as it looks on white when so much of it (0 to 1) is there; what lies below does not shine through.
pub(super) fn tint(color: RGBColor, share: f64) -> RGBColor {
    let level = |level: u8| (255.0 - (255.0 - f64::from(level)) * share).round() as u8;
    RGBColor(level(color.0), level(color.1), level(color.2))
}

/// The sizes of letters, in units.
pub(super) const TITLE: f64 = 17.0;
pub(super) const LABEL: f64 = 13.0;
pub(super) const SMALL: f64 = 11.0;

/// The longest title, in characters.
const TITLE_CHARACTERS: usize = 80;

/// A place on the sheet, from its upper left corner, in units.
pub(super) type Point = (f64, f64);

/// Where a drawing area is drawn to.
pub(super) struct Sheet<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    size: (u32, u32),
    scale: f64,
}

impl<B: DrawingBackend> Sheet<B> {
    pub(super) fn new(area: DrawingArea<B, Shift>, size: (u32, u32), scale: u32) -> Result<Self> {
        area.fill(&WHITE).map_err(|error| fault(&error))?;
        Ok(Self { area, size, scale: f64::from(scale) })
    }

    pub(super) fn finish(self) -> Result<()> {
        self.area.present().map_err(|error| fault(&error))
    }

    /// What the chart is of, in the middle above it: a title that somebody else chose, and a line below.
    pub(super) fn title(&mut self, title: &str, caption: &str) -> Result<()> {
        let middle = f64::from(self.size.0) / 2.0;
        self.text(&one_line(title, TITLE_CHARACTERS), (middle, 14.0), TITLE, INK, (HPos::Center, VPos::Top))?;
        self.text(caption, (middle, 38.0), LABEL, FAINT, (HPos::Center, VPos::Top))
    }

    pub(super) fn line(&mut self, points: &[Point], color: RGBColor, width: u32) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&point| self.pixel(point)).collect();
        self.element(&PathElement::new(points, self.stroke(color, width)))
    }

    /// A straight line of dashes.
    pub(super) fn dashes(&mut self, from: Point, to: Point, color: RGBColor, width: u32) -> Result<()> {
        const DASH: f64 = 5.0;
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let at = |distance: f64| {
            let part = distance.min(length) / length;
            (from.0 + dx * part, from.1 + dy * part)
        };
        let mut start = 0.0;
        while start < length {
            self.line(&[at(start), at(start + DASH)], color, width)?;
            start += 2.0 * DASH;
        }
        Ok(())
    }

    /// A filled box.
    pub(super) fn fill(&mut self, from: Point, to: Point, color: RGBColor) -> Result<()> {
        self.element(&Rectangle::new([self.pixel(from), self.pixel(to)], color.filled()))
    }

    pub(super) fn outline(&mut self, from: Point, to: Point, color: RGBColor) -> Result<()> {
        self.element(&Rectangle::new([self.pixel(from), self.pixel(to)], self.stroke(color, 1)))
    }

    pub(super) fn dot(&mut self, center: Point, radius: f64, color: RGBColor) -> Result<()> {
        self.element(&Circle::new(self.pixel(center), (radius * self.scale) as i32, color.filled()))
    }

    /// Words, of which `anchor` says what part stands at the place.
    pub(super) fn text(
        &mut self,
        text: &str,
        at: Point,
        size: f64,
        color: RGBColor,
        anchor: (HPos, VPos),
    ) -> Result<()> {
        let style =
            TextStyle::from((FONT, size * self.scale).into_font()).color(&color).pos(Pos::new(anchor.0, anchor.1));
        self.area.draw_text(text, &style, self.pixel(at)).map_err(|error| fault(&error))
    }

    /// Words from the bottom to the top, with their middle at the place.
    pub(super) fn text_upwards(&mut self, text: &str, at: Point, size: f64, color: RGBColor) -> Result<()> {
        let font = (FONT, size * self.scale).into_font().transform(FontTransform::Rotate270);
        let style = TextStyle::from(font).color(&color).pos(Pos::new(HPos::Center, VPos::Center));
        self.area.draw_text(text, &style, self.pixel(at)).map_err(|error| fault(&error))
    }

    /// How wide words are, in units.
    pub(super) fn text_width(&self, text: &str, size: f64) -> Result<f64> {
        let style = TextStyle::from((FONT, size * self.scale).into_font());
        let (width, _) = self.area.estimate_text_size(text, &style).map_err(|error| fault(&error))?;
        Ok(f64::from(width) / self.scale)
    }

    fn element<E>(&mut self, element: &E) -> Result<()>
    where
        for<'e> &'e E: PointCollection<'e, (i32, i32)>,
        E: Drawable<B>,
    {
        self.area.draw(element).map_err(|error| fault(&error))
    }

    fn stroke(&self, color: RGBColor, width: u32) -> ShapeStyle {
        let color: RGBAColor = color.to_rgba();
        ShapeStyle { color, filled: false, stroke_width: width * self.scale as u32 }
    }

    fn pixel(&self, point: Point) -> (i32, i32) {
        ((point.0 * self.scale).round() as i32, (point.1 * self.scale).round() as i32)
    }
}
