//! Tells the binaries what they were built from, and refuses to build on another llama.cpp than the pinned one.
//!
//! Why here: everything numeric in this project was verified against one build of llama.cpp, and `cargo update` or an
//! edited requirement would move it without a word.

#[path = "vendor/pin.rs"]
mod pin;

use std::path::Path;
use std::process::Command;

const LOCK: &str = "Cargo.lock";
const PIN: &str = "vendor/llama-cpp-sys-2.pin";
/// Backends that llama.cpp may have beside the CPU's, as Cargo features.
const BACKENDS: [&str; 4] = ["cuda", "metal", "vulkan", "rocm"];

fn main() {
    let pin = read(PIN).and_then(|text| pin::Pin::parse(&text));
    let pin = pin.unwrap_or_else(|problem| panic!("{PIN}: {problem}"));
    if let Err(problem) = read(LOCK).and_then(|lock| pin.check(&lock)) {
        panic!("{problem}");
    }
    println!("cargo:rustc-env=CLEF_LLAMA_BUILD={}", pin.upstream_build);
    println!("cargo:rustc-env=CLEF_BACKENDS={}", backends());

    let sources = sources();
    for path in &sources {
        println!("cargo:rerun-if-changed={path}");
    }
    let revision = revision(&sources).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=CLEF_GIT_REVISION={revision}");
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))
}

fn backends() -> String {
    let set = |name: String| std::env::var_os(name).is_some();
    // On Apple's systems llama.cpp builds Metal unasked.
    let apple = std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor == "apple");
    let built = |name: &&str| set(format!("CARGO_FEATURE_{}", name.to_uppercase())) || (apple && *name == "metal");
    ["cpu"].into_iter().chain(BACKENDS.into_iter().filter(built)).collect::<Vec<_>>().join(",")
}

/// What the binaries are made of: a change to one of these makes a revision dirty, a change to a test does not.
fn sources() -> Vec<String> {
    let mut all =
        ["build.rs", "Cargo.toml", LOCK, ".cargo/config.toml", "src", "vendor/pin.rs", PIN].map(str::to_owned).to_vec();
    let crates = std::fs::read_dir("crates").into_iter().flatten().flatten();
    for folder in crates.filter_map(|entry| entry.file_name().into_string().ok()) {
        all.extend(["Cargo.toml", "build.rs", "src", "shim"].map(|part| format!("crates/{folder}/{part}")));
    }
    // Cargo would run this script each time for a path that is not there.
    all.retain(|path| Path::new(path).exists());
    all.sort();
    all
}

/// The commit's short name, with `-dirty` if `sources` differ from it; none outside a checkout of this project.
fn revision(sources: &[String]) -> Option<String> {
    // An archive unpacked inside somebody else's checkout must not borrow that one's revision.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let revision = git(&["rev-parse", "--short=12", "HEAD"])?;
    // HEAD moves with a checkout, the branch and the log of HEAD with a commit. A branch may be packed away.
    let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"])?;
    for name in ["HEAD", &branch, "logs/HEAD", "packed-refs"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(sources.iter().map(String::as_str));
    let dirty = if git(&status)?.is_empty() { "" } else { "-dirty" };
    Some(format!("{revision}{dirty}"))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
