//! Parts of a message that are pictures or videos.
//!
//! `image_url` is the chat API's, `input_image` the responses API's, `file` the AI SDK's. Anything else is text.

use std::borrow::Cow;

use super::{owned, url_or_base64};
use crate::attachment::MediaData;
use crate::json::{Shape, Value};

/// An object of a list, with the fields by which it is known.
#[derive(Debug)]
pub(super) struct Item<'a> {
    kind: Option<Cow<'a, str>>,
    image_url: Option<Value<'a>>,
    video_url: Option<Value<'a>>,
    media_type: Option<Value<'a>>,
    data: Option<Value<'a>>,
    /// Of a message.
    pub(super) content: Option<Value<'a>>,
    value: Option<Value<'a>>,
}

/// What keeps a part from being shown: a slug, and what goes on after the part's place.
pub(super) type Fault = (&'static str, String);

/// The string that a part shows a picture by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picture<'a> {
    text: Value<'a>,
    /// Whether it is a URL, whatever it says; if not, it may be base64 as well.
    is_url: bool,
}

impl Picture<'_> {
    pub(super) fn data(self) -> MediaData {
        let text = owned(self.text);
        if self.is_url { MediaData::DataUrl(text) } else { url_or_base64(text) }
    }
}

impl<'a> Item<'a> {
    pub(super) fn of(object: Value<'a>) -> Self {
        let [kind, image_url, video_url, media_type, data, content, value] =
            object.pick(["type", "image_url", "video_url", "mediaType", "data", "content", "value"]);
        let given = |field: Option<Value<'a>>| field.filter(|field| !field.is_null());
        Self {
            kind: kind.and_then(Value::string),
            image_url: given(image_url),
            video_url: given(video_url),
            media_type,
            data: given(data),
            content,
            value,
        }
    }

    /// The state that a `json` part wraps, as some clients send a whole state.
    pub(super) fn wrapped(&self) -> Option<Value<'a>> {
        self.value.filter(|_| self.kind.as_deref() == Some("json"))
    }

    /// The kind of part that this is where nobody can mean it to be text, and nobody can show it.
    pub(super) fn stray(&self) -> Option<&'static str> {
        match self.kind.as_deref()? {
            "image_url" if self.image_url.is_some() => Some("image_url"),
            "input_image" if self.image_url.is_some() => Some("input_image"),
            "video_url" if self.video_url.is_some() => Some("video_url"),
            "input_video" if self.video_url.is_some() => Some("input_video"),
            _ => None,
        }
    }

    /// The picture that this shows, as a part of a list; none if it is text.
    pub(super) fn picture(&self) -> Result<Option<Picture<'a>>, Fault> {
        let is_media = |family| {
            let media_type = self.media_type.and_then(Value::string);
            media_type.is_some_and(|media_type: Cow<'_, str>| media_type.starts_with(family))
        };
        match self.kind.as_deref() {
            Some("image_url") => self.url("an \"image_url\"").map(Some),
            Some("input_image") => self.url("an \"input_image\"").map(Some),
            Some("video_url") => Err(video("a \"video_url\"")),
            Some("input_video") => Err(video("an \"input_video\"")),
            Some("file") if self.data.is_some() && is_media("video/") => Err(video("a \"file\"")),
            Some("file") if self.data.is_some() && is_media("image/") => self.file().map(Some),
            _ => Ok(None),
        }
    }

    /// Whether this is one of the parts that have an `image_url`.
    pub(super) fn is_image_url(&self) -> bool {
        matches!(self.kind.as_deref(), Some("image_url" | "input_image"))
    }

    fn url(&self, kind: &str) -> Result<Picture<'a>, Fault> {
        let url = self.image_url.and_then(|field| match field.shape() {
            Shape::Object => field.member("url"),
            _ => Some(field),
        });
        picture(url, true).ok_or_else(|| {
            let what = format!(
                "is {kind} part without a URL; \"image_url\" must be a data URL, or an object with one as \"url\""
            );
            ("missing", what)
        })
    }

    /// `data` is a string, or an object with `data` or `url`.
    fn file(&self) -> Result<Picture<'a>, Fault> {
        let found = self.data.and_then(|data| match data.shape() {
            Shape::Object => {
                let [data, url] = data.pick(["data", "url"]);
                picture(data, false).or_else(|| picture(url, true))
            }
            _ => picture(Some(data), false),
        });
        found.ok_or_else(|| {
            let what = "is a \"file\" part whose \"data\" is neither base64 nor a data URL".to_owned();
            ("value_error", what)
        })
    }
}

fn picture(value: Option<Value<'_>>, is_url: bool) -> Option<Picture<'_>> {
    let text = value.filter(|value| value.raw_string().is_some_and(|raw| !raw.is_empty()))?;
    Some(Picture { text, is_url })
}

fn video(kind: &str) -> Fault {
    ("value_error", format!("is {kind} part with a video; videos are sent in the field \"videos\""))
}
