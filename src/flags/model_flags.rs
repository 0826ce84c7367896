//! How a model is opened, as flags say it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use clef_api::{CacheType, FlashAttention, ModelOptions, Options, Override, Placement, Repack};

use crate::fetch::FetchFlags;
use crate::flags::{self, Flag, Settings};

/// From here on `--batch-size` is no limit on any number of tokens that is chosen by the device.
const UNLIMITING_BATCH: u32 = 512;

/// How the model is opened. `clef`'s commands have these flags by flattening this into theirs.
#[derive(Debug, Clone)]
pub struct ModelFlags {
    /// The file; none for the toy that comes with the program.
    pub model: Option<PathBuf>,
    /// What is fetched instead of a local file.
    pub fetch: FetchFlags,
    /// The head's file; none for the model's own.
    pub head: Option<PathBuf>,
    /// The projector's file; none for text only.
    pub projector: Option<PathBuf>,
    /// Whether the projector is used if one is named.
    pub sees: bool,
    /// Whether it is placed on a GPU.
    pub projector_offload: bool,
    /// Fewest tokens of an image; none for the reference's.
    pub image_min_tokens: Option<u32>,
    /// Most tokens of an image; none for the reference's.
    pub image_max_tokens: Option<u32>,
    /// What replies call it; none for the file's path.
    pub alias: Option<String>,
    /// Most tokens of a prompt; 0 for what the model was trained with.
    pub ctx_size: u32,
    /// Upper limit on `ubatch_size`.
    pub batch_size: u32,
    /// Tokens computed at once; none to choose by the device.
    pub ubatch_size: Option<u32>,
    /// Requests read at once; none for the default.
    pub parallel: Option<u32>,
    /// Bytes for states that were read; none for the default.
    pub cache_bytes: Option<u64>,
    /// CPU threads; none for what reads fastest.
    pub threads: Option<u32>,
    /// CPU threads for prompts; goes before `threads`.
    pub threads_batch: Option<u32>,
    /// Layers on the GPU; negative for all.
    pub gpu_layers: i32,
    /// Where the model is put.
    pub placement: Placement,
    /// Metadata in place of the file's.
    pub overrides: Vec<Override>,
    /// Whether a model that needs more memory than is available is refused.
    pub must_fit: bool,
    /// When attention runs fused.
    pub flash_attention: FlashAttention,
    /// Element type of cached keys; none for the default.
    pub cache_keys: Option<CacheType>,
    /// Element type of cached values; none for the default.
    pub cache_values: Option<CacheType>,
    /// Whether weights are rewritten into other layouts.
    pub repack: Repack,
    /// Whether weights are checked while loading.
    pub check_tensors: bool,
    /// Whether prompts name questions `q1`, `q2`, ...
    pub neutral_ids: bool,
}

impl Default for ModelFlags {
    fn default() -> Self {
        let defaults = ModelOptions::default();
        Self {
            model: None,
            fetch: FetchFlags::default(),
            head: defaults.head,
            projector: defaults.projector,
            sees: true,
            projector_offload: defaults.projector_offload,
            image_min_tokens: defaults.image_min_tokens,
            image_max_tokens: defaults.image_max_tokens,
            alias: None,
            ctx_size: defaults.context_tokens,
            batch_size: 2048,
            ubatch_size: defaults.chunk_tokens,
            parallel: None,
            cache_bytes: defaults.cache_bytes,
            threads: None,
            threads_batch: None,
            gpu_layers: defaults.gpu_layers,
            placement: defaults.placement,
            overrides: defaults.overrides,
            must_fit: defaults.must_fit,
            flash_attention: defaults.flash_attention,
            cache_keys: None,
            cache_values: None,
            repack: defaults.repack,
            check_tensors: defaults.check_tensors,
            neutral_ids: defaults.neutral_ids,
        }
    }
}

impl ModelFlags {
    /// The options that they stand for.
    pub fn options(&self) -> Options {
        let model = ModelOptions {
            context_tokens: self.ctx_size,
            chunk_tokens: match self.ubatch_size {
                Some(tokens) => Some(tokens.min(self.batch_size)),
                None => (self.batch_size < UNLIMITING_BATCH).then_some(self.batch_size),
            },
            parallel: self.parallel.unwrap_or(ModelOptions::default().parallel),
            cache_bytes: self.cache_bytes,
            threads: self.threads_batch.or(self.threads),
            head: self.head.clone(),
            projector: self.projector.clone().filter(|_| self.sees),
            projector_offload: self.projector_offload,
            image_min_tokens: self.image_min_tokens,
            image_max_tokens: self.image_max_tokens,
            gpu_layers: if self.placement.devices.as_ref().is_some_and(Vec::is_empty) { 0 } else { self.gpu_layers },
            placement: self.placement.clone(),
            overrides: self.overrides.clone(),
            must_fit: self.must_fit,
            flash_attention: self.flash_attention,
            cache_keys: self.cache_keys,
            cache_values: self.cache_values,
            repack: self.repack,
            kernels_file: kernels_file(|name| std::env::var_os(name)),
            check_tensors: self.check_tensors,
            neutral_ids: self.neutral_ids,
        };
        Options { model, alias: self.alias.clone(), ..Options::default() }
    }
}

/// Where the user's programs keep what can be found out again; none without a home.
fn kernels_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // Relative ones are to be ignored, says the XDG Base Directory Specification.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = |below: &str| folder("HOME").map(|home| home.join(below));
    let caches = if cfg!(target_os = "macos") {
        home("Library/Caches")
    } else {
        folder("XDG_CACHE_HOME").or_else(|| home(".cache"))
    };
    caches.map(|caches| caches.join("clef-server/kernels.json"))
}

/// How a file that is an argument is opened: the flags but for those that say which model.
#[derive(Debug, Clone)]
pub struct FileFlags(pub ModelFlags);

/// What clap calls the flags about the model, for arguments that exclude them.
pub fn model_flag_ids() -> impl Iterator<Item = &'static str> {
    flags::model_flags().map(Flag::id)
}

fn augment(command: Command, flags: impl Iterator<Item = &'static Flag>) -> Command {
    flags.fold(command, |command, flag| command.args(flags::arguments(flag, "Model")))
}

impl Args for ModelFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, flags::model_flags())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ModelFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = read(matches, flags::model_flags(), |name| std::env::var_os(name))?;
        flags.check_source().map_err(invalid)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FileFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, flags::opening_flags())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FileFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        read(matches, flags::opening_flags(), |name| std::env::var_os(name)).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The environment first, so that the command line goes before it.
fn read(
    matches: &ArgMatches,
    flags: impl Iterator<Item = &'static Flag> + Clone,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<ModelFlags, clap::Error> {
    let mut settings = Settings::default();
    let is_given = |flag: &Flag| given(matches, flag).is_some();
    flags::apply_environment(&mut settings, flags.clone(), is_given, variable).map_err(invalid)?;
    for flag in flags {
        if let Some(value) = given(matches, flag) {
            flags::apply(&mut settings, flag, &value, flag.name()).map_err(invalid)?;
        }
    }
    Ok(settings.model)
}

/// What the command line says about a flag: its value, or on or off.
fn given(matches: &ArgMatches, flag: &Flag) -> Option<String> {
    if flag.takes != flags::Takes::Nothing {
        // Several of those that add up are separated by commas.
        let values: Vec<&str> = matches.get_many::<String>(flag.id())?.map(String::as_str).collect();
        return Some(values.join(","));
    }
    flag.spellings().find_map(|(name, on)| {
        let id = name.strip_prefix("--")?;
        let is_set = matches.try_get_one::<bool>(id).ok().flatten().copied().unwrap_or(false);
        is_set.then(|| if on { "on" } else { "off" }.to_owned())
    })
}

fn invalid(error: impl std::fmt::Display) -> clap::Error {
    let text = error.to_string();
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, text.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(variables: &[(&str, &str)]) -> Option<PathBuf> {
        kernels_file(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn flags_that_add_up_do_so_in_clef_too() {
        let command = ModelFlags::augment_args(Command::new("clef"));
        let line =
            ["clef", "--override-kv", "a=int:1", "--main-gpu", "1", "--override-kv", "b=bool:true", "--main-gpu=2"];
        let flags = read(&command.get_matches_from(line), flags::model_flags(), |_| None).expect("sound");
        assert_eq!((flags.overrides.len(), flags.placement.main_gpu), (2, 2));
    }

    #[test]
    fn what_was_measured_is_kept_with_the_users_caches() {
        let home = if cfg!(target_os = "macos") { "/home/x/Library/Caches" } else { "/home/x/.cache" };
        let in_home = Some(Path::new(home).join("clef-server/kernels.json"));
        assert_eq!(file(&[("HOME", "/home/x")]), in_home);
        assert_eq!(file(&[("HOME", "/home/x"), ("XDG_CACHE_HOME", "")]), in_home);
        assert_eq!(file(&[("HOME", "/home/x"), ("XDG_CACHE_HOME", "cache")]), in_home);
        assert_eq!(file(&[]), None);
        assert_eq!(file(&[("HOME", "")]), None);
        if !cfg!(target_os = "macos") {
            let elsewhere = file(&[("HOME", "/home/x"), ("XDG_CACHE_HOME", "/var/cache/x")]);
            assert_eq!(elsewhere, Some("/var/cache/x/clef-server/kernels.json".into()));
        }
    }
}
