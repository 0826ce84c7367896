//! The field `assets`: pictures that texts name by placeholders.
//!
//! The official SDKs put them there, each as base64 or as the name of a part of a multipart body. Every asset is shown,
//! also one that no text names.

use std::borrow::Cow;

use super::{Count, Files, container, owned, url_or_base64};
use crate::attachment::{Image, MediaData};
use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};
use crate::parse::Fields;
use crate::text::{Grouped, Shortened};

/// The longest placeholder, in bytes. Finding placeholders takes memory for each byte of them.
const MAX_PLACEHOLDER_BYTES: usize = 1_024;

const ALLOWED: &str = "\"data_base64\" with the picture, or \"part\" with the name of a part of a multipart body";

/// The assets and their placeholders, in the order of the body.
pub(super) fn read_all<'a>(
    value: Option<Value<'a>>,
    files: Option<Files<'_>>,
    count: &mut Count,
) -> Result<Vec<(Cow<'a, str>, Image)>, RecordError> {
    let allowed = "an object of placeholders and assets";
    let Some(assets) = container("assets", value, Shape::Object, "dict_type", allowed)? else { return Ok(Vec::new()) };
    count.add(assets.members().count(), "assets")?;
    let mut placeholders = Fields::new(vec!["body".into(), "assets".into()], "assets".to_owned());
    assets
        .members()
        .map(|(placeholder, asset)| {
            placeholders.admit(placeholder.clone(), &[])?;
            let reader = Reader { placeholder: &placeholder, files };
            let image = reader.read(asset)?;
            Ok((placeholder, image))
        })
        .collect()
}

/// Reads one asset and says in every refusal which one it is.
struct Reader<'a> {
    placeholder: &'a str,
    files: Option<Files<'a>>,
}

impl Reader<'_> {
    fn read(&self, asset: Value<'_>) -> Result<Image, RecordError> {
        if self.placeholder.is_empty() {
            return Err(self.refuse(None, "string_too_short", "has no name, which would be everywhere in every text"));
        }
        if self.placeholder.len() > MAX_PLACEHOLDER_BYTES {
            let what = format!(
                "has a name of {} bytes, the limit is {}",
                Grouped(self.placeholder.len()),
                Grouped(MAX_PLACEHOLDER_BYTES)
            );
            return Err(self.refuse(None, "string_too_long", &what));
        }
        if asset.shape() != Shape::Object {
            let what = format!("is {}, it must be an object with {ALLOWED}", asset.shape().described());
            return Err(self.refuse(None, "dict_type", &what));
        }
        let mut fields = Fields::new(self.loc(None), self.name());
        let (mut kind, mut part, mut data) = (None, None, None);
        for (name, value) in asset.members().filter(|(_, value)| !value.is_null()) {
            fields.admit(name.clone(), &[])?;
            match &*name {
                "type" => kind = Some(value),
                "part" => part = Some(value),
                "data_base64" => data = Some(value),
                _ => {}
            }
        }
        self.check_kind(kind)?;
        let data = match (part, data) {
            (Some(part), _) => MediaData::File(self.file(&self.text("part", part)?)?),
            (None, Some(data)) => url_or_base64(self.text("data_base64", data)?),
            (None, None) => return Err(self.refuse(None, "missing", &format!("has no data, it must have {ALLOWED}"))),
        };
        Ok(Image { data, loc: self.loc(None) })
    }

    /// The official schema knows one type and lets it be left out.
    fn check_kind(&self, kind: Option<Value<'_>>) -> Result<(), RecordError> {
        let Some(kind) = kind else { return Ok(()) };
        let found = match kind.string() {
            Some(name) if name == "image" => return Ok(()),
            Some(name) => format!("\"{}\"", Shortened(&name)),
            None => kind.shape().described().to_owned(),
        };
        let what = format!("has the type {found}, it must be \"image\"");
        Err(self.refuse(Some("type"), "literal_error", &what))
    }

    fn text(&self, field: &'static str, value: Value<'_>) -> Result<String, RecordError> {
        if value.shape() != Shape::String {
            let what = format!("has a \"{field}\" that is {}, it must be a string", value.shape().described());
            return Err(self.refuse(Some(field), "string_type", &what));
        }
        Ok(owned(value))
    }

    fn file(&self, part: &str) -> Result<std::sync::Arc<[u8]>, RecordError> {
        let Some(files) = self.files else {
            let what = format!(
                "names the part \"{}\", but this body has no parts; send \"data_base64\", or multipart/form-data",
                Shortened(part)
            );
            return Err(self.refuse(Some("part"), "value_error", &what));
        };
        files(part).ok_or_else(|| {
            let what = format!("names the part \"{}\", which the multipart body does not have", Shortened(part));
            self.refuse(Some("part"), "missing", &what)
        })
    }

    fn name(&self) -> String {
        format!("asset \"{}\"", Shortened(self.placeholder))
    }

    fn loc(&self, field: Option<&str>) -> Vec<LocItem> {
        let root = ["body", "assets", self.placeholder];
        root.into_iter().chain(field).map(LocItem::field).collect()
    }

    /// `what` goes on after the asset's name.
    fn refuse(&self, field: Option<&str>, slug: &'static str, what: &str) -> RecordError {
        RecordError::invalid(self.loc(field), slug, format!("{} {what}", self.name()))
    }
}
