//! What the service is told of a model: an engine to ask, a card to show, and its vocabulary.
//!
//! The service itself never sees a model; whoever loads one fills these in.

use std::fmt;
use std::sync::Arc;

use clef_engine::Engine;
use clef_record::TokenId;

/// A loaded model.
#[derive(Clone)]
pub struct Model {
    /// Answers decisions.
    pub engine: Engine,
    /// What there is to say about it.
    pub card: ModelCard,
    /// Its vocabulary, for `/tokenize` and `/detokenize`; without one they answer 501.
    pub text: Option<Arc<dyn Text>>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("engine", &self.engine).field("card", &self.card).finish_non_exhaustive()
    }
}

/// A model's vocabulary. Called on threads that may block.
pub trait Text: Send + Sync {
    /// Text to tokens.
    ///
    /// # Errors
    /// If the text cannot be tokenized; one line for people, without the text itself.
    fn tokenize(&self, text: &str, options: TokenizeOptions) -> Result<Vec<TokenId>, String>;

    /// The bytes that a token stands for, which need not be whole characters; none if there is no such token.
    fn piece(&self, token: TokenId) -> Option<Vec<u8>>;
}

/// How a text is tokenized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenizeOptions {
    /// Adds the tokens that the vocabulary puts around a text.
    pub add_special: bool,
    /// Recognises special tokens in the text.
    pub parse_special: bool,
}

/// What `/v1/models` and `/props` tell about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelCard {
    /// What replies call the model: its alias, or its path.
    pub name: String,
    /// The model file's path.
    pub path: String,
    /// One line for people.
    pub description: String,
    /// `YYYY-MM-DD`; empty where unknown.
    pub release_date: String,
    /// When the file was made, in seconds since 1970.
    pub created: u64,
    /// What it reads: `text`, `image`.
    pub input_modalities: Vec<String>,
    /// The architecture's family: `clef`.
    pub family: String,
    /// Parameters for people: `9B`.
    pub parameter_size: String,
    /// Quantization: `Q4_K_M`.
    pub quantization: String,
    /// Numbers about the backbone.
    pub meta: ModelMeta,
    /// Which build serves it: `b11434-...`.
    pub build_info: String,
}

/// A model's numbers, named as llama-server names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ModelMeta {
    /// llama.cpp's number for the kind of vocabulary; 2 is BPE.
    pub vocab_type: i32,
    /// Tokens of the vocabulary.
    pub n_vocab: u64,
    /// Tokens that a request may have.
    pub n_ctx: u64,
    /// Tokens that the model was trained for.
    pub n_ctx_train: u64,
    /// Width of a hidden state.
    pub n_embd: u64,
    /// Parameters.
    pub n_params: u64,
    /// Bytes of all tensors.
    pub size: u64,
}
