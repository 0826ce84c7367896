//! Which file is opened: the one that was named, or the toy that comes with the program.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where it lies below a checkout or an installed package.
const PLACES: [&str; 2] = ["models/clef-nano-Q8_0.gguf", "share/clef-server/clef-nano-Q8_0.gguf"];

/// A model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// The one that the person named.
    Named(PathBuf),
    /// The toy that comes with the program.
    Toy(PathBuf),
}

impl ModelFile {
    /// The named one, or the toy, looked for beside and above the program's own file.
    ///
    /// # Errors
    /// If none was named and the toy is not there.
    pub fn find(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = named {
            return Ok(Self::Named(path.to_owned()));
        }
        let program =
            std::env::current_exe().context("no model given (-m FILE), and the program cannot find itself")?;
        let program = program.canonicalize().unwrap_or(program);
        program
            .ancestors()
            .skip(1)
            .flat_map(|folder| PLACES.iter().map(move |place| folder.join(place)))
            .find(|candidate| candidate.is_file())
            .map(Self::Toy)
            .context("no model given (-m FILE), and the built-in one is not beside the program")
    }

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
