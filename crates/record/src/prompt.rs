//! What an encoder makes of a record: tokens, and where in them everything is.
//!
//! This is the contract between three crates that do not know each other: the encoder writes it, the engine plans and
//! caches by its boundaries, the model reads hidden states at its spans. It lives here because this is the one crate all
//! of them depend on.

use std::ops::Range;

use crate::record::QuestionKind;

/// A token of the model's vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub i32);

/// A record as the model reads it. All positions are indices into `tokens`.
///
/// The order is: fixed prefix, state, schema, fixed suffix. Two records with an equal state share every token up to
/// `state_end`, and any two records share those up to `prefix_end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// All tokens, in order.
    pub tokens: Vec<TokenId>,
    /// End of the fixed prefix; the state starts here.
    pub prefix_end: usize,
    /// End of the state; equals `prefix_end` when the state has no token.
    pub state_end: usize,
    /// The questions in request order.
    pub questions: Vec<PromptQuestion>,
    /// State tokens that were cut off. For a state of more bytes than the context could ever hold, a lower bound.
    pub truncated_tokens: usize,
}

/// Where one question stands in a [`Prompt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptQuestion {
    /// What the question asks for.
    pub kind: QuestionKind,
    /// The instruction's tokens; never empty.
    pub span: Range<usize>,
    /// The options in prompt order.
    pub options: Vec<PromptOption>,
}

/// Where one option stands in a [`Prompt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOption {
    /// The option text's tokens; never empty.
    pub span: Range<usize>,
    /// The option's index in the request's order.
    pub request_index: usize,
}
