//! The skeleton of a GIF: which frames there are, how large, and how long each is shown.
//!
//! Read without decoding anything, so that limits come before work and frames can be picked before they are decoded.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::frame::Size;

/// One frame, as it is declared.
#[derive(Debug)]
pub(crate) struct GifFrame {
    /// The part of the canvas that it paints; may reach beyond it.
    pub(crate) size: Size,
    pub(crate) duration: Duration,
}

/// What a GIF holds.
#[derive(Debug)]
pub(crate) struct GifLayout {
    pub(crate) canvas: Size,
    /// Only frames whose data is all there.
    pub(crate) frames: Vec<GifFrame>,
    /// Whether the file ends in the middle of a block.
    pub(crate) is_cut: bool,
}

impl GifLayout {
    /// Reads the blocks of a GIF, at most `max_frames` frames and one more.
    pub(crate) fn read(bytes: &[u8], max_frames: usize) -> Result<Self> {
        let mut reader = Reader { bytes, at: 6 };
        let cut = || Error::damaged("GIF ends inside its header, it is cut off");
        let canvas = reader.size().ok_or_else(cut)?;
        let flags = reader.byte().ok_or_else(cut)?;
        reader.skip(2 + color_table_bytes(flags)).ok_or_else(cut)?;
        let mut layout = Self { canvas, frames: Vec::new(), is_cut: false };
        layout.is_cut = layout.read_blocks(&mut reader, max_frames)?.is_none();
        Ok(layout)
    }

    /// Reads blocks up to the trailer; none if the file ends inside a block. A trailer that is missing is not missed.
    fn read_blocks(&mut self, reader: &mut Reader<'_>, max_frames: usize) -> Result<Option<()>> {
        const EXTENSION: u8 = 0x21;
        const IMAGE: u8 = 0x2c;
        const TRAILER: u8 = 0x3b;
        let mut duration = shown(0);
        while let Some(introducer) = reader.byte() {
            let whole = match introducer {
                TRAILER => return Ok(Some(())),
                EXTENSION => reader.extension().map(|delay| duration = delay.map_or(duration, shown)),
                IMAGE => reader.frame().map(|size| {
                    self.frames.push(GifFrame { size, duration });
                    duration = shown(0);
                }),
                // Encoders pad with zeros.
                0 => Some(()),
                other => {
                    return Err(Error::damaged(format_args!("GIF has a block of unknown kind {other:#04x}")));
                }
            };
            if whole.is_none() {
                return Ok(None);
            }
            if self.frames.len() > max_frames {
                return Ok(Some(()));
            }
        }
        Ok(Some(()))
    }
}

/// How long a frame of a declared delay, in hundredths of a second, is shown. Browsers and FFmpeg show a frame without
/// a delay, or with the shortest one, for a tenth of a second.
fn shown(delay: u16) -> Duration {
    let delay = if delay < 2 { 10 } else { delay };
    Duration::from_millis(u64::from(delay) * 10)
}

/// Bytes of the color table that these flags announce.
fn color_table_bytes(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Reads forward; nothing when the file ends.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    fn size(&mut self) -> Option<Size> {
        Some(Size::new(self.half()?.into(), self.half()?.into()))
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at += count;
        (self.at <= self.bytes.len()).then_some(())
    }

    /// An extension; the delay of the next frame, if it says that.
    fn extension(&mut self) -> Option<Option<u16>> {
        const GRAPHIC_CONTROL: u8 = 0xf9;
        let is_control = self.byte()? == GRAPHIC_CONTROL;
        let delay = match self.bytes.get(self.at..self.at + 4) {
            Some([4, _, low, high]) if is_control => Some(u16::from_le_bytes([*low, *high])),
            _ => None,
        };
        self.sub_blocks()?;
        Some(delay)
    }

    /// A frame; its declared size.
    fn frame(&mut self) -> Option<Size> {
        self.skip(4)?;
        let size = self.size()?;
        let flags = self.byte()?;
        // The byte behind the color table is the width of the first code.
        self.skip(color_table_bytes(flags) + 1)?;
        self.sub_blocks()?;
        Some(size)
    }

    /// Passes over data up to the empty block that ends it.
    fn sub_blocks(&mut self) -> Option<()> {
        loop {
            match self.byte()? {
                0 => return Some(()),
                length => self.skip(length.into())?,
            }
        }
    }
}
