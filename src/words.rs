//! Text for terminals and logs.

use std::borrow::Cow;

/// An error and its causes as one line. Many errors name their cause already; what was said is not said again.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    plain(&line).into_owned()
}

/// Text of a file's or a client's that a terminal can be trusted with: nothing in it moves the cursor, hides text or
/// turns its direction.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| {
        c.is_control()
            || matches!(c,
                '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
                | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
    };
    if text.contains(is_obeyed) { text.replace(is_obeyed, " ").into() } else { text.into() }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        10_485_760..10_737_418_240 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_named_is_not_named_again() {
        let error = anyhow::anyhow!("no such file").context("cannot open x: no such file").context("no model");
        assert_eq!(one_line(&error), "no model: cannot open x: no such file");
    }

    #[test]
    fn nothing_that_terminals_obey_is_left() {
        assert_eq!(plain("a\u{1b}[2J\nb\u{202e}c\u{e0041}"), "a [2J b c ");
        assert_eq!(plain("naïve 🎉 text"), "naïve 🎉 text");
    }
}
