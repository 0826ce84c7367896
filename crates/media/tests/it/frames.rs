//! Frames: stretching and naming.

use clef_media::{ErrorKind, Frame, ImageFit};
use image::ImageFormat;

use crate::support::{decode, encoded, photo, size};

fn frame(width: u32, height: u32) -> Frame {
    Frame::from_rgb(size(width, height), photo(width, height).into_raw()).unwrap()
}

#[test]
fn elongated_and_tiny_pictures_are_stretched_to_their_target() {
    for (given, target) in [
        (size(1, 1), size(256, 256)),
        (size(27, 257), size(96, 800)),
        (size(200, 1), size(3_648, 32)),
        (size(1, 200), size(32, 3_648)),
    ] {
        let bytes = encoded(&photo(given.width, given.height), ImageFormat::Png);
        let picture = decode(&bytes).unwrap();
        assert_eq!(ImageFit::default().target(picture.size()).unwrap(), target);
        let stretched = picture.resized(target).unwrap();
        assert_eq!(stretched.size(), target);
        assert_eq!(stretched.rgb().len() as u64, target.pixels() * 3);
    }
}

#[test]
fn one_color_stays_that_color_at_every_size() {
    for color in [[0, 0, 0], [255, 255, 255], [1, 128, 254]] {
        let pixels = size(37, 11);
        let frame = Frame::from_rgb(pixels, color.repeat(pixels.pixels() as usize)).unwrap();
        for target in [size(256, 256), size(1, 1), size(32, 3_000), size(37, 11), size(5, 64)] {
            let stretched = frame.clone().resized(target).unwrap();
            assert!(stretched.rgb().chunks_exact(3).all(|pixel| pixel == color), "{color:?} at {target}");
        }
    }
}

#[test]
fn digests_name_pixels_and_size() {
    let frame = frame(40, 30);
    let name = frame.digest();
    assert_eq!(name, frame.clone().digest());
    // In every run and on every machine: caches on disk may hold it.
    assert_eq!(name.to_string(), "d4a6d6287d661afc6738e8aee36a38c453bc0ca8de148bb76fea59ed2841e628");
    let mut other = frame.clone().into_rgb();
    other[1_799] ^= 1;
    assert_ne!(name, Frame::from_rgb(frame.size(), other).unwrap().digest());
    let turned = Frame::from_rgb(size(30, 40), frame.into_rgb()).unwrap();
    assert_ne!(name, turned.digest(), "the same bytes in another shape");
}

#[test]
fn a_frame_has_three_bytes_for_each_pixel() {
    for (given, bytes) in [(size(2, 2), 11), (size(2, 2), 13), (size(0, 2), 0), (size(u32::MAX, u32::MAX), 0)] {
        let error = Frame::from_rgb(given, vec![0; bytes]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(frame(2, 2).resized(size(0, 2)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
