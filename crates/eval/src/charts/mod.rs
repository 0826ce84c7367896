//! Charts, as SVG and as PNG.
//!
//! `plotters` draws the lines, letters and pixels; where they go is decided here, because axes of powers of ten, counts over
//! bars and legends that stay clear of the data are what makes these charts readable, and it leaves them to its callers.
//! Letters of a PNG come from a font that is compiled in (Noto Sans), so that a chart is the same on a machine without any;
//! an SVG names `sans-serif` and is set by whoever shows it.

mod axis;
mod drift;
mod latency;
mod legend;
mod reliability;
mod sheet;

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use plotters::style::{FontStyle, register_font};

use crate::drift::Drift;
use crate::error::{Error, ErrorKind, Result};
use crate::measure::Measures;
use sheet::Sheet;

/// How many pixels of a PNG one unit of a chart is.
const PNG_SCALE: u32 = 2;

/// Something to look at, on white. Titles that are too long are cut.
#[derive(Debug, Clone, Copy)]
pub enum Chart<'a> {
    /// How often answers are right, by how sure they are: right on the diagonal, if probabilities mean what they say.
    Reliability {
        /// Whose answers, and to what.
        title: &'a str,
        /// Of whose bins.
        measures: &'a Measures,
    },
    /// How long answers take. The axis is logarithmic when the times span more than two powers of ten.
    Latency {
        /// Whose answers, and to what.
        title: &'a str,
        /// In milliseconds, in any order.
        latencies_ms: &'a [f64],
    },
    /// Which share of the options moved by at most how much, by question type.
    Drift(&'a Drift),
}

impl Chart<'_> {
    /// Makes the folder that charts are going to be written to, and makes sure that they can be, before hours are spent on
    /// what they show. What is in it stays as it is.
    ///
    /// # Errors
    /// Of kind [`Chart`](ErrorKind::Chart) if there is no folder, or no file can be written in it.
    pub fn prepare_folder(folder: &Path) -> Result<()> {
        let refuse = |what: &str, error: io::Error| {
            let message = format!("charts cannot be written: {what} {}: {error}", folder.display());
            Error::new(ErrorKind::Chart, message).with_source(error)
        };
        std::fs::create_dir_all(folder).map_err(|error| refuse("cannot make the folder", error))?;
        // Permissions alone do not tell: the file system may be read-only or full.
        let probe = folder.join(format!(".clef-eval-{}", std::process::id()));
        let written = std::fs::write(&probe, b"charts will stand here\n");
        // A file that could not be filled is there nevertheless.
        let removed = std::fs::remove_file(&probe);
        written.and(removed).map_err(|error| refuse("no file can be written in", error))
    }

    /// An SVG document.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn to_svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(SVGBackend::with_string(&mut svg, self.size()), 1)?;
        Ok(svg)
    }

    /// A PNG of twice as many pixels as the SVG has units, for sharp letters.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let (width, height) = self.size();
        let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
        let mut pixels = vec![0xff; width as usize * height as usize * 3];
        self.draw(BitMapBackend::with_buffer(&mut pixels, (width, height)), PNG_SCALE)?;
        packed(&pixels, width, height).map_err(|error| fault(&error).with_source(error))
    }

    /// Width and height, in units.
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Reliability { .. } => reliability::SIZE,
            Self::Latency { .. } => latency::SIZE,
            Self::Drift(_) => drift::SIZE,
        }
    }

    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Result<()> {
        register_letters()?;
        let mut sheet = Sheet::new(backend.into_drawing_area(), self.size(), scale)?;
        match self {
            Self::Reliability { title, measures } => reliability::draw(&mut sheet, title, measures)?,
            Self::Latency { title, latencies_ms } => latency::draw(&mut sheet, title, latencies_ms)?,
            Self::Drift(drift) => drift::draw(&mut sheet, drift)?,
        }
        sheet.finish()
    }
}

/// Makes the compiled-in font known to `plotters`, once for the process.
fn register_letters() -> Result<()> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = || register_font(sheet::FONT, FontStyle::Normal, ttf_noto_sans::REGULAR).is_ok();
    match *REGISTERED.get_or_init(register) {
        true => Ok(()),
        false => Err(fault(&"the font that is compiled in cannot be read")),
    }
}

fn packed(pixels: &[u8], width: u32, height: u32) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

fn fault(what: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Chart, format_args!("cannot draw the chart: {what}"))
}
