//! Pictures and videos, taken from wherever clients put them.
//!
//! A picture travels as base64. Taken for text it would be a hundred thousand tokens of noise and an answer with status
//! 200, so every form in which a client may send one is looked for, and one that is found where it cannot be shown is
//! refused.
//!
//! Texts name the pictures of `assets` by number, and the numbers depend on how many pictures `images` and `state` have,
//! wherever in the body these fields stand. So the three are read ahead of everything else. What is wrong with one of them
//! is kept until its turn comes: the first problem in the document is the one a client hears about.

mod asset;
mod image;
mod part;
mod state;
mod video;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::attachment::{Image, MediaData};
use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};
use crate::placeholder::Placeholders;
use crate::record::Rules;
use crate::text::Grouped;

pub(crate) use video::read_all as read_videos;

/// Finds a file that came along with a body, by its name.
pub(crate) type Files<'f> = &'f dyn Fn(&str) -> Option<Arc<[u8]>>;

/// The fields that pictures come from, in the order in which these are numbered.
const SOURCES: [&str; 3] = ["images", "state", "assets"];

/// All pictures of a body, and what they mean for its texts.
#[derive(Debug)]
pub(crate) struct Pictures {
    /// In the order in which they are shown; some are missing if anything is wrong.
    pub(crate) images: Vec<Image>,
    /// The places of those that are parts of the state, in order.
    pub(crate) state_parts: Vec<Range<usize>>,
    /// What texts call those that are assets, if there are any.
    pub(crate) placeholders: Option<Placeholders>,
    /// What is wrong with each of the sources.
    problems: [Option<RecordError>; SOURCES.len()],
}

impl Pictures {
    /// Reads the pictures of a body with these fields. There are no `files` if none can come along with the body.
    pub(crate) fn read(fields: &[(Cow<'_, str>, Value<'_>)], rules: &Rules, files: Option<Files<'_>>) -> Self {
        let [images, state, assets] = SOURCES.map(|source| {
            let field = fields.iter().find(|(name, _)| name == source);
            field.map(|(_, value)| *value)
        });
        let mut count = Count { images: 0, most: rules.max_images };
        let (listed, images_problem) = apart(image::read_all(images, &mut count));
        let (parts, state_problem) = apart(state::read(state, &mut count));
        let (assets, assets_problem) = apart(asset::read_all(assets, files, &mut count));
        let numbers = listed.len() + parts.images.len() + 1..;
        let names = assets.iter().map(|(name, _)| &**name);
        let replacements = numbers.map(|number| format!("image {number}"));
        let placeholders = (!assets.is_empty()).then(|| Placeholders::new(names.zip(replacements)));
        let mut images = listed;
        images.extend(parts.images);
        images.extend(assets.into_iter().map(|(_, image)| image));
        let problems = [images_problem, state_problem, assets_problem];
        Self { images, state_parts: parts.places, placeholders, problems }
    }

    /// Says what is wrong with a field, if pictures come from it.
    pub(crate) fn check(&self, field: &str) -> Result<(), RecordError> {
        let index = SOURCES.iter().position(|source| *source == field);
        index.and_then(|index| self.problems[index].clone()).map_or(Ok(()), Err)
    }
}

fn apart<T: Default>(read: Result<T, RecordError>) -> (T, Option<RecordError>) {
    match read {
        Ok(found) => (found, None),
        Err(problem) => (T::default(), Some(problem)),
    }
}

/// How many pictures there are so far, and how many there may be.
#[derive(Debug)]
struct Count {
    images: usize,
    most: usize,
}

impl Count {
    /// Counts the pictures of a source, before they are copied.
    fn add(&mut self, images: usize, source: &str) -> Result<(), RecordError> {
        self.images += images;
        if images == 0 || self.images <= self.most {
            return Ok(());
        }
        let plural = if self.images == 1 { "" } else { "s" };
        let pictures = format!("{} picture{plural}", Grouped(self.images));
        let found = match source {
            "images" => format!("images has {pictures}"),
            "state" => format!("images and state have {pictures} together"),
            _ => format!("images, state and assets have {pictures} together"),
        };
        let message = format!("{found}, the limit is {}", Grouped(self.most));
        Err(RecordError::invalid(vec!["body".into(), source.into()], "too_long", message))
    }
}

/// The elements of an optional list at the body's top level.
fn list<'a>(name: &str, value: Option<Value<'a>>, allowed: &str) -> Result<Option<Value<'a>>, RecordError> {
    container(name, value, Shape::Array, "list_type", allowed)
}

/// An optional field of the given shape; null, and an empty container of whichever kind, is none. (Some languages have
/// one kind of empty container only.)
fn container<'a>(
    name: &str,
    value: Option<Value<'a>>,
    shape: Shape,
    slug: &'static str,
    allowed: &str,
) -> Result<Option<Value<'a>>, RecordError> {
    let Some(value) = value else { return Ok(None) };
    match value.shape() {
        Shape::Null => Ok(None),
        Shape::Array if value.elements().next().is_none() => Ok(None),
        Shape::Object if value.members().next().is_none() => Ok(None),
        found if found == shape => Ok(Some(value)),
        found => {
            let message = format!("{name} is {}, it must be {allowed}", found.described());
            Err(RecordError::invalid(vec!["body".into(), name.into()], slug, message))
        }
    }
}

/// Base64 without anything around it, or, as that has no colon, a URL of whatever kind.
fn url_or_base64(text: String) -> MediaData {
    if text.contains(':') { MediaData::DataUrl(text) } else { MediaData::Base64(text) }
}

/// A string's value; empty for any other value.
fn owned(string: Value<'_>) -> String {
    string.string().unwrap_or_default().into_owned()
}

/// A place as messages name it: `state.1.content.0`.
fn place(loc: &[LocItem]) -> String {
    let steps: Vec<String> = loc.iter().skip(1).map(ToString::to_string).collect();
    steps.join(".")
}
