//! Prompts of small records with a tokenizer that can be read: one token per character, special tokens whole.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod characters;
mod layout;
mod limits;
mod media;
mod properties;
