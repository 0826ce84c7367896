//! Pictures and videos as the reference sees them: bytes in, bounded RGB frames at the reference's size out.
//!
//! A model answers the question it is shown. So this crate exists to show it what the reference would have shown it, to
//! the pixel where that can be had, and to refuse with a clear line whatever it cannot show: nothing is guessed, filled
//! up, inverted or dropped in silence. It knows no model: patches, tokens and positions are the caller's.
//!
//! A picture is [opened](Picture::open) (header only, held against [`Limits`]), decoded, and
//! [stretched](Frame::resized) to the size that [`ImageFit`] finds:
//!
//! ```
//! use clef_media::{ImageFit, Limits, Picture, decode_data_url};
//!
//! # fn main() -> clef_media::Result<()> {
//! let bytes = decode_data_url(
//!     "data:image/gif;base64,R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=",
//! )?;
//! let picture = Picture::open(&bytes, &Limits::default())?;
//! let target = ImageFit::default().target(picture.size())?;
//! let frame = picture.decode()?.resized(target)?;
//! assert_eq!(frame.size().to_string(), "256x256");
//! assert_eq!(&frame.rgb()[..3], [255, 0, 0]);
//! # Ok(())
//! # }
//! ```
//!
//! A video is a list of pictures or an [`Animation`]; [`Sampling`] picks its frames, [`VideoFit`] their size, and
//! [`step_times`] says when they are.

mod animation;
mod data_url;
mod error;
mod fit;
mod format;
mod frame;
mod gif;
mod jpeg;
mod limits;
mod picture;
mod resize;
mod sample;
mod webp;

pub use animation::Animation;
pub use data_url::{decode_base64, decode_data_url};
pub use error::{Error, ErrorKind, Result};
pub use fit::{ImageFit, VideoFit};
pub use format::Format;
pub use frame::{Digest, Frame, Size};
pub use limits::Limits;
pub use picture::Picture;
pub use sample::{ASSUMED_FPS, Sampling, step_times};
