//! Ask a Clef model to decide, from Rust.
//!
//! A thin facade: it opens a model, starts the engine that owns it, and hands requests in. The binaries of this project
//! stand on it, so whatever they can do, a program can do too.
//!
//! ```no_run
//! use clef_api::Clef;
//!
//! let clef = Clef::open("clef-flash.Q4_K_M.gguf")?;
//! let reply = clef.decide_json(
//!     br#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#,
//! )?;
//! println!("{reply}");
//! # Ok::<(), clef_api::Error>(())
//! ```

mod error;

use std::path::Path;

use clef_engine::Engine;
use clef_model::Bundle;

pub use clef_engine::{
    EngineConfig, EngineError, EngineErrorKind, Health, Outcome, RefusalKind, Statistics, Ticket, Timings,
};
pub use clef_model::{
    CacheType, ChatMessage, ChatTemplate, Device, DeviceKind, FlashAttention, HeadInspection, Inspection, Kernels,
    LLAMA_CPP_BUILD, LoadMode, MemoryEstimate, MemoryItem, ModelOptions, Numa, Override, Placement,
    ProjectorInspection, Repack, Sampling, SplitMode, Stop, Text, TextRequest, TypeShare, Writer, WrittenText, devices,
    exit_now, find_gpu, set_abort_exit_code,
};
pub use clef_record::{
    Answer, AnswerOption, AnswerValue, Decision, Image, LocItem, MediaData, QuestionKind, Record, RecordError,
    RecordErrorKind, TokenId, Truncate, Video, VideoContent,
};
pub use error::Error;

/// How many of many records are in flight at a time.
const IN_FLIGHT: usize = 8;

/// How a model is opened and served.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The model.
    pub model: ModelOptions,
    /// The engine in front of it.
    pub engine: EngineConfig,
    /// What replies call the model; the file's path where none is given.
    pub alias: Option<String>,
}

/// A loaded model that answers. Cloned handles share it; any thread.
#[derive(Debug, Clone)]
pub struct Clef {
    engine: Engine,
    name: String,
    text: Text,
    inspection: std::sync::Arc<Inspection>,
}

impl Clef {
    /// Opens a model with default options.
    ///
    /// # Errors
    /// If the file cannot be opened or cannot decide, or memory runs out.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &Options::default(), &mut |_, _| true)
    }

    /// Opens a model. `progress` is told bytes read and bytes in all, and stops the load by returning false.
    ///
    /// # Errors
    /// As [`Clef::open`]; also if `progress` stopped it or options make no sense.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let (encoder, evaluator, inspection) = Bundle::open(path, &options.model, progress)?.into_parts();
        let text = encoder.text();
        let engine = Engine::start(encoder, evaluator, &options.engine)?;
        let name = options.alias.clone().unwrap_or_else(|| path.display().to_string());
        Ok(Self { engine, name, text, inspection: std::sync::Arc::new(inspection) })
    }

    /// Answers a record. Blocks until the answer is there.
    ///
    /// # Errors
    /// If the record does not fit the model, too many requests are waiting, or the model failed.
    pub fn decide(&self, record: Record) -> Result<Outcome, Error> {
        Ok(self.engine.submit(record)?.wait()?)
    }

    /// Answers a request body and returns the reply's body, as the server would.
    ///
    /// # Errors
    /// As [`Clef::decide`]; also if the body is not a valid request.
    pub fn decide_json(&self, body: &[u8]) -> Result<String, Error> {
        let outcome = self.decide(Record::parse(body)?)?;
        Ok(outcome.decision.to_json(&self.name))
    }

    /// Answers many records, in their order. Some are in flight at a time, so that those that share a state, or are the
    /// same, share the work; one that fails stops no other.
    ///
    /// ```no_run
    /// use clef_api::{Clef, Record};
    ///
    /// let clef = Clef::open("clef-flash.Q4_K_M.gguf")?;
    /// let questions = r#"{"refund": {"type": "noul"}}"#;
    /// let records = ["charged twice", "thank you"]
    ///     .map(|state| Record::parse(format!(r#"{{"state": "{state}", "questions": {questions}}}"#).as_bytes()));
    /// let records: Vec<Record> = records.into_iter().collect::<Result<_, _>>()?;
    /// for outcome in clef.decide_all(records) {
    ///     println!("{}", outcome?.decision.to_json(clef.name()));
    /// }
    /// # Ok::<(), clef_api::Error>(())
    /// ```
    pub fn decide_all(&self, records: impl IntoIterator<Item = Record>) -> Vec<Result<Outcome, Error>> {
        let mut waiting = std::collections::VecDeque::new();
        let mut outcomes = Vec::new();
        let finish = |ticket: Result<Ticket, EngineError>| ticket.and_then(Ticket::wait).map_err(Error::from);
        for record in records {
            if waiting.len() == IN_FLIGHT
                && let Some(oldest) = waiting.pop_front()
            {
                outcomes.push(finish(oldest));
            }
            waiting.push_back(self.submit(record));
        }
        outcomes.extend(waiting.into_iter().map(finish));
        outcomes
    }

    /// Hands a record in without waiting. The ticket is a future, and can be waited for.
    ///
    /// # Errors
    /// If too many requests are waiting or the engine has ended.
    pub fn submit(&self, record: Record) -> Result<Ticket, EngineError> {
        self.engine.submit(record)
    }

    /// What replies call the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model's vocabulary.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// What the model's file says about itself.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Describes a model file without loading it.
///
/// # Errors
/// If it is not a readable GGUF file.
pub fn inspect(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Inspection, Error> {
    Ok(Inspection::open(path.as_ref(), options)?)
}
