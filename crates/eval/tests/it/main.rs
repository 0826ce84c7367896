//! Measuring, through the crate's public face.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod charts;
mod comparing;
mod data;
mod example;
mod measures;
mod properties;
mod remote;
mod reports;
mod resuming;
mod running;
mod server;
mod support;
