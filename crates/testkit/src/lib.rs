//! What tests share: fixtures, golden records, a fake model for the engine, numeric assertions.
//!
//! A missing fixture is a failed test, never a skipped one.

mod checkpoint;
mod close;
mod fake;
mod fixtures;
mod golden;
mod picture;

pub use checkpoint::{write_checkpoint, write_image};
pub use close::{Closeness, assert_close, largest_difference};
pub use fake::{Event, FakeEncoder, FakeModel, Gate, Log};
pub use fixtures::{Tiny, built_in_model, fixture, generated_dir, project_dir, tiny, tiny_projector};
pub use golden::{
    GoldenMedia, GoldenQuestion, GoldenRecord, UpstreamAnswers, debug_array, golden, nano_golden, upstream,
};
pub use picture::bitmap;
