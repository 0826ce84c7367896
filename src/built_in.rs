//! The model that is used when none is named.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where it lies below a checkout or an installed package.
const PLACES: [&str; 2] = ["models/clef-nano-Q8_0.gguf", "share/clef-server/clef-nano-Q8_0.gguf"];

/// A model to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltIn {
    /// The one that the person named.
    Named(PathBuf),
    /// The toy that comes with the program.
    Toy(PathBuf),
}

impl BuiltIn {
    /// Its file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Toy(path) => path,
        }
    }

    /// What to tell the person, if anything.
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Named(_) => None,
            Self::Toy(path) => Some(format!(
                "note: no model given (-m FILE); using the built-in {}, a toy: never use it for real decisions",
                path.file_name().unwrap_or_default().display()
            )),
        }
    }
}

/// The named model, or the toy, looked for beside and above the program's own file.
///
/// # Errors
/// If none was named and the toy is not there.
pub fn model_or_built_in(named: Option<&Path>) -> anyhow::Result<BuiltIn> {
    if let Some(path) = named {
        return Ok(BuiltIn::Named(path.to_owned()));
    }
    let program = std::env::current_exe().context("no model given (-m FILE), and the program cannot find itself")?;
    let program = program.canonicalize().unwrap_or(program);
    program
        .ancestors()
        .skip(1)
        .flat_map(|folder| PLACES.iter().map(move |place| folder.join(place)))
        .find(|candidate| candidate.is_file())
        .map(BuiltIn::Toy)
        .context("no model given (-m FILE), and the built-in one is not beside the program")
}
