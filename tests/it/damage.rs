//! Files that are damaged, foreign or incomplete: a line of error and exit code 1, never a signal.

use std::path::{Path, PathBuf};

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo};
use clef_testkit::{Random, Tiny, built_in_model, fixture, generated_dir, is_alone, is_of_head, tiny};
use nix::sys::resource::{UsageWho, getrusage};

use crate::command::{CLEF, clef, decide, in_clean_environment, run_with};

const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#;

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = generated_dir().join(format!("damage-{}-{name}.gguf", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A file with the header that `header` begins and the tensors of `source` that `keep` names.
fn rewritten(name: &str, source: &Gguf, header: HeaderWriter, keep: impl Fn(&TensorInfo) -> bool) -> PathBuf {
    let image = header.finish(source, source.tensors().iter().filter(|tensor| keep(tensor)));
    let mut bytes = vec![0; image.length() as usize];
    assert_eq!(image.read_at(0, &mut bytes).unwrap(), bytes.len());
    scratch(name, &bytes)
}

#[test]
fn a_model_cut_off_at_any_of_ten_sizes_is_refused() {
    let whole = std::fs::read(built_in_model()).unwrap();
    for tenth in 0..10 {
        let path = scratch(&format!("cut-{tenth}"), &whole[..whole.len() * tenth / 10]);
        let run = decide(&path, &[], REQUEST);
        let line = run.fails_with(1);
        assert!(line.contains("cut off") || line.contains("too few"), "{line}");
        clef(&["inspect", path.to_str().unwrap()], "").fails_with(1);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_text_model_of_another_architecture_is_refused_by_name() {
    let source = Gguf::open(&built_in_model()).unwrap();
    let mut header = HeaderWriter::default();
    header.put_str("general.architecture", "llama");
    for key in source.keys().filter(|key| *key != "general.architecture") {
        header.copy(&source, key);
    }
    let path = rewritten("llama", &source, header, |_| true);
    let run = decide(&path, &[], REQUEST);
    assert!(run.fails_with(1).contains("llama"), "{run:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_backbone_without_head_is_refused_as_such() {
    let source = Gguf::open(&built_in_model()).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    let path = rewritten("headless", &source, header, |tensor| !is_of_head(tensor));
    let run = decide(&path, &[], REQUEST);
    assert!(run.fails_with(1).contains("no decision head"), "{run:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_plain_qwen35_backbone_is_refused_for_its_missing_head_alone() {
    let source = Gguf::open(&built_in_model()).unwrap();
    let mut header = HeaderWriter::default();
    header.put_str("general.architecture", "qwen35");
    for key in source.keys().filter(|key| key.starts_with("tokenizer.")) {
        header.copy(&source, key);
    }
    let mut renamed = header;
    for key in source.keys().filter(|key| key.starts_with("clef.") && !key.starts_with("clef.decision.")) {
        renamed.copy_as(&source, key, &key.replacen("clef.", "qwen35.", 1));
    }
    let path = rewritten("qwen35", &source, renamed, |tensor| !is_of_head(tensor));
    let run = decide(&path, &[], REQUEST);
    assert!(run.fails_with(1).contains("no decision head"), "{run:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_projector_is_refused_as_a_model() {
    let run = decide(&fixture("clef-tiny/mmproj-clef-tiny-f16.gguf"), &[], REQUEST);
    assert!(run.fails_with(1).contains("clip"), "{run:?}");
}

#[test]
fn a_file_that_is_no_gguf_is_refused() {
    let path = scratch("text", &b"this is not a model, but it is long enough to be looked at".repeat(10));
    let run = decide(&path, &[], REQUEST);
    assert!(run.fails_with(1).contains("not a GGUF file"), "{run:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_pipe_is_no_model_and_nobody_waits_for_one() {
    let pipe = generated_dir().join(format!("damage-{}-pipe", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(decide(&pipe, &[], REQUEST).fails_with(1).contains("not a file"));
    std::fs::remove_file(pipe).unwrap();
}

#[test]
fn names_in_a_file_do_not_reach_a_terminal_as_commands() {
    let source = Gguf::open(&built_in_model()).unwrap();
    let mut header = HeaderWriter::default();
    header.put_str("general.name", "x\u{1b}]0;y\u{7}\u{1b}[2J\n  can decide\u{202e}");
    source.keys().filter(|key| *key != "general.name").for_each(|key| header.copy(&source, key));
    let path = rewritten("name", &source, header, |_| true);
    let run = clef(&["inspect", path.to_str().unwrap()], "");
    assert!(!run.succeeds().replace('\n', "").contains(|c: char| c.is_control() || c == '\u{202e}'), "{run:?}");
    assert_eq!(run.stdout.lines().filter(|line| line.trim() == "can decide").count(), 1);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn logits_that_are_not_numbers_are_a_line_of_error() {
    let source = Gguf::open(&built_in_model()).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    let image = header.finish(&source, source.tensors());
    let mut bytes = vec![0; image.length() as usize];
    image.read_at(0, &mut bytes).unwrap();
    let path = scratch("nan", &bytes);
    let copy = Gguf::open(&path).unwrap();
    let scales = copy.tensor("decision.scales").unwrap().offset as usize;
    bytes[scales..scales + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let run = decide(&path, &[], REQUEST);
    assert!(run.fails_with(1).contains("NaN"), "{run:?}");
    std::fs::remove_file(path).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_cannot_be_had_is_a_line_of_error() {
    // Limits on the address space, from one that the program barely starts in to one that it nearly loads in.
    for kibibytes in [70_000, 120_000, 200_000, 260_000, 300_000] {
        let script = format!("ulimit -v {kibibytes}; exec \"$0\" decide -m \"$1\" -t 1 -");
        let model = fixture("clef-tiny/clef-tiny-bf16.gguf");
        let run = run_with(in_clean_environment("sh").args(["-c", &script]).arg(CLEF).arg(model), REQUEST);
        run.fails_with(1);
    }
    // Under a limit as well: llama.cpp's table of cells alone would take gigabytes before keys and values are refused.
    let huge = |flags: &str| {
        let script = format!("ulimit -v 600000; exec \"$0\" decide -m \"$1\" -t 1 -c 67108864 {flags} -");
        run_with(in_clean_environment("sh").args(["-c", &script]).arg(CLEF).arg(built_in_model()), REQUEST)
    };
    let run = huge("--fit off");
    assert!(run.fails_with(1).contains("alloc"), "{run:?}");
    // What cannot fit is not even begun, and the line says what would.
    let run = huge("");
    let line = run.fails_with(1);
    for words in ["clef-nano-Q8_0.gguf needs 64.", "are available", "for 67108864 tokens", "-c ", "--fit off"] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

/// The largest memory that any child of this process had so far, in KiB.
fn peak_of_children() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

fn data_start(path: &Path) -> usize {
    Gguf::open(path).unwrap().tensors().iter().map(|tensor| tensor.offset).min().unwrap() as usize
}

#[test]
fn two_hundred_files_with_flipped_header_bytes_load_or_are_refused_in_bounded_memory() {
    if !is_alone("damage::two_hundred_files_with_flipped_header_bytes_load_or_are_refused_in_bounded_memory") {
        return;
    }
    let source = tiny(Tiny::Q4_K_M);
    let whole = std::fs::read(&source).unwrap();
    let header = data_start(&source);
    decide(&source, &[], REQUEST).succeeds();
    let sound = peak_of_children();
    let mut loaded = 0;
    for seed in 1..=200_u64 {
        let mut random = Random::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            // Half of the flips hit the first kilobytes: numbers are rarer than words, and there they are.
            let within = if random.below(2) == 0 { header.min(4096) } else { header };
            let at = random.below(within);
            bytes[at] ^= 1 << random.below(8);
        }
        let path = scratch(&format!("flip-{seed}"), &bytes);
        let run = decide(&path, &[], REQUEST);
        match run.code {
            Some(0) => loaded += 1,
            Some(1) => {
                run.fails_with(1);
            }
            _ => panic!("seed {seed}: {run:?}"),
        }
        std::fs::remove_file(path).unwrap();
    }
    println!("{loaded} of 200 load");
    assert!((1..200).contains(&loaded), "{loaded} of 200 load: the flips hit nothing, or everything");
    let peak = peak_of_children();
    assert!(peak <= 2 * sound, "{peak} KiB at the most, {sound} KiB for the sound file");
}
