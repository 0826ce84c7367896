//! From a request to files of the shared cache: ask what there is, choose, fetch what is missing.

use std::path::PathBuf;

use ureq::http::Method;

use crate::blob_cache::BlobCache;
use crate::choose::{Chosen, NotChosen, choose};
use crate::choose_cached::{CachedChoice, choose_cached, warning_of_default};
use crate::client::{HttpRequest, bare_etag};
use crate::disk;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::{FetchedFile, FetchedModel, Hub};
use crate::listing::{Etag, Listing, RepoFile};
use crate::lock::Lock;
use crate::patience::Tries;
use crate::progress::{ProgressCallback, Reporter};
use crate::refusal::{OFFLINE, Subject, files_page, refusal};
use crate::request::{Choice, ModelRequest, is_commit};
use crate::text::Foreign;
use crate::transfer::{Transfer, Wanted};
use crate::url::Url;

/// One request on its way.
pub(crate) struct ModelFetch<'a> {
    hub: &'a Hub,
    request: &'a ModelRequest,
    cache: BlobCache,
    /// The repository's page, for people.
    page: Url,
}

impl<'a> ModelFetch<'a> {
    pub(crate) fn new(hub: &'a Hub, request: &'a ModelRequest) -> Result<Self> {
        let repo = request.repo();
        let page = hub.endpoint.with_segments([repo.owner(), repo.name()])?;
        Ok(Self { hub, request, cache: BlobCache::new(&hub.options.cache_dir, repo), page })
    }

    pub(crate) fn run(&self, on_progress: ProgressCallback<'_>) -> Result<FetchedModel> {
        if self.hub.options.offline {
            let (model, warnings) =
                self.find_in_cache("the hub was not asked").map_err(|missing| self.offline(&missing))?;
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            return Ok(model);
        }
        if let Some(model) = self.pinned() {
            return Ok(model);
        }
        let mut reporter = Reporter::new(on_progress, 1, None);
        reporter.begin(0, &self.request.to_string(), None, 0);
        let listing = match self.list_or_find(&mut reporter)? {
            Asked::Listing(listing) => listing,
            Asked::Found(model) => return Ok(model),
        };
        let chosen = self.choose(&listing).map_err(|not_chosen| {
            let files = files_page(&self.page, self.request.revision());
            let fault = format!("{} has {not_chosen} (see {files})", self.request.repo());
            Error::new(ErrorKind::FileNotFound, fault)
        })?;
        if *self.request.choice() == Choice::Default {
            let model = &listing.files[chosen.parts[0]].path;
            if let Some(warning) = warning_of_default(self.request.repo(), &listing.paths(), model) {
                tracing::warn!("{warning}");
            }
        }
        self.fetch(&listing, &chosen, reporter)
    }

    fn choose(&self, listing: &Listing) -> Result<Chosen, NotChosen> {
        choose(&listing.paths(), self.request.choice(), self.request.wants_projector())
    }

    /// One file of one commit is the same for ever, so nobody need be asked about it.
    fn pinned(&self) -> Option<FetchedModel> {
        let is_one_file = matches!(self.request.choice(), Choice::File(_)) && !self.request.wants_projector();
        if is_one_file && is_commit(self.request.revision()) { Some(self.find_in_cache("").ok()?.0) } else { None }
    }

    /// What is asked for, of what is there, and warnings if that may be something else than a hub would have sent.
    /// `why` says why none did.
    fn find_in_cache(&self, why: &str) -> Result<(FetchedModel, Vec<String>), Missing> {
        let listing = self.cache.listing(self.request.revision()).ok_or(Missing::Repo)?;
        let listed = self.cache.listed(&listing.commit);
        let CachedChoice { chosen, warnings } =
            choose_cached(self.request, &listing.paths(), listed.as_deref(), why).map_err(Missing::File)?;
        let file = |index: &usize| {
            let file = &listing.files[*index];
            FetchedFile {
                path: self.cache.pointer(&listing.commit, &file.path),
                name: file.path.clone(),
                bytes: file.size.unwrap_or(0),
            }
        };
        let model = FetchedModel {
            parts: chosen.parts.iter().map(file).collect(),
            projector: chosen.projector.as_ref().map(file),
            commit: Some(listing.commit.clone()),
            unchecked: None,
        };
        Ok((model, warnings))
    }

    fn offline(&self, missing: &Missing) -> Error {
        let folder = self.cache.folder().display();
        let what = match missing {
            Missing::Repo => format!("{} at {} is not in the cache", self.request, Foreign(self.request.revision())),
            Missing::File(not_chosen) => format!("{} is not in the cache, which has {not_chosen}", self.request),
        };
        let fault = format!("{what} ({folder}), and {OFFLINE}");
        let repo = self.request.repo();
        Error::new(ErrorKind::Offline, fault).with_advice(format_args!(
            "start once without that, or run \"hf download {repo}\" where there is a network"
        ))
    }

    /// The hub's list, or else what the cache holds. Only where the cache is of no help is the hub asked more than
    /// once: whoever starts a server without a network should not have to wait for it.
    fn list_or_find(&self, reporter: &mut Reporter<'_>) -> Result<Asked> {
        let mut tries = Tries::for_first_request(&self.hub.options.patience);
        loop {
            let failure = match self.list() {
                Ok(listing) => return Ok(Asked::Listing(listing)),
                Err(failure) => failure,
            };
            let may_be_found = !matches!(failure.kind(), ErrorKind::RevisionNotFound | ErrorKind::InvalidRequest);
            if may_be_found && let Ok((mut model, warnings)) = self.find_in_cache("the hub gave no list of its files") {
                let repo = self.request.repo();
                tracing::warn!("{}; going on with the files of {repo} that the cache holds", failure.fault());
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                model.unchecked = Some(failure);
                return Ok(Asked::Found(model));
            }
            tries.after(failure, 0, 0, reporter)?;
        }
    }

    fn list(&self) -> Result<Listing> {
        let (repo, revision) = (self.request.repo(), self.request.revision());
        let segments = ["api", "models", repo.owner(), repo.name(), "revision", revision];
        let url = self.hub.endpoint.with_segments(segments)?.with_query("blobs=true")?;
        let mut response =
            self.hub.client.send(&HttpRequest { method: Method::GET, url: &url, headers: Vec::new() })?;
        if response.status != 200 {
            return Err(refusal(&response, Subject::Repo { repo, revision, file: None, page: &self.page }));
        }
        let longest = self.hub.options.timeouts.response.saturating_mul(2);
        Listing::read(&mut response, &repo.to_string(), longest).map_err(|error| match error.kind() {
            ErrorKind::Protocol => {
                let endpoint = &self.hub.endpoint;
                let advice =
                    format!("check that {endpoint} is a hub (HF_ENDPOINT), and that the network wants no login");
                error.with_advice(advice)
            }
            _ => error,
        })
    }

    fn fetch(&self, listing: &Listing, chosen: &Chosen, reporter: Reporter<'_>) -> Result<FetchedModel> {
        let indexes = || chosen.parts.iter().chain(&chosen.projector).copied();
        let files: Vec<&RepoFile> = indexes().map(|index| &listing.files[index]).collect();
        self.check_room(listing, &files)?;
        let total = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size?));
        let mut reporter = reporter.for_files(files.len(), total);
        let mut fetched = Vec::with_capacity(files.len());
        let mut bytes_before = 0;
        for (index, file) in files.iter().enumerate() {
            reporter.begin(index, &file.path, file.size, bytes_before);
            let file = self.fetch_file(&listing.commit, file, &mut reporter)?;
            bytes_before += file.bytes;
            fetched.push(file);
        }
        // For whoever looks without a network. A cache that cannot be written to has been of use all the same.
        if let Err(error) = self.cache.set_ref(self.request.revision(), &listing.commit) {
            tracing::warn!("the cache does not remember the revision: {error}");
        }
        if let Err(error) = self.cache.keep_listed(listing) {
            tracing::info!("the cache does not remember what {} has: {error}", self.request.repo());
        }
        let projector = if chosen.projector.is_some() { fetched.pop() } else { None };
        Ok(FetchedModel { parts: fetched, projector, commit: Some(listing.commit.clone()), unchecked: None })
    }

    /// Holds all that is to come against the room there is, before the first of many gigabytes.
    fn check_room(&self, listing: &Listing, files: &[&RepoFile]) -> Result<()> {
        let missing = files.iter().filter(|file| self.cache.find(&listing.commit, file).is_none());
        let needed = missing.fold(0_u64, |sum, file| {
            let is_there = file.etag.as_ref().is_some_and(|etag| self.cache.has_blob(etag, file));
            let arrived = file.etag.as_ref().map_or(0, |etag| self.cache.incomplete_bytes(etag));
            let size = if is_there { 0 } else { file.size.unwrap_or(0) };
            sum.saturating_add(size.saturating_sub(arrived))
        });
        if needed == 0 {
            return Ok(());
        }
        disk::check_room(&self.request.to_string(), needed, self.cache.folder()).map_err(|full| {
            // What cannot be written to often says that it has no room, too.
            let prepared = self.cache.prepare();
            self.cache.tidy();
            prepared.err().unwrap_or(full)
        })
    }

    fn fetch_file(&self, commit: &str, file: &RepoFile, reporter: &mut Reporter<'_>) -> Result<FetchedFile> {
        let fetched =
            |path: PathBuf| FetchedFile { bytes: disk::file_size(&path).unwrap_or(0), path, name: file.path.clone() };
        if let Some(path) = self.cache.find(commit, file) {
            return Ok(fetched(path));
        }
        let segments = [self.request.repo().owner(), self.request.repo().name(), "resolve", commit];
        let url = self.hub.endpoint.with_segments(segments.into_iter().chain(file.path.split('/')))?;
        let subject = Subject::Repo {
            repo: self.request.repo(),
            revision: self.request.revision(),
            file: Some(&file.path),
            page: &self.page,
        };
        let named = match &file.etag {
            Some(_) => file.clone(),
            None => self.ask_for_etag(&url, file, subject, reporter)?,
        };
        let etag = named.etag.as_ref().expect("an etag was listed or asked for");
        let lock = Lock::take(&self.cache.lock_path(etag), reporter)?;
        if !self.cache.has_blob(etag, &named) {
            self.cache.warn_of_damage(etag, &named);
            self.cache.prepare().inspect_err(|_| self.cache.tidy())?;
            let incomplete = self.cache.incomplete(etag, &lock);
            let transfer = Transfer {
                client: &self.hub.client,
                patience: &self.hub.options.patience,
                url: &url,
                subject,
                what: &format!("{} of {}", Foreign(&file.path), self.request.repo()),
                wanted: Wanted {
                    size: named.size,
                    checksum: named.checksum.clone(),
                    etag: Some(etag.clone()),
                    is_promised: true,
                    validator: None,
                },
                part: &incomplete,
                keep_validator: &mut |_| Ok(()),
            };
            let arrived = transfer.run(reporter).inspect_err(|_| {
                lock.let_go_of(&incomplete);
                disk::remove_empty(&incomplete);
                self.cache.tidy();
            })?;
            tracing::info!("fetched {} of {}, {} bytes", file.path, self.request.repo(), arrived.bytes);
            self.cache.accept(etag, &incomplete)?;
        }
        self.cache.link(commit, &file.path, etag).map(fetched)
    }

    /// Asks for what the list did not say: how the contents are called, and how large they are. A mirror of the hub may
    /// know only names.
    fn ask_for_etag(
        &self,
        url: &Url,
        file: &RepoFile,
        subject: Subject<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<RepoFile> {
        let mut tries = Tries::new(&self.hub.options.patience);
        loop {
            let asked = self.hub.client.send(&HttpRequest { method: Method::HEAD, url, headers: Vec::new() });
            let failure = match asked {
                Ok(response) if matches!(response.status, 200 | 301 | 302 | 303 | 307 | 308) => {
                    let own = response.header("etag").map(bare_etag);
                    let Some(etag) = response.linked.etag.as_deref().or(own).and_then(Etag::new) else {
                        let advice = format!("check that {} is a hub (HF_ENDPOINT)", self.hub.endpoint);
                        let fault = format!("{url} is sent without an ETag");
                        return Err(Error::new(ErrorKind::Protocol, fault).with_advice(advice));
                    };
                    // Some servers say of every HEAD how much they send with it: nothing.
                    let own = response.content_length().filter(|size| response.status == 200 && *size > 0);
                    let size = file.size.or(response.linked.size).or(own);
                    let checksum = etag.sha256();
                    return Ok(RepoFile { path: file.path.clone(), size, etag: Some(etag), checksum });
                }
                Ok(response) => refusal(&response, subject),
                Err(failure) => failure,
            };
            tries.after(failure, 0, 0, reporter)?;
        }
    }
}

/// What came of asking the hub.
enum Asked {
    Listing(Listing),
    /// It could not be asked, and this is what the cache holds.
    Found(FetchedModel),
}

/// What the cache lacks.
enum Missing {
    Repo,
    File(NotChosen),
}
