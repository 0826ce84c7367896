//! What a flag is: everything about it in one value.

use super::Settings;

/// A flag of the command line. Parsing, help, manual page, completions and the table in `docs/server.md` all come from
/// it.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its spellings. The first is the long one that messages use.
    pub names: &'static [&'static str],
    /// Spellings that switch it off.
    pub off: &'static [&'static str],
    /// The environment variable that stands for it when the command line does not mention it.
    pub env: Option<&'static str>,
    /// Whether that variable is read by whoever needs the value, and not here.
    pub env_is_read_elsewhere: bool,
    /// What follows it.
    pub takes: Takes,
    /// Where help lists it.
    pub group: Group,
    /// What it does, for people.
    pub help: &'static str,
    /// Whether help leaves it out.
    pub hidden: bool,
    /// Whether several of it add up; otherwise the last one counts.
    pub adds_up: bool,
    /// What becomes of it.
    pub effect: Effect,
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: it is on or off.
    Nothing,
    /// A value.
    Value(&'static str),
    /// `on`, `off` or `auto`; older llama.cpp releases have it without a value, which means `on`.
    When,
    /// Two values.
    Two(&'static str, &'static str),
}

/// How llama-server's help orders flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Flags that all programs of llama.cpp share.
    Common,
    /// How text is generated.
    Sampling,
    /// How text is guessed ahead.
    Speculative,
    /// Flags of the server.
    Server,
}

/// Stores a flag's value (`on` or `off` if it takes none), or says what is wrong with it.
pub type Set = fn(&mut Settings, &str) -> Result<(), Problem>;

/// Checks a value, and says whether it asks for something that is not there.
pub type Check = fn(&str) -> Result<bool, Problem>;

/// Why a flag's value is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It makes no sense; says what would.
    Value(String),
    /// What it asks for is not built yet, and doing as if it were not there would surprise.
    Unavailable,
}

impl From<String> for Problem {
    fn from(expected: String) -> Self {
        Self::Value(expected)
    }
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy)]
pub enum Effect {
    /// Its value is stored.
    Set(Set),
    /// Its value is checked. What it would do changes no answer and is not built yet: accepted with a warning.
    Later(Check),
    /// It is about generating text, which does not happen here: accepted with a warning.
    Ignored,
    /// Nothing about it is built, and doing as if it were not there would surprise: refused.
    Unavailable,
    /// llama-server has it, and it changes what a model computes in a way that nothing here can follow: refused like an
    /// unknown one.
    Foreign,
}

impl Group {
    /// llama-server's heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Common => "Common params",
            Self::Sampling => "Sampling params",
            Self::Speculative => "Speculative params",
            Self::Server => "Server params",
        }
    }
}

impl Flag {
    const fn new(names: &'static [&'static str], takes: Takes, help: &'static str, effect: Effect) -> Self {
        Self {
            names,
            off: &[],
            env: None,
            env_is_read_elsewhere: false,
            takes,
            group: Group::Common,
            help,
            hidden: false,
            adds_up: false,
            effect,
        }
    }

    /// A flag with a value, which `set` stores.
    pub(super) const fn value(
        names: &'static [&'static str],
        value: &'static str,
        help: &'static str,
        set: Set,
    ) -> Self {
        Self::new(names, Takes::Value(value), help, Effect::Set(set))
    }

    /// A flag without a value.
    pub(super) const fn switch(names: &'static [&'static str], help: &'static str, set: Set) -> Self {
        Self::new(names, Takes::Nothing, help, Effect::Set(set))
    }

    /// A flag that is `on`, `off` or `auto`.
    pub(super) const fn when(names: &'static [&'static str], help: &'static str, set: Set) -> Self {
        Self::new(names, Takes::When, help, Effect::Set(set))
    }

    /// A flag of llama-server's that is accepted and does nothing.
    pub(super) const fn ignored(names: &'static [&'static str], takes: Takes, group: Group) -> Self {
        Self::new(names, takes, "", Effect::Ignored).hide().of(group)
    }

    /// A flag of llama-server's that is refused.
    pub(super) const fn foreign(names: &'static [&'static str], takes: Takes, group: Group) -> Self {
        Self::new(names, takes, "", Effect::Foreign).hide().of(group)
    }

    /// A flag of which nothing is built yet.
    pub(super) const fn unavailable(names: &'static [&'static str], takes: Takes, help: &'static str) -> Self {
        Self::new(names, takes, help, Effect::Unavailable)
    }

    /// A flag that is checked and does nothing yet.
    pub(super) const fn later(names: &'static [&'static str], takes: Takes, help: &'static str, check: Check) -> Self {
        Self::new(names, takes, help, Effect::Later(check))
    }

    pub(super) const fn env(mut self, name: &'static str) -> Self {
        self.env = Some(name);
        self
    }

    pub(super) const fn env_read_elsewhere(mut self, name: &'static str) -> Self {
        self.env_is_read_elsewhere = true;
        self.env(name)
    }

    pub(super) const fn off(mut self, names: &'static [&'static str]) -> Self {
        self.off = names;
        self
    }

    pub(super) const fn of(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    pub(super) const fn adding_up(mut self) -> Self {
        self.adds_up = true;
        self
    }

    pub(super) const fn hide(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// The spelling that messages use.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// What is left of it where dashes are not written: `ctx-size`.
    pub fn id(&self) -> &'static str {
        self.name().trim_start_matches('-')
    }

    /// Whether every value is refused because nothing about it is built.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.effect, Effect::Unavailable)
    }

    /// All spellings; the second part says whether it switches on.
    pub fn spellings(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.names.iter().map(|name| (*name, true)).chain(self.off.iter().map(|name| (*name, false)))
    }

    /// The variable of which llama.cpp takes the mere presence for "off".
    pub fn off_env(&self) -> Option<String> {
        let env = self.env.filter(|_| !self.off.is_empty())?;
        Some(env.replacen("LLAMA_ARG_", "LLAMA_ARG_NO_", 1)).filter(|name| name != env)
    }
}
