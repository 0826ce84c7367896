//! `clef generate` and `clef describe`: text from a model's backbone, for looking at it by itself.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clef_api::{ChatMessage, ChatTemplate, Image, Sampling, TextRequest, Writer, WrittenText};
use clef_server::{ModelFlags, find_model, open_writer_with_progress, plain};
use serde_json::json;

use crate::failure::{Failure, print};
use crate::input::{place, read_file, read_input, read_media};
use crate::limits::{self, Limits};

// As with llama.cpp's programs, of a flag that is given twice the last one counts.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// What to say to the model; - for standard input
    #[arg(conflicts_with = "prompt_flag")]
    prompt: Option<String>,

    /// The same as a flag
    #[arg(id = "prompt_flag", long = "prompt", short = 'p', value_name = "PROMPT")]
    prompt_flag: Option<String>,

    /// Show a picture file before the prompt; may be given several times
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    #[command(flatten)]
    text: TextFlags,

    #[command(flatten)]
    model: ModelFlags,
}

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct DescribeArguments {
    /// The picture file; may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    image: Vec<PathBuf>,

    /// What to ask about it
    #[arg(default_value = "Describe the image.")]
    prompt: String,

    #[command(flatten)]
    text: TextFlags,

    #[command(flatten)]
    model: ModelFlags,
}

/// How text is written.
#[derive(Debug, Args)]
struct TextFlags {
    /// What the model is told before the prompt
    #[arg(long, alias = "system-prompt", value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,

    /// Have the model go on from the prompt as it stands, without a chat template; where images are to be seen it holds
    /// <|vision_start|><|image_pad|><|vision_end|>
    #[arg(long)]
    raw: bool,

    /// The chat template, a file in Jinja's language; the model's own by default
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    chat_template_file: Option<PathBuf>,

    /// Without effect: templates are always Jinja's
    #[arg(long)]
    jinja: bool,

    /// Let the model think before it answers, if the template knows how
    #[arg(long, conflicts_with = "raw")]
    think: bool,

    /// The most tokens to write; -1 for as many as fit the context
    #[arg(short = 'n', long = "predict", alias = "n-predict", value_name = "N", default_value = "256")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..=i64::from(u32::MAX)))]
    predict: i64,

    /// How freely tokens are chosen; 0 for always the most probable one
    #[arg(long, alias = "temperature", value_name = "T", default_value = "0.7")]
    #[arg(allow_negative_numbers = true, value_parser = |text: &str| number_to(100.0, text))]
    temp: f32,

    /// Choose among so many of the most probable tokens; 0 for all
    #[arg(long, value_name = "N", default_value = "20")]
    top_k: u32,

    /// Choose among the most probable tokens that have this probability together
    #[arg(long, value_name = "P", default_value = "0.8")]
    #[arg(allow_negative_numbers = true, value_parser = |text: &str| number_to(1.0, text))]
    top_p: f32,

    /// What chance starts from, for the same text again; -1 for another start each time
    #[arg(short, long, value_name = "N", default_value = "-1")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..=i64::from(u32::MAX - 1)))]
    seed: i64,

    /// Print one JSON object when all is written, instead of the text as it comes
    #[arg(long)]
    json: bool,
}

/// More than any template takes while it is run. They come with files of others, and a short one can double a text until
/// there is no memory left, or copy a list in each of its steps.
const TEMPLATE_LIMITS: Limits = Limits { memory: 1 << 30, time: Duration::from_secs(10) };

/// More than any template has.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let prompt = match arguments.prompt.as_ref().or(arguments.prompt_flag.as_ref()) {
        Some(text) if text != "-" => text.clone(),
        given => from_stdin(given.map(Path::new))?,
    };
    write(prompt, &arguments.image, &arguments.text, &arguments.model)
}

pub(crate) fn describe(arguments: &DescribeArguments) -> Result<(), Failure> {
    write(arguments.prompt.clone(), &arguments.image, &arguments.text, &arguments.model)
}

fn number_to(limit: f32, text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=limit).contains(number));
    number.ok_or_else(|| format!("a number from 0 to {limit} is expected"))
}

fn from_stdin(path: Option<&Path>) -> Result<String, Failure> {
    let mut text = String::from_utf8(read_input(path, "prompt is given")?)
        .map_err(|_| Failure::request("standard input is not UTF-8"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Everything that can be wrong with the request first: a typo should not cost the time of loading a model.
fn write(prompt: String, images: &[PathBuf], text: &TextFlags, model: &ModelFlags) -> Result<(), Failure> {
    let template = text.chat_template_file.as_deref().map(read_template).transpose()?;
    let image = |path: &PathBuf| Ok(Image { data: read_media(path)?, loc: place(path) });
    let images = images.iter().map(image).collect::<Result<Vec<_>, Failure>>()?;
    let (file, options) = find_model(model)?;
    let options = options.model;
    if !images.is_empty() && options.projector.is_none() {
        return Err(Failure::usage("no projector is given, so the model sees no images; name it with --mmproj FILE"));
    }
    let mut writer = open_writer_with_progress(file.path(), &options)?;
    let prompt = match text.raw {
        true => prompt,
        false => text.rendered(&writer, template, prompt, images.len())?,
    };
    let sampling =
        Sampling { temperature: text.temp, top_k: text.top_k, top_p: text.top_p, seed: u32::try_from(text.seed).ok() };
    let request = TextRequest { prompt, images, sampling, limit: u32::try_from(text.predict).ok() };
    if text.json { print_json(&mut writer, &request) } else { stream(&mut writer, &request) }
}

impl TextFlags {
    /// The conversation as the model reads it.
    fn rendered(
        &self,
        writer: &Writer,
        template: Option<ChatTemplate>,
        prompt: String,
        images: usize,
    ) -> Result<String, Failure> {
        let template = template.or_else(|| writer.template().cloned()).ok_or_else(|| {
            anyhow::anyhow!("the model's file has no chat template; give one with --chat-template-file FILE, or --raw")
        })?;
        let system =
            self.system.iter().map(|text| ChatMessage { role: "system".into(), text: text.clone(), images: 0 });
        let user = ChatMessage { role: "user".into(), text: prompt, images };
        let messages: Vec<ChatMessage> = system.chain([user]).collect();
        let _watch = limits::watch(TEMPLATE_LIMITS, "the chat template");
        Ok(writer.render(&template, &messages, self.think).map_err(clef_api::Error::from)?)
    }
}

fn read_template(path: &Path) -> Result<ChatTemplate, Failure> {
    let name = path.display().to_string();
    let source = String::from_utf8(read_file(path, MAX_TEMPLATE_BYTES)?)
        .map_err(|_| Failure::request(format_args!("{name} is not UTF-8")))?;
    Ok(ChatTemplate::new(&name, &source).map_err(clef_api::Error::from)?)
}

/// Prints pieces as they come.
fn stream(writer: &mut Writer, request: &TextRequest) -> Result<(), Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut failure = None;
    let written = write_on(writer, request, &mut |piece| {
        let piece = if is_terminal { harmless(piece) } else { piece.into() };
        let mut out = std::io::stdout().lock();
        match out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                // A reader that went away (`clef ... | head`) is no failure.
                failure = Some(error).filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(anyhow::Error::new(error).context("the output cannot be written").into());
    }
    if written.stop == clef_api::Stop::Told { Ok(()) } else { print("\n") }
}

/// Text that a terminal can be trusted with; its lines stay.
fn harmless(piece: &str) -> Cow<'_, str> {
    if !piece.contains('\n') {
        return plain(piece);
    }
    piece.split('\n').map(plain).collect::<Vec<_>>().join("\n").into()
}

fn print_json(writer: &mut Writer, request: &TextRequest) -> Result<(), Failure> {
    let mut text = String::new();
    let written = write_on(writer, request, &mut |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    })?;
    let object = json!({
        "text": text,
        "prompt_tokens": written.prompt_tokens,
        "output_tokens": written.output_tokens,
        "stop": written.stop.as_str(),
    });
    print(&format!("{object}\n"))
}

fn write_on(
    writer: &mut Writer,
    request: &TextRequest,
    take: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<WrittenText, Failure> {
    Ok(writer.write(request, take).map_err(clef_api::Error::from)?)
}
