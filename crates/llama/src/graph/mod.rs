//! Computations of our own on the model's device, as ggml graphs.
//!
//! ggml checks the shapes it is given with assertions that end the process. Here each operation checks them first and
//! panics instead: a wrong shape is a fault of the code that builds the graph, and a panic stays inside its thread.
//!
//! [`Compute`] owns the device's queue, [`Store`] owns tensors that outlive a graph (weights, memories), and [`Graph`]
//! is built, run once and thrown away.

mod builder;
mod compute;
mod store;

pub use builder::{Graph, Tensor};
pub use compute::Compute;
pub(crate) use store::Metadata;
pub use store::{Store, StoreBuilder};
