//! A hub on a free port that imitates the endpoints of the real one, a host beside it that keeps the files, and
//! everything that goes wrong between them and a disk.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

mod broken;
mod cache;
mod hostile;
mod models;
mod offline;
mod refused;
mod server;
mod sharing;
mod support;
mod urls;
