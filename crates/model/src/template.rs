//! Chat templates: a conversation to the text that a model was trained on.
//!
//! Templates are programs in Jinja's language that come with model files. They are run as Hugging Face's `transformers`
//! runs them: the same variables, functions and filters, blocks without the whitespace around them. A program of somebody
//! else's is held to a number of steps and of bytes written; it reads no files.

use std::io::Write;

use clef_llama::gguf::Gguf;
use minijinja::value::Kwargs;
use minijinja::{AutoEscape, Environment, Value, context};

use crate::error::{Error, ErrorKind, Result};
use crate::python_json::JsonLayout;

/// What stands in a text where an image is shown.
pub(crate) const IMAGE_PAD: &str = "<|image_pad|>";
const IMAGE: &str = "<|vision_start|><|image_pad|><|vision_end|>";

/// The longest template, in bytes. (Published ones have up to 20,000.)
const MAX_BYTES: usize = 1 << 20;
/// Steps that a template may take.
const FUEL: u64 = 10_000_000;
/// Bytes that it may write.
const MAX_TEXT_BYTES: usize = 256 << 20;

/// A longer message quotes a template, and does not describe it.
const MAX_MESSAGE_CHARS: usize = 1000;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub text: String,
    /// Images that are shown before the text.
    pub images: usize,
}

/// A chat template that can be compiled.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    name: String,
    source: String,
}

/// The tokens that templates may write by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedTokens {
    bos: Option<String>,
    eos: Option<String>,
}

impl ChatTemplate {
    /// Compiles a template; errors call it by its name.
    ///
    /// # Errors
    /// If it is not Jinja as far as it is known here, or longer than 1 MiB.
    pub fn new(name: &str, source: &str) -> Result<Self> {
        if source.len() > MAX_BYTES {
            let message = format!("{name}: a chat template of {} bytes, the limit is {MAX_BYTES}", source.len());
            return Err(Error::new(ErrorKind::Template, message));
        }
        environment().template_from_named_str(name, source).map_err(|error| failed(name, &error))?;
        Ok(Self { name: name.to_owned(), source: source.to_owned() })
    }

    /// The one of a model's file; none if it has none.
    pub(crate) fn of(gguf: &Gguf) -> Result<Option<Self>> {
        let name = || format!("{}: tokenizer.chat_template", gguf.path().display());
        gguf.get_str("tokenizer.chat_template").map(|source| Self::new(&name(), source)).transpose()
    }

    /// Renders a conversation up to where the model speaks. Images stand where the template puts them or, if it knows of
    /// none, in front of the message's text.
    pub(crate) fn render(&self, messages: &[ChatMessage], think: bool, tokens: &NamedTokens) -> Result<String> {
        let images: usize = messages.iter().map(|message| message.images).sum();
        if images > 0 {
            let places = |text: &str| text.matches(IMAGE_PAD).count();
            let wanted = images + messages.iter().map(|message| places(&message.text)).sum::<usize>();
            let parts: Vec<Value> = messages.iter().map(in_parts).collect();
            // One that takes texts only fails on parts, or writes them down.
            if let Ok(text) = self.run(&parts, think, tokens)
                && places(&text) == wanted
            {
                return Ok(text);
            }
        }
        let plain = |message: &ChatMessage| {
            let text = format!("{}{}", IMAGE.repeat(message.images), message.text);
            context! { role => message.role, content => text }
        };
        let plain: Vec<Value> = messages.iter().map(plain).collect();
        self.run(&plain, think, tokens)
    }

    fn run(&self, messages: &[Value], think: bool, tokens: &NamedTokens) -> Result<String> {
        let environment = environment();
        let failed = |error| failed(&self.name, &error);
        let template = environment.template_from_named_str(&self.name, &self.source).map_err(failed)?;
        let values = context! {
            messages,
            tools => Value::from(()),
            documents => Value::from(()),
            add_generation_prompt => true,
            enable_thinking => think,
            ..named(tokens)
        };
        let mut text = Bounded { bytes: Vec::new() };
        template.render_captured_to(values, &mut text).map_err(failed)?;
        String::from_utf8(text.bytes)
            .map_err(|_| Error::new(ErrorKind::Template, format_args!("{}: it writes no text", self.name)))
    }
}

impl NamedTokens {
    /// Those of a model's file, as far as it states them.
    pub(crate) fn of(gguf: &Gguf, piece: impl Fn(u64) -> Option<Vec<u8>>) -> Self {
        let named = |key: &str| {
            let id = gguf.get(key)?.as_u64()?;
            String::from_utf8(piece(id)?).ok()
        };
        Self { bos: named("tokenizer.ggml.bos_token_id"), eos: named("tokenizer.ggml.eos_token_id") }
    }
}

/// Those that there are; the others are undefined, as in `transformers`.
fn named(tokens: &NamedTokens) -> Value {
    let all = [("bos_token", &tokens.bos), ("eos_token", &tokens.eos)];
    all.into_iter().filter_map(|(name, token)| Some((name, Value::from(token.as_deref()?)))).collect()
}

fn in_parts(message: &ChatMessage) -> Value {
    if message.images == 0 {
        return context! { role => message.role, content => message.text };
    }
    let image = || context! { type => "image" };
    let text = context! { type => "text", text => message.text };
    let parts: Vec<Value> = std::iter::repeat_with(image).take(message.images).chain([text]).collect();
    context! { role => message.role, content => parts }
}

fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
    environment
}

fn invalid(message: impl Into<String>) -> minijinja::Error {
    minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message.into())
}

fn raise_exception(message: &str) -> std::result::Result<Value, minijinja::Error> {
    Err(invalid(message))
}

/// The local time, as the format says.
fn strftime_now(format: &str) -> std::result::Result<String, minijinja::Error> {
    use std::fmt::Write as _;
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(format))
        .map_err(|_| invalid(format!("{format:?} is no format of a time")))?;
    Ok(text)
}

/// `json.dumps` with the defaults of `transformers`, and the options that it passes on.
#[expect(clippy::needless_pass_by_value, reason = "filters take their named arguments so")]
fn to_json(value: &Value, options: Kwargs) -> std::result::Result<String, minijinja::Error> {
    let layout = JsonLayout {
        indent: options.get("indent")?,
        separators: options.get("separators")?,
        is_sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        is_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    layout.write(value).map_err(invalid)
}

/// One line that names template and line, without what terminals obey.
fn failed(name: &str, error: &minijinja::Error) -> Error {
    let place = error.line().map_or_else(String::new, |line| format!(" line {line}:"));
    let what = match (error.kind(), error.detail()) {
        (minijinja::ErrorKind::OutOfFuel, _) => format!("it takes more than {FUEL} steps"),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    };
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    let message: String = format!("{name}:{place} {what}{cause}").chars().take(MAX_MESSAGE_CHARS).collect();
    Error::new(ErrorKind::Template, message.replace(char::is_control, " "))
}

/// A text that is too long is an error.
struct Bounded {
    bytes: Vec<u8>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_TEXT_BYTES {
            return Err(std::io::Error::other(format!("more than {} MiB are written", MAX_TEXT_BYTES >> 20)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, text: &str, images: usize) -> ChatMessage {
        ChatMessage { role: role.to_owned(), text: text.to_owned(), images }
    }

    fn render(source: &str, messages: &[ChatMessage]) -> Result<String> {
        let tokens = NamedTokens { bos: None, eos: Some("<|im_end|>".to_owned()) };
        ChatTemplate::new("chat.jinja", source)?.render(messages, false, &tokens)
    }

    #[test]
    fn what_templates_of_this_family_use_is_there_and_does_what_jinja2_does() {
        // Written to use what published templates use; the expected text is that of Jinja2 3.1.6, set up as
        // `transformers` does it.
        let source = r#"{%- set count = namespace(value=0) %}
{%- macro content_of(content, shows) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if 'image' in item or item.type == 'image' %}
                {%- set count.value = count.value + 1 %}
                {%- if add_vision_id %}{{- 'Picture ' ~ count.value ~ ': ' }}{% endif %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif 'text' in item %}
                {{- item.text }}
            {%- endif %}
        {%- endfor %}
    {%- else %}
        {{- raise_exception('unexpected content') }}
    {%- endif %}
{%- endmacro %}
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + content_of(messages[0].content, false).strip() + eos_token + '\n' }}
{%- endif %}
{%- for message in messages[::-1] %}
    {%- if loop.first and message.role == "user" %}{% set last = messages|length - 1 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}
            {{- raise_exception('a system message is first') }}
        {%- endif %}
        {%- continue %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content_of(message.content, true) + '<|im_end|>' + '\n' }}
    {%- if loop.previtem and loop.previtem.role != "tool" %}{{ {'a<b': [1, none, true, "é"]} | tojson }}{% endif %}
    {%- if 'x,y'.split(',')[-1].startswith('y') %} {{ bos_token is defined }}{{ none }} {{ 'ab'|upper }}{%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}
<think>

</think>

{% endif %}
{% endif %}
"#;
        let messages = [message("system", " Be brief. ", 0), message("user", "What is this?", 2)];
        let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n\
            <|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>What is this?<|im_end|>\n\
            {\"a<b\": [1, null, true, \"é\"]} FalseNone AB<|im_start|>assistant\n<think>\n\n</think>\n\n";
        assert_eq!(render(source, &messages).expect("it renders"), expected);
    }

    #[test]
    fn images_stand_before_the_text_of_templates_that_know_of_none() {
        for source in ["{{ messages[0].content }}", "{{ messages[0].content + '' }}"] {
            let text = render(source, &[message("user", "What?", 2)]).expect("it renders");
            assert_eq!(text, format!("{IMAGE}{IMAGE}What?"), "{source}");
        }
    }

    #[test]
    fn errors_name_template_and_line() {
        for (source, expected) in [
            ("\n{% if %}", "chat.jinja: line 2:"),
            ("{{ raise_exception('no\nsuch role') }}", "chat.jinja: line 1: no such role"),
            ("\n\n{{ messages[0].content.nothing.deeper }}", "chat.jinja: line 3:"),
            ("{{ strftime_now('%Q') }}", "chat.jinja: line 1: \"%Q\" is no format of a time"),
            ("{% include 'other' %}", "chat.jinja: line 1:"),
        ] {
            let error = render(source, &[message("user", "Hi", 0)]).expect_err(source);
            assert!(error.to_string().starts_with(expected), "{source}: {error}");
            assert!(!error.to_string().contains('\n') && error.kind() == ErrorKind::Template, "{error}");
        }
    }

    #[test]
    fn a_template_that_goes_on_and_on_is_stopped() {
        let source = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
        let error = render(source, &[message("user", "Hi", 0)]).expect_err("it goes on");
        assert!(error.to_string().ends_with("it takes more than 10000000 steps"), "{error}");
        let long = " ".repeat(MAX_BYTES + 1);
        let error = ChatTemplate::new("chat.jinja", &long).expect_err("it is long");
        assert_eq!(error.to_string(), "chat.jinja: a chat template of 1048577 bytes, the limit is 1048576");
    }
}
