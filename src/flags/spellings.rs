//! llama.cpp's spellings of flags, turned into ones that clap knows.
//!
//! llama.cpp writes short flags of several letters with one dash (`-ngl 99`), which clap would read as three flags, and
//! takes `_` for `-` in long ones. Scripts use both. `clef`, whose command line clap reads, is given its arguments
//! through here.

use std::ffi::OsString;

use crate::flags::{find, model_flags};

/// The arguments with every flag in the one spelling that the command line is declared with. What follows `--` stays.
pub fn normalized(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut flags_end = false;
    arguments
        .into_iter()
        .map(|argument| {
            flags_end |= argument == "--";
            match argument.to_str() {
                Some(text) if !flags_end => normalized_one(text).map_or(argument, OsString::from),
                _ => argument,
            }
        })
        .collect()
}

fn normalized_one(argument: &str) -> Option<String> {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value)),
        None => (argument, None),
    };
    let flag =
        if flag.starts_with("--") && flag.contains('_') { flag.replace('_', "-") } else { long(flag)?.to_owned() };
    Some(value.map_or_else(|| flag.clone(), |value| format!("{flag}={value}")))
}

/// The long spelling of a short flag of several letters.
fn long(flag: &str) -> Option<&'static str> {
    if flag.len() < 3 || flag.starts_with("--") {
        return None;
    }
    let (known, on) = find(flag)?;
    let is_shared = model_flags().any(|shared| shared.name() == known.name());
    let long = if on { known.names } else { known.off }.iter().find(|name| name.starts_with("--"));
    long.copied().filter(|_| is_shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: &[&str]) {
        let given = normalized(given.iter().map(OsString::from));
        assert_eq!(given, expected.iter().map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn short_flags_of_several_letters_become_long_ones() {
        check(
            &["clef", "-ngl", "99", "-m", "x.gguf", "-ctk=f32"],
            &["clef", "--gpu-layers", "99", "-m", "x.gguf", "--cache-type-k=f32"],
        );
    }

    #[test]
    fn underscores_in_long_flags_become_dashes_and_values_stay() {
        check(&["--ctx_size=4", "--alias", "a_b", "--alias=a_b"], &["--ctx-size=4", "--alias", "a_b", "--alias=a_b"]);
    }

    #[test]
    fn nothing_changes_after_the_end_of_flags() {
        check(&["--", "-ngl", "--a_b"], &["--", "-ngl", "--a_b"]);
    }
}
