//! Raw bindings, without logic.
//!
//! [`llama_cpp_sys_2`] builds llama.cpp and binds its C headers. A few entry points that Rust needs are C++-mangled
//! or let C++ exceptions through; the shim beside this file gives them a C face (prefix `clef_`) that catches
//! everything. Only `clef-llama` may depend on this crate.

pub use llama_cpp_sys_2::*;
pub use shim::*;

/// The version of llama.cpp that the pinned crate carries, as upstream numbers its builds.
pub const LLAMA_CPP_BUILD: &str = "b11434";

#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    unused_imports,
    reason = "generated from the shim's header"
)]
mod shim {
    include!(concat!(env!("OUT_DIR"), "/shim.rs"));
}
