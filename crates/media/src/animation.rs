//! An animated GIF or WebP as the frames of a video.
//!
//! How many frames there are, and how long each is shown, is read from the file's skeleton. So a caller can pick the
//! few frames that a model sees before any is decoded, and only those are kept, each at its final size.

use std::io::Cursor;
use std::time::Duration;

use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder, ColorType, Frames, Rgba};

use crate::error::{Error, ErrorKind, Grouped, Result};
use crate::format::Format;
use crate::frame::{Frame, Size};
use crate::gif::GifLayout;
use crate::limits::Limits;
use crate::picture::{failed, to_rgb};
use crate::webp::WebpLayout;

/// An animation whose skeleton was read and found within the limits, and whose frames were not decoded yet.
#[derive(Debug)]
pub struct Animation<'a> {
    bytes: &'a [u8],
    format: Format,
    size: Size,
    durations: Vec<Duration>,
    limits: Limits,
}

impl<'a> Animation<'a> {
    /// Reads the skeleton of a GIF or an animated WebP.
    ///
    /// # Errors
    /// If the bytes are neither, if the file is cut off or contradicts itself as far as can be told without decoding,
    /// or if it is over a limit.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        let format = Format::sniff(bytes)?;
        let (bytes, size, durations): (_, _, Vec<Duration>) = match format {
            Format::Gif => {
                let layout = GifLayout::read(bytes, limits.max_animation_frames)?;
                layout.frames.iter().try_for_each(|frame| limits.check_size(frame.size))?;
                if layout.is_cut {
                    let whole = Grouped(layout.frames.len() as u64);
                    return Err(Error::damaged(format_args!("GIF ends behind frame {whole}, it is cut off")));
                }
                (bytes, layout.canvas, layout.frames.iter().map(|frame| frame.duration).collect())
            }
            Format::WebP => {
                let layout = WebpLayout::read(bytes)?;
                if layout.durations.is_empty() {
                    return Err(Error::new(ErrorKind::Shape, "WebP is one still picture, a video is an animated one"));
                }
                (&bytes[..layout.file_bytes], layout.canvas, layout.durations)
            }
            other => {
                return Err(Error::new(
                    ErrorKind::UnsupportedFormat,
                    format_args!("video is a {other}; GIF and WebP animations are read, and lists of pictures"),
                ));
            }
        };
        limits.check_size(size)?;
        if durations.is_empty() {
            return Err(Error::damaged(format_args!("{format} has no frame")));
        }
        if durations.len() > limits.max_animation_frames {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format_args!(
                    "animation has over {} frames, that is the limit",
                    Grouped(limits.max_animation_frames as u64)
                ),
            ));
        }
        Ok(Self { bytes, format, size, durations, limits: *limits })
    }

    /// What the file is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Width and height of every frame. EXIF is not looked at: the reference's video readers do not, either.
    pub fn size(&self) -> Size {
        self.size
    }

    /// How long each frame is shown; at least one frame. A frame that asks for 10 ms or less gets 100 ms, as in
    /// browsers.
    pub fn durations(&self) -> &[Duration] {
        &self.durations
    }

    /// Frames a second, on average.
    pub fn fps(&self) -> f64 {
        let total: Duration = self.durations.iter().sum();
        self.durations.len() as f64 / total.as_secs_f64()
    }

    /// Decodes the frames at `indices`, each the whole canvas, with transparency laid over white, stretched to `size`.
    ///
    /// Indices are positions from 0, in ascending order; one may come several times. Frames between them are decoded
    /// and dropped, frames behind the last are not decoded.
    ///
    /// # Errors
    /// If an index is out of range or order, if the frames are over a limit, or if one does not decode.
    pub fn frames(&self, indices: &[usize], size: Size) -> Result<Vec<Frame>> {
        let Some(&last) = indices.last() else {
            return Ok(Vec::new());
        };
        if last >= self.durations.len() || !indices.is_sorted() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("frames must be asked for in order, from 0 to {}", self.durations.len() - 1),
            ));
        }
        self.limits.check_reading(self.size, last + 1, indices.len(), size)?;
        let mut decoded = self.decoder()?;
        let mut frames = Vec::with_capacity(indices.len());
        for index in 0..=last {
            let frame = decoded.next().ok_or_else(|| {
                Error::damaged(format_args!("{} has frame {index} in its skeleton only", self.format))
            })?;
            let frame = frame.map_err(|error| failed(self.format, error))?;
            let copies = indices.iter().filter(|&&wanted| wanted == index).count();
            if copies > 0 {
                let rgb = to_rgb(self.format, ColorType::Rgba8, frame.into_buffer().into_raw())?;
                let frame = Frame::from_rgb(self.size, rgb)?.resized(size)?;
                frames.extend(std::iter::repeat_n(frame, copies));
            }
        }
        Ok(frames)
    }

    fn decoder(&self) -> Result<Frames<'a>> {
        let wrong = |error| failed(self.format, error);
        let reader = Cursor::new(self.bytes);
        Ok(match self.format {
            Format::Gif => GifDecoder::new(reader).map_err(wrong)?.into_frames(),
            _ => {
                let mut decoder = WebPDecoder::new(reader).map_err(wrong)?;
                // Without a color to clear to, this decoder does not clear. libwebp's clears to nothing, whatever color
                // the file names.
                decoder.set_background_color(Rgba([0; 4])).map_err(wrong)?;
                decoder.into_frames()
            }
        })
    }
}
