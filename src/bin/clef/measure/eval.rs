//! `clef eval`: labelled requests in, figures out.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clef_eval::{
    Answerer, Cancel, Chart, DatasetOptions, Detail, Evaluation, MeasureOptions, Remote, RemoteOptions, Results,
};
use clef_server::{ModelFlags, find_model, model_flag_ids, open_with_progress};

use super::in_process::InProcess;
use super::{Format, ask_all, draw, identity::identity, open_data, subject};
use crate::failure::{Failure, print};
use crate::input::at_least_one;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Requests with their right answers, one a line (JSONL): a request body with "gold": {question: answer}, and if you
    /// like "id" and "group"; - reads standard input
    data: PathBuf,

    /// Ask a System One server instead of loading a model
    #[arg(long, value_name = "URL", conflicts_with_all = model_flag_ids())]
    url: Option<String>,

    /// The key for --url [env: CLEF_API_KEY]
    #[arg(long, value_name = "KEY", requires = "url")]
    api_key: Option<String>,

    /// How long an answer of --url may take; while the server loads its model (503) it is waited for, 600 seconds at most
    /// [default: 600]
    #[arg(long, value_name = "SECONDS", requires = "url", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,

    /// How often --url is asked again when it has no room [default: 8]
    #[arg(long, value_name = "N", requires = "url")]
    retries: Option<u32>,

    /// Requests asked at a time; measure latencies with 1
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = at_least_one)]
    jobs: NonZeroUsize,

    /// Keep answers in a file as they come, and ask only what is not in it yet
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    #[command(flatten)]
    format: Format,

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
    // What would be in vain is better known before a model is loaded and anything is asked.
    if let Some(folder) = &arguments.charts {
        Chart::prepare_folder(folder)?;
    }
    let dataset = open_data(&arguments.data, DatasetOptions::default())?;
    let cancel = Cancel::new();
    let open_results = |subject: &str, identity: &str| {
        let path = arguments.results.as_deref();
        path.map(|path| Results::open(path, format!("{subject} {identity}").trim_end())).transpose()
    };
    let (subject, results, answerer): (String, Option<Results>, Box<dyn Answerer>) = match &arguments.url {
        Some(url) => {
            // Not clap's: a variable that is set for other programs asks for no --url.
            let variable = || std::env::var("CLEF_API_KEY").ok().filter(|key| !key.is_empty());
            let defaults = RemoteOptions::default();
            let options = RemoteOptions {
                api_key: arguments.api_key.clone().or_else(variable),
                cancel: cancel.clone(),
                timeout: arguments.timeout.map_or(defaults.timeout, |seconds| Duration::from_secs(seconds.into())),
                retries: arguments.retries.unwrap_or(defaults.retries),
                ..defaults
            };
            let remote = Remote::new(url, options).map_err(Failure::usage)?;
            // Another model may answer at this address tomorrow.
            let models = arguments.results.is_some().then(|| remote.model()).transpose()?.flatten();
            let results = open_results(remote.url(), &models.unwrap_or_default())?;
            (remote.url().to_owned(), results, Box::new(remote))
        }
        None => {
            let (file, options) = find_model(&arguments.model)?;
            let subject = subject(file.path());
            let results = open_results(&subject, &identity(file.path(), &options.model)?)?;
            let clef = open_with_progress(file.path(), &options)?;
            (subject, results, Box::new(InProcess(clef)))
        }
    };
    let run = ask_all(dataset, &answerer, arguments.jobs, results.as_ref(), &cancel)?;
    let evaluation = Evaluation::of(&subject, &run.outcomes, &MeasureOptions::default());
    let detail = if arguments.questions { Detail::Questions } else { Detail::Groups };
    print(&arguments.format.choose(
        &evaluation,
        |evaluation| evaluation.to_text(detail),
        |evaluation| evaluation.to_markdown(detail),
        Evaluation::to_json,
    ))?;
    if let Some(folder) = &arguments.charts {
        let reliability = Chart::Reliability { title: &subject, measures: &evaluation.overall };
        draw(folder, "reliability", &reliability)?;
        let latency = Chart::Latency { title: &subject, latencies_ms: &evaluation.latencies_ms };
        draw(folder, "latency", &latency)?;
    }
    if run.is_cancelled {
        let hint = if results.is_some() { "; the same command goes on from there" } else { "" };
        let figures = match run.outcomes.len() {
            0 => "there are no figures yet".to_owned(),
            1 => "the figures are of the one record until then".to_owned(),
            records => format!("the figures are of the {records} records until then"),
        };
        let message = format!("stopped; {figures}{hint}");
        return Err(Failure::stopped(message));
    }
    Ok(())
}
