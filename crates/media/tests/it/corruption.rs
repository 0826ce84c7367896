//! Valid files, damaged at random.
//!
//! Kept apart from the tests so that the example `corrupt` runs the same damage as often as one likes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use clef_media::{Animation, Limits, Picture, Size};

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Files that were read in spite of the damage.
    pub(crate) pictures: usize,
    /// Files that were refused.
    pub(crate) errors: usize,
    /// File, number and message of each panic.
    pub(crate) panics: Vec<String>,
    /// The longest that one file took, and which.
    pub(crate) slowest: (Duration, String),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, name) = &self.slowest;
        write!(f, "{} read, {} refused, {} panics; ", self.pictures, self.errors, self.panics.len())?;
        write!(f, "slowest {time:?} ({name})")
    }
}

/// A seed that differs from run to run.
pub(crate) fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Damages fixtures `count` times and reads each.
///
/// # Panics
/// If the fixtures cannot be read.
pub(crate) fn run(seed: u64, count: usize) -> Report {
    let files = fixtures();
    let mut report = Report::default();
    for number in 0..count {
        let mut random = Random(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (name, original) = &files[random.below(files.len())];
        let bytes = damaged(original, &mut random);
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| read(&bytes))) {
            Ok(true) => report.pictures += 1,
            Ok(false) => report.errors += 1,
            Err(_) => report.panics.push(format!("{name} number {number}")),
        }
        if start.elapsed() > report.slowest.0 {
            report.slowest = (start.elapsed(), format!("{name} number {number}"));
        }
    }
    report
}

/// Reads a file as a picture and as an animation, under limits that a small file has no reason to exceed.
fn read(bytes: &[u8]) -> bool {
    let limits = Limits { max_pixels: 1 << 20, max_animation_pixels: 1 << 22, ..Limits::default() };
    let picture = Picture::open(bytes, &limits).and_then(Picture::decode);
    let frames = Animation::open(bytes, &limits).and_then(|animation| {
        let all: Vec<usize> = (0..animation.durations().len()).collect();
        animation.frames(&all, Size::new(32, 32))
    });
    picture.is_ok() || frames.is_ok()
}

/// The files that Pillow wrote, by name.
fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "py" && extension != "tsv"))
        .filter(|path| !path.to_string_lossy().contains(".expected."))
        .map(|path| (path.file_name().expect("a file").to_string_lossy().into_owned(), path))
        .map(|(name, path)| (name, std::fs::read(path).expect("a readable fixture")))
        .collect();
    files.sort();
    assert!(files.len() > 50, "{} fixtures", files.len());
    files
}

/// A few strokes of damage; half of the PNGs get right checksums again, so that the damage is looked at.
fn damaged(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(24)).min(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            // Headers are where the lengths are.
            6 => {
                let early = random.below(bytes.len().min(64));
                bytes[early] = random.next() as u8;
            }
            _ => bytes.truncate(at),
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    if random.below(2) == 0 {
        repair_png(&mut bytes);
    }
    bytes
}

/// Gives every chunk of a PNG its right checksum; leaves anything else alone.
pub(crate) fn repair_png(bytes: &mut [u8]) {
    let mut at = 8;
    while bytes.starts_with(b"\x89PNG")
        && let Some(head) = bytes.get(at..at + 4)
    {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = at.saturating_add(8).saturating_add(length);
        if end.saturating_add(4) > bytes.len() {
            return;
        }
        let checksum = crc32(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
        at = end + 4;
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
