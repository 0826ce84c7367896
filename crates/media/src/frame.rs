//! Pixels, their size, and their name.

use std::fmt;

use crate::error::{Error, ErrorKind, Grouped, Result};
use crate::resize;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// A size of `width` x `height` pixels; either may be zero, which no frame can be.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// Width times height.
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", Grouped(self.width.into()), Grouped(self.height.into()))
    }
}

/// A picture, or one frame of a video: opaque RGB, 8 bits a channel, rows from the top, no padding.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    size: Size,
    rgb: Vec<u8>,
}

impl Frame {
    /// Takes pixels as they are: three bytes a pixel, rows from the top.
    ///
    /// # Errors
    /// If the size has no pixels, or there are not exactly three bytes for each.
    pub fn from_rgb(size: Size, rgb: Vec<u8>) -> Result<Self> {
        let expected = size.pixels().saturating_mul(3);
        if expected == 0 || rgb.len() as u64 != expected {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("frame of {size} has {} bytes, it needs {}", Grouped(rgb.len() as u64), Grouped(expected)),
            ));
        }
        Ok(Self { size, rgb })
    }

    /// Width and height; neither is zero.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The pixels, three bytes each, rows from the top.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The pixels without the frame around them.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }

    /// This picture stretched to `size` with the reference's antialiased bicubic filter; the proportions are not kept.
    ///
    /// Within one level of what `torchvision` makes of the same 8-bit picture. The same on every machine, with or
    /// without vector instructions. Takes one row-resized copy of memory besides the result.
    ///
    /// # Errors
    /// If `size` has no pixels.
    pub fn resized(self, size: Size) -> Result<Self> {
        if size == self.size {
            return Ok(self);
        }
        if size.pixels() == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, format_args!("target size {size} has no pixels")));
        }
        Ok(Self { size, rgb: resize::bicubic(self.size, self.rgb, size) })
    }

    /// A name for these pixels at this size: the same for equal frames, in every run and on every machine, and
    /// different for all others (BLAKE3 over width and height as little-endian `u32`, then the pixels).
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.size.width.to_le_bytes());
        hasher.update(&self.size.height.to_le_bytes());
        hasher.update(&self.rgb);
        Digest(hasher.finalize().into())
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A frame's name; see [`Frame::digest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}
