//! Golden records: what the float32 reference answers, token by token.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::fixtures::fixture;

/// One record of the reference.
#[derive(Debug, Clone)]
pub struct GoldenRecord {
    /// Unique.
    pub name: String,
    /// The request's body, to the byte where that matters.
    pub body: String,
    /// Limits the reference was called with.
    pub max_length: Option<usize>,
    /// See `max_length`.
    pub max_state_tokens: Option<usize>,
    /// The prompt; empty where the reference refuses.
    pub input_ids: Vec<i32>,
    /// Spans, in request order.
    pub questions: Vec<GoldenQuestion>,
    /// Probabilities per question, options in prompt order.
    pub probabilities: Vec<Vec<f64>>,
    /// The reference's reply with its numbers rounded to four digits.
    pub response: Option<Value>,
    /// Why the reference refuses.
    pub error: Option<String>,
    /// What is shown, if anything.
    pub media: GoldenMedia,
    /// The right answers by the generator's own rules, where it knows them.
    pub gold: Option<Value>,
}

/// Pictures and videos of a golden record.
#[derive(Debug, Clone, Default)]
pub struct GoldenMedia {
    /// Files of pictures, as [`fixture`] names them.
    pub images: Vec<String>,
    /// Files of each video's frames.
    pub videos: Vec<Vec<String>>,
    /// Whether the reference picked frames.
    pub sample: bool,
    /// Patches in time, height and width: of each picture, then of each video.
    pub grids: Vec<[usize; 3]>,
}

impl GoldenMedia {
    /// Whether nothing is shown.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.videos.is_empty()
    }
}

/// One question's place in the prompt.
#[derive(Debug, Clone, Deserialize)]
pub struct GoldenQuestion {
    /// Its id.
    pub id: String,
    /// 0 noul, 1 choice, 2 score.
    #[serde(rename = "type")]
    pub kind: u8,
    question_span: [usize; 2],
    option_spans: Vec<[usize; 2]>,
    /// Option keys in prompt order.
    pub option_ids: Vec<String>,
}

impl GoldenQuestion {
    /// Tokens of the question's text.
    pub fn span(&self) -> Range<usize> {
        self.question_span[0]..self.question_span[1]
    }

    /// Tokens of each option.
    pub fn option_spans(&self) -> Vec<Range<usize>> {
        self.option_spans.iter().map(|span| span[0]..span[1]).collect()
    }
}

#[derive(Deserialize)]
struct Line {
    name: String,
    request: Value,
    body: Option<String>,
    #[serde(default)]
    encode_args: BTreeMap<String, usize>,
    #[serde(default)]
    input_ids: Vec<i32>,
    #[serde(default)]
    questions: Vec<GoldenQuestion>,
    #[serde(default)]
    probabilities: Vec<Vec<f64>>,
    response: Option<Value>,
    error: Option<String>,
    #[serde(default)]
    images: Vec<String>,
    #[serde(default)]
    videos: Vec<Vec<String>>,
    #[serde(default)]
    media_kwargs: MediaArguments,
    #[serde(default)]
    media: Grids,
    gold: Option<Value>,
}

#[derive(Deserialize)]
struct MediaArguments {
    do_sample_frames: bool,
}

impl Default for MediaArguments {
    fn default() -> Self {
        Self { do_sample_frames: true }
    }
}

#[derive(Default, Deserialize)]
struct Grids {
    #[serde(default)]
    image_grid_thw: Vec<[usize; 3]>,
    #[serde(default)]
    video_grid_thw: Vec<[usize; 3]>,
}

/// All records of the random-weight model `clef-tiny`.
pub fn golden() -> Vec<GoldenRecord> {
    read(&fixture("golden.jsonl"))
}

/// The held-out records of the built-in model.
pub fn nano_golden() -> Vec<GoldenRecord> {
    read(&fixture("clef-nano-golden.jsonl"))
}

fn read(path: &Path) -> Vec<GoldenRecord> {
    let text = std::fs::read_to_string(path).expect("golden records can be read");
    let record = |line: &str| {
        let line: Line = serde_json::from_str(line).expect("a golden record is JSON of a known shape");
        GoldenRecord {
            name: line.name,
            body: line.body.unwrap_or_else(|| line.request.to_string()),
            max_length: line.encode_args.get("max_length").copied(),
            max_state_tokens: line.encode_args.get("max_state_tokens").copied(),
            input_ids: line.input_ids,
            questions: line.questions,
            probabilities: line.probabilities,
            response: line.response,
            error: line.error,
            media: GoldenMedia {
                images: line.images,
                videos: line.videos,
                sample: line.media_kwargs.do_sample_frames,
                grids: [line.media.image_grid_thw, line.media.video_grid_thw].concat(),
            },
            gold: line.gold,
        }
    };
    let records: Vec<GoldenRecord> = text.lines().map(record).collect();
    assert!(!records.is_empty(), "{} holds no records", path.display());
    records
}

/// An array of the reference's, as its shape and values in 32-bit floats.
///
/// # Panics
/// If there is no such file, or it holds neither 32-bit floats nor 64-bit integers.
pub fn debug_array(name: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(fixture(&format!("debug/{name}.npy"))).expect("the fixture can be read");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    let (header, data) = bytes.split_at(length);
    let header = String::from_utf8_lossy(header);
    let shape = header.split("'shape': (").nth(1).and_then(|rest| rest.split(')').next()).expect("numpy's header");
    let shape = shape.split(',').filter_map(|length| length.trim().parse().ok()).collect();
    let values = if header.contains("'<f4'") {
        data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
    } else {
        assert!(header.contains("'<i8'"), "{name}: {header}");
        data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")) as f32).collect()
    };
    (shape, values)
}

/// Probabilities by record, question and option, as llama-server gave them.
pub type UpstreamAnswers = BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>;

/// What llama-server b11434 answers with `clef-tiny` in a type (`f32`, `bf16`, `Q4_K_M`, ...).
pub fn upstream(kind: &str) -> UpstreamAnswers {
    let text = std::fs::read_to_string(fixture(&format!("upstream/{kind}.json"))).expect("the fixture can be read");
    serde_json::from_str(&text).expect("upstream answers are JSON of a known shape")
}
