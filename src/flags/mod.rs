//! The flags of `clef-server`, and those that `clef` shares with it, as one table.
//!
//! One flag is one value of [`Flag`]: its spellings, environment variable, help and what it sets stand together. The
//! parser, the help, the manual page, shell completions and the table in `docs/server.md` are all made from the table,
//! so none of them can say something else.

mod command;
mod flag;
mod model_flags;
mod parse;
mod settings;
mod spellings;
mod table;
mod values;

#[cfg(test)]
mod tests;

pub use command::{command, markdown};
pub use flag::{Check, Effect, Flag, Group, Problem, Set, Takes};
pub use model_flags::{FileFlags, ModelFlags, model_flag_ids};
pub use parse::{UsageError, parse};
pub use settings::{Action, Colors, Hooks, LogFlags, Settings};
pub use spellings::normalized;
pub use table::flags;

pub(crate) use command::arguments;
pub(crate) use parse::{apply, apply_environment};
pub(crate) use table::{find, model_flags, opening_flags};
