//! Bytes of tokens to characters: a token may end within one.

/// The bytes of a character that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    held: Vec<u8>,
}

impl Characters {
    /// The characters that are complete with these bytes. What can never become one reads U+FFFD.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, tail) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            let Some(length) = error.error_len() else {
                self.held = tail.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &tail[length..];
        }
        text.push_str(&String::from_utf8_lossy(rest));
        self.held.clear();
        text
    }

    /// What is left at the end.
    pub(crate) fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_when_they_are_complete() {
        let text = "naïve 🎉 文字\n";
        for size in 1..8 {
            let mut characters = Characters::default();
            let pieces: Vec<String> = text.as_bytes().chunks(size).map(|bytes| characters.push(bytes)).collect();
            assert_eq!(pieces.concat(), text);
            assert_eq!(characters.finish(), "");
        }
    }

    #[test]
    fn bytes_that_become_no_character_are_replaced_once_that_is_known() {
        let mut characters = Characters::default();
        assert_eq!(characters.push(b"a\xf0\x9f"), "a");
        assert_eq!(characters.push(b"b\xff\xe6"), "\u{fffd}b\u{fffd}");
        assert_eq!(characters.finish(), "\u{fffd}");
    }
}
