//! Names for requests, unique across restarts and servers for all practical purposes.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids: a random half that differs between processes, and a count.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        // The standard library seeds its hash maps from the system's randomness.
        Self { process: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(1) }
    }

    pub(crate) fn next(&self) -> String {
        format!("req_{:016x}{:08x}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
