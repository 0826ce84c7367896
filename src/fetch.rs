//! Models that are elsewhere: found, downloaded once, and opened like any other file.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clef_hub::{Choice, Hub, HubOptions, Progress, Token};

use crate::ModelFlags;

/// Where a model comes from if it is no local file.
#[derive(Clone, Default)]
pub struct FetchFlags {
    /// `user/model[:quant]` on the hub.
    pub repository: Option<String>,
    /// A file of the repository.
    pub file: Option<String>,
    /// The hub's token.
    pub token: Option<String>,
    /// The address of a model's file.
    pub url: Option<String>,
    /// The address of a projector's file.
    pub projector_url: Option<String>,
    /// Whether nobody is asked.
    pub offline: bool,
}

impl std::fmt::Debug for FetchFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is a secret.
        f.debug_struct("FetchFlags")
            .field("repository", &self.repository)
            .field("file", &self.file)
            .field("url", &self.url)
            .field("projector_url", &self.projector_url)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// Files that are here now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The model; none if it is a local file anyway.
    pub model: Option<PathBuf>,
    /// The projector, if one was asked for or came with the model.
    pub projector: Option<PathBuf>,
    /// What replies call a model of the hub, rather than by a path in a cache.
    pub name: Option<String>,
}

impl ModelFlags {
    /// Whether something is to be downloaded, or found among what was.
    pub fn fetches(&self) -> bool {
        self.fetch.repository.is_some() || self.fetch.url.is_some() || self.fetches_projector()
    }

    fn fetches_projector(&self) -> bool {
        self.fetch.projector_url.is_some() && self.sees && self.projector.is_none()
    }

    /// Sees that the flags name one model.
    ///
    /// # Errors
    /// If they name several, or a file of none.
    pub fn check_source(&self) -> anyhow::Result<()> {
        let sources = [self.model.is_some(), self.fetch.repository.is_some(), self.fetch.url.is_some()];
        if sources.into_iter().filter(|&is_given| is_given).count() > 1 {
            bail!("give one of --model, --hf-repo and --model-url");
        }
        if self.fetch.file.is_some() && self.fetch.repository.is_none() {
            bail!("--hf-file names a file of --hf-repo, which is not given");
        }
        Ok(())
    }

    /// Fetches what the flags name. `progress` is told how far it is, and stops it by breaking off.
    ///
    /// # Errors
    /// If the flags make no sense, or something is not to be had.
    pub fn fetch(&self, progress: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>) -> anyhow::Result<Fetched> {
        self.check_source()?;
        if let Some(model) = &self.model {
            // Before a projector is fetched for it.
            std::fs::File::open(model).with_context(|| format!("cannot open {}", model.display()))?;
        }
        let mut options = HubOptions::from_environment(|name| std::env::var_os(name))?;
        options.offline |= self.fetch.offline;
        options.user_agent = concat!("clef-server/", env!("CARGO_PKG_VERSION")).to_owned();
        if let Some(token) = &self.fetch.token {
            options.token = Some(Token::new(token)?);
        }
        let hub = Hub::new(options)?;
        let mut fetched = Fetched { model: None, projector: None, name: None };
        if let Some(repository) = &self.fetch.repository {
            let mut request = hub.model_request(repository)?;
            if let Some(file) = &self.fetch.file {
                request = request.with_file(file)?;
            }
            if !self.sees || self.projector.is_some() || self.fetch.projector_url.is_some() {
                request = request.without_projector();
            }
            fetched.name = Some(match request.choice() {
                Choice::Default => request.repo().to_string(),
                Choice::Quant(quant) => format!("{}:{quant}", request.repo()),
                Choice::File(file) => format!("{}/{file}", request.repo()),
            });
            let found = hub.fetch_model(&request, progress)?;
            fetched.model = Some(found.path().to_owned());
            fetched.projector = found.projector.map(|file| file.path);
        }
        if let Some(url) = &self.fetch.url {
            fetched.model = Some(hub.fetch_url(url, progress).context("the model")?.path().to_owned());
        }
        if let Some(url) = self.fetch.projector_url.as_ref().filter(|_| self.fetches_projector()) {
            fetched.projector = Some(hub.fetch_url(url, progress).context("the projector")?.path().to_owned());
        }
        Ok(fetched)
    }

    /// These flags for what was fetched, as if its files had been named.
    pub fn with(mut self, fetched: Fetched) -> Self {
        if fetched.model.is_some() {
            self.alias = self.alias.or(fetched.name);
            self.model = fetched.model;
        }
        self.projector = self.projector.or(fetched.projector);
        self.fetch = FetchFlags::default();
        self
    }
}
