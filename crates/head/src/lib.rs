//! The joint schema head: hidden states in, one logit per option out.
//!
//! Why it exists apart from llama.cpp's own: upstream computes the head inside the backbone's graph, which forces the
//! whole prompt into one micro-batch without memory. Here the head reads hidden states chunk by chunk as the backbone
//! produces them ([`Reading::push`]), keeps the little it needs of them on its device, and answers at the end
//! ([`Reading::finish`]). Its weights come from wherever a [`HeadFile`] finds them. Memory grows with tokens and with options, never with their product.

mod attention;
mod checkpoint;
mod error;
mod expected;
mod file;
mod layout;
mod network;
mod reading;
mod safetensors;
mod weights;

pub use attention::CrossAttention;
pub use error::{Error, ErrorKind, Result};
pub use file::HeadFile;
pub use layout::{Layout, QuestionType, Temperatures};
pub use reading::{QuestionSpans, Reading};
pub use weights::Head;
