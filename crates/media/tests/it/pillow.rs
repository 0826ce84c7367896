//! Pixels against Pillow 13, which the reference's loader stands on. `fixtures/make_fixtures.py` made both sides.

use clef_media::{ErrorKind, Frame};

use crate::support::{decode, difference, fixture, refusal};

/// Pillow's pixels for a file, which are kept as a plain PNG.
fn expected(name: &str) -> Frame {
    decode(&fixture(&format!("{name}.expected.png"))).unwrap()
}

/// Asserts levels apart: at most, and on average.
#[track_caller]
fn assert_like_pillow(name: &str, largest: u8, mean: f64) {
    let (ours, theirs) = (decode(&fixture(name)).unwrap(), expected(name));
    assert_eq!(ours.size(), theirs.size(), "{name}");
    let found = difference(ours.rgb(), theirs.rgb());
    eprintln!("{name}: at most {} levels, {:.4} on average", found.0, found.1);
    assert!(found.0 <= largest && found.1 <= mean, "{name}: {found:?}, allowed {largest} and {mean}");
}

#[test]
fn lossless_formats_are_decoded_to_the_pixel() {
    let names = [
        "rgb.png",
        "rgba.png",
        "gray.png",
        "gray-alpha.png",
        "gray-2-bit.png",
        "gray-4-bit.png",
        "1-bit.png",
        "palette.png",
        "palette-4-bit.png",
        "palette-one-transparent.png",
        "palette-transparent.png",
        "rgb-one-transparent.png",
        "gray-one-transparent.png",
        "rgb-16-bit.png",
        "rgba-16-bit.png",
        "gray-alpha-16-bit.png",
        "interlaced.png",
        "lossless.webp",
        "alpha-lossless.webp",
        "rgb.bmp",
        "gray.bmp",
        "1-bit.bmp",
        "palette.bmp",
        "32-bit.bmp",
        "palette.gif",
        "transparent.gif",
    ];
    for name in names {
        assert_like_pillow(name, 0, 0.0);
    }
}

#[test]
fn lossy_webp_is_decoded_to_the_pixel() {
    assert_like_pillow("lossy.webp", 0, 0.0);
    assert_like_pillow("alpha-lossy.webp", 0, 0.0);
}

#[test]
fn jpeg_differs_by_rounding_and_by_how_color_is_interpolated() {
    for name in ["444.jpg", "gray.jpg", "gray-progressive.jpg", "rgb.jpg"] {
        assert_like_pillow(name, 3, 0.03);
    }
    assert_like_pillow("422.jpg", 4, 0.25);
    for name in ["420.jpg", "420-quality-20.jpg", "progressive.jpg", "restarts.jpg"] {
        assert_like_pillow(name, 5, 0.5);
    }
}

#[test]
fn cmyk_is_neither_inverted_nor_dropped() {
    for name in ["cmyk.jpg", "cmyk-unmarked.jpg", "ycck.jpg"] {
        assert_like_pillow(name, 2, 0.05);
    }
}

#[test]
fn pictures_are_turned_as_exif_says() {
    for orientation in 0..10 {
        assert_like_pillow(&format!("orientation-{orientation}.png"), 0, 0.0);
        assert_like_pillow(&format!("orientation-{orientation}.webp"), 0, 0.0);
        assert_like_pillow(&format!("orientation-{orientation}.jpg"), 3, 0.05);
    }
}

#[test]
fn an_animation_as_a_picture_is_its_first_frame() {
    for name in ["disposal-0.gif", "disposal-1.gif", "disposal-2.gif", "disposal-3.gif", "moving.webp", "opaque.webp"] {
        let (ours, theirs) = (decode(&fixture(name)).unwrap(), expected(&format!("{name}.0")));
        assert_eq!(difference(ours.rgb(), theirs.rgb()), (0, 0.0), "{name}");
    }
}

#[test]
fn gray_of_16_bits_is_refused_because_the_reference_makes_it_white() {
    let error = refusal(&fixture("gray-16-bit.png"));
    assert_eq!(error.kind(), ErrorKind::UnsupportedVariety);
    assert!(error.message().starts_with("PNG is 16-bit gray"), "{error}");
}
