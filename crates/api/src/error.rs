//! The library's one error: whatever the layers below report.

/// Why there is no model or no answer. Its text is one line for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] clef_model::Error),
    /// The request is not valid.
    #[error(transparent)]
    Record(#[from] clef_record::RecordError),
    /// The request was refused or failed in the engine.
    #[error(transparent)]
    Engine(#[from] clef_engine::EngineError),
    /// The operating system refused a thread.
    #[error("the engine cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

impl Error {
    /// Whether the request itself is at fault, so that trying again unchanged is useless.
    pub fn is_request_fault(&self) -> bool {
        match self {
            Self::Record(error) => error.kind() != clef_record::RecordErrorKind::Logits,
            Self::Engine(error) => matches!(
                error.kind(),
                clef_engine::EngineErrorKind::Refused(
                    clef_engine::RefusalKind::TooLong { .. }
                        | clef_engine::RefusalKind::Invalid
                        | clef_engine::RefusalKind::NotSupported
                )
            ),
            Self::Model(error) => error.kind() == clef_model::ErrorKind::Request,
            Self::Start(_) => false,
        }
    }
}
