//! From arguments and environment to [`Settings`], as llama-server reads them.
//!
//! llama-server's rules differ from most programs': short flags may have several letters, a flag's value is whatever
//! comes next even if it begins with a dash, and the last of several wins. Taking a value with `=` is ours.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::flag::{Effect, Flag, Problem, Takes};
use super::settings::Settings;
use super::table::{find, flags, goes_with_model, names_model};

/// A command line that cannot be followed, as lines to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Reads the arguments after the program's name. `variable` looks up the environment; arguments go before it.
///
/// # Errors
/// If a flag is unknown or not available, lacks its value, or its value makes no sense.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Settings, UsageError> {
    let given = split(arguments)?;
    let mut settings = Settings::default();
    let is_given = |flag: &Flag| given.iter().any(|given| given.flag.name() == flag.name());
    apply_environment(&mut settings, flags(), is_given, variable)?;
    for given in &given {
        apply(&mut settings, given.flag, &given.value, &given.written)?;
    }
    Ok(settings)
}

/// Sets what the environment says about flags that the command line does not give. One that names a model there is
/// the only one that names any.
///
/// # Errors
/// If a value makes no sense.
pub(crate) fn apply_environment<'f>(
    settings: &mut Settings,
    flags: impl Iterator<Item = &'f Flag> + Clone,
    is_given: impl Fn(&Flag) -> bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), UsageError> {
    let is_model_given = flags.clone().any(|flag| names_model(flag) && is_given(flag));
    for flag in flags.filter(|flag| !(is_given(flag) || is_model_given && goes_with_model(flag))) {
        if let Some((name, value)) = from_environment(flag, &variable)? {
            apply(settings, flag, &value, &name)?;
        }
    }
    Ok(())
}

/// A flag as it was written.
struct Given {
    flag: &'static Flag,
    written: String,
    value: String,
}

fn split(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<Given>, UsageError> {
    let mut arguments = arguments.into_iter().peekable();
    let mut all = Vec::new();
    while let Some(argument) = arguments.next() {
        let argument = text(&argument, "an argument")?;
        let (written, attached) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        let written = if written.starts_with("--") { written.replace('_', "-") } else { written.to_owned() };
        let Some((flag, on)) = find(&written) else { return Err(unknown(&written)) };
        if matches!(flag.effect, Effect::Foreign) {
            return Err(foreign(&written));
        }
        let mut next = |what: &str| match arguments.next() {
            Some(value) => text(&value, &written),
            None => Err(UsageError(format!("error: {written} needs a value: {what}"))),
        };
        let value = match (flag.takes, attached) {
            (Takes::Nothing, None) => if on { "on" } else { "off" }.to_owned(),
            (Takes::Nothing, Some(_)) => return Err(UsageError(format!("error: {written} takes no value"))),
            (Takes::Value(_) | Takes::When, Some(value)) => value,
            (Takes::Value(what), None) => next(what)?,
            (Takes::When, None) => {
                let is_value =
                    |value: &OsString| value.to_str().is_some_and(|text| !text.starts_with("-") || text == "-1");
                match arguments.next_if(is_value) {
                    Some(value) => text(&value, &written)?,
                    None => "on".to_owned(),
                }
            }
            (Takes::Two(first, second), attached) => {
                let first = attached.map_or_else(|| next(first), Ok)?;
                format!("{first} {}", next(second)?)
            }
        };
        all.push(Given { flag, written, value });
    }
    Ok(all)
}

/// The variable that speaks for a flag, and the value it gives.
fn from_environment(
    flag: &Flag,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<(String, String)>, UsageError> {
    if let Some(name) = flag.off_env()
        && variable(&name).is_some()
    {
        return Ok(Some((name, "off".to_owned())));
    }
    let Some(name) = flag.env.filter(|_| !flag.env_is_read_elsewhere) else { return Ok(None) };
    // Compose files and CI set variables to nothing when they mean that there are none. Not so for keys: one that came out
    // empty must not open the server.
    let guards = ["--api-key", "--api-key-file"].contains(&flag.name());
    let Some(value) = variable(name).filter(|value| guards || !value.is_empty()) else { return Ok(None) };
    Ok(Some((name.to_owned(), text(&value, name)?)))
}

/// Does what a flag says. `written` is what the person wrote, flag or variable.
pub(crate) fn apply(settings: &mut Settings, flag: &Flag, value: &str, written: &str) -> Result<(), UsageError> {
    let refused = |problem| match problem {
        // Keys and tokens are secret, and the query of a URL may be a signature.
        Problem::Value(expected)
            if ["--api-key", "--hf-token", "--model-url", "--mmproj-url"].contains(&flag.name()) =>
        {
            UsageError(format!("error: {written}: {expected}"))
        }
        Problem::Value(expected) => UsageError(format!("error: {written} {}: {expected}", shown(value))),
        Problem::Unavailable => UsageError(match flag.takes {
            Takes::Nothing => format!("error: {written} is not available in this version"),
            _ => format!("error: {written} {} is not available in this version", shown(value)),
        }),
    };
    match flag.effect {
        Effect::Set(set) => set(settings, value).map_err(refused)?,
        Effect::Later(check) => {
            if check(value).map_err(refused)? {
                remember(&mut settings.without_effect, written);
            }
        }
        Effect::Ignored => remember(&mut settings.ignored, written),
        Effect::Unavailable => return Err(refused(Problem::Unavailable)),
        Effect::Foreign => return Err(foreign(written)),
    }
    Ok(())
}

fn remember(list: &mut Vec<String>, written: &str) {
    if !list.iter().any(|known| known == written) {
        list.push(written.to_owned());
    }
}

fn text(argument: &OsStr, what: &str) -> Result<String, UsageError> {
    argument.to_str().map(str::to_owned).ok_or_else(|| UsageError(format!("error: {what}: {argument:?} is not UTF-8")))
}

/// A value of a person's in a line of ours.
fn shown(value: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = value.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if value.chars().count() > LONGEST {
        short.push('…');
    }
    format!("{short:?}")
}

fn foreign(written: &str) -> UsageError {
    UsageError(format!(
        "error: invalid argument: {written}\nllama-server has it; clef-server cannot do what it asks for, and will not \
         answer as if it had"
    ))
}

fn unknown(written: &str) -> UsageError {
    let near = flags()
        .filter(|flag| !flag.hidden || matches!(flag.effect, Effect::Ignored))
        .flat_map(Flag::spellings)
        .map(|(name, _)| (strsim::damerau_levenshtein(written, name), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= (name.len() / 4).max(1));
    let hint = match near {
        Some((_, name)) => format!("did you mean {name}?"),
        None => "clef-server --help lists all flags".to_owned(),
    };
    UsageError(format!("error: invalid argument: {}\n{hint}", written.replace(char::is_control, " ")))
}
