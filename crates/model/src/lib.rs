//! A model as the engine drives it: backbone and tokenizer of one file, a head and a projector, opened
//! together and checked against each other.
//!
//! [`Bundle::open`] does the loading; [`Bundle::into_parts`] gives the two halves that an engine is started with: a
//! [`RecordEncoder`] for its encoding threads and an [`Evaluator`] for the thread that owns the model. [`Inspection`]
//! reads what a file is without loading it; [`attach_head`] and [`extract_head`] make one file of two, and the other way
//! round. [`Writer`] has the backbone alone write text.

mod attach;
mod available;
mod budget;
mod bundle;
mod characters;
mod cuts;
mod embedded;
mod encode;
mod error;
mod evaluate;
mod fit;
mod inspect;
mod kernels;
mod lane;
mod media;
mod memory;
mod names;
mod options;
mod output;
mod placement;
mod positions;
mod python_json;
mod states;
mod template;
mod text;
mod vision;
mod writer;

pub use attach::{Written, attach_head, extract_head};
pub use bundle::Bundle;
pub use clef_llama::gguf::Override;
pub use clef_llama::{
    CacheType, Device, DeviceKind, FlashAttention, LLAMA_CPP_BUILD, Numa, Sampling, SplitMode, TowerShape, devices,
    exit_now, set_abort_exit_code,
};
pub use encode::RecordEncoder;
pub use error::{Error, ErrorKind, Result};
pub use evaluate::Evaluator;
pub use inspect::{HeadInspection, Inspection, ProjectorInspection, TypeShare};
pub use kernels::{Kernels, Repack};
pub use memory::{MemoryEstimate, MemoryItem};
pub use options::ModelOptions;
pub use placement::{LoadMode, Placement, find_gpu};
pub use template::{ChatMessage, ChatTemplate};
pub use text::Text;
pub use writer::{Stop, TextRequest, Writer, WrittenText};
