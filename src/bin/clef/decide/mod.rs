//! `clef decide`: one request, one response; or a file of them.

mod bulk;
mod table;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use clef_api::{Image, Record, Video, VideoContent};
use clef_server::{ModelFlags, find_model, open_with_progress};

use crate::failure::{Failure, print};
use crate::input::{at_least_one, place, read_input, read_media};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The request: a JSON file, or - for standard input. Of a file named *.jsonl each line is a request
    request: Option<PathBuf>,

    /// Each line is a request, and gets a line of response, in order; a line that cannot be answered gets {"error": ...}
    #[arg(long, conflicts_with_all = ["pretty", "table", "image", "video"])]
    jsonl: bool,

    /// Of a file of requests, how many are asked at a time: the first response comes when so many lines were read, so a
    /// program that waits for each response before it writes on needs 1
    #[arg(long, short, value_name = "N", default_value = "4", value_parser = at_least_one)]
    jobs: NonZeroUsize,

    /// Show a picture file before the state, after those in the request; may be given several times
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    /// Show an animated GIF or WebP as a video; may be given several times
    #[arg(long, value_name = "FILE")]
    video: Vec<PathBuf>,

    /// Print the response with line breaks
    #[arg(long, conflicts_with = "table")]
    pretty: bool,

    /// Print bars for people instead of JSON
    #[arg(long)]
    table: bool,

    #[command(flatten)]
    model: ModelFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(requests) = arguments.lines()? {
        return bulk::run(&arguments.model, requests, arguments.jobs);
    }
    // The request first: a typo in it should not cost the time of loading a model.
    let body = read_input(arguments.request.as_deref(), "request is named")?;
    let mut record = Record::parse(&body).map_err(Failure::request)?;
    show(arguments, &mut record)?;
    let (file, mut options) = find_model(&arguments.model)?;
    // There is one request, so nothing would ever go on from its state.
    options.model.cache_bytes = Some(0);
    let clef = open_with_progress(file.path(), &options)?;
    let outcome = clef.decide(record.clone())?;
    if outcome.truncated_tokens > 0 {
        let _ = writeln!(std::io::stderr(), "note: {} tokens of the state were cut off", outcome.truncated_tokens);
    }
    if arguments.table {
        return print(&table::render(&record, &outcome.decision));
    }
    let mut reply = match arguments.pretty {
        true => outcome.decision.to_json_pretty(clef.name()),
        false => outcome.decision.to_json(clef.name()),
    };
    reply.push('\n');
    print(&reply)
}

impl Arguments {
    /// The file whose lines are requests, if the command line says so.
    fn lines(&self) -> Result<Option<&Path>, Failure> {
        let Some(path) = self.request.as_deref() else {
            return Ok(self.jsonl.then_some(Path::new("-")));
        };
        let is_named_so = path.extension().is_some_and(|extension| extension == "jsonl");
        if is_named_so && (self.pretty || self.table || !self.image.is_empty() || !self.video.is_empty()) {
            let message =
                "of a file of requests only lines are printed, without --pretty, --table, --image and --video";
            return Err(Failure::usage(message));
        }
        Ok((self.jsonl || is_named_so).then_some(path))
    }
}

/// Adds the files that the command line names to what the record shows.
fn show(arguments: &Arguments, record: &mut Record) -> Result<(), Failure> {
    for path in &arguments.image {
        record.images.push(Image { data: read_media(path)?, loc: place(path) });
    }
    for path in &arguments.video {
        let content = VideoContent::Animation(read_media(path)?);
        record.videos.push(Video { content, fps: None, sample: true, loc: place(path) });
    }
    Ok(())
}
