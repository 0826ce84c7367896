//! Who answers: the one thing that measuring needs to know about a model.

use std::error::Error as StdError;
use std::fmt;

/// Whoever answers requests of `POST /v1/systemone`: a server, a model in this process, or a test's stand-in.
///
/// One value is asked from several threads at once.
pub trait Answerer: Send + Sync {
    /// The response body for a request body. Blocks until it is there.
    ///
    /// # Errors
    /// If there is no answer; the kind says whose fault that is.
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError>;
}

impl<A: Answerer + ?Sized> Answerer for &A {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        (**self).answer(body)
    }
}

impl<A: Answerer + ?Sized> Answerer for Box<A> {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        (**self).answer(body)
    }
}

/// Whose fault it is that a record has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerErrorKind {
    /// The request's: it breaks a rule, is too long, or holds what the model cannot see.
    Refused,
    /// The caller's: no key, or a wrong one.
    Unauthorized,
    /// The server had no room, however often it was asked.
    Busy,
    /// No answer came within the time limit.
    TimedOut,
    /// Nobody is there, or the connection broke.
    Unreachable,
    /// The server or the model failed.
    Failed,
    /// What came back is not an answer to what was asked.
    Unreadable,
    /// The run was cancelled while waiting.
    Cancelled,
}

impl AnswerErrorKind {
    /// A word for tables and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unauthorized => "unauthorized",
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the next record may well be answered: the fault is this one's.
    pub fn is_of_one_record(self) -> bool {
        match self {
            Self::Refused | Self::Unreadable => true,
            Self::Unauthorized | Self::Busy | Self::TimedOut | Self::Unreachable | Self::Failed | Self::Cancelled => {
                false
            }
        }
    }

    /// Whether no record will be answered if the first was not for this reason: it is the wrong key, or the wrong place.
    pub fn is_of_every_record(self) -> bool {
        match self {
            Self::Unauthorized | Self::Unreachable => true,
            Self::Refused | Self::Busy | Self::TimedOut | Self::Failed | Self::Unreadable | Self::Cancelled => false,
        }
    }
}

/// Why there is no answer to a record.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AnswerError {
    kind: AnswerErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl AnswerError {
    /// For implementations of [`Answerer`]; the message is one line.
    pub fn new(kind: AnswerErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), source: None }
    }

    /// With what caused it.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Whose fault it is.
    pub fn kind(&self) -> AnswerErrorKind {
        self.kind
    }

    /// One line for people; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }
}
