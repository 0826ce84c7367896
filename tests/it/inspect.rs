//! `clef inspect` on files of every kind.

use clef_testkit::{Tiny, built_in_model, fixture, tiny};
use serde_json::Value;

use crate::command::clef;

fn inspect(path: &std::path::Path) -> Value {
    let run = clef(&["inspect", "--json", path.to_str().unwrap()], "");
    serde_json::from_str(run.succeeds()).unwrap()
}

#[test]
fn a_complete_model_is_described_and_nothing_is_missing() {
    let seen = inspect(&built_in_model());
    assert_eq!(seen["architecture"], "clef");
    assert_eq!(seen["quantization"], "Q8_0");
    assert_eq!(seen["backbone"]["layers"], 4);
    assert_eq!(seen["backbone"]["attention_layers"], 2);
    assert_eq!(seen["head"]["routing_blocks"], 2);
    assert_eq!(seen["head"]["joint_blocks"], 2);
    assert_eq!(seen["tokenizer"]["tokens"], 5120);
    assert_eq!(seen["missing"].as_array().unwrap().len(), 0);
}

#[test]
fn every_quantization_is_called_by_its_name() {
    for kind in Tiny::QUANTS {
        assert_eq!(inspect(&tiny(kind))["quantization"], kind.name());
    }
}

#[test]
fn a_projector_is_described_alone_and_beside_its_model() {
    let path = fixture("clef-tiny/mmproj-clef-tiny-f16.gguf");
    let seen = inspect(&path);
    assert_eq!(seen["architecture"], "clip");
    let tower = &seen["projector"];
    assert_eq!((&tower["layers"], &tower["embedding"], &tower["token_side"]), (&2.into(), &256.into(), &32.into()));
    assert_eq!(seen["missing"].as_array().unwrap().len(), 0);
    let text = clef(&["inspect", path.to_str().unwrap()], "");
    assert!(text.succeeds().contains("can see: give it beside its model"), "{}", text.stdout);

    let model = built_in_model();
    let beside = clef(&["inspect", model.to_str().unwrap(), "--mmproj", path.to_str().unwrap()], "");
    for expected in ["for backbones of width 256", "projector weights", "an image at work", "can decide"] {
        assert!(beside.succeeds().contains(expected), "{expected}: {}", beside.stdout);
    }
    let foreign = clef(&["inspect", model.to_str().unwrap(), "--mmproj", model.to_str().unwrap()], "");
    assert_eq!(foreign.code, Some(1));
    assert!(foreign.stderr.contains("a projector's is \"clip\""), "{}", foreign.stderr);
}

#[test]
fn the_text_says_what_the_json_says() {
    let path = built_in_model();
    let run = clef(&["inspect", path.to_str().unwrap()], "");
    for expected in
        ["clef-nano", "Q8_0", "5120 tokens", "keys and values", "recurrent state", "held states", "can decide"]
    {
        assert!(run.succeeds().contains(expected), "{expected}: {}", run.stdout);
    }
}

#[test]
fn memory_for_keys_and_values_follows_the_context_and_their_types() {
    let path = built_in_model();
    let cache_bytes = |flags: &[&str]| {
        let mut arguments = vec!["inspect", "--json", path.to_str().unwrap()];
        arguments.extend(flags);
        let seen: Value = serde_json::from_str(clef(&arguments, "").succeeds()).unwrap();
        let items = seen["memory"]["items"].as_array().unwrap().clone();
        items.iter().find(|item| item["name"] == "keys and values").unwrap()["bytes"].as_u64().unwrap()
    };
    // 2 attention layers x 2 key-value heads x 64 wide, keys and values.
    assert_eq!(cache_bytes(&[]), 2 * 2 * 64 * 2 * 2 * 16_384);
    assert_eq!(cache_bytes(&["-c", "1000"]), 2 * 2 * 64 * 2 * 2 * 1024);
    assert_eq!(cache_bytes(&["-fa", "off"]), 2 * cache_bytes(&[]));
    assert_eq!(cache_bytes(&["-c", "0"]), 2 * cache_bytes(&[]));
}
