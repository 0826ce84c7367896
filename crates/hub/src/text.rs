//! Numbers and foreign text as messages put them.

use std::fmt;

/// How much of a text that somebody else wrote is repeated, in characters.
const MAX_FOREIGN_CHARACTERS: usize = 200;

/// How many names a message lists.
const MAX_NAMES: usize = 20;

/// Displays a count of bytes for people: `512 bytes`, `4.21 GiB`.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1 << 10 {
            return write!(f, "{} bytes", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 1024.0 && unit + 1 < UNITS.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.2} {}", UNITS[unit])
    }
}

/// Two different counts of bytes for people, in bytes where they would read alike otherwise.
pub(crate) fn distinct(one: u64, other: u64) -> (String, String) {
    let texts = (Bytes(one).to_string(), Bytes(other).to_string());
    if one != other && texts.0 == texts.1 { (format!("{one} bytes"), format!("{other} bytes")) } else { texts }
}

/// Displays a text that somebody else wrote: on one line, without control characters, cut to a few hundred.
pub(crate) struct Foreign<'a>(pub(crate) &'a str);

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, character) in self.0.chars().enumerate() {
            if index == MAX_FOREIGN_CHARACTERS {
                return f.write_str("...");
            }
            write!(f, "{}", if character.is_control() { ' ' } else { character })?;
        }
        Ok(())
    }
}

/// Displays names as `a, b, c`, or the first twenty of them.
pub(crate) struct Names<'a>(pub(crate) &'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            if index == MAX_NAMES {
                return write!(f, " and {} more", self.0.len() - index);
            }
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, Foreign(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_in_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1.00 KiB"),
            (4_521_984_000, "4.21 GiB"),
            (u64::MAX, "16.00 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn counts_that_differ_read_differently() {
        assert_eq!(distinct(40_000, 300_001), ("39.06 KiB".to_owned(), "292.97 KiB".to_owned()));
        assert_eq!(distinct(4_204_000, 4_204_001), ("4204000 bytes".to_owned(), "4204001 bytes".to_owned()));
        assert_eq!(distinct(2_048, 2_048), ("2.00 KiB".to_owned(), "2.00 KiB".to_owned()));
    }

    #[test]
    fn foreign_text_stays_on_one_line_and_short() {
        assert_eq!(Foreign("a\nb\u{1b}[31m").to_string(), "a b [31m");
        assert_eq!(Foreign(&"é".repeat(500)).to_string().chars().count(), MAX_FOREIGN_CHARACTERS + 3);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..25).map(|index| index.to_string()).collect();
        assert!(Names(&names).to_string().ends_with("18, 19 and 5 more"));
        assert_eq!(Names(&names[..2]).to_string(), "0, 1");
    }
}
