//! Texts that should be data URLs.

use clef_media::{ErrorKind, decode_data_url};

#[test]
fn the_media_type_may_be_anything_or_nothing() {
    for text in [
        "data:image/png;base64,AAEC/w==",
        "data:;base64,AAEC/w==",
        "data:base64,AAEC/w==",
        "DATA:Image/PNG;BASE64,AAEC/w==",
        "data:image/webp;charset=utf-8;name=\"a b.png\";base64,AAEC/w==",
        "data:text/plain;base64,AAEC/w==",
        "  data:image/png;base64,AAEC/w==\n",
        "data:image/png;base64, AAEC/w==",
    ] {
        assert_eq!(decode_data_url(text).unwrap(), [0, 1, 2, 255], "{text}");
    }
}

#[test]
fn base64_may_be_of_either_alphabet_unpadded_and_in_lines() {
    for text in ["AAEC/w==", "AAEC/w", "AAEC_w==", "AAEC_w", "AAEC\n/w==", "AA\r\nEC\r\n/w=\r\n=", "AAEC/x=="] {
        assert_eq!(decode_data_url(&format!("data:image/png;base64,{text}")).unwrap(), [0, 1, 2, 255], "{text}");
    }
}

#[test]
fn what_is_no_data_url_is_told_apart() {
    let base64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    for (text, kind, part) in [
        ("https://example.com/a.png", ErrorKind::RemoteUrl, "\"https:\" URL and nothing is fetched"),
        ("HTTP://example.com/a.png", ErrorKind::RemoteUrl, "\"http:\" URL"),
        ("file:///etc/passwd", ErrorKind::RemoteUrl, "\"file:\" URL"),
        (base64, ErrorKind::BareBase64, "base64 without \"data:image/png;base64,\""),
        ("", ErrorKind::NotADataUrl, "an empty text"),
        ("   ", ErrorKind::NotADataUrl, "an empty text"),
        ("a picture of a cat", ErrorKind::NotADataUrl, "some other text"),
        ("iVBORw0KGgo=", ErrorKind::NotADataUrl, "some other text"),
        ("data:image/png;base64", ErrorKind::NotADataUrl, "no comma"),
        ("data:image/svg+xml,%3Csvg/%3E", ErrorKind::NotADataUrl, "not marked as base64"),
        ("data:,", ErrorKind::NotADataUrl, "not marked as base64"),
        ("data:image/png;base64,", ErrorKind::InvalidBase64, "holds no data"),
        ("data:image/png;base64,AA*A", ErrorKind::InvalidBase64, "does not decode"),
        ("data:image/png;base64,A", ErrorKind::InvalidBase64, "does not decode"),
        ("data:image/png;base64,A+_A", ErrorKind::InvalidBase64, "does not decode"),
    ] {
        let error = decode_data_url(text).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn messages_repeat_nothing_of_the_text() {
    for text in [format!("data:{}", "x".repeat(9_000)), format!("https://{}", "y".repeat(9_000)), "z ".repeat(9_000)] {
        let error = decode_data_url(&text).unwrap_err();
        assert!(error.message().len() < 300, "{error}");
    }
}
