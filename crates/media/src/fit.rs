//! The size that a picture is stretched to before a model sees it.
//!
//! The reference's `smart_resize`, in its own double-precision steps, because a rounding of ours would move the number
//! of tokens: `transformers` 5.24, `models/qwen2_vl/image_processing_qwen2_vl.py` for pictures and
//! `models/qwen3_vl/video_processing_qwen3_vl.py` for videos. Python's `round` goes to the even neighbour at a half.

use crate::error::{Error, ErrorKind, Grouped, Result};
use crate::frame::Size;

/// The longer side may be so many times the shorter one.
const MAX_ASPECT_RATIO: f64 = 200.0;

/// How a picture's target size is found. The defaults are those of the released models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageFit {
    /// Both sides become a multiple of so many pixels; not zero. 32: patches of 16, merged two by two into a token.
    pub multiple: u32,
    /// Smaller pictures grow until they have at least so many pixels. 65,536 by default, 64 tokens.
    pub min_pixels: u64,
    /// Larger pictures shrink until they have at most so many pixels. 16,777,216 by default, 16,384 tokens.
    pub max_pixels: u64,
}

impl Default for ImageFit {
    fn default() -> Self {
        Self { multiple: 32, min_pixels: 1 << 16, max_pixels: 1 << 24 }
    }
}

impl ImageFit {
    /// The target size of a picture.
    ///
    /// An elongated picture may come out a little over `max_pixels`, since no side gets shorter than `multiple`.
    ///
    /// # Errors
    /// If the longer side is more than 200 times the shorter, as the reference refuses it; or a side is zero.
    pub fn target(&self, size: Size) -> Result<Size> {
        let side = Side::new(self.multiple, size)?;
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        check_aspect_ratio(width, height)?;
        let rounded = [side.rounded(width), side.rounded(height)];
        let pixels = rounded[0] * rounded[1];
        let [width, height] = if pixels > self.max_pixels as f64 {
            let shrink = (height * width / self.max_pixels as f64).sqrt();
            [side.down(width / shrink), side.down(height / shrink)]
        } else if pixels < self.min_pixels as f64 {
            let grow = (self.min_pixels as f64 / (height * width)).sqrt();
            [side.up(width * grow), side.up(height * grow)]
        } else {
            rounded
        };
        side.size(width, height)
    }
}

/// How the target size of a video's frames is found. The defaults are those of the released models.
///
/// The bounds are on all frames of the video together, at their target size. Other programs of the same family cap each
/// frame besides; the reference does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoFit {
    /// Both sides become a multiple of so many pixels; not zero. 32 by default.
    pub multiple: u32,
    /// So many frames are seen as one; not zero. 2 by default. The last frame is repeated to fill up.
    pub frames_per_step: u32,
    /// Smaller videos grow until they have at least so many pixels. 4,096 by default.
    pub min_pixels: u64,
    /// Larger videos shrink until they have at most so many pixels. 25,165,824 by default.
    pub max_pixels: u64,
}

impl Default for VideoFit {
    fn default() -> Self {
        Self { multiple: 32, frames_per_step: 2, min_pixels: 1 << 12, max_pixels: 24 << 20 }
    }
}

impl VideoFit {
    /// The target size of each of a video's `frames` (after sampling), all of size `size`.
    ///
    /// # Errors
    /// If there are fewer frames than make a step, or the longer side is more than 200 times the shorter, as the
    /// reference refuses both; or a side is zero.
    pub fn target(&self, frames: usize, size: Size) -> Result<Size> {
        let side = Side::new(self.multiple, size)?;
        if self.frames_per_step == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "a step of a video has no frames"));
        }
        if frames < self.frames_per_step as usize {
            return Err(Error::new(
                ErrorKind::Shape,
                format_args!(
                    "video has {} frame{}, it needs at least {}",
                    Grouped(frames as u64),
                    if frames == 1 { "" } else { "s" },
                    self.frames_per_step
                ),
            ));
        }
        let (mut width, mut height) = (f64::from(size.width), f64::from(size.height));
        if height < side.multiple || width < side.multiple {
            let scale = (side.multiple / height).max(side.multiple / width);
            (width, height) = ((width * scale).trunc(), (height * scale).trunc());
        }
        check_aspect_ratio(width, height)?;
        let step = f64::from(self.frames_per_step);
        let frames = frames as f64;
        let rounded = [side.rounded(width), side.rounded(height)];
        let pixels = (frames / step).round_ties_even() * step * rounded[1] * rounded[0];
        let [width, height] = if pixels > self.max_pixels as f64 {
            let shrink = (frames * height * width / self.max_pixels as f64).sqrt();
            [side.down(width / shrink), side.down(height / shrink)]
        } else if pixels < self.min_pixels as f64 {
            let grow = (self.min_pixels as f64 / (frames * height * width)).sqrt();
            [side.up(width * grow), side.up(height * grow)]
        } else {
            rounded
        };
        side.size(width, height)
    }
}

/// Roundings of a side to the multiple.
struct Side {
    multiple: f64,
}

impl Side {
    fn new(multiple: u32, size: Size) -> Result<Self> {
        if multiple == 0 || size.pixels() == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("size {size} cannot be fitted to a multiple of {multiple}"),
            ));
        }
        Ok(Self { multiple: f64::from(multiple) })
    }

    fn rounded(&self, side: f64) -> f64 {
        (side / self.multiple).round_ties_even() * self.multiple
    }

    fn down(&self, side: f64) -> f64 {
        ((side / self.multiple).floor() * self.multiple).max(self.multiple)
    }

    fn up(&self, side: f64) -> f64 {
        (side / self.multiple).ceil() * self.multiple
    }

    /// The finished size. Bounds that are out of this world (a minimum of 2^60 pixels) give sides that are, too.
    fn size(&self, width: f64, height: f64) -> Result<Size> {
        let limit = f64::from(u32::MAX);
        if width < 1.0 || height < 1.0 || width > limit || height > limit {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("target size {width}x{height} is outside 1 to {limit} pixels a side"),
            ));
        }
        Ok(Size::new(width as u32, height as u32))
    }
}

fn check_aspect_ratio(width: f64, height: f64) -> Result<()> {
    let ratio = width.max(height) / width.min(height);
    if ratio > MAX_ASPECT_RATIO {
        return Err(Error::new(
            ErrorKind::Shape,
            format_args!(
                "longer side is {ratio:.1} times the shorter one ({width}x{height}), the limit is {MAX_ASPECT_RATIO}"
            ),
        ));
    }
    Ok(())
}
