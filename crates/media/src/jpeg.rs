//! Whether a JPEG has its end.
//!
//! The decoder fills what is missing with gray and says nothing. The reference's loader refuses a file that was cut
//! off, and so do we: half a form answers other questions than the whole one. A JPEG is a chain of segments that ends
//! with an end marker, and a file that was cut has none.

use crate::error::{Error, Result};

/// Checks that the chain of segments reaches an end marker. What follows that marker is not looked at.
pub(crate) fn check_complete(bytes: &[u8]) -> Result<()> {
    const END: u8 = 0xd9;
    const SCAN: u8 = 0xda;
    let cut = || Error::damaged("JPEG ends before its end marker, it is cut off");
    let mut at = 2;
    loop {
        let marker = next_marker(bytes, &mut at).ok_or_else(cut)?;
        match marker {
            END => return Ok(()),
            // Markers without a length: start, restart, and one for arithmetic coding's private use.
            0x01 | 0xd0..=0xd8 => {}
            _ => {
                let length = bytes.get(at..at + 2).map(|field| usize::from(u16::from_be_bytes([field[0], field[1]])));
                at += length.ok_or_else(cut)?.max(2);
                if marker == SCAN {
                    skip_scan(bytes, &mut at);
                }
            }
        }
    }
}

/// The next marker's code; `at` comes to stand behind it. Anything between two segments is passed over, as libjpeg
/// does.
fn next_marker(bytes: &[u8], at: &mut usize) -> Option<u8> {
    loop {
        let start = *at + bytes.get(*at..)?.iter().position(|&byte| byte == 0xff)?;
        let code = start + bytes[start..].iter().position(|&byte| byte != 0xff)?;
        *at = code + 1;
        if bytes[code] != 0 {
            return Some(bytes[code]);
        }
    }
}

/// Moves `at` from the start of compressed data to the marker behind it, or to the end of the file.
fn skip_scan(bytes: &[u8], at: &mut usize) {
    let is_stuffed_or_restart = |code: u8| code == 0 || (0xd0..=0xd7).contains(&code);
    while let Some(found) = bytes.get(*at..).and_then(|rest| rest.iter().position(|&byte| byte == 0xff)) {
        *at += found;
        match bytes.get(*at + 1) {
            Some(&code) if is_stuffed_or_restart(code) => *at += 2,
            _ => return,
        }
    }
    *at = bytes.len();
}
