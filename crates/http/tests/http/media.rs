//! Pictures and videos on the wire: faults.md, *Images*, as far as the service is concerned. What they show is not its
//! matter, so here is an encoder that only keeps the records that it is given.

use std::sync::{Arc, Mutex};

use clef_engine::{Encode, Engine, EngineConfig, Refusal, RefusalKind};
use clef_http::ServerConfig;
use clef_record::{MediaData, Prompt, Record, Rules, VideoContent};
use serde_json::json;

use crate::bodies::multipart;
use crate::fake::{FakeEncoder, FakeModel, Gate};
use crate::support::{Running, config, eventually, model};

const URL: &str = "data:image/png;base64,iVBORw0KGgo=";
const QUESTIONS: &str = r#""questions":{"q":{"type":"noul"}}"#;
const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=limit");

/// Keeps every record, and refuses all of them if it is told to.
#[derive(Debug, Clone, Default)]
struct Watching {
    seen: Arc<Mutex<Vec<Record>>>,
    refusal: Option<Refusal>,
}

impl Encode for Watching {
    fn encode(&self, record: &Record) -> Result<Prompt, Refusal> {
        self.seen.lock().unwrap().push(record.clone());
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => FakeEncoder { limit: 1_000_000 }.encode(record),
        }
    }
}

impl Watching {
    async fn serve(&self, config: ServerConfig, fake: FakeModel) -> Running {
        let mut served = model(8, None);
        served.engine = Engine::start(self.clone(), fake, &EngineConfig::default()).unwrap();
        Running::with(config, served).await
    }

    fn last(&self) -> Record {
        self.seen.lock().unwrap().pop().unwrap()
    }
}

fn places(record: &Record) -> Vec<String> {
    let place = |loc: &[clef_record::LocItem]| loc.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    record.images.iter().map(|image| place(&image.loc)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_pictures_are_shown_as_were_sent_in_whatever_form() {
    let watching = Watching::default();
    let server = watching.serve(config(), FakeModel::default()).await;
    for (fields, state, expected) in [
        (format!(r#""state":"x","images":["{URL}","{URL}"]"#), "x", &["body.images.0", "body.images.1"][..]),
        (
            format!(r#""state":[{{"type":"image_url","image_url":{{"url":"{URL}"}}}},{{"type":"text","text":"x"}}]"#),
            r#"[{"text":"x","type":"text"}]"#,
            &["body.state.0"],
        ),
        (
            format!(r#""state":{{"messages":[{{"role":"user","content":[{{"type":"input_image","image_url":"{URL}"}}]}}]}}"#),
            r#"{"messages":[{"content":[],"role":"user"}]}"#,
            &["body.state.messages.0.content.0"],
        ),
        (
            r#""state":"<image:00> or <image:01>","assets":{"<image:00>":{"type":"image","format":"png","data_base64":"AA=="},
                "<image:01>":{"data_base64":"AA=="},"<image:02>":{"data_base64":"AA=="}}"#
                .to_owned(),
            "image 1 or image 2",
            &["body.assets.<image:00>", "body.assets.<image:01>", "body.assets.<image:02>"],
        ),
    ] {
        let answer = server.decide(format!("{{{fields},{QUESTIONS}}}"), &[]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let record = watching.last();
        assert_eq!((&*record.state, &*places(&record)), (state, &*expected.iter().map(|&place| place.to_owned()).collect::<Vec<_>>()));
    }
    let fields = format!(r#""state":"x","videos":[{{"frames":["{URL}","{URL}"],"fps":2.0}},"{URL}"]"#);
    assert_eq!(server.decide(format!("{{{fields},{QUESTIONS}}}"), &[]).await.status, 200);
    let record = watching.last();
    let [frames, animation] = &record.videos[..] else { panic!("{record:?}") };
    assert!(matches!(&frames.content, VideoContent::Frames(frames) if frames.len() == 2));
    assert_eq!((frames.fps, animation.fps), (Some(2.0), None));
    assert_eq!(animation.content, VideoContent::Animation(MediaData::DataUrl(URL.to_owned())));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assets_come_as_parts_and_are_named_in_texts() {
    let watching = Watching::default();
    let server = watching.serve(config(), FakeModel::default()).await;
    // What the official SDK sends, down to the names of the parts.
    let names =
        ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"].map(|hex| format!("<image:{hex}>"));
    let request = json!({
        "model": "jev-latest",
        "state": {"photo": names[1], "text": format!("not {}", names[0])},
        "questions": {"q": {"type": "noul", "instructions": format!("Is {} red?", names[1])}},
        "assets": {
            names[0].clone(): {"type": "image", "part": "asset-0"},
            names[1].clone(): {"type": "image", "part": "asset-1"},
        },
    });
    let request = request.to_string();
    let request = ("request", request.as_bytes());
    let first = ("asset-0", &b"\x89PNG\r\n\x1a\n--limi\r\n--limi"[..]);
    let second = ("asset-1", &b""[..]);
    for parts in [[request, first, second], [second, first, request]] {
        let answer = server.decide(multipart(&parts), &[FORM]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let record = watching.last();
        assert_eq!(record.state, r#"{"photo":"image 2","text":"not image 1"}"#);
        assert_eq!(record.questions[0].instruction, "Is image 2 red?");
        let data: Vec<_> = record.images.iter().map(|image| image.data.clone()).collect();
        assert_eq!(data, [first.1, second.1].map(|bytes| MediaData::File(bytes.into())));
    }

    let with_assets = |assets: &str| format!(r#"{{"state":"x",{QUESTIONS},"assets":{assets}}}"#);
    // A part for two assets is two pictures of the same memory.
    let twice = with_assets(r#"{"a":{"part":"asset-0"},"b":{"part":"asset-0"}}"#);
    assert_eq!(server.decide(multipart(&[("request", twice.as_bytes()), first]), &[FORM]).await.status, 200);
    assert_eq!(watching.last().images.len(), 2);

    let one = with_assets(r#"{"a":{"part":"asset-0"}}"#);
    let other = with_assets(r#"{"a":{"data_base64":"AA=="}}"#);
    let many = with_assets(&format!(
        "{{{}}}",
        (0..9).map(|n| format!(r#""{n}":{{"part":"asset-0"}}"#)).collect::<Vec<_>>().join(",")
    ));
    for (parts, slug, says) in [
        (&[("request", one.as_bytes())][..], "missing", "\"asset-0\", which the multipart body does not have"),
        (&[("request", one.as_bytes()), second], "missing", "\"asset-0\""),
        (
            &[("request", one.as_bytes()), first, second],
            "extra_forbidden",
            "no asset of the request names the part \"asset-1\"",
        ),
        (&[("request", other.as_bytes()), first], "extra_forbidden", "\"asset-0\""),
        (&[("request", one.as_bytes()), first, first], "duplicate_key", "two parts named \"asset-0\""),
        (&[("request", many.as_bytes()), first], "too_long", "9 pictures together, the limit is 8"),
    ] {
        let answer = server.decide(multipart(parts), &[FORM]).await;
        assert_eq!(answer.slug(422), slug, "{answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(says), "{says}: {answer:?}");
    }
    let answer = server.decide(&one, &[]).await;
    assert_eq!(answer.slug(422), "value_error");
    assert_eq!(answer.json()["detail"][0]["loc"], json!(["body", "assets", "a", "part"]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_shown_is_refused_before_it_is_read_as_text() {
    let watching = Watching::default();
    let server = watching.serve(config(), FakeModel::default()).await;
    let long = format!("data:image/png;base64,{}", "A".repeat(100_000));
    for (fields, place) in [
        (format!(r#""state":"x","images":"{long}""#), json!(["body", "images"])),
        (format!(r#""state":"x","images":[["{long}"]]"#), json!(["body", "images", 0])),
        (format!(r#""state":"x","image":"{long}""#), json!(["body", "image"])),
        (format!(r#""state":"x","video":"{long}""#), json!(["body", "video"])),
        (format!(r#""state":"x","asset":"{long}""#), json!(["body", "asset"])),
        (
            format!(r#""state":{{"a":{{"type":"image_url","image_url":{{"url":"{long}"}}}}}}"#),
            json!(["body", "state", "a"]),
        ),
        (
            format!(r#""state":[{{"content":[[{{"type":"input_image","image_url":"{long}"}}]]}}]"#),
            json!(["body", "state", 0, "content", 0, 0]),
        ),
        (format!(r#""state":[{{"type":"video_url","video_url":{{"url":"{long}"}}}}]"#), json!(["body", "state", 0])),
        (r#""state":[{"type":"image_url"}]"#.to_owned(), json!(["body", "state", 0])),
        (format!(r#""state":"x","videos":[{{"frame":["{long}"]}}]"#), json!(["body", "videos", 0, "frame"])),
        (format!(r#""state":"x","assets":{{"<a>":"{long}"}}"#), json!(["body", "assets", "<a>"])),
        (format!(r#""state":"x","images":{:?}"#, [URL; 9]), json!(["body", "images"])),
        (format!(r#""state":"x","videos":{:?}"#, [URL; 9]), json!(["body", "videos"])),
    ] {
        let answer = server.decide(format!("{{{QUESTIONS},{fields}}}"), &[]).await;
        assert_eq!(answer.error(422), "unprocessable_entity_error", "{place}");
        assert_eq!(answer.json()["detail"][0]["loc"], place);
    }
    assert!(watching.seen.lock().unwrap().is_empty(), "none of them came so far");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_the_configurations() {
    let watching = Watching::default();
    let rules = Rules { max_images: 1, max_videos: 0, ..Rules::default() };
    let server = watching.serve(ServerConfig { rules, ..config() }, FakeModel::default()).await;
    let images = |count: usize| format!(r#"{{"state":"x","images":{:?},{QUESTIONS}}}"#, vec![URL; count]);
    assert_eq!(server.decide(images(1), &[]).await.status, 200);
    assert_eq!(server.decide(images(2), &[]).await.slug(422), "too_long");
    let video = format!(r#"{{"state":"x","videos":["{URL}"],{QUESTIONS}}}"#);
    assert_eq!(server.decide(video, &[]).await.slug(422), "too_long");
    let request = format!(r#"{{"state":"x",{QUESTIONS},"assets":{{"a":{{"part":"a"}}}}}}"#);
    let parts = [("request", request.as_bytes()), ("a", &b"1"[..]), ("b", b"2")];
    assert_eq!(server.decide(multipart(&parts[..2]), &[FORM]).await.status, 200);
    let answer = server.decide(multipart(&parts), &[FORM]).await;
    assert_eq!(answer.slug(422), "too_long");
    assert!(answer.text().contains("more than 2 parts, the limit"), "{}", answer.text());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_says_what_is_wrong_with_a_picture_and_where() {
    let body = format!(r#"{{"state":"x","images":["https://example.org/a.png"],{QUESTIONS}}}"#);
    let refusing = |kind| Watching {
        refusal: Some(Refusal {
            kind,
            message: "picture is an \"https:\" URL and nothing is fetched".to_owned(),
            loc: vec!["body".into(), "images".into(), 0.into()],
        }),
        ..Watching::default()
    };
    let server = refusing(RefusalKind::Invalid).serve(config(), FakeModel::default()).await;
    let answer = server.decide(&body, &[]).await;
    assert_eq!(answer.error(422), "unprocessable_entity_error");
    let problem = &answer.json()["detail"][0];
    assert_eq!(problem["loc"], json!(["body", "images", 0]));
    assert_eq!(problem["msg"], "picture is an \"https:\" URL and nothing is fetched");
    server.stop().await;

    let server = refusing(RefusalKind::NotSupported).serve(config(), FakeModel::default()).await;
    let answer = server.decide(&body, &[]).await;
    assert_eq!(answer.error(501), "not_supported_error");
    assert_eq!(answer.header("retry-after"), None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_of_a_picture_is_held_as_long_as_its_record() {
    let gate = Gate::default();
    let watching = Watching::default();
    let server = watching.serve(config(), FakeModel::default().gated(&gate)).await;
    let picture = "A".repeat(1 << 20);
    let body = format!(r#"{{"state":"x","images":["data:image/png;base64,{picture}"],{QUESTIONS}}}"#);
    let mut client = server.connect().await;
    client.send(crate::support::decision(&body)).await;
    let arrival = gate.clone();
    tokio::task::spawn_blocking(move || arrival.wait_for_arrivals(1)).await.unwrap();
    assert_eq!(server.handle.body_bytes(), body.len() - (64 << 10));
    gate.open();
    assert_eq!(client.answer().await.status, 200);
    let handle = server.handle.clone();
    eventually("giving the share back", || handle.body_bytes() == 0).await;
    server.stop().await;
}
