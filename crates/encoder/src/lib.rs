//! A record to prompt tokens and spans, piece by piece as the reference does.
//!
//! The layout of a Clef prompt is part of the trained model: where a piece ends decides which tokens there are, and a
//! span that is off by one reads another question's hidden states. It stands here alone, apart from any tokenizer and any
//! model, so that it can be compared with the reference token by token.
//!
//! ```
//! use clef_encoder::{Encoder, EncoderOptions, Tokenize, TokenizeError};
//! use clef_record::{Record, TokenId};
//!
//! struct Bytes;
//! impl Tokenize for Bytes {
//!     fn tokenize(&self, text: &str, out: &mut Vec<TokenId>) -> Result<(), TokenizeError> {
//!         out.extend(text.bytes().map(|byte| TokenId(byte.into())));
//!         Ok(())
//!     }
//!     fn longest_token_bytes(&self) -> usize {
//!         1
//!     }
//! }
//!
//! let encoder = Encoder::new(&Bytes)?;
//! let record = Record::parse(br#"{"state": "late", "questions": {"angry": {"type": "noul"}}}"#)?;
//! let prompt = encoder.encode(&record, &Bytes, &EncoderOptions::default())?;
//! assert_eq!(prompt.state_end - prompt.prefix_end, "late".len());
//! assert_eq!(prompt.questions[0].span.len(), "angry".len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encoder;
mod error;
mod layout;
mod limits;
mod media;
mod tokenize;

pub use encoder::{Encoder, EncoderOptions};
pub use error::{EncodeError, EncodeErrorKind};
pub use media::MediaShape;
pub use tokenize::{Tokenize, TokenizeError};
