//! Domain types of a decision request, their validation, CPython-exact JSON rendering, and answers.
//!
//! This crate exists so that every other one speaks of the same thing. A [`Record`] is a request after all of the
//! API's rules were checked and all free-form values were rendered to the text the model reads; a [`Prompt`] is what an
//! encoder makes of it; a [`Decision`] is what a model's logits mean. There is no I/O here and no tokenizer.
//!
//! ```
//! use clef_record::Record;
//!
//! let body = br#"{"state": {"b": 1250.0, "a": [1]}, "questions": {"angry": {"type": "noul"}}}"#;
//! let record = Record::parse(body).expect("a valid request");
//! assert_eq!(record.state, r#"{"a":[1],"b":1250.0}"#);
//! assert_eq!(record.questions[0].instruction, "angry");
//! ```

mod answer;
mod attachment;
mod error;
pub mod json;
mod media;
mod parse;
mod placeholder;
mod prompt;
mod question;
mod record;
mod text;
mod wire;

pub use answer::{Answer, AnswerOption, AnswerValue, Decision};
pub use attachment::{Image, MediaData, Video, VideoContent};
pub use error::{LocItem, Position, RecordError, RecordErrorKind};
pub use prompt::{MediaSlot, Pixels, Prompt, PromptOption, PromptQuestion, ShownPixels, TokenId};
pub use record::{Question, QuestionKind, QuestionOption, Record, Rules, Truncate};
pub use text::{Grouped, Shortened};
