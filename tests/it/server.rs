//! `clef-server` as people start it, ask it and end it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use clef_testkit::{built_in_model, generated_dir, project_dir};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{clef, in_clean_environment};
use crate::serving::{Running, clef_server, read, serving};

const SMALL: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#;

fn example() -> String {
    std::fs::read_to_string(project_dir().join("examples/customer-message.json")).unwrap()
}

#[test]
fn a_llama_server_start_line_serves_what_clef_decide_prints() {
    let line = "--host 127.0.0.1 -ngl 99 -c 4096 -np 4 -fa on --metrics --jinja --temp 0.7 -ctk q8_0 -ctv q8_0";
    let server = serving(&line.split(' ').collect::<Vec<_>>());
    let answer = server.post("/v1/systemone", &example());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("x-typesafe-request-id").is_some() && answer.header("server-timing").is_some(), "{answer:?}");
    let model = built_in_model();
    let flags = [
        "decide",
        "-m",
        model.to_str().unwrap(),
        "-t",
        "1",
        "-c",
        "4096",
        "-fa",
        "on",
        "-ctk",
        "q8_0",
        "-ctv",
        "q8_0",
        "-",
    ];
    assert_eq!(format!("{}\n", answer.body), clef(&flags, &example()).succeeds());
    // All but the fixed prefix.
    assert!(server.get("/metrics").body.contains("llamacpp:prompt_tokens_total 272"));
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    assert!(warnings.len() == 1 && warnings[0].ends_with(": --jinja --temp"), "{warnings:?}");
}

#[test]
fn the_servers_own_endpoints_tell_about_the_model() {
    let server = serving(&["--alias", "nano", "-c", "0", "--warmup"]);
    assert_eq!(server.get("/health").body, r#"{"status":"ok"}"#);
    let models = server.get("/v1/models").json();
    let (data, listed) = (&models["data"][0], &models["models"][0]);
    assert_eq!(data["id"], "nano");
    assert_eq!(data["meta"]["n_ctx"], 32_768);
    assert_eq!(data["meta"]["n_vocab"], 5_120);
    assert_eq!(data["meta"]["n_embd"], 256);
    assert_eq!(data["architecture"]["input_modalities"], json!(["text"]));
    assert_eq!(listed["details"]["quantization_level"], "Q8_0");
    for field in ["name", "description", "release_date"] {
        assert!(listed[field].is_string(), "{field}: {listed}");
    }
    let props = server.get("/props").json();
    assert_eq!(props["model_alias"], "nano");
    assert!(props["model_path"].as_str().unwrap().ends_with("clef-nano-Q8_0.gguf"), "{props}");
    assert!(props["build_info"].as_str().unwrap().starts_with("b11434"), "{props}");
    assert_eq!(server.get("/slots").json()[0]["is_processing"], json!(false));
    assert_eq!(server.get("/metrics").status, 501);
    assert_eq!(server.get("/nothing").status, 404);
}

#[test]
fn tokens_of_a_text_spell_it_again() {
    let server = serving(&[]);
    let text = "Größe: 10 µm\n\t<|im_end|> 日本 👍🏽";
    let pieces = server.post("/tokenize", &json!({"content": text, "with_pieces": true}).to_string()).json();
    let ids: Vec<i64> =
        pieces["tokens"].as_array().unwrap().iter().map(|token| token["id"].as_i64().unwrap()).collect();
    let special = pieces["tokens"].as_array().unwrap().iter().any(|token| token["piece"] == "<|im_end|>");
    assert!(special, "{pieces}");
    let spelled = server.post("/detokenize", &json!({"tokens": ids}).to_string()).json();
    assert_eq!(spelled["content"], text);
    let plain = server.post("/tokenize", &json!({"content": "<|im_end|>", "parse_special": false}).to_string()).json();
    assert!(plain["tokens"].as_array().unwrap().len() > 1, "{plain}");
}

#[test]
fn a_key_is_asked_for_everywhere_but_for_health_and_never_logged() {
    let file = generated_dir().join(format!("keys-{}.txt", std::process::id()));
    std::fs::write(&file, "# a comment\nkey-of-a-file\n").unwrap();
    let server = serving(&["--api-key", "first-key,second-key", "--api-key-file", file.to_str().unwrap(), "-lv", "4"]);
    std::fs::remove_file(file).unwrap();
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.post("/v1/systemone", SMALL).status, 401);
    assert_eq!(server.get("/v1/models").status, 401);
    assert_eq!(server.post_with_key("/v1/systemone", "wrong-key", SMALL).status, 401);
    for key in ["first-key", "second-key", "key-of-a-file"] {
        assert_eq!(server.post_with_key("/v1/systemone", key, SMALL).status, 200, "{key}");
    }
    let (_, log) = server.terminate();
    assert!(!log.contains("-key") && !log.contains("key-of"), "{log}");
}

#[test]
fn a_log_of_json_has_an_object_a_line_and_goes_to_the_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.jsonl");
    // A model that is not there: such a server ends by itself, with the reason in its log.
    let flags = ["-m", "/nonexistent.gguf", "--port", "0", "--log-jsonl", "--log-file", file.to_str().unwrap()];
    let run = clef_server(&flags);
    assert_eq!(run.code, Some(1), "{run:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(!written.is_empty() && written.lines().count() == run.stdout.lines().count(), "{run:?}");
    for line in run.stdout.lines().chain(written.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(
            object["level"].is_string() && object["timestamp"].is_string() && object["message"].is_string(),
            "{line}"
        );
    }
    assert!(written.contains("bound to http://127.0.0.1:") && written.contains("/nonexistent.gguf"), "{written}");
}

#[test]
fn a_unix_socket_serves_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clef.sock");
    let server = Running::on_a_socket(&path);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.post("/v1/systemone", SMALL).status, 200);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(!path.exists());
}

#[test]
fn while_the_model_loads_every_route_says_so_and_sigterm_ends_it() {
    let server = Running::on_a_port(&["--debug-hooks", "load-delay=60000", "--api-key", "k"]);
    for path in ["/health", "/v1/models", "/props", "/nothing"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert_eq!(
            answer.json()["error"],
            json!({"code": 503, "message": "Loading model", "type": "unavailable_error"}),
            "{path}"
        );
    }
    assert_eq!(server.post("/v1/systemone", SMALL).status, 503);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn sigterm_lets_running_requests_finish() {
    let mut server = serving(&["--debug-hooks", "request-delay=500"]);
    let mut stream = server.begin("/v1/systemone", SMALL);
    // Whoever is asked for slots has seen the request before.
    while server.get("/slots").json()[0]["is_processing"] == json!(false) {}
    server.send(Signal::SIGINT);
    server.wait_for("told to end");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(read(&answer).status, 200, "{answer}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = serving(&["--debug-hooks", "request-delay=60000"]);
    let _stream = server.begin("/v1/systemone", SMALL);
    while server.get("/slots").json()[0]["is_processing"] == json!(false) {}
    let start = Instant::now();
    server.send(Signal::SIGTERM);
    server.wait_for("told to end");
    server.send(Signal::SIGTERM);
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_lost_engine_ends_the_program_with_a_code_for_its_supervisor() {
    let server = serving(&["--debug-hooks", "die-after=1"]);
    assert_eq!(server.post("/v1/systemone", SMALL).status, 200);
    assert!(server.post("/v1/systemone", SMALL).status >= 500);
    assert_eq!(server.get("/health").status, 503);
    let (code, log) = server.end();
    assert_eq!(code, Some(70), "{log}");
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let mut child = in_clean_environment(env!("CARGO_BIN_EXE_clef-server"))
        .args(["--port", "0", "-t", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().to_owned();
    // Several times what the pipe of the log holds.
    for _ in 0..1_000 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_model_that_cannot_be_loaded_is_one_line_of_error_and_code_1() {
    let damaged = generated_dir().join(format!("served-{}.gguf", std::process::id()));
    let whole = std::fs::read(built_in_model()).unwrap();
    std::fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    for path in [damaged.to_str().unwrap(), "/nonexistent.gguf"] {
        let run = clef_server(&["-m", path, "--host", "127.0.0.1", "--port", "0", "--log-disable"]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.lines().count() == 1, "{run:?}");
        assert!(run.stderr.contains(path), "{run:?}");
    }
    std::fs::remove_file(damaged).unwrap();
}

#[test]
fn an_address_that_is_taken_is_one_line_of_error_and_code_1() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let run = clef_server(&["--port", &port, "--log-disable"]);
    let line = run.fails_with(1);
    assert!(line.contains(&port), "{line}");
}

#[test]
fn wrong_command_lines_end_with_llama_servers_words_and_code_1() {
    for (flags, words) in [
        (&["--prot", "80"][..], "error: invalid argument: --prot\ndid you mean --port?\n"),
        (&["--models-dir", "x"], "error: --models-dir \"x\" is not available in this version\n"),
        (&["-hf", "a/b", "-m", "x"], "error: give one of --model, --hf-repo and --model-url\n"),
        (&["--port", "x"], "error: --port \"x\": expected a whole number from 0 to 65535\n"),
        (&["--ssl-key-file", "x"], "error: --ssl-key-file needs --ssl-cert-file\n"),
    ] {
        let run = clef_server(flags);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(1), "", words));
    }
    let run = clef_server(&["--lora", "x"]);
    assert!(run.stderr.starts_with("error: invalid argument: --lora\n") && run.code == Some(1), "{run:?}");
}

#[test]
fn what_is_asked_about_the_program_is_printed() {
    let version = clef_server(&["--version"]);
    assert!(version.succeeds().starts_with(concat!("clef-server ", env!("CARGO_PKG_VERSION"))), "{version:?}");
    assert!(version.stdout.contains("llama.cpp b11434\nbackends: cpu"), "{version:?}");
    let devices = clef_server(&["--list-devices"]);
    assert!(devices.succeeds().starts_with("Available devices:\n  "), "{devices:?}");
    for spelling in ["-h", "--help", "--usage"] {
        let help = clef_server(&[spelling]);
        assert!(help.succeeds().contains("Common params:") && help.stdout.contains("Server params:"), "{help:?}");
    }
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let completions = clef_server(&["--completions", shell]);
        assert!(completions.succeeds().contains("ctx-size"), "{shell}: {completions:?}");
    }
    let man = clef_server(&["--man"]);
    assert!(man.succeeds().contains(".TH clef-server 1") && man.stdout.contains("LLAMA_ARG_CTX_SIZE"), "{man:?}");
}

#[test]
fn the_documented_table_of_flags_is_the_generated_one() {
    let docs = std::fs::read_to_string(project_dir().join("docs/server.md")).unwrap();
    let shown = docs.split("<!-- flags -->\n").nth(1).expect("docs/server.md has its table between two <!-- flags -->");
    let generated = clef_server(&["--help-markdown"]);
    assert!(
        shown == generated.succeeds(),
        "docs/server.md differs from what `clef-server --help-markdown` prints; put that between the two marks"
    );
}

#[test]
fn the_readmes_curl_example_gets_the_answer_that_it_shows() {
    let readme = std::fs::read_to_string(project_dir().join("README.md")).unwrap();
    let block = |mark: &str| {
        let rest = readme.split(mark).nth(1).unwrap_or_else(|| panic!("README.md has {mark}"));
        rest.split("```").nth(1).unwrap().split_once('\n').unwrap().1.to_owned()
    };
    assert!(block("<!-- curl -->").trim_end().ends_with("/v1/systemone -d @examples/customer-message.json"));
    let server = serving(&["--alias", "clef-nano"]);
    let answer = server.post("/v1/systemone", &example()).json();
    let shown: Value = serde_json::from_str(&block("<!-- curl output -->")).unwrap();
    assert_near(&answer, &shown);
}

/// Equal but for the last digits of numbers, which depend on a CPU's kernels.
#[track_caller]
fn assert_near(ours: &Value, shown: &Value) {
    match (ours, shown) {
        (Value::Object(ours), Value::Object(shown)) => {
            assert!(ours.keys().eq(shown.keys()), "{ours:?} {shown:?}");
            ours.values().zip(shown.values()).for_each(|(ours, shown)| assert_near(ours, shown));
        }
        (Value::Number(ours), Value::Number(shown)) => {
            let (ours, shown) = (ours.as_f64().unwrap(), shown.as_f64().unwrap());
            assert!((ours - shown).abs() <= 5e-3, "{ours} {shown}");
        }
        _ => assert_eq!(ours, shown),
    }
}
