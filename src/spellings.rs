//! llama.cpp's spellings of flags, turned into ones that clap knows.
//!
//! llama.cpp writes short flags of several letters with one dash (`-ngl 99`), which clap would read as three flags, and
//! takes `_` for `-` in long ones. Scripts use both.

use std::ffi::OsString;

/// Short flags of more than one letter, and what they stand for.
const SHORT: [(&str, &str); 13] = [
    ("-ngl", "--gpu-layers"),
    ("-ub", "--ubatch-size"),
    ("-tb", "--threads-batch"),
    ("-fa", "--flash-attn"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-nr", "--no-repack"),
    ("-to", "--timeout"),
    ("-np", "--parallel"),
    ("-mm", "--mmproj"),
    ("-lv", "--verbosity"),
    ("-dev", "--device"),
    ("-cram", "--cache-ram"),
];

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
    let flag = if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == flag) {
        (*long).to_owned()
    } else if flag.starts_with("--") && flag.contains('_') {
        flag.replace('_', "-")
    } else {
        return None;
    };
    Some(value.map_or_else(|| flag.clone(), |value| format!("{flag}={value}")))
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
        check(&["clef", "-ngl", "99", "-m", "x.gguf", "-ctk=f32"], &["clef", "--gpu-layers", "99", "-m", "x.gguf", "--cache-type-k=f32"]);
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
