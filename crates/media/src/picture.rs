//! A file becomes a frame.
//!
//! What the reference's own loaders do was looked up and measured (Pillow 13, `transformers` 5.24; the numbers are in
//! `tests/it/pillow.rs`):
//!
//! - **Orientation**: `image_utils.load_image` calls `ImageOps.exif_transpose`, and `load_image_as_tensor` asks its
//!   decoder for the same. Only a caller who hands over a picture that is open already gets it untransposed.
//! - **Transparency**: `image_transforms.convert_to_rgb` lays it over white, also that of palettes and of PNG's single
//!   transparent color.
//! - **Depth**: Pillow keeps the high byte of 16-bit color. Of 16-bit *gray* it clips, so that nearly every picture
//!   comes out white; nobody wants that, and no other mapping is the reference's, so it is refused.
//! - **CMYK and YCCK**: inverted as Adobe writes them, whether or not the file says so, then `R = C * K / 255`.
//! - Color profiles and gamma are not applied.
//! - **Animations**: the first frame, on the whole canvas. Where it paints nothing there is nothing, so white; Pillow
//!   shows the palette's first color there, unless some color of the frame is transparent.
//! - Pillow's JPEG comes from libjpeg-turbo. Ours differs from it by at most 3 levels, on average by 0.04, where color is
//!   stored at full resolution. Where it is stored at half (it is interpolated in two roundings instead of one), photos
//!   differ by 4 levels at most and 0.3 on average, one of 557 that were compared by 14; pictures of up to 4 pixels in
//!   width, whose color is then one or two samples wide, by up to 99.

use std::fmt;
use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, RgbImage};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::frame::{Frame, Size};
use crate::gif::GifLayout;
use crate::jpeg;
use crate::limits::Limits;
use crate::webp::WebpLayout;

/// The most that a decoder may allocate for what is not pixels: rows, profiles, palettes.
const MAX_SIDE_BYTES: u64 = 64 << 20;

/// A picture whose header was read and found within the limits, and whose pixels were not decoded yet.
pub struct Picture<'a> {
    format: Format,
    size: Size,
    orientation: Orientation,
    decoder: Box<dyn ImageDecoder + Send + 'a>,
}

impl<'a> Picture<'a> {
    /// Reads the header. Of an animation, the picture is the first frame.
    ///
    /// Costs microseconds and memory for the header, whatever it declares; a JPEG is copied once.
    ///
    /// # Errors
    /// If the bytes are no picture that is read, if the file is cut off or contradicts itself as far as can be told
    /// without decoding, or if it is over a limit.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        let format = Format::sniff(bytes)?;
        let mut decoder = decoder(format, bytes, limits)?;
        let (width, height) = decoder.dimensions();
        let stored = Size::new(width, height);
        limits.check_size(stored)?;
        limits.check_ratio(stored, bytes.len())?;
        let orientation = decoder.orientation().map_err(|error| failed(format, error))?;
        let size = if is_on_its_side(orientation) { Size::new(height, width) } else { stored };
        Ok(Self { format, size, orientation, decoder })
    }

    /// What the file is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Width and height after the picture was turned as EXIF says.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Decodes the pixels, turns them as EXIF says, and lays transparency over white.
    ///
    /// # Errors
    /// If the file is cut off or does not decode.
    pub fn decode(self) -> Result<Frame> {
        let Self { format, size, orientation, decoder } = self;
        let (width, height) = decoder.dimensions();
        let color = decoder.color_type();
        let length = usize::try_from(decoder.total_bytes()).expect("within the limits, so within memory");
        let mut pixels = vec![0; length];
        decoder.read_image_boxed(&mut pixels).map_err(|error| failed(format, error))?;
        let rgb = to_rgb(format, color, pixels)?;
        let rgb = if orientation == Orientation::NoTransforms {
            rgb
        } else {
            let upright = RgbImage::from_raw(width, height, rgb).expect("three bytes for each pixel");
            let mut upright = DynamicImage::ImageRgb8(upright);
            upright.apply_orientation(orientation);
            upright.into_rgb8().into_raw()
        };
        Frame::from_rgb(size, rgb)
    }
}

impl fmt::Debug for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture").field("format", &self.format).field("size", &self.size).finish_non_exhaustive()
    }
}

/// A decoder that has read the header of a file that was found whole.
fn decoder<'a>(format: Format, bytes: &'a [u8], limits: &Limits) -> Result<Box<dyn ImageDecoder + Send + 'a>> {
    let wrong = |error| failed(format, error);
    let side_limits = side_limits();
    Ok(match format {
        Format::Png => {
            check_png_variety(bytes)?;
            Box::new(PngDecoder::with_limits(Cursor::new(bytes), side_limits).map_err(wrong)?)
        }
        Format::Jpeg => {
            jpeg::check_complete(bytes)?;
            Box::new(JpegDecoder::new(Cursor::new(bytes)).map_err(wrong)?)
        }
        Format::WebP => {
            let layout = WebpLayout::read(bytes)?;
            limits.check_size(layout.canvas)?;
            Box::new(WebPDecoder::new(Cursor::new(&bytes[..layout.file_bytes])).map_err(wrong)?)
        }
        Format::Gif => {
            let layout = GifLayout::read(bytes, 0)?;
            let Some(first) = layout.frames.first() else {
                let what =
                    if layout.is_cut { "GIF ends inside its first frame, it is cut off" } else { "GIF has no frame" };
                return Err(Error::damaged(what));
            };
            limits.check_size(layout.canvas)?;
            limits.check_size(first.size)?;
            Box::new(GifDecoder::new(Cursor::new(bytes)).map_err(wrong)?)
        }
        Format::Bmp => Box::new(BmpDecoder::new(Cursor::new(bytes)).map_err(wrong)?),
    })
}

fn side_limits() -> image::Limits {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_SIDE_BYTES);
    limits
}

/// Refuses 16-bit gray, the one variety of PNG for which the reference has no sensible pixels.
fn check_png_variety(bytes: &[u8]) -> Result<()> {
    // Bit depth and color type follow width and height in the first chunk.
    if let Some([16, 0]) = bytes.get(24..26) {
        return Err(Error::new(
            ErrorKind::UnsupportedVariety,
            "PNG is 16-bit gray, which has no agreed look in 8 bits; 8-bit gray and 16-bit color are read",
        ));
    }
    Ok(())
}

fn is_on_its_side(orientation: Orientation) -> bool {
    use Orientation::{FlipHorizontal, FlipVertical, NoTransforms, Rotate180};
    !matches!(orientation, NoTransforms | FlipHorizontal | FlipVertical | Rotate180)
}

/// Says what a decoder has against a file.
pub(crate) fn failed(format: Format, error: ImageError) -> Error {
    let (kind, what) = match &error {
        ImageError::Unsupported(_) => (ErrorKind::UnsupportedVariety, "is of a variety that is not read"),
        ImageError::Limits(_) => (ErrorKind::TooLarge, "needs more memory to decode than it may have"),
        _ => (ErrorKind::Damaged, "is damaged or cut off"),
    };
    // A decoder's own words are few, but nobody promises it.
    let reason: String = error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    Error::new(kind, format_args!("{format} {what}: {reason}")).with_source(error)
}

/// Turns decoded pixels into opaque RGB, in place where that takes no more memory.
pub(crate) fn to_rgb(format: Format, color: ColorType, pixels: Vec<u8>) -> Result<Vec<u8>> {
    let high = high_byte;
    Ok(match color {
        ColorType::Rgb8 => pixels,
        ColorType::L8 => widened(&pixels, 1, |pixel| pixel[0]),
        ColorType::La8 => widened(&pixels, 2, |pixel| over_white(pixel[0], pixel[1])),
        ColorType::La16 => widened(&pixels, 4, |pixel| over_white(high(pixel, 0), high(pixel, 1))),
        ColorType::Rgba8 => shrunk(pixels, 4, |pixel, channel| over_white(pixel[channel], pixel[3])),
        ColorType::Rgb16 => shrunk(pixels, 6, high),
        ColorType::Rgba16 => shrunk(pixels, 8, |pixel, channel| over_white(high(pixel, channel), high(pixel, 3))),
        other => {
            return Err(Error::new(
                ErrorKind::UnsupportedVariety,
                format_args!("{format} has pixels of type {other:?}, which are not read"),
            ));
        }
    })
}

/// Three equal channels for each group of `bytes` bytes.
fn widened(pixels: &[u8], bytes: usize, gray: impl Fn(&[u8]) -> u8) -> Vec<u8> {
    let mut rgb = vec![0; pixels.len() / bytes * 3];
    for (rgb, pixel) in rgb.chunks_exact_mut(3).zip(pixels.chunks_exact(bytes)) {
        rgb.fill(gray(pixel));
    }
    rgb
}

/// Three channels for each group of `bytes` bytes, at least three.
fn shrunk(mut pixels: Vec<u8>, bytes: usize, channel: impl Fn(&[u8], usize) -> u8) -> Vec<u8> {
    let count = pixels.len() / bytes;
    for index in 0..count {
        let pixel = &pixels[index * bytes..][..bytes];
        let rgb = [0, 1, 2].map(|number| channel(pixel, number));
        pixels[index * 3..][..3].copy_from_slice(&rgb);
    }
    pixels.truncate(count * 3);
    pixels.shrink_to_fit();
    pixels
}

/// A channel's value over white, rounded as Pillow's `alpha_composite` rounds it.
fn over_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// The high byte of a 16-bit channel in the machine's byte order.
fn high_byte(pixel: &[u8], channel: usize) -> u8 {
    (u16::from_ne_bytes([pixel[2 * channel], pixel[2 * channel + 1]]) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparency_over_white_is_exact_at_both_ends_and_rounds_to_nearest_between() {
        for value in 0..=255 {
            assert_eq!(over_white(value, 255), value);
            assert_eq!(over_white(value, 0), 255);
            for alpha in 0..=255_u8 {
                let (part, rest) = (f64::from(alpha) / 255.0, 1.0 - f64::from(alpha) / 255.0);
                let exact = f64::from(value) * part + 255.0 * rest;
                assert!((f64::from(over_white(value, alpha)) - exact).abs() <= 0.5 + 1e-9, "{value} {alpha}");
            }
        }
    }
}
