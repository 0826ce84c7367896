//! Requests as clients send them, well-formed and not, through the crate's public face.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepted;
mod answers;
mod hostile;
mod json_cases;
mod media;
mod properties;
mod refused;
