//! Pictures inside a state: in a list of messages, in `{"messages": [...]}`, or in a bare list of parts.
//!
//! There they are taken out of the text and shown. Anywhere else nobody means them to be text either, so they are
//! refused, with their place.

use std::ops::Range;

use super::part::{Fault, Item, Picture};
use super::{Count, place};
use crate::attachment::Image;
use crate::error::{LocItem, RecordError};
use crate::json::{Shape, Value};

/// How much of a place is repeated. A state may be nested to the limit with the longest of keys.
const MAX_PLACE_BYTES: usize = 192;

/// The parts of a state that are pictures.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) images: Vec<Image>,
    /// Where they stand in the document.
    pub(super) places: Vec<Range<usize>>,
}

pub(super) fn read(state: Option<Value<'_>>, count: &mut Count) -> Result<Parts, RecordError> {
    let Some(state) = state else { return Ok(Parts::default()) };
    let mut search = Search { most: count.most, path: Vec::new(), found: Vec::new(), count: 0 };
    search.state(state)?;
    count.add(search.count, "state")?;
    search.check_elsewhere(state)?;
    let (places, images) = search
        .found
        .into_iter()
        .map(|found| (found.place, Image { data: found.picture.data(), loc: found.loc }))
        .unzip();
    Ok(Parts { images, places })
}

/// A step to a place where parts are looked for.
#[derive(Debug, Clone, Copy)]
enum Step {
    Field(&'static str),
    Index(usize),
}

struct Found<'a> {
    place: Range<usize>,
    loc: Vec<LocItem>,
    picture: Picture<'a>,
}

struct Search<'a> {
    /// No more than this many are remembered.
    most: usize,
    path: Vec<Step>,
    found: Vec<Found<'a>>,
    count: usize,
}

impl<'a> Search<'a> {
    fn state(&mut self, state: Value<'a>) -> Result<(), RecordError> {
        match state.shape() {
            Shape::Array => self.list(state, true),
            Shape::Object => match state.member("messages") {
                Some(messages) => self.within(Step::Field("messages"), |search| search.list(messages, true)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Looks through a list of parts, among which may be messages and wrapped states.
    fn list(&mut self, list: Value<'a>, may_hold_messages: bool) -> Result<(), RecordError> {
        for (index, object) in list.elements().enumerate().filter(|(_, item)| item.shape() == Shape::Object) {
            self.within(Step::Index(index), |search| {
                let item = Item::of(object);
                match (item.picture(), item.content, item.wrapped()) {
                    (Err(fault), _, _) => Err(search.refuse(fault)),
                    (Ok(Some(picture)), _, _) => {
                        search.add(object, picture);
                        Ok(())
                    }
                    (Ok(None), _, _) if !may_hold_messages => Ok(()),
                    (Ok(None), Some(parts), _) => {
                        search.within(Step::Field("content"), |search| search.list(parts, false))
                    }
                    (Ok(None), None, Some(state)) => search.within(Step::Field("value"), |search| search.state(state)),
                    (Ok(None), None, None) => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn within(
        &mut self,
        step: Step,
        look: impl FnOnce(&mut Self) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        self.path.push(step);
        let looked = look(self);
        self.path.pop();
        looked
    }

    fn add(&mut self, part: Value<'a>, picture: Picture<'a>) {
        self.count += 1;
        if self.found.len() < self.most {
            self.found.push(Found { place: part.range(), loc: self.loc(), picture });
        }
    }

    fn loc(&self) -> Vec<LocItem> {
        let steps = self.path.iter().map(|step| match step {
            Step::Field(name) => LocItem::field(name),
            Step::Index(index) => LocItem::Index(*index),
        });
        state_loc(steps)
    }

    fn refuse(&self, (slug, what): Fault) -> RecordError {
        refuse(self.loc(), slug, &what)
    }

    /// Refuses a state with a picture or a video at any other place.
    fn check_elsewhere(&self, state: Value<'a>) -> Result<(), RecordError> {
        if !self.has_sign_elsewhere(state) {
            return Ok(());
        }
        let Some((kind, mut steps)) = self.stray(state) else { return Ok(()) };
        steps.reverse();
        let what = format!(
            "is an \"{kind}\" part at a place where nothing is shown; pictures are parts of a list or of a message's \
             content, or stand in the field \"images\", videos in the field \"videos\""
        );
        Err(refuse(state_loc(steps), "value_error", &what))
    }

    /// Whether the text between the parts found says that there may be others. Most say no, which costs little.
    fn has_sign_elsewhere(&self, state: Value<'a>) -> bool {
        const SIGNS: [&str; 2] = ["image_url", "video_url"];
        let Range { start, end } = state.range();
        let from = std::iter::once(start).chain(self.found.iter().map(|found| found.place.end));
        let to = self.found.iter().map(|found| found.place.start).chain(std::iter::once(end));
        let mut between = from.zip(to).map(|(from, to)| &state.text()[from - start..to - start]);
        between.any(|text| SIGNS.iter().any(|sign| text.contains(sign)))
    }

    /// The first such part that is not among those found, its kind, and the steps to it from the last to the first.
    fn stray(&self, value: Value<'a>) -> Option<(&'static str, Vec<LocItem>)> {
        let below = |step: LocItem, value| {
            let (kind, mut steps) = self.stray(value)?;
            steps.push(step);
            Some((kind, steps))
        };
        match value.shape() {
            Shape::Array => value.elements().enumerate().find_map(|(index, element)| below(index.into(), element)),
            Shape::Object if self.is_found(value) => None,
            Shape::Object => match Item::of(value).stray() {
                Some(kind) => Some((kind, Vec::new())),
                None => value.members().find_map(|(name, value)| below(LocItem::field(&name), value)),
            },
            _ => None,
        }
    }

    fn is_found(&self, value: Value<'_>) -> bool {
        self.found.binary_search_by_key(&value.range().start, |found| found.place.start).is_ok()
    }
}

/// A place in the state, or as much of the way there as may be repeated.
fn state_loc(steps: impl IntoIterator<Item = LocItem>) -> Vec<LocItem> {
    let mut left = MAX_PLACE_BYTES;
    let short = steps.into_iter().take_while(|step| {
        let bytes = step.to_string().len() + 1;
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    });
    ["body".into(), "state".into()].into_iter().chain(short).collect()
}

fn refuse(loc: Vec<LocItem>, slug: &'static str, what: &str) -> RecordError {
    let message = format!("{} {what}", place(&loc));
    RecordError::invalid(loc, slug, message)
}
