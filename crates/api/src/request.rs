//! Requests written in Rust rather than in JSON.
//!
//! A request is kept as the JSON that a client would send, and read by the same rules: what it asks, and what is wrong
//! with it, is the same as over HTTP.

use std::fmt::Write as _;
use std::sync::Arc;

use clef_record::{Image, LocItem, MediaData, Record, RecordError, Truncate, Video, VideoContent};
use serde::Serialize;

/// A state, what is shown with it, and questions about both.
///
/// ```
/// use clef_api::{Record, Request};
///
/// let request = Request::text("I was charged twice for my order.")
///     .noul("refund", "Does the customer ask for money back?")
///     .choice("team", "Who should answer?", ["billing", "shipping"])
///     .score("urgency", "How urgent is it?", ["can wait", "this week", "today"]);
/// assert_eq!(request.to_record()?.questions.len(), 3);
/// # Ok::<(), clef_api::RecordError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// JSON.
    state: String,
    /// Ids and questions, both JSON.
    questions: Vec<(String, String)>,
    images: Vec<Arc<[u8]>>,
    videos: Vec<(VideoContent, Option<f64>)>,
    max_length: Option<usize>,
    max_state_tokens: Option<usize>,
    truncate: Truncate,
}

impl Request {
    /// A request about a text, which the model reads as it is.
    pub fn text(state: &str) -> Self {
        Self::about(json(state))
    }

    /// A request about any value. The model reads it as canonical JSON, written as the reference writes it.
    ///
    /// # Errors
    /// If the value cannot be written as JSON, such as a map whose keys are no texts.
    pub fn json(state: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::about(serde_json::to_string(state)?))
    }

    fn about(state: String) -> Self {
        Self {
            state,
            questions: Vec::new(),
            images: Vec::new(),
            videos: Vec::new(),
            max_length: None,
            max_state_tokens: None,
            truncate: Truncate::None,
        }
    }

    /// Asks whether something is so. The answer is found by `id`; one that is there twice is an error of
    /// [`to_record`](Self::to_record). The same holds for the other questions.
    #[must_use]
    pub fn noul(self, id: &str, instructions: &str) -> Self {
        let question = format!(r#"{{"type":"noul","instructions":{}}}"#, json(instructions));
        self.question(id, question)
    }

    /// Asks which of up to 255 options is meant. Their order is of no account.
    #[must_use]
    pub fn choice<'a>(self, id: &str, instructions: &str, options: impl IntoIterator<Item = &'a str>) -> Self {
        self.choice_of(id, instructions, options.into_iter().map(|option| (option, None)))
    }

    /// Asks which of up to 255 options is meant, of which the model reads descriptions, too.
    #[must_use]
    pub fn choice_described<'a>(
        self,
        id: &str,
        instructions: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.choice_of(id, instructions, options.into_iter().map(|(option, described)| (option, Some(described))))
    }

    fn choice_of<'a>(
        self,
        id: &str,
        instructions: &str,
        options: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Self {
        let mut criteria = String::new();
        for (index, (option, description)) in options.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let description = description.map_or_else(|| "null".to_owned(), json);
            let _ = write!(criteria, "{comma}{}:{description}", json(option));
        }
        let instructions = json(instructions);
        let question = format!(r#"{{"type":"choice","instructions":{instructions},"criteria":{{{criteria}}}}}"#);
        self.question(id, question)
    }

    /// Asks for a level on a scale of 2 to 255, described from the lowest to the highest.
    #[must_use]
    pub fn score<'a>(self, id: &str, instructions: &str, levels: impl IntoIterator<Item = &'a str>) -> Self {
        let levels: Vec<&str> = levels.into_iter().collect();
        let (instructions, levels) = (json(instructions), json(&levels));
        let question = format!(r#"{{"type":"score","instructions":{instructions},"criteria":{levels}}}"#);
        self.question(id, question)
    }

    /// Asks a question in the JSON that clients send under `questions`, for whatever the others cannot say. It becomes part
    /// of the request as it is, so it has to be one whole JSON value, and none of a stranger's.
    #[must_use]
    pub fn question(mut self, id: &str, question: impl Into<String>) -> Self {
        self.questions.push((json(id), question.into()));
        self
    }

    /// Shows a picture before the state: the bytes of a PNG, JPEG, WebP, GIF or BMP file.
    #[must_use]
    pub fn image(mut self, file: impl Into<Arc<[u8]>>) -> Self {
        self.images.push(file.into());
        self
    }

    /// Shows an animated GIF or WebP as a video.
    #[must_use]
    pub fn animation(mut self, file: impl Into<Arc<[u8]>>) -> Self {
        self.videos.push((VideoContent::Animation(MediaData::File(file.into())), None));
        self
    }

    /// Shows pictures as a video, so many a second; without a number 24 are assumed.
    #[must_use]
    pub fn video<F: Into<Arc<[u8]>>>(mut self, frames: impl IntoIterator<Item = F>, fps: Option<f64>) -> Self {
        let frames = frames.into_iter().map(|frame| MediaData::File(frame.into())).collect();
        self.videos.push((VideoContent::Frames(frames), fps));
        self
    }

    /// Lowers the limit on the prompt's tokens, which is the context's size otherwise.
    #[must_use]
    pub fn max_length(mut self, tokens: usize) -> Self {
        self.max_length = Some(tokens);
        self
    }

    /// Cuts the state to so many tokens.
    #[must_use]
    pub fn max_state_tokens(mut self, tokens: usize) -> Self {
        self.max_state_tokens = Some(tokens);
        self
    }

    /// Cuts the state's end where the prompt does not fit, rather than being refused.
    /// [`Outcome::truncated_tokens`](crate::Outcome::truncated_tokens) says how much was cut.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.truncate = Truncate::End;
        self
    }

    /// Checks it by the API's rules.
    ///
    /// # Errors
    /// As [`Record::parse`]: the first thing that is wrong, with its place.
    pub fn to_record(&self) -> Result<Record, RecordError> {
        let questions: Vec<String> = self.questions.iter().map(|(id, question)| format!("{id}:{question}")).collect();
        let body = format!(r#"{{"state":{},"questions":{{{}}}}}"#, self.state, questions.join(","));
        let mut record = Record::parse(body.as_bytes())?;
        for (index, file) in self.images.iter().enumerate() {
            record.images.push(Image { data: MediaData::File(Arc::clone(file)), loc: place("images", index) });
        }
        for (index, (content, fps)) in self.videos.iter().enumerate() {
            let loc = place("videos", index);
            record.videos.push(Video { content: content.clone(), fps: *fps, sample: true, loc });
        }
        record.max_length = self.max_length;
        record.max_state_tokens = self.max_state_tokens;
        record.truncate = self.truncate;
        Ok(record)
    }
}

impl TryFrom<&Request> for Record {
    type Error = RecordError;

    fn try_from(request: &Request) -> Result<Self, RecordError> {
        request.to_record()
    }
}

impl TryFrom<Request> for Record {
    type Error = RecordError;

    fn try_from(request: Request) -> Result<Self, RecordError> {
        request.to_record()
    }
}

fn place(field: &str, index: usize) -> Vec<LocItem> {
    vec!["body".into(), LocItem::field(field), LocItem::Index(index)]
}

/// Texts and lists of them can always be written.
fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("texts can be written as JSON")
}
