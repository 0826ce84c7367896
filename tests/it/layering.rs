//! The walls of the house: who may depend on whom, and where `unsafe` may stand.
//!
//! Three sentences hold the design together: *http never sees a model; engine never sees llama.cpp or HTTP; only sys
//! and llama contain unsafe.* A compiler checks none of them, so these tests do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use clef_testkit::project_dir;
use serde_json::Value;

#[path = "../../vendor/pin.rs"]
mod pin;

/// The crates that each crate may be built on. A crate that is not named here is refused.
const ARROWS: [(&str, &[&str]); 14] = [
    ("clef-record", &[]),
    ("clef-media", &[]),
    ("clef-hub", &[]),
    ("clef-eval", &["clef-record"]),
    ("clef-encoder", &["clef-record"]),
    ("clef-sys", &["llama-cpp-sys-2"]),
    ("clef-llama", &["clef-sys"]),
    ("clef-head", &["clef-llama"]),
    ("clef-engine", &["clef-record"]),
    ("clef-model", &["clef-encoder", "clef-engine", "clef-head", "clef-llama", "clef-media", "clef-record"]),
    ("clef-api", &["clef-engine", "clef-model", "clef-record"]),
    ("clef-http", &["clef-engine", "clef-record"]),
    ("clef-server", &["clef-api", "clef-engine", "clef-eval", "clef-http", "clef-hub", "clef-model"]),
    // Tests only: what it is built on itself is named so that it stays small.
    ("clef-testkit", &["clef-engine", "clef-llama", "clef-record"]),
];
const LLAMA_CPP: &str = "llama-cpp-sys-2";
const UNSAFE_ROOMS: [&str; 2] = ["crates/llama", "crates/sys"];

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    let arrows = BTreeMap::from(ARROWS);
    let packages = packages();
    let mut wrong = Vec::new();
    for (package, dependencies) in &packages {
        let Some(allowed) = arrows.get(package.as_str()) else {
            wrong.push(format!("{package} is not in the list of crates"));
            continue;
        };
        for (dependency, kind) in dependencies {
            let ours = packages.contains_key(dependency) || dependency == LLAMA_CPP;
            if kind == "dev" {
                if dependency == LLAMA_CPP {
                    wrong.push(format!("{package} tests against {LLAMA_CPP} itself"));
                }
            } else if dependency == "clef-testkit" {
                wrong.push(format!("{package} is built on clef-testkit, which is for tests"));
            } else if ours && (kind != "normal" || !allowed.contains(&dependency.as_str())) {
                wrong.push(format!("{package} -> {dependency} ({kind})"));
            }
        }
    }
    assert!(wrong.is_empty(), "these arrows are not in the design:\n{}", wrong.join("\n"));
}

#[test]
fn packages_are_named_after_their_folders_and_say_who_may_depend_on_them() {
    let root = project_dir();
    let packages = packages();
    for folder in folders(&root.join("crates")) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(packages.contains_key(&format!("clef-{name}")), "crates/{name} does not hold the package clef-{name}");
        let readme = folder.join("README.md");
        let text = std::fs::read_to_string(&readme).unwrap_or_else(|e| panic!("{}: {e}", readme.display()));
        assert!(text.contains("depend on it"), "{} does not say who may depend on the crate", readme.display());
        assert!(text.lines().count() <= 12, "{} is longer than a page of ten lines", readme.display());
    }
}

#[test]
fn unsafe_stands_in_sys_and_llama_only() {
    let root = project_dir();
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    assert!(files.iter().any(|file| file.ends_with("crates/llama/src/context.rs")), "the walk found {files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        if UNSAFE_ROOMS.iter().any(|room| relative.starts_with(room)) {
            continue;
        }
        let code = code_only(&std::fs::read_to_string(&file).unwrap());
        for (index, line) in code.lines().enumerate() {
            if words(line).any(|word| word == "unsafe") {
                wrong.push(format!("{}:{}", relative.display(), index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe outside {UNSAFE_ROOMS:?}:\n{}", wrong.join("\n"));
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = r####"
        // unsafe
        /* unsafe /* unsafe */ unsafe */
        let a = "unsafe \" unsafe"; let b = r#"unsafe " unsafe"#; let c = b"unsafe";
        let quote = '"'; let escaped = '\''; let lifetime: &'static str = "unsafe";
        #[allow(unsafe_code)] fn r#unsafe() {}
    "####;
    let code = code_only(source);
    assert_eq!(code.lines().count(), source.lines().count(), "line numbers are kept");
    let found: Vec<&str> = code.lines().filter(|line| words(line).any(|word| word == "unsafe")).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(code.contains("lifetime") && code.contains("unsafe_code"), "{code}");
    assert!(words(&code_only("let q = '\"'; unsafe {} // x")).any(|word| word == "unsafe"));
    assert!(words(&code_only("fn f<'a>(x: &'a str) { unsafe { g('a') } }")).any(|word| word == "unsafe"));
}

#[test]
fn the_pin_names_the_llama_cpp_that_is_built() {
    let root = project_dir();
    let pin = pin::Pin::parse(&std::fs::read_to_string(root.join("vendor/llama-cpp-sys-2.pin")).unwrap()).unwrap();
    assert_eq!(pin.name, LLAMA_CPP);
    assert_eq!(pin.upstream_build, clef_api::LLAMA_CPP_BUILD);
    pin.check(&std::fs::read_to_string(root.join("Cargo.lock")).unwrap()).unwrap();
}

#[test]
fn another_llama_cpp_than_the_pinned_one_is_refused_by_name() {
    let pin = pin::Pin::parse("# words\ncrate = a\nversion = 1.0\nchecksum = 12ab\nupstream-build = b1\n").unwrap();
    let lock = |version: &str, checksum: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"a-b\"\nversion = \"7\"\n\n\
             [[package]]\nname = \"a\"\nversion = \"{version}\"\nsource = \"x\"\n{checksum}\n"
        )
    };
    let right = lock("1.0", "checksum = \"12ab\"");
    assert_eq!(pin.check(&right), Ok(()));
    for (lock, expected) in [
        (lock("1.1", "checksum = \"12ab\""), "has 1.1 (checksum 12ab)"),
        (lock("1.0", "checksum = \"ffff\""), "has 1.0 (checksum ffff)"),
        (lock("1.0", ""), "has 1.0 (checksum none)"),
        (right.clone() + &lock("2.0", ""), "has 1.0 (checksum 12ab) and 2.0 (checksum none)"),
        (String::new(), "has no such package"),
    ] {
        let problem = pin.check(&lock).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains("pinned to 1.0 (checksum 12ab)") && problem.contains("vendor/README.md"), "{problem}");
    }
    assert_eq!(pin::Pin::parse("crate = a\n"), Err("the pin file states no version".to_owned()));
}

/// The workspace's packages, each with the names and kinds of what it depends on.
fn packages() -> BTreeMap<String, Vec<(String, String)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(project_dir())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dependency =
        |value: &Value| (text(&value["name"]).unwrap(), text(&value["kind"]).unwrap_or_else(|| "normal".to_owned()));
    let package = |value: &Value| {
        let dependencies = value["dependencies"].as_array().unwrap().iter().map(dependency).collect();
        (text(&value["name"]).unwrap(), dependencies)
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Collects the sources below `folder`, but for build outputs (Cargo marks their root) and hidden folders.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && !path.join("CACHEDIR.TAG").exists() {
                rust_files(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Identifiers and keywords; raw identifiers keep their mark, so `r#unsafe` is another word.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#')).map(|word| word.trim_start_matches('#'))
}

/// Source with comments, strings and character literals blanked; lines stay where they are.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest, code.chars().next_back()).unwrap_or(0);
        let (skip, tail) = rest.split_at(length);
        if skip.is_empty() {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(skip.chars().filter(|&c| c == '\n'));
            rest = tail;
        }
    }
    code
}

/// The length of the comment, string or character literal that `text` opens with, if it opens with one.
fn skipped(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        let (mut depth, mut at) = (0_usize, 0);
        while at < text.len() {
            let step = match text.as_bytes().get(at..at + 2) {
                Some(b"/*") => {
                    depth += 1;
                    2
                }
                Some(b"*/") => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
            at += step;
            if depth == 0 {
                return Some(at);
            }
        }
        return Some(text.len());
    }
    let inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let Some(raw) = text.strip_prefix('r').filter(|_| !inside_word || before == Some('b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = &raw[hashes + 1..];
            return Some(body.find(&close).map_or(text.len(), |end| 2 + hashes + end + close.len()));
        }
    }
    if text.starts_with('"') {
        let mut escaped = false;
        let end = text.char_indices().skip(1).find(|&(_, c)| {
            let closes = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        return Some(end.map_or(text.len(), |(index, _)| index + 1));
    }
    let body = text.strip_prefix('\'')?;
    if body.starts_with('\\') {
        // The escaped character itself may be a quote.
        return body[2..].find('\'').map(|end| end + 4);
    }
    // A character literal, unless it is a lifetime.
    let mut characters = body.chars();
    let length = characters.next()?.len_utf8();
    (characters.next() == Some('\'')).then_some(length + 2)
}
