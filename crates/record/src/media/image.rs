//! The field `images`: a list of data URLs.

use super::part::Item;
use super::{Count, list, owned, place};
use crate::attachment::{Image, MediaData};
use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};

pub(super) fn read_all(value: Option<Value<'_>>, count: &mut Count) -> Result<Vec<Image>, RecordError> {
    let Some(list) = list("images", value, "a list of data URLs")? else { return Ok(Vec::new()) };
    count.add(list.elements().count(), "images")?;
    list.elements().enumerate().map(|(index, element)| read(index, element)).collect()
}

/// A string, or one of the parts that people paste from a request to another API.
fn read(index: usize, element: Value<'_>) -> Result<Image, RecordError> {
    const ALLOWED: &str = "it must be a data URL, or an \"image_url\" or \"input_image\" part with one";
    let loc: Vec<LocItem> = vec!["body".into(), "images".into(), index.into()];
    let refuse = |slug, what: &str| RecordError::invalid(loc.clone(), slug, format!("{} {what}", place(&loc)));
    let data = match element.shape() {
        Shape::String => MediaData::DataUrl(owned(element)),
        Shape::Object => {
            let item = Item::of(element);
            let picture = if item.is_image_url() { item.picture() } else { Ok(None) };
            let picture = picture.map_err(|(slug, what)| refuse(slug, &what))?;
            picture.ok_or_else(|| refuse("string_type", &format!("is another object, {ALLOWED}")))?.data()
        }
        other => return Err(refuse("string_type", &format!("is {}, {ALLOWED}", other.described()))),
    };
    Ok(Image { data, loc })
}
