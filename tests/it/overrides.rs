//! Metadata that the command line puts in place of a file's.

use clef_testkit::built_in_model;

use crate::command::{clef, decide};

const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#;

#[test]
fn overridden_metadata_is_checked_as_the_files_own_is() {
    let model = built_in_model();
    for (change, words) in [
        ("clef.block_count=int:0", "clef.block_count must be 1 to 512, it is 0"),
        ("clef.block_count=int:-4", "it is -4"),
        ("clef.block_count=str:four", "it is \"four\""),
        ("clef.attention.head_count=int:3", "3 heads"),
        ("clef.attention.layer_norm_rms_epsilon=bool:true", "it is true"),
        ("clef.rope.freq_base=float:-1", "it is -1"),
        ("tokenizer.ggml.tokens=str:x", "tokenizer.ggml.tokens is not an array"),
        ("tokenizer.ggml.token_type=int:1", "not an array"),
        ("tokenizer.ggml.pre=int:1", "tokenizer.ggml.pre is missing"),
        ("tokenizer.ggml.eos_token_id=int:99999999", "not a token"),
        ("clef.decision.block_count=int:1", "belongs to no head of 2 + 1 blocks"),
        ("general.architecture=str:llama", "llama"),
        ("general.alignment=int:1", "cannot be overridden"),
        ("split.count=int:9", "cannot be overridden"),
    ] {
        let code = if words == "cannot be overridden" { 2 } else { 1 };
        let line = decide(&model, &["--override-kv", change], REQUEST).fails_with(code).to_owned();
        assert!(line.contains(words), "{change}: {line}");
    }
    // What changes nothing changes nothing, and what changes something does.
    let plain = decide(&model, &[], REQUEST);
    let same = decide(&model, &["--override-kv", "clef.block_count=int:4,clef.unheard_of=float:1"], REQUEST);
    assert_eq!(same.succeeds(), plain.succeeds());
    assert!(same.stderr.contains("has no key clef.unheard_of"), "{}", same.stderr);
    let other = decide(&model, &["--override-kv", "clef.rope.freq_base=float:50"], REQUEST);
    assert_ne!(other.succeeds(), plain.succeeds());
    let run = clef(&["inspect", model.to_str().unwrap(), "--override-kv", "general.name=str:another"], "");
    assert!(run.succeeds().contains("another"), "{run:?}");
}
