//! `clef eval`: labelled requests in, figures out.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clef_eval::{Answerer, Chart, Detail, Evaluation, MeasureOptions, Remote, RemoteOptions, Results};
use clef_server::{ModelFlags, fetch_with_progress, model_or_built_in, open_with_progress};

use crate::failure::{Failure, print};
use crate::in_process::InProcess;
use crate::measured;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Requests with their right answers, one a line (JSONL): a request body with \"gold\": {question: answer}, and if you
    /// like \"id\" and \"group\"
    data: PathBuf,

    /// Ask a System One server instead of loading a model
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The key for --url
    #[arg(long, value_name = "KEY", env = "CLEF_API_KEY", hide_env_values = true, requires = "url")]
    api_key: Option<String>,

    /// Requests asked at a time; measure latencies with 1
    #[arg(long, short, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,

    /// Keep answers in a file as they come, and ask only what is not in it yet
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    /// Print JSON
    #[arg(long, conflicts_with_all = ["markdown"])]
    json: bool,

    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,

    /// Show a row for each question, too
    #[arg(long)]
    questions: bool,

    /// Write a reliability diagram and a histogram of latencies, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,

    #[command(flatten)]
    model: ModelFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (subject, answerer): (String, Box<dyn Answerer>) = match &arguments.url {
        Some(url) => {
            let options = RemoteOptions { api_key: arguments.api_key.clone(), ..RemoteOptions::default() };
            let remote = Remote::new(url, options)?;
            (remote.url().to_owned(), Box::new(remote))
        }
        None => {
            let flags = fetch_with_progress(&arguments.model)?;
            let model = model_or_built_in(flags.model.as_deref())?;
            let clef = open_with_progress(model.path(), &flags.options())?;
            (measured::subject(model.path()), Box::new(InProcess(clef)))
        }
    };
    let results = arguments.results.as_deref().map(|path| Results::open(path, &subject)).transpose()?;
    let outcomes = measured::ask_all(&arguments.data, true, &answerer, arguments.jobs, results.as_ref())?;
    let evaluation = Evaluation::of(&subject, &outcomes, &MeasureOptions::default());
    if let Some(folder) = &arguments.charts {
        let reliability = Chart::Reliability { title: &subject, measures: &evaluation.overall };
        measured::draw(folder, "reliability", &reliability)?;
        let latency = Chart::Latency { title: &subject, latencies_ms: &evaluation.latencies_ms };
        measured::draw(folder, "latency", &latency)?;
    }
    let detail = if arguments.questions { Detail::Questions } else { Detail::Groups };
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => evaluation.to_json(),
        (_, true) => evaluation.to_markdown(detail),
        _ => evaluation.to_text(detail),
    })
}
