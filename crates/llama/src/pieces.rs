//! What tokens stand for, as bytes.
//!
//! Byte-level vocabularies of the GPT-2 kind are written with one printable character for each byte: itself where the
//! byte is one, else the next free one from U+0100 on. Turning that back needs no foreign code.

/// The bytes of all tokens of a vocabulary, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<usize>,
}

impl Pieces {
    /// The next token, by its bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The next token, by how a byte-level vocabulary writes it.
    pub(crate) fn push_encoded(&mut self, token: &[u8]) {
        for chunk in token.utf8_chunks() {
            for character in chunk.valid().chars() {
                match byte_of(character) {
                    Some(byte) => self.bytes.push(byte),
                    // No character of the alphabet; such a token never comes from text.
                    None => self.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            self.bytes.extend_from_slice(chunk.invalid());
        }
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }
}

/// The byte that a character stands for.
fn byte_of(character: char) -> Option<u8> {
    match character as u32 {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => Some(code as u8),
        // The 33 bytes before the first printable one, then those between the two other ranges, then the last one.
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut seen = [false; 256];
        for character in (0..0x200).filter_map(char::from_u32) {
            if let Some(byte) = byte_of(character) {
                assert!(!std::mem::replace(&mut seen[usize::from(byte)], true), "{byte} twice");
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
    }

    #[test]
    fn pieces_are_found_by_index() {
        let mut pieces = Pieces::default();
        pieces.push_encoded("Ġa".as_bytes());
        pieces.push(b"");
        pieces.push("<ü>".as_bytes());
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.get(0), Some(&b" a"[..]));
        assert_eq!(pieces.get(1), Some(&b""[..]));
        assert_eq!(pieces.get(2), Some("<ü>".as_bytes()));
        assert_eq!(pieces.get(3), None);
    }
}
