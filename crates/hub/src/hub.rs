//! The door: options in, files out.

use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::fetch_model::ModelFetch;
use crate::fetch_url::fetch_url;
use crate::options::{DEFAULT_ENDPOINT, HubOptions};
use crate::progress::ProgressCallback;
use crate::request::ModelRequest;
use crate::url::Url;

/// A hub to fetch from, and the caches to keep files in.
#[derive(Debug)]
pub struct Hub {
    pub(crate) options: HubOptions,
    pub(crate) endpoint: Url,
    pub(crate) client: Client,
}

/// A model, whole, on the disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct FetchedModel {
    /// The model's parts in order; one if it is not split. Parts lie beside each other under their own names.
    pub parts: Vec<FetchedFile>,
    /// The projector, if one was wanted and there is one.
    pub projector: Option<FetchedFile>,
    /// The commit that the files are of, for callers that record what they run; none for a plain URL.
    pub commit: Option<String>,
    /// Why nobody could be asked whether these files are still the right ones: they are what the cache held. It has
    /// been logged as a warning; this is for callers that act on it.
    pub unchecked: Option<Error>,
}

/// A file, whole, on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchedFile {
    /// Where it is, under the name that it has in the repository or the URL.
    pub path: PathBuf,
    /// Its name in the repository, with its folders, or in the URL.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
}

impl FetchedModel {
    /// The file to open; of a split model the first part.
    pub fn path(&self) -> &Path {
        &self.parts.first().expect("a model has at least one part").path
    }
}

impl Hub {
    /// A hub. No connection is made yet.
    ///
    /// # Errors
    /// If the endpoint is not an address, the user agent is not visible ASCII, or (unless offline) a proxy's address is
    /// not one of an HTTP proxy.
    pub fn new(options: HubOptions) -> Result<Self> {
        let endpoint = options.endpoint_url()?;
        let client = Client::new(&options, &endpoint)?;
        if let Some(fault) = options.token_fault() {
            tracing::warn!("{fault}; going on without a token");
        }
        Ok(Self { options, endpoint, client })
    }

    /// What the hub was made with.
    pub fn options(&self) -> &HubOptions {
        &self.options
    }

    /// Reads what a person names: `user/repo` or `user/repo:quant`, or in place of the repository the address of its
    /// page on this hub or on `huggingface.co`.
    ///
    /// # Errors
    /// If it is not of this form.
    pub fn model_request(&self, text: &str) -> Result<ModelRequest> {
        ModelRequest::parse_for(text, &[&self.options.endpoint, DEFAULT_ENDPOINT])
    }

    /// Finds a model of a repository in the cache, or fetches what is missing of it.
    ///
    /// The hub is asked once for the list of files, even if all are there: that is how a newer version is noticed. It
    /// is not asked when [`HubOptions::offline`] is set, nor for one file of a full commit hash that the cache holds.
    /// If it cannot be asked, what the cache holds is used and [`FetchedModel::unchecked`] says why.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind). What had arrived is kept and gone on from next time, unless it is corrupt.
    pub fn fetch_model(&self, request: &ModelRequest, on_progress: ProgressCallback<'_>) -> Result<FetchedModel> {
        let fetched = ModelFetch::new(self, request)?.run(on_progress);
        fetched.map_err(|error| error.with_cache_advice(self.options.cache_variable()))
    }

    /// Finds the file of a plain URL in the cache, or fetches it. A URL of one part of a split model stands for all.
    ///
    /// The server is asked whether the file has changed. If it cannot be asked, what the cache holds is used and
    /// [`FetchedModel::unchecked`] says why. The token is sent only where the URL is one of the endpoint.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind). What had arrived is kept and gone on from next time, unless it is corrupt.
    pub fn fetch_url(&self, url: &str, on_progress: ProgressCallback<'_>) -> Result<FetchedModel> {
        let fetched = fetch_url(self, url, on_progress);
        fetched.map_err(|error| error.with_cache_advice(self.options.url_cache_variable()))
    }
}
