//! A backbone that writes text, token by token.
//!
//! Decisions need no text, and what serves them never loads the output matrix. This is for looking at a model by itself:
//! what it says about a prompt, what it sees in an image. Prompts are read as those of decisions are, images through the
//! same tower at the same size.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clef_engine::{Refusal, RefusalKind};
use clef_llama::gguf::Gguf;
use clef_llama::{Backbone, Context, Model, ModelParams, Projector, Sampler, Sampling, SequenceId, Token};
use clef_record::{Grouped, Image, MediaSlot, Prompt, ShownPixels, TokenId};

use crate::bundle::{look_at, model_params, open_vision};
use crate::characters::Characters;
use crate::encode::no_projector;
use crate::error::{Error, ErrorKind, Result};
use crate::fit;
use crate::kernels;
use crate::media::Gallery;
use crate::options::ModelOptions;
use crate::positions::place;
use crate::template::{ChatMessage, ChatTemplate, IMAGE_PAD, NamedTokens};
use crate::vision::{Eye, TokenTable};

/// The one sequence of its context.
const TEXT: SequenceId = SequenceId(0);

/// A text to go on from, and how.
#[derive(Debug, Clone, Default)]
pub struct TextRequest {
    /// What the model reads; added tokens such as `<|im_start|>` are recognized, `<|image_pad|>` is where an image is.
    pub prompt: String,
    /// The images, in the order of their places in the prompt.
    pub images: Vec<Image>,
    /// How tokens are taken.
    pub sampling: Sampling,
    /// The most tokens to write; none for as many as the context has room for.
    pub limit: Option<u32>,
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model ended it.
    End,
    /// It has as many tokens as were asked for.
    Limit,
    /// The context is full.
    Context,
    /// Whoever takes the pieces wanted no more.
    Told,
}

impl Stop {
    /// A word for programs: `end`, `limit`, `context`, `told`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Limit => "limit",
            Self::Context => "context",
            Self::Told => "told",
        }
    }
}

/// What writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenText {
    /// Tokens that were read, those of images among them.
    pub prompt_tokens: usize,
    /// Tokens that were written, without the one that ends a text.
    pub output_tokens: usize,
    /// Why there are no more.
    pub stop: Stop,
}

/// A loaded backbone with its output matrix; no head is needed, so plain `qwen35` files will do. One thread at a time.
#[derive(Debug)]
pub struct Writer {
    model: Model,
    context: Context,
    template: Option<ChatTemplate>,
    named: NamedTokens,
    sight: Option<Sight>,
}

/// What images take.
#[derive(Debug)]
struct Sight {
    gallery: Gallery,
    eye: Eye,
    /// What an image's place in a text reads as.
    pad: Token,
}

impl Writer {
    /// Opens a `clef` or `qwen35` GGUF file, and the projector that the options name beside it. `progress` is told bytes
    /// read and bytes in all, and stops the load by returning false.
    ///
    /// # Errors
    /// If the file is no such model, its parts contradict each other, options make no sense, or memory runs out.
    pub fn open(path: &Path, options: &ModelOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Self> {
        let start = Instant::now();
        // No head is needed, so none is looked for: one that is named and missing would be an error.
        let options = &ModelOptions { head: None, ..options.clone() };
        let (gguf, mut inspection) = look_at(path, options)?;
        let (layers, trained_context) = {
            let backbone = Backbone::new(&gguf)?;
            (backbone.hyperparameters().layers, backbone.hyperparameters().trained_context)
        };
        let template = ChatTemplate::of(&gguf)?;
        let mut options = options.resolved(Some(trained_context));
        if options.must_fit {
            let output = gguf.tensor("output.weight").map_or(0, |tensor| tensor.bytes);
            inspection.memory = inspection.memory.map(|memory| memory.for_writing(output));
            fit::check(&inspection, &options, &fit::available(&options)?)?;
        }
        let projector_file = options.projector.as_deref().map(Gguf::open).transpose()?;
        let projector = projector_file.as_ref().map(Projector::new).transpose()?;
        let gallery = projector.as_ref().map(|projector| Gallery::new(projector.shape(), &options)).transpose()?;
        let kernels = kernels::choose(&gguf, layers, &options);
        options.threads = Some(kernels.threads);
        let params = ModelParams { output: true, ..model_params(&options, kernels)? };
        let model = Model::load(&gguf, &params, progress)?;
        let sight = match (&projector, gallery) {
            (Some(projector), Some(gallery)) => {
                let vision = open_vision(projector, &model, &options)?;
                let eye = Eye::new(vision, TokenTable::new(Arc::clone(&gguf))?, 0);
                Some(Sight { gallery, eye, pad: image_pad(&model)? })
            }
            _ => None,
        };
        let piece = |id| model.vocabulary().piece(Token(i32::try_from(id).ok()?)).map(<[u8]>::to_vec);
        let named = NamedTokens::of(&gguf, piece);
        let context = Context::new(&model, &options.context_params())?;
        tracing::info!(
            model = %path.display(),
            weights_mib = model.weight_bytes() >> 20,
            context_tokens = options.context_tokens,
            seconds = start.elapsed().as_secs_f32(),
            "model loaded to write text"
        );
        Ok(Self { model, context, template, named, sight })
    }

    /// The chat template of its file, if that has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// A conversation as the text that the model goes on from; `think` lets it think first, if the template knows how.
    ///
    /// # Errors
    /// If the template fails on it.
    pub fn render(&self, template: &ChatTemplate, messages: &[ChatMessage], think: bool) -> Result<String> {
        template.render(messages, think, &self.named)
    }

    /// Writes on from a prompt. `take` is given each piece as it comes, whole characters only, and stops it by breaking
    /// off.
    ///
    /// # Errors
    /// If the prompt does not fit the context, its images do not fit it or cannot be read, numbers make no sense, or the
    /// computation fails.
    pub fn write(
        &mut self,
        request: &TextRequest,
        take: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<WrittenText> {
        let mut sampler = Sampler::new(&request.sampling)?;
        let prompt = self.prompt(request)?;
        let mut written = WrittenText { prompt_tokens: prompt.tokens.len(), output_tokens: 0, stop: Stop::Limit };
        if request.limit == Some(0) {
            return Ok(written);
        }
        self.read(&prompt)?;
        let mut characters = Characters::default();
        written.stop = loop {
            let token = sampler.sample(&mut self.context)?;
            let vocabulary = self.model.vocabulary();
            if vocabulary.is_end(token) {
                break Stop::End;
            }
            written.output_tokens += 1;
            if !vocabulary.is_control(token) {
                let text = characters.push(vocabulary.piece(token).unwrap_or_default());
                if !text.is_empty() && take(&text).is_break() {
                    return Ok(WrittenText { stop: Stop::Told, ..written });
                }
            }
            if request.limit.is_some_and(|limit| written.output_tokens >= limit as usize) {
                break Stop::Limit;
            }
            let length = self.context.sequence_length(TEXT)?.unwrap_or_default();
            if length.tokens >= self.context.params().cells {
                break Stop::Context;
            }
            self.context.decode(TEXT, &[token])?;
        };
        let rest = characters.finish();
        if !rest.is_empty() && take(&rest).is_break() {
            written.stop = Stop::Told;
        }
        Ok(written)
    }

    /// The tokens of the prompt, those of images among them, and their pixels.
    fn prompt(&self, request: &TextRequest) -> Result<Prompt> {
        let vocabulary = self.model.vocabulary();
        // What cannot fit is not tokenized: that would take a hundred times its size in memory.
        let (fewest, limit) = (request.prompt.len().div_ceil(vocabulary.longest_token_bytes().max(1)), self.limit());
        if fewest > limit {
            let (fewest, limit) = (Grouped(fewest), Grouped(limit));
            let message = format!("the prompt has at least {fewest} tokens, 1 to {limit} fit");
            return Err(Error::new(ErrorKind::Request, message));
        }
        let mut tokens = Vec::new();
        vocabulary.tokenize(&request.prompt, &mut tokens)?;
        let mut prompt = Prompt {
            tokens: Vec::with_capacity(tokens.len()),
            prefix_end: 0,
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end: 0,
            questions: Vec::new(),
            truncated_tokens: 0,
        };
        let Some(first) = request.images.first() else {
            prompt.tokens.extend(tokens.iter().map(|token| TokenId(token.0)));
            return self.fitting(prompt);
        };
        let sight = self.sight.as_ref().ok_or_else(|| refused(&no_projector(&first.loc)))?;
        let opened = sight.gallery.open(&request.images, &[]).map_err(|refusal| refused(&refusal))?;
        let places = tokens.iter().filter(|&&token| token == sight.pad).count();
        if places != request.images.len() {
            let message = format!("the prompt has {places} places for images, and there are {}", request.images.len());
            return Err(Error::new(ErrorKind::Request, message));
        }
        let mut shapes = opened.shapes().into_iter().peekable();
        for token in tokens {
            match shapes.next_if(|_| token == sight.pad) {
                None => prompt.tokens.push(TokenId(token.0)),
                Some(shape) => {
                    let start = prompt.tokens.len();
                    prompt.tokens.resize(start + shape.shown_tokens(), TokenId(token.0));
                    let span = start..prompt.tokens.len();
                    prompt.media.push(MediaSlot { span, columns: shape.columns, shown: ShownPixels::none() });
                }
            }
        }
        let mut prompt = self.fitting(prompt)?;
        opened.hang(&mut prompt).map_err(|refusal| refused(&refusal))?;
        Ok(prompt)
    }

    /// The most tokens that a prompt may have.
    fn limit(&self) -> usize {
        self.context.params().cells as usize
    }

    fn fitting(&self, mut prompt: Prompt) -> Result<Prompt> {
        let (tokens, limit) = (prompt.tokens.len(), self.limit());
        if tokens == 0 || tokens > limit {
            return Err(Error::new(
                ErrorKind::Request,
                format_args!("the prompt has {} tokens, 1 to {} fit", Grouped(tokens), Grouped(limit)),
            ));
        }
        prompt.state_end = tokens;
        Ok(prompt)
    }

    /// Reads a prompt from an empty context, up to the logits of what comes next.
    fn read(&mut self, prompt: &Prompt) -> Result<()> {
        self.context.clear_sequence(TEXT)?;
        let mut seen = BTreeMap::new();
        if let Some(sight) = &mut self.sight {
            for (index, slot) in prompt.media.iter().enumerate() {
                seen.insert(index, sight.eye.look(slot, prompt.tokens[slot.span.start])?.0);
            }
        }
        prompt.drop_pixels();
        let (count, chunk) = (prompt.tokens.len(), self.context.params().chunk as usize);
        for start in (0..count).step_by(chunk) {
            let end = count.min(start + chunk);
            self.context.compute_logits(end == count);
            let shows = prompt.media.iter().any(|slot| slot.span.start < end && slot.span.end > start);
            match self.sight.as_ref().filter(|_| shows) {
                None => {
                    let tokens: Vec<Token> = prompt.tokens[start..end].iter().map(|token| Token(token.0)).collect();
                    self.context.decode(TEXT, &tokens)?;
                }
                Some(sight) => {
                    let rows = sight.eye.rows(prompt, start, end, |slot| seen.get(&slot).cloned())?;
                    let placed = place(prompt, start, end);
                    self.context.decode_rows(TEXT, &rows, &placed.positions, placed.next)?;
                }
            }
        }
        Ok(())
    }
}

/// The token that stands for an image.
fn image_pad(model: &Model) -> Result<Token> {
    let mut tokens = Vec::new();
    model.vocabulary().tokenize(IMAGE_PAD, &mut tokens)?;
    match tokens.as_slice() {
        [token] => Ok(*token),
        _ => {
            let message = "a projector was given, but the model's vocabulary has no token for images";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

fn refused(refusal: &Refusal) -> Error {
    let kind = match refusal.kind {
        RefusalKind::TooLong { .. } | RefusalKind::Invalid | RefusalKind::NotSupported => ErrorKind::Request,
        _ => ErrorKind::Upstream,
    };
    Error::new(kind, &refusal.message)
}
