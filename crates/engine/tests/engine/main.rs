//! The engine with a model that does as it is told.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

mod answers;
mod counting;
mod lanes;
mod life;
mod remembering;
mod sharing;
mod support;
mod tickets;

/// The fake model that others are tested with as well. Included, not linked: its crate brings llama.cpp along.
#[path = "../../../testkit/src/fake.rs"]
#[expect(unreachable_pub, reason = "it is a library's module elsewhere")]
mod fake;
