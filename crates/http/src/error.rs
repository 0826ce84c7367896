//! Why a request has no answer: one table from kind to status and type, and one body that every client understands.
//!
//! llama-server's clients read `error`, the hosted API's read `detail`. Both say the same. A body stays under two
//! kilobytes whatever the client sent, and a fault of the client is never a 5xx (but 501, for llama-server's sake).

use std::time::Duration;

use clef_engine::{EngineError, EngineErrorKind, RefusalKind};
use clef_record::{LocItem, RecordError, RecordErrorKind};
use hyper::StatusCode;
use hyper::header::{ACCEPT_ENCODING, HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;

use crate::config::ValidationStatus;
use crate::reply::Reply;

/// The longest message, in bytes of JSON. It stands in a body twice.
const MAX_MESSAGE_BYTES: usize = 512;

/// How long to wait before asking a server that is about to be restarted.
const RESTART_WAIT: Duration = Duration::from_secs(5);

/// How long to wait before asking a server that loads its model.
const LOADING_WAIT: Duration = Duration::from_secs(1);

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    loc: Vec<LocItem>,
    slug: &'static str,
}

/// What happened. The table in [`FailureKind::row`] has a row for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The body is not valid: not JSON, or against a rule.
    Invalid,
    /// The prompt does not fit the context.
    TooLong { tokens: usize, limit: usize },
    /// No key, or a wrong one.
    Unauthorized,
    /// A browser was sent here by a page that may not.
    ForeignOrigin,
    /// No such path, or not with this method.
    NotFound,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body is over the limit.
    TooLarge,
    /// The body is compressed in a way that is not known here.
    UnknownEncoding,
    /// Too much is waiting.
    Busy { wait: Duration },
    /// Something failed that should not.
    Fault,
    /// Something that this server or model does not do.
    NotSupported,
    /// Not now, but soon.
    Unavailable { wait: Duration },
    /// The model is not there yet.
    Loading,
    /// The server is about to end.
    ShuttingDown,
    /// The engine thread is gone.
    EngineDead,
}

impl FailureKind {
    /// The one place where a kind becomes a status and a type.
    fn row(self, validation: ValidationStatus) -> (StatusCode, &'static str) {
        match (self, validation) {
            (Self::Invalid, ValidationStatus::Unprocessable) => (StatusCode::UNPROCESSABLE_ENTITY, UNPROCESSABLE),
            (Self::Invalid, ValidationStatus::BadRequest) => (StatusCode::BAD_REQUEST, "invalid_request_error"),
            (Self::TooLong { .. }, ValidationStatus::Unprocessable) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "exceed_context_size_error")
            }
            (Self::TooLong { .. }, ValidationStatus::BadRequest) => {
                (StatusCode::BAD_REQUEST, "exceed_context_size_error")
            }
            (Self::Unauthorized, _) => (StatusCode::UNAUTHORIZED, "authentication_error"),
            (Self::ForeignOrigin, _) => (StatusCode::FORBIDDEN, "permission_error"),
            (Self::NotFound, _) => (StatusCode::NOT_FOUND, "not_found_error"),
            (Self::BodyTimeout, _) => (StatusCode::REQUEST_TIMEOUT, "timeout_error"),
            (Self::TooLarge, _) => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large_error"),
            (Self::UnknownEncoding, _) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type_error"),
            (Self::Busy { .. }, _) => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error"),
            (Self::Fault, _) => (StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
            (Self::NotSupported, _) => (StatusCode::NOT_IMPLEMENTED, "not_supported_error"),
            (Self::Unavailable { .. } | Self::Loading | Self::ShuttingDown | Self::EngineDead, _) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable_error")
            }
        }
    }

    fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy { wait } | Self::Unavailable { wait } => Some(wait),
            Self::EngineDead | Self::ShuttingDown => Some(RESTART_WAIT),
            Self::Loading => Some(LOADING_WAIT),
            _ => None,
        }
    }
}

const UNPROCESSABLE: &str = "unprocessable_entity_error";

/// The body, as both kinds of clients read it.
#[derive(Serialize)]
struct Body<'a> {
    error: ErrorObject<'a>,
    detail: Detail<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: u16,
    message: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_prompt_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_ctx: Option<usize>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Detail<'a> {
    Validation([Problem<'a>; 1]),
    Other { error_type: &'static str, message: &'a str },
}

#[derive(Serialize)]
struct Problem<'a> {
    loc: Vec<Step<'a>>,
    msg: &'a str,
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), loc: vec!["body".into()], slug: "value_error" }
    }

    /// A body that is not valid, at a place in it.
    pub(crate) fn invalid(loc: Vec<LocItem>, slug: &'static str, message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Invalid, message: message.into(), loc, slug }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(FailureKind::NotFound, "File Not Found")
    }

    pub(crate) fn loading() -> Self {
        Self::new(FailureKind::Loading, "Loading model")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(FailureKind::ShuttingDown, "the server is shutting down")
    }

    pub(crate) fn engine_dead() -> Self {
        Self::new(FailureKind::EngineDead, "the engine has stopped after a fault; the server is about to end")
    }

    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Fault, message)
    }

    pub(crate) fn not_supported(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotSupported, message)
    }

    pub(crate) fn of_record(error: &RecordError) -> Self {
        let kind = match error.kind() {
            RecordErrorKind::TooLarge => FailureKind::TooLarge,
            RecordErrorKind::Logits => FailureKind::Fault,
            // What else can be wrong with a body is the client's matter, also if the crate learns new kinds.
            RecordErrorKind::Json(_) | RecordErrorKind::Nesting(_) | RecordErrorKind::Invalid | _ => {
                FailureKind::Invalid
            }
        };
        Self { kind, message: error.message().to_owned(), loc: error.loc().to_vec(), slug: error.slug() }
    }

    /// `wait` is how long a full queue may take to have room.
    pub(crate) fn of_engine(error: &EngineError, wait: Duration) -> Self {
        let kind = match error.kind() {
            EngineErrorKind::Refused(RefusalKind::TooLong { tokens, limit }) => FailureKind::TooLong { tokens, limit },
            EngineErrorKind::Refused(RefusalKind::Invalid) => FailureKind::Invalid,
            EngineErrorKind::Refused(RefusalKind::NotSupported) => FailureKind::NotSupported,
            EngineErrorKind::QueueFull => FailureKind::Busy { wait },
            EngineErrorKind::ShuttingDown => FailureKind::ShuttingDown,
            EngineErrorKind::Dead => return Self::engine_dead(),
            EngineErrorKind::Fault | EngineErrorKind::Refused(RefusalKind::Internal) | _ => FailureKind::Fault,
        };
        let loc = if error.loc().is_empty() { vec!["body".into()] } else { error.loc().to_vec() };
        let slug =
            if matches!(kind, FailureKind::TooLong { .. }) { "exceed_context_size_error" } else { "value_error" };
        Self { kind, message: error.message().to_owned(), loc, slug }
    }

    /// Whether the client was too slow, or comes too late, to be listened to any longer.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self.kind, FailureKind::BodyTimeout | FailureKind::ShuttingDown)
    }

    pub(crate) fn into_reply(self, validation: ValidationStatus) -> Reply {
        let (status, r#type) = self.kind.row(validation);
        let message = bounded(&self.message);
        let (n_prompt_tokens, n_ctx) = match self.kind {
            FailureKind::TooLong { tokens, limit } => (Some(tokens), Some(limit)),
            _ => (None, None),
        };
        let detail = match self.kind {
            FailureKind::Invalid | FailureKind::TooLong { .. } => {
                let steps = self.loc.iter().map(|item| match item {
                    LocItem::Field(name) => Step::Field(name),
                    LocItem::Index(index) => Step::Index(*index),
                });
                Detail::Validation([Problem { loc: steps.collect(), msg: message, r#type: self.slug }])
            }
            _ => Detail::Other { error_type: r#type, message },
        };
        let error = ErrorObject { code: status.as_u16(), message, r#type, n_prompt_tokens, n_ctx };
        let mut reply = Reply::json(status, &Body { error, detail });
        if let Some(wait) = self.kind.retry_after() {
            reply = reply.with_retry_after(wait);
        }
        match self.kind {
            FailureKind::UnknownEncoding => {
                reply.with_header(ACCEPT_ENCODING, HeaderValue::from_static(crate::encoding::KNOWN))
            }
            FailureKind::Unauthorized => reply.with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => reply,
        }
    }
}

/// The start of a message that takes at most [`MAX_MESSAGE_BYTES`] in JSON.
fn bounded(message: &str) -> &str {
    let mut printed = 0;
    for (index, character) in message.char_indices() {
        printed += match character {
            '"' | '\\' => 2,
            character if character.is_control() => 6,
            character => character.len_utf8(),
        };
        if printed > MAX_MESSAGE_BYTES {
            return &message[..index];
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_stays_under_two_kilobytes() {
        for text in ["\"", "\0", "é", "\u{10000}", "x"] {
            let loc = (0..6).map(|_| LocItem::field(&text.repeat(10_000))).collect();
            let failure = Failure::invalid(loc, "value_error", text.repeat(10_000));
            let reply = failure.into_reply(ValidationStatus::Unprocessable);
            assert!(reply.body.len() <= 2_048, "{} bytes of {text:?}", reply.body.len());
        }
    }

    #[test]
    fn only_a_missing_ability_of_the_server_is_a_5xx_that_a_client_can_cause() {
        use FailureKind::*;
        let client = [
            Invalid,
            TooLong { tokens: 1, limit: 1 },
            Unauthorized,
            ForeignOrigin,
            NotFound,
            BodyTimeout,
            TooLarge,
            UnknownEncoding,
            Busy { wait: LOADING_WAIT },
        ];
        for kind in client {
            for validation in [ValidationStatus::Unprocessable, ValidationStatus::BadRequest] {
                assert!(kind.row(validation).0.is_client_error(), "{kind:?}");
            }
        }
        for kind in [Fault, NotSupported, Loading, ShuttingDown, EngineDead] {
            assert!(kind.row(ValidationStatus::Unprocessable).0.is_server_error(), "{kind:?}");
        }
    }
}
