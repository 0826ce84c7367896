//! Who may ask: a shared key, compared in constant time.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use subtle::{Choice, ConstantTimeEq};

use crate::config::ApiKey;
use crate::error::{Failure, FailureKind};

/// Lets a request pass that shows one of the keys as `Authorization: Bearer KEY`, `Authorization: KEY` or
/// `X-Api-Key: KEY`; every request if there are no keys.
pub(crate) fn check(keys: &[ApiKey], headers: &HeaderMap) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    let bearer = headers.get_all(AUTHORIZATION).iter().map(|value| without_scheme(value.as_bytes()));
    let plain = headers.get_all("x-api-key").iter().map(|value| value.as_bytes().trim_ascii());
    let mut shown = bearer.chain(plain).peekable();
    if shown.peek().is_none() {
        return Err(Failure::new(FailureKind::Unauthorized, "no API key was given"));
    }
    // Every key is compared, so that time does not tell which one came close. A key's length is no secret.
    let is_known = |shown: &[u8]| keys.iter().fold(Choice::from(0), |found, key| found | key.as_bytes().ct_eq(shown));
    let found = shown.fold(Choice::from(0), |found, shown| found | is_known(shown));
    if bool::from(found) {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Unauthorized, "Invalid API Key"))
}

fn without_scheme(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    fn passes(headers: &[(&'static str, &str)]) -> bool {
        let keys = ["k1", "a longer key"].map(|key| ApiKey::new(key).unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        check(&keys, &map).is_ok()
    }

    #[test]
    fn a_key_is_taken_in_every_form_and_nothing_else_is() {
        for right in [
            &[("authorization", "Bearer k1")][..],
            &[("authorization", "bearer  a longer key ")],
            &[("authorization", "k1")],
            &[("x-api-key", "k1")],
            &[("authorization", "Bearer wrong"), ("x-api-key", "k1")],
            &[("authorization", "wrong"), ("authorization", "k1")],
        ] {
            assert!(passes(right), "{right:?}");
        }
        for wrong in [
            &[][..],
            &[("authorization", "")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer k")],
            &[("authorization", "Bearer k11")],
            &[("authorization", "Basic k1")],
            &[("authorization", "Bearer K1")],
            &[("x-api-key", "Bearer k1")],
        ] {
            assert!(!passes(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn without_keys_everybody_passes() {
        assert!(check(&[], &HeaderMap::new()).is_ok());
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", ApiKey::new("secret")), "Some(ApiKey(..))");
        assert_eq!(ApiKey::new("  "), None);
    }
}
