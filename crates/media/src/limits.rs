//! How much a file may ask for, judged by its header.
//!
//! A file of forty bytes can declare four thousand million pixels. So nothing is decoded, and nothing that grows with
//! the picture is allocated, before the numbers in the header were held against these.

use crate::error::{Error, ErrorKind, Grouped, Result};
use crate::frame::Size;

/// What a file may ask for.
///
/// Decoding takes at most about 12 bytes of memory for each pixel that is let in (progressive CMYK JPEG, frames of
/// animations; measured), usually 3 to 7, and a JPEG's file once more. Stretching takes 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of a picture, or of the canvas of an animation. 16,777,216 by default: the most that the reference's own
    /// target size has, so that no picture within it is refused for detail that a model could have seen.
    pub max_pixels: u64,
    /// Bytes of decoded pixels (3 a pixel) for each byte of a still picture's file. 100 by default. A phone's photo has
    /// 10 to 40; one color has 190 as JPEG and 860 as PNG, and a very smooth picture of low quality is between.
    pub max_compression_ratio: u64,
    /// Pictures of at most so many pixels may compress at any ratio. 12,582,912 by default: a blank page or a
    /// screenshot of one color is a picture too, and unpacks to no more than 36 MiB.
    pub any_ratio_pixels: u64,
    /// Frames of an animation. 4,096 by default.
    pub max_animation_frames: usize,
    /// Pixels that are decoded to read an animation: canvas x frames up to the last one that is wanted. 268,435,456 by
    /// default, one to four seconds of work: 46 seconds of 640 x 360 at 25 frames a second.
    pub max_animation_pixels: u64,
    /// Pixels of the frames of one animation that are kept, at the size they are kept in. 33,554,432 by default,
    /// 96 MiB; the reference's videos have at most 25,165,824.
    pub max_video_pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_pixels: 1 << 24,
            max_compression_ratio: 100,
            any_ratio_pixels: 12 << 20,
            max_animation_frames: 4_096,
            max_animation_pixels: 1 << 28,
            max_video_pixels: 1 << 25,
        }
    }
}

impl Limits {
    /// Holds a picture's or a canvas's declared size against the pixel limit.
    pub(crate) fn check_size(&self, size: Size) -> Result<()> {
        if size.pixels() == 0 {
            return Err(Error::damaged(format_args!("picture is declared as {size}, it has no pixels")));
        }
        if size.pixels() > self.max_pixels {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format_args!(
                    "picture is {size}, that is {} pixels, the limit is {}",
                    Grouped(size.pixels()),
                    Grouped(self.max_pixels)
                ),
            ));
        }
        Ok(())
    }

    /// Holds a still picture's declared size against the size of its file.
    pub(crate) fn check_ratio(&self, size: Size, file_bytes: usize) -> Result<()> {
        let unpacked = size.pixels().saturating_mul(3);
        let file_bytes = file_bytes as u64;
        let allowed = file_bytes.saturating_mul(self.max_compression_ratio);
        if size.pixels() <= self.any_ratio_pixels || unpacked <= allowed {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooLarge,
            format_args!(
                "picture of {size} is packed into {} bytes, {}:1; the limit above {} pixels is {}:1",
                Grouped(file_bytes),
                Grouped(unpacked / file_bytes.max(1)),
                Grouped(self.any_ratio_pixels),
                Grouped(self.max_compression_ratio)
            ),
        ))
    }

    /// Holds what reading frames would decode and keep against the limits for animations.
    pub(crate) fn check_reading(&self, canvas: Size, decoded: usize, kept: usize, kept_size: Size) -> Result<()> {
        let over = |what, pixels: u64, limit: u64| {
            let message =
                format!("animation of {canvas} has {what} {} pixels, the limit is {}", Grouped(pixels), Grouped(limit));
            Error::new(ErrorKind::TooLarge, message)
        };
        let pixels = canvas.pixels().saturating_mul(decoded as u64);
        if pixels > self.max_animation_pixels {
            return Err(over(
                format!("{} frames to decode,", Grouped(decoded as u64)),
                pixels,
                self.max_animation_pixels,
            ));
        }
        let pixels = kept_size.pixels().saturating_mul(kept as u64);
        if pixels > self.max_video_pixels {
            return Err(over(
                format!("{} frames of {kept_size} to keep,", Grouped(kept as u64)),
                pixels,
                self.max_video_pixels,
            ));
        }
        Ok(())
    }
}
