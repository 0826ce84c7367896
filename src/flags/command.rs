//! The table as clap's command, for everything that is printed about it.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::flag::{Effect, Flag, Group, Takes};
use super::flags;

const ABOUT: &str = "Serve decisions of Clef models over HTTP, as a drop-in for llama-server";

const EXIT_CODES: &str = "\
Exit codes:
  0   ended as told
  1   the command line is wrong, the address is taken, or the model cannot be used
  70  the engine was lost; a supervisor should start the program anew";

/// `clef-server` as clap sees it: for help, manual page and completions. (The command line is read by
/// [`parse`](super::parse), because llama-server's rules are not clap's.)
pub fn command() -> Command {
    let command = Command::new("clef-server")
        .about(ABOUT)
        .after_help(format!("{}\n\n{EXIT_CODES}", ignored()))
        .max_term_width(100)
        .disable_help_flag(true)
        .disable_version_flag(true);
    let mut all: Vec<&Flag> = flags().filter(|flag| !flag.hidden).collect();
    all.sort_by_key(|flag| flag.group);
    let arguments = all.into_iter().flat_map(|flag| arguments(flag, flag.group.heading()));
    command.args(arguments.enumerate().map(|(index, argument)| argument.display_order(index)))
}

/// A flag as clap's arguments: one, and another for each long spelling that switches it off.
pub(crate) fn arguments(flag: &Flag, heading: &'static str) -> Vec<Arg> {
    let long = |name: &'static str| name.strip_prefix("--");
    let offs: Vec<&str> = flag.off.iter().filter_map(|name| long(name)).collect();
    let mut main = Arg::new(flag.id())
        .long(flag.id())
        .help(help(flag))
        .help_heading(heading)
        .overrides_with_all(&offs)
        .hide(flag.hidden);
    if !flag.adds_up {
        main = main.overrides_with(flag.id());
    }
    for name in &flag.names[1..] {
        main = match (long(name), letter(name)) {
            (Some(name), _) => main.alias(name),
            (None, Some(letter)) => main.short(letter),
            (None, None) => main,
        };
    }
    main = match flag.takes {
        Takes::Nothing => main.action(ArgAction::SetTrue),
        Takes::Value(name) if flag.adds_up => main.value_name(name).allow_hyphen_values(true).action(ArgAction::Append),
        Takes::Value(name) => main.value_name(name).allow_hyphen_values(true),
        Takes::When => main.value_name("WHEN").num_args(0..=1).default_missing_value("on"),
        Takes::Two(first, second) => main.value_names([first, second]).num_args(2).allow_hyphen_values(true),
    };
    let off = |name: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).overrides_with(name).overrides_with(flag.id()).hide(true)
    };
    std::iter::once(main).chain(offs.iter().map(|name| off(name))).collect()
}

/// The one letter of a short flag that has no more.
fn letter(name: &str) -> Option<char> {
    let mut letters = name.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    letters.next().is_none().then_some(letter)
}

/// What it does, other spellings that clap does not show, and its variable.
fn help(flag: &Flag) -> String {
    let mut text = flag.help.to_owned();
    let shown = |name: &&&str| letter(name).is_none();
    let others: Vec<&str> = flag.names[1..].iter().chain(flag.off).filter(shown).copied().collect();
    if !others.is_empty() {
        let _ = write!(text, " [also: {}]", others.join(", "));
    }
    if let Some(env) = flag.env {
        let _ = write!(text, " [env: {env}]");
    }
    if matches!(flag.effect, Effect::Later(_)) {
        text.push_str(" (without effect in this version)");
    }
    if flag.is_unavailable() {
        text.push_str(" (not available in this version)");
    }
    text
}

fn ignored() -> String {
    let names: Vec<&str> = flags().filter(|flag| matches!(flag.effect, Effect::Ignored)).map(Flag::name).collect();
    format!(
        "llama-server's flags about generating text are accepted, with a warning, and do nothing:\n{}",
        wrapped(&names.join(", "), 100)
    )
}

fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.len() > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out
}

/// The table as Markdown, for `docs/server.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    for group in [Group::Common, Group::Server] {
        let _ = write!(out, "\n### {}\n\n| flag | environment | |\n|---|---|---|\n", group.heading());
        for flag in flags().filter(|flag| !flag.hidden && flag.group == group) {
            let spellings: Vec<String> = flag.spellings().map(|(name, _)| format!("`{name}`")).collect();
            let value = match flag.takes {
                Takes::Nothing => String::new(),
                Takes::Value(name) => format!(" {name}"),
                Takes::When => " WHEN".to_owned(),
                Takes::Two(first, second) => format!(" {first} {second}"),
            };
            let env = flag.env.map_or_else(String::new, |env| format!("`{env}`"));
            let mut help = flag.help.replace('|', "\\|");
            if matches!(flag.effect, Effect::Later(_)) {
                help.push_str(" *(without effect in this version)*");
            }
            if flag.is_unavailable() {
                help.push_str(" *(not available in this version)*");
            }
            let _ = writeln!(out, "| {}{value} | {env} | {help} |", spellings.join(" "));
        }
    }
    let names = |effect: fn(&Effect) -> bool, shown: fn(&Flag) -> bool| {
        let names: Vec<String> =
            flags().filter(|flag| effect(&flag.effect) && shown(flag)).map(|f| format!("`{}`", f.name())).collect();
        wrapped(&names.join(", "), 118)
    };
    let _ = write!(
        out,
        "\n### Accepted without effect\n\nAbout generating text, which does not happen here:\n\n{}\n\nAbout things that are \
         not built yet and change no answer:\n\n{}\n",
        names(|effect| matches!(effect, Effect::Ignored), |_| true),
        names(|effect| matches!(effect, Effect::Later(_)), |flag| flag.hidden),
    );
    let _ = write!(
        out,
        "\n### Refused\n\nThey would change what a model computes, or are about guessing text ahead:\n\n{}\n",
        names(|effect| matches!(effect, Effect::Foreign), |_| true)
    );
    out
}
