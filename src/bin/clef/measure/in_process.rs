//! The model in this process as one that answers request bodies, for what measures answers.

use clef_api::Clef;
use clef_eval::{AnswerError, AnswerErrorKind, Answerer};

/// Answers as the server would.
pub(super) struct InProcess(pub(super) Clef);

impl Answerer for InProcess {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        let reply = self.0.decide_json(body);
        reply.map(String::into_bytes).map_err(|error| {
            let is_theirs = error.is_request_fault();
            AnswerError::new(if is_theirs { AnswerErrorKind::Refused } else { AnswerErrorKind::Failed }, error)
        })
    }
}
