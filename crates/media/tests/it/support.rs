//! What these tests share: fixtures, made pictures, and differences in levels.

use std::io::Cursor;
use std::path::Path;

use clef_media::{Error, Frame, Limits, Picture, Result, Size};
use image::{DynamicImage, ImageFormat, RgbImage};

/// A file of this crate's fixtures.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
}

/// A file of the project's fixtures.
pub(crate) fn shared_fixture(name: &str) -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures").join(name))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A picture decoded with the default limits.
pub(crate) fn decode(bytes: &[u8]) -> Result<Frame> {
    let picture = Picture::open(bytes, &Limits::default())?;
    let size = picture.size();
    let frame = picture.decode()?;
    assert_eq!(frame.size(), size, "a picture has the size that its header was read to have");
    Ok(frame)
}

/// Why a file is refused, by its header or later.
#[track_caller]
pub(crate) fn refusal(bytes: &[u8]) -> Error {
    let error = decode(bytes).expect_err("a refusal");
    assert!(error.message().len() <= 1_024, "{error}");
    assert!(!error.message().contains(char::is_control), "{error:?}");
    error
}

/// A picture with slopes and hash noise, so that it neither packs away to nothing nor looks the same upside down.
pub(crate) fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let noise = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)).wrapping_mul(3_266_489_917) >> 27;
        let slope = |a: u32, b: u32| ((a * 255 / width.max(1) + b * 127 / height.max(1) + noise) % 256) as u8;
        image::Rgb([slope(x, y), slope(y, x), slope(x / 2, y / 2)])
    })
}

/// A file of the given format.
pub(crate) fn encoded(picture: &RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(picture.clone()).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// The largest and the mean difference of two lists of levels.
#[track_caller]
pub(crate) fn difference(left: &[u8], right: &[u8]) -> (u8, f64) {
    assert_eq!(left.len(), right.len(), "pictures of different sizes");
    let differences = || left.iter().zip(right).map(|(&left, &right)| left.abs_diff(right));
    let sum: u64 = differences().map(u64::from).sum();
    (differences().max().unwrap_or(0), sum as f64 / left.len() as f64)
}

/// Shorthand.
pub(crate) fn size(width: u32, height: u32) -> Size {
    Size::new(width, height)
}
