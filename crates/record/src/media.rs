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

/// Refuses a state that holds picture parts: a list of messages, `{"messages": [...]}`, or a bare list of parts.
pub(crate) fn check_state(state: Value<'_>) -> Result<(), RecordError> {
    let mut loc = vec!["body".into(), "state".into()];
    let list = match state.shape() {
        Shape::Array => state,
        Shape::Object => match state.member("messages") {
            Some(messages) => {
                loc.push("messages".into());
                messages
            }
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let Some((found, kind)) = find_part(list) else {
        return Ok(());
    };
    loc.extend(found);
    let place: Vec<String> = loc[1..].iter().map(ToString::to_string).collect();
    let message = format!("{} is an \"{kind}\" part; images are not supported, only text", place.join("."));
    Err(RecordError::not_supported(loc, message))
}

/// The first picture part of a list of messages or parts: where it is, and its type.
fn find_part<'a>(list: Value<'a>) -> Option<(Vec<LocItem>, &'static str)> {
    let objects = |list: Value<'a>| {
        let items = list.elements().enumerate();
        items.filter(|(_, item)| item.shape() == Shape::Object)
    };
    objects(list).find_map(|(index, item)| {
        if let Some(kind) = picture_kind(item) {
            return Some((vec![index.into()], kind));
        }
        let content = item.member("content")?;
        content.elements().enumerate().find_map(|(part_index, part)| {
            let kind = picture_kind(part)?;
            Some((vec![index.into(), "content".into(), part_index.into()], kind))
        })
    })
}

fn picture_kind(part: Value<'_>) -> Option<&'static str> {
    let named = part.member("type")?.string()?;
    let kind = ["image_url", "input_image"].into_iter().find(|kind| *kind == named)?;
    part.member("image_url").is_some_and(|url| !url.is_null()).then_some(kind)
}
