#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

use super::*;

/// Repositories as they are.
const FLAT: &[&str] = &[
    "README.md",
    "clef-flash.BF16.gguf",
    "clef-flash.Q4_K_M.gguf",
    "clef-flash.Q8_0.gguf",
    "mmproj-clef-flash-BF16.gguf",
    "mmproj-clef-flash-F16.gguf",
    "mmproj-clef-flash-Q8_0.gguf",
];
const FOLDERS: &[&str] = &[
    "Q8_0/big-Q8_0-00001-of-00002.gguf",
    "Q8_0/big-Q8_0-00002-of-00002.gguf",
    "Q8_0/mmproj-F32.gguf",
    "UD-Q4_K_XL/big-UD-Q4_K_XL-00003-of-00003.gguf",
    "UD-Q4_K_XL/big-UD-Q4_K_XL-00001-of-00003.gguf",
    "UD-Q4_K_XL/big-UD-Q4_K_XL-00002-of-00003.gguf",
    "mmproj-F16.gguf",
    "other/mmproj-F16.gguf",
    "mtp-big-Q8_0.gguf",
];

fn chosen<'a>(paths: &[&'a str], choice: &Choice) -> (Vec<&'a str>, Option<&'a str>) {
    let chosen = choose(paths, choice, true).unwrap();
    (chosen.parts.iter().map(|&part| paths[part]).collect(), chosen.projector.map(|index| paths[index]))
}

fn quant(quant: &str) -> Choice {
    Choice::Quant(quant.to_owned())
}

fn file(file: &str) -> Choice {
    Choice::File(file.to_owned())
}

#[test]
fn the_default_is_q4_k_m_or_else_the_nearest_to_it() {
    let (parts, projector) = chosen(FLAT, &Choice::Default);
    assert_eq!((parts, projector), (vec!["clef-flash.Q4_K_M.gguf"], Some("mmproj-clef-flash-F16.gguf")));
    assert_eq!(chosen(FOLDERS, &Choice::Default).0.len(), 3, "Q4_K_XL in its three parts");
    // Each is taken if those before it are not there, whatever the models are called.
    let order = [
        "Q4_K_M",
        "UD-Q4_K_XL",
        "Q4_K_S",
        "Q4_1",
        "Q4_0",
        "IQ4_NL",
        "IQ4_XS",
        "MXFP4",
        "Q5_K_M",
        "Q5_K_S",
        "Q5_0",
        "Q6_K",
        "Q8_0",
        "Q3_K_M",
        "Q3_K_L",
        "Q3_K_S",
        "IQ3_XXS",
        "Q2_K",
        "IQ2_M",
        "IQ1_M",
        "TQ1_0",
        "a",
        "BF16",
        "F16",
        "F32",
    ];
    let names: Vec<String> = order.iter().rev().map(|quant| format!("m-{quant}.gguf")).collect();
    for (last, expected) in order.iter().enumerate() {
        let names: Vec<&str> = names[..order.len() - last].iter().map(String::as_str).collect();
        assert_eq!(chosen(&names, &Choice::Default).0, [format!("m-{expected}.gguf")]);
    }
    for (path, quant) in [
        ("m-Q8_0-v2.gguf", Some("Q8_0")),
        ("model_q6_k.gguf", Some("Q6_K")),
        ("Q8_0/big-00001-of-00002.gguf", Some("Q8_0")),
        ("qwen3-4b.gguf", None),
        ("", None),
    ] {
        assert_eq!(named_quant(path).as_deref(), quant, "{path}");
    }
    let rest = ["mmproj.gguf", "imatrix.gguf", "b.gguf", "a-IQ2_M.gguf", "a.safetensors"];
    assert_eq!(chosen(&rest, &Choice::Default), (vec!["a-IQ2_M.gguf"], Some("mmproj.gguf")));
    for nothing in [&[][..], &["mmproj-F16.gguf", "README.md"]] {
        assert_eq!(choose(nothing, &Choice::Default, true), Err(NotChosen::NoModel));
        assert_eq!(choose(nothing, &quant("Q8_0"), true), Err(NotChosen::NoModel));
    }
}

#[test]
fn a_quantization_is_found_in_any_letters_and_never_replaced() {
    for text in ["bf16", "BF16", "Bf16"] {
        assert_eq!(chosen(FLAT, &quant(text)).0, ["clef-flash.BF16.gguf"]);
    }
    let error = choose(FLAT, &quant("q5_k_m"), true).unwrap_err();
    assert_eq!(error.to_string(), "no model of quantization Q5_K_M; there are BF16, Q4_K_M, Q8_0");
    let error = choose(&["b.gguf", "a.gguf"], &quant("Q4_K_M"), true).unwrap_err();
    assert_eq!(error.to_string(), "no model of quantization Q4_K_M; there are a.gguf, b.gguf");
}

#[test]
fn the_others_are_named_by_quantization_where_they_have_one() {
    assert_eq!(others_than(FLAT, "clef-flash.Q8_0.gguf"), ["BF16", "Q4_K_M"]);
    assert_eq!(
        others_than(&["a.gguf", "b-Q8_0.gguf", "c-Q8_0.gguf", "mmproj.gguf"], "b-Q8_0.gguf"),
        ["Q8_0", "a.gguf"]
    );
    assert!(
        is_default(FLAT[2])
            && is_default("m-Q4_K_M-v2.gguf")
            && !is_default(FLAT[1])
            && !is_default("mmproj-Q4_K_M.gguf")
    );
}

#[test]
fn a_quantization_is_a_whole_word() {
    let paths = ["m-IQ4_XS.gguf", "m-Q4_0_4_4.gguf", "m-UD-Q2_K_XL.gguf", "m-i1-Q6_K.gguf"];
    for text in ["Q4_XS", "Q4_0", "Q4", "K_X"] {
        assert!(choose(&paths, &quant(text), true).is_err(), "{text}");
    }
    for (text, path) in [("UD-Q2_K_XL", paths[2]), ("q2_k_xl", paths[2]), ("i1-Q6_K", paths[3]), ("iq4_xs", paths[0])] {
        assert_eq!(chosen(&paths, &quant(text)).0, [path], "{text}");
    }
    assert_eq!(chosen(&["model_Q6_K.gguf"], &quant("Q6_K")).0, ["model_Q6_K.gguf"], "some write it so");
    // The name that is it goes before the one that contains it, and then the first by name.
    let paths = ["m-Q8_0-v2.gguf", "n-UD-Q8_0.gguf", "n-Q8_0.gguf"];
    assert_eq!(chosen(&paths, &quant("Q8_0")).0, ["n-Q8_0.gguf"]);
}

#[test]
fn all_parts_come_in_order_whatever_the_list_is() {
    let expected = [
        "UD-Q4_K_XL/big-UD-Q4_K_XL-00001-of-00003.gguf",
        "UD-Q4_K_XL/big-UD-Q4_K_XL-00002-of-00003.gguf",
        "UD-Q4_K_XL/big-UD-Q4_K_XL-00003-of-00003.gguf",
    ];
    assert_eq!(chosen(FOLDERS, &quant("ud-q4_k_xl")).0, expected);
    for part in expected {
        assert_eq!(chosen(FOLDERS, &file(part)).0, expected, "any part stands for all");
    }
    let cut: Vec<&str> = FOLDERS.iter().copied().filter(|path| !path.contains("00002-of-00003")).collect();
    let error = choose(&cut, &quant("UD-Q4_K_XL"), true).unwrap_err();
    assert_eq!(error, NotChosen::PartMissing { file: expected[1].to_owned() });
}

#[test]
fn a_file_is_taken_by_its_path_and_nothing_else() {
    assert_eq!(chosen(FLAT, &file("README.md")).0, ["README.md"]);
    let error = choose(FLAT, &file("flash.gguf"), true).unwrap_err().to_string();
    assert!(error.starts_with("no file \"flash.gguf\"; there are clef-flash.BF16.gguf, "), "{error}");
}

#[test]
fn the_projector_is_the_nearest_and_then_the_best() {
    assert_eq!(chosen(FOLDERS, &quant("Q8_0")).1, Some("Q8_0/mmproj-F32.gguf"));
    assert_eq!(chosen(FOLDERS, &quant("UD-Q4_K_XL")).1, Some("mmproj-F16.gguf"), "not the one in another folder");
    let mut paths = vec!["m-Q8_0.gguf", "mmproj-m-Q4_0.gguf", "m.mmproj-Q8_0.gguf", "mmproj-m-f32.gguf"];
    for best in ["mmproj-m-f32.gguf", "mmproj-m-bf16.gguf", "MMPROJ-M-F16.GGUF"] {
        if !paths.contains(&best) {
            paths.push(best);
        }
        assert_eq!(chosen(&paths, &quant("Q8_0")).1, Some(best));
    }
    assert_eq!(choose(&paths, &quant("Q8_0"), false).unwrap().projector, None);
}

#[test]
fn names_of_parts_are_told_from_other_names() {
    let split = SplitName::parse("f/m-Q4_0-00002-of-00004.gguf").unwrap();
    assert_eq!((split.stem, split.index, split.count), ("f/m-Q4_0", 2, 4));
    assert_eq!(split.part(4), "f/m-Q4_0-00004-of-00004.gguf");
    for name in [
        "",
        "m.gguf",
        "-00001-of-00002.gguf",
        "m-00003-of-00002.gguf",
        "m-00000-of-00002.gguf",
        "m-00000-of-00000.gguf",
        "m-0001-of-0002.gguf",
        "m-+0001-of-00002.gguf",
        "é-00001-of-0000é.gguf",
        "m00001-of-00002.gguf.gguf",
        "m-00001-of-00002.ggu",
        "m_00001-of-00002.gguf",
    ] {
        assert_eq!(SplitName::parse(name), None, "{name}");
    }
}

#[test]
fn no_list_of_names_is_a_panic() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    const PIECES: [&str; 16] = [
        "-",
        ".",
        "/",
        "gguf",
        ".gguf",
        "Q4_K_M",
        "q8_0",
        "mmproj",
        "-00001-of-00002",
        "-99999-of-99999",
        "é",
        "\u{0}",
        "",
        "𝔤",
        "mtp-",
        "F16",
    ];
    for _ in 0..20_000 {
        let names: Vec<String> =
            (0..next(6)).map(|_| (0..next(8)).map(|_| PIECES[next(PIECES.len())]).collect()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for choice in [Choice::Default, quant(PIECES[next(PIECES.len())]), file(PIECES[next(PIECES.len())])] {
            if let Ok(chosen) = choose(&names, &choice, true) {
                assert!(!chosen.parts.is_empty(), "{names:?}");
            }
        }
    }
}
