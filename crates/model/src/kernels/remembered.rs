//! What was found out before, in a small file.
//!
//! Nothing depends on the file: one that is missing, damaged or not writable costs a measurement, never an error. It is
//! replaced whole, so that other processes find the old one or the new one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::{Kernels, Question};

/// The oldest make room for more.
const MOST_ENTRIES: usize = 64;
/// Far more than that many entries take.
const MOST_BYTES: u64 = 1 << 20;
/// Files of another format are not read.
const FORMAT: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    format: u32,
    /// Oldest first.
    entries: Vec<Entry>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) question: Question,
    pub(super) answer: Answer,
}

/// What was found out, and the seconds by which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) repacked: bool,
    pub(super) threads: u32,
    /// With plain and with repacked weights, if that was open.
    pub(super) layouts: Option<[f64; 2]>,
    /// With fewer and with more threads, if that was open.
    pub(super) counts: Option<[f64; 2]>,
}

impl Answer {
    pub(super) fn kernels(&self) -> Kernels {
        Kernels { repacked: self.repacked, threads: self.threads }
    }

    /// Why, in words: what settled the layout if nothing was measured, what was compared else, and where it is kept.
    pub(super) fn reasons(&self, settled: &str, kept: &str) -> String {
        let times = |slow: f64, fast: f64| format!("{:.2} x as fast as", slow / fast);
        let layouts = self.layouts.map(|[plain, repacked]| match self.repacked {
            true => format!("repacked measured {} plain", times(plain, repacked)),
            false => format!("plain measured {} repacked", times(repacked, plain)),
        });
        let counts = self.counts.map(|[fewer, more]| format!("all threads {} one per core", times(fewer, more)));
        let settled = (!settled.is_empty()).then(|| settled.to_owned());
        let compared: Vec<String> = layouts.or(settled).into_iter().chain(counts).collect();
        format!("{}; {kept}", compared.join(", "))
    }

    /// Whether it answers the question; whoever edits the file may have made a mistake.
    fn fits(&self, question: &Question) -> bool {
        question.threads.contains(&self.threads) && question.repacked.is_none_or(|repacked| repacked == self.repacked)
    }
}

/// What the file says about a question.
pub(super) fn recall(file: &Path, question: &Question) -> Option<Answer> {
    let contents =
        read(file).inspect_err(|error| tracing::debug!("{} is not used: {error}", file.display())).unwrap_or_default();
    find(&contents, question).cloned()
}

fn find<'a>(contents: &'a Contents, question: &Question) -> Option<&'a Answer> {
    let found = contents.entries.iter().find(|entry| entry.question == *question);
    found.map(|entry| &entry.answer).filter(|answer| answer.fits(question))
}

/// Adds an entry to the file. If another process was faster, its answer stays and is returned.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn remember(file: &Path, entry: Entry) -> io::Result<Answer> {
    let mut contents = read(file).unwrap_or_default();
    if let Some(answer) = find(&contents, &entry.question) {
        return Ok(answer.clone());
    }
    contents.format = FORMAT;
    contents.entries.retain(|other| other.question != entry.question);
    let answer = entry.answer.clone();
    contents.entries.push(entry);
    let surplus = contents.entries.len().saturating_sub(MOST_ENTRIES);
    contents.entries.drain(..surplus);
    replace(file, &serde_json::to_vec_pretty(&contents)?)?;
    Ok(answer)
}

fn read(file: &Path) -> io::Result<Contents> {
    let metadata = match std::fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        other => other?,
    };
    if !metadata.is_file() {
        // A pipe would wait for somebody to write to it.
        return Err(io::Error::other("it is no file"));
    }
    let mut text = Vec::new();
    File::open(file)?.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    let contents: Contents = serde_json::from_slice(&text)?;
    if contents.format != FORMAT {
        return Err(io::Error::other(format_args!("its format is {}", contents.format).to_string()));
    }
    Ok(contents)
}

fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = folder.join(format!(".kernels.{}.{number}", std::process::id()));
    let written = File::create_new(&draft).and_then(|mut file| file.write_all(text));
    let moved = written.and_then(|()| std::fs::rename(&draft, file));
    if moved.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Entry {
        let question = Question {
            machine: format!("machine {number}"),
            build: String::new(),
            matrices: String::new(),
            tokens: 256,
            repacked: None,
            threads: vec![1, 2],
        };
        let answer = Answer { repacked: number.is_multiple_of(2), threads: 2, layouts: Some([1.5, 0.1]), counts: None };
        Entry { question, answer }
    }

    #[test]
    fn the_oldest_make_room_for_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.json");
        for number in 0..MOST_ENTRIES + 3 {
            let new = entry(number);
            assert_eq!(remember(&file, new.clone()).expect("written"), new.answer);
        }
        for number in 0..MOST_ENTRIES + 3 {
            let entry = entry(number);
            assert_eq!(recall(&file, &entry.question), (number >= 3).then_some(entry.answer));
        }
        assert!(file.metadata().expect("it is there").len() < MOST_BYTES / 4);
    }

    #[test]
    fn damage_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.json");
        let sound = {
            remember(&file, entry(1)).expect("written");
            std::fs::read_to_string(&file).expect("it is there")
        };
        let too_large = " ".repeat(MOST_BYTES as usize + 1);
        let other_format = sound.replace("\"format\": 1", "\"format\": 2");
        for damaged in ["", "{", "null", "{\"format\": 1}", &sound[..sound.len() / 2], &too_large, &other_format] {
            std::fs::write(&file, damaged).expect("written");
            assert_eq!(recall(&file, &entry(1).question), None);
            assert_eq!(remember(&file, entry(1)).expect("written"), entry(1).answer);
            assert_eq!(std::fs::read_to_string(&file).expect("it is there"), sound);
        }
        std::fs::write(&file, b"\xff\xfe").expect("written");
        assert_eq!(recall(&file, &entry(1).question), None);
    }

    #[test]
    fn answers_that_do_not_fit_are_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.json");
        let mut wrong = entry(1);
        wrong.answer.threads = 3;
        remember(&file, wrong).expect("written");
        assert_eq!(recall(&file, &entry(1).question), None);
        assert_eq!(remember(&file, entry(1)).expect("written"), entry(1).answer);
        assert_eq!(recall(&file, &entry(1).question), Some(entry(1).answer));
    }

    #[test]
    fn the_first_answer_stays_whoever_found_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.json");
        let other = |threads| Entry { answer: Answer { threads, ..entry(1).answer }, ..entry(1) };
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..8)
                .map(|number| {
                    scope.spawn({
                        let file = &file;
                        move || remember(file, other(1 + number % 2)).expect("written")
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        // Those that were told before the file was there may differ; from then on all are told the same.
        let kept = recall(&file, &entry(1).question).expect("one of them");
        assert!(answers.contains(&kept));
        assert_eq!(remember(&file, other(3 - kept.threads)).expect("written"), kept);
    }
}
