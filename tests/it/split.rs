//! Models in several files: as good as one, and refused with the name of the part that is at fault.

use std::path::{Path, PathBuf};

use clef_llama::gguf::{Gguf, HeaderWriter};
use clef_testkit::{Tiny, built_in_model, fixture, tiny, tiny_projector};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Run, clef, decide};
use crate::serving::clef_server;

const PARTS: usize = 4;
const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"},
    "topic": {"type": "choice", "criteria": {"billing": null, "other": "anything else"}}}}"#;

/// A model as `gguf-split` writes it: metadata in the first part, numbers of the split in all.
struct Split {
    folder: TempDir,
    name: &'static str,
}

impl Split {
    fn of(model: &Path, name: &'static str) -> Self {
        let split = Self { folder: tempfile::tempdir().unwrap(), name };
        let source = Gguf::open(model).unwrap();
        let tensors = source.tensors();
        let size = tensors.len().div_ceil(PARTS);
        for (number, part) in tensors.chunks(size).enumerate() {
            let mut header = HeaderWriter::default();
            if number == 0 {
                source.keys().for_each(|key| header.copy(&source, key));
            }
            split.number(&mut header, number as u16, tensors.len() as u32);
            let image = header.finish(&source, part);
            let mut bytes = vec![0; image.length() as usize];
            assert_eq!(image.read_at(0, &mut bytes).unwrap(), bytes.len());
            std::fs::write(split.part(number), bytes).unwrap();
        }
        split
    }

    fn number(&self, header: &mut HeaderWriter, number: u16, tensors: u32) {
        header.put_u16("split.no", number);
        header.put_u16("split.count", PARTS as u16);
        header.put_u32("split.tensors.count", tensors);
    }

    /// The path of a part, from zero.
    fn part(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{}-{:05}-of-{PARTS:05}.gguf", self.name, number + 1))
    }

    fn run(&self) -> Run {
        decide(&self.part(0), &[], REQUEST)
    }

    /// The line with which the first part is refused, and a part between damaged.
    fn refusal(&self) -> String {
        let inspected = clef(&["inspect", self.part(0).to_str().unwrap()], "");
        inspected.fails_with(1);
        self.run().fails_with(1).to_owned()
    }
}

fn answer(model: &Path) -> String {
    decide(model, &["--alias", "same"], REQUEST).succeeds().to_owned()
}

#[test]
fn a_model_in_four_files_answers_to_the_bit_as_the_one_whichever_part_is_named() {
    for model in [built_in_model(), tiny(Tiny::Q4_K_M)] {
        let split = Split::of(&model, "clef-of-parts");
        let whole = answer(&model);
        for number in 0..PARTS {
            assert_eq!(answer(&split.part(number)), whole, "part {number} of {model:?}");
        }
        let inspect = |path: &Path| -> Value {
            let run = clef(&["inspect", "--json", path.to_str().unwrap()], "");
            let mut seen: Value = serde_json::from_str(run.succeeds()).unwrap();
            let fields = seen.as_object_mut().unwrap();
            fields.remove("path");
            // There is a header in each.
            fields.remove("file_bytes");
            fields["head"].as_object_mut().unwrap().remove("path");
            seen
        };
        assert_eq!(inspect(&split.part(2)), inspect(&model));
    }
}

#[test]
fn every_part_cut_off_or_gone_is_named() {
    let split = Split::of(&built_in_model(), "x");
    for number in 0..PARTS {
        let path = split.part(number);
        let shown = path.to_str().unwrap().to_owned();
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 100, whole.len() / 2, whole.len() - 64] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let line = split.refusal();
            assert!(line.contains(&shown), "{line}");
            assert!(line.contains("cut off") || line.contains("too few"), "{line}");
        }
        std::fs::remove_file(&path).unwrap();
        let line = split.refusal();
        assert!(line.contains(&shown) && line.contains("No such file"), "{line}");
        assert!(number == 0 || line.contains(&format!("part {} of 4", number + 1)), "{line}");
        std::fs::write(&path, whole).unwrap();
    }
    split.run().succeeds();
}

#[test]
fn parts_that_changed_places_are_named() {
    let split = Split::of(&built_in_model(), "x");
    let (second, third, aside) = (split.part(1), split.part(2), split.folder.path().join("aside"));
    std::fs::rename(&second, &aside).unwrap();
    std::fs::rename(&third, &second).unwrap();
    std::fs::rename(&aside, &third).unwrap();
    let line = split.refusal();
    assert!(line.contains(second.to_str().unwrap()), "{line}");
    assert!(line.contains("named as part 2 of 4 and says that it is part 3 of 4"), "{line}");
    let renamed = split.folder.path().join("model.gguf");
    std::fs::rename(split.part(0), &renamed).unwrap();
    let line = decide(&renamed, &[], REQUEST).fails_with(1).to_owned();
    assert!(line.contains("model.gguf") && line.contains("NAME-00001-of-00004.gguf"), "{line}");
}

#[test]
fn parts_of_different_models_are_refused() {
    let split = Split::of(&built_in_model(), "x");
    let third = split.part(2);
    let sound = std::fs::read(&third).unwrap();
    let count = Gguf::open(&built_in_model()).unwrap().tensors().len() as u32;

    let source = Gguf::open(&built_in_model()).unwrap();
    let rewritten = |keys: &dyn Fn(&mut HeaderWriter), stated: u32, first: usize, number: usize| {
        let mut header = HeaderWriter::default();
        split.number(&mut header, 2, stated);
        keys(&mut header);
        let image = header.finish(&source, &source.tensors()[first..first + number]);
        let mut bytes = vec![0; image.length() as usize];
        image.read_at(0, &mut bytes).unwrap();
        std::fs::write(&third, bytes).unwrap();
        split.refusal()
    };
    let line = rewritten(&|header| header.put_str("general.architecture", "llama"), count, 0, 1);
    assert!(line.contains("x-00003-of-00004.gguf: its general.architecture is another"), "{line}");
    let line = rewritten(&|_| {}, count, 0, 1);
    assert!(
        line.contains("x-00003-of-00004.gguf: the tensor") && line.contains("x-00001-of-00004.gguf, too"),
        "{line}"
    );
    let line = rewritten(&|_| {}, count + 1, 0, 1);
    assert!(line.contains("x-00003-of-00004.gguf: it states") && line.contains("different models"), "{line}");
    let size = source.tensors().len().div_ceil(PARTS);
    let line = rewritten(&|_| {}, count, 2 * size, size - 1);
    assert!(line.contains(&format!("have {} tensors, {count} are stated", count - 1)), "{line}");

    // A whole model under a part's name.
    std::fs::copy(built_in_model(), &third).unwrap();
    let line = split.refusal();
    assert!(line.contains("x-00003-of-00004.gguf") && line.contains("a model of its own"), "{line}");
    std::fs::write(&third, sound).unwrap();
    split.run().succeeds();
}

#[test]
fn a_projector_in_parts_is_refused_with_the_way_out() {
    let split = Split::of(&tiny_projector(), "mmproj");
    let model = fixture("clef-tiny/clef-tiny-bf16.gguf");
    let run = decide(&model, &["--mmproj", split.part(0).to_str().unwrap()], REQUEST);
    assert!(run.fails_with(1).contains("--merge"), "{run:?}");
}

#[test]
fn overridden_metadata_is_checked_as_the_files_own_is() {
    let model = built_in_model();
    for (change, words) in [
        ("clef.block_count=int:0", "clef.block_count must be 1 to 512, it is 0"),
        ("clef.block_count=int:-4", "it is -4"),
        ("clef.block_count=str:four", "it is \"four\""),
        ("clef.attention.head_count=int:3", "3 heads"),
        ("clef.attention.layer_norm_rms_epsilon=bool:true", "it is true"),
        ("clef.rope.freq_base=float:-1", "it is -1e0"),
        ("tokenizer.ggml.tokens=str:x", "tokenizer.ggml.tokens is not an array"),
        ("tokenizer.ggml.token_type=int:1", "not an array"),
        ("tokenizer.ggml.pre=int:1", "tokenizer.ggml.pre is missing"),
        ("tokenizer.ggml.eos_token_id=int:99999999", "not a token"),
        ("general.architecture=str:llama", "llama"),
        ("general.alignment=int:1", "cannot be overridden"),
        ("split.count=int:9", "cannot be overridden"),
    ] {
        let line = decide(&model, &["--override-kv", change], REQUEST).fails_with(1).to_owned();
        assert!(line.contains(words), "{change}: {line}");
    }
    // What changes nothing changes nothing, and what changes something does.
    let plain = decide(&model, &[], REQUEST);
    let same = decide(&model, &["--override-kv", "clef.block_count=int:4,clef.unheard_of=float:1"], REQUEST);
    assert_eq!(same.succeeds(), plain.succeeds());
    let other = decide(&model, &["--override-kv", "clef.rope.freq_base=float:50"], REQUEST);
    assert_ne!(other.succeeds(), plain.succeeds());
    let run = clef(&["inspect", model.to_str().unwrap(), "--override-kv", "general.name=str:another"], "");
    assert!(run.succeeds().contains("another"), "{run:?}");
}

#[test]
fn devices_that_there_are_not_are_a_line_of_error() {
    let model = built_in_model();
    let run = clef_server(&["-dev", "CUDA77"]);
    let line = run.fails_with(1);
    assert!(line.starts_with("error: -dev \"CUDA77\": no device \"CUDA77\""), "{line}");
    let run = clef_server(&[
        "-m",
        model.to_str().unwrap(),
        "-dev",
        "none",
        "-sm",
        "tensor",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--log-disable",
    ]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.stderr, "error: split mode tensor needs a GPU, and none is used\n");
}

#[test]
fn flags_about_the_place_change_no_answer_on_a_cpu() {
    let model = built_in_model();
    let plain = decide(&model, &["-ngl", "0"], REQUEST);
    let flags = [
        "-dev",
        "none",
        "-sm",
        "row",
        "-ts",
        "3,1",
        "-mg",
        "1",
        "-lm",
        "mlock",
        "--numa",
        "distribute",
        "--fit",
        "off",
    ];
    assert_eq!(decide(&model, &flags, REQUEST).succeeds(), plain.succeeds());
}
