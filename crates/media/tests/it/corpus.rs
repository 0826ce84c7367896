//! What fuzzing found worth keeping, read again: `fuzz/corpus`, see `fuzz/README.md`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::reading;

#[test]
fn every_file_of_the_corpus_is_an_error_or_a_picture_in_bounded_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/picture");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut pictures, mut animations, mut refused) = (0, 0, 0);
    let mut slowest = (Duration::ZERO, String::new());
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The last name is the file that a panic is about.
        eprintln!("{name}");
        let start = Instant::now();
        let outcome = reading::read(&bytes);
        slowest = slowest.max((start.elapsed(), name));
        pictures += usize::from(outcome.is_picture);
        animations += usize::from(outcome.frames > 0);
        refused += usize::from(!outcome.is_picture && outcome.frames == 0);
    }
    eprintln!("{} files: {pictures} pictures, {animations} animations, {refused} refused; {slowest:?}", paths.len());
    assert!(pictures > 50 && animations > 0 && refused > 50, "{pictures}, {animations}, {refused}");
    // Milliseconds, even without optimization; a busy machine is not what is measured.
    assert!(slowest.0 < Duration::from_secs(10), "{slowest:?}");
}
