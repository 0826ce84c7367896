//! The flags of `clef-server`, and those that `clef` shares with it, as one table.
//!
//! One flag is one value of [`Flag`]: its spellings, environment variable, help and what it sets stand together. The
//! parser, the help, the manual page, shell completions and the table in `docs/server.md` are all made from the table,
//! so none of them can say something else.

mod borrowed;
mod command;
mod fetch;
mod flag;
mod model;
mod parse;
mod placement;
mod server;
mod settings;
mod values;

#[cfg(test)]
mod llama_server;
#[cfg(test)]
mod tests;

pub use command::{command, markdown};
pub use flag::{Check, Effect, Flag, Group, Problem, Set, Takes};
pub use parse::{UsageError, parse};
pub use settings::{Action, Colors, Hooks, LogFlags, Settings};

pub(crate) use command::arguments;
pub(crate) use parse::{apply, apply_environment};

/// All flags, in the order of help within a group.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    [
        server::COMMON,
        model::FLAGS,
        fetch::FLAGS,
        placement::FLAGS,
        borrowed::MODEL,
        server::SERVER,
        borrowed::SERVER,
        borrowed::TEXT,
        borrowed::FOREIGN,
    ]
    .into_iter()
    .flatten()
}

/// The flags about the model that `clef` has, too.
pub(crate) fn model_flags() -> impl Iterator<Item = &'static Flag> {
    model::FLAGS.iter().chain(fetch::FLAGS).chain(placement::FLAGS)
}

/// The flag with a spelling, and whether that switches it on.
pub(crate) fn find(name: &str) -> Option<(&'static Flag, bool)> {
    flags().find_map(|flag| {
        let (_, on) = flag.spellings().find(|(spelling, _)| *spelling == name)?;
        Some((flag, on))
    })
}
