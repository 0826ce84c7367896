//! Pictures and videos: where they may stand, what is left of the texts around them, and what is refused.

use std::sync::Arc;

use clef_record::json::render_canonical;
use clef_record::{Image, MediaData, Record, RecordErrorKind, Rules, Video, VideoContent};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::refused::{assert_bounded, check, loc};

const QUESTIONS: &str = r#""questions":{"q":{"type":"noul"}}"#;

/// A record of a question and some other fields.
#[track_caller]
fn parse(fields: &str) -> Record {
    let body = format!("{{{QUESTIONS},{fields}}}");
    Record::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn url(text: &str) -> MediaData {
    MediaData::DataUrl(text.to_owned())
}

fn base64(text: &str) -> MediaData {
    MediaData::Base64(text.to_owned())
}

/// What a picture is and where it stands.
fn shown(record: &Record) -> Vec<(MediaData, String)> {
    let place = |image: &Image| image.loc.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    record.images.iter().map(|image| (image.data.clone(), place(image))).collect()
}

#[track_caller]
fn assert_shown(record: &Record, expected: &[(MediaData, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(data, place)| (data.clone(), (*place).to_owned())).collect();
    assert_eq!(shown(record), expected);
}

#[track_caller]
fn check_fields(fields: &str, slug: &str, place: &str, parts: &[&str]) {
    check(&format!("{{{fields},{QUESTIONS}}}"), slug, place, parts);
}

#[test]
fn images_are_a_list_of_urls_of_which_none_is_judged() {
    let record = parse(
        r#""state":"x","images":["data:image\/png;base64,AA==","https://example.org/a.png","",
            {"type":"image_url","image_url":{"url":"data:,1","detail":"high"}},{"image_url":"data:,2","type":"image_url"},
            {"type":"input_image","image_url":"data:,3","detail":"auto"},"iVBORw0KGgo"]"#,
    );
    assert_shown(
        &record,
        &[
            (url("data:image/png;base64,AA=="), "body.images.0"),
            (url("https://example.org/a.png"), "body.images.1"),
            (url(""), "body.images.2"),
            (url("data:,1"), "body.images.3"),
            (url("data:,2"), "body.images.4"),
            (url("data:,3"), "body.images.5"),
            (url("iVBORw0KGgo"), "body.images.6"),
        ],
    );
}

#[test]
fn fields_that_are_null_or_empty_hold_nothing() {
    for empty in ["null", "[]", "{}", " [ ] "] {
        let record = parse(&format!(r#""state":"x","images":{empty},"videos":{empty},"assets":{empty}"#));
        assert_eq!((record.images, record.videos), (Vec::new(), Vec::new()));
    }
}

#[test]
fn images_of_another_shape() {
    const LIST: &str = "it must be a list of data URLs";
    for (images, found) in
        [("\"data:,\"", "a string"), ("1", "a number"), ("true", "a boolean"), ("{\"0\":1}", "an object")]
    {
        check_fields(&format!(r#""images":{images},"state":"x""#), "list_type", "body.images", &[found, LIST]);
    }
    const ALLOWED: &str = "it must be a data URL, or an \"image_url\" or \"input_image\" part with one";
    for (image, found) in [
        ("1", "images.1 is a number"),
        ("null", "images.1 is null"),
        ("[\"data:,\"]", "images.1 is an array"),
        ("{}", "another object"),
        (r#"{"url":"data:,"}"#, "another object"),
        (r#"{"type":"file","mediaType":"image/png","data":"AA=="}"#, "another object"),
        (r#"{"type":"video_url","video_url":"data:,"}"#, "another object"),
    ] {
        let fields = format!(r#""state":"x","images":["data:,",{image}]"#);
        check_fields(&fields, "string_type", "body.images.1", &[found, ALLOWED]);
    }
    for image in [r#"{"type":"image_url"}"#, r#"{"type":"input_image","image_url":{"uri":"data:,"}}"#] {
        check_fields(&format!(r#""images":[{image}],"state":"x""#), "missing", "body.images.0", &["without a URL"]);
    }
}

#[test]
fn parts_are_taken_out_of_messages_lists_and_wrapped_states() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:,1"}}"#;
    let input = r#"{"type":"input_\u0069mage","image_url":"data:,2"}"#;
    let text = r#"{"type":"text","text":"hi"}"#;
    for (state, left, places) in [
        (format!("[{image}]"), "[]", &["0"][..]),
        (format!(" [ {image} , {text} , {input} ] "), r#"[{"text":"hi","type":"text"}]"#, &["0", "2"]),
        (
            format!(r#"[{{"role":"user","content":[{text},{image}]}},{{"content":"plain"}},{input}]"#),
            r#"[{"content":[{"text":"hi","type":"text"}],"role":"user"},{"content":"plain"}]"#,
            &["0.content.1", "2"],
        ),
        (
            format!(r#"{{"z":1,"messages":[{{"content":[{image},{input}]}}],"a":[{{}}]}}"#),
            r#"{"a":[{}],"messages":[{"content":[]}],"z":1}"#,
            &["messages.0.content.0", "messages.0.content.1"],
        ),
        (
            format!(
                r#"[{{"type":"json","value":{{"messages":[{{"content":[{image}]}}]}}}},{{"type":"json","value":[{input}]}}]"#
            ),
            r#"[{"type":"json","value":{"messages":[{"content":[]}]}},{"type":"json","value":[]}]"#,
            &["0.value.messages.0.content.0", "1.value.0"],
        ),
        (format!(r#"{{"messages":[],"messages":[{image}]}}"#), r#"{"messages":[]}"#, &["messages.0"]),
    ] {
        let record = parse(&format!(r#""state":{state}"#));
        assert_eq!(record.state, left, "{state}");
        let places: Vec<_> = places.iter().map(|place| format!("body.state.{place}")).collect();
        let urls = ["data:,1", "data:,2"].map(url);
        let expected: Vec<_> = urls.into_iter().zip(places).collect();
        assert_eq!(shown(&record), expected, "{state}");
    }
}

#[test]
fn files_are_pictures_by_their_media_type() {
    for (data, expected) in [
        (r#""iVBOR""#, base64("iVBOR")),
        (r#""data:image\/png;base64,iVBOR""#, url("data:image/png;base64,iVBOR")),
        (r#""https://example.org/a.png""#, url("https://example.org/a.png")),
        (r#"{"type":"data","data":"iVBOR"}"#, base64("iVBOR")),
        (r#"{"type":"url","url":"data:,"}"#, url("data:,")),
    ] {
        let file = format!(r#"{{"type":"file","mediaType":"image/png","data":{data}}}"#);
        let record = parse(&format!(r#""state":[{{"content":[{file},{{"text":"x"}}]}}]"#));
        assert_shown(&record, &[(expected, "body.state.0.content.0")]);
        assert_eq!(record.state, r#"[{"content":[{"text":"x"}]}]"#);
    }
}

#[test]
fn parts_that_show_nothing() {
    for (part, kind) in [
        (r#"{"type":"image_url"}"#, "image_url"),
        (r#"{"type":"image_url","image_url":null}"#, "image_url"),
        (r#"{"type":"image_url","image_url":""}"#, "image_url"),
        (r#"{"type":"image_url","image_url":{}}"#, "image_url"),
        (r#"{"type":"image_url","image_url":{"url":7}}"#, "image_url"),
        (r#"{"type":"image_url","image_url":["data:,"]}"#, "image_url"),
        (r#"{"type":"input_image","file_id":"file-1"}"#, "input_image"),
        (r#"{"type":"file","mediaType":"image/png","data":{"0":137,"1":80}}"#, "file"),
        (r#"{"type":"file","mediaType":"image/png","data":{"type":"reference","reference":{}}}"#, "file"),
        (r#"{"type":"file","mediaType":"image/png","data":[137,80]}"#, "file"),
    ] {
        let kind = format!("\"{kind}\" part");
        let state = format!(r#""state":{{"messages":[{{"content":[{{"type":"text"}},{part}]}}]}}"#);
        let slug = if kind.contains("file") { "value_error" } else { "missing" };
        check_fields(&state, slug, "body.state.messages.0.content.1", &["state.messages.0.content.1", &kind]);
        check_fields(&format!(r#""state":[{part}]"#), slug, "body.state.0", &["state.0", &kind]);
    }
}

#[test]
fn pictures_where_nothing_is_shown() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:,"}}"#;
    for (state, place) in [
        (image.to_owned(), ""),
        (format!(r#"{{"a":[{image}]}}"#), ".a.0"),
        (format!("[[{image}]]"), ".0.0"),
        (format!(r#"[{{"content":{image}}}]"#), ".0.content"),
        (format!(r#"[{{"content":[{{"content":[{image}]}}]}}]"#), ".0.content.0.content.0"),
        (format!(r#"[{image},{{"content":[{image}],"other":[{image}]}}]"#), ".1.other.0"),
        (format!(r#"{{"messages":{image}}}"#), ".messages"),
        (format!(r#"[{{"type":"text","value":[{image}]}}]"#), ".0.value.0"),
        (r#"{"a":{"type":"input_image","image_url":"data:,"}}"#.to_owned(), ".a"),
    ] {
        let place = format!("body.state{place}");
        let fields = format!(r#""state":{state}"#);
        check_fields(&fields, "value_error", &place, &[&place[5..], "where nothing is shown", "\"images\""]);
    }
    let deep = format!("{}{image}{}", r#"{"long long long long long long long name":"#.repeat(60), "}".repeat(60));
    let error = Record::parse(format!("{{{QUESTIONS},\"state\":{deep}}}").as_bytes()).unwrap_err();
    assert_bounded(&error);
    assert!(loc(&error).starts_with("body.state.long long"), "{error}");
}

#[test]
fn videos_in_messages() {
    for (part, kind) in [
        (r#"{"type":"video_url","video_url":{"url":"data:,"}}"#, "\"video_url\""),
        (r#"{"type":"video_url"}"#, "\"video_url\""),
        (r#"{"type":"input_video","video_url":"data:,"}"#, "\"input_video\""),
        (r#"{"type":"file","mediaType":"video/mp4","data":"AAAA"}"#, "\"file\""),
    ] {
        let state = format!(r#""state":[{{"content":[{part}]}}]"#);
        check_fields(&state, "value_error", "body.state.0.content.0", &[kind, "in the field \"videos\""]);
    }
    let state = r#""state":{"clip":{"type":"video_url","video_url":"data:,"}}"#;
    check_fields(state, "value_error", "body.state.clip", &["\"video_url\"", "in the field \"videos\""]);
}

#[test]
fn images_come_first_then_parts_then_assets_whatever_the_order_of_fields() {
    let fields = [
        r#""images":["data:,1","data:,2"]"#,
        r#""state":[{"type":"image_url","image_url":"data:,3"},"see <b> and <a>"]"#,
        r#""assets":{"<a>":{"data_base64":"4"},"<b>":{"data_base64":"5"}}"#,
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let record = parse(&order.map(|index| fields[index]).join(","));
        assert_shown(
            &record,
            &[
                (url("data:,1"), "body.images.0"),
                (url("data:,2"), "body.images.1"),
                (url("data:,3"), "body.state.0"),
                (base64("4"), "body.assets.<a>"),
                (base64("5"), "body.assets.<b>"),
            ],
        );
        assert_eq!(record.state, r#"["see image 5 and image 4"]"#);
    }
}

#[test]
fn placeholders_are_replaced_in_every_string_and_in_no_key() {
    let hex = "0123456789abcdef0123456789abcdef";
    let body = json!({
        "assets": {
            format!("<image:{hex}>"): {"type": "image", "format": "png", "data_base64": "AA=="},
            "the": {"data_base64": "BB=="},
            "zzz": {"type": null, "part": null, "data_base64": "data:image/png;base64,AA=="},
        },
        "state": {"photo": format!("<image:{hex}>"), "the": ["<image:>", format!("(<image:{hex}>\n)"), "the é the"]},
        "questions": {
            "the": {"type": "noul", "instructions": "the"},
            "id the": {"type": "noul", "criteria": {"true": {"the": "the"}}},
            "c": {"type": "choice", "instructions": ["the"], "criteria": {"b": null, "the": "the"}},
            "s": {"type": "score", "criteria": ["the", {"a": "the"}, "x"]},
        },
    });
    let record = Record::parse(body.to_string().as_bytes()).unwrap();
    assert_shown(
        &record,
        &[
            (base64("AA=="), &format!("body.assets.<image:{hex}>")),
            (base64("BB=="), "body.assets.the"),
            (url("data:image/png;base64,AA=="), "body.assets.zzz"),
        ],
    );
    assert_eq!(record.state, r#"{"photo":"image 1","the":["<image:>","(image 1\n)","image 2 é image 2"]}"#);
    let questions = |id: &str| record.questions.iter().find(|question| question.id == id).unwrap();
    let texts = |id: &str| -> Vec<&str> { questions(id).options.iter().map(|option| &*option.text).collect() };
    assert_eq!(questions("the").instruction, "image 2");
    assert_eq!(questions("id the").instruction, "id the", "an id is no text of the client's");
    assert_eq!(
        texts("id the"),
        [
            r#"{"description":{"the":"image 2"},"option_id":"true"}"#,
            r#"{"description":"The proposition is false or the answer is no.","option_id":"false"}"#,
        ]
    );
    assert_eq!(questions("c").instruction, r#"["image 2"]"#);
    assert_eq!(texts("c"), [r#"{"option_id":"b"}"#, r#"{"description":"image 2","option_id":"the"}"#]);
    assert_eq!(
        texts("s")[..2],
        [r#"{"description":"image 2","option_id":"0"}"#, r#"{"description":{"a":"image 2"},"option_id":"1"}"#]
    );
    let legends: Vec<_> = questions("s").options.iter().map(|option| option.legend.as_deref().unwrap()).collect();
    assert_eq!(legends, [r#""the""#, r#"{"a":"the"}"#, r#""x""#], "as sent");
}

#[test]
fn the_longest_placeholder_counts_and_what_replaces_it_is_not_searched() {
    let record = parse(
        r#""state":"photo photos \u0070hoto image 1","assets":{"photo":{"data_base64":"A"},"photos":{"data_base64":"B"},
            "image":{"data_base64":"C"},"\u0031":{"data_base64":"D"}}"#,
    );
    assert_eq!(record.state, "image 1 image 2 image 1 image 3 image 4");
    let record = parse(r#""state":["\"\\\n"],"assets":{"\"\\":{"data_base64":"A"},"n":{"data_base64":"A"}}"#);
    assert_eq!(record.state, r#"["image 1\n"]"#);
}

#[test]
fn markers_of_a_model_are_text() {
    let text = "<__media__> <|image_pad|> <|vision_start|> <image> image 1";
    let record = parse(&format!(
        r#""state":{{"{text}":"{text}"}},"images":["data:,"],"assets":{{"<image:0>":{{"data_base64":"A"}}}}"#
    ));
    assert_eq!(record.state, format!(r#"{{"{text}":"{text}"}}"#));
}

#[test]
fn assets_may_be_files_that_came_along() {
    let png: Arc<[u8]> = Arc::from(&b"\x89PNG"[..]);
    let file = |name: &str| (name == "asset-0").then(|| Arc::clone(&png));
    let read = |assets: &str| {
        let body = format!(r#"{{"state":"<a>, <b>","assets":{assets},{QUESTIONS}}}"#);
        Record::parse_with_files(body.as_bytes(), &Rules::default(), &file)
    };
    // The official schema: "With part, data_base64 is ignored."
    let record = read(r#"{"<a>":{"type":"image","part":"asset-0"},"<b>":{"part":"asset-0","data_base64":7}}"#).unwrap();
    assert_eq!(record.state, "image 1, image 2");
    let [MediaData::File(first), MediaData::File(second)] = [&record.images[0].data, &record.images[1].data] else {
        panic!("{record:?}")
    };
    assert!(Arc::ptr_eq(first, &png) && Arc::ptr_eq(second, &png), "not copied");

    let error = read(r#"{"a":{"part":"asset-1"}}"#).unwrap_err();
    assert_eq!((error.slug(), &*loc(&error)), ("missing", "body.assets.a.part"));
    assert!(error.message().contains("\"asset-1\", which the multipart body does not have"), "{error}");
    let assets = r#""state":"x","assets":{"a":{"part":"asset-0"}}"#;
    check_fields(assets, "value_error", "body.assets.a.part", &["\"asset-0\"", "no parts", "data_base64"]);
}

#[test]
fn assets_of_another_shape() {
    let long = "p".repeat(1_025);
    for (assets, slug, place, parts) in [
        (r#"["data:,"]"#, "dict_type", "", &["assets is an array", "an object of placeholders"][..]),
        ("\"data:,\"", "dict_type", "", &["assets is a string"]),
        (r#"{"":{"data_base64":"A"}}"#, "string_too_short", ".", &["asset \"\"", "no name"]),
        (&format!(r#"{{"{long}":{{"data_base64":"A"}}}}"#), "string_too_long", ".pppp", &["1,025 bytes", "1,024"]),
        (r#"{"a":"data:,"}"#, "dict_type", ".a", &["asset \"a\"", "a string", "\"data_base64\""]),
        (r#"{"a":null}"#, "dict_type", ".a", &["asset \"a\"", "null"]),
        (r#"{"a":{"type":"image"}}"#, "missing", ".a", &["no data", "\"data_base64\"", "\"part\""]),
        (r#"{"a":{"part":null,"data_base64":null}}"#, "missing", ".a", &["no data"]),
        (r#"{"a":{"type":"video","data_base64":"A"}}"#, "literal_error", ".a.type", &["\"video\"", "\"image\""]),
        (r#"{"a":{"type":1,"data_base64":"A"}}"#, "literal_error", ".a.type", &["a number", "\"image\""]),
        (r#"{"a":{"data_base64":["A"]}}"#, "string_type", ".a.data_base64", &["an array", "a string"]),
        (r#"{"a":{"part":0,"data_base64":"A"}}"#, "string_type", ".a.part", &["a number", "a string"]),
        (r#"{"a":{"data_base64":"A"},"\u0061":{}}"#, "duplicate_key", ".a", &["assets has \"a\" twice"]),
        (r#"{"a":{"data_base64":"A","data_base64":"B"}}"#, "duplicate_key", ".a.data_base64", &["asset \"a\""]),
    ] {
        let error = Record::parse(format!(r#"{{"state":"x","assets":{assets},{QUESTIONS}}}"#).as_bytes()).unwrap_err();
        assert_bounded(&error);
        assert_eq!(error.slug(), slug, "{error}");
        assert!(loc(&error).starts_with(&format!("body.assets{place}")), "{error}");
        assert!(parts.iter().all(|part| error.message().contains(part)), "{error}");
    }
}

#[test]
fn pictures_are_counted_over_all_forms_together() {
    let parts = |count| vec![r#"{"type":"image_url","image_url":"data:,"}"#; count].join(",");
    let images = |count| vec![r#""data:,""#; count].join(",");
    let assets = |count| {
        let assets: Vec<_> = (0..count).map(|index| format!(r#""<{index}>":{{"data_base64":"A"}}"#)).collect();
        assets.join(",")
    };
    let fields = |in_images: usize, in_state: usize, in_assets: usize| {
        let (images, parts, assets) = (images(in_images), parts(in_state), assets(in_assets));
        format!(r#""state":[{parts}],"images":[{images}],"assets":{{{assets}}}"#)
    };
    for (in_images, in_state, in_assets) in [(8, 0, 0), (0, 8, 0), (0, 0, 8), (3, 3, 2)] {
        assert_eq!(parse(&fields(in_images, in_state, in_assets)).images.len(), 8);
    }
    for (counts, place, found) in [
        ((9, 0, 0), "body.images", "images has 9 pictures,"),
        ((1_000, 0, 3), "body.images", "images has 1,000 pictures"),
        ((0, 9, 0), "body.state", "images and state have 9 pictures together"),
        ((0, 0, 9), "body.assets", "images, state and assets have 9 pictures together"),
        ((3, 6, 1), "body.state", "images and state have 9 pictures together"),
        ((3, 5, 1), "body.assets", "images, state and assets have 9 pictures together"),
    ] {
        let (in_images, in_state, in_assets) = counts;
        let fields = fields(in_images, in_state, in_assets);
        check_fields(&fields, "too_long", place, &[found, ", the limit is 8"]);
    }
    let none = Rules { max_images: 0, ..Rules::default() };
    let with_rules =
        |fields: &str, rules: &Rules| Record::parse_with(format!("{{{fields},{QUESTIONS}}}").as_bytes(), rules);
    for counts in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        assert_eq!(with_rules(&fields(counts.0, counts.1, counts.2), &none).unwrap_err().slug(), "too_long");
    }
    assert_eq!(with_rules(&fields(0, 0, 0), &none).unwrap().state, "[]");
    let more = Rules { max_images: 300, ..Rules::default() };
    let record = with_rules(&fields(100, 100, 100).replace("[{", "[\"<99>\",{"), &more).unwrap();
    assert_eq!((record.images.len(), &*record.state), (300, r#"["image 300"]"#));
}

#[test]
fn videos_are_lists_of_frames_or_animations() {
    let record = parse(
        r#""state":"x","videos":["data:image/gif;base64,R0lG",{"frames":["data:,1","data:,2"]},
            {"frames":"data:,3","fps":12.5,"sample":false},{"sample":null,"fps":1e-3,"frames":["data:,4"],"other":[1]},
            {"fps":null,"frames":["https://example.org/a.png"],"sample":true}]"#,
    );
    let video = |index: usize, content, fps, sample| Video {
        content,
        fps,
        sample,
        loc: vec!["body".into(), "videos".into(), index.into()],
    };
    let frames = |frames: &[&str]| VideoContent::Frames(frames.iter().copied().map(url).collect());
    let expected = [
        video(0, VideoContent::Animation(url("data:image/gif;base64,R0lG")), None, true),
        video(1, frames(&["data:,1", "data:,2"]), None, true),
        video(2, VideoContent::Animation(url("data:,3")), Some(12.5), false),
        video(3, frames(&["data:,4"]), Some(1e-3), true),
        video(4, frames(&["https://example.org/a.png"]), None, true),
    ];
    assert_eq!(record.videos, expected);
    assert_eq!(record.images, []);
}

#[test]
fn videos_of_another_shape() {
    const LIST: &str = "it must be a list of videos";
    check_fields(r#""videos":"data:,","state":"x""#, "list_type", "body.videos", &["a string", LIST]);
    check_fields(r#""videos":{"frames":["data:,"]},"state":"x""#, "list_type", "body.videos", &["an object", LIST]);
    let many = vec!["\"\""; 4_097].join(",");
    let many = format!(r#"{{"frames":[{many}]}}"#);
    for (video, slug, place, parts) in [
        ("1", "dict_type", "", &["videos.1 is a number", "\"frames\"", "animated GIF or WebP"][..]),
        ("null", "dict_type", "", &["videos.1 is null"]),
        (r#"["data:,"]"#, "dict_type", "", &["videos.1 is an array"]),
        ("{}", "missing", ".frames", &["videos.1.frames has no frames", "a list of data URLs"]),
        (r#"{"frames":null}"#, "missing", ".frames", &["no frames"]),
        (r#"{"frames":{"0":"data:,"}}"#, "list_type", ".frames", &["an object", "a list of data URLs"]),
        (r#"{"frames":[]}"#, "too_short", ".frames", &["empty", "at least one"]),
        (&many, "too_long", ".frames", &["4,097 frames", "the limit is 4,096"]),
        (r#"{"frames":["data:,",{"url":"data:,"}]}"#, "string_type", ".frames.1", &["videos.1.frames.1", "an object"]),
        (r#"{"frames":["data:,",null]}"#, "string_type", ".frames.1", &["null", "a data URL"]),
        (r#"{"frames":["data:,"],"fps":0}"#, "greater_than", ".fps", &["is 0,", "positive"]),
        (r#"{"frames":["data:,"],"fps":-1.5}"#, "greater_than", ".fps", &["is -1.5,", "positive"]),
        (r#"{"frames":["data:,"],"fps":1e999}"#, "greater_than", ".fps", &["1e999", "positive"]),
        (r#"{"frames":["data:,"],"fps":"24"}"#, "float_type", ".fps", &["a string", "positive"]),
        (r#"{"frames":["data:,"],"sample":1}"#, "bool_type", ".sample", &["a number", "true or false"]),
        (r#"{"frames":["data:,"],"frame":1}"#, "extra_forbidden", ".frame", &["videos.1", "mean \"frames\"?"]),
        (r#"{"frames":["data:,"],"rate":1}"#, "extra_forbidden", ".rate", &["mean \"fps\"?"]),
        (r#"{"frames":["data:,"],"do_sample":1}"#, "extra_forbidden", ".do_sample", &["mean \"sample\"?"]),
        (r#"{"do_sample_frames":1}"#, "extra_forbidden", ".do_sample_frames", &["mean \"sample\"?"]),
        (r#"{"frames":["data:,"],"fps":1,"fps":2}"#, "duplicate_key", ".fps", &["videos.1 has \"fps\" twice"]),
    ] {
        let fields = format!(r#""videos":["data:,",{video}],"state":"x""#);
        check_fields(&fields, slug, &format!("body.videos.1{place}"), parts);
    }
    let videos = |count: usize| format!(r#""state":"x","videos":[{}]"#, vec!["\"data:,\""; count].join(","));
    assert_eq!(parse(&videos(8)).videos.len(), 8);
    check_fields(&videos(9), "too_long", "body.videos", &["9 videos", "the limit is 8"]);
    let rules = Rules { max_videos: 1, ..Rules::default() };
    let error = Record::parse_with(format!("{{{},{QUESTIONS}}}", videos(2)).as_bytes(), &rules).unwrap_err();
    assert!(error.message().contains("2 videos, the limit is 1"), "{error}");
    let most = vec!["\"\""; 4_096].join(",");
    assert_eq!(parse(&format!(r#""state":"x","videos":[{{"frames":[{most}]}}]"#)).videos.len(), 1);
}

#[test]
fn the_first_problem_is_reported_though_pictures_are_read_ahead() {
    let bad = [
        (r#""images":[1]"#, "body.images.0"),
        (r#""state":[{"type":"image_url"}]"#, "body.state.0"),
        (r#""assets":{"a":1}"#, "body.assets.a"),
        (r#""videos":[1]"#, "body.videos.0"),
        (r#""questions":{"q":{"type":"x"}}"#, "body.questions.q.type"),
    ];
    for (first, place) in bad {
        let others: Vec<_> = bad.iter().map(|(field, _)| *field).filter(|field| *field != first).collect();
        let error = Record::parse(format!("{{{first},{}}}", others.join(",")).as_bytes()).unwrap_err();
        assert_eq!(loc(&error), place);
    }
    // What is good is counted, whatever else is wrong.
    let error = Record::parse(br#"{"assets":{"a":1},"images":["data:,"],"images":["data:,"]}"#).unwrap_err();
    assert_eq!(loc(&error), "body.assets.a");
    let error = Record::parse(br#"{"images":["data:,"],"images":[1],"assets":{"a":1}}"#).unwrap_err();
    assert_eq!((error.slug(), &*loc(&error)), ("duplicate_key", "body.images"));
}

#[test]
fn short_placeholders_cannot_lengthen_texts_without_bound() {
    let body = |count: usize| {
        format!(r#"{{"state":["{}"],"assets":{{"a":{{"data_base64":"A"}}}},{QUESTIONS}}}"#, "a".repeat(count))
    };
    // Each becomes six bytes longer; four mebibytes are allowed.
    let most = (4 << 20) / 6;
    assert_eq!(Record::parse(body(most).as_bytes()).unwrap().state.len(), 7 * most + 4);
    let error = Record::parse(body(most + 1).as_bytes()).unwrap_err();
    assert_eq!(error.kind(), RecordErrorKind::TooLarge, "{error}");
    assert!(error.message().contains("the limit is 4,194,304"), "{error}");
    assert!(Record::parse(body(50_000_000).as_bytes()).is_err());
}

/// A JSON string in which characters are escaped or not, as the list says.
fn quoted(text: &str, escaped: &[bool]) -> String {
    let characters = text.chars().zip(escaped.iter().cycle()).map(|(character, is_escaped)| {
        let mut units = [0; 2];
        if *is_escaped || character.is_control() || character == '"' || character == '\\' {
            character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        } else {
            character.to_string()
        }
    });
    format!("\"{}\"", characters.collect::<String>())
}

/// At each character the longest placeholder, or the character.
fn replaced(text: &str, placeholders: &[String]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let starting =
            placeholders.iter().enumerate().filter(|(_, placeholder)| rest.starts_with(placeholder.as_str()));
        let (text, length) = match starting.max_by_key(|(_, placeholder)| placeholder.len()) {
            Some((index, placeholder)) => (format!("image {}", index + 1), placeholder.len()),
            None => (character.to_string(), character.len_utf8()),
        };
        out.push_str(&text);
        rest = &rest[length..];
    }
    out
}

/// A part, or a text that stays.
fn part() -> impl Strategy<Value = Option<Value>> {
    let other = "[a-z<>]{0,4}".prop_map(|text| Some(json!({"type": "text", "text": text, "a": [1.5, {}]})));
    prop_oneof![Just(None), other, "[a-z]{0,3}".prop_map(|text| Some(text.into())), Just(Some(json!([])))]
}

/// A list of parts as sent, with pictures numbered from `*next`, and as it is left.
fn list(parts: &[Option<Value>], next: &mut usize) -> (Value, Value) {
    let sent = parts.iter().map(|part| {
        part.clone().unwrap_or_else(|| {
            *next += 1;
            json!({"type": "image_url", "image_url": {"url": format!("data:,{}", *next - 1)}})
        })
    });
    (sent.collect(), parts.iter().flatten().cloned().collect())
}

proptest! {
    #[test]
    fn placeholders_are_replaced_as_if_done_plainly(
        placeholders in prop::collection::hash_set("[ab<é\"\\\\\n]{1,5}", 1..5),
        text in "[abc<é\"\\\\\n\u{10000}]{0,40}",
        escaped in prop::collection::vec(any::<bool>(), 1..9),
    ) {
        let placeholders: Vec<String> = placeholders.into_iter().collect();
        let assets = placeholders.iter().map(|name| format!("{}:{{\"data_base64\":\"A\"}}", quoted(name, &[false])));
        let assets = assets.collect::<Vec<_>>().join(",");
        let expected = replaced(&text, &placeholders);
        let state = quoted(&text, &escaped);
        let record = parse(&format!(r#""state":{state},"assets":{{{assets}}}"#));
        prop_assert_eq!(&record.state, &expected);
        let record = parse(&format!(r#""assets":{{{assets}}},"state":{{{state}:[{state},1]}}"#));
        prop_assert_eq!(record.state, json!({ text: [expected, 1] }).to_string());
    }

    #[test]
    fn a_state_without_its_pictures_renders_as_if_they_had_never_been_there(
        lists in prop::collection::vec(prop::collection::vec(part(), 0..5), 1..5),
        form in 0..3,
        is_spaced in any::<bool>(),
    ) {
        let mut next = 0;
        let (sent, left): (Vec<Value>, Vec<Value>) = match form {
            0 => [list(&lists[0], &mut next)].into_iter().unzip(),
            _ => lists.iter().map(|parts| list(parts, &mut next)).unzip(),
        };
        let messages = |lists: Vec<Value>| {
            lists.into_iter().map(|list| json!({"role": "user", "content": list})).collect::<Vec<_>>()
        };
        let state = |mut lists: Vec<Value>| match form {
            0 => lists.remove(0),
            1 => json!({"messages": messages(lists), "about": [[]]}),
            _ => json!([
                {"type": "json", "value": lists.remove(0)},
                {"type": "json", "value": {"messages": messages(lists)}},
            ]),
        };
        let sent = if is_spaced { format!("{:#}", state(sent)) } else { state(sent).to_string() };
        let rules = Rules { max_images: usize::MAX, ..Rules::default() };
        let record = Record::parse_with(format!(r#"{{"state":{sent},{QUESTIONS}}}"#).as_bytes(), &rules).unwrap();
        prop_assert_eq!(record.state, render_canonical(&state(left).to_string()).unwrap());
        let data: Vec<_> = record.images.into_iter().map(|image| image.data).collect();
        let expected: Vec<_> = (0..next).map(|index| url(&format!("data:,{index}"))).collect();
        prop_assert_eq!(data, expected);
    }
}
