//! Reading values of flags.

use std::ops::RangeInclusive;

use super::flag::Problem;

/// Stores a value unless it is wrong.
pub(super) fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), Problem> {
    *place = value?;
    Ok(())
}

pub(super) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "enabled" | "true" | "1" => Ok(true),
        "off" | "disabled" | "false" | "0" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

pub(super) fn integer(text: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    let (least, most) = (*range.start(), *range.end());
    match text.trim().parse::<i64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ if most == i64::MAX => Err(format!("expected a whole number from {least} on")),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

/// A whole number that fits 32 bits.
pub(super) fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = integer(text, i64::from(*range.start())..=i64::from(*range.end()))?;
    Ok(u32::try_from(number).expect("the range has only such numbers"))
}

/// Bytes, with K, M or G for their powers of 1,024.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let size = digits.parse::<usize>().ok().and_then(|size| size.checked_mul(1 << shift));
    size.filter(|&size| size > 0).ok_or_else(|| "expected a number of bytes, as 1048576, 512K, 100M or 1G".to_owned())
}

pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        assert_eq!(bytes("512K"), Ok(512 << 10));
        assert_eq!(bytes("100m"), Ok(100 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for wrong in ["", "0", "M", "-1", "1.5G", "1T", "99999999999999999999", "99999999999G", "é"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_name_their_limits() {
        assert_eq!(number("8080", 0..=65_535), Ok(8080));
        assert_eq!(number("65536", 0..=65_535), Err("expected a whole number from 0 to 65535".to_owned()));
        assert_eq!(integer("x", 1..=i64::MAX), Err("expected a whole number from 1 on".to_owned()));
    }
}
