//! Backbones without a head, and heads from other files: the same answers to the last bit, or a line of error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo};
use clef_testkit::{
    Random, Tiny, built_in_model, generated_dir, is_alone, is_of_head, plain_backbone, tiny, write_checkpoint,
    write_image,
};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

use crate::command::{CLEF, Run, clef, decide, in_clean_environment, run_with};

const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"},
    "route": {"type": "choice", "criteria": {"billing": null, "shipping": null, "technical": null}}}}"#;

/// A folder for the files of one test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(generated_dir()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The answers of a model; its path is no part of them.
#[track_caller]
fn answers(model: &Path, flags: &[&str]) -> String {
    let mut all = vec!["--alias", "x"];
    all.extend(flags);
    decide(model, &all, REQUEST).succeeds().to_owned()
}

/// The head of a model under names with a prefix, in a file that has nothing else.
fn prefixed_head(model: &Path, folder: &Path) -> PathBuf {
    let source = Gguf::open(model).unwrap();
    let mut header = HeaderWriter::default();
    header.put_str("general.architecture", "head");
    for key in source.keys().filter(|key| key.starts_with("clef.decision.") || key.contains("layer_norm_epsilon")) {
        header.copy_as(&source, key, &key.replacen("clef.", "head.", 1));
    }
    let mut tensors: Vec<TensorInfo> = source.tensors().iter().filter(|tensor| is_of_head(tensor)).cloned().collect();
    tensors.iter_mut().for_each(|tensor| tensor.name = format!("clef.{}", tensor.name));
    let path = folder.join("prefixed.gguf");
    write_image(&path, &source, header, &tensors);
    path
}

fn checkpoint(folder: &Path) -> PathBuf {
    let path = folder.join("joint_head.safetensors");
    write_checkpoint(&Gguf::open(&tiny(Tiny::F32)).unwrap(), &path, false);
    path
}

/// Runs `clef head attach`.
fn attach(backbone: &Path, head: &Path, output: &Path) -> Run {
    clef(&["head", "attach", text(backbone), text(head), "-o", text(output)], "")
}

fn extract(model: &Path, output: &Path) -> Run {
    clef(&["head", "extract", text(model), "-o", text(output)], "")
}

/// All that a file says, whatever the order: keys with their values, tensors with their data.
fn assert_same_contents(left: &Path, right: &Path) {
    let (left, right) = (Gguf::open(left).unwrap(), Gguf::open(right).unwrap());
    let keys = |gguf: &Gguf| gguf.keys().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(keys(&left), keys(&right));
    for key in left.keys() {
        assert!(left.get(key) == right.get(key), "{key}: {:?} {:?}", left.get(key), right.get(key));
    }
    let tensors = |gguf: &Gguf| {
        let described = |tensor: &TensorInfo| (tensor.name.clone(), (tensor.shape, tensor.dimensions, tensor.kind));
        gguf.tensors().iter().map(described).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(tensors(&left), tensors(&right));
    for tensor in left.tensors() {
        assert!(left.data(tensor) == right.data(right.tensor(&tensor.name).unwrap()), "{}", tensor.name);
    }
}

#[test]
fn a_backbone_without_head_is_refused_with_the_commands_to_run() {
    let folder = folder();
    let path = plain_backbone(&built_in_model(), folder.path());
    let path = text(&path);
    let line = format!(
        "{path} holds no decision head; give one with --head joint_head.safetensors, or make a file that holds both: clef \
         head attach {path} HEAD -o OUT.gguf"
    );
    assert_eq!(decide(Path::new(path), &[], REQUEST).fails_with(1), format!("error: {line}"));
    let seen: Value = serde_json::from_str(clef(&["inspect", "--json", path], "").succeeds()).unwrap();
    assert_eq!(seen["missing"], serde_json::json!([line]));
    assert_eq!(seen["head"], Value::Null);
}

#[test]
fn a_head_from_any_file_answers_as_the_whole_model_does() {
    let folder = folder();
    let whole = tiny(Tiny::F32);
    let expected = answers(&whole, &[]);
    let backbone = plain_backbone(&whole, folder.path());
    let alone = folder.path().join("head.gguf");
    extract(&whole, &alone).succeeds();
    for head in [checkpoint(folder.path()), whole.clone(), alone, prefixed_head(&whole, folder.path())] {
        assert_eq!(answers(&backbone, &["--head", text(&head)]), expected, "{}", head.display());
        let seen = clef(&["inspect", "--json", text(&backbone), "--head", text(&head)], "");
        let seen: Value = serde_json::from_str(seen.succeeds()).unwrap();
        assert_eq!((&seen["head"]["path"], &seen["missing"]), (&text(&head).into(), &serde_json::json!([])));
    }
    // One that is named goes before the model's own; and the environment names one as well.
    let other = tiny(Tiny::Q8_0);
    assert_ne!(answers(&whole, &["--head", text(&other)]), expected);
    let mut command = in_clean_environment(CLEF);
    command.env("CLEF_ARG_HEAD", &whole).args([
        "decide",
        "-t",
        "1",
        "--no-repack",
        "--alias",
        "x",
        "-m",
        text(&backbone),
    ]);
    assert_eq!(run_with(&mut command, REQUEST).succeeds(), expected);
}

#[test]
fn an_attached_head_makes_the_whole_model() {
    let folder = folder();
    let attached = folder.path().join("attached.gguf");
    for (kind, head) in [(Tiny::F32, checkpoint(folder.path())), (Tiny::BF16, tiny(Tiny::BF16))] {
        let whole = tiny(kind);
        let backbone = plain_backbone(&whole, folder.path());
        let run = attach(&backbone, &head, &attached);
        assert!(run.succeeds().is_empty() && run.stderr.lines().count() == 1, "{run:?}");
        assert_same_contents(&attached, &whole);
        assert_eq!(answers(&attached, &[]), answers(&whole, &[]));
        // What is there is replaced only if one says so, by the same.
        let again = attach(&backbone, &head, &attached);
        assert!(again.fails_with(1).contains("exists already; --force replaces it"), "{again:?}");
        let arguments = ["head", "attach", text(&attached), text(&head), "--force", "-o", text(&attached)];
        clef(&arguments, "").succeeds();
        assert_same_contents(&attached, &whole);
        std::fs::remove_file(&attached).unwrap();
    }
}

#[test]
fn a_head_that_is_taken_out_and_put_back_is_the_same_with_its_temperatures() {
    let folder = folder();
    let source = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    header.put_f32("clef.decision.temperature.noul", 1.5);
    header.put_f32("clef.decision.temperature.choice.3_5", 0.25);
    header.put_str("clef.decision.note", "kept, whatever it means");
    let whole = folder.path().join("whole.gguf");
    write_image(&whole, &source, header, source.tensors());
    let expected = answers(&whole, &[]);
    assert_ne!(expected, answers(&tiny(Tiny::Q4_K_M), &[]));

    let (head, attached) = (folder.path().join("head.gguf"), folder.path().join("attached.gguf"));
    extract(&whole, &head).succeeds();
    let seen: Value = serde_json::from_str(clef(&["inspect", "--json", text(&head)], "").succeeds()).unwrap();
    assert_eq!((&seen["architecture"], &seen["tensors"]), (&"clef-head".into(), &160.into()));
    assert_eq!((&seen["head"]["temperatures"], &seen["missing"]), (&true.into(), &serde_json::json!([])));
    let described = clef(&["inspect", text(&head)], "");
    assert!(described.succeeds().contains("can decide with a backbone: -m BACKBONE --head THIS"), "{described:?}");
    let backbone = plain_backbone(&whole, folder.path());
    assert_eq!(answers(&backbone, &["--head", text(&head)]), expected);
    attach(&backbone, &head, &attached).succeeds();
    assert_same_contents(&attached, &whole);
    assert_eq!(answers(&attached, &[]), expected);
}

/// A head for backbones of twice the width, all of zeros, which take no room on the disk.
fn wide_head(folder: &Path) -> PathBuf {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    let mut tensors: Vec<TensorInfo> = source.tensors().iter().filter(|tensor| is_of_head(tensor)).cloned().collect();
    for tensor in &mut tensors {
        if tensor.name.starts_with("decision.proj_") || tensor.name.starts_with("decision.hidden_norm") {
            tensor.shape[0] *= 2;
            tensor.bytes *= 2;
        }
    }
    let length: u64 = tensors.iter().map(|tensor| tensor.bytes.next_multiple_of(HeaderWriter::ALIGNMENT)).sum();
    let header = header.into_bytes(&tensors);
    let path = folder.join("wide.gguf");
    std::fs::write(&path, &header).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(header.len() as u64 + length).unwrap();
    path
}

#[test]
fn heads_that_do_not_fit_or_are_none_are_a_line_of_error() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let backbone = plain_backbone(&tiny(Tiny::BF16), folder.path());
    let sound = checkpoint(folder.path());
    let lonely = at("elsewhere");
    std::fs::create_dir(&lonely).unwrap();
    let lonely = lonely.join("joint_head.safetensors");
    std::fs::copy(&sound, &lonely).unwrap();
    std::fs::write(at("text.safetensors"), b"this is not a head, but long enough to be looked at").unwrap();
    let partial = at("partial.gguf");
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    write_image(
        &partial,
        &source,
        header,
        source.tensors().iter().filter(|tensor| tensor.name != "dec.blk.3.attn_q.bias"),
    );
    for (head, words) in [
        (wide_head(folder.path()), "reads hidden states of width 512"),
        (lonely, "joint_head_config.json must lie beside it"),
        (at("text.safetensors"), "neither a GGUF nor a safetensors file"),
        (partial, "dec.blk.3.attn_q.bias is missing"),
        (backbone.clone(), "holds no decision head"),
        (at("nothing.gguf"), "cannot open"),
        (folder.path().to_owned(), "is not a file"),
    ] {
        let line = decide(&backbone, &["--head", text(&head)], REQUEST);
        assert!(line.fails_with(1).contains(words), "{line:?}");
        let output = at("out.gguf");
        let line = attach(&backbone, &head, &output);
        assert!(line.fails_with(1).contains(words), "{line:?}");
        assert!(!output.exists());
    }
    // A projector and a head are no backbones.
    for (backbone, words) in [(clef_testkit::tiny_projector(), "clip"), (at("text.safetensors"), "not a GGUF file")] {
        let run = attach(&backbone, &sound, &at("out.gguf"));
        assert!(run.fails_with(1).contains(words), "{run:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_a_line_of_error_and_leaves_nothing() {
    let folder = folder();
    let backbone = plain_backbone(&built_in_model(), folder.path());
    let output = folder.path().join("no/such/folder.gguf");
    assert!(attach(&backbone, &built_in_model(), &output).fails_with(1).contains("cannot create"));
    assert!(attach(&backbone, &built_in_model(), folder.path()).fails_with(1).contains("is a folder"));

    // As on a full disk, a write fails half-way.
    let output = folder.path().join("out.gguf");
    let script = "trap '' XFSZ; ulimit -f 4000; exec \"$0\" head attach \"$1\" \"$2\" -o \"$3\"";
    let mut command = in_clean_environment("sh");
    command.args(["-c", script, CLEF]).args([&backbone, &built_in_model(), &output]);
    let run = run_with(&mut command, "");
    assert!(run.fails_with(1).contains(&format!("cannot write {}", output.display())), "{run:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["backbone.gguf"]);
}

/// The largest memory that any child of this process had so far, in KiB.
fn peak_of_children() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

#[test]
fn attaching_takes_no_more_memory_than_a_part_of_a_tensor() {
    if !is_alone("head::attaching_takes_no_more_memory_than_a_part_of_a_tensor") {
        return;
    }
    let folder = folder();
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().for_each(|key| header.copy(&source, key));
    let mut tensors = source.tensors().to_vec();
    // A tensor that nobody knows, of 200 MiB.
    let embeddings = source.tensor("token_embd.weight").unwrap();
    let shape = [256, 400 << 10, 1, 1];
    tensors.push(TensorInfo { name: "other.weight".into(), shape, bytes: 200 << 20, ..embeddings.clone() });
    let image = header.finish(&source, &tensors);
    let large = folder.path().join("large.gguf");
    let mut bytes = vec![0; (image.length() - (200 << 20)) as usize];
    image.read_at(0, &mut bytes).unwrap();
    std::fs::write(&large, &bytes).unwrap();
    std::fs::File::options().write(true).open(&large).unwrap().set_len(image.length()).unwrap();
    let attached = folder.path().join("attached.gguf");
    attach(&large, &tiny(Tiny::BF16), &attached).succeeds();
    assert!(attached.metadata().unwrap().len() > 200 << 20);
    let peak = peak_of_children();
    assert!(peak < 100 << 10, "{peak} KiB");
}

#[test]
fn a_head_cut_off_at_any_of_ten_sizes_is_refused() {
    let folder = folder();
    let backbone = plain_backbone(&built_in_model(), folder.path());
    let gguf = folder.path().join("head.gguf");
    extract(&tiny(Tiny::BF16), &gguf).succeeds();
    for path in [gguf, checkpoint(folder.path())] {
        let whole = std::fs::read(&path).unwrap();
        for tenth in 0..10 {
            std::fs::write(&path, &whole[..whole.len() * tenth / 10]).unwrap();
            let run = decide(&backbone, &["--head", text(&path)], REQUEST);
            let line = run.fails_with(1);
            assert!(line.contains("cut off") || (tenth == 0 && line.contains("neither")), "{line}");
        }
    }
}

#[test]
fn two_hundred_heads_with_flipped_header_bytes_load_or_are_refused_in_bounded_memory() {
    if !is_alone("head::two_hundred_heads_with_flipped_header_bytes_load_or_are_refused_in_bounded_memory") {
        return;
    }
    let folder = folder();
    let backbone = plain_backbone(&tiny(Tiny::BF16), folder.path());
    let gguf = folder.path().join("head.gguf");
    extract(&tiny(Tiny::BF16), &gguf).succeeds();
    let gguf_header = Gguf::open(&gguf).unwrap().tensors().iter().map(|tensor| tensor.offset).min().unwrap() as usize;
    let checkpoint = checkpoint(folder.path());
    let mut word = [0; 8];
    word.copy_from_slice(&std::fs::read(&checkpoint).unwrap()[..8]);
    let heads = [(&gguf, gguf_header), (&checkpoint, 8 + u64::from_le_bytes(word) as usize)];
    heads.iter().for_each(|(head, _)| drop(answers(&backbone, &["--head", text(head)])));
    let sound = peak_of_children();
    let wholes = heads.map(|(head, header)| (head, header, std::fs::read(head).unwrap()));
    let mut loaded = 0;
    for seed in 1..=200_u64 {
        let mut random = Random::new(seed);
        let (head, header, whole) = &wholes[seed as usize % 2];
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            // Half of the flips hit the beginning: numbers are rarer than words, and there they are.
            let within = if random.below(2) == 0 { 512.min(*header) } else { *header };
            bytes[random.below(within)] ^= 1 << random.below(8);
        }
        std::fs::write(head, &bytes).unwrap();
        let run = decide(&backbone, &["--head", text(head)], REQUEST);
        match run.code {
            Some(0) => loaded += 1,
            Some(1) => drop(run.fails_with(1).to_owned()),
            _ => panic!("seed {seed}: {run:?}"),
        }
    }
    println!("{loaded} of 200 load");
    assert!(loaded < 200, "the flips hit nothing");
    let peak = peak_of_children();
    assert!(peak <= 2 * sound, "{peak} KiB at the most, {sound} KiB for sound heads");
}
