//! A server on a free port, a model without a model, and raw bytes: what clients, careless and hostile ones, get to see.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

mod access;
mod bodies;
mod endpoints;
mod inputs;
mod life;
mod load;
mod media;
mod patience;
mod protocol;
mod support;
mod transport;
mod work;

/// The same fake model that the engine is tested with. Included, not linked: its crate brings llama.cpp along.
#[path = "../../../testkit/src/fake.rs"]
#[expect(unreachable_pub, reason = "it is a library's module elsewhere")]
#[expect(dead_code, reason = "other tests use the rest")]
mod fake;
