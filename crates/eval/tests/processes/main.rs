//! Tests that start processes. They are a program of their own, because a process that is being started holds for a moment
//! all files of the one that starts it, locks included.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pipes;
#[expect(dead_code, reason = "the other tests look at more of it")]
#[path = "../it/server.rs"]
mod server;
mod tls;
