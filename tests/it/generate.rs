//! `clef generate` and `clef describe`: text from a backbone.
//!
//! The weights are random, so the text is nonsense; what is tested is that it is the model's.

use std::path::{Path, PathBuf};

use clef_api::{ChatMessage, ModelOptions, Repack, Writer};
use clef_llama::Backbone;
use clef_llama::gguf::{Gguf, HeaderWriter, Value as Metadata, VirtualGguf};
use clef_testkit::{Tiny, built_in_model, fixture, project_dir, tiny, tiny_projector};
use serde_json::Value;

use crate::command::{Run, clef};

const PROMPT: &str = "The invoice was paid twice.";

/// `clef generate` on a model, with one thread, taking the most probable tokens.
fn generate(model: &Path, flags: &[&str], input: &str) -> Run {
    run("generate", model, flags, input)
}

fn run(command: &str, model: &Path, flags: &[&str], input: &str) -> Run {
    let mut arguments = vec![command, "-m", model.to_str().unwrap(), "-t", "1", "--no-repack", "--temp", "0"];
    arguments.extend(flags);
    clef(&arguments, input)
}

fn json(run: &Run) -> Value {
    serde_json::from_str(run.succeeds()).unwrap()
}

fn text(run: &Run) -> String {
    json(run)["text"].as_str().unwrap().to_owned()
}

/// Writes a file that another was made of.
fn written(folder: &Path, name: &str, image: &VirtualGguf) -> PathBuf {
    let mut bytes = vec![0; image.length() as usize];
    let mut read = 0;
    while read < bytes.len() {
        read += image.read_at(read as u64, &mut bytes[read..]).unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The random-weight backbone as a plain `qwen35` file without a chat template.
fn plain_backbone(folder: &Path, with_output: bool) -> PathBuf {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let backbone = Backbone::new(&gguf).unwrap();
    let backbone = if with_output { backbone.with_output().unwrap() } else { backbone };
    written(folder, &format!("plain-{with_output}.gguf"), &backbone.to_virtual())
}

#[test]
fn the_most_probable_text_is_the_same_each_time_and_longer_ones_begin_with_it() {
    let model = tiny(Tiny::F32);
    let once = json(&generate(&model, &["--json", "-n", "12", PROMPT], ""));
    assert_eq!(once, json(&generate(&model, &["--json", "-n", "12", "-p", PROMPT], "")));
    let shorter = json(&generate(&model, &["--json", "-n", "5", PROMPT], ""));
    assert!(once["text"].as_str().unwrap().starts_with(shorter["text"].as_str().unwrap()), "{once} {shorter}");
    assert_eq!(shorter["output_tokens"], 5);
    assert_eq!(shorter["stop"], "limit");
    assert_eq!(shorter.as_object().unwrap().len(), 4);
    let none = json(&generate(&model, &["--json", "-n", "0", PROMPT], ""));
    assert_eq!((&none["text"], &none["output_tokens"], &none["stop"]), (&"".into(), &0.into(), &"limit".into()));
}

#[test]
fn what_is_streamed_is_what_the_json_says() {
    let model = tiny(Tiny::F32);
    // Tokens of random weights end within characters; that what was printed is UTF-8 is checked where it is read.
    let flags = ["-n", "60", "--seed", "7", "--temp", "1", "--top-k", "0", "--top-p", "1", PROMPT];
    let streamed = generate(&model, &flags[..], "");
    let whole = generate(&model, &[&["--json"], &flags[..]].concat(), "");
    assert_eq!(streamed.succeeds(), format!("{}\n", text(&whole)));
    assert!(text(&whole).contains(char::REPLACEMENT_CHARACTER), "no token ended within a character: {whole:?}");
}

#[test]
fn a_seed_says_what_chance_does() {
    let model = tiny(Tiny::F32);
    let with_seed =
        |seed: &str| text(&generate(&model, &["--json", "-n", "12", "--temp", "2", "-s", seed, PROMPT], ""));
    let first = with_seed("1");
    assert_eq!(first, with_seed("1"));
    assert_ne!(first, with_seed("2"));
    // With one token to choose from there is no chance.
    let narrow = ["--json", "-n", "12", "--temp", "2", "--top-k", "1", PROMPT];
    assert_eq!(text(&generate(&model, &narrow, "")), text(&generate(&model, &["--json", "-n", "12", PROMPT], "")));
}

#[test]
fn the_files_own_output_matrix_is_used_and_the_embeddings_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--json", "--raw", "-n", "12", PROMPT];
    let of_clef = text(&generate(&tiny(Tiny::F32), &flags, ""));
    let plain = text(&generate(&plain_backbone(folder.path(), true), &flags, ""));
    let tied = text(&generate(&plain_backbone(folder.path(), false), &flags, ""));
    assert_eq!(of_clef, plain);
    assert_ne!(plain, tied);
    // What llama-server b11434 writes with the two files (`/completion` with a temperature of 0).
    assert_eq!(plain, " field terminates\u{e}vedishes local\"},{\"ose\u{b}\u{fffd}Dec modulo");
    assert_eq!(tied, "............");
}

#[test]
fn a_text_ends_where_the_model_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = tiny(Tiny::F32);
    let gguf = Gguf::open(&source).unwrap();
    let flags = |count: &'static str| ["--json", "--raw", "-n", count, PROMPT];
    let [one, two] = ["1", "2"].map(|count| text(&generate(&source, &flags(count), "")));
    // The same file, but that the second token of its text ends texts.
    let second = two.strip_prefix(&one).unwrap();
    let Some(Metadata::Array(tokens)) = gguf.get("tokenizer.ggml.tokens") else { panic!("no vocabulary") };
    let mut named = tokens.strings("tokens").unwrap();
    let written_so = second.replace(' ', "\u{120}");
    let id = named.position(|token| token == written_so.as_bytes()).unwrap();
    let mut header = HeaderWriter::default();
    for key in gguf.keys() {
        if key == "tokenizer.ggml.eos_token_id" { header.put_u32(key, id as u32) } else { header.copy(&gguf, key) }
    }
    let ending = written(folder.path(), "ending.gguf", &header.finish(&gguf, gguf.tensors()));
    let run = json(&generate(&ending, &flags("12"), ""));
    assert_eq!((&run["text"], &run["output_tokens"], &run["stop"]), (&one.into(), &1.into(), &"end".into()));
}

#[test]
fn a_text_ends_where_the_context_is_full() {
    let model = tiny(Tiny::F32);
    let run = json(&generate(&model, &["--json", "-n", "-1", "-c", "24", "--raw", PROMPT], ""));
    let tokens = |key: &str| run[key].as_u64().unwrap();
    assert_eq!(run["stop"], "context");
    // The last one that was written was not read again.
    assert_eq!(tokens("prompt_tokens") + tokens("output_tokens"), 25);
    let refused = generate(&model, &["-c", "4", "--raw", PROMPT], "");
    assert!(refused.fails_with(3).ends_with("tokens, 1 to 4 fit"), "{refused:?}");
    let empty = generate(&model, &["--raw", ""], "");
    assert!(empty.fails_with(3).contains("prompt has 0 tokens"), "{empty:?}");
}

#[test]
fn the_chat_template_of_the_file_says_what_the_model_reads() {
    let options = ModelOptions { threads: Some(1), repack: Repack::Off, ..ModelOptions::default() };
    let writer = Writer::open(&tiny(Tiny::F32), &options, &mut |_, _| true).unwrap();
    let message = |role: &str, text: &str, images| ChatMessage { role: role.to_owned(), text: text.to_owned(), images };
    let messages = [message("system", "Be brief.", 0), message("user", "What is it?", 1)];
    let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n\
        <|vision_start|><|image_pad|><|vision_end|>What is it?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(writer.render(writer.template().unwrap(), &messages, false).unwrap(), expected);

    // On the command line, the same as giving that text.
    let raw = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n\
        <think>\n\n</think>\n\n";
    let model = tiny(Tiny::F32);
    let spoken = json(&generate(&model, &["--json", "-n", "8", "--jinja", "--system", "Be brief.", "Hello"], ""));
    assert_eq!(spoken, json(&generate(&model, &["--json", "-n", "8", "--raw", raw], "")));
    assert_eq!(spoken, json(&generate(&model, &["--json", "-n", "8", "--raw", "-"], &format!("{raw}\n"))));
}

#[test]
fn a_template_file_goes_before_the_models_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.jinja");
    let with_template = |source: &str| {
        std::fs::write(&path, source).unwrap();
        let flags = ["--json", "-n", "8", "--chat-template-file", path.to_str().unwrap(), "Hello"];
        generate(&plain_backbone(folder.path(), true), &flags, "")
    };
    let model = tiny(Tiny::F32);
    let expected = json(&generate(&model, &["--json", "-n", "8", "--raw", "user: Hello\nfalse"], ""));
    let source = "{{ messages[0].role }}: {{ messages[0].content }}\n{{ enable_thinking | tojson }}";
    assert_eq!(json(&with_template(source)), expected);
    let damaged = with_template("{% for %}\n");
    assert!(damaged.fails_with(1).contains("chat.jinja: line 1:"), "{damaged:?}");
    let unwilling = with_template("\n{{ raise_exception('only tools') }}");
    assert!(unwilling.fails_with(1).ends_with("chat.jinja: line 2: only tools"), "{unwilling:?}");
    let endless = with_template("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}");
    assert!(endless.fails_with(1).contains("steps"), "{endless:?}");
    // Forty steps are few, and a text that doubles in each has a terabyte.
    let greedy = with_template(
        "{% set all = namespace(x='a') %}{% for i in range(40) %}{% set all.x = all.x + all.x %}{% endfor %}{{ all.x }}",
    );
    assert_eq!(greedy.fails_with(1), "error: the chat template takes more than 1024 MiB of memory");
    // What it makes is not turned into tokens if they cannot fit.
    let long = with_template("{{ 'hello world ' * 5000000 }}");
    assert!(long.fails_with(3).starts_with("error: the prompt has at least "), "{long:?}");

    let without = generate(&plain_backbone(folder.path(), true), &["Hello"], "");
    assert!(without.fails_with(1).contains("no chat template; give one with --chat-template-file"), "{without:?}");
    let missing = generate(&model, &["--chat-template-file", "/nonexistent/chat.jinja", "Hello"], "");
    assert!(missing.fails_with(1).contains("/nonexistent/chat.jinja"), "{missing:?}");
}

#[test]
fn a_picture_is_read_where_the_prompt_has_it() {
    let (model, projector) = (tiny(Tiny::F32), tiny_projector());
    let describe = |picture: &str, flags: &[&str]| {
        let picture = fixture(picture);
        let mut all = vec!["--json", "-n", "16", "--mmproj", projector.to_str().unwrap()];
        all.extend(["--image", picture.to_str().unwrap()]);
        all.extend(flags);
        json(&run("describe", &model, &all, ""))
    };
    let gradient = describe("images/gradient-256x256.png", &[]);
    assert_eq!(gradient, describe("images/gradient-256x256.png", &["Describe the image."]));
    let shapes = describe("images/shapes-512x384.png", &[]);
    assert_ne!(gradient["text"], shapes["text"]);
    // 8 by 8 tokens and one at each end; 16 by 12.
    let blind = json(&generate(&model, &["--json", "-n", "16", "Describe the image."], ""));
    let tokens = |run: &Value| run["prompt_tokens"].as_u64().unwrap();
    assert_eq!(tokens(&gradient), tokens(&blind) + 8 * 8 + 2);
    assert_eq!(tokens(&shapes), tokens(&blind) + 16 * 12 + 2);

    let raw = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|>\n\
        <|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(gradient, describe("images/gradient-256x256.png", &["--raw", raw]));
}

#[test]
fn pictures_that_cannot_be_shown_are_refused_in_a_line() {
    let (model, projector) = (tiny(Tiny::F32), tiny_projector());
    let picture = fixture("images/gradient-64x64.png");
    let (projector, picture) = (projector.to_str().unwrap(), picture.to_str().unwrap());
    let no_projector = run("describe", &model, &["--image", picture], "");
    assert!(no_projector.fails_with(2).contains("--mmproj"), "{no_projector:?}");
    let missing = run("describe", &model, &["--mmproj", projector, "--image", "/nonexistent.png"], "");
    assert!(missing.fails_with(1).contains("/nonexistent.png"), "{missing:?}");
    let foreign = run("describe", &model, &["--mmproj", projector, "--image", file!()], "");
    assert!(foreign.fails_with(3).contains("generate.rs"), "{foreign:?}");
    let nowhere = generate(&model, &["--mmproj", projector, "--image", picture, "--raw", "Hello"], "");
    let line = nowhere.fails_with(3);
    assert!(line.ends_with("the prompt has 0 places for images, and there are 1"), "{line}");
    let too_many = run("describe", &model, &["-c", "64", "--mmproj", projector, "--image", picture], "");
    assert!(too_many.fails_with(3).ends_with("tokens, 1 to 64 fit"), "{too_many:?}");
}

#[test]
fn wrong_command_lines_about_text_end_with_code_2() {
    for arguments in [
        &["describe"][..],
        &["generate", "--temp", "warm", "Hi"],
        &["generate", "--temp", "-1", "Hi"],
        &["generate", "--temp", "nan", "Hi"],
        &["generate", "--top-p", "1.5", "Hi"],
        &["generate", "-n", "-2", "Hi"],
        &["generate", "--raw", "--system", "x", "Hi"],
        &["generate", "Hi", "-p", "Hi"],
    ] {
        let run = clef(arguments, "");
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    }
}

#[test]
fn the_readmes_example_prints_what_the_readme_says() {
    let readme = std::fs::read_to_string(project_dir().join("README.md")).unwrap();
    let shown = readme.split("<!-- generate output -->").nth(1).unwrap();
    let shown = shown.split("```").nth(1).unwrap().strip_prefix("json\n").unwrap();
    let prompt = "I was charged twice for my order.";
    assert!(readme.contains(&format!("clef generate --raw --temp 0 -n 8 --json \"{prompt}\"")));
    let run = clef(&["generate", "-t", "1", "--raw", "--temp", "0", "-n", "8", "--json", prompt], "");
    assert_eq!(run.succeeds(), shown);
}

#[test]
fn the_built_in_toy_says_that_it_is_one() {
    let run = clef(&["generate", "-t", "1", "--temp", "0", "-n", "4", "-"], "Customer message:\n");
    run.succeeds();
    assert!(run.stderr.contains("a toy") && run.stderr.lines().count() == 1, "{run:?}");
    let named = clef(&["generate", "-m", built_in_model().to_str().unwrap(), "-n", "4", "-"], "Hello");
    assert_eq!((named.code, named.stderr.as_str()), (Some(0), ""));
}
