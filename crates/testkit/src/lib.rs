//! What tests share: fixtures, golden records, a fake model for the engine, numeric assertions.
//!
//! A missing fixture is a failed test, never a skipped one.

mod alone;
mod checkpoint;
mod close;
mod fake;
mod fixtures;
mod golden;
mod models;
mod picture;
mod random;

pub use alone::is_alone;
pub use checkpoint::write_checkpoint;
pub use close::{Closeness, assert_close, largest_difference};
pub use fake::{Event, FakeEncoder, FakeModel, Gate, Log};
pub use fixtures::{Tiny, built_in_model, fixture, generated_dir, project_dir, tiny, tiny_projector};
pub use golden::{
    GoldenMedia, GoldenQuestion, GoldenRecord, UpstreamAnswers, debug_array, golden, nano_golden, upstream,
};
pub use models::{is_of_head, plain_backbone, put_split_numbers, split_model, write_image};
pub use picture::bitmap;
pub use random::Random;
