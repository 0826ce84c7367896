//! Numbers as Python prints them.
//!
//! An integer keeps its digits whatever its size. A float is read to the nearest double (Rust's parser rounds
//! correctly) and printed with the fewest digits that read back. The two languages differ in where the exponent starts, and in
//! which of two equally near texts they take.

/// The longest text `repr` gives a float, in bytes: `-2.2250738585072014e-308`.
pub(crate) const MAX_FLOAT_BYTES: usize = 24;

/// A float's text of up to this many bytes and without an exponent never prints longer than it is.
pub(crate) const NEVER_LONGER_BYTES: usize = 16;

/// Prints the number of a scanned text as `json.dumps` does.
pub(crate) fn write_number(text: &str, out: &mut Vec<u8>) {
    let is_float = text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    if !is_float {
        let printed = if text == "-0" { "0" } else { text };
        out.extend_from_slice(printed.as_bytes());
    } else if let Ok(value) = text.parse() {
        out.extend_from_slice(repr(value).as_bytes());
    }
}

/// CPython's `float.__repr__`, with `json`'s names for infinities.
fn repr(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = shortest(value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let leading_zeros = usize::try_from(-exponent).unwrap_or(0);
    let whole = usize::try_from(exponent).map_or(1, |exponent| exponent + 1);
    let digits = "0".repeat(leading_zeros) + &mantissa.replace('.', "");
    let digits = format!("{digits:0<width$}", width = whole + 1);
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

/// The fewest digits that read back as `value`, in scientific form; of several, the nearest; of two as near, the even one.
///
/// Rust's own shortest form settles that last case upwards (`140877619171601.63` for the double that ends in .625), and
/// its exact form of as many digits settles it as Python does. That one alone would not do: just above a power of two
/// the nearest number of so many digits may read back as another double.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let nearest = format!("{value:.*e}", digits.saturating_sub(1));
    if nearest.parse() == Ok(value) { nearest } else { shortest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_does() {
        let cases = [
            ("1.25e2", "125.0"),
            ("1250.0", "1250.0"),
            ("1250.50", "1250.5"),
            ("1e15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("1e22", "1e+22"),
            ("1.5E+300", "1.5e+300"),
            ("5e-324", "5e-324"),
            ("1e-400", "0.0"),
            ("-0.0", "-0.0"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1E400", "Infinity"),
            ("-1e400", "-Infinity"),
            ("0.1", "0.1"),
            ("-123.456", "-123.456"),
            ("0.00012", "0.00012"),
            ("140877619171601.625", "140877619171601.62"),
            ("140877619171601.875", "140877619171601.88"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("-2.2250738585072014e-308", "-2.2250738585072014e-308"),
        ];
        for (text, expected) in cases {
            let mut out = Vec::new();
            write_number(text, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{text}");
        }
    }

    #[test]
    fn integers_keep_their_digits() {
        for (text, expected) in
            [("-0", "0"), ("1250", "1250"), ("123456789012345678901234567890", "123456789012345678901234567890")]
        {
            let mut out = Vec::new();
            write_number(text, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
