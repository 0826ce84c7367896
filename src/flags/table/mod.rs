//! The table itself, by topic. `borrowed` has what only llama-server does anything with.

mod borrowed;
mod fetch;
mod model;
mod placement;
mod server;

use super::Flag;

pub(super) use server::tls;

/// All flags, in the order of help within a group.
pub fn flags() -> impl Iterator<Item = &'static Flag> + Clone {
    [
        server::COMMON,
        model::NAMING,
        fetch::FLAGS,
        model::FLAGS,
        placement::FLAGS,
        borrowed::MODEL_NOT_YET,
        server::FLAGS,
        borrowed::SERVER_NOT_YET,
        borrowed::TEXT,
        borrowed::FOREIGN,
    ]
    .into_iter()
    .flatten()
}

/// The flags about the model that `clef` has, too.
pub(crate) fn model_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    naming_flags().chain(opening_flags())
}

/// Those that say which model.
pub(crate) fn naming_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    model::NAMING.iter().chain(fetch::FLAGS)
}

/// Those that say how it is opened.
pub(crate) fn opening_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    model::FLAGS.iter().chain(placement::FLAGS)
}

/// Whether it says which model by itself.
pub(crate) fn names_model(flag: &Flag) -> bool {
    ["--model", "--hf-repo", "--model-url"].contains(&flag.name())
}

/// Whether it means nothing beside another model than the one that it was meant for.
pub(crate) fn goes_with_model(flag: &Flag) -> bool {
    names_model(flag) || flag.name() == "--hf-file"
}

/// The flag with a spelling, and whether that switches it on.
pub(crate) fn find(name: &str) -> Option<(&'static Flag, bool)> {
    flags().find_map(|flag| {
        let (_, on) = flag.spellings().find(|(spelling, _)| *spelling == name)?;
        Some((flag, on))
    })
}
