//! How client text and counts appear in messages.
//!
//! A message repeats names the client chose. They may be ten kilobytes long or full of control characters, and a
//! message must stay under two kilobytes whatever was sent, so every name passes through [`Shortened`] first.

use std::fmt;

/// The longest part of a client's name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 64;

/// Displays a client's text in at most 64 bytes and an ellipsis, control characters replaced by U+FFFD.
#[derive(Debug, Clone, Copy)]
pub struct Shortened<'a>(pub &'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = 0;
        for character in self.0.chars() {
            let character = if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
            shown += character.len_utf8();
            if shown > SHOWN_BYTES {
                return f.write_str("…");
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

/// Displays a count with a comma between thousands: `9,120`.
#[derive(Debug, Clone, Copy)]
pub struct Grouped(pub usize);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        let shown: Vec<String> = [0, 999, 1_000, 16_384, 1_234_567].map(|count| Grouped(count).to_string()).into();
        assert_eq!(shown, ["0", "999", "1,000", "16,384", "1,234,567"]);
    }

    #[test]
    fn long_names_are_cut_on_a_character_boundary() {
        let name = "é".repeat(5_000);
        let shown = Shortened(&name).to_string();
        assert_eq!(shown, format!("{}…", "é".repeat(32)));
        assert_eq!(Shortened("q1").to_string(), "q1");
        let exact = "a".repeat(64);
        assert_eq!(Shortened(&exact).to_string(), exact);
    }

    #[test]
    fn control_characters_are_not_repeated() {
        assert_eq!(Shortened("a\0b\nc\u{7f}").to_string(), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
