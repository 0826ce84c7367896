//! Why there is no answer, and whose fault it is.

use clef_record::LocItem;

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    kind: EngineErrorKind,
    message: String,
    loc: Vec<LocItem>,
}

/// What happened; a server maps each kind to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineErrorKind {
    /// The record itself is at fault.
    Refused(RefusalKind),
    /// As many requests as allowed are waiting, or as much as they may hold; worth trying again later.
    QueueFull,
    /// The engine takes no new work because it was told to end.
    ShuttingDown,
    /// The model failed on this request.
    Fault,
    /// The engine thread is gone; nothing will be answered any more.
    Dead,
}

impl EngineError {
    pub(crate) fn new(kind: EngineErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), loc: Vec::new() }
    }

    pub(crate) fn dead() -> Self {
        Self::new(EngineErrorKind::Dead, "the engine has stopped after a fault")
    }

    /// What happened.
    pub fn kind(&self) -> EngineErrorKind {
        self.kind
    }

    /// One line for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The place in the request's body, for refusals that name one.
    pub fn loc(&self) -> &[LocItem] {
        &self.loc
    }
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind {
            RefusalKind::Busy => EngineErrorKind::QueueFull,
            kind => EngineErrorKind::Refused(kind),
        };
        Self { kind, message: refusal.message, loc: refusal.loc }
    }
}

/// A record that an encoder refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Which sort.
    pub kind: RefusalKind,
    /// One line for people, naming field and limit.
    pub message: String,
    /// The place in the request's body.
    pub loc: Vec<LocItem>,
}

/// Sorts of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The prompt does not fit the context.
    TooLong {
        /// Its tokens (at least that many, where the text alone shows that it cannot fit).
        tokens: usize,
        /// The limit it was held to.
        limit: usize,
    },
    /// Something in the record cannot be asked about.
    Invalid,
    /// This model cannot be shown what the record shows.
    NotSupported,
    /// There is no memory for what the record shows beside what other requests show; worth trying again later.
    Busy,
    /// The tokenizer failed: not the client's fault.
    Internal,
}
