//! Files that ask for too much, are no pictures, or are not whole.

use std::time::{Duration, Instant};

use clef_media::{Error, ErrorKind, ImageFit, Limits, Picture};
use image::ImageFormat;

use crate::corruption;
use crate::support::{decode, encoded, fixture, photo, refusal, size};

/// A header that declares a size, as short as a file of that format can be.
fn declared(format: ImageFormat, width: u32, height: u32) -> Vec<u8> {
    let half = |side: u32| side as u16;
    match format {
        ImageFormat::Png => {
            let mut bytes = encoded(&photo(1, 1), format);
            bytes[16..20].copy_from_slice(&width.to_be_bytes());
            bytes[20..24].copy_from_slice(&height.to_be_bytes());
            corruption::repair_png(&mut bytes);
            bytes
        }
        ImageFormat::Jpeg => {
            let mut bytes = encoded(&photo(1, 1), format);
            let frame = bytes.windows(2).position(|window| window == [0xff, 0xc0]).unwrap();
            bytes[frame + 5..frame + 7].copy_from_slice(&half(height).to_be_bytes());
            bytes[frame + 7..frame + 9].copy_from_slice(&half(width).to_be_bytes());
            bytes
        }
        ImageFormat::Gif => {
            let mut bytes = encoded(&photo(1, 1), format);
            bytes[6..8].copy_from_slice(&half(width).to_le_bytes());
            bytes[8..10].copy_from_slice(&half(height).to_le_bytes());
            bytes
        }
        ImageFormat::WebP => {
            let mut bytes = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
            bytes.extend_from_slice(&(width - 1).to_le_bytes()[..3]);
            bytes.extend_from_slice(&(height - 1).to_le_bytes()[..3]);
            bytes
        }
        _ => {
            let mut bytes = encoded(&photo(1, 1), format);
            bytes[18..22].copy_from_slice(&width.to_le_bytes());
            bytes[22..26].copy_from_slice(&height.to_le_bytes());
            bytes
        }
    }
}

const FORMATS: [ImageFormat; 5] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP, ImageFormat::Bmp];

#[test]
fn a_header_of_4_thousand_million_pixels_is_refused_at_once() {
    for format in FORMATS {
        let bytes = declared(format, 64_250, 64_250);
        assert!(bytes.len() < 2_000, "{format:?} has {} bytes", bytes.len());
        // The best of a few: a busy machine is not what is measured.
        let time = || {
            let start = Instant::now();
            refusal(&bytes);
            start.elapsed()
        };
        let fastest = (0..5).map(|_| time()).min().unwrap();
        assert!(fastest < Duration::from_millis(50), "{format:?} took {fastest:?}");
        let error = refusal(&bytes);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{format:?}: {error}");
        let message = "picture is 64,250x64,250, that is 4,128,062,500 pixels, the limit is 16,777,216";
        assert_eq!(error.message(), message, "{format:?}");
    }
}

#[test]
fn a_picture_may_have_as_many_pixels_as_the_limit_and_not_one_more() {
    let bytes = encoded(&photo(40, 30), ImageFormat::Png);
    let limits = |max_pixels| Limits { max_pixels, ..Limits::default() };
    assert!(Picture::open(&bytes, &limits(1_200)).is_ok());
    assert_eq!(Picture::open(&bytes, &limits(1_199)).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(
        Picture::open(&declared(ImageFormat::Png, 8_192, 8_192), &Limits::default()).unwrap_err().kind(),
        ErrorKind::TooLarge
    );
}

#[test]
fn a_size_without_pixels_is_damage() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
        let error = refusal(&declared(format, 0, 5));
        assert_eq!(error.kind(), ErrorKind::Damaged, "{format:?}: {error}");
    }
}

#[test]
fn a_wide_picture_of_16_megapixels_goes_all_the_way() {
    let picture = photo(16_000, 1_000);
    let bytes = encoded(&picture, ImageFormat::Jpeg);
    let frame = decode(&bytes).unwrap();
    let target = ImageFit::default().target(frame.size()).unwrap();
    assert_eq!(target, size(16_000, 992));
    assert_eq!(frame.resized(target).unwrap().size(), target);
}

#[test]
fn one_color_packs_as_well_as_it_likes_up_to_a_size() {
    let limits = Limits { any_ratio_pixels: 10_000, max_compression_ratio: 20, ..Limits::default() };
    let flat = |width, height| encoded(&image::RgbImage::new(width, height), ImageFormat::Png);
    let small = flat(100, 100);
    assert!(small.len() * 20 < 30_000, "{} bytes", small.len());
    assert!(Picture::open(&small, &limits).unwrap().decode().is_ok());
    let large = flat(400, 300);
    let error = Picture::open(&large, &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let (start, end) = ("picture of 400x300 is packed into ", ":1; the limit above 10,000 pixels is 20:1");
    assert!(error.message().starts_with(start) && error.message().ends_with(end), "{error}");
    assert!(Picture::open(&encoded(&photo(400, 300), ImageFormat::Jpeg), &limits).is_ok(), "a photo");
    assert!(Picture::open(&large, &Limits::default()).is_ok());
}

#[test]
fn small_canvases_hide_no_large_pictures() {
    // The picture inside says 16,383 x 16,383, the canvas 1 x 1.
    let mut webp = b"RIFF\x2a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0VP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a".to_vec();
    webp.extend_from_slice(&[0xff, 0x3f, 0xff, 0x3f, 0, 0, 0, 0, 0, 0]);
    let length = webp.len() as u32 - 8;
    webp[4..8].copy_from_slice(&length.to_le_bytes());
    let error = refusal(&webp);
    assert_eq!(error.message(), "WebP has a picture of 16,383x16,383 where 1x1 is declared");
    // The first frame says 65,535 x 65,535.
    let mut gif = encoded(&photo(1, 1), ImageFormat::Gif);
    let frame = gif.iter().rposition(|&byte| byte == 0x2c).unwrap();
    gif[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    let error = refusal(&gif);
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
}

#[test]
fn other_formats_are_refused_by_name() {
    let cases: [(&[u8], &str); 22] = [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "a HEIC"),
        (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1", "an AVIF"),
        (b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2", "an MP4 or QuickTime video"),
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "an SVG drawing"),
        (b"\xef\xbb\xbf\n <?xml version=\"1.0\"?><!-- x --><SVG/>", "an SVG drawing"),
        (b"<!DOCTYPE html><html>", "an HTML page"),
        (b"<?xml version=\"1.0\"?><a/>", "an XML document"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"II*\0\x08\0\0\0", "a TIFF"),
        (b"MM\0*\0\0\0\x08", "a TIFF"),
        (b"\0\0\x01\0\x01\0", "an icon (ICO)"),
        (b"\xff\x0a\x3b\x01", "a JPEG XL"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000"),
        (b"8BPS\0\x01", "a Photoshop document"),
        (b"\x1a\x45\xdf\xa3", "a Matroska or WebM video"),
        (b"RIFF\x10\0\0\0AVI LIST", "an AVI video"),
        (b"PK\x03\x04", "a ZIP archive or an office document"),
        (b"P6\n1 1\n255\n", "a Netpbm picture"),
        (b"", "has no bytes"),
        (b"BM, a letter about bitmaps", "starts with the bytes 42 4d 2c 20 61 20 6c 65"),
        (b"\x01\x02", "starts with the bytes 01 02"),
    ];
    for (bytes, name) in cases {
        let error = refusal(bytes);
        assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
        assert!(error.message().contains(name), "{error}");
        assert!(error.message().ends_with("; PNG, JPEG, WebP, GIF and BMP are read"), "{error}");
    }
}

#[test]
fn files_that_are_cut_off_are_refused_wherever_they_are_cut() {
    let names = [
        "420.jpg",
        "progressive.jpg",
        "restarts.jpg",
        "gray.jpg",
        "cmyk.jpg",
        "rgb.png",
        "interlaced.png",
        "palette.png",
        "lossy.webp",
        "lossless.webp",
        "alpha-lossy.webp",
        "palette.gif",
        "rgb.bmp",
        "palette.bmp",
    ];
    for name in names {
        let bytes = fixture(name);
        // What stands behind the pixels may be missing: PNG's last chunk and checksum, GIF's trailer.
        let slack = match name.rsplit('.').next() {
            Some("png") => 20,
            Some("gif") => 2,
            Some("bmp") => 3,
            _ => 1,
        };
        for length in (0..=bytes.len() - slack).step_by(7).chain([bytes.len() - slack]) {
            let error = decode(&bytes[..length]).map(|_| length).expect_err(name);
            let kinds = [ErrorKind::Damaged, ErrorKind::UnsupportedFormat];
            assert!(kinds.contains(&error.kind()), "{name} cut at {length}: {error}");
        }
        assert!(decode(&bytes).is_ok(), "{name}");
        assert!(decode(&[&bytes[..], b"something behind the end"].concat()).is_ok(), "{name}");
    }
}

#[test]
fn random_corruption_gives_an_error_or_a_picture() {
    let seed = corruption::fresh_seed();
    eprintln!("seed {seed}");
    let report = corruption::run(seed, 600);
    eprintln!("{report}");
    assert_eq!(report.panics, Vec::<String>::new(), "seed {seed}");
    assert!(report.pictures > 0 && report.errors > 0, "{report}");
}

#[test]
fn errors_can_be_sent_to_another_thread_and_have_sources() {
    fn check<T: Send + Sync + std::error::Error + 'static>(_: &T) {}
    let bytes = fixture("rgb.png");
    let error: Error = refusal(&bytes[..bytes.len() / 2]);
    check(&error);
    assert!(std::error::Error::source(&error).is_some(), "{error:?}");
}
