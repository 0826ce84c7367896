//! `clef decide`: one request, one response; or a file of them.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clef_api::{Clef, Image, LocItem, MediaData, Options, Record, Video, VideoContent};
use clef_server::{ModelFlags, fetch_with_progress, model_or_built_in, open_with_progress};

use crate::bulk;
use crate::failure::{Failure, print};
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The request: a JSON file, or - for standard input. Of a file named *.jsonl each line is a request
    request: Option<PathBuf>,

    /// Each line is a request, and gets a line of response, in order; a line that cannot be answered gets {\"error\": ...}
    #[arg(long, conflicts_with_all = ["pretty", "table", "image", "video"])]
    jsonl: bool,

    /// Of a file of requests, how many are asked at a time
    #[arg(long, short, value_name = "N", default_value = "4")]
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

/// The server's default limit on a body, too.
pub(crate) const MAX_REQUEST_BYTES: u64 = 100 << 20;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(requests) = arguments.lines()? {
        let flags = fetch_with_progress(&arguments.model)?;
        return bulk::run(&open(&flags, &flags.options())?, requests, arguments.jobs);
    }
    // The request first: a typo in it should not cost the time of loading a model.
    let body = read_request(arguments.request.as_deref())?;
    let mut record = Record::parse(&body).map_err(Failure::request)?;
    show(arguments, &mut record)?;
    let flags = fetch_with_progress(&arguments.model)?;
    let mut options = flags.options();
    // There is one request, so nothing would ever go on from its state.
    options.model.cache_bytes = Some(0);
    let clef = open(&flags, &options)?;
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
            return Err(Failure::request(message));
        }
        Ok((self.jsonl || is_named_so).then_some(path))
    }
}

fn open(flags: &ModelFlags, options: &Options) -> Result<Clef, Failure> {
    let model = model_or_built_in(flags.model.as_deref())?;
    if let Some(notice) = model.notice() {
        let _ = writeln!(std::io::stderr(), "{notice}");
    }
    Ok(open_with_progress(model.path(), options)?)
}

/// Adds the files that the command line names to what the record shows.
fn show(arguments: &Arguments, record: &mut Record) -> Result<(), Failure> {
    for path in &arguments.image {
        record.images.push(Image { data: read_file(path)?, loc: place(path) });
    }
    for path in &arguments.video {
        let content = VideoContent::Animation(read_file(path)?);
        record.videos.push(Video { content, fps: None, sample: true, loc: place(path) });
    }
    Ok(())
}

/// How messages call a file: errors leave the first step out, as it is the body of a request.
pub(crate) fn place(path: &Path) -> Vec<LocItem> {
    vec!["body".into(), LocItem::field(&path.display().to_string())]
}

pub(crate) fn read_file(path: &Path) -> Result<MediaData, Failure> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(MAX_REQUEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MAX_REQUEST_BYTES {
        let limit = MAX_REQUEST_BYTES >> 20;
        return Err(Failure::request(format_args!("{} is larger than {limit} MiB", path.display())));
    }
    Ok(MediaData::File(bytes.into()))
}

pub(crate) fn read_request(path: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let named = match path {
        Some(path) if path.as_os_str() != "-" => {
            let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            file.take(MAX_REQUEST_BYTES + 1)
                .read_to_end(&mut body)
                .with_context(|| format!("cannot read {}", path.display()))?;
            path.display().to_string()
        }
        given => {
            if given.is_none() && std::io::stdin().is_terminal() {
                return Err(anyhow::anyhow!("no request: name a JSON file, or - for standard input").into());
            }
            let stdin = std::io::stdin().lock();
            stdin.take(MAX_REQUEST_BYTES + 1).read_to_end(&mut body).context("cannot read standard input")?;
            "standard input".to_owned()
        }
    };
    if body.len() as u64 > MAX_REQUEST_BYTES {
        return Err(Failure::request(format_args!("{named} is larger than {} MiB", MAX_REQUEST_BYTES >> 20)));
    }
    Ok(body)
}
