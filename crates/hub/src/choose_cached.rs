//! Which files are meant where no hub says what there is.
//!
//! A cache holds what somebody fetched, not what a repository has. A person who names no quantization is not to get
//! another one than yesterday, because only that one happens to be there, without being told. So:
//!
//! - What the hub listed of the same commit when it was last asked decides, as if it were asked now, if all of the
//!   model is in the cache. Then there is nothing to say.
//! - Otherwise the choice is made of what the cache holds, by the same rules. A warning names the file and its
//!   quantization, unless it is the one that would be preferred whatever else there is.
//! - A projector that is wanted and not there is warned of, unless it is known that there is none.

use crate::choose::{Chosen, DEFAULT_QUANT, NotChosen, choose, is_default, named_quant, others_than};
use crate::request::{Choice, ModelRequest, RepoId};
use crate::text::{Foreign, Names};

/// What was chosen, and what the person who asked should know of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CachedChoice {
    pub(crate) chosen: Chosen,
    pub(crate) warnings: Vec<String>,
}

/// Picks the files that a request means of those in the cache. `listed` is what the hub listed of the same commit, if
/// that is known, and `why` says why it is not asked now.
pub(crate) fn choose_cached(
    request: &ModelRequest,
    cached: &[&str],
    listed: Option<&[String]>,
    why: &str,
) -> Result<CachedChoice, NotChosen> {
    let (repo, choice, wants_projector) = (request.repo(), request.choice(), request.wants_projector());
    let index_of = |path: &str| cached.iter().position(|cached| *cached == path);
    let listed: Option<Vec<&str>> = listed.map(|listed| listed.iter().map(String::as_str).collect());
    let expected = listed.as_ref().and_then(|listed| Some((listed, choose(listed, choice, wants_projector).ok()?)));
    let mut warnings = Vec::new();

    let expected_parts = expected
        .as_ref()
        .and_then(|(listed, expected)| expected.parts.iter().map(|&part| index_of(listed[part])).collect());
    let mut chosen = match expected_parts {
        Some(parts) => Chosen { parts, projector: None },
        None => {
            let chosen = choose(cached, choice, false)?;
            let model = cached[chosen.parts[0]];
            let expected = expected.as_ref().map(|(listed, expected)| listed[expected.parts[0]]);
            warnings.extend(warning_of_model(request, model, expected, why));
            chosen
        }
    };
    if wants_projector {
        let model = Choice::File(cached[chosen.parts[0]].to_owned());
        let nearest = choose(cached, &model, true)?.projector;
        let expected = expected.as_ref().map(|(listed, expected)| expected.projector.map(|index| listed[index]));
        chosen.projector = match expected {
            Some(expected) => expected.and_then(|path| index_of(path).or(nearest)),
            None => nearest,
        };
        let found = chosen.projector.map(|index| cached[index]);
        warnings.extend(warning_of_projector(repo, found, expected, why));
    }
    Ok(CachedChoice { chosen, warnings })
}

/// What to say of a model that may not be the one that a hub would have sent.
fn warning_of_model(request: &ModelRequest, model: &str, expected: Option<&str>, why: &str) -> Option<String> {
    let used = described(model);
    match (request.choice(), expected) {
        (_, Some(expected)) => {
            Some(format!("{used} is used for {request}: {} is not in the cache, and {why}", described(expected)))
        }
        (Choice::Default, None) if !is_default(model) => Some(format!(
            "{used} is used for {request}: no quantization was named, {why}, and of what is in the cache this is the \
             nearest to {DEFAULT_QUANT}"
        )),
        _ => None,
    }
}

/// What to say of a projector that is not the expected one. Of what is expected it may be known that there is none.
fn warning_of_projector(
    repo: &RepoId,
    found: Option<&str>,
    expected: Option<Option<&str>>,
    why: &str,
) -> Option<String> {
    match (found, expected) {
        (Some(found), Some(Some(expected))) if found != expected => Some(format!(
            "{} is used as the projector of {repo}: {} is not in the cache, and {why}",
            Foreign(found),
            Foreign(expected)
        )),
        (None, Some(Some(expected))) => {
            Some(format!("no projector of {repo} is in the cache, where {} is missing, and {why}", Foreign(expected)))
        }
        (None, None) => Some(format!("no projector of {repo} is in the cache, and {why}: there may be one")),
        _ => None,
    }
}

/// What to say of a model that was chosen of a hub's list because the preferred one is not there. A repository of one
/// model leaves no choice.
pub(crate) fn warning_of_default(repo: &RepoId, paths: &[&str], model: &str) -> Option<String> {
    let others = others_than(paths, model);
    let is_worth_it = !is_default(model) && !others.is_empty();
    is_worth_it.then(|| {
        let used = described(model);
        format!("{repo} has no {DEFAULT_QUANT}: {used} is used; there are also {}", Names(&others))
    })
}

/// A file and its quantization.
fn described(path: &str) -> String {
    named_quant(path).map_or_else(|| Foreign(path).to_string(), |quant| format!("{} ({quant})", Foreign(path)))
}
