//! Files as people send them, and as they do not, through the crate's public face.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod animations;
mod corpus;
mod corruption;
mod data_urls;
mod frames;
mod golden;
mod hostile;
mod pillow;
mod reading;
mod sizes;
mod support;
