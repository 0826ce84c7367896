//! Pictures and videos of a record, as the client sent them.
//!
//! Nothing of them is decoded here: that is for whoever knows the model that they are shown to. What a client said is
//! kept with its place in the body, so that a picture that cannot be read is refused by name.

use std::fmt;
use std::sync::Arc;

use crate::error::LocItem;

/// The bytes of a picture or an animation, in the wrapping that they came in.
#[derive(Clone, PartialEq, Eq)]
pub enum MediaData {
    /// A data URL, or whatever text stood in its place.
    DataUrl(String),
    /// Base64 without anything around it.
    Base64(String),
    /// The file itself.
    File(Arc<[u8]>),
}

impl MediaData {
    /// Bytes of the text or the file.
    pub fn length(&self) -> usize {
        match self {
            Self::DataUrl(text) | Self::Base64(text) => text.len(),
            Self::File(bytes) => bytes.len(),
        }
    }
}

impl fmt::Debug for MediaData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::DataUrl(_) => "DataUrl",
            Self::Base64(_) => "Base64",
            Self::File(_) => "File",
        };
        write!(f, "{name}({} bytes)", self.length())
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The picture; of an animation, its first frame is meant.
    pub data: MediaData,
    /// Where it stands in the body.
    pub loc: Vec<LocItem>,
}

/// A video.
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Its frames.
    pub content: VideoContent,
    /// Frames a second, positive and finite. None if the client did not say: an animation knows by itself, for a list of
    /// frames the reference assumes 24.
    pub fps: Option<f64>,
    /// Whether frames are picked as the reference does by default; if not, all are taken.
    pub sample: bool,
    /// Where it stands in the body.
    pub loc: Vec<LocItem>,
}

/// What a video consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VideoContent {
    /// A picture for each frame, in order; never empty.
    Frames(Vec<MediaData>),
    /// An animated GIF or WebP.
    Animation(MediaData),
}
