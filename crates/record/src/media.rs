//! Pictures that this crate does not read, found so that they are refused instead of read as text.
//!
//! A picture travels as base64. Taken for text it would be a hundred thousand tokens of noise and an answer with status
//! 200, so every form in which a client may send one is looked for, a few levels deep, before anything is rendered.

use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};

/// Top-level fields that carry media.
pub(crate) const MEDIA_FIELDS: [&str; 3] = ["images", "videos", "assets"];

/// Refuses a media field unless it is null or empty.
pub(crate) fn check_field(name: &str, value: Value<'_>) -> Result<(), RecordError> {
    let is_empty = match value.shape() {
        Shape::Null => true,
        Shape::Array => value.elements().next().is_none(),
        Shape::Object => value.members().next().is_none(),
        Shape::String | Shape::Number | Shape::Boolean => false,
    };
    if is_empty {
        return Ok(());
    }
    Err(RecordError::not_supported(
        vec!["body".into(), name.into()],
        format!("{name} are not supported, only text; leave the field out, null or empty"),
    ))
}

/// Refuses a state that holds picture parts: in a list of messages, `{"messages": [...]}`, or a bare list of parts,
/// where they would be pictures; and anywhere else, where nobody means them to be text.
pub(crate) fn check_state(state: Value<'_>) -> Result<(), RecordError> {
    let Some((found, kind)) = find_in_state(state).or_else(|| find_anywhere(state)) else {
        return Ok(());
    };
    let mut loc = vec!["body".into(), "state".into()];
    loc.extend(found);
    let place: Vec<String> = loc[1..].iter().map(ToString::to_string).collect();
    let message = format!("{} is an \"{kind}\" part; images are not supported, only text", place.join("."));
    Err(RecordError::not_supported(loc, message))
}

/// Where a picture part is, and its type.
type Found = (Vec<LocItem>, &'static str);

/// The first picture part of a state.
fn find_in_state(state: Value<'_>) -> Option<Found> {
    match state.shape() {
        Shape::Array => find_in_list(state),
        Shape::Object => behind("messages", find_in_list(state.member("messages")?)),
        _ => None,
    }
}

/// The first picture part of a list of messages or parts. A `json` part, as some clients wrap a whole state in, is
/// looked into like a state.
fn find_in_list(list: Value<'_>) -> Option<Found> {
    if list.shape() != Shape::Array {
        return None;
    }
    let objects = list.elements().enumerate().filter(|(_, item)| item.shape() == Shape::Object);
    objects.into_iter().find_map(|(index, item)| {
        let found = match (picture_kind(item), item.member("content"), wrapped(item)) {
            (Some(kind), _, _) => Some((Vec::new(), kind)),
            (None, Some(content), _) => behind("content", find_in_content(content)),
            (None, None, Some(value)) => behind("value", find_in_state(value)),
            (None, None, None) => None,
        };
        behind(index, found)
    })
}

fn find_in_content(content: Value<'_>) -> Option<Found> {
    if content.shape() != Shape::Array {
        return None;
    }
    let parts = content.elements().enumerate().filter(|(_, part)| part.shape() == Shape::Object);
    parts.into_iter().find_map(|(index, part)| Some((vec![index.into()], picture_kind(part)?)))
}

/// Puts a step in front of a place.
fn behind(step: impl Into<LocItem>, found: Option<Found>) -> Option<Found> {
    let (mut place, kind) = found?;
    place.insert(0, step.into());
    Some((place, kind))
}

/// The first picture part at any place. Looked for only where the text says that there may be one.
fn find_anywhere(state: Value<'_>) -> Option<Found> {
    if !state.text().contains("image_url") && !state.text().contains("input_image") {
        return None;
    }
    find_below(state)
}

fn find_below(value: Value<'_>) -> Option<Found> {
    match value.shape() {
        Shape::Array => value.elements().enumerate().find_map(|(index, item)| behind(index, find_below(item))),
        Shape::Object => match picture_kind(value).filter(|kind| *kind != "file") {
            Some(kind) => Some((Vec::new(), kind)),
            None => value.members().find_map(|(name, item)| behind(LocItem::field(&name), find_below(item))),
        },
        _ => None,
    }
}

fn wrapped(part: Value<'_>) -> Option<Value<'_>> {
    let kind = part.member("type")?.string()?;
    if kind == "json" { part.member("value") } else { None }
}

fn picture_kind(part: Value<'_>) -> Option<&'static str> {
    let named = part.member("type")?.string()?;
    let has = |field: &str| part.member(field).is_some_and(|value| !value.is_null());
    match &*named {
        "image_url" if has("image_url") => Some("image_url"),
        "input_image" if has("image_url") => Some("input_image"),
        "file" if has("data") => {
            let media = part.member("mediaType")?.string()?;
            ["image/", "video/"].iter().any(|family| media.starts_with(family)).then_some("file")
        }
        _ => None,
    }
}
