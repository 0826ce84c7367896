//! Pictures over the wire: in every shape and format a client may send, to a server that runs.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clef_testkit::{Tiny, bitmap, fixture, project_dir, tiny, tiny_projector};
use serde_json::{Value, json};

use crate::serving::{Answer, Running, clef_server, serving};

/// A server that sees, of small enough images that every one of them is quick.
fn seeing(flags: &[&str]) -> Running {
    let (model, projector) = (tiny(Tiny::F32), tiny_projector());
    let mut all = vec!["-m", model.to_str().unwrap(), "--mmproj", projector.to_str().unwrap()];
    all.extend(["--image-max-tokens", "512"]);
    all.extend(flags);
    serving(&all)
}

fn url(file: &[u8]) -> String {
    format!("data:image/whatever;base64,{}", STANDARD.encode(file))
}

fn body(images: &Value) -> String {
    json!({"state": "See the picture.", "images": images, "questions": {"table": {"type": "noul"}}}).to_string()
}

fn ask(server: &Running, files: &[&[u8]]) -> Answer {
    server.post("/v1/systemone", &body(&json!(files.iter().map(|file| url(file)).collect::<Vec<_>>())))
}

fn tokens(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["usage"]["input_tokens"].as_u64().unwrap()
}

fn still_answers(server: &Running) {
    let answer = server.post("/v1/systemone", r#"{"state": "x", "questions": {"ok": {"type": "noul"}}}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[track_caller]
fn assert_refused(answer: &Answer, words: &[&str]) {
    assert_eq!(answer.status, 422, "{answer:?}");
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(answer.body.len() < 2048);
    assert_eq!(answer.json()["detail"][0]["loc"][1], "images", "{}", answer.body);
}

#[test]
fn shapes_are_answered_or_refused_by_name() {
    let server = seeing(&[]);
    let gray = |width, height| bitmap(width, height, |x, y| [(x + y) as u8; 3]);
    let text = tokens(&server.post("/v1/systemone", &body(&Value::Null)));
    // Media take two tokens around each picture and one behind all.
    for (width, height, shown) in
        [(1, 1, 64), (300, 300, 81), (27, 257, 8 * 9 + 8), (300, 2, 0), (640, 480, 300), (2048, 1024, 512)]
    {
        let answer = ask(&server, &[&gray(width, height)]);
        if shown > 0 && width != 27 {
            assert_eq!(tokens(&answer), text + shown + 3, "{width}x{height}");
        } else {
            assert!(tokens(&answer) > text + 64, "{width}x{height}");
        }
    }
    assert_refused(&ask(&server, &[&gray(2, 5000)]), &["images.0: longer side is 2500.0 times", "the limit is 200"]);
    assert_refused(&ask(&server, &[&gray(301, 1)]), &["longer side is 301.0 times"]);
    still_answers(&server);
}

#[test]
fn what_a_header_declares_is_held_against_the_limits_at_once() {
    let server = seeing(&[]);
    // A PNG of nothing but a header, for 64,250 x 64,250 pixels; and a bitmap of 8,192 x 8,192.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([0, 0, 0xfa, 0xfa, 0, 0, 0xfa, 0xfa, 8, 2, 0, 0, 0, 0x3c, 0x51, 0xd8, 0x5c]);
    let mut large = bitmap(1, 1, |_, _| [0; 3]);
    large[18..26].copy_from_slice(&[0, 32, 0, 0, 0, 32, 0, 0]);
    for (file, words) in [(png, "4,128,062,500 pixels"), (large, "67,108,864 pixels")] {
        let start = Instant::now();
        let answer = ask(&server, &[&file]);
        // The machine may be busy: decoding that many pixels would take far longer.
        assert!(start.elapsed() < Duration::from_secs(2));
        if answer.json()["error"]["message"].as_str().unwrap().contains("damaged") {
            assert_eq!(answer.status, 422);
        } else {
            assert_refused(&answer, &["images.0: picture is", words, "the limit is 16,777,216"]);
        }
    }
    still_answers(&server);
}

#[test]
fn every_format_is_its_pixels_or_refused() {
    let server = seeing(&[]);
    let folder = project_dir().join("crates/media/tests/fixtures");
    let mut answered = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains(".expected.") {
            continue;
        }
        let file = std::fs::read(&path).unwrap();
        let answer = ask(&server, &[&file]);
        let expected = folder.join(format!("{name}.expected.png"));
        if !expected.exists() {
            assert!([200, 422].contains(&answer.status), "{name}: {answer:?}");
            continue;
        }
        let other = ask(&server, &[&std::fs::read(expected).unwrap()]);
        assert_eq!((answer.status, other.status), (200, 200), "{name}: {answer:?}");
        let noul = |answer: &Answer| answer.json()["answers"]["table"]["noul"].as_f64().unwrap();
        // Decoders of JPEG differ by a few levels; on a picture that is enlarged so much that shows.
        let tolerance = if name.ends_with(".jpg") { 2.5e-2 } else { 6e-3 };
        assert!((noul(&answer) - noul(&other)).abs() < tolerance, "{name}: {} and {}", noul(&answer), noul(&other));
        answered += 1;
    }
    assert!(answered > 30, "{answered} files have the pixels that the reference's decoder makes");
    for (name, file) in [
        ("a HEIC", &b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"[..]),
        ("an AVIF", b"\0\0\0\x18ftypavif\0\0\0\0mif1avif"),
        ("an SVG drawing", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("a PDF document", b"%PDF-1.7\n"),
        ("a TIFF", b"II*\0\x08\0\0\0\0\0"),
        ("has no bytes", b" "),
    ] {
        if name == "has no bytes" {
            assert_refused(&server.post("/v1/systemone", &body(&json!(["data:image/png;base64,"]))), &["images.0"]);
        } else {
            assert_refused(&ask(&server, &[file]), &["images.0", name]);
        }
    }
    let photo = std::fs::read(fixture("images/shapes-1024x768.jpg")).unwrap();
    for cut in [20, 500, photo.len() / 2, photo.len() - 2] {
        assert_refused(&ask(&server, &[&photo[..cut]]), &["images.0"]);
    }
    still_answers(&server);
}

#[test]
fn pictures_are_counted_and_their_urls_never_read_as_text() {
    let server = seeing(&[]);
    let file = std::fs::read(fixture("images/gradient-64x64.png")).unwrap();
    let text = tokens(&server.post("/v1/systemone", &body(&Value::Null)));
    for count in 1..=8 {
        let files = vec![file.as_slice(); count];
        assert_eq!(tokens(&ask(&server, &files)), text + 66 * count as u64 + 1);
    }
    assert_refused(&ask(&server, &[file.as_slice(); 9]), &["9 pictures", "the limit is 8"]);
    for (wrong, words) in [
        ("https://example.com/cat.png", "is a \"https:\" URL and nothing is fetched"),
        (&STANDARD.encode(&file), "base64 without \"data:image/png;base64,\""),
        ("cat.png", "some other text"),
    ] {
        assert_refused(&server.post("/v1/systemone", &body(&json!([wrong]))), &["images.0", words]);
    }
    // Taken out of messages, and never 100,000 tokens of base64.
    let shapes = url(&std::fs::read(fixture("images/shapes-512x384.png")).unwrap());
    let part = json!({"type": "image_url", "image_url": {"url": shapes}});
    let said = json!({"type": "text", "text": "See the picture."});
    for state in [
        json!([{"role": "user", "content": [said, part]}]),
        json!({"messages": [{"role": "user", "content": [part, said]}]}),
        json!([part, said]),
    ] {
        let request = json!({"state": state, "questions": {"table": {"type": "noul"}}});
        let count = tokens(&server.post("/v1/systemone", &request.to_string()));
        assert!((192..192 + 300).contains(&count), "{count} tokens");
    }
    let nested = json!({"state": {"deep": {"er": [part]}}, "questions": {"table": {"type": "noul"}}});
    let answer = server.post("/v1/systemone", &nested.to_string());
    assert_eq!(answer.status, 422, "{answer:?}");
}

#[test]
fn seeing_is_told_by_the_models_card_and_its_time_by_a_header() {
    let server = seeing(&[]);
    let models = server.get("/v1/models").json();
    assert_eq!(models["data"][0]["architecture"]["input_modalities"], json!(["text", "image", "video"]));
    assert_eq!(server.get("/props").json()["modalities"], json!({"vision": true, "audio": false, "video": true}));
    let file = std::fs::read(fixture("images/shapes-512x384.png")).unwrap();
    let media = |answer: &Answer| {
        let timing = answer.header("server-timing").unwrap().to_owned();
        let media = timing.split(',').find_map(|part| part.trim().strip_prefix("media;dur=")).unwrap();
        media.parse::<f64>().unwrap()
    };
    assert!(media(&ask(&server, &[&file])) > 0.0);
    assert_eq!(media(&ask(&server, &[&file])), 0.0);
    let blind = serving(&["--mmproj", tiny_projector().to_str().unwrap(), "--no-mmproj"]);
    assert_eq!(blind.get("/props").json()["modalities"]["vision"], false);
    let answer = ask(&blind, &[&file]);
    assert_eq!(answer.status, 501);
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("images.0: no projector is loaded") && message.ends_with("--mmproj FILE"), "{message}");
    assert_eq!(answer.json()["error"]["type"], "not_supported_error");
}

#[test]
fn a_photo_of_twelve_megapixels_is_answered() {
    let server = seeing(&[]);
    let photo = std::fs::read(fixture("images/shapes-1024x768.jpg")).unwrap();
    let small = tokens(&ask(&server, &[&photo]));
    // As many pixels as a telephone makes; how much memory that takes is measured by `scripts/prove images`.
    let large = bitmap(4000, 3000, |x, y| [(x / 16) as u8, (y / 12) as u8, (x ^ y) as u8]);
    let answer = ask(&server, &[&large]);
    assert!(tokens(&answer).abs_diff(small) < 40, "{} and {small} tokens", tokens(&answer));
    still_answers(&server);
}

#[test]
fn an_image_that_does_not_fit_the_context_is_refused_with_both_numbers() {
    let server = seeing(&["-c", "400"]);
    let file = bitmap(1024, 768, |_, _| [9; 3]);
    let answer = ask(&server, &[&file]);
    assert_eq!(answer.status, 422, "{answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["type"], "exceed_context_size_error");
    assert_eq!((error["n_ctx"].as_u64(), error["n_prompt_tokens"].as_u64().unwrap() > 400), (Some(400), true));
    still_answers(&server);
}

#[test]
fn projectors_that_cannot_serve_are_one_line_of_error_and_code_1() {
    let (model, tiny) = (clef_testkit::built_in_model(), tiny(Tiny::BF16));
    for (projector, words) in [
        (tiny.clone(), "a projector's is \"clip\""),
        (project_dir().join("README.md"), "not a GGUF file"),
        (project_dir().join("no-such-file.gguf"), "cannot open"),
    ] {
        let run = clef_server(&["-m", model.to_str().unwrap(), "--mmproj", projector.to_str().unwrap(), "--port", "0"]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.lines().last().unwrap().contains(words), "{}", run.stderr);
    }
    let run = clef_server(&[
        "-m",
        tiny.to_str().unwrap(),
        "--image-min-tokens",
        "900",
        "--image-max-tokens",
        "800",
        "--mmproj",
        tiny_projector().to_str().unwrap(),
        "--port",
        "0",
    ]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("an image cannot have at least 900 tokens and at most 800"), "{}", run.stderr);
}

#[test]
fn videos_come_as_frames_and_as_animations() {
    let server = seeing(&[]);
    let frame = |index| url(&std::fs::read(fixture(&format!("images/video-b-{index}.png"))).unwrap());
    let frames: Vec<String> = (0..4).map(frame).collect();
    let request = |videos: Value| {
        json!({"state": "See the video.", "videos": videos, "questions": {"moves": {"type": "noul"}}}).to_string()
    };
    let text = tokens(&server.post("/v1/systemone", &request(Value::Null)));
    let shown = tokens(&server.post("/v1/systemone", &request(json!([{"frames": frames, "sample": false}]))));
    assert_eq!(shown, text + 63, "as in golden.jsonl: two steps of 20 tokens and what stands around them");
    let moving = std::fs::read(project_dir().join("crates/media/tests/fixtures/moving.webp")).unwrap();
    assert!(tokens(&server.post("/v1/systemone", &request(json!([url(&moving)])))) > text);
    for (wrong, words) in [
        (json!([{"frames": []}]), "videos.0"),
        (json!([{"frames": [frame(0)]}]), "it needs at least 2"),
        (json!([{"frames": [frame(0), url(&bitmap(8, 8, |_, _| [0; 3]))]}]), "all frames must be of one size"),
        (json!([{"frames": frames, "fps": 0}]), "fps"),
        (json!([{"frames": frames, "fps": 1e-300}]), "frames a second, 0.001 to 1000 are allowed"),
        (json!([frame(0)]), "video is a PNG"),
    ] {
        let answer = server.post("/v1/systemone", &request(wrong));
        assert_eq!(answer.status, 422, "{answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("videos") && message.contains(words), "{message}");
    }
    still_answers(&server);
}
