//! Which files of a repository are meant: the model, all its parts, its projector. Names only; nothing is opened.
//!
//! The rules are those of llama.cpp (`find_best_model` in `common/download.cpp`) unless said otherwise, and the same
//! whatever order files are listed in: a cache has none, so the first is always the first by name.
//!
//! - A model is a `.gguf` file that is not a projector (`mmproj`), importance matrix (`imatrix`) or draft of another
//!   (`mtp-`, `eagle3-`, `dflash-`, `dspark-`).
//! - Its quantization is what stands behind the last `-` or `.` of its name. A file where that *is* the one asked for
//!   goes before one whose path merely contains it, as `UD-Q4_K_XL` does.
//! - Nothing asked for means Q4_K_M, or the nearest to it: first what has as many bits, then 5, 6 and 8, which lose
//!   nothing but room, then 3, 2 and 1, then files whose names say nothing, then 16 and 32. llama.cpp takes Q8_0 or
//!   else the first in the list. Something asked for is never replaced.
//! - A projector is a `.gguf` file with `mmproj` in its name, in the model's folder or one above it: the nearest folder
//!   first, then F16, BF16, F32, Q8_0, and any other by name. llama.cpp takes the one nearest to the model's
//!   quantization; a projector is small, so this takes the one that every backend computes well.

use std::collections::HashMap;
use std::fmt;

use crate::request::Choice;
use crate::text::{Foreign, Names};

/// What is looked for if nothing is asked for.
pub(crate) const DEFAULT_QUANT: &str = "Q4_K_M";

/// Bits of a weight, and what is between them: [`NO_QUANT`] stands for a name that does not say.
const PREFERRED_BITS: [u32; 10] = [4, 5, 6, 8, 3, 2, 1, NO_QUANT, 16, 32];
const NO_QUANT: u32 = 0;

/// What stands behind the bits of a quantization, the best first; others go behind these by name.
const PREFERRED_MIXES: [&str; 7] = ["_K_M", "_K_L", "_K_XL", "_K", "_K_S", "_1", "_0"];

/// Projectors, the best first.
const PROJECTOR_QUANTS: [&str; 4] = ["F16", "BF16", "F32", "Q8_0"];

/// The files that are meant, as indexes of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The model's parts in order; one if it is not split.
    pub(crate) parts: Vec<usize>,
    pub(crate) projector: Option<usize>,
}

/// Why no files are meant. Displayed, it goes on after the repository's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotChosen {
    NoModel,
    NoSuchFile { file: String, models: Vec<String> },
    NoSuchQuant { quant: String, quants: Vec<String> },
    PartMissing { file: String },
}

impl fmt::Display for NotChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModel => f.write_str("no GGUF file that is a model"),
            Self::NoSuchFile { file, models } => {
                write!(f, "no file \"{}\"", Foreign(file))?;
                if models.is_empty() { Ok(()) } else { write!(f, "; there are {}", Names(models)) }
            }
            Self::NoSuchQuant { quant, quants } => {
                write!(f, "no model of quantization {quant}; there are {}", Names(quants))
            }
            Self::PartMissing { file } => write!(f, "no file \"{}\", a part of a split model", Foreign(file)),
        }
    }
}

/// Picks the files that `choice` means.
pub(crate) fn choose(paths: &[&str], choice: &Choice, wants_projector: bool) -> Result<Chosen, NotChosen> {
    let index_of: HashMap<&str, usize> = paths.iter().enumerate().map(|(index, path)| (*path, index)).collect();
    let model = match choice {
        Choice::File(file) if index_of.contains_key(file.as_str()) => file.as_str(),
        Choice::File(file) => {
            return Err(NotChosen::NoSuchFile { file: file.clone(), models: sorted_models(paths) });
        }
        Choice::Default => default_model(paths)?,
        Choice::Quant(quant) => model_of_quant(paths, quant).ok_or_else(|| no_such_quant(paths, quant))?,
    };
    let find = |part: String| index_of.get(part.as_str()).copied().ok_or(NotChosen::PartMissing { file: part });
    let parts = match SplitName::parse(model) {
        Some(split) => (1..=split.count).map(|part| find(split.part(part))).collect::<Result<_, _>>()?,
        None => vec![find(model.to_owned())?],
    };
    let projector = if wants_projector { projector_beside(paths, model) } else { None };
    Ok(Chosen { parts, projector: projector.and_then(|path| index_of.get(path).copied()) })
}

fn no_such_quant(paths: &[&str], quant: &str) -> NotChosen {
    let models = sorted_models(paths);
    if models.is_empty() {
        return NotChosen::NoModel;
    }
    let mut quants: Vec<String> = models.iter().map(|path| quant_of(path)).filter(|quant| is_quant(quant)).collect();
    quants.sort_unstable();
    quants.dedup();
    NotChosen::NoSuchQuant {
        quant: quant.to_ascii_uppercase(),
        quants: if quants.is_empty() { models } else { quants },
    }
}

fn default_model<'a>(paths: &[&'a str]) -> Result<&'a str, NotChosen> {
    model_of_quant(paths, DEFAULT_QUANT)
        .or_else(|| models(paths).min_by_key(|path| (default_rank(path), *path)))
        .ok_or(NotChosen::NoModel)
}

/// Whether a model is of the quantization that is looked for if nothing is asked for.
pub(crate) fn is_default(model: &str) -> bool {
    model_of_quant(&[model], DEFAULT_QUANT).is_some()
}

/// How far a model is from what is looked for if nothing is asked for.
fn default_rank(path: &str) -> (usize, usize, String) {
    let quant = named_quant(path).unwrap_or_default();
    let is_digit = |character: char| character.is_ascii_digit();
    let (kind, rest) = quant.split_at(quant.find(is_digit).unwrap_or(quant.len()));
    let (bits, mix) = rest.split_at(rest.find(|character| !is_digit(character)).unwrap_or(rest.len()));
    let place_of = |bits: u32| PREFERRED_BITS.iter().position(|preferred| *preferred == bits);
    let bits = bits.parse().ok().and_then(place_of).or_else(|| place_of(NO_QUANT));
    let mix = PREFERRED_MIXES.iter().position(|preferred| kind == "Q" && *preferred == mix);
    (bits.unwrap_or(PREFERRED_BITS.len()), mix.unwrap_or(PREFERRED_MIXES.len()), quant)
}

/// The quantization that a model's path names, in capital letters; none if it names none.
pub(crate) fn named_quant(path: &str) -> Option<String> {
    let path = path.to_ascii_uppercase();
    // Some write it behind a `_`, which is also a part of it.
    let starts = |word: &'_ str| {
        let behind = word.match_indices('_').map(|(place, _)| place + 1);
        std::iter::once(0).chain(behind).find(|start| is_quant(&word[*start..])).map(|start| word[start..].to_owned())
    };
    path.rsplit(['-', '.', '/']).find_map(starts)
}

/// The other models that could have been chosen: their quantizations, or else their paths.
pub(crate) fn others_than(paths: &[&str], model: &str) -> Vec<String> {
    let mut others: Vec<String> = models(paths)
        .filter(|path| *path != model)
        .map(|path| named_quant(path).unwrap_or_else(|| path.to_owned()))
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// Whether a file is a projector.
fn is_projector(path: &str) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    name.ends_with(".gguf") && name.contains("mmproj") && SplitName::parse(path).is_none()
}

/// The first model by name whose quantization is the given one, or else whose path contains it.
fn model_of_quant<'a>(paths: &[&'a str], quant: &str) -> Option<&'a str> {
    let is_it = |path: &&str| quant_of(path).eq_ignore_ascii_case(quant);
    let has_it = |path: &&str| contains_quant(path, quant);
    models(paths).filter(is_it).min().or_else(|| models(paths).filter(has_it).min())
}

/// Whether a path contains a quantization as a word, with `-` or `.` behind it.
fn contains_quant(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_uppercase(), quant.to_ascii_uppercase());
    path.match_indices(&quant).any(|(start, _)| {
        let before = path[..start].chars().next_back();
        let behind = path[start + quant.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && matches!(behind, Some('-' | '.'))
    })
}

fn models<'a>(paths: &[&'a str]) -> impl Iterator<Item = &'a str> {
    paths.iter().copied().filter(|path| is_model(path))
}

fn sorted_models(paths: &[&str]) -> Vec<String> {
    let mut models: Vec<String> = models(paths).map(str::to_owned).collect();
    models.sort_unstable();
    models
}

/// Whether a file is a model, or the first part of one.
fn is_model(path: &str) -> bool {
    const DRAFTS: [&str; 4] = ["mtp-", "eagle3-", "dflash-", "dspark-"];
    let name = file_name(path).to_ascii_lowercase();
    name.ends_with(".gguf")
        && !name.contains("mmproj")
        && !name.contains("imatrix")
        && !DRAFTS.iter().any(|draft| name.contains(draft))
        && SplitName::parse(path).is_none_or(|split| split.index == 1)
}

/// The nearest and best projector for a model.
fn projector_beside<'a>(paths: &[&'a str], model: &str) -> Option<&'a str> {
    let model_folder = folder(model);
    let is_beside = |path: &str| {
        let folder = folder(path);
        folder.is_empty() || model_folder == folder || model_folder.starts_with(&format!("{folder}/"))
    };
    let rank = |path: &&str| {
        let quant = quant_of(path);
        let rank = PROJECTOR_QUANTS.iter().position(|known| *known == quant).unwrap_or(PROJECTOR_QUANTS.len());
        (std::cmp::Reverse(folder(path).len()), rank, path.to_string())
    };
    paths.iter().copied().filter(|path| is_beside(path) && is_projector(path)).min_by_key(rank)
}

/// What stands behind the last `-` or `.` of a file's name, in capital letters: its quantization, if that has one.
fn quant_of(path: &str) -> String {
    let stem = match SplitName::parse(path) {
        Some(split) => split.stem,
        None => path.get(..path.len().saturating_sub(".gguf".len())).unwrap_or(""),
    };
    file_name(stem).rsplit(['-', '.']).next().unwrap_or("").to_ascii_uppercase()
}

/// Whether a word looks like a quantization, to list it as one.
fn is_quant(word: &str) -> bool {
    const KINDS: [&str; 9] = ["Q", "IQ", "TQ", "F", "FP", "BF", "MXFP", "NVFP", "INT"];
    let letters = word.find(|character: char| character.is_ascii_digit()).unwrap_or(word.len());
    letters < word.len() && KINDS.contains(&&word[..letters])
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The name of one part of a split file: `stem-00002-of-00004.gguf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitName<'a> {
    pub(crate) stem: &'a str,
    /// From 1.
    pub(crate) index: u32,
    pub(crate) count: u32,
}

impl<'a> SplitName<'a> {
    /// Reads the name of a part; an ordinary name is not one.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        const SUFFIX: &str = "-00001-of-00001.gguf";
        let start = name.len().checked_sub(SUFFIX.len())?;
        let (stem, suffix) = name.split_at_checked(start)?;
        let number = |range: std::ops::Range<usize>| {
            let digits = suffix.get(range)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten()
        };
        let is_part = suffix.get(0..1) == Some("-")
            && suffix.get(6..10).is_some_and(|middle| middle.eq_ignore_ascii_case("-of-"))
            && suffix.get(15..).is_some_and(|end| end.eq_ignore_ascii_case(".gguf"));
        let (index, count) = (number(1..6)?, number(10..15)?);
        (is_part && !stem.is_empty() && (1..=count).contains(&index)).then_some(Self { stem, index, count })
    }

    /// The name of another part of the same file, from 1.
    pub(crate) fn part(&self, index: u32) -> String {
        format!("{}-{index:05}-of-{:05}.gguf", self.stem, self.count)
    }
}

#[cfg(test)]
mod tests;
