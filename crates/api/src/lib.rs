//! Ask a Clef model to decide, from Rust.
//!
//! A thin facade: it opens a model, starts the engine that owns it, and hands requests in. The binaries of this project
//! stand on it, so whatever they can do, a program can do too.
//!
//! ```
//! use clef_api::{Clef, Request};
//!
//! # const NANO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/clef-nano-Q8_0.gguf");
//! let clef = Clef::open(NANO)?;
//! let request = Request::text("I was charged twice for my order last week and nobody has replied.")
//!     .noul("angry", "Is the customer angry?")
//!     .choice("team", "Which team should handle this?", ["billing", "shipping", "technical"]);
//! let decision = clef.decide(&request)?.decision;
//!
//! let team = decision.answer("team").expect("it was asked");
//! assert_eq!(team.picked().map(|option| option.key.as_str()), Some("billing"));
//! let angry = decision.answer("angry").and_then(|answer| answer.noul()).expect("it was asked");
//! assert!(angry > 0.0 && angry < 1.0);
//! # Ok::<(), clef_api::Error>(())
//! ```
//!
//! `NANO` is the path of the toy that comes with the project; a real model's, such as `clef-flash.Q4_K_M.gguf`, stands
//! there in a program. Requests in JSON, as clients of the server send them, go to [`Clef::decide_json`].
//!
//! # Many at a time
//!
//! A batch may mix texts and pictures ([`Clef::decide_all`], [`Clef::decide_each`]), and async programs wait for a
//! [`Ticket`], which is a future of any runtime ([`Clef::submit`]). States that come again are not read again, whichever
//! of these hands them in.
//!
//! # Pictures
//!
//! [`ModelOptions::projector`] names the projector, and [`Request::image`], [`Request::video`] and [`Request::animation`]
//! show files.

mod batch;
mod error;
mod request;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clef_engine::Engine;
use clef_model::Bundle;

pub use batch::Decisions;

pub use clef_engine::{
    EngineConfig, EngineError, EngineErrorKind, Health, Outcome, RefusalKind, Statistics, Ticket, Timings,
};
pub use clef_model::{
    CacheType, ChatMessage, ChatTemplate, Device, DeviceKind, FlashAttention, HeadInspection, Inspection, Kernels,
    LLAMA_CPP_BUILD, LoadMode, MemoryEstimate, MemoryItem, ModelOptions, Numa, Override, Placement,
    ProjectorInspection, Repack, Sampling, SplitMode, Stop, Text, TextRequest, TypeShare, Writer, Written, WrittenText,
    attach_head, devices, exit_now, extract_head, find_gpu, set_abort_exit_code,
};
pub use clef_model::{Error as ModelError, ErrorKind as ModelErrorKind};
pub use clef_record::{
    Answer, AnswerOption, AnswerValue, Decision, Image, LocItem, MediaData, QuestionKind, Record, RecordError,
    RecordErrorKind, TokenId, Truncate, Video, VideoContent,
};
pub use error::Error;
pub use request::Request;

/// How many of many records are in flight at a time.
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Until the model is asked again whether it has room.
const PAUSE: Duration = Duration::from_millis(5);

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
    inspection: Arc<Inspection>,
    device_name: Arc<str>,
    kernels: Kernels,
    context_tokens: usize,
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
        let bundle = Bundle::open(path, &options.model, progress)?;
        let (device_name, kernels) = (bundle.device_name().into(), bundle.kernels());
        let (encoder, evaluator, inspection) = bundle.into_parts();
        let text = encoder.text();
        let context_tokens = encoder.context_tokens();
        let engine = Engine::start(encoder, evaluator, &options.engine)?;
        let name = options.alias.clone().unwrap_or_else(|| path.display().to_string());
        Ok(Self { engine, name, text, inspection: Arc::new(inspection), device_name, kernels, context_tokens })
    }

    /// Answers a request, or a record. Blocks until the answer is there, and while others leave no room for it: a record
    /// that is alone always has room.
    ///
    /// # Errors
    /// If the request breaks a rule or does not fit the model, or the model failed.
    pub fn decide<R>(&self, request: R) -> Result<Outcome, Error>
    where
        R: TryInto<Record>,
        Error: From<R::Error>,
    {
        let record = request.try_into()?;
        loop {
            match self.submit(record.clone()).and_then(Ticket::wait) {
                Err(error) if error.kind() == EngineErrorKind::QueueFull => std::thread::sleep(PAUSE),
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Answers a request body and returns the reply's body, as the server would.
    ///
    /// ```
    /// # use clef_api::Clef;
    /// # const NANO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/clef-nano-Q8_0.gguf");
    /// let clef = Clef::open(NANO)?;
    /// let reply = clef.decide_json(br#"{"state": "Thank you!", "questions": {"refund": {"type": "noul"}}}"#)?;
    /// assert!(reply.contains(r#""refund":{"type":"noul","noul":0."#));
    /// # Ok::<(), clef_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Clef::decide`]; also if the body is not a valid request.
    pub fn decide_json(&self, body: &[u8]) -> Result<String, Error> {
        let outcome = self.decide(Record::parse(body)?)?;
        Ok(outcome.decision.to_json(&self.name))
    }

    /// Answers many requests or records, in their order. Some are in flight at a time, so that those that share a state,
    /// or are the same, share the work; one that fails stops no other.
    ///
    /// ```
    /// use clef_api::{Clef, Request};
    ///
    /// # const NANO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/clef-nano-Q8_0.gguf");
    /// let clef = Clef::open(NANO)?;
    /// let ask = |state| Request::text(state).noul("refund", "Does the customer ask for money back?");
    /// let requests = [ask("I was charged twice."), ask("Thank you!").max_state_tokens(500)];
    /// for outcome in clef.decide_all(&requests) {
    ///     println!("{}", outcome?.decision.to_json(clef.name()));
    /// }
    /// # Ok::<(), clef_api::Error>(())
    /// ```
    pub fn decide_all<R>(&self, requests: impl IntoIterator<Item = R>) -> Vec<Result<Outcome, Error>>
    where
        R: TryInto<Record>,
        Error: From<R::Error>,
    {
        let records = requests.into_iter().map(|request| request.try_into().map_err(Error::from));
        self.decide_each(records, IN_FLIGHT).collect()
    }

    /// Answers records as they come, in their order, for more than memory should hold. So many are taken ahead of the
    /// answer that is waited for. Where a record could not be made, the fault stands in its answer's place.
    pub fn decide_each<I, E>(&self, records: I, in_flight: NonZeroUsize) -> Decisions<'_, I::IntoIter, E>
    where
        I: IntoIterator<Item = Result<Record, E>>,
        E: From<Error>,
    {
        Decisions::new(self, records.into_iter(), in_flight)
    }

    /// Hands a record in without waiting. The ticket is a future, and can be waited for; dropping it cancels the work.
    ///
    /// ```
    /// use clef_api::{Clef, Error, Request};
    ///
    /// async fn is_refund(clef: &Clef, state: &str) -> Result<bool, Error> {
    ///     let request = Request::text(state).noul("refund", "Does the customer ask for money back?");
    ///     let outcome = clef.submit(request.to_record()?)?.await?;
    ///     Ok(outcome.decision.answers[0].noul() > Some(0.5))
    /// }
    /// # const NANO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/clef-nano-Q8_0.gguf");
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(is_refund(&Clef::open(NANO)?, "I was charged twice."))?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// If too many requests are waiting or the engine has ended. What is wrong with the record, or finds no room later,
    /// is said by the ticket.
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

    /// The device that holds the model's last layers and the head, such as `CPU` or `CUDA0`.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// The most tokens that a prompt may have.
    pub fn context_tokens(&self) -> usize {
        self.context_tokens
    }

    /// CPU threads that it is computed with.
    pub fn threads(&self) -> u32 {
        self.kernels.threads
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Describes a model file without loading it.
///
/// # Errors
/// If it is not a readable GGUF file.
pub fn inspect(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Inspection, Error> {
    Ok(Inspection::open(path.as_ref(), options)?)
}

/// The README's program, for the compiler to look at.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
