//! Memory, measured: what a file declares must not be what it gets.
//!
//! A test binary of its own, because the counting allocator is global; its one test runs alone.

use clef_media::{Frame, ImageFit, Limits, Picture, Result};
use image::{DynamicImage, ImageFormat, RgbImage};
use peak_alloc::PeakAlloc;

#[path = "it/corruption.rs"]
mod corruption;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MEBIBYTE: usize = 1 << 20;

/// Peak memory of some work, what is there already not counted.
fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (ALLOCATOR.peak_usage().saturating_sub(before), result)
}

fn encoded(picture: RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(picture).write_to(&mut bytes, format).expect("an encoder that works");
    bytes.into_inner()
}

/// A PNG that declares 64,250 x 64,250 pixels and holds one.
fn bomb() -> Vec<u8> {
    let mut bytes = encoded(RgbImage::new(1, 1), ImageFormat::Png);
    bytes[16..20].copy_from_slice(&64_250_u32.to_be_bytes());
    bytes[20..24].copy_from_slice(&64_250_u32.to_be_bytes());
    corruption::repair_png(&mut bytes);
    bytes
}

fn read(bytes: &[u8]) -> Result<Frame> {
    let picture = Picture::open(bytes, &Limits::default())?;
    let target = ImageFit::default().target(picture.size())?;
    picture.decode()?.resized(target)
}

#[test]
fn memory_follows_the_pixels_that_are_let_in() {
    let bytes = bomb();
    let (peak, result) = peak_of(|| read(&bytes));
    assert!(result.is_err() && peak < MEBIBYTE, "{peak} bytes for a header");

    let photo =
        RgbImage::from_fn(4_000, 3_000, |x, y| image::Rgb([((x * y) >> 8) as u8, (x + y) as u8, (x ^ y) as u8]));
    for (format, most) in [(ImageFormat::Jpeg, 6), (ImageFormat::Png, 6), (ImageFormat::Bmp, 6)] {
        let bytes = encoded(photo.clone(), format);
        let (peak, result) = peak_of(|| read(&bytes));
        let size = result.expect("a sound picture").size();
        eprintln!("12 MP {format:?}: {:.1} MiB, {size}", peak as f64 / MEBIBYTE as f64);
        // Two pictures while it is stretched, and the copy of the file that the JPEG decoder takes.
        let limit = 12_000_000 * most + bytes.len() + 8 * MEBIBYTE;
        assert!(peak <= limit, "{format:?}: {peak} bytes, {limit} allowed");
    }

    // Small files under a limit of a million pixels: damage may not make them ask for more than that explains.
    let seed = corruption::fresh_seed();
    eprintln!("seed {seed}");
    let (peak, report) = peak_of(|| corruption::run(seed, 300));
    eprintln!("{report}; {:.1} MiB", peak as f64 / MEBIBYTE as f64);
    assert!(peak < 24 * MEBIBYTE, "{peak} bytes, seed {seed}");
}
