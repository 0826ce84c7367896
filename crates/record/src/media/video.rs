//! The field `videos`: lists of pictures, and animations.

use super::{list, owned, place};
use crate::attachment::{MediaData, Video, VideoContent};
use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};
use crate::parse::Fields;
use crate::record::Rules;
use crate::text::{Grouped, Shortened};

/// The most frames of a list. The reference picks 768 of them at most.
const MAX_FRAMES: usize = 4_096;

const ALLOWED_FRAMES: &str = "a list of data URLs, or the data URL of an animated GIF or WebP";

/// Fields that nobody means to be ignored, and what they stand for.
const MISSPELLINGS: [(&str, &str); 4] =
    [("frame", "frames"), ("rate", "fps"), ("do_sample", "sample"), ("do_sample_frames", "sample")];

pub(crate) fn read_all(value: Value<'_>, rules: &Rules) -> Result<Vec<Video>, RecordError> {
    let Some(list) = list("videos", Some(value), "a list of videos")? else { return Ok(Vec::new()) };
    let count = list.elements().count();
    if count > rules.max_videos {
        let message = format!("videos has {} videos, the limit is {}", Grouped(count), Grouped(rules.max_videos));
        return Err(RecordError::invalid(vec!["body".into(), "videos".into()], "too_long", message));
    }
    list.elements().enumerate().map(|(index, video)| Reader { index }.read(video)).collect()
}

/// Reads one video and says in every refusal which one it is.
struct Reader {
    index: usize,
}

impl Reader {
    fn read(&self, video: Value<'_>) -> Result<Video, RecordError> {
        const ALLOWED: &str = "it must be an object with \"frames\", or the data URL of an animated GIF or WebP";
        match video.shape() {
            Shape::String => {
                let content = VideoContent::Animation(MediaData::DataUrl(owned(video)));
                Ok(Video { content, fps: None, sample: true, loc: self.loc(&[]) })
            }
            Shape::Object => self.object(video),
            other => Err(self.refuse(&[], "dict_type", &format!("is {}, {ALLOWED}", other.described()))),
        }
    }

    fn object(&self, video: Value<'_>) -> Result<Video, RecordError> {
        let loc = self.loc(&[]);
        let mut fields = Fields::new(loc.clone(), place(&loc));
        let (mut content, mut fps, mut sample) = (None, None, true);
        for (name, value) in video.members() {
            fields.admit(name.clone(), &MISSPELLINGS)?;
            match &*name {
                _ if value.is_null() => {}
                "frames" => content = Some(self.content(value)?),
                "fps" => fps = Some(self.fps(value)?),
                "sample" => sample = self.sample(value)?,
                _ => {}
            }
        }
        let content = content.ok_or_else(|| {
            let what = format!("has no frames, it must have {ALLOWED_FRAMES}");
            self.refuse(&["frames".into()], "missing", &what)
        })?;
        Ok(Video { content, fps, sample, loc })
    }

    fn content(&self, frames: Value<'_>) -> Result<VideoContent, RecordError> {
        let at = LocItem::from("frames");
        match frames.shape() {
            Shape::String => return Ok(VideoContent::Animation(MediaData::DataUrl(owned(frames)))),
            Shape::Array => {}
            other => {
                let what = format!("is {}, it must be {ALLOWED_FRAMES}", other.described());
                return Err(self.refuse(&[at], "list_type", &what));
            }
        }
        let count = frames.elements().count();
        if count == 0 {
            return Err(self.refuse(&[at], "too_short", "is empty, at least one frame is required"));
        }
        if count > MAX_FRAMES {
            let what = format!("has {} frames, the limit is {}", Grouped(count), Grouped(MAX_FRAMES));
            return Err(self.refuse(&[at], "too_long", &what));
        }
        let frame = |(index, frame): (usize, Value<'_>)| match frame.shape() {
            Shape::String => Ok(MediaData::DataUrl(owned(frame))),
            other => {
                let what = format!("is {}, it must be a data URL", other.described());
                Err(self.refuse(&[at.clone(), index.into()], "string_type", &what))
            }
        };
        frames.elements().enumerate().map(frame).collect::<Result<_, _>>().map(VideoContent::Frames)
    }

    fn fps(&self, value: Value<'_>) -> Result<f64, RecordError> {
        let refuse = |found: &dyn std::fmt::Display, slug| {
            let what = format!("is {found}, it must be a positive number of frames a second");
            Err(self.refuse(&["fps".into()], slug, &what))
        };
        if value.shape() != Shape::Number {
            return refuse(&value.shape().described(), "float_type");
        }
        match value.text().parse::<f64>() {
            Ok(fps) if fps > 0.0 && fps.is_finite() => Ok(fps),
            _ => refuse(&Shortened(value.text()), "greater_than"),
        }
    }

    fn sample(&self, value: Value<'_>) -> Result<bool, RecordError> {
        if value.shape() != Shape::Boolean {
            let what = format!("is {}, it must be true or false", value.shape().described());
            return Err(self.refuse(&["sample".into()], "bool_type", &what));
        }
        Ok(value.text() == "true")
    }

    fn loc(&self, path: &[LocItem]) -> Vec<LocItem> {
        let root = ["body".into(), "videos".into(), LocItem::Index(self.index)];
        root.into_iter().chain(path.iter().cloned()).collect()
    }

    /// `what` goes on after the place.
    fn refuse(&self, path: &[LocItem], slug: &'static str, what: &str) -> RecordError {
        let loc = self.loc(path);
        let message = format!("{} {what}", place(&loc));
        RecordError::invalid(loc, slug, message)
    }
}
