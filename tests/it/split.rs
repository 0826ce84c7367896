//! Models in several files: as good as one, and refused with the name of the part that is at fault.

use std::path::{Path, PathBuf};

use clef_llama::gguf::{Gguf, HeaderWriter};
use clef_testkit::{
    Tiny, built_in_model, fixture, plain_backbone, put_split_numbers, split_model, tiny, tiny_projector, write_image,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Run, clef, decide};

const PARTS: usize = 4;
const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"},
    "topic": {"type": "choice", "criteria": {"billing": null, "other": "anything else"}}}}"#;

/// A model in parts, in a folder of its own.
struct Split {
    folder: TempDir,
    parts: Vec<PathBuf>,
}

impl Split {
    fn of(model: &Path, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts = split_model(model, folder.path(), name, PARTS);
        Self { folder, parts }
    }

    /// The path of a part, from zero.
    fn part(&self, number: usize) -> PathBuf {
        self.parts[number].clone()
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
    let count = Gguf::open(&built_in_model()).unwrap().tensors().len();

    let source = Gguf::open(&built_in_model()).unwrap();
    let rewritten = |keys: &dyn Fn(&mut HeaderWriter), stated: usize, first: usize, number: usize| {
        let mut header = HeaderWriter::default();
        put_split_numbers(&mut header, 2, PARTS, stated);
        keys(&mut header);
        write_image(&third, &source, header, &source.tensors()[first..first + number]);
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
fn a_backbone_in_parts_takes_a_head_from_elsewhere() {
    let whole = tiny(Tiny::Q4_K_M);
    let folder = tempfile::tempdir().unwrap();
    let backbone = Split::of(&plain_backbone(&whole, folder.path()), "backbone");
    let head = folder.path().join("head.gguf");
    clef(&["head", "extract", whole.to_str().unwrap(), "-o", head.to_str().unwrap()], "").succeeds();
    let expected = answer(&whole);
    for part in [0, 3] {
        let named = backbone.part(part);
        let flags = ["--alias", "same", "--head", head.to_str().unwrap()];
        assert_eq!(decide(&named, &flags, REQUEST).succeeds(), expected, "part {part}");
        let attached = folder.path().join(format!("attached-{part}.gguf"));
        let line =
            ["head", "attach", named.to_str().unwrap(), head.to_str().unwrap(), "-o", attached.to_str().unwrap()];
        clef(&line, "").succeeds();
        assert_eq!(answer(&attached), expected, "part {part}");
    }
}
